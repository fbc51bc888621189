"""Each benchmark's local layout gives the columns its templates use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.benchmark_files import CASES as LAYOUTS
from tests.benchmark_files import HUB_CASES as HUB_LAYOUTS
from tests.benchmark_files import RECORDED

from rolecall.errors import ConfigError, DataError
from rolecall.sources.datasets import open_dataset
from rolecall.sources.datasets.benchmarks import BENCHMARKS, HUB_BENCHMARKS


def jsonl(*rows: dict[str, Any]) -> str:
    return ''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in rows)


class Case(NamedTuple):
    kind: str
    files: dict[str, str]
    path: str
    entry: dict[str, Any]
    reader: dict[str, Any]
    test: list[dict[str, Any]]
    train: list[dict[str, Any]] | None = None


ARC = {
    'id': 'x',
    'question': {
        'stem': 'Which?',
        'choices': [{'text': t, 'label': label} for t, label in zip('wxyz', '1234', strict=True)],
    },
    'answerKey': '3',
}
ARC_FIVE = {
    'id': 'y',
    'question': {'stem': 'Five?', 'choices': [{'text': 't', 'label': c} for c in 'ABCDE']},
    'answerKey': 'E',
}
ARC_ROW = {'question': 'Which?', 'answerKey': 'C', 'textA': 'w', 'textB': 'x', 'textC': 'y', 'textD': 'z'}
HELLA = {'query': 'Baking: a cake: She', 'choices': ['w', 'x', 'y', 'z'], 'gold': 1}
OPTIONS = {'A': 'w', 'B': 'x', 'C': 'y', 'D': 'z'}
PIQA = {'id': 'i', 'goal': 'when boiling butter,', 'sol1': 'Pour it', 'sol2': 'Wait'}
SIQA = {'context': 'c', 'question': 'q', 'answerA': 'x', 'answerB': 'y', 'answerC': 'z'}
WINO = {'sentence': 'The cup hit the bag since _ was big.', 'option1': 'cup', 'option2': 'bag', 'answer': '2'}
WINO_ROW = {
    'prompt': 'The cup hit the bag since _ was big.',
    'only_option1': 'cup',
    'only_option2': 'bag',
    'opt1': 'The cup hit the bag since cup was big.',
    'opt2': 'The cup hit the bag since bag was big.',
    'answer': '2',
    'cont': ' was big.',
}
MBPP = [{'task_id': n, 'text': f't{n}', 'code': 'c', 'test_list': [f'assert {n}', 'assert 1']} for n in range(1, 13)]
SANITIZED = [
    {'task_id': n, 'prompt': f't{n}', 'code': 'c', 'test_list': [f'assert {n}', 'assert 1']} for n in range(1, 10)
]
AGI = {'passage': 'P. ', 'question': 'Q?', 'options': ['(A)x', '(B)y'], 'label': 'B', 'answer': None}
AGI_CLOZE = {'passage': None, 'question': '1+1?', 'options': None, 'label': None, 'answer': '2'}
AGI_MULTI = {**AGI, 'label': ['A', 'B']}
GPQA_HEADER = (
    ','.join(f'c{n}' for n in range(7))
    + ',Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3\n'
)
IFEVAL = {'key': 1, 'prompt': 'Say hi', 'instruction_id_list': ['a:b'], 'kwargs': [{'n': 1}]}


def labelled(row: dict[str, Any], train_label: str, dev_label: str) -> dict[str, str]:
    return {
        'd/train.jsonl': jsonl(row),
        'd/train-labels.lst': f'{train_label}\n',
        'd/dev.jsonl': jsonl(row),
        'd/dev-labels.lst': f'{dev_label}\n',
    }


def mbpp_row(number: int) -> dict[str, Any]:
    tests = f'assert {number}\nassert 1'
    return {'task_id': number, 'text': f't{number}', 'code': 'c', 'test_list': tests, 'test_list_2': tests}


CASES = [
    Case('GSM8KDataset', {'d/train.jsonl': jsonl({'question': 'a', 'answer': 'x #### 1'}), 'd/test.jsonl': jsonl({'question': 'b', 'answer': 'y #### 2'})},
         'd', {}, {}, [{'question': 'b', 'answer': 'y #### 2'}], [{'question': 'a', 'answer': 'x #### 1'}]),
    Case('MATHDataset', {'d/math.json': json.dumps({'0': {'problem': 'p', 'solution': r'so \boxed{1} and \boxed{\frac{1}{2}}.'}, '1': {'problem': 'q', 'solution': 'none'}})},
         'd', {}, {}, [{'problem': 'p', 'solution': r'\frac{1}{2}'}, {'problem': 'q', 'solution': None}]),
    Case('MATHDataset', {'d/500.json': json.dumps({'0': {'problem': 'p', 'solution': r'\boxed{3}'}})}, 'd', {'file_name': '500.json'}, {}, [{'problem': 'p', 'solution': '3'}]),
    Case('MMLUDataset', {'d/dev/law_dev.csv': 'q0,w,x,y,z,A\n', 'd/test/law_test.csv': '"q1, with ""quotes""\nand lines",w,x,y,z,B\n'},
         'd', {'name': 'law'}, {'train_split': 'dev'}, [{'input': 'q1, with "quotes"\nand lines', **OPTIONS, 'target': 'B'}], [{'input': 'q0', **OPTIONS, 'target': 'A'}]),
    Case('CEvalDataset', {f'd/{split}/law_{split}.csv': text for split, text in {
        'dev': 'id,question,A,B,C,D,answer,explanation\n0,q0,w,x,y,z,A,why\n', 'val': 'id,question,A,B,C,D,answer\n0,q1,w,x,y,z,B\n', 'test': 'id,question,A,B,C,D\n0,q2,w,x,y,z\n'}.items()},
         'd', {'name': 'law'}, {'train_split': 'dev', 'test_split': 'test'}, [{'id': '0', 'question': 'q2', **OPTIONS, 'answer': '', 'explanation': ''}],
         [{'id': '0', 'question': 'q0', **OPTIONS, 'answer': 'A', 'explanation': 'why'}]),
    Case('CMMLUDataset', {'d/dev/law.csv': ',Question,A,B,C,D,Answer\n0,q0,w,x,y,z,A\n', 'd/test/law.csv': ',Question,A,B,C,D,Answer\n0,问题,w,x,y,z,D\n'},
         'd', {'name': 'law'}, {'train_split': 'dev'}, [{'question': '问题', **OPTIONS, 'answer': 'D'}], [{'question': 'q0', **OPTIONS, 'answer': 'A'}]),
    Case('ARCDataset', {'d/ARC-Dev.jsonl': jsonl(ARC_FIVE, ARC)}, 'd/ARC-Dev.jsonl', {'name': 'ARC-Challenge'}, {}, [ARC_ROW]),
    Case('HellaswagDataset', {'d.jsonl': jsonl(HELLA)}, 'd.jsonl', {}, {}, [{'ctx': 'She', **OPTIONS, 'label': 1}]),
    Case('HellaswagDataset_V2', {'d.jsonl': jsonl(HELLA)}, 'd.jsonl', {}, {}, [{'ctx': 'a cake: She', **OPTIONS, 'label': 'B'}]),
    Case('HellaswagDataset_V3', {'d.jsonl': jsonl(HELLA)}, 'd.jsonl', {}, {}, [{'query': 'Baking: a cake: She', **OPTIONS, 'gold': 1}]),
    Case('HellaswagDatasetwithICE', {'d/hellaswag_train_sampled25.jsonl': jsonl(HELLA), 'd/hellaswag.jsonl': jsonl(HELLA, HELLA)}, 'd', {}, {'test_split': 'val'},
         [{'ctx': 'a cake: She', **OPTIONS, 'label': 'B'}] * 2, [{'ctx': 'a cake: She', **OPTIONS, 'label': 'B'}]),
    Case('BoolQDataset', {'d.jsonl': jsonl({'question': 'q', 'passage': 'p', 'label': 'true'}, {'question': 'q', 'passage': 'p', 'label': 'false'})},
         'json', {'data_files': 'd.jsonl', 'split': 'train'}, {'test_split': 'train'},
         [{'question': 'q', 'passage': 'p', 'label': 'true', 'answer': 1}, {'question': 'q', 'passage': 'p', 'label': 'false', 'answer': 0}]),
    Case('BoolQDatasetV2', {'d.jsonl': jsonl({'question': 'q', 'passage': 'p', 'label': 'false'})}, 'd.jsonl', {}, {}, [{'question': 'q', 'passage': 'p', 'label': 'B'}]),
    Case('BoolQDatasetV3', {'d.jsonl': jsonl({'question': 'is it', 'passage': 'Title -- a -- b', 'label': 'true'})}, 'd.jsonl', {}, {}, [{'question': 'Is it', 'passage': 'a -- b', 'label': 'true'}]),
    Case('PIQADataset', labelled(PIQA, '0', '1'), 'd', {}, {'test_split': 'validation'},
         [{'goal': 'when boiling butter,', 'sol1': 'Pour it', 'sol2': 'Wait', 'label': 1}], [{'goal': 'when boiling butter,', 'sol1': 'Pour it', 'sol2': 'Wait', 'label': 0}]),
    Case('PIQADatasetV2', labelled(PIQA, '-1', '1'), 'd', {}, {'test_split': 'validation'},
         [{'goal': 'when boiling butter,', 'sol1': 'Pour it', 'sol2': 'Wait', 'answer': 'B'}], [{'goal': 'when boiling butter,', 'sol1': 'Pour it', 'sol2': 'Wait', 'answer': 'NULL'}]),
    Case('PIQADatasetV3', labelled(PIQA, '0', '1'), 'd', {}, {'test_split': 'validation'},
         [{'goal': 'When boiling butter,', 'sol1': 'pour it', 'sol2': 'wait', 'label': 1}]),
    Case('siqaDataset', labelled(SIQA, '1', '3'), 'd', {}, {'test_split': 'validation'}, [{**SIQA, 'label': 3}], [{**SIQA, 'label': 1}]),
    Case('siqaDataset_V2', labelled(SIQA, '1', '3'), 'd', {}, {'test_split': 'validation'},
         [{**SIQA, 'label': 'C', 'all_labels': {'candidates': [['A. x', 'A', 'x'], ['B. y', 'B', 'y'], ['C. z', 'C', 'z']], 'label': 2}}]),
    Case('SiqaDatasetV3', labelled(SIQA, '1', '3'), 'd', {}, {'test_split': 'validation'}, [{'context': 'c', 'question': 'q', 'A': 'x', 'B': 'y', 'C': 'z', 'answer': 'C'}]),
    Case('WinograndeDataset', {'d/dev.jsonl': jsonl(WINO)}, 'd', {}, {}, [WINO_ROW]),
    Case('WinograndeDatasetV2', {'d/dev.jsonl': jsonl(WINO, {**WINO, 'answer': ''})}, 'd', {}, {}, [{**WINO_ROW, 'answer': 'B'}, {**WINO_ROW, 'answer': 'NULL'}]),
    Case('WinograndeDatasetV3', {'d/dev.jsonl': jsonl(WINO), 'd/train_xs.jsonl': jsonl({**WINO, 'answer': '1'})}, 'd', {}, {'train_split': 'train_xs', 'test_split': 'dev'},
         [{**WINO_ROW, 'answer': 'B'}], [{**WINO_ROW, 'answer': 'A'}]),
    Case('RaceDataset', {f'd/{split}/high.jsonl': jsonl({'example_id': 'e', 'article': 'a', 'question': split, 'options': list('wxyz'), 'answer': 'A'}) for split in ('validation', 'test')},
         'd', {'name': 'high'}, {'train_split': 'validation'}, [{'article': 'a', 'question': 'test', **OPTIONS, 'answer': 'A'}], [{'article': 'a', 'question': 'validation', **OPTIONS, 'answer': 'A'}]),
    Case('TriviaQADataset', {'d/trivia-dev.qa.csv': "who said \"x\"?\t['a', 'b']\n", 'd/trivia-test.qa.csv': "q\t[\"it's\", 'd']\n"}, 'd', {}, {'train_split': 'test', 'test_split': 'dev'},
         [{'question': 'who said "x"?', 'answer': ['a', 'b']}], [{'question': 'q', 'answer': "it's"}]),
    Case('TriviaQADatasetV2', {f'd/triviaqa-{split}.jsonl': jsonl({'question': split, 'answer': ['a']}) for split in ('train', 'validation')}, 'd', {}, {'test_split': 'validation'},
         [{'question': 'validation', 'answer': ['a']}], [{'question': 'train', 'answer': ['a']}]),
    Case('TriviaQADatasetV3', {'d.jsonl': jsonl({'question': 'q', 'answer': ['a']})}, 'd.jsonl', {}, {}, [{'question': 'q', 'answer': ['a']}]),
    Case('NaturalQuestionDataset', {'d/nq-dev.qa.csv': "q0\t['a', 'b']\n", 'd/nq-test.qa.csv': "q1\t['c', 'd']\n"}, 'd', {}, {'train_split': 'dev'},
         [{'question': 'q1', 'answer': ['c', 'd']}], [{'question': 'q0', 'answer': 'a'}]),
    Case('NQOpenDataset', {f'd/nq-open-{split}.jsonl': jsonl({'question': split, 'answer': ['a', 'b']}) for split in ('train', 'validation')}, 'd', {}, {'test_split': 'validation'},
         [{'question': 'validation', 'answer': ['a', 'b']}], [{'question': 'train', 'answer': 'a'}]),
    Case('BBHDataset', {'d/dates.json': json.dumps({'canary': 'c', 'examples': [{'input': 'i', 'target': '(B)'}]})}, 'd', {'name': 'dates'}, {}, [{'input': 'i', 'target': '(B)'}]),
    Case('AGIEvalDataset', {'d/sat-math.jsonl': jsonl(AGI)}, 'd', {'name': 'sat-math', 'setting_name': 'zero-shot'}, {},
         [{'problem_input': 'P. Q: Q? Answer Choices: (A)x (B)y\nA: Among A through B, the answer is', 'label': 'B'}]),
    Case('AGIEvalDataset', {'d/jec-qa-kd.jsonl': jsonl(AGI)}, 'd', {'name': 'jec-qa-kd', 'setting_name': 'zero-shot'}, {},
         [{'problem_input': 'P. 问题：Q? 选项：(A)x (B)y\n答案：从A到B, 我们应选择', 'label': 'B'}]),
    Case('AGIEvalDataset', {'d/math.jsonl': jsonl(AGI_CLOZE)}, 'd', {'name': 'math', 'setting_name': 'zero-shot'}, {}, [{'problem_input': 'Q: 1+1?\nA: The answer is', 'label': '2'}]),
    Case('AGIEvalDataset', {'d/gaokao-mathcloze.jsonl': jsonl(AGI_CLOZE)}, 'd', {'name': 'gaokao-mathcloze', 'setting_name': 'zero-shot'}, {}, [{'problem_input': '问题：1+1?\n答案：', 'label': '2'}]),
    Case('AGIEvalDataset', {'d/gaokao-english.jsonl': jsonl({**AGI, 'options': ['one']})}, 'd', {'name': 'gaokao-english', 'setting_name': 'zero-shot'}, {},
         [{'problem_input': 'P. Q: Q? Answer Choices: one\nA: Among A through E, the answer is', 'label': 'B'}]),
    Case('AGIEvalDataset_v2', {'d/x.jsonl': jsonl(AGI, AGI_CLOZE, AGI_MULTI)}, 'd', {'name': 'x', 'setting_name': 'zero-shot'}, {},
         [{'question': 'P. Q?', 'options': '(A)x\n(B)y', 'label': 'B'}, {'question': '1+1?', 'options': '', 'label': '2'}, {'question': 'P. Q?', 'options': '(A)x\n(B)y', 'label': 'AB'}]),
    Case('GPQADataset', {'d/gpqa.csv': GPQA_HEADER + ',,,,,,,q0,w,x,y,z\n' * 5}, 'd', {'name': 'gpqa.csv'}, {},
         [{'question': 'q0', **dict(zip('ABCD', order, strict=True)), 'answer': answer} for order, answer in (('xyzw', 'D'), ('yzwx', 'C'), ('zwxy', 'B'), ('wxyz', 'A'), ('xyzw', 'D'))]),
    Case('HumanevalDataset', {'d.jsonl': jsonl({'task_id': 'HumanEval/0', 'prompt': 'def f():'}, {'task_id': 'HumanEval/1', 'prompt': 'def g():'})}, 'd.jsonl', {'num_repeats': 2}, {'train_split': 'test'},
         [{'task_id': f'HumanEval/{n}', 'prompt': f'def {name}():'} for n, name in ((0, 'f'), (0, 'f'), (1, 'g'), (1, 'g'))]),
    Case('MBPPDataset', {'d.jsonl': jsonl(*MBPP)}, 'd.jsonl', {}, {}, [mbpp_row(11), mbpp_row(12)], [mbpp_row(n) for n in range(1, 11)]),
    Case('MBPPDatasetV2', {'d.jsonl': jsonl(*MBPP)}, 'd.jsonl', {'num_repeats': 2}, {},
         [{**{k: v for k, v in mbpp_row(n).items() if k != 'test_list_2'}, 'test_column': {'test_list_2': f'assert {n}\nassert 1', 'task_id': n}} for n in (11, 12, 11, 12)]),
    Case('SanitizedMBPPDataset', {'d.jsonl': jsonl(*SANITIZED)}, 'd.jsonl', {}, {}, [mbpp_row(8), mbpp_row(9)], [mbpp_row(n) for n in range(1, 8)]),
    Case('MBPPPlusDataset', {'d.jsonl': jsonl(MBPP[0])}, 'd.jsonl', {}, {}, [mbpp_row(1)]),
    Case('IFEvalDataset', {'d.jsonl': jsonl(IFEVAL)}, 'd.jsonl', {}, {}, [{'prompt': 'Say hi', 'reference': IFEVAL}]),
    Case('Aime2024Dataset', {'d.jsonl': jsonl({'origin_prompt': 'p', 'gold_answer': '7'})}, 'd.jsonl', {}, {}, [{'origin_prompt': 'p', 'gold_answer': '7', 'question': 'p', 'answer': '7'}]),
    Case('MMLUProDataset', {f'd/{split}.jsonl': jsonl(
        {'question': split, 'options': ['x', 'N/A', 'z'], 'answer': 'C', 'category': 'law', 'cot_content': "A: Let's think step by step. Because"},
        {'question': 'other', 'options': ['x'], 'answer': 'A', 'category': 'math', 'cot_content': ''}) for split in ('validation', 'test')},
         'd', {'category': 'law'}, {'train_split': 'validation'},
         [{'question': 'test', 'options': ['x', 'N/A', 'z'], 'answer': 'C', 'category': 'law', 'cot_content': 'Because', 'options_str': 'A. x\nC. z', 'answer_string': 'C. z\n'}]),
    Case('MTBenchDataset', {'d/mt.json': json.dumps([{'dialogue': [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': ''}, {'role': 'user', 'content': 'b'}, {'role': 'assistant', 'content': ''}], 'capability': 'writing', 'others': {'reference': None}}])},
         'd', {'name': 'mt'}, {},
         [{'dialogue': [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': ''}, {'role': 'user', 'content': 'b'}, {'role': 'assistant', 'content': ''}], 'capability': 'writing',
           'others': {'reference': None, 'round': 2, 'question': 'a b'}, 'judge': {'capability': 'writing', 'others': {'reference': None, 'round': 2, 'question': 'a b'}}}]),
]  # fmt: skip

# Layouts of the same benchmarks elsewhere: folders of splits, plain records, turns as the authors publish them.
OTHER_CASES = [
    Case('ARCDataset', {'d/ARC-Easy-Dev.jsonl': jsonl(ARC), 'd/ARC-Easy-Test.jsonl': jsonl(ARC, ARC_FIVE)}, 'd', {'name': 'ARC-Easy'}, {'train_split': 'Dev', 'test_split': 'Test'}, [ARC_ROW], [ARC_ROW]),
    Case('Aime2025Dataset', {'d.jsonl': jsonl({'question': 'q', 'answer': '7'})}, 'd.jsonl', {}, {}, [{'question': 'q', 'answer': '7'}]),
    Case('Aime2026Dataset', {'d.jsonl': jsonl({'problem': 'q', 'answer': '7'})}, 'd.jsonl', {}, {}, [{'problem': 'q', 'answer': '7'}]),
    Case('MTBenchDataset', {'q.jsonl': jsonl({'question_id': 81, 'category': 'writing', 'turns': ['a', 'b']}, {'question_id': 82, 'prompt': ['c'], 'reference': ['d']})}, 'q.jsonl', {}, {},
         [{'id': 81, 'question': ['a', 'b'], 'answer': ['', '']}, {'id': 82, 'question': ['c'], 'answer': ['d']}]),
    Case('hellaswagDataset_V2', {'d.jsonl': jsonl(HELLA)}, 'd.jsonl', {}, {}, [{'ctx': 'a cake: She', **OPTIONS, 'label': 'B'}]),
    Case('opencompass.datasets.SiqaDataset_V2', labelled(SIQA, '1', '3'), 'd', {}, {'test_split': 'validation'}, [{**SIQA, 'label': 'C'}]),
    Case('winograndeDataset_V2', {'d/dev.jsonl': jsonl(WINO)}, 'd', {}, {}, [{**WINO_ROW, 'answer': 'B'}]),
    Case('GSM8KDataset', {'data/gsm8k/test.jsonl': jsonl({'question': 'b'})}, 'opencompass/gsm8k', {}, {}, [{'question': 'b'}], []),
    Case('BoolQDatasetV2', {'d.jsonl': jsonl({'label': True})}, 'd.jsonl', {}, {}, [{'label': 'A'}]),
]  # fmt: skip


def write(files: dict[str, str], folder: Path) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding='utf-8')


def common(row: Any, expected: dict[str, Any]) -> dict[str, Any]:
    return {column: row[column] for column in expected}


@pytest.mark.parametrize(
    'case', CASES + OTHER_CASES, ids=lambda case: f'{case.kind}-{case.path}-{case.entry.get("name", "")}'
)
def test_a_benchmark_in_its_local_layout_gives_the_rows_its_templates_use(case: Case, tmp_path: Path) -> None:
    write(case.files, tmp_path)
    dataset = open_dataset(
        {'type': case.kind, 'path': case.path, 'reader_cfg': case.reader, **case.entry}, base=tmp_path
    )
    assert [common(row, expected) for row, expected in zip(dataset.test, case.test, strict=True)] == case.test
    assert [dataset.test[index] for index in range(len(dataset.test))] == list(dataset.test)
    if case.train is not None:
        assert [common(row, expected) for row, expected in zip(dataset.train, case.train, strict=True)] == case.train
    assert not {'idx', 'subdivision'} & set().union(*dataset.test)


def test_every_benchmark_of_the_table_has_a_case() -> None:
    listed = {case[0] for case in [*LAYOUTS, *HUB_LAYOUTS, *RECORDED]}
    assert {case.kind for case in CASES + OTHER_CASES} | listed >= {*BENCHMARKS, *HUB_BENCHMARKS}


def test_a_class_of_the_same_name_is_not_replaced_by_ours(tmp_path: Path) -> None:
    class GSM8KDataset:
        pass

    write({'test.jsonl': jsonl({'question': 'q'})}, tmp_path)
    with pytest.raises(ConfigError, match='has no load'):
        open_dataset({'type': GSM8KDataset, 'path': str(tmp_path)})


def test_a_layout_that_needs_a_name_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing 'name'"):
        open_dataset({'type': 'BBHDataset', 'path': str(tmp_path)})


def test_missing_files_of_a_layout_are_listed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r'train\.jsonl.*test\.jsonl'):
        open_dataset({'type': 'GSM8KDataset', 'path': str(tmp_path)})


def test_a_record_laid_out_differently_is_named_with_its_columns(tmp_path: Path) -> None:
    write({'d.jsonl': jsonl({'prompt': 'p'})}, tmp_path)
    rows = open_dataset({'type': 'Aime2024Dataset', 'path': 'd.jsonl'}, base=tmp_path).test
    with pytest.raises(DataError, match=r'd\.jsonl: row 0 .*origin_prompt[\s\S]*columns: prompt'):
        rows[0]


def test_labels_that_do_not_match_the_rows_in_number_are_an_error(tmp_path: Path) -> None:
    write(labelled(PIQA, '0', '1\n1'), tmp_path)
    rows = open_dataset(
        {'type': 'PIQADataset', 'path': 'd', 'reader_cfg': {'test_split': 'validation'}}, base=tmp_path
    ).test
    with pytest.raises(DataError, match='1 row but 2 labels'):
        list(rows)


def test_an_answer_column_that_is_code_is_not_run(tmp_path: Path) -> None:
    write({'nq-test.qa.csv': 'q\t__import__("os").getcwd()\n'}, tmp_path)
    rows = open_dataset({'type': 'NaturalQuestionDataset', 'path': str(tmp_path)}).test
    with pytest.raises(DataError, match='unexpected layout'):
        rows[0]
