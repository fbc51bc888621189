"""Rows from the hub, when asked: the real `datasets` client, and a server on loopback that plays the hub."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hub_server import Hub, serve_hub

pytestmark = pytest.mark.heavy
pytest.importorskip('datasets')

ARC, GSM8K = 'allenai/ai2_arc', 'openai/gsm8k'
TEST, TRAIN = 'main/test-0.parquet', 'main/train-0.parquet'
ARC_ROW = {
    'question': 'Which is a mammal?',
    'choices': {'text': ['a trout', 'a whale'], 'label': ['A', 'B']},
    'answerKey': 'B',
}


def write_parquet(rows: list[Any]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), out)
    return out.getvalue()


def card(config: str, *, test_rows: int = 3) -> bytes:
    """A dataset card that names the files and counts the rows of its splits."""
    splits = [('train', 20), ('test', test_rows)]
    files = '\n'.join(f'  - split: {split}\n    path: {config}/{split}-*' for split, _ in splits)
    counts = '\n'.join(f'  - name: {split}\n    num_bytes: 1\n    num_examples: {count}' for split, count in splits)
    head = f'configs:\n- config_name: {config}\n  data_files:\n{files}'
    return f'---\n{head}\ndataset_info:\n- config_name: {config}\n  splits:\n{counts}\n---\n'.encode()


def repositories(*, test_rows: int = 3) -> Mapping[str, Mapping[str, bytes]]:
    sums = [{'question': f'What is {n}+1?', 'answer': f'Add one. #### {n + 1}'} for n in range(20)]
    arc = {f'ARC-Easy/{split}-0.parquet': write_parquet([ARC_ROW] * n) for split, n in (('train', 20), ('test', 3))}
    return {
        GSM8K: {'README.md': card('main', test_rows=test_rows), TRAIN: write_parquet(sums), TEST: write_parquet(sums[:3])},
        ARC: {'README.md': card('ARC-Easy'), **arc},
    }  # fmt: skip


def rolecall(hub: Hub, home: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: the client reads its address when it is imported."""
    home.mkdir(exist_ok=True)
    environment = {**os.environ, **hub.environment(home / 'cache'), **variables}
    environment.pop('HF_TOKEN', None)
    command = [sys.executable, '-m', 'rolecall', *words]
    return subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True)


@pytest.mark.parametrize(
    ('words', 'expected'),
    [
        (('gsm8k',), 'What is 0+1?'),
        (('gsm8k', '--as', 'lm-eval', '--shots', '2'), 'What is 0+1?'),
        (('arc_easy', '--as', 'lm-eval'), 'a whale'),
        (('arc.yaml',), 'a whale'),
    ],
)
def test_rows_are_downloaded_when_asked_and_only_then(words: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    (tmp_path / 'arc.yaml').write_text(
        f'task: arc\ndataset_path: {ARC}\ndataset_name: ARC-Easy\noutput_type: multiple_choice\ntest_split: test\n'
        'doc_to_text: "{{question}}"\ndoc_to_choice: "{{choices.text}}"\ndoc_to_target: 1\n'
    )
    with serve_hub(repositories()) as hub:
        unasked = rolecall(hub, tmp_path, 'view', *words, '-n', '1')
        assert expected not in unasked.stdout
        assert hub.calls == []
        shown = rolecall(hub, tmp_path, 'view', *words, '-n', '1', '--download')
        assert (shown.returncode, expected in shown.stdout) == (0, True), shown.stderr
        assert any(call.endswith('.parquet') for call in hub.calls)


def test_downloaded_rows_are_run_and_scored_and_come_from_the_cache_the_second_time(tmp_path: Path) -> None:
    (tmp_path / 'models.py').write_text(
        "def say(prompt):\n    return 'The answer is 2'\n\n\nmodels = [dict(abbr='m', type='Function', function=say)]\n"
    )
    words = ('run', 'gsm8k', '--download', '--models', 'models.py', '--quiet')
    with serve_hub(repositories()) as hub:
        first = rolecall(hub, tmp_path, *words, '--out', 'one')
        assert (first.returncode, '3/3 scored' in first.stdout, 'sample' in first.stdout) == (0, True, False), first
        fetched = [call for call in hub.calls if call.startswith('GET') and call.endswith('.parquet')]
        second = rolecall(hub, tmp_path, *words, '--out', 'two', HF_HUB_OFFLINE='1')
        assert (second.returncode, '3/3 scored' in second.stdout) == (0, True), second
    assert len(fetched) == 2
    assert [call for call in hub.calls if call.startswith('GET') and call.endswith('.parquet')] == fetched


@pytest.mark.parametrize(
    ('faults', 'counted', 'expected'),
    [
        ({'status': {GSM8K: 401}}, 3, ['gated dataset', 'HF_TOKEN']),
        ({'status': {GSM8K: 403}}, 3, ['ask for access', 'HF_TOKEN']),
        ({'sent': {TEST: None}}, 3, [TEST, '404']),
        ({'sent': {TEST: b'PAR1'}}, 3, [TEST, 'should be of size']),
        ({'sent': {TEST: bytes(len(repositories()[GSM8K][TEST]))}}, 3, ['Parquet magic bytes']),
        ({}, 9, ['num_examples=9', 'num_examples=3']),
    ],
)  # fmt: skip
def test_a_download_that_fails_says_why_and_what_to_do(
    faults: Any, counted: int, expected: list[str], tmp_path: Path
) -> None:
    with serve_hub(repositories(test_rows=counted), **faults) as hub:
        failed = rolecall(hub, tmp_path, 'view', 'gsm8k', '--download')
    assert failed.returncode == 2
    assert 'Traceback' not in failed.stderr
    assert 'rolecall: gsm8k: openai/gsm8k: the datasets package failed to load it.' in failed.stderr
    for part in (*expected, '--data'):
        assert part in failed.stderr


@pytest.mark.parametrize(
    ('words', 'expected'),
    [
        (('piqa', '--as', 'lm-eval'), "'baber/piqa' doesn't exist on the Hub"),
        (('arc_challenge', '--as', 'lm-eval'), "Available: ['ARC-Easy']"),
        (('piqa',), '--as lm-eval --download'),
    ],
)
def test_what_the_hub_does_not_have_is_named(words: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    with serve_hub(repositories()) as hub:
        failed = rolecall(hub, tmp_path, 'view', *words, '--download')
    assert (failed.returncode, 'Traceback' in failed.stderr) == (2, False)
    assert expected in failed.stderr


def test_a_hub_that_cannot_be_reached_is_an_error_that_names_its_variable(tmp_path: Path) -> None:
    with socket.socket() as taken, serve_hub({}) as hub:
        taken.bind(('127.0.0.1', 0))  # bound, but nothing listens: connections are refused
        address = f'http://127.0.0.1:{taken.getsockname()[1]}'
        failed = rolecall(hub, tmp_path, 'view', 'gsm8k', '--download', HF_ENDPOINT=address)
    assert (failed.returncode, 'Traceback' in failed.stderr) == (2, False)
    assert "Couldn't reach 'openai/gsm8k' on the Hub" in failed.stderr
    assert 'HF_ENDPOINT' in failed.stderr
