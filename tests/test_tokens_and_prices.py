"""Tokens and money: what servers report, what is stored and shown, and what is planned before a run."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tiktoken.registry
from aiohttp import web
from tests.servers import running, serve

from rolecall.models.prices import PRICES, Price, find_price
from rolecall.models.protocol import Reply, Usage
from rolecall.runs import plan_run, run_config
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import Store
from rolecall.ui.cli.main import main
from rolecall.ui.report import StoredRun, report_csv, report_html, report_markdown
from rolecall.ui.report.counts import sum_judging


@pytest.fixture
def encoding() -> Iterator[None]:
    """A tiktoken encoding of single bytes, under the name of the one that GPT-4o uses."""
    ranks = {bytes([number]): number for number in range(256)}
    toy = tiktoken.Encoding('o200k_base', pat_str='.+', mergeable_ranks=ranks, special_tokens={'<|endoftext|>': 256})
    tiktoken.registry.ENCODINGS['o200k_base'] = toy
    yield
    del tiktoken.registry.ENCODINGS['o200k_base']


def config(*models: dict[str, Any], rows: int = 4) -> dict[str, Any]:
    return {
        'models': list(models),
        'datasets': [
            {
                'abbr': 'sums',
                'type': 'Rows',
                'test': [{'question': f'What is {n} + 1 ?', 'answer': str(n + 1)} for n in range(rows)],
                'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
                'infer_cfg': {
                    'prompt_template': {'type': 'PromptTemplate', 'template': '{question}'},
                    'inferencer': {'type': 'GenInferencer', 'max_out_len': 10},
                },
                'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}},
            }
        ],
    }


def thoughtful(body: Any) -> dict[str, Any]:
    usage = {
        'prompt_tokens': 100,
        'completion_tokens': 50,
        'prompt_tokens_details': {'cached_tokens': 60},
        'completion_tokens_details': {'reasoning_tokens': 40},
    }
    return {'choices': [{'message': {'content': '1'}, 'finish_reason': 'stop'}], 'usage': usage}


def test_a_stored_price_that_would_be_refused_today_does_not_stop_a_report(tmp_path: Path) -> None:
    store = Store(tmp_path / 'run')
    models = [{'abbr': 'old', 'price': {'imput': 3}}, {'abbr': 'good', 'price': {'input': 3, 'output': 4}}]
    store.record_start({}, json.dumps({'models': models}))
    store.close()
    with RunReader(tmp_path / 'run') as reader:
        assert StoredRun(reader).prices() == {'old': None, 'good': Price(3.0, 4.0)}


def test_cached_and_reasoning_tokens_are_stored_and_shown(tmp_path: Path) -> None:
    price = {'input': 2.0, 'output': 8.0, 'cached': 0.5}
    with serve(thoughtful) as server:
        model = {'type': 'OpenAI', 'abbr': 'm', 'path': 'toy', 'base_url': server.url, 'price': price}
        run_config(config(model), out=tmp_path)
    with RunReader(tmp_path) as archive:
        result = next(archive.results())
        run = StoredRun(archive)
        prices = run.prices()
        shown = report_markdown(run, prices=prices)
        page = report_html(run, prices=prices)
        [line] = csv.DictReader(io.StringIO(report_csv(run, prices=prices)))
    assert (result.cached_tokens, result.reasoning_tokens) == (60, 40)
    assert '| m | sums | 4 | 400 | 240 | 200 | 160 |' in shown
    assert '<td>240</td>' in page
    tokens = ('input_tokens', 'cached_tokens', 'output_tokens', 'reasoning_tokens')
    assert [line[name] for name in tokens] == ['400', '240', '200', '160']
    assert float(line['cost']) == pytest.approx((160 * 2 + 240 * 0.5 + 200 * 8) / 1e6)


@pytest.mark.usefixtures('encoding')
def test_the_plan_takes_prices_from_the_table_and_from_the_user() -> None:
    models = [
        {'type': 'OpenAI', 'abbr': 'known', 'path': 'gpt-4o'},
        {'type': 'OpenAI', 'abbr': 'mine', 'path': 'mine-7b', 'tokenizer': 'tiktoken:gpt-4o'},
        {'type': 'OpenAI', 'abbr': 'unknown', 'path': 'foo', 'tokenizer': 'tiktoken:gpt-4o'},
        {'type': 'Claude', 'abbr': 'uncounted', 'path': 'claude-sonnet-4-5'},
        {
            'type': 'OpenAI',
            'abbr': 'local',
            'path': 'gpt-4o',
            'tokenizer': 'tiktoken:gpt-4o',
            'base_url': 'http://127.0.0.1:9/v1',
        },
    ]
    plan = plan_run(config(*models), prices={'mine-*': Price(1.0, 2.0)})
    prices = {pair.model: pair.price for pair in plan.pairs}
    known, tokens = PRICES['gpt-4o'], plan.pairs[0].input_tokens
    assert tokens == 4 * (len('user' + 'What is 0 + 1 ?') + 3 + 3)
    assert prices['known'] == pytest.approx(known.cost(tokens, 40))
    assert prices['mine'] == pytest.approx((tokens + 40 * 2) / 1e6)
    assert prices['unknown'] is prices['uncounted'] is prices['local'] is None
    lines = str(plan).splitlines()
    assert lines[2].endswith('input tokens, price not known')
    assert lines[3].endswith('input tokens not known, price not known')
    assert 'not known' not in lines[4]
    assert lines[5].endswith('for those whose price is known')


@pytest.mark.parametrize(
    ('model', 'output'),
    [
        ('gpt-5-2025-08-07', 10.0),
        ('gpt-5-mini', 2.0),
        ('gpt-5-pro', 120.0),
        ('gpt-5.5', 30.0),
        ('gpt-5.99', None),
        ('gpt-4o-audio-preview', None),
        ('claude-opus-4-1-20250805', 75.0),
        ('claude-opus-4-20250514', 75.0),
        ('claude-opus-4-5-20251101', 25.0),
        ('claude-opus-5', 25.0),
        ('claude-opus-5-7', None),
        ('claude-sonnet-4-6', 15.0),
    ],
)
def test_a_version_has_its_own_price_or_none(model: str, output: float | None) -> None:
    price = find_price({'model': model})
    assert (price.output if price else None) == output
    assert price is None or re.fullmatch(r'20\d\d(-\d\d)?', price.as_of)


def test_the_vendors_endpoint_counts_when_asked() -> None:
    asked: list[Any] = []

    async def handle(request: web.Request) -> web.Response:
        asked.append((request.path, await request.json()))
        return web.json_response({'input_tokens': 11})

    with running(handle) as url:
        model = {'type': 'Claude', 'abbr': 'c', 'path': 'claude-sonnet-4-5', 'base_url': url, 'key': 'k'}
        [unasked] = plan_run(config(model)).pairs
        [pair] = plan_run(config(model), count_remotely=True).pairs
        [many] = plan_run(config(model, rows=80), count_remotely=True).pairs
    assert unasked.input_tokens is None
    assert (pair.input_tokens, pair.exact) == (44, True)
    assert {path for path, _ in asked} == {'/v1/messages/count_tokens'}
    assert asked[0][1] == {'model': 'claude-sonnet-4-5', 'messages': [{'role': 'user', 'content': 'What is 0 + 1 ?'}]}
    assert len(asked) == 4 + 50
    assert many.exact is False
    assert many.input_tokens == pytest.approx(880, rel=0.05)


def test_an_endpoint_that_does_not_count_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.json_response({'input_tokens': 'many'})

    with running(handle) as url:
        model = {'type': 'Claude', 'abbr': 'c', 'path': 'claude-sonnet-4-5', 'base_url': url, 'key': 'k'}
        written = tmp_path / 'config.py'
        written.write_text(
            f'import json\nloaded = json.loads({json.dumps(config(model))!r})\n'
            'models, datasets = loaded["models"], loaded["datasets"]\n'
        )
        assert main(['run', str(written), '--dry-run', '--count-remotely', '--out', str(tmp_path / 'run')]) != 0
    assert 'no number of input tokens' in capsys.readouterr().err


def test_prices_of_a_file_are_used_by_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / 'prices.json').write_text('{"toy": {"input": 1000, "output": 0, "cached": "x"}}')
    (tmp_path / 'config.py').write_text('models = []\ndatasets = []\n')
    assert main(['run', str(tmp_path / 'config.py'), '--prices', str(tmp_path / 'prices.json')]) == 2
    assert 'expected dollars for a million tokens' in capsys.readouterr().err


def test_tokens_written_to_a_cache_are_stored_and_charged(tmp_path: Path) -> None:
    usage = {
        'input_tokens': 10,
        'cache_creation_input_tokens': 1000,
        'cache_read_input_tokens': 500,
        'output_tokens': 4,
    }
    whole = {'content': [{'type': 'text', 'text': '1'}], 'stop_reason': 'end_turn', 'usage': usage}
    with serve(lambda body: whole) as server:
        entry = {'type': 'Claude', 'abbr': 'c', 'path': 'toy', 'base_url': server.url, 'key': 'k'}
        entry |= {'price': {'input': 1.0, 'output': 5.0, 'cached': 0.1}}
        run_config(config(entry, {**entry, 'abbr': 'hour', 'prompt_cache': '1h'}), out=tmp_path)
    with RunReader(tmp_path) as reader:
        row = next(reader.results())
        assert (row.input_tokens, row.cached_tokens, row.cache_written_tokens) == (1510, 500, 1000)
        run = StoredRun(reader)
        lines = list(csv.DictReader(io.StringIO(report_csv(run, prices=run.prices()))))
        assert 'cache writes' in report_markdown(run, prices=run.prices())
    costs = [float(line['cost']) * 1e6 / 4 for line in lines]
    assert costs == pytest.approx([10 * 1.0 + 500 * 0.10 + written * 1000 + 4 * 5.0 for written in (1.25, 2.0)])
    assert {line['cache_written_tokens'] for line in lines} == {'4000'}


def test_what_a_judge_used_has_its_own_lines(tmp_path: Path) -> None:
    judge = {
        'type': 'FunctionModel',
        'function': lambda _: Reply('A', usage=Usage(100, 1, reasoning_tokens=7)),
        'abbr': 'strict',
        'price': {'input': 1000, 'output': 2000},
    }
    template = {
        'type': 'PromptTemplate',
        'template': {'round': [{'role': 'HUMAN', 'prompt': '{question} {prediction}? A or B'}]},
    }
    written = config({'type': 'FunctionModel', 'function': lambda _: '1', 'abbr': 'm'})
    evaluator = {'type': 'GenericLLMEvaluator', 'prompt_template': template, 'judge_cfg': judge}
    written['datasets'][0]['eval_cfg'] = {'evaluator': evaluator}
    for _ in range(2):  # resumed, the stored replies of the judge count as well
        run_config(written, out=tmp_path)
        with RunReader(tmp_path) as reader:
            [card] = reader.scorecards()
            assert card.details['judging'].items() >= {'model': 'strict', 'rows': 4, 'input_tokens': 400}.items()
            run = StoredRun(reader)
            prices = run.prices({'strict': Price(1.0, 1.0)})
            assert '| strict (judge) | sums | 4 | 400 | 4 | 28 |' in report_markdown(run, prices=prices)
            assert '0.41' in report_markdown(run, prices=prices)  # the entry's own price wins
            assert 'strict (judge)' in report_html(run, prices=prices)


def test_a_question_about_two_models_is_counted_once(tmp_path: Path) -> None:
    judge = {'type': 'FunctionModel', 'function': lambda _: Reply('[[A]]', usage=Usage(100, 1)), 'abbr': 'strict'}
    models = [{'type': 'FunctionModel', 'function': lambda _, name=name: name, 'abbr': name} for name in 'ab']
    written = config(*models)
    written['datasets'][0]['eval_cfg'] = {'evaluator': {'type': 'PairwiseEvaluator', 'judge_cfg': judge}}
    for _ in range(2):
        run_config(written, out=tmp_path)
        with RunReader(tmp_path) as reader:
            [used] = sum_judging(reader.scorecards()).values()
            assert (used.rows, used.input_tokens) == (8, 800)
