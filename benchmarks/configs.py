"""Loads every config file shipped with OpenCompass and AISBench, without those packages, and compares the values.

    python benchmarks/configs.py --reference-python /path/to/other/env/bin/python

The other environment has the two packages installed. Their config trees are copied to a temporary folder, so that this
Python finds the files and nothing else; the other Python loads the installed ones with its own loader. Values are
compared name by name, classes and functions by their dotted names.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

TREES = {
    'opencompass datasets': ('opencompass', 'configs/datasets'),
    'opencompass models': ('opencompass', 'configs/models'),
    'aisbench datasets': ('ais_bench', 'benchmark/configs/datasets'),
    'aisbench models': ('ais_bench', 'benchmark/configs/models'),
}
SAME_ORDER = {**os.environ, 'PYTHONHASHSEED': '0'}  # configs that go through a set
WHERE = (
    'import json; from importlib.util import find_spec; '
    "print(json.dumps({p: find_spec(p).submodule_search_locations[0] for p in ('opencompass', 'ais_bench')}))"
)


def canonical(value: Any, root: str) -> Any:
    """A value in a form that two Pythons with different classes, in different folders, can compare."""
    if isinstance(value, Mapping):
        return {'dict': [[repr(key), canonical(item, root)] for key, item in value.items()]}
    if isinstance(value, list):
        return [canonical(item, root) for item in value]
    if isinstance(value, tuple | set | frozenset):
        items = [canonical(item, root) for item in value]
        return {type(value).__name__: items if isinstance(value, tuple) else sorted(items, key=repr)}
    if isinstance(value, str):
        return value.replace(root, '<configs>')
    if value is None or isinstance(value, bool | int | float):
        return value
    return {'name': dotted(value)}


def dotted(value: Any) -> str:
    kind = type(value).__name__
    if kind in ('LazyObject', 'LazyAttr'):
        return str(value) if str(value) == value.module else f'{value.module}.{value}'
    if kind == 'Reference':
        return str(value.dotted)
    if hasattr(value, '__qualname__'):
        return f'{value.__module__}.{value.__qualname__}'
    return kind


def measure(load: Callable[[str], Mapping[str, Any]], root: Path, files: Iterable[str], keep: bool) -> dict[str, Any]:
    """Loads each file once; seconds are of loading alone."""
    report: dict[str, Any] = {}
    total = 0.0
    top = str(root.parent)
    for file in files:
        started = time.perf_counter()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                names = load(str(root / file))
        except (Exception, SystemExit) as error:  # whatever a loader raises is its answer for this file
            total += time.perf_counter() - started
            report[file] = {'error': f'{type(error).__name__}: {str(error).strip()[:300]}'}
            continue
        total += time.perf_counter() - started
        forms = {name: canonical(value, top) for name, value in names.items() if not name.startswith('_')}
        report[file] = {
            'names': {
                name: form if keep else hashlib.sha1(json.dumps(form).encode()).hexdigest()
                for name, form in forms.items()
                if not (isinstance(form, dict) and 'name' in form)
            }
        }
    return {'seconds': total, 'files': report}


def load_with_reference() -> Callable[[str], Mapping[str, Any]]:
    from mmengine.config import Config

    return lambda path: Config.fromfile(path)._to_lazy_dict()  # type: ignore[no-any-return]


def load_with_rolecall() -> Callable[[str], Mapping[str, Any]]:
    from rolecall.experiment.opening.loading import load_config

    return lambda path: load_config(path, resolve=_only_read_base)


def _only_read_base(dotted: str) -> object | None:
    from rolecall.sources.config.finder import read_base

    return read_base if dotted.endswith('.read_base') else None


def work(loader: str, root: Path, keep: bool) -> None:
    """One loader over the files named on standard input; the report goes to standard output."""
    files = json.load(sys.stdin)
    load = load_with_reference() if loader == 'reference' else load_with_rolecall()
    json.dump(measure(load, root, files, keep), sys.stdout)


def ask(python: str, loader: str, root: Path, files: list[str], *, keep: bool = False) -> dict[str, Any]:
    command = [python, __file__, '--work', loader, '--root', str(root), *(['--keep'] if keep else [])]
    done = subprocess.run(command, input=json.dumps(files), capture_output=True, text=True, check=False, env=SAME_ORDER)
    if done.returncode:
        sys.exit(f'{loader} failed:\n{done.stderr[-2000:]}')
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def first_difference(ours: Any, theirs: Any, place: str = '') -> str:
    if type(ours) is type(theirs) is list and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if one != other:
                return first_difference(one, other, f'{place}[{index}]')
    if type(ours) is type(theirs) is dict and ours.keys() == theirs.keys():
        for key in ours:
            if ours[key] != theirs[key]:
                return first_difference(ours[key], theirs[key], f'{place}/{key}')
    shown = [json.dumps(value, ensure_ascii=False)[:160] for value in (ours, theirs)]
    return f'{place}: ours {shown[0]} | theirs {shown[1]}'


def compare(title: str, here: Path, there: Path, python: str) -> tuple[float, float]:
    files = sorted(str(p.relative_to(here)) for p in here.rglob('*.py') if p.name != '__init__.py')
    mine = ask(sys.executable, 'rolecall', here, files)
    reference = ask(python, 'reference', there, files)
    ours, theirs = mine['files'], reference['files']
    loaded = [file for file in files if 'names' in theirs[file]]
    both = [file for file in loaded if 'names' in ours[file]]
    equal = [file for file in both if ours[file] == theirs[file]]
    print(f'\n{title}: {len(files)} files')
    print(f'  loaded by rolecall {sum("names" in ours[f] for f in files)}, by the reference {len(loaded)}')
    print(f'  seconds: rolecall {mine["seconds"]:.2f}, reference {reference["seconds"]:.2f}', end='')
    print(f' ({reference["seconds"] / mine["seconds"]:.0f} times)')
    print(f'  equal in every name: {len(equal)} of {len(both)} loaded by both ({len(equal) / len(both):.2%})')
    for file in files:
        if ('names' in ours[file]) != ('names' in theirs[file]):
            who = 'rolecall' if 'names' in ours[file] else 'the reference'
            print(f'  only {who} loads {file}: {(ours[file] | theirs[file])["error"].splitlines()[0]}')
        elif 'error' in ours[file]:
            print(f'  neither loads {file}: {" / ".join(ours[file]["error"].splitlines()[:2])}')
    show_differences([file for file in both if file not in set(equal)], here, there, python)
    return mine['seconds'], reference['seconds']


def show_differences(files: list[str], here: Path, there: Path, python: str) -> None:
    if not files:
        return
    ours = ask(sys.executable, 'rolecall', here, files, keep=True)['files']
    theirs = ask(python, 'reference', there, files, keep=True)['files']
    for file in files:
        one, other = ours[file]['names'], theirs[file]['names']
        for name in [*one, *(name for name in other if name not in one)]:
            if name not in other or name not in one:
                print(f'  {file}: {name} only in {"ours" if name in one else "theirs"}')
            elif one[name] != other[name]:
                print(f'  {file}: {first_difference(one[name], other[name], name)}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--reference-python', help='a Python that has opencompass and ais-bench-benchmark installed')
    parser.add_argument('--work', choices=['rolecall', 'reference'], help=argparse.SUPPRESS)
    parser.add_argument('--root', type=Path, help=argparse.SUPPRESS)
    parser.add_argument('--keep', action='store_true', help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work:
        return work(chosen.work, chosen.root, chosen.keep)
    if not chosen.reference_python:
        sys.exit('Give --reference-python: an environment with opencompass and ais-bench-benchmark.')
    where = json.loads(subprocess.check_output([chosen.reference_python, '-c', WHERE], text=True))
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for package, inner in {(package, str(Path(inner).parent)) for package, inner in TREES.values()}:
            copytree(
                Path(where[package]) / inner, Path(folder) / package / inner, ignore=ignore_patterns('__pycache__')
            )
        for title, (package, inner) in TREES.items():
            there = Path(where[package]) / inner
            seconds.append(compare(title, Path(folder) / package / inner, there, chosen.reference_python))
    ours, theirs = (sum(column) for column in zip(*seconds, strict=True))
    print(f'\nall: rolecall {ours:.2f} s, reference {theirs:.2f} s, {theirs / ours:.0f} times')
    return None


if __name__ == '__main__':
    main()
