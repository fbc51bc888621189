"""Rows of benchmarks' files: ours beside those of the package's own loaders.

    python benchmarks/loader_rows.py --reference-python /path/to/other/env/bin/python [--record] [NAME …]

`tests/data/benchmark_rows.jsonl` holds made-up records in the layout of each benchmark, and the rows that the loader of
OpenCompass (or AISBench) in the other environment makes of them; the tests compare ours with those. Here they are made
again and compared; `--record` writes them. What a package loads from a hub is read from the same files, and a token is
a byte, because vocabularies are downloaded.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / 'tests' / 'data' / 'benchmark_rows.jsonl'
PACKAGES = ('opencompass.datasets', 'ais_bench.benchmark.datasets')


class Bytes:
    """A tokenizer whose tokens are bytes."""

    def encode(self, text: str, **options: Any) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode(errors='replace')


def write_files(folder: Path, files: dict[str, Any]) -> str:
    """The path that an entry names: the folder, or the file called f.…"""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in content)
        path.write_text(content if isinstance(content, str) else lines, encoding='utf-8')
    [first, *_] = files
    return str(folder / first if first.startswith('f.') else folder)


def find_class(name: str, module: str | None) -> Any:
    for package in [module] if module else modules():
        try:
            found = getattr(importlib.import_module(package), name, None)
        except Exception:  # what a module needs besides may be missing
            continue
        if found is not None:
            return found
    raise LookupError(name)


def modules() -> Iterator[str]:
    for package in PACKAGES:
        root = importlib.import_module(package)
        yield package
        for module in pkgutil.walk_packages(root.__path__, f'{package}.'):
            yield module.name


def load_local(path: str, name: str | None = None, split: str | None = None, **options: Any) -> Any:
    """What `datasets.load_dataset` gives for the files of a hub dataset that lie in a folder."""
    import datasets

    files = options.get('data_files')
    if path == 'json':
        found = {key: str(value) for key, value in (files.items() if isinstance(files, dict) else [('train', files)])}
    else:
        where = Path(path, name) if name and Path(path, name).is_dir() else Path(path)
        found = {file.stem: str(file) for file in where.glob('*.jsonl')}
        if files:
            found = {'train': str(Path(path, files))}
    opened = datasets.DatasetDict(
        {key: datasets.Dataset.from_list(read_records(Path(value).read_text('utf-8'))) for key, value in found.items()}
    )
    return opened[split] if split else opened


def read_records(text: str) -> list[Any]:
    return json.loads(text) if text.startswith('[') else [json.loads(line) for line in text.splitlines()]


def load_rows(case: dict[str, Any], folder: Path) -> dict[str, list[dict[str, Any]]]:
    import datasets

    datasets.disable_progress_bars()
    path = write_files(folder, case['files'])
    class_ = find_class(case['type'], case.get('module'))
    module = sys.modules[class_.__module__]
    for name, stand_in in (
        ('load_dataset', load_local),
        ('hf_hub_download', lambda filename, **_: f'{folder}/{filename}'),
    ):
        if hasattr(module, name):
            setattr(module, name, stand_in)
    datasets.load_dataset = load_local
    import tiktoken

    tiktoken.encoding_for_model = lambda name: Bytes()
    entry = {
        key: str(folder / value[1:]) if str(value).startswith('@') else value for key, value in case['entry'].items()
    }
    arguments = entry if case.get('pathless') else {'path': path, **entry}
    random.seed(0)  # where a loader shuffles by no seed of its own
    instance = object.__new__(class_)
    loaded = instance.load(**arguments)
    splits = loaded.items() if isinstance(loaded, dict) else [('*', loaded)]
    text = json.dumps(
        {name: [unwrap(row) if case.get('unwrap') else dict(row) for row in rows] for name, rows in splits}
    )
    return json.loads(text.replace(str(folder), '@'))


def unwrap(row: Any) -> dict[str, Any]:
    """A row whose values are lists of one, as BABILong's loader gives them."""
    return {name: value for name, [value] in row.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--reference-python', help='a Python with opencompass and ais-bench installed')
    parser.add_argument('--record', action='store_true', help='write the rows instead of comparing them')
    parser.add_argument('names', nargs='*', help='only these types')
    options = parser.parse_args()
    if options.reference_python:
        arguments = [
            argument for argument in sys.argv[1:] if argument not in ('--reference-python', options.reference_python)
        ]
        environment = {**os.environ, 'HF_HUB_OFFLINE': '1', 'PYTHONWARNINGS': 'ignore'}
        raise SystemExit(subprocess.run([options.reference_python, __file__, *arguments], env=environment).returncode)
    cases = [json.loads(line) for line in DATA.read_text('utf-8').splitlines()]
    equal = compared = 0
    for case in cases:
        if options.names and case['type'] not in options.names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                rows: Any = load_rows(case, Path(folder))
            except Exception as error:  # what the package cannot load is reported, not hidden
                print(f'{case["type"]}: {type(error).__name__}: {error}')
                continue
        compared += 1
        if options.record:
            case['rows'] = rows
        elif rows == case.get('rows'):
            equal += 1
        else:
            print(f'{case["type"]}: differs')
    if options.record:
        DATA.write_text(''.join(json.dumps(case, ensure_ascii=False) + '\n' for case in cases), 'utf-8')
    print(f'{len(cases)} cases, {compared} loaded by the packages, {"written" if options.record else f"{equal} equal"}')


if __name__ == '__main__':
    main()
