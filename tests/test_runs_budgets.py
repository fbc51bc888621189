"""Models of a run that one server answers share one budget."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from helpers import bot, human, template
from rolecall.models.backends import build_model
from rolecall.runs import run_config
from rolecall.runs.client.client_options import Budgets
from servers import running


class CountingServer:
    """Counts the calls in flight, of each model and of all; answers none before so many were in flight at once."""

    def __init__(self, **expected: int) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self._expected = expected
        self._all_there = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == 'GET':
            return web.json_response({'data': []})
        body = await request.json()
        if body['model'] == 'gone':
            return web.json_response({'error': {'message': 'no such model'}}, status=404)
        for name in ('all', body['model']):
            self.now[name] += 1
            self.most[name] = max(self.most[name], self.now[name])
        if all(self.most[name] >= count for name, count in self._expected.items()):
            self._all_there.set()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._all_there.wait(), 60)
        await asyncio.sleep(0.02)
        for name in ('all', body['model']):
            self.now[name] -= 1
        return web.json_response({'choices': [{'message': {'content': 'ok'}, 'finish_reason': 'stop'}]})


def config(url: str, *models: Mapping[str, Any]) -> dict[str, Any]:
    dataset = {
        'abbr': 'd',
        'type': 'Rows',
        'test': [{'q': f'{i}?', 'a': 'ok'} for i in range(30)],
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {
            'prompt_template': template({'round': [human('{q}'), bot('{a}')]}),
            'inferencer': {'type': 'GenInferencer'},
        },
    }
    entries = [{'type': 'OpenAI', 'base_url': url, 'key': 'k', 'abbr': one['path'], **one} for one in models]
    return {'datasets': [dataset], 'models': entries}


def test_two_entries_of_one_server_share_its_places(tmp_path: Path) -> None:
    server = CountingServer(all=6)
    with running(server.handle) as url:
        run_config(config(url, {'path': 'a', 'concurrency': 6}, {'path': 'b', 'concurrency': 6}), out=tmp_path)
    assert (server.most['all'], server.most['a'] > 1, server.most['b'] > 1) == (6, True, True)


def test_an_entry_keeps_its_own_limit(tmp_path: Path) -> None:
    server = CountingServer(a=2, all=6)
    with running(server.handle) as url:
        run_config(config(url, {'path': 'a', 'concurrency': 2}, {'path': 'b', 'concurrency': 6}), out=tmp_path)
    assert (server.most['a'], server.most['all']) == (2, 6)


def test_a_model_that_is_given_up_leaves_the_budget_to_the_others(tmp_path: Path) -> None:
    server = CountingServer(a=3)
    with running(server.handle) as url:
        summary = run_config(
            config(url, {'path': 'gone', 'concurrency': 3}, {'path': 'a', 'concurrency': 3}), out=tmp_path
        )
    assert (list(summary.broken), summary.outcomes['ok'], server.most['all']) == (['gone'], 30, 3)


@pytest.mark.parametrize(
    ('one', 'other', 'shared'),
    [
        (('http://localhost:8000', 'a'), ('http://localhost:8000/v1', 'b'), True),
        (('http://10.0.0.7:8000', 'a'), ('http://10.0.0.7:8000', 'b'), True),
        (('http://gpu7:8000', 'a'), ('http://gpu7:8000', 'b'), True),
        (('http://localhost:8000', 'a'), ('http://localhost:8001', 'a'), False),
        (('https://api.openai.com/v1', 'gpt-4o'), ('https://api.openai.com/v1', 'gpt-4o-mini'), False),
        (('https://api.openai.com/v1', 'gpt-4o'), ('https://api.openai.com/v1', 'gpt-4o'), True),
    ],
)
def test_what_counts_as_one_endpoint(one: tuple[str, str], other: tuple[str, str], shared: bool) -> None:
    entries = [{'type': 'OpenAI', 'base_url': url, 'path': path, 'key': 'k'} for url, path in (one, other)]
    models = [build_model(entry, name=str(i)) for i, entry in enumerate(entries)]
    budgets = Budgets(list(zip(models, entries, strict=True)))
    found = [budgets.find(model) for model in models]
    assert (found[0] is not None and found[0] is found[1]) == shared
