"""The file layouts of public benchmarks: which file holds which split, and how a record becomes a row.

Columns are those that published configs use in their templates; nothing else is added to a row.
"""

from __future__ import annotations

import ast
from pathlib import Path

from rolecall.sources.datasets import conversions
from rolecall.sources.datasets.agent_benchmarks import AGENT, AGENT_HUB
from rolecall.sources.datasets.chinese_benchmarks import CHINESE
from rolecall.sources.datasets.code_benchmarks import CODE, CODE_HUB
from rolecall.sources.datasets.english_benchmarks import ENGLISH, ENGLISH_HUB
from rolecall.sources.datasets.folders import open_folder
from rolecall.sources.datasets.formats import FileOptions
from rolecall.sources.datasets.layouts import (
    Entry,
    HubLoader,
    Loader,
    SplitFile,
    layout,
    repeat_rows,
    repeat_test_split,
)
from rolecall.sources.datasets.long_benchmarks import LONG
from rolecall.sources.datasets.rows import WHOLE, FilteredRows, MappedRows, Row, Splits
from rolecall.sources.datasets.science_benchmarks import SCIENCE, SCIENCE_HUB

_LENIENT_TSV = FileOptions(format='tsv', columns=('question', 'answer'), strict=False)
_MMLU_CSV = FileOptions(format='csv', columns=('input', 'A', 'B', 'C', 'D', 'target'))


def _first_answer(row: Row) -> Row:
    return {**row, 'answer': ast.literal_eval(row['answer'])[0]}


def _all_answers(row: Row) -> Row:
    return {**row, 'answer': ast.literal_eval(row['answer'])}


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
        splits = {
            name: FilteredRows(rows, lambda row: row['category'] == category, str(path))
            for name, rows in splits.items()
        }
    return {
        name: MappedRows(rows, lambda row, _: conversions.mmlu_pro(row), str(path)) for name, rows in splits.items()
    }


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
    'HumanevalDataset': repeat_rows(_ONE_FILE),
    'IFEvalDataset': layout({WHOLE: SplitFile()}, conversions.ifeval),
    'MATHDataset': layout({WHOLE: '{file_name}'}, conversions.math, file_name='math.json'),
    'MBPPDataset': layout(_MBPP, conversions.mbpp),
    'MBPPDatasetV2': repeat_test_split(layout(_MBPP, conversions.mbpp)),
    'MBPPPlusDataset': repeat_rows(layout({WHOLE: SplitFile()}, conversions.mbpp)),
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
    'SanitizedMBPPDataset': repeat_test_split(
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
    **AGENT,
    **CHINESE,
    **CODE,
    **ENGLISH,
    **LONG,
    **SCIENCE,
}

HUB_BENCHMARKS: dict[str, HubLoader] = {**AGENT_HUB, **CODE_HUB, **ENGLISH_HUB, **SCIENCE_HUB}
"""Benchmarks that are published on a hub; a folder with their files works too."""
