"""Freeze what commands print for a corpus of configs, so that a change that should alter nothing can be checked.

python tools/freeze.py compare                     exit code 1 and the first difference, if there is any
python tools/freeze.py record                      write tests/data/frozen.jsonl anew, after a deliberate change
python tools/freeze.py compare 'lm-eval*' seeds    only these cases (names or patterns; `list` prints them)
python tools/freeze.py record --full DIR           also keep whole outputs; `compare --full DIR` shows lines that differ

A case of `tests/data/frozen/cases.jsonl` is a config, a benchmark's name or a file of rows, with options. Each runs in
a process and a folder of its own, with functions as models: no weights, no network. Only `python -m rolecall` and
public names are used, so modules may move.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import fnmatch
import hashlib
import io
import json
import multiprocessing
import os
import re
import runpy
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'src'))

import rolecall  # noqa: E402  # of this checkout

CORPUS = ROOT / 'tests' / 'data' / 'frozen'
RECORD = ROOT / 'tests' / 'data' / 'frozen.jsonl'
ALSO = ('examples', 'tests/data/seed_examples.jsonl', 'tests/data/reference.jsonl')
"""What lies beside the corpus while a case runs."""

Case = Mapping[str, Any]
Outputs = dict[str, str]


# What is run


def read_cases(patterns: Sequence[str]) -> list[Case]:
    """The cases whose names match; all without a pattern."""
    lines = (CORPUS / 'cases.jsonl').read_text('utf-8').splitlines()
    cases = [json.loads(line) for line in lines if line.strip()]
    unmatched = [name for name in patterns if not any(fnmatch.fnmatch(case['name'], name) for case in cases)]
    if unmatched:
        sys.exit(f'freeze: no case matches {", ".join(unmatched)}. `tools/freeze.py list` prints the names.')
    return [case for case in cases if not patterns or any(fnmatch.fnmatch(case['name'], name) for name in patterns)]


def commands_of(case: Case) -> dict[str, list[str]]:
    """The commands of a case, in the order in which they run. `ask` holds options of the run alone, as its model."""
    source = [case['source'], *case.get('options', ())]
    run = ['run', *source, *case.get('ask', ())]
    commands = {
        'view': ['view', *source, '--all', '-n', '4', '--json', *case.get('view', ())],
        'lint': ['lint', *source, '--json'],
        'plan': [*run, '--dry-run', '--out', 'plan'],
        'requests': ['export', 'requests', *source],
        'run': [*run, '--quiet', '--force', '--out', 'out'],
        'results': ['export', 'results', 'out', '--prompts'],
        'report': ['report', 'out', '--csv'],
    }
    return {step: words for step, words in commands.items() if step not in case.get('without', ())}


def run_case(case: Case) -> tuple[str, Outputs]:
    """Every output of a case; to be called in a process that ends afterwards."""
    with tempfile.TemporaryDirectory(prefix='freeze-') as folder:
        workspace = Path(folder).resolve() / 'work'
        shutil.copytree(CORPUS, workspace, ignore=shutil.ignore_patterns('__pycache__'))
        for name in ALSO:
            source, target = ROOT / name, workspace / Path(name).name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns('__pycache__'))
            else:
                shutil.copyfile(source, target)
        _enter(workspace)
        outputs = {step: _normalise(_call(words), workspace) for step, words in commands_of(case).items()}
        os.chdir('/')
    outputs['fingerprints'] = '\n'.join(_fingerprints(outputs))
    return case['name'], outputs


def _enter(workspace: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if name in ('PATH', 'LD_LIBRARY_PATH', 'TMPDIR')}
    os.environ.clear()
    os.environ.update(inherited, PYTHONPATH=str(ROOT / 'src'), HOME=str(workspace.parent), LANG='C.UTF-8')
    os.environ.update(COLUMNS='120', TZ='UTC', ROLECALL_LANG='en')
    time.tzset()
    os.chdir(workspace)
    sys.path[:0] = [str(workspace), str(workspace / 'installed')]


def _call(words: Sequence[str]) -> str:
    """Exit code, stdout and stderr of a command, which is called as `python -m rolecall` does."""
    out, err = io.StringIO(), io.StringIO()
    sys.argv[1:] = words
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_module('rolecall', run_name='__main__')
            code: Any = 0
        except SystemExit as stop:
            code = stop.code or 0
        except Exception as error:  # a crash is behaviour, too
            code = f'with {type(error).__name__}: {error}'
    early = '--out' in words and '--dry-run' not in words and code != 2  # warnings while a run goes on come by chance
    return f'exit {code}\n{out.getvalue()}\n-- stderr\n{"" if early else err.getvalue()}'


def _normalise(text: str, workspace: Path) -> str:
    """Leave out what differs from one recording to the next: folders, times, the version."""
    for place, name in ((workspace, 'WORK'), (workspace.parent, 'TEMP'), (ROOT, 'ROOT')):
        text = text.replace(str(place), name)
    text = re.sub(r'("seconds"+: )[\d.e-]+', r'\g<1>0', text)
    text = re.sub(r'\b20\d\d-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?', 'TIME', text)
    return text.replace(f'rolecall {rolecall.__version__}', 'rolecall VERSION')


def _fingerprints(outputs: Outputs) -> Iterator[str]:
    """The fingerprints of all requests that were shown or sent, with the place of each."""
    for step in ('view', 'results'):
        for line in outputs.get(step, '').splitlines():
            if line.startswith('{'):
                entry = json.loads(line)
                place = (entry.get(key) for key in ('dataset', 'model', 'row', 'label', 'turn'))
                prints = entry.get('fingerprints', [entry.get('fingerprint')])
                yield f'{step} {json.dumps([*place], ensure_ascii=False)} {" ".join(map(str, prints))}'


# What is compared


def digest_outputs(outputs: Outputs) -> dict[str, str]:
    """A digest for each output."""
    return {step: hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest() for step, text in outputs.items()}


def read_record(file: Path) -> dict[str, dict[str, str]]:
    """The recorded digests by case."""
    lines = file.read_text('utf-8').splitlines() if file.exists() else []
    return {entry.pop('case'): entry for entry in map(json.loads, lines)}


def write_record(file: Path, record: Mapping[str, Mapping[str, str]]) -> None:
    """One line for each case, sorted by name."""
    lines = [{'case': name, **record[name]} for name in sorted(record)]
    file.write_text(''.join(json.dumps(line) + '\n' for line in lines), 'utf-8')


def describe_difference(name: str, step: str, outputs: Outputs, full: Path | None, lines: int) -> str:
    """Where an output differs from the recorded one, with the lines that do where the whole output was kept."""
    head = f'{name}: {step} differs'
    command = commands_of(next(case for case in read_cases([]) if case['name'] == name)).get(step)
    if command:
        head += f'\n  rolecall {" ".join(command)}   (in a copy of tests/data/frozen)'
    earlier = full / name / f'{step}.txt' if full else None
    if earlier is None or not earlier.exists():
        return f'{head}\n  `record --full DIR` at the earlier commit, then `compare --full DIR` shows the lines.'
    before, after = earlier.read_text('utf-8', 'surrogatepass').splitlines(), outputs[step].splitlines()
    diff = [_around(line, other) for line, other in _changed_lines(before, after)][:lines]
    return '\n'.join([head, *diff])


def _changed_lines(before: list[str], after: list[str]) -> Iterator[tuple[str, str]]:
    matcher = difflib.SequenceMatcher(a=before, b=after, autojunk=False)
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        if kind != 'equal':
            for k in range(max(i_end - i, j_end - j)):
                yield before[i + k] if i + k < i_end else '', after[j + k] if j + k < j_end else ''


def _around(before: str, after: str, width: int = 160) -> str:
    """Two long lines, cut to where they begin to differ."""
    pairs = enumerate(zip(before, after, strict=False))
    same = next((place for place, (left, right) in pairs if left != right), min(len(before), len(after)))
    start = max(0, same - width // 2)
    mark = '…' if start else ''
    return f'  - {mark}{before[start : start + width]}\n  + {mark}{after[start : start + width]}'


# The command


def main(argv: Sequence[str] | None = None) -> int:
    """Run one mode and return the exit code."""
    arguments = _parse(argv)
    cases = read_cases(arguments.names)
    if arguments.mode == 'list':
        print('\n'.join(case['name'] for case in cases))
        return 0
    started = time.monotonic()
    record, differences = read_record(arguments.file), []
    fresh: dict[str, dict[str, str]] = {}
    for number, (name, outputs) in enumerate(_run_all(cases, arguments.jobs), 1):
        fresh[name] = digest_outputs(outputs)
        wrong = [step for step in fresh[name] if record.get(name, {}).get(step) != fresh[name][step]]
        differences += [(name, step, outputs) for step in wrong]
        if arguments.mode == 'record' and arguments.full:
            _write_full(arguments.full / name, outputs)
        print(f'{number}/{len(cases)} {name}{": " + ", ".join(wrong) if wrong else ""}', file=sys.stderr, flush=True)
    seconds = f'{time.monotonic() - started:.0f} s'
    if arguments.mode == 'record':
        write_record(arguments.file, {**(record if arguments.names else {}), **fresh})
        print(f'recorded {len(fresh)} cases in {seconds}: {len(differences)} outputs are new or changed')
        return 0
    for name, step, outputs in differences[: None if arguments.all else 1]:
        print(describe_difference(name, step, outputs, arguments.full, arguments.lines))
    changed = sorted({name for name, _, _ in differences})
    print(f'{len(changed)} of {len(fresh)} cases differ ({seconds}){": " + " ".join(changed) if changed else ""}')
    return 1 if differences else 0


def _run_all(cases: Sequence[Case], jobs: int) -> Iterator[tuple[str, Outputs]]:
    with multiprocessing.get_context('fork').Pool(jobs, maxtasksperchild=1) as pool:
        yield from pool.imap(run_case, cases, chunksize=1)


def _write_full(folder: Path, outputs: Outputs) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for step, text in outputs.items():
        (folder / f'{step}.txt').write_text(text, 'utf-8', 'surrogatepass')


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('mode', choices=('record', 'compare', 'list'))
    parser.add_argument('names', nargs='*', metavar='CASE', help='only these cases: names or patterns')
    parser.add_argument('--full', type=Path, metavar='DIR', help='folder of whole outputs')
    parser.add_argument('--file', type=Path, default=RECORD, help='the record (default: tests/data/frozen.jsonl)')
    parser.add_argument('--all', action='store_true', help='compare: show every difference, not the first alone')
    parser.add_argument(
        '--lines', type=int, default=5, metavar='N', help='lines shown for each difference (default: 5)'
    )
    parser.add_argument('--jobs', type=int, default=os.cpu_count() or 1, metavar='N', help='cases at once')
    return parser.parse_args(argv)


if __name__ == '__main__':
    sys.exit(main())
