"""The file layouts of public benchmarks: which file holds which split, and how a record becomes a row.

`benchmarks.tsv` declares most of them, and names the functions that open the others. Columns are those that published
configs use in their templates; nothing else is added to a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from rolecall.plain_files import read_table
from rolecall.sources.datasets import agent_benchmarks, haystacks, record_shapes, worded
from rolecall.sources.datasets.columns import LETTERS, make_shape
from rolecall.sources.datasets.folders import open_folder
from rolecall.sources.datasets.formats import FileOptions
from rolecall.sources.datasets.layouts import (
    Entry,
    HubLoader,
    Loader,
    Shape,
    SplitFile,
    choose_rows,
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


def _open_declared(declaration: Sequence[str], path: Path, entry: Entry) -> Splits:
    """Open a benchmark of the table that lies in files."""
    files, rows, words, *given = declaration
    options = _read_options(words)
    shapes = [_find_shape(row) for row in rows.split(' || ')]
    splits = open_layout(
        path,
        _fill_entry(options, entry, given),
        _read_files(files, shapes if len(shapes) > 1 else []),
        None if 'each' in options else shapes[-1],
        options=FileOptions(
            format=options.get('format'),
            columns=tuple(options['columns'].split(',')) if 'columns' in options else None,
            strict='strict' not in options,
        ),
        keep=_find_function(options.get('keep')),
    )
    return _choose_and_repeat(_expand_each(splits, options, shapes[-1], path), options, entry, path)


def _open_declared_hub(declaration: Sequence[str], entry: Entry, base: Path | None) -> Splits:
    """Open a benchmark of the table that is published on a hub."""
    splits, row, words, *given = declaration
    options = _read_options(words)
    shape, path = _find_shape(row), Path(str(entry.get('path')))
    opened = open_hub_layout(
        _fill_entry(options, entry, given),
        base,
        None if 'each' in options else shape,
        splits=dict(split.split('=') for split in splits.split() if '=' in split),
        config=options.get('config', ''),
        keep=_find_function(options.get('keep')),
    )
    return _choose_and_repeat(_expand_each(opened, options, shape, path), options, entry, path)


def _fill_entry(options: Mapping[str, Any], entry: Entry, given: Sequence[str]) -> dict[str, Any]:
    """The entry over its defaults, with the values that the table makes of them (as rows are made of records)."""
    filled = {**options, **entry}
    return {**filled, **(make_shape(given[0])(filled) if given else {})}


def _expand_each(splits: Splits, options: Mapping[str, str], shape: Any, path: Path) -> Splits:
    """Rows of records that are several: `each` alone names a shape that gives them, or else it names their lists."""
    if 'each' not in options:
        return splits
    if not options['each']:
        return expand_rows(splits, shape, path)

    def expand(record: Row, number: int) -> Iterator[Row]:
        return map(shape or dict, _list_items(record, record, options['each']))

    return expand_rows(splits, expand, path)


def _list_items(record: Row, holder: Row, columns: str) -> Iterator[Row]:
    """The record with an item in place of its list: `a,b` are lists side by side, `a.b` a list inside an item of a."""
    outer, _, inner = columns.partition('.')
    names = outer.split(',')
    values = [holder[name] for name in names]
    for items in zip(*values, strict=True) if isinstance(values[0], list) else [values]:
        row = {**record, **dict(zip(names, items, strict=True))}
        yield from _list_items(row, items[0], inner) if inner else [row]


def _choose_and_repeat(splits: Splits, options: Mapping[str, str], entry: Entry, path: Path) -> Splits:
    if 'mini_set' in options and entry.get('mini_set') and 'test' in splits:
        splits['test'] = sample(splits['test'], 150, seed=1024)
    if 'range' in options:
        splits = {name: apply_range(rows, options['range']) for name, rows in splits.items()}
    if 'joined' in options:
        splits = {options['joined']: JoinedRows(list(splits.values()))}
    if 'where' in options:
        splits = choose_rows(splits, entry, dict([options['where'].split(':')]), path)
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


def _read_files(files: str, shapes: Sequence[Any] = ()) -> dict[str, SplitFile]:
    """Splits and their files: `train,test=%.jsonl+%.lst`, `test=a.json[:5]`, `-` for the file that the path names."""
    splits: dict[str, SplitFile] = {}
    for words in files.split():
        names, is_named, place = words.rpartition('=')
        for name in names.split(',') if is_named else [WHOLE]:
            file, bracket, range_ = place.replace('%', name).partition('[')
            file, _, labels = file.partition('+')
            shape = shapes[len(splits)] if shapes else None
            splits[name] = SplitFile(file.strip('-') and file, shape, labels, f'[{range_}' if bracket else None)
    return splits


def _declare(open_it: Callable[..., Splits], line: Sequence[str]) -> Callable[..., Splits]:
    """What opens a benchmark: the function that its line names (`worded.musr()`), or one that is made of it."""
    if line[0].endswith('()'):
        module, _, name = line[0][:-2].rpartition('.')
        function: Callable[..., Splits] = getattr(_MODULES[module], name) if module else globals()[name]
        return function
    files = [(name, split.file) for name, split in _read_files(line[0]).items()]
    places = ', '.join(file if name == WHOLE else f'{name} = {file}' for name, file in files if file)
    if line[2].startswith('hub'):
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
    splits = choose_rows(open_folder(path), entry, {'category': 'category'}, path)
    return {
        name: MappedRows(rows, lambda row, _: record_shapes.mmlu_pro(row), str(path)) for name, rows in splits.items()
    }


def _mt_bench(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}.json, or one file of dialogues."""
    shape = record_shapes.mt_bench_turns if path.is_file() else record_shapes.mt_bench_dialogue
    return open_layout(path, entry, {WHOLE: '{name}.json'}, shape)


def _mathbench(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}.jsonl; questions are cloze, rotated or plain choices."""
    strip = make_shape('question, answer = answer | strip')
    circular = entry.get('with_circular', True)
    return _open_exam(path, entry, '{name}.jsonl', circular, lambda row: strip(record_shapes.choice_question(row)))


def _objective(path: Path, entry: Entry) -> Splits:
    """The file that path and `filename` name; `name` says whether its questions are cloze, rotated or plain choices."""
    file = str(entry.get('filename') or '').lstrip('/')
    return _open_exam(path, entry, file, 'circular' in str(entry.get('name')), record_shapes.choice_question)


def _open_exam(path: Path, entry: Entry, file: str, circular: bool, plain: Shape) -> Splits:
    if 'cloze' in str(entry.get('name')):
        return open_layout(
            path, entry, {WHOLE: file}, make_shape('question = question | strip, answer = answer | strip')
        )
    if circular:
        return expand_rows(open_layout(path, entry, {WHOLE: file}), record_shapes.rotations, path)
    return open_layout(path, entry, {WHOLE: file}, plain)


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


def _pmmeval_mmlu(path: Path, entry: Entry) -> Splits:
    """Files below path: mmmlu/easy/test/mmlu_{lang}.jsonl and mmmlu/hard/…; `difficulty` chooses one, or `all`."""
    wanted = entry.get('difficulty', 'all')
    levels = ('easy', 'hard') if wanted == 'all' else (wanted,)
    files = {level: f'mmmlu/{level}/test/mmlu_{{lang}}.jsonl' for level in levels}
    return {'test': JoinedRows(list(open_layout(path, entry, files).values()))}


def _taco(entry: Entry, base: Path | None) -> Splits:
    """A hub dataset, or a folder with its files; `difficulty` chooses rows."""
    where = str(entry.get('path'))
    splits = open_hub_layout(entry, base, splits={'test': 'test'})
    numbered = MappedRows(splits['test'], lambda row, index: {**row, 'problem_id': f'test{index}'}, where)
    chosen = choose_rows({'test': numbered}, entry, {'difficulty': 'difficulty'}, where)
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


def _unconditional(entry: Entry, base: Path | None) -> Splits:
    """`num` rows that all ask `prompt`."""
    return {WHOLE: ListRows([{'input': entry.get('prompt', ''), 'output': ''}] * int(entry.get('num', 1)))}


def _proteins(entry: Entry, base: Path | None) -> Splits:
    """1,000 rows, or `max_cut` if that is less, that all ask for a protein. There are no training rows."""
    tags = ' with <protein> </protein>' if entry.get('tag_bool', True) else ''
    most = int(entry.get('max_cut', -1))
    count = 1000 if most == -1 else min(1000, most)
    return {'test': ListRows([{'input': f'Generate a protein sequence{tags}.', 'output': ''}] * count)}


_MODULES = {'worded': worded, 'haystacks': haystacks, 'agent_benchmarks': agent_benchmarks}
_DECLARED = {name: declaration for names, *declaration in read_table(__file__) for name in names.split()}

BENCHMARKS: dict[str, Loader] = {
    **{name: _declare(_open_declared, line) for name, line in _DECLARED.items() if not line[2].startswith('hub')},
    'C3Dataset': _with_doc(partial(_c3, ' ', None, False), _c3),
    'C3Dataset_V2': _with_doc(partial(_c3, '', '[NULL]', True), _c3),
}
HUB_BENCHMARKS: dict[str, HubLoader] = {
    name: _declare(_open_declared_hub, line) for name, line in _DECLARED.items() if line[2].startswith('hub')
}
"""Benchmarks that are published on a hub; a folder with their files works too."""
