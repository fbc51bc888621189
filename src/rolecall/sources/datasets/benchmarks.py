"""The file layouts of public benchmarks: which file holds which split, and how a record becomes a row.

`benchmarks.tsv` declares most of them; the functions here open the others. Columns are those that published configs
use in their templates; nothing else is added to a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from rolecall.plain_files import read_table
from rolecall.sources.datasets import record_shapes
from rolecall.sources.datasets.agent_benchmarks import open_arc_prize, open_bfcl, open_teval
from rolecall.sources.datasets.columns import make_shape
from rolecall.sources.datasets.conversions import LETTERS
from rolecall.sources.datasets.folders import open_folder
from rolecall.sources.datasets.formats import FileOptions
from rolecall.sources.datasets.layouts import (
    Entry,
    HubLoader,
    Loader,
    SplitFile,
    expand_rows,
    filter_splits,
    open_hub_layout,
    open_layout,
    read_json,
    repeat_rows,
    repeat_test_split,
)
from rolecall.sources.datasets.ranges import apply_range, sample
from rolecall.sources.datasets.rows import WHOLE, JoinedRows, ListRows, MappedRows, Row, Splits

_FILE_OPTIONS = ('format', 'columns')
_LENIENT_TSV = FileOptions(format='tsv', columns=('question', 'answer'), strict=False)
_FIRST_ANSWER = make_shape('*, answer = answer | literal | first')
_ALL_ANSWERS = make_shape('*, answer = answer | literal')
_CLOZE = make_shape('question = question | strip, answer = answer | strip')


def _open_declared(declaration: Sequence[str], path: Path, entry: Entry) -> Splits:
    """Open a benchmark of the table that lies in files."""
    files, row, words = declaration
    options = _read_options(words)
    shape = _find_shape(row)
    file_options = {name: options[name] for name in _FILE_OPTIONS if name in options}
    if 'columns' in file_options:
        file_options['columns'] = tuple(file_options['columns'].split(','))
    splits = open_layout(
        path,
        {**options, **entry},
        _read_files(files),
        None if 'each' in options else shape,
        options=FileOptions(**file_options),
        keep=_find_function(options.get('keep')),
    )
    if 'each' in options:
        splits = expand_rows(splits, shape, path)
    if 'mini_set' in options and entry.get('mini_set') and 'test' in splits:
        splits['test'] = sample(splits['test'], 150, seed=1024)
    return _repeat(splits, entry, options)


def _open_declared_hub(declaration: Sequence[str], entry: Entry, base: Path | None) -> Splits:
    """Open a benchmark of the table that is published on a hub."""
    splits, row, words = declaration
    options = _read_options(words)
    names = dict(split.split('=') for split in splits.split() if '=' in split)
    config, path = options.get('config', ''), options.get('path', '')
    keep = _find_function(options.get('keep'))
    opened = open_hub_layout(entry, base, _find_shape(row), splits=names, config=config, keep=keep, path=path)
    return _repeat(opened, entry, options)


def _repeat(splits: Splits, entry: Entry, options: dict[str, str]) -> Splits:
    match options.get('repeat'):
        case 'rows':
            return repeat_rows(splits, entry)
        case 'test':
            return repeat_test_split(splits, entry)
    return splits


def _read_options(words: str) -> dict[str, Any]:
    return {name: value for name, _, value in (word.partition('=') for word in words.split())}


@lru_cache
def _find_shape(row: str) -> Any:
    """The function that a declaration names (`arc()`), or makes; None if records are rows as they are."""
    if row == '*':
        return None
    return _find_function(row[:-2]) if row.endswith('()') else make_shape(row)


def _find_function(name: str | None) -> Any:
    return getattr(record_shapes, name) if name else None


def _read_files(files: str) -> dict[str, SplitFile]:
    """Splits and their files: `train,test=%.jsonl+%.lst`, `test=a.json[:5]`, `-` for the file that the path names."""
    splits = {}
    for words in files.split():
        names, is_named, place = words.rpartition('=')
        for name in names.split(',') if is_named else [WHOLE]:
            file, bracket, range_ = place.replace('%', name).partition('[')
            file, _, labels = file.partition('+')
            splits[name] = SplitFile(file.strip('-') and file, labels=labels, range=f'[{range_}' if bracket else None)
    return splits


def _declare(open_it: Callable[..., Splits], line: Sequence[str]) -> Callable[..., Splits]:
    """What opens a benchmark of the table; its docstring says where the rows are."""
    files = [(name, split.file) for name, split in _read_files(line[0]).items()]
    places = ', '.join(file if name == WHOLE else f'{name} = {file}' for name, file in files if file)
    if line[-1].startswith('hub'):
        where = 'A hub dataset, or a folder with its files.'
    else:
        where = f'Files below path: {places}.' if places else 'One file of rows, named by path.'
    opener = partial(open_it, line)
    opener.__doc__ = where
    return opener


def _with_doc(opener: partial[Splits], function: Callable[..., Splits]) -> partial[Splits]:
    opener.__doc__ = function.__doc__
    return opener


def _agieval(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}.jsonl."""
    name = str(entry.get('name'))
    return open_layout(path, entry, {WHOLE: '{name}.jsonl'}, lambda row: record_shapes.agieval(row, name))


def _gpqa(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}, a CSV file."""
    splits = open_layout(path, entry, {WHOLE: '{name}'}, options=FileOptions(format='csv'))
    return {name: MappedRows(rows, record_shapes.gpqa, str(path)) for name, rows in splits.items()}


def _mmlu_pro(path: Path, entry: Entry) -> Splits:
    """A folder of splits; `category` picks one subject."""
    category = entry.get('category')
    splits = open_folder(path)
    if category is not None:
        splits = filter_splits(splits, lambda row: row['category'] == category, path)
    return {
        name: MappedRows(rows, lambda row, _: record_shapes.mmlu_pro(row), str(path)) for name, rows in splits.items()
    }


def _mt_bench(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}.json, or one file of dialogues."""
    shape = record_shapes.mt_bench_turns if path.is_file() else record_shapes.mt_bench_dialogue
    return open_layout(path, entry, {WHOLE: '{name}.json'}, shape)


def _natural_questions(path: Path, entry: Entry) -> Splits:
    """Files below path: dev = nq-dev.qa.csv, test = nq-test.qa.csv."""
    files = {'dev': SplitFile('nq-dev.qa.csv', _FIRST_ANSWER), 'test': SplitFile('nq-test.qa.csv', _ALL_ANSWERS)}
    return open_layout(path, entry, files, options=_LENIENT_TSV)


def _nq_open(path: Path, entry: Entry) -> Splits:
    """Files below path: train = nq-open-train.jsonl, validation = nq-open-validation.jsonl."""
    train = SplitFile('nq-open-train.jsonl', make_shape('*, answer = answer | first'))
    return open_layout(path, entry, {'train': train, 'validation': 'nq-open-validation.jsonl'})


def _trivia_qa(path: Path, entry: Entry) -> Splits:
    """Files below path: dev = trivia-dev.qa.csv, test = trivia-test.qa.csv."""
    dev = SplitFile('trivia-dev.qa.csv', _ALL_ANSWERS)
    test = SplitFile('trivia-test.qa.csv', _FIRST_ANSWER)
    return open_layout(path, entry, {'dev': dev, 'test': test}, options=_LENIENT_TSV)


def _story(more: str, split: str, path: Path, entry: Entry) -> Splits:
    """Files below path: {lang}_train.jsonl and {lang}_eval.jsonl, together."""
    context = ' '.join(f'{{input_sentence_{number}}}' for number in (1, 2, 3, 4))
    shape = make_shape(f'*, context = "{context}"{more}')
    files = {split: f'{{lang}}_{split}.jsonl' for split in ('train', 'eval')}
    return {split: JoinedRows(list(open_layout(path, entry, files, shape).values()))}


def _mathbench(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}.jsonl; questions are cloze, rotated or plain choices."""
    files = {WHOLE: '{name}.jsonl'}
    if 'cloze' in str(entry.get('name')):
        return open_layout(path, entry, files, _CLOZE)
    if entry.get('with_circular', True):
        return expand_rows(open_layout(path, entry, files), record_shapes.rotations, path)
    splits = open_layout(path, entry, files, record_shapes.choice_question)
    plain = make_shape('question, answer = answer | strip')
    return {split: MappedRows(rows, lambda row, _: plain(row), str(path)) for split, rows in splits.items()}


def _objective(path: Path, entry: Entry) -> Splits:
    """The file that path and `filename` name; `name` says whether its questions are cloze, rotated or plain choices."""
    files = {WHOLE: SplitFile(str(entry.get('filename') or '').lstrip('/'))}
    name = str(entry.get('name') or '')
    if 'cloze' in name:
        return open_layout(path, entry, files, _CLOZE)
    if 'circular' in name:
        return expand_rows(open_layout(path, entry, files), record_shapes.rotations, path)
    return open_layout(path, entry, files, record_shapes.choice_question)


def _xsum(path: Path, entry: Entry) -> Splits:
    """One file of rows, named by path: its first 1,000, without those that lack a text."""
    splits = open_layout(path, entry, {WHOLE: SplitFile(range='[:1000]')}, make_shape('dialogue, summary'))
    return {
        name: ListRows([row for row in rows if all(isinstance(value, str) for value in row.values())])
        for name, rows in splits.items()
    }


def _fofo(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}.json."""
    language = 'cn' if 'cn' in str(entry.get('name')) else 'en'
    judge = f'{{lan = "{language}", id, domain, sub_domain, format, format_type, question = instruction}}'
    return open_layout(path, entry, {WHOLE: '{name}.json'}, make_shape(f'question = instruction, judge = {judge}'))


def _c3(joint: str, filler: str | None, letters: bool, path: Path, entry: Entry) -> Splits:
    """One file of dialogues with their questions, named by path."""
    rows: list[Row] = []
    for texts, questions, *_ in read_json(path):
        content = joint.join(''.join(text) for text in texts)
        for question in questions:
            choices = list(question['choice'])
            label = choices.index(question['answer'])
            choices += [choices[0] if filler is None else filler] * (4 - len(choices))
            numbered = {f'choice{at}': choice for at, choice in enumerate(choices)}
            answer = {'label': LETTERS[label]} if letters else {'choices': choices, 'label': label}
            rows.append({'content': content, 'question': question['question'], **numbered, **answer})
    return {WHOLE: ListRows(rows)}


def _gaokao(path: Path, entry: Entry) -> Splits:
    """The file `filename` below path."""
    name = str(entry.get('filename') or '').lstrip('/')
    return open_layout(path, entry, {WHOLE: name.replace('{', '{{').replace('}', '}}')})


def _xiezhi(path: Path, entry: Entry) -> Splits:
    """Files below path: train = xiezhi_train_…/xiezhi.v1.json, test = {name}/xiezhi.v1.json."""
    train = 'xiezhi_train_chn' if 'chn' in str(entry.get('name')) else 'xiezhi_train_eng'
    files = {'train': f'{train}/xiezhi.v1.json', 'test': '{name}/xiezhi.v1.json'}
    splits = open_layout(path, entry, files, options=FileOptions(format='jsonl'))
    return expand_rows(splits, record_shapes.xiezhi, path)


def _lcsts(path: Path, entry: Entry) -> Splits:
    """Files below path: test.src.txt and test.tgt.txt, line by line."""
    files = {'content': 'test.src.txt', 'abst': 'test.tgt.txt'}
    texts = open_layout(path, entry, files, options=FileOptions(format='text'))
    pairs = zip(texts['content'], texts['abst'], strict=False)
    return {
        WHOLE: ListRows([{'content': text['text'].strip(), 'abst': summary['text'].strip()} for text, summary in pairs])
    }


def _leetcode(path: Path, entry: Entry) -> Splits:
    """One file of rows, named by path: the first five are for training; `difficulty` chooses rows."""
    tests = '{test_list_2 = test_list | lines, task_id = Contest id}'
    shape = make_shape(f'*, test_case = test_list, test_list = test_list | lines, test_column = {tests}')
    files = {'train': SplitFile(range='[:5]'), 'test': SplitFile(range='[5:]')}
    splits = open_layout(path, entry, files, shape)
    wanted = entry.get('difficulty', 'ALL')
    if wanted != 'ALL':
        splits = filter_splits(splits, lambda row: row['Difficulty'] == wanted, path)
    return repeat_test_split(splits, entry)


def _bigcodebench(path: Path, entry: Entry) -> Splits:
    """Files below path: BigCodeBench-{release_version}.jsonl, or BigCodeBench-Hard-… for the hard version."""
    hard = '-Hard' if entry.get('dataset_version') == 'hard' else ''
    file = f'BigCodeBench{hard}-{{release_version}}.jsonl'
    return open_layout(path, {'release_version': 'v0.1.2', **entry}, {'train': file, 'test': file})


def _taco(entry: Entry, base: Path | None) -> Splits:
    """A hub dataset, or a folder with its files; `difficulty` chooses rows."""
    wanted, where = entry.get('difficulty', 'ALL'), str(entry.get('path'))
    splits = open_hub_layout(entry, base, splits={'test': 'test'})
    numbered = MappedRows(splits['test'], lambda row, index: {**row, 'problem_id': f'test{index}'}, where)
    chosen: Splits = {'test': numbered}
    if wanted != 'ALL':
        chosen = filter_splits(chosen, lambda row: row['difficulty'] == wanted, where)
    rows = MappedRows(chosen['test'], lambda row, _: record_shapes.contest(row), where)
    return repeat_rows({'test': rows}, entry)


def _llm4mat(path: Path, entry: Entry) -> Splits:
    """The files `train_path` and `test_path` below path: the rows that have the `property`."""
    wanted = f'{{{entry.get("property")} :'
    splits = open_layout(path, entry, {'train': '{train_path}', 'test': '{test_path}'})
    limited = filter_splits(splits, lambda row: wanted in row['output'], path)
    if entry.get('mini_set') and 'test' in limited:
        limited['test'] = apply_range(limited['test'], '[:150]')
    return {name: apply_range(rows, '[:5]') if name == 'train' else rows for name, rows in limited.items()}


def _scicode(path: Path, entry: Entry) -> Splits:
    """Files below path: SciCode_datasets.json, or with `with_bg` SciCode_datasets_with_background.json."""
    background = '_with_background' if entry.get('with_bg') else ''
    return open_layout(path, entry, {WHOLE: f'SciCode_datasets{background}.json'})


def _unconditional(entry: Entry, base: Path | None) -> Splits:
    """`num` rows that all ask `prompt`."""
    return {WHOLE: ListRows([{'input': entry.get('prompt', ''), 'output': ''}] * int(entry.get('num', 1)))}


def _proteins(entry: Entry, base: Path | None) -> Splits:
    """1,000 rows, or `max_cut` if that is less, that all ask for a protein. There are no training rows."""
    tags = ' with <protein> </protein>' if entry.get('tag_bool', True) else ''
    most = int(entry.get('max_cut', -1))
    count = 1000 if most == -1 else min(1000, most)
    return {'test': ListRows([{'input': f'Generate a protein sequence{tags}.', 'output': ''}] * count)}


_DECLARED = {name: declaration for name, *declaration in read_table(__file__)}

BENCHMARKS: dict[str, Loader] = {
    **{name: _declare(_open_declared, line) for name, line in _DECLARED.items() if not line[-1].startswith('hub')},
    'AGIEvalDataset': _agieval,
    'ARCPrizeDataset': open_arc_prize,
    'BigCodeBenchDataset': _bigcodebench,
    'C3Dataset': _with_doc(partial(_c3, ' ', None, False), _c3),
    'C3Dataset_V2': _with_doc(partial(_c3, '', '[NULL]', True), _c3),
    'CompassBenchObjectiveV1_3': _objective,
    'FofoDataset': _fofo,
    'GaokaoBenchDataset': _gaokao,
    'GPQADataset': _gpqa,
    'LCDataset': _leetcode,
    'LCSTSDataset': _lcsts,
    'LLM4MatDataset': _llm4mat,
    'MathBenchDataset': _mathbench,
    'MMLUProDataset': _mmlu_pro,
    'MTBenchDataset': _mt_bench,
    'NaturalQuestionDataset': _natural_questions,
    'NQOpenDataset': _nq_open,
    'SciCodeDataset': _scicode,
    'StoryClozeDataset': _with_doc(partial(_story, '', 'test'), _story),
    'StoryClozeDatasetV2': _with_doc(
        partial(_story, ', answer_right_ending = answer_right_ending | letter(-AB)', WHOLE), _story
    ),
    'TEvalDataset': open_teval,
    'TriviaQADataset': _trivia_qa,
    'WikiBenchDataset': _objective,
    'XiezhiDataset': _xiezhi,
    'XsumDataset': _xsum,
}

HUB_BENCHMARKS: dict[str, HubLoader] = {
    **{name: _declare(_open_declared_hub, line) for name, line in _DECLARED.items() if line[-1].startswith('hub')},
    'BFCLDataset': open_bfcl,
    'TACODataset': _taco,
    'Uncond_material_Dataset': _unconditional,
    'Uncond_RNA_Dataset': _unconditional,
    'UPGDataset': _proteins,
}
"""Benchmarks that are published on a hub; a folder with their files works too."""
