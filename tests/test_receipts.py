"""Receipts: what a server reports of the requests, against servers that cut, change and drop what they are sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from rolecall.runs import run_config
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.receipt import TokenCount, compare_counts
from rolecall.scoring.scorecard import Scorecard
from servers import Server, serve
from small_models import make_tokenizer
from tables import in_one

CHAT = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
)
Messages = list[Mapping[str, Any]]


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tokenizer and chat template of a model, as the server and rolecall both have them."""
    path = make_tokenizer(tmp_path_factory.mktemp('model'), bos=True)
    settings = json.loads((path / 'tokenizer_config.json').read_text('utf-8'))
    (path / 'tokenizer_config.json').write_text(json.dumps(settings | {'chat_template': CHAT}), encoding='utf-8')
    return path


def as_chatml(messages: Messages) -> str:
    turns = ''.join(f'<|im_start|>{message["role"]}\n{message["content"]}<|im_end|>\n' for message in messages)
    return f'<s>{turns}<|im_start|>assistant\n'


def counting(
    folder: Path,
    *,
    write: Callable[[Messages], str] = as_chatml,
    more: int = 0,
    window: int | None = None,
    after: int = 0,
    **names: Any,
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """A server's answers. From request `after` on, it reads what `write` makes of messages, and no more than `window`."""
    tokenizer = Tokenizer.from_file(str(folder / 'tokenizer.json'))
    numbers = iter(range(10**6))

    def answer(body: Mapping[str, Any]) -> dict[str, Any]:
        is_odd = next(numbers) >= after
        text = (write if is_odd else as_chatml)(body['messages'])
        size = len(tokenizer.encode(text, add_special_tokens=False).ids) + more * is_odd
        said = {'message': {'role': 'assistant', 'content': body['messages'][-1]['content'].split()[-1]}}
        usage = {'prompt_tokens': min(size, window or size), 'completion_tokens': 1}
        return {'choices': [{**said, 'finish_reason': 'stop', 'index': 0}], 'usage': usage, **(names if is_odd else {})}

    return answer


def config(server: Server, folder: Path | None, lengths: list[int], **entry: Any) -> dict[str, Any]:
    rows = [
        {'passage': 'the quick one ' * size, 'question': str(row), 'answer': str(row)}
        for row, size in enumerate(lengths)
    ]
    template = {
        'begin': [{'role': 'SYSTEM', 'fallback_role': 'HUMAN', 'prompt': 'Read and answer.'}],
        'round': [{'role': 'HUMAN', 'prompt': '{passage}\n{question}'}, {'role': 'BOT', 'prompt': '{answer}'}],
    }
    model = {'abbr': 'toy', 'type': 'OpenAI', 'path': 'toy', 'base_url': server.url, 'key': '', **entry}
    model |= {'tokenizer_path': str(folder)} if folder is not None else {}
    dataset = {
        'abbr': 'qa',
        'test': rows,
        'reader_cfg': {'input_columns': ['passage', 'question'], 'output_column': 'answer'},
        'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': template}},
        'eval_cfg': {'evaluator': 'AccEvaluator'},
    }
    return {'models': [model], 'datasets': [dataset]}


def run(server: Server, folder: Path | None, lengths: list[int], out: Path, **entry: Any) -> Scorecard:
    [card] = run_config(config(server, folder, lengths, **entry), out=out).scorecards
    return card


LENGTHS = [1, 2, 3, 4, 60, 5, 6, 80]


def test_a_server_that_cuts_silently_gets_no_credit_for_the_rows_it_cut(folder: Path, tmp_path: Path) -> None:
    with serve(counting(folder, window=200)) as server:
        card = run(server, folder, LENGTHS, tmp_path / 'run')
    assert card.outcomes == {'ok': 6, 'truncated_by_server': 2}
    assert (card.scored, card.total) == (6, 8)
    assert card.receipt is not None
    assert card.receipt.truncated == 2
    [warning] = card.warnings()
    assert 'silently cut 2 rows to 200 tokens' in warning
    assert 'max_seq_len=200' in warning
    with RunReader(tmp_path / 'run') as reader:
        cut = reader.result('qa', 'toy', 4)
    assert cut is not None
    assert cut.outcome == 'truncated_by_server'
    assert cut.correct is None
    assert cut.expected_tokens is not None
    assert cut.input_tokens == 200 < cut.expected_tokens
    assert 'if it dropped the beginning: chat template' in cut.reason
    assert 'if the end: field passage' in cut.reason


def test_the_remedy_of_a_truncation_keeps_long_rows_from_being_sent(folder: Path, tmp_path: Path) -> None:
    with serve(counting(folder, window=200)) as server:
        card = run(server, folder, LENGTHS, tmp_path / 'run', max_seq_len=200)
    assert card.outcomes == {'ok': 6, 'too_long': 2}
    assert card.warnings() == ()


def test_a_resumed_run_keeps_truncated_rows_and_sends_nothing(folder: Path, tmp_path: Path) -> None:
    with serve(counting(folder, window=200)) as server:
        first = run(server, folder, LENGTHS, tmp_path / 'run')
        calls = len(server.calls)
        again = run(server, folder, LENGTHS, tmp_path / 'run')
        assert (again.outcomes, len(server.calls)) == (first.outcomes, calls)


def test_a_ceiling_shows_without_a_tokenizer(folder: Path, tmp_path: Path) -> None:
    with serve(counting(folder, window=200)) as server:
        card = run(server, None, [1, 2, 60, 70, 80], tmp_path / 'run')
    assert card.outcomes == {'ok': 2, 'truncated_by_server': 3}


def without_system(messages: Messages) -> str:
    return as_chatml([message for message in messages if message['role'] != 'system'])


@pytest.mark.parametrize(
    ('change', 'explanation'),
    [
        ({'more': 1}, 'the server adds a second BOS token'),
        ({'write': lambda messages: as_chatml(messages).removeprefix('<s>')}, 'the server leaves out the BOS token'),
        ({'write': without_system}, 'the server drops the system message'),
        (
            {'write': lambda messages: as_chatml(messages).removesuffix('<|im_start|>assistant\n')},
            'the server adds no generation prompt',
        ),
        (
            {'write': lambda messages: '\n'.join(message['content'] for message in messages)},
            'the server applies no chat template',
        ),
        ({'more': 37}, 'no BOS token, system message or known chat template explains it'),
    ],
)
def test_a_constant_difference_is_explained(change: Any, explanation: str, folder: Path, tmp_path: Path) -> None:
    with serve(counting(folder, **change)) as server:
        card = run(server, folder, [1, 2, 3, 4], tmp_path / 'run')
    assert explanation in ' '.join(card.warnings())
    assert card.outcomes == {'ok': 4}


def test_another_server_in_the_middle_is_a_jump_and_a_change_of_names(folder: Path, tmp_path: Path) -> None:
    names = {'model': 'toy-v2', 'provider': 'Bolt', 'system_fingerprint': 'fp_2'}
    with serve(counting(folder, more=7, after=4, **names)) as server:
        card = run(server, folder, [1, 2, 3, 4, 5, 6, 7, 8], tmp_path / 'run', max_workers=1)
    (jump,) = card.warnings()
    assert '7 prompt tokens more than expected in 4 rows, first in row 4: another server' in jump
    assert card.receipt is not None
    assert card.receipt.served == {'toy-v2, Bolt, fp_2': 4}


def test_an_honest_server_is_as_expected_and_its_default_temperature_is_stated(folder: Path, tmp_path: Path) -> None:
    with serve(counting(folder)) as server:
        card = run(server, folder, [1, 2, 3], tmp_path / 'run')
        fixed = run(server, folder, [1, 2, 3], tmp_path / 'fixed', temperature=0)
    assert card.receipt is not None
    assert fixed.receipt is not None
    assert card.receipt.describe() == 'temperature: server default; prompt tokens as expected'
    assert fixed.receipt.describe() == 'prompt tokens as expected'
    assert not card.warnings()


@in_one
@pytest.mark.parametrize(
    ('pairs', 'kind', 'truncated'),
    [
        ([(100, 100), (200, 200), (300, 300)], 'same', ()),
        ([(100, 88), (200, 179), (300, 262), (400, 351)], 'varies', ()),
        ([(160_689, 16_387), (120_000, 16_387)], 'same', (0, 1)),
        ([(100, 100)] * 3 + [(4_097, 4_096)], 'same', (3,)),
        ([(100, 101)] * 3 + [(5_000, 4_096)], 'constant', (3,)),
        ([(5_812, 4_096)], 'constant', ()),
    ],
)
def test_counts_are_told_apart(pairs: Any, kind: str, truncated: tuple[int, ...]) -> None:
    comparison = compare_counts([TokenCount(row, *counts) for row, counts in enumerate(pairs)])
    assert (comparison.kind, comparison.truncated) == (kind, truncated)


def test_a_known_window_decides_where_one_row_alone_cannot() -> None:
    assert compare_counts([TokenCount(0, 5_812, 4_090), TokenCount(1, 9_000, 3_000)], window=4_096).truncated == (0, 1)
