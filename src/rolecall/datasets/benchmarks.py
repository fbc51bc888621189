"""The file layouts of public benchmarks: which file holds which split, and how a record becomes a row.

Columns are those that published configs use in their templates; nothing else is added to a row.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rolecall.datasets import conversions
from rolecall.datasets.folders import open_folder
from rolecall.datasets.formats import FileOptions, open_file
from rolecall.datasets.ranges import apply_range
from rolecall.datasets.rows import WHOLE, FilteredRows, LabelledRows, MappedRows, Row, Rows, Splits, select
from rolecall.errors import ConfigError, DataError, Problem

__all__ = ['BENCHMARKS', 'Loader', 'SplitFile', 'layout', 'read_num_repeats']

Entry: TypeAlias = Mapping[str, Any]
Shape: TypeAlias = Callable[[Row], Row]
Loader: TypeAlias = Callable[[Path, Entry], Splits]

_LENIENT_TSV = FileOptions(format='tsv', columns=('question', 'answer'), strict=False)
_MMLU_CSV = FileOptions(format='csv', columns=('input', 'A', 'B', 'C', 'D', 'target'))


@dataclass(frozen=True, slots=True)
class SplitFile:
    """One split: its file (`{name}` is taken from the dataset's entry), and how its rows are read."""

    file: str = ''
    shape: Shape | None = None
    labels: str = ''
    range: str | None = None


def layout(
    splits: Mapping[str, str | SplitFile],
    shape: Shape | None = None,
    *,
    options: FileOptions | None = None,
    keep: Callable[[Row], bool] | None = None,
    **defaults: str,
) -> Loader:
    """Make a loader for files at fixed places below a path. A split whose file is absent is omitted.

    `shape` turns a record of the file into a row; `keep` chooses records; `defaults` fill names in places.
    If the path is itself a file, that file is the whole dataset.
    """
    table = {name: split if isinstance(split, SplitFile) else SplitFile(split) for name, split in splits.items()}

    def load(path: Path, entry: Entry) -> Splits:
        in_one_file = path.is_file() and not any(split.range for split in table.values())
        wanted = {WHOLE: SplitFile(shape=next(iter(table.values())).shape)} if in_one_file else table
        found: Splits = {}
        looked_for = []
        for name, split in wanted.items():
            file = path / _fill_name(split.file, {**defaults, **entry}) if split.file else path
            looked_for.append(file)
            if file.is_file():
                rows = _open_split(file, split, options)
                rows = rows if keep is None else FilteredRows(rows, keep)
                rows = _reshape_rows(rows, split.shape or shape, str(file))
                found[name] = apply_range(rows, split.range)
        if not found:
            raise DataError(f'{path}: none of its files exist: {", ".join(map(str, looked_for))}.')
        return found

    places = [f'{name} = {split.file}' if name != WHOLE else split.file for name, split in table.items() if split.file]
    load.__doc__ = f'Files below path: {", ".join(places)}.' if places else 'One file of rows, named by path.'
    return load


def _fill_name(file: str, entry: Entry) -> str:
    try:
        return file.format_map(entry)
    except KeyError as error:
        key = str(error.args[0])
        raise ConfigError(Problem(key, f'missing {key!r}: the files of this dataset are named {file!r}.')) from None


def _open_split(file: Path, split: SplitFile, options: FileOptions | None) -> Rows:
    rows = open_file(file, options)
    if not split.labels:
        return rows
    labels = file.parent / split.labels
    return LabelledRows(rows, open_file(labels), f'{file} and {labels}')


def _reshape_rows(rows: Rows, shape: Shape | None, where: str) -> Rows:
    return rows if shape is None else MappedRows(rows, lambda row, _: shape(row), where)


def _first_answer(row: Row) -> Row:
    return {**row, 'answer': ast.literal_eval(row['answer'])[0]}


def _all_answers(row: Row) -> Row:
    return {**row, 'answer': ast.literal_eval(row['answer'])}


def read_num_repeats(entry: Entry) -> int:
    """The entry's `num_repeats`, 1 if it has none."""
    times = entry.get('num_repeats', 1)
    if isinstance(times, bool) or not isinstance(times, int) or times < 1:
        raise ConfigError(Problem('num_repeats', f'must be a positive integer, got {times!r}.'))
    return times


def _repeat_rows(load: Loader) -> Loader:
    """`num_repeats`: every row that many times in a row."""

    def load_repeated(path: Path, entry: Entry) -> Splits:
        times = read_num_repeats(entry)
        splits = load(path, entry)
        if times == 1:
            return splits
        return {
            name: select(rows, [index for index in range(len(rows)) for _ in range(times)])
            for name, rows in splits.items()
        }

    load_repeated.__doc__ = load.__doc__
    return load_repeated


def _repeat_test_split(load: Loader) -> Loader:
    """`num_repeats`: the test split that many times over."""

    def load_repeated(path: Path, entry: Entry) -> Splits:
        splits = load(path, entry)
        times = read_num_repeats(entry)
        test = splits['test']
        return splits if times == 1 else {**splits, 'test': select(test, [*range(len(test))] * times)}

    load_repeated.__doc__ = load.__doc__
    return load_repeated


def _arc(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}-Train.jsonl, {name}-Dev.jsonl, {name}-Test.jsonl; questions with four choices."""
    files = {split: f'{{name}}-{split}.jsonl' for split in ('Train', 'Dev', 'Test')}
    return layout(files, conversions.arc, keep=lambda row: len(row['question']['choices']) == 4)(path, entry)


def _agieval(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}.jsonl."""
    return layout({WHOLE: '{name}.jsonl'}, lambda row: conversions.agieval(row, str(entry.get('name'))))(path, entry)


def _gpqa(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}, a CSV file."""
    splits = layout({WHOLE: '{name}'}, options=FileOptions(format='csv'))(path, entry)
    return {name: MappedRows(rows, conversions.gpqa, str(path)) for name, rows in splits.items()}


def _mmlu_pro(path: Path, entry: Entry) -> Splits:
    """A folder of splits; `category` picks one subject."""
    category = entry.get('category')
    splits = open_folder(path)
    if category is not None:
        splits = {name: FilteredRows(rows, lambda row: row['category'] == category) for name, rows in splits.items()}
    return {name: _reshape_rows(rows, conversions.mmlu_pro, str(path)) for name, rows in splits.items()}


def _mt_bench(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}.json, or one file of dialogues."""
    shape = conversions.mt_bench_turns if path.is_file() else conversions.mt_bench_dialogue
    return layout({WHOLE: '{name}.json'}, shape)(path, entry)


_ONE_FILE = layout({WHOLE: SplitFile()})
_LABELLED = {
    'train': SplitFile('train.jsonl', labels='train-labels.lst'),
    'validation': SplitFile('dev.jsonl', labels='dev-labels.lst'),
}
_MBPP = {'train': SplitFile(range='[:10]'), 'test': SplitFile(range='[10:510]')}

BENCHMARKS: dict[str, Loader] = {
    'AGIEvalDataset': _agieval,
    'AGIEvalDataset_v2': layout({WHOLE: '{name}.jsonl'}, conversions.agieval_v2),
    'Aime2024Dataset': layout({WHOLE: SplitFile()}, conversions.aime2024),
    'Aime2025Dataset': _ONE_FILE,
    'Aime2026Dataset': _ONE_FILE,
    'ARCDataset': _arc,
    'BBHDataset': layout({WHOLE: '{name}.json'}),
    'BoolQDataset': layout({WHOLE: SplitFile()}, conversions.boolq),
    'BoolQDatasetV2': layout({WHOLE: SplitFile()}, conversions.boolq_v2),
    'BoolQDatasetV3': layout({WHOLE: SplitFile()}, conversions.boolq_v3),
    'CEvalDataset': layout({name: f'{name}/{{name}}_{name}.csv' for name in ('dev', 'val', 'test')}, conversions.ceval),
    'CMMLUDataset': layout({name: f'{name}/{{name}}.csv' for name in ('dev', 'test')}, conversions.cmmlu),
    'GPQADataset': _gpqa,
    'GSM8KDataset': layout({'train': 'train.jsonl', 'test': 'test.jsonl'}),
    'HellaswagDataset': layout({WHOLE: SplitFile()}, conversions.hellaswag),
    'HellaswagDataset_V2': layout({WHOLE: SplitFile()}, conversions.hellaswag_v2),
    'HellaswagDataset_V3': layout({WHOLE: SplitFile()}, conversions.hellaswag_v3),
    'HellaswagDatasetwithICE': layout(
        {'train': 'hellaswag_train_sampled25.jsonl', 'val': 'hellaswag.jsonl'}, conversions.hellaswag_v2
    ),
    'HumanevalDataset': _repeat_rows(_ONE_FILE),
    'IFEvalDataset': layout({WHOLE: SplitFile()}, conversions.ifeval),
    'MATHDataset': layout({WHOLE: '{file_name}'}, conversions.math, file_name='math.json'),
    'MBPPDataset': layout(_MBPP, conversions.mbpp),
    'MBPPDatasetV2': _repeat_test_split(layout(_MBPP, conversions.mbpp)),
    'MBPPPlusDataset': _repeat_rows(layout({WHOLE: SplitFile()}, conversions.mbpp)),
    'MMLUDataset': layout({name: f'{name}/{{name}}_{name}.csv' for name in ('dev', 'val', 'test')}, options=_MMLU_CSV),
    'MMLUProDataset': _mmlu_pro,
    'MTBenchDataset': _mt_bench,
    'NaturalQuestionDataset': layout(
        {'dev': SplitFile('nq-dev.qa.csv', _first_answer), 'test': SplitFile('nq-test.qa.csv', _all_answers)},
        options=_LENIENT_TSV,
    ),
    'NQOpenDataset': layout(
        {
            'train': SplitFile('nq-open-train.jsonl', lambda row: {**row, 'answer': row['answer'][0]}),
            'validation': 'nq-open-validation.jsonl',
        }
    ),
    'PIQADataset': layout(_LABELLED, conversions.piqa),
    'PIQADatasetV2': layout(_LABELLED, conversions.piqa_v2),
    'PIQADatasetV3': layout(_LABELLED, conversions.piqa_v3),
    'RaceDataset': layout(
        {name: f'{name}/{{name}}.jsonl' for name in ('train', 'validation', 'test')}, conversions.race
    ),
    'SanitizedMBPPDataset': _repeat_test_split(
        layout({'train': SplitFile(range='[:7]'), 'test': SplitFile(range='[7:264]')}, conversions.sanitized_mbpp)
    ),
    'siqaDataset': layout(_LABELLED, conversions.siqa),
    'siqaDataset_V2': layout(_LABELLED, conversions.siqa_v2),
    'SiqaDatasetV3': layout(_LABELLED, conversions.siqa_v3),
    'TriviaQADataset': layout(
        {'dev': SplitFile('trivia-dev.qa.csv', _all_answers), 'test': SplitFile('trivia-test.qa.csv', _first_answer)},
        options=_LENIENT_TSV,
    ),
    'TriviaQADatasetV2': layout({name: f'triviaqa-{name}.jsonl' for name in ('train', 'validation')}),
    'TriviaQADatasetV3': _ONE_FILE,
    'WinograndeDataset': layout({WHOLE: 'dev.jsonl'}, conversions.winogrande),
    'WinograndeDatasetV2': layout({WHOLE: 'dev.jsonl'}, conversions.winogrande_v2),
    'WinograndeDatasetV3': layout({name: f'{name}.jsonl' for name in ('train_xs', 'dev')}, conversions.winogrande_v2),
}
