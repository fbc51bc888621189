"""Benchmarks by name, end to end: rows in the published layout, answered right and wrong, score 100 and 0."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rolecall
from rolecall.compat.benchmarks import benchmark_names
from rolecall.compat.benchmarks.records import fill_values, read_benchmark
from rolecall.errors import RolecallError

_ROWS = range(4)
_LETTERS = 'ABCDEFGHIJ'
_JUDGED_OR_RELATIVE = {'mt_bench', 'truthfulqa'}
"""Replies of MT-Bench go to a judge; TruthfulQA's score is a difference of BLEU, from -100 to 100."""


def _mark(n: int) -> str:
    return f'row{n}mark'


def _options(n: int, count: int = 4) -> list[str]:
    return [f'option {letter}{n}' for letter in _LETTERS[:count].lower()]


def _labelled(n: int, count: int = 4) -> list[dict[str, str]]:
    return [{'text': text, 'label': letter} for text, letter in zip(_options(n, count), _LETTERS, strict=False)]


def _lines(make: Callable[[int], Any]) -> str:
    return ''.join(json.dumps(make(n), ensure_ascii=False) + '\n' for n in _ROWS)


def _csv(make: Callable[[int], list[Any]], header: list[str] | None = None, delimiter: str = ',') -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows(([header] if header else []) + [make(n) for n in _ROWS])
    return file.getvalue()


def _stem_row(n: int, count: int = 4) -> dict[str, Any]:
    return {'question': {'stem': f'{_mark(n)} What?', 'choices': _labelled(n, count)}, 'answerKey': _LETTERS[n]}


def _program_row(n: int) -> dict[str, Any]:
    return {
        'task_id': f'HumanEval/{n}',
        'prompt': f'def f{n}(x):\n    """{_mark(n)} Add {n}."""\n',
        'entry_point': f'f{n}',
        'canonical_solution': f'    return x + {n}\n',
        'test': f'def check(candidate):\n    assert candidate(1) == {1 + n}\n',
    }


def _mbpp_lines(column: str) -> str:
    tests = [[f'assert g({one}) == {one + n - 10}' for one in range(3)] for n in range(14)]
    rows = [{column: f'{_mark(n - 10)} Add.', 'task_id': n + 1, 'code': '', 'test_list': tests[n]} for n in range(14)]
    return ''.join(json.dumps(row) + '\n' for row in rows)


def _exam(header: list[str] | None, *before: str) -> str:
    return _csv(lambda n: [*before, f'{_mark(n)} What?', *_options(n), _LETTERS[n]], header)


_MATHS = json.dumps(
    {str(n): {'problem': f'{_mark(n)} x?', 'solution': rf'$\boxed{{\frac{{{n + 1}}}{{7}}}}$'} for n in _ROWS}
)
_CHOICE_LABELS = ''.join(f'{n % 2}\n' for n in _ROWS)
_SOCIAL_LABELS = ''.join(f'{n % 3 + 1}\n' for n in _ROWS)
_NAMES = _csv(lambda n: [f'{_mark(n)} who', str([f'Ada {n}', f'Bob {n}'])], delimiter='\t')
_EXAM_RACE = _lines(
    lambda n: {'article': 'a', 'question': f'{_mark(n)}?', 'options': _options(n), 'answer': _LETTERS[n]}
)

FILES: dict[str, str] = {
    'agieval/gaokao-chinese.jsonl': _lines(
        lambda n: {'passage': None, 'question': f'{_mark(n)}?', 'options': [f'({one})x' for one in 'ABCD'], 'label': 'ABCD'[n]}
    ),
    'agieval/math.jsonl': _lines(
        lambda n: {'passage': None, 'question': f'{_mark(n)}?', 'options': None, 'label': None, 'answer': f'{n + 3}'}
    ),
    'aime2024/aime.jsonl': _lines(lambda n: {'origin_prompt': f'{_mark(n)} x?', 'gold_answer': f'{100 + n}'}),
    'aime2025/aime2025.jsonl': _lines(lambda n: {'question': f'{_mark(n)} x?', 'answer': f'{100 + n}'}),
    'arc/ARC-Challenge/ARC-Challenge-Dev.jsonl': _lines(_stem_row),
    'arc/ARC-Easy/ARC-Easy-Dev.jsonl': _lines(_stem_row),
    'bbh/temporal_sequences.json': json.dumps(
        {'examples': [{'input': f'{_mark(n)}?', 'target': f'({_LETTERS[n]})'} for n in _ROWS]}
    ),
    'boolq/val.jsonl': _lines(lambda n: {'question': f'{_mark(n)} is it', 'passage': 'p', 'label': n % 2 == 0}),
    'ceval/val/computer_network_val.csv': _exam(['id', 'question', *'ABCD', 'answer'], '1'),
    'ceval/dev/computer_network_dev.csv': _csv(
        lambda n: [n, f'dev {n}', *_options(n), 'A', 'why'], ['id', 'question', *'ABCD', 'answer', 'explanation']
    )
    + '4,dev 4,a,b,c,d,A,why\n',
    'cmmlu/test/agronomy.csv': _exam(['', 'Question', *'ABCD', 'Answer'], '1'),
    'cmmlu/dev/agronomy.csv': _exam(['', 'Question', *'ABCD', 'Answer'], '1'),
    'commonsenseqa/dev_rand_split.jsonl': _lines(lambda n: _stem_row(n, 5)),
    'commonsenseqa/train_rand_split.jsonl': ''.join(
        json.dumps({'question': {'stem': f'train {n}', 'choices': _labelled(n, 5)}, 'answerKey': 'A'}) + '\n'
        for n in range(30)
    ),
    'drop/dev.jsonl': _lines(
        lambda n: {'context': f'Passage: {_mark(n)} Jonathan Stewart {n} ran.', 'ref_text': f'Jonathan Stewart {n}|Jon {n}'[: None if n else 18]}
    ),
    'gpqa/gpqa_diamond.csv': _csv(
        lambda n: [f'{_mark(n)}?', f'right {n}', 'w1', 'w2', 'w3'],
        ['Question', 'Correct Answer', *(f'Incorrect Answer {one}' for one in (1, 2, 3))],
    ),
    'gsm8k/test.jsonl': _lines(lambda n: {'question': f'{_mark(n)}?', 'answer': f'So.\n#### 1,{200 + n}'}),
    'gsm8k/train.jsonl': _lines(lambda n: {'question': f'train {n}?', 'answer': f'So.\n#### {n}'}),
    'hellaswag/hellaswag.jsonl': _lines(lambda n: {'query': f'{_mark(n)} A man', 'choices': _options(n), 'gold': n}),
    'humaneval/HumanEval.jsonl': _lines(_program_row),
    'humaneval_plus/HumanEvalPlus.jsonl': _lines(_program_row),
    'ifeval/input_data.jsonl': _lines(
        lambda n: {'key': n, 'prompt': f'{_mark(n)} No commas.', 'instruction_id_list': ['punctuation:no_comma'], 'kwargs': [{}]}
    ),
    'lambada/test.jsonl': _lines(lambda n: {'prompt': f'{_mark(n)} He saw the', 'label': ['dog', 'cat', 'cow', 'hen'][n]}),
    'math/math.json': _MATHS,
    'math/test_prm800k_500.json': _MATHS,
    'mbpp/mbpp.jsonl': _mbpp_lines('text'),
    'mbpp/sanitized-mbpp.jsonl': _mbpp_lines('prompt'),
    'mmlu/test/college_biology_test.csv': _exam(None),
    'mmlu/dev/college_biology_dev.csv': _exam(None),
    'nq/nq-test.qa.csv': _NAMES,
    'nq/nq-dev.qa.csv': _NAMES,
    'openbookqa/Main/test.jsonl': _lines(_stem_row),
    'piqa/dev.jsonl': _lines(lambda n: {'goal': f'{_mark(n)} How?', 'sol1': f'one {n}', 'sol2': f'two {n}'}),
    'piqa/train.jsonl': _lines(lambda n: {'goal': f'train {n}', 'sol1': 'one', 'sol2': 'two'}),
    'piqa/dev-labels.lst': _CHOICE_LABELS,
    'piqa/train-labels.lst': _CHOICE_LABELS,
    'race/test/middle.jsonl': _EXAM_RACE,
    'race/validation/middle.jsonl': _EXAM_RACE,
    'siqa/dev.jsonl': _lines(lambda n: {'context': _mark(n), 'question': 'Why?', **{f'answer{one}': one * 3 for one in 'ABC'}}),
    'siqa/train.jsonl': _lines(lambda n: {'context': f't{n}', 'question': 'Why?', **{f'answer{one}': one * 3 for one in 'ABC'}}),
    'siqa/dev-labels.lst': _SOCIAL_LABELS,
    'siqa/train-labels.lst': _SOCIAL_LABELS,
    'triviaqa/trivia-dev.qa.csv': _NAMES,
    'winogrande/dev.jsonl': _lines(
        lambda n: {'sentence': f'{_mark(n)} It is as the _ was big.', 'option1': 'cup', 'option2': 'box', 'answer': str(n % 2 + 1)}
    ),
    'xsum/dev.jsonl': _lines(lambda n: {'dialogue': f'{_mark(n)} Long news.', 'summary': f'Mayor {n} opens a bridge.'}),
}  # fmt: skip

_LETTER = (lambda n: _LETTERS[n], lambda n: _LETTERS[(n + 1) % 4])
_PATTERN = (lambda n: f'ANSWER: {_LETTERS[n]}', lambda n: f'ANSWER: {_LETTERS[(n + 1) % 4]}')
_BOXED = (lambda n: rf'\boxed{{{100 + n}}}', lambda n: r'\boxed{7}')
_FRACTION = (lambda n: rf'So $\boxed{{\frac{{{n + 1}}}{{7}}}}$.', lambda n: r'\boxed{7}')
_PROGRAM = (lambda n: f'```python\ndef f{n}(x):\n    return x + {n}\n```', lambda n: '```python\npass\n```')
_ADDER = (lambda n: f'[BEGIN]\ndef g(x):\n    return x + {n}\n[DONE]', lambda n: '[BEGIN]\npass\n[DONE]')
_NAME = (lambda n: f'The answer is Bob {n}', lambda n: 'The answer is Zed')
_PAIR = (lambda n: 'AB'[n % 2], lambda n: 'BA'[n % 2])
REPLIES: dict[str, tuple[Callable[[int], str], Callable[[int], str]]] = {
    'agieval-gaokao-chinese': _LETTER,
    'agieval-math': (lambda n: f'{n + 3}', lambda n: '99'),
    'aime2024': _BOXED,
    'aime2025': _BOXED,
    'arc_challenge': _LETTER,
    'arc_easy': _LETTER,
    'bbh-temporal_sequences': (lambda n: f'So the answer is ({_LETTERS[n]}).', lambda n: f'So the answer is ({_LETTERS[n + 1]}).'),
    'boolq': _PAIR,
    'ceval-computer_network': _LETTER,
    'cmmlu-agronomy': (lambda n: f'答案: {_LETTERS[n]}', lambda n: f'答案: {_LETTERS[(n + 1) % 4]}'),
    'commonsenseqa': _LETTER,
    'drop': (lambda n: f'Answer: Jonathan Stewart {n}', lambda n: 'Answer: Zed'),
    'gsm8k': (lambda n: f'The answer is 1,{200 + n}.', lambda n: 'The answer is 7.'),
    'hellaswag': _LETTER,
    'humaneval': _PROGRAM,
    'humaneval_plus': _PROGRAM,
    'ifeval': (lambda n: 'no comma', lambda n: 'a, b'),
    'lambada': (lambda n: ['dog', 'cat', 'cow', 'hen'][n], lambda n: 'zebra'),
    'math': _FRACTION,
    'math500': _FRACTION,
    'mbpp': _ADDER,
    'mbpp_sanitized': _ADDER,
    'mmlu-college_biology': _PATTERN,
    'nq': (lambda n: f'Ada {n}', lambda n: 'Zed'),
    'openbookqa': _LETTER,
    'piqa': _PAIR,
    'race-middle': _LETTER,
    'siqa': (lambda n: 'ABC'[n % 3], lambda n: 'BCA'[n % 3]),
    'triviaqa': _NAME,
    'winogrande': _PAIR,
    'xsum': (lambda n: f'Mayor {n} opens a bridge.', lambda n: 'Quite other words'),
}  # fmt: skip


def _text(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else str(prompt)


@pytest.fixture(scope='module')
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('rows')
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding='utf-8')
    return folder


@pytest.mark.parametrize('dataset', REPLIES)
def test_right_replies_score_100_and_wrong_ones_0(dataset: str, rows: Path, tmp_path: Path) -> None:
    for reply, expected in zip(REPLIES[dataset], (100.0, 0.0), strict=True):
        done = rolecall.run(
            dataset.partition('-')[0],
            model=lambda prompt, reply=reply: reply(int(re.findall(r'row(\d)mark', _text(prompt))[-1])),
            data=rows,
            dataset=dataset,
            out=tmp_path / str(expected),
            quiet=True,
        )
        [card] = [card for card in done.summary.scorecards if card.dataset == dataset]
        assert (card.value, card.scored) == (expected, len(_ROWS))


def test_the_options_of_gpqa_are_shuffled_and_its_letters_follow(rows: Path, tmp_path: Path) -> None:
    def reply(prompt: Any) -> str:
        found = re.search(r'([A-D])\) right \d', _text(prompt))
        return f'ANSWER: {found[1]}' if found else ''

    assert rolecall.run('gpqa', model=reply, data=rows, out=tmp_path / 'r', quiet=True).scores.value() == 100.0


def test_ten_options_of_mmlu_pro_are_told_apart(tmp_path: Path) -> None:
    parquet = pytest.importorskip('pyarrow.parquet')
    arrow = pytest.importorskip('pyarrow')
    options = _options(0, 10)
    listed = [
        {'question': f'{_mark(n)}?', 'options': options, 'answer': 'AEIJ'[n], 'cot_content': '', 'category': 'computer science'}
        for n in _ROWS
    ]  # fmt: skip
    (tmp_path / 'mmlu_pro').mkdir()
    for split in ('test', 'validation'):
        parquet.write_table(arrow.Table.from_pylist(listed), tmp_path / 'mmlu_pro' / f'{split}-00000-of-00001.parquet')
    done = rolecall.run(
        'mmlu_pro',
        model=lambda prompt: f'ANSWER: {"AEIJ"[int(re.findall(r"row(.)mark", _text(prompt))[-1])]}',
        data=tmp_path,
        dataset='mmlu_pro-computer_science',
        out=tmp_path / 'r',
        quiet=True,
    )
    assert done.scores.value('mmlu_pro-computer_science') == 100.0


@pytest.mark.parametrize('name', sorted({name.partition('-')[0] for name in REPLIES} - {'ifeval'}))
def test_rows_of_another_layout_are_an_error_that_names_them(name: str, tmp_path: Path) -> None:
    wording = read_benchmark(name).wording(None)
    texts = {'.jsonl': '{"question": "x", "prompt": 3, "choices": 5}\n', '.json': '{"a": 1}', '.csv': 'a\n1\n'}
    for file in wording.files:
        path = tmp_path / fill_values(file, wording.entries[0]['each'])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts.get(path.suffix, '9\n'), encoding='utf-8')
    with pytest.raises(RolecallError):
        rolecall.run(
            name,
            model=lambda prompt: 'A',
            data=tmp_path,
            dataset=str(wording.entries[0]['abbr']),
            out=tmp_path / 'r',
            quiet=True,
        )


def test_every_benchmark_is_scored_here() -> None:
    scored = {dataset.partition('-')[0] for dataset in REPLIES} | {'gpqa', 'mmlu_pro'}
    assert scored | _JUDGED_OR_RELATIVE == set(benchmark_names())


@pytest.mark.parametrize('name', benchmark_names())
def test_the_files_of_every_subject_are_known(name: str) -> None:
    for wording in read_benchmark(name).wordings.values():
        for entry in wording.entries:
            shown = json.dumps([fill_values(list(wording.files), entry['each']), entry])
            assert '${' not in shown, entry
