"""Benchmarks of puzzles, tools and function calls: ARC Prize, T-Eval, BFCL."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, DataError, Problem
from rolecall.sources.datasets.folders import find
from rolecall.sources.datasets.formats import FileOptions, open_file
from rolecall.sources.datasets.layouts import Entry, read_json
from rolecall.sources.datasets.rows import WHOLE, ListRows, Row, Splits

_JSON_LINES = FileOptions(format='jsonl')
_BFCL_ENCODED = ('question', 'ground_truth', 'function', 'missed_function', 'involved_classes', 'initial_config')
_BFCL_FILE = re.compile(r'BFCL_v(\d+)_(.+)\.json')
_BFCL_RENAMED = {'simple': 'simple_python', 'java': 'simple_java', 'javascript': 'simple_javascript'}
_BFCL_DOCS = {'TwitterAPI': 'posting_api', 'TravelAPI': 'travel_booking', 'VehicleControlAPI': 'vehicle_control'}
"""Classes of BFCL whose function descriptions lie in a file of another name than the class."""


def open_arc_prize(path: Path, entry: Entry) -> Splits:
    """Every *.json below path is one puzzle: `train` pairs, and `test` pairs of which the first is asked."""
    files = sorted(path.glob('*.json')) if path.is_dir() else [path]
    if not files:
        raise DataError(f'{path}: no puzzles (*.json) here.')
    return {WHOLE: ListRows([_read_puzzle(file) for file in files])}


def _read_puzzle(file: Path) -> Row:
    try:
        task = read_json(file)
        test = task['test'][0]
        return {'training_data': task['train'], 'input_test_data': test['input'], 'output_test_data': test['output']}
    except (LookupError, TypeError) as error:
        raise DataError(f'{file}: not an ARC puzzle ({type(error).__name__}: {error}).') from error


def open_teval(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}.json, a mapping of records with `origin_prompt` (messages) and `ground_truth`."""
    file = path if path.is_file() else path / f'{entry.get("name")}.json'
    records = read_json(file)
    if not isinstance(records, Mapping):
        raise DataError(f'{file}: must be a mapping of records, got {type(records).__name__}.')
    rows = ListRows([_read_teval(record, name, file) for name, record in records.items()])
    return {'train': rows, 'test': rows}


def _read_teval(record: Any, name: str, file: Path) -> Row:
    try:
        prompt = record['origin_prompt']
        messages = json.loads(prompt) if isinstance(prompt, str) else list(prompt)
        answer = {'role': 'assistant', 'content': str(record.get('ground_truth'))}
        return {'prompt': [*messages, answer], 'ground_truth': json.dumps(record)}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f'{file}: record {name!r} has an unexpected layout ({type(error).__name__}: {error}).'
        ) from error


def open_bfcl(entry: Entry, base: Path | None) -> Splits:
    """BFCL_v3_{category}.json below path and in possible_answer/; without a path, in the installed `bfcl_eval`."""
    category = entry.get('category')
    if not isinstance(category, str) or not category:
        raise ConfigError(Problem('category', f'must be a category of BFCL such as "simple", got {category!r}.'))
    folder = find(entry['path'], base) if entry.get('path') else _find_bfcl_package()
    questions = open_file(_find_bfcl_file(folder, category), _JSON_LINES)
    right: dict[str, Any] = {}
    if 'relevance' not in category:
        answers = open_file(_find_bfcl_file(folder / 'possible_answer', category), _JSON_LINES)
        right = {record['id']: record['ground_truth'] for record in answers}
    wanted = entry.get('test_ids')
    describe = lru_cache(lambda name: list(open_file(_find_docs(folder / 'multi_turn_func_doc', name), _JSON_LINES)))
    rows = []
    for record in questions:
        if wanted and record['id'] not in wanted:
            continue
        answer = right.get(record['id']) if right else ['relevance_mock_gt']
        if answer is None:
            raise DataError(f'{folder}: record {record["id"]!r} has no entry in possible_answer.')
        rows.append(_shape_bfcl(record, answer, describe))
    return {WHOLE: ListRows(rows)}


def _find_bfcl_package() -> Path:
    package = importlib.util.find_spec('bfcl_eval')
    if package is None or not package.origin:
        remedy = 'Give the folder with the BFCL_v3_*.json files as path, or install bfcl_eval, which brings them.'
        raise ConfigError(Problem('path', 'must be the location of the data, got nothing.', remedy))
    return Path(package.origin).parent / 'data'


def _find_bfcl_file(folder: Path, category: str) -> Path:
    """Version 3 of a category, or the newest there is; version 4 has other names for some."""
    names = {category, _BFCL_RENAMED.get(category, category)}
    versions = [(file, _BFCL_FILE.fullmatch(file.name)) for file in folder.glob('BFCL_v*.json')]
    by_version = {int(match[1]): file for file, match in versions if match and match[2] in names}
    if not by_version:
        raise DataError(f'{folder}: no file BFCL_v3_{category}.json here.')
    return by_version.get(3) or by_version[max(by_version)]


def _shape_bfcl(record: Row, answer: Any, describe: Callable[[str], list[Row]]) -> Row:
    """A record as published, with its answer; values other than text are written as JSON."""
    row = {**record, 'ground_truth': answer}
    if 'involved_classes' in record:
        row |= _describe_functions(
            record, [function for name in record['involved_classes'] for function in describe(name)]
        )
    return {
        name: json.dumps(value, ensure_ascii=False) if name in _BFCL_ENCODED and not isinstance(value, str) else value
        for name, value in row.items()
    }


def _describe_functions(record: Row, described: list[Row]) -> dict[str, Any]:
    """The functions that a conversation may call, and those that come with a later turn (`missed_function`)."""
    excluded = set(record.get('excluded_function') or ())
    later = record.get('missed_function') or {}
    withheld = {name for names in later.values() for name in names}
    missed = {turn: [function for function in described if function['name'] in names] for turn, names in later.items()}
    visible = [dict(function) for function in described if function['name'] not in excluded | withheld]
    return {'function': visible, **({'missed_function': missed} if later else {})}


def _find_docs(folder: Path, name: str) -> Path:
    """The file of a class: `gorilla_file_system.json` for `GorillaFileSystem`, `math_api.json` for `MathAPI`."""
    snake = re.sub(r'(?<=[a-z])(?=[A-Z])', '_', name).lower()
    file = folder / f'{_BFCL_DOCS.get(name, snake)}.json'
    if not file.is_file():
        raise DataError(f'{file}: the functions of {name} are not described here.')
    return file
