"""Benchmarks whose rows hold the prompt itself: `wordings.tsv` has the wordings, as the benchmarks publish them.

A score belongs to its wording, so these are kept to the letter.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import zlib
from collections.abc import Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, DataError, Problem, did_you_mean
from rolecall.plain_files import read_table
from rolecall.sources.datasets.columns import LETTERS
from rolecall.sources.datasets.folders import find, open_files
from rolecall.sources.datasets.layouts import Entry, choose_rows, filter_splits, open_hub_layout, open_layout, read_json
from rolecall.sources.datasets.rows import WHOLE, JoinedRows, ListRows, MappedRows, Row, Rows, Splits

_RELEASE = re.compile(r'(?:release_)?v(\d)(?:_v(\d))?')


@cache
def _read_wordings() -> Mapping[str, str]:
    return {name: json.loads(text) for name, text in read_table(__file__, 'wordings.tsv')}


def find_wording(*names: object) -> str:
    """A wording by its name; ConfigError lists those there are.

    >>> find_wording('livemathbench', 'en').format(question='1+1?').splitlines()[-1]
    '1+1?'
    """
    name = '.'.join(map(str, names))
    text = _read_wordings().get(name)
    if text is None:
        known = [other for other in _read_wordings() if other.startswith(f'{names[0]}.')]
        raise ConfigError(Problem('', f'no wording {name!r} of this benchmark. {did_you_mean(name, known)}'.rstrip()))
    return text


def babilong(path: Path, entry: Entry) -> Splits:
    """Files below path: {task}/{split_name}.json."""
    shown = {part: entry.get(f'use_{option}', True) for part, option in
             (('instruction', 'instruction'), ('examples', 'examples'), ('post_prompt', 'post_prompt'))}  # fmt: skip
    texts = [find_wording('babilong', entry.get('task'), part) if shown[part] else '' for part in shown]
    begin = '\n\n'.join(texts)

    def shape(record: Row) -> Row:
        prompt = f'{begin}\n\n<context>\n{record["input"].strip()}\n</context>\n\nQuestion: {record["question"]}'
        return {'prompt': prompt.strip(), 'answer': record['target']}

    return open_layout(path, entry, {WHOLE: '{task}/{split_name}.json'}, shape)


def align_bench(entry: Entry, base: Path | None) -> Splits:
    """Files below path: {name}.json; the files of `alignment_bench_config_path` word the judge's prompt of each row."""
    config = entry.get('alignment_bench_config_path')
    kinds, dimensions, meanings = _read_dimensions(find(config, base), entry) if config else ({}, {}, {})

    def shape(record: Row) -> Row:
        row = {name: record[name] for name in ('question', 'capability', 'others')}
        row |= {'judge': dict(row), 'ref': row['others']['reference']}
        if config:
            named = enumerate(dimensions[kinds[row['others']['subcategory']]], start=1)
            listed = ''.join(f'{number}. {name}: {meanings.get(name)}\n' for number, name in named)
            asked = {'category': row['capability'], 'question': row['question'], 'reference': row['ref']}
            row['critiquellm_prefix'] = find_wording('alignbench', 'judge').format(dimensions=listed, **asked)
        return row

    return open_layout(find(str(entry['path']), base), entry, {WHOLE: '{name}.json'}, shape)


def _read_dimensions(folder: Path, entry: Entry) -> list[Any]:
    """The kind of each subcategory, the dimensions of each kind, and what each dimension means."""
    places = read_json(folder / f'{entry.get("alignment_bench_config_name")}.json')['Paths']
    names = ('subcategory_mapping', 'dimension_set_filepath', 'dimension_def_filepath')
    return [read_json(folder / places[name]) for name in names]


def live_math_bench(entry: Entry, base: Path | None) -> Splits:
    """Files below path: {version}/{split}_{language}.jsonl, or a hub dataset with such configurations."""
    version, path = entry.get('version', '202412'), str(entry.get('path') or 'data/livemathbench')
    splits = entry.get('dataset_splits', ['CNMO', 'CCEE', 'AMC', 'WLPMC'])
    return {WHOLE: JoinedRows([
        _live_math(path, version, split, language, entry.get('cot', True), base)
        for split, language in product(splits, entry.get('dataset_languages', ['cn', 'en']))
    ])}  # fmt: skip


def _live_math(path: str, version: str, split: str, language: str, cot: bool, base: Path | None) -> Rows:
    wording = find_wording('livemathbench', language)
    if not cot:
        wording = wording.replace('，请逐步推理', '').replace(', please reasoning step by step', '')
    subdivision = f'livemathbench_{version}_{split}_{language}'

    def shape(record: Row, index: int) -> Row:
        prompt = wording.format(question=record['question'])
        return {**record, 'subdivision': subdivision, 'idx': str(index), 'prompt': prompt}

    try:
        rows = open_files([find(path, base) / version / f'{split}_{language}.jsonl'])
    except DataError:
        named = {'path': path, 'name': f'v{version}_{split}_{language}'}
        rows = open_hub_layout(named, base, splits={'test': 'test'}, config='name')['test']
    return MappedRows(rows, shape, path)


def super_gpqa(entry: Entry, base: Path | None) -> Splits:
    """A hub dataset, or a folder with its files; `discipline`, `field` and `subfield` choose rows."""
    mode = entry.get('prompt_mode', 'zero-shot')
    wording = find_wording('supergpqa', mode)
    columns = {name: name for name in ('discipline', 'field', 'subfield')}
    splits = choose_rows(open_hub_layout(entry, base, splits={WHOLE: 'train'}), entry, columns, entry['path'])

    def shape(record: Row, index: int) -> Row:
        options = [f'{letter}) {option}' for letter, option in zip(LETTERS, record['options'], strict=False)]
        prompt = wording.format('\n'.join([record['question'], *options]))
        return {**record, 'infer_prompt': prompt, 'prompt_mode': mode}

    return {name: MappedRows(rows, shape, str(entry['path'])) for name, rows in splits.items()}


def kor_bench(path: Path, entry: Entry) -> Splits:
    """Files below path: {category}/rule, sample and three-shot (.json or .jsonl), or mixed/{category}."""
    mode, category = entry.get('prompt_mode', '0_shot'), str(entry.get('category'))
    if mode == 'mixed':
        return {WHOLE: ListRows([_mixed_puzzle(path, record) for record in _kor_records(path, 'mixed', category)])}
    wording = find_wording('korbench', mode, category)
    rules = {rule['idx']: rule['rule_content'] for rule in _kor_records(path, category, 'rule')}
    shots = _kor_records(path, category, 'three-shot') if mode == '3_shot' else []
    rows: list[Row] = []
    for sample in _kor_records(path, category, 'sample'):
        rule, question = sample['rule_id'], sample['question']
        if rule in rules:
            shown = [text for shot in shots if shot['rule_id'] == rule for text in (shot['question'], shot['answer'])]
            prompt = wording.format(rules[rule], *shown, question)
            columns = {'rule_content': rules[rule], 'question': question, 'answer': sample['answer'], 'rule_id': rule}
            rows.append({**columns, 'prompt': prompt, 'prompt_mode': mode, 'category': category})
    return {WHOLE: ListRows(rows)}


def _kor_records(path: Path, folder: str, name: str) -> list[Row]:
    files = {WHOLE: f'{folder}/{name}.json|{folder}/{name}.jsonl'}
    return list(open_layout(path, {}, files)[WHOLE])


def _mixed_puzzle(path: Path, record: Row) -> Row:
    """Several rules and questions in one prompt; they name a record each (`logic_7`)."""
    listed = []
    for kind, column, ids in (('rule', 'rule_content', 'rule_list'), ('sample', 'question', 'question_list')):
        texts = []
        for name in record[ids]:
            category, _, wanted = name.rpartition('_')
            match = next(item for item in _kor_records(path, category, kind) if str(item['idx']) == wanted)
            texts.append(match[column])
        word = 'Rule' if kind == 'rule' else 'Question'
        listed.append('\n'.join(f'{word} {number}: {text}' for number, text in enumerate(texts, start=1)))
    prompt = find_wording('korbench', 'mixed').format(*listed)
    columns = {'rule_list': record['rule_list'], 'question_list': record['question_list'], 'base_path': str(path)}
    return {**columns, 'prompt': prompt, 'prompt_mode': 'mixed', 'answer': ''}


def musr(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}.json, stories with their questions."""
    name = entry.get('name')
    wording = find_wording('musr', name)
    rows: list[Row] = []
    for story in read_json(path / f'{name}.json'):
        for question in story['questions']:
            choices = '\n'.join(f'{number} - {choice}' for number, choice in enumerate(question['choices'], start=1))
            asked = {'context': story['context'], 'question_text': question['question'], 'choices_str': choices}
            more = {name: question.get(name, []) for name in ('intermediate_trees', 'intermediate_data')}
            rows += [
                {
                    **asked,
                    **more,
                    'question': question,
                    'answer': question['answer'],
                    'choices': question['choices'],
                    'prompt': wording.format(**asked),
                    'system_prompt': find_wording('musr', 'system'),
                    'gold_answer': question['answer'] + 1,
                    'scidx': sample,
                    'self_consistency_n': entry.get('self_consistency_n', 1),
                    'ablation_name': 'cot+',
                }
                for sample in range(entry.get('self_consistency_n', 1))
            ]
    return {WHOLE: ListRows(rows)}


def code_generation(entry: Entry, base: Path | None) -> Splits:
    """Files below path: test.jsonl to test6.jsonl, as `release_version` names them; dates choose contests."""
    source = str(entry.get('path') or 'opencompass/code_generation_lite')
    folder = find(source, base)
    rows = open_files(_release_files(folder, str(entry.get('release_version', 'release_v1'))))
    first, last = str(entry.get('start_date') or ''), str(entry.get('end_date') or '9')
    splits = filter_splits({'test': rows}, lambda row: first <= row['contest_date'][:10] <= last, source)
    rows = MappedRows(splits['test'], lambda row, _: _contest_problem(row), source)
    return {'test': rows, 'train': rows}


def _release_files(folder: Path, version: str) -> list[Path]:
    """The files of a release: `release_v2` is the first two, `v4_v5` the fourth and fifth."""
    if folder.is_file():
        return [folder]
    match = _RELEASE.fullmatch(version)
    if match is None and version != 'release_latest':
        raise ConfigError(Problem('release_version', f"must be like 'release_v2' or 'v4_v5', got {version!r}."))
    last = int(match[2] or match[1]) if match else 6
    first = int(match[1]) if match and not version.startswith('release') else 1
    return [folder / f'test{number if number > 1 else ""}.jsonl' for number in range(first, last + 1)]


def _contest_problem(row: Row) -> Row:
    tests = [*json.loads(row['public_test_cases']), *_private_tests(row['private_test_cases'])]
    sample = {
        'inputs': [test['input'] for test in tests],
        'outputs': [test['output'] for test in tests],
        'fn_name': json.loads(row['metadata']).get('func_name'),
    }
    wording = find_wording('livecodebench', 'starter' if row['starter_code'] else 'stdin')
    return {**row, 'format_prompt': wording.format_map(row), 'evaluation_sample': json.dumps(sample)}


def _private_tests(text: str) -> Any:
    """The hidden tests: JSON, or JSON that is pickled, compressed and written as base64."""
    try:
        return json.loads(text)
    except ValueError:
        packed = zlib.decompress(base64.b64decode(text))
        import pickletools

        texts = (value for code, value, _ in pickletools.genops(packed) if code.name.endswith('UNICODE'))
        return json.loads(str(next(texts)))  # read without being executed, as loading a pickle would


def code_execution(entry: Entry, base: Path | None) -> Splits:
    """A hub dataset, or a folder with its files; the last line of the prompt asks for a call's value."""
    wording = find_wording('livecodebench', 'execution.cot' if entry.get('cot') else 'execution')

    def shape(row: Row) -> Row:
        sample = {name: row[name] for name in ('code', 'input', 'output')}
        return {**row, 'prompt': wording.format_map(row), 'evaluation_sample': json.dumps(sample)}

    return _test_and_train(entry, 'opencompass/execution-v2', shape, base)


def output_prediction(entry: Entry, base: Path | None) -> Splits:
    """A hub dataset, or a folder with its files; the prompt asks for the value of a call of the function."""

    def shape(row: Row) -> Row:
        first = json.loads(row['test'])[0]
        tree = ast.parse(row['starter_code'])
        functions = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        asked = {'function': functions[0], 'arguments': ', '.join(first['input'].split('\n'))}
        prompt = find_wording('livecodebench', 'output').format_map({**row, **asked})
        sample = json.dumps({'input': row['question_content'], 'output': first['output']})
        added = {'testcase_input': first['input'], 'testcase_output': first['output']}
        return {**row, **added, 'prompt': prompt, 'evaluation_sample': sample}

    return _test_and_train(entry, 'opencompass/test_generation', shape, base)


def _test_and_train(entry: Entry, path: str, shape: Any, base: Path | None) -> Splits:
    rows = open_hub_layout({'path': path, **entry}, base, shape, splits={'test': 'test'})['test']
    return {'test': rows, 'train': rows}
