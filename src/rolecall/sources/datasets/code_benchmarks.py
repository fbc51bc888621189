"""Benchmarks of code: BigCodeBench, LeetCode contests, HumanEval-X, HumanEval Pro, MultiPL-E, TACO, APPS, DS-1000."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rolecall.sources.datasets.formats import FileOptions
from rolecall.sources.datasets.layouts import (
    Entry,
    HubLoader,
    Loader,
    SplitFile,
    hub_layout,
    layout,
    repeat_rows,
    repeat_test_split,
)
from rolecall.sources.datasets.rows import WHOLE, FilteredRows, MappedRows, Row, Splits

_FILE: Mapping[str, SplitFile] = {WHOLE: SplitFile()}


def leetcode(row: Row) -> Row:
    tests = '\n'.join(row['test_list'])
    column = {'test_list_2': tests, 'task_id': row['Contest id']}
    return {**row, 'test_case': row['test_list'], 'test_list': tests, 'test_column': column}


def _leetcode(path: Path, entry: Entry) -> Splits:
    """One file of rows, named by path: the first five are for training; `difficulty` chooses rows."""
    splits = layout({'train': SplitFile(range='[:5]'), 'test': SplitFile(range='[5:]')}, leetcode)(path, entry)
    wanted = entry.get('difficulty', 'ALL')
    if wanted == 'ALL':
        return splits
    return {
        name: FilteredRows(rows, lambda row: row['Difficulty'] == wanted, str(path)) for name, rows in splits.items()
    }


def _bigcodebench(path: Path, entry: Entry) -> Splits:
    """Files below path: BigCodeBench-{release_version}.jsonl, or BigCodeBench-Hard-{release_version}.jsonl."""
    hard = '-Hard' if entry.get('dataset_version') == 'hard' else ''
    file = f'BigCodeBench{hard}-{{release_version}}.jsonl'
    return layout({'train': file, 'test': file}, release_version='v0.1.2')(path, entry)


def contest(row: Row) -> Row:
    """How a program is called: by its function, or through standard input."""
    called = bool(row.get('starter_code')) or bool(_tests(row).get('fn_name'))
    how = '\\nUse Call-Based format' if called else '\\nUse Standard Input format'
    return {**row, 'starter': f'{row.get("starter_code") or ""}{how}'}


def _tests(row: Row) -> Mapping[str, Any]:
    try:
        parsed = json.loads(row.get('input_output') or '{}')
    except ValueError:
        return {}
    return parsed if isinstance(parsed, Mapping) else {}


CODE: dict[str, Loader] = {
    'BigCodeBenchDataset': _bigcodebench,
    'DS1000Dataset': layout({'test': SplitFile()}),
    'HumanevalevalProDataset': layout(_FILE),
    'HumanevalXDataset': layout({WHOLE: 'humanevalx_{language}.jsonl.gz'}),
    'LCDataset': repeat_test_split(_leetcode),
    'MBPPProDataset': layout(_FILE, options=FileOptions(format='jsonl')),
    'MultiplEDataset': layout({WHOLE: '{tag}-{language}.jsonl'}, tag='humaneval'),
}


def _with_repeats(load: HubLoader) -> HubLoader:
    def load_repeated(entry: Entry, base: Path | None) -> Splits:
        return repeat_rows(lambda path, entry: load(entry, base))(Path(), entry)

    load_repeated.__doc__ = load.__doc__
    return load_repeated


def _taco(entry: Entry, base: Path | None) -> Splits:
    """A hub dataset, or a folder with its files; `difficulty` chooses rows."""
    wanted, where = entry.get('difficulty', 'ALL'), str(entry.get('path'))
    test = hub_layout(splits={'test': 'test'})(entry, base)['test']
    numbered = MappedRows(test, lambda row, index: {**row, 'problem_id': f'test{index}'}, where)
    chosen = numbered if wanted == 'ALL' else FilteredRows(numbered, lambda row: row['difficulty'] == wanted, where)
    return {'test': MappedRows(chosen, lambda row, _: contest(row), where)}


CODE_HUB: dict[str, HubLoader] = {
    'APPSDataset': _with_repeats(hub_layout(contest, splits={'test': 'test'})),
    'APPS_miniDataset': _with_repeats(hub_layout(contest, splits={'test': 'test'})),
    'TACODataset': _with_repeats(_taco),
}
