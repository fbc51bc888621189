"""promptfoo's own tests of its assertions: how many of their verdicts are given here.

    git clone --bare https://github.com/promptfoo/promptfoo REPO
    python benchmarks/promptfoo_cases.py REPO

Reads `test/assertions/*.test.ts` as data. A test counts if it states its assertion, its output and one verdict as
literals; what is computed, mocked or thrown is not read. Nothing of it is run: assertions
that are programs, files or a judge's, or compared
by a model, are only counted. Then the configs of `examples/` are loaded and counted.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from rolecall.compat.promptfoo import load_promptfoo
from rolecall.errors import ConfigError, RolecallError
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.metrics.assertions import JUDGED, assertions
from rolecall.scoring.metrics.metric import Answer

_STRING = re.compile(r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`""")
_CASE = re.compile(r'^\s*it\(\s*$|^\s*it\(', re.MULTILINE)
_VERDICT = re.compile(r'\bpass: (true|false)|\.pass\)\.(?:toBe|toEqual)\((true|false)\)')
_NAME = re.compile(r'"(?:\\.|[^"\\])*"|: ([A-Za-z_]\w*)(\.value)?(?=\s*[,}])')
_USED = {'seconds': (r'latencyMs: ([\d.]+)', 1000), 'cost': (r'\bcost: ([\d.]+)', 1)}
_BOUND = (('seconds', 'latencyMs', 1000), ('cost', 'cost', 1))
_NAMED = re.compile(r'const (\w+)(?:: [\w<>\[\], ]+)? = ')


def read_literal(code: str, start: int, names: dict[str, Any]) -> Any:
    """The value of the literal (or of a name bound to one) at a place of the code; ValueError if it is computed."""
    name = re.compile(r'[A-Za-z_]\w*').match(code, start)
    if name and name[0] not in ('true', 'false', 'null'):
        if name[0] in names and code[name.end() : name.end() + 1] not in '.(':
            return names[name[0]]
        raise ValueError(name[0])
    pieces, depth, place = [], 0, start
    while place < len(code):
        string = _STRING.match(code, place)
        if string:
            pieces.append(_read_string(string[0]))
            place = string.end()
        elif code[place] in '{[':
            depth += 1
            pieces.append(code[place])
            place += 1
        elif code[place] in '}]':
            depth -= 1
            if depth >= 0:
                pieces.append(code[place])
            place += 1
        elif code[place] in ',;\n)' and depth == 0:
            break
        else:
            pieces.append(code[place])
            place += 1
        if depth < 0 or (depth == 0 and pieces and pieces[-1] in '}]'):
            break
    text = re.sub(r'(?<!:)//[^\n]*', '', ''.join(pieces)).replace('\n', ' ')
    text = re.sub(r' as [A-Z]\w+| as const', '', text).replace('${', '')
    if re.search(r'\.\.\.|=>|\bnew \b|\w\(', re.sub(r'"(?:\\.|[^"\\])*"', '', text)):
        raise ValueError(text[:60])
    text = _NAME.sub(lambda match: _fill_name(match, names), text)
    try:
        return yaml.safe_load(re.sub(r'(\w+):(?=\S)', r'\1: ', text) if '"' not in text else text)
    except yaml.YAMLError as error:
        raise ValueError(text[:60]) from error


def _fill_name(match: re.Match[str], names: dict[str, Any]) -> str:
    """A name in the place of a value, as the value it stands for."""
    if match[1] is None or match[1] in ('true', 'false', 'null'):
        return match[0]
    value = names.get(match[1])
    value = value.get('value') if match[2] and isinstance(value, dict) else value
    if value is None:
        raise ValueError(match[0])
    return f': {json.dumps(value)}'


def _read_string(literal: str) -> str:
    if literal[0] == '`' and '${' in literal:
        raise ValueError(literal[:60])
    inner = re.sub(r"\\(['`])", r'\1', literal[1:-1])
    inner = re.sub(r'(?<!\\)"', r'\\"', inner) if literal[0] != '"' else inner
    return json.dumps(json.loads(f'"{inner}"', strict=False), ensure_ascii=False)


def list_names(code: str, names: dict[str, Any]) -> dict[str, Any]:
    names = dict(names)
    for match in _NAMED.finditer(code):
        try:
            names[match[1]] = read_literal(code, match.end(), names)
        except ValueError:
            names.pop(match[1], None)
    return names


def find_value(code: str, key: str, names: dict[str, Any]) -> Any:
    """The value of `key: …` in the code; KeyError if there is none, ValueError if there are several."""
    values = [read_literal(code, match.end(), names) for match in re.finditer(rf'\b{key}: (?!params\b|expect\b)', code)]
    values += [names[key]] if not values and re.search(rf'^\s*{key},$|\{{ {key} \}}', code, re.MULTILINE) else []
    if not values:
        raise KeyError(key)
    if any(value != values[0] for value in values):
        raise ValueError(key)
    return values[0]


def read_cases(code: str) -> Iterator[tuple[dict[str, Any], Answer, bool] | None]:
    """The tests of a file: assertion, output and verdict; None for one that does not state them as literals."""
    starts = [match.start() for match in _CASE.finditer(code)]
    outer = list_names(code[: starts[0]] if starts else code, {})
    for start, end in zip(starts, [*starts[1:], len(code)], strict=True):
        block = code[start:end]
        verdicts = {match[1] or match[2] for match in _VERDICT.finditer(block)}
        try:
            names = list_names(block, outer)
            assertion = find_value(block, 'assertion', names)
            try:
                output = find_value(block, 'outputString', names)
            except KeyError:
                output = find_value(block, 'output', names)
            if (
                len(verdicts) != 1
                or 'valueFromScript: ' in block
                or not isinstance(assertion, dict)
                or not isinstance(output, str | dict | list)
            ):
                raise ValueError('no single verdict')
            assertion = dict(assertion)
            if re.search('renderedValue: (?!undefined)', block):
                assertion['value'] = find_value(block, 'renderedValue', names)
            if 'inverse: true' in block and not assertion['type'].startswith('not-'):
                assertion['type'] = f'not-{assertion["type"]}'
        except (ValueError, KeyError, TypeError):
            yield None
            continue
        matches = {name: (re.findall(pattern, block), unit) for name, (pattern, unit) in _USED.items()}
        used = {name: float(values[0]) / unit for name, (values, unit) in matches.items() if len(set(values)) == 1}
        used |= {
            name: float(names[key]) / unit for name, key, unit in _BOUND if isinstance(names.get(key), int | float)
        }
        text = output if isinstance(output, str) else json.dumps(output)
        yield assertion, Answer(text, used=used), verdicts == {'true'}


def main(repository: str) -> None:
    """Print how many tests there are, how many are read, and how many verdicts are ours, by type."""
    git = ['git', '-C', repository]
    listed = subprocess.run([*git, 'ls-tree', '-r', '--name-only', 'HEAD', 'test/assertions/'],
                            capture_output=True, text=True, check=True).stdout.split()  # fmt: skip
    counts: dict[str, Counter[str]] = {}
    unread = 0
    for path in listed:
        code = subprocess.run([*git, 'show', f'HEAD:{path}'], capture_output=True, text=True, check=True).stdout
        for case in read_cases(code) if path.endswith('.test.ts') else ():
            if case is None:
                unread += 1
                continue
            assertion, answer, verdict = case
            kind = str(assertion.get('type')).removeprefix('not-')
            if kind in ('python', 'similar') or kind in JUDGED or 'file://' in str(assertion):
                counts.setdefault(kind, Counter())['not run'] += 1
                continue
            try:
                ours = assertions(asserts=[assertion]).mark(answer)
                outcome = 'same' if ours is not None and ours.correct == verdict else 'other'
            except ConfigError:
                outcome = 'refused'
            except (ScoringError, OSError, ImportError):
                outcome = 'error'
            counts.setdefault(kind, Counter())[outcome] += 1
            if outcome in ('other', 'error'):
                print(f'{Path(path).name}: {assertion} on {answer.prediction!r:.100}: theirs {verdict}, {outcome}')
    for kind, outcomes in sorted(counts.items()):
        print(kind, dict(outcomes))
    total = sum(counts.values(), Counter())
    print(f'{sum(total.values())} read, {unread} not: {dict(total)}')
    print('examples:', dict(count_examples(git)))


def count_examples(git: list[str]) -> Counter[str]:
    """How many configs of the examples load."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run([*git, 'archive', 'HEAD', 'examples'], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter='data')
        counts: Counter[str] = Counter()
        for path in Path(folder).rglob('promptfooconfig*.yaml'):
            try:
                load_promptfoo(path)
                counts['loaded'] += 1
            except RolecallError:
                counts['refused'] += 1
        return counts


if __name__ == '__main__':
    if len(sys.argv) != 2 or not Path(sys.argv[1]).exists():
        print('no snapshot of promptfoo here: nothing is counted')
    else:
        main(sys.argv[1])
