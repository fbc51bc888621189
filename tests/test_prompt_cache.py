"""Prompt-cache breakpoints for Anthropic: where all rows' shared part ends, and nowhere if it is short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers import bot, human, system, template
from rolecall import ConfigError
from rolecall.experiment.pairs.pair import find_shared_prefix
from rolecall.runs import plan_run, run_config
from rolecall.runs.prepare import prepare
from rolecall.runs.store.run_reader import RunReader
from servers import Server, serve

LONG = 'Rules of the game, which are the same for everybody. ' * 80
"""About 4,200 bytes, more than 1,024 tokens of three bytes."""
MARK = {'type': 'ephemeral'}
SHOT = {'question': 'Shot?', 'answer': LONG}


def config(
    server: Server, prompt: Any, *, retriever: Any = None, model: Any = None, ice: bool = False
) -> dict[str, Any]:
    rows = [{'question': f'{i} What is {i} + {i}?', 'answer': str(2 * i)} for i in range(3)]
    infer: dict[str, Any] = {
        'prompt_template': template(prompt),
        'inferencer': {'type': 'GenInferencer', 'max_out_len': 9},
    }
    if retriever is not None:
        asked = {'round': [human('{question}'), bot('{answer}')]}
        infer |= {'retriever': retriever, 'ice_template': template(asked)}
        infer['prompt_template'] = template({**prompt, 'begin': [*prompt.get('begin', ()), '</E>']}, ice_token='</E>')
    dataset = {
        'abbr': 'd',
        'type': 'Rows',
        'test': rows,
        'train': [SHOT, {**SHOT, 'question': 'Other?'}],
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
        'infer_cfg': infer,
    }
    entry = {'abbr': 'c', 'type': 'Claude', 'path': 'toy', 'base_url': server.url, 'key': 'k'}
    return {'datasets': [dataset], 'models': [{**entry, **(model or {})}]}


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else ''.join(block['text'] for block in content)


def marks(body: Any) -> list[tuple[str, str]]:
    """Where the marks are, with what stands before each in its message."""
    found = []
    for place, content in (
        ('system', body.get('system', '')),
        *((one['role'], one['content']) for one in body['messages']),
    ):
        before = ''
        for block in content if isinstance(content, list) else ():
            before += block['text']
            if 'cache_control' in block:
                found.append((place, before))
    return found


PLAIN = {'round': [human('{question}')]}
SYSTEM = {'begin': [system(LONG)], **PLAIN}
FIXED = {'type': 'FixKRetriever', 'fix_id_list': [0]}


@pytest.mark.parametrize(
    ('prompt', 'retriever', 'expected'),
    [
        (SYSTEM, None, [('system', LONG)]),
        ({'round': [human(LONG + 'Question: {question}')]}, None, [('user', LONG + 'Question: ')]),
        ({'round': [human(LONG), bot('Understood.'), human('{question}')]}, None, [('assistant', 'Understood.')]),
        (PLAIN, FIXED, [('assistant', LONG)]),
        ({'begin': [system('Be brief.')], **PLAIN}, FIXED, [('assistant', LONG)]),
        (PLAIN, {'type': 'RandomRetriever', 'ice_num': 1}, []),
        (SYSTEM, {'type': 'BM25Retriever', 'ice_num': 1}, [('system', LONG)]),
        ({'begin': [system(LONG + '{question}')], **PLAIN}, None, [('system', LONG)]),
        ({'begin': [system('Be brief.')], **PLAIN}, None, []),
        (PLAIN, None, []),
    ],
    ids=['system', 'beginning', 'dialogue', 'shots', 'system+shots', 'random', 'varying', 'in-system', 'short', 'none'],
)
def test_the_mark_stands_where_the_shared_part_ends(prompt: Any, retriever: Any, expected: Any, tmp_path: Path) -> None:
    with serve('4') as server:
        whole = config(server, prompt, retriever=retriever)
        random = retriever is not None and retriever['type'] == 'RandomRetriever'
        summary = run_config(whole, out=tmp_path / 'on', dataset='d')
        assert summary.outcomes == {'ok': 3}
        marked = server.bodies
        if not random or expected:
            assert all(marks(body) == expected for body in marked)
        server.calls.clear()
        whole['models'][0]['prompt_cache'] = False
        run_config(whole, out=tmp_path / 'off')
        plain = server.bodies
    assert not any(marks(body) for body in plain)

    def texts(body: Any) -> Any:
        said = [(one['role'], text_of(one['content'])) for one in body['messages']]
        rest = {name: value for name, value in body.items() if name not in ('messages', 'system')}
        return text_of(body.get('system', '')), said, rest

    by_text = lambda bodies: sorted(map(texts, bodies), key=str)  # noqa: E731
    assert by_text(marked) == by_text(plain)
    with RunReader(tmp_path / 'on') as one, RunReader(tmp_path / 'off') as other:
        assert one.fingerprints() == other.fingerprints()


def test_a_model_with_a_higher_minimum_needs_more(tmp_path: Path) -> None:
    with serve('4', models=('claude-haiku-4-5', 'toy')) as server:
        run_config(config(server, SYSTEM, model={'path': 'claude-haiku-4-5'}), out=tmp_path / 'a')
        assert not any(marks(body) for body in server.bodies)
        run_config(config(server, SYSTEM, model={'prompt_cache': '1h'}), out=tmp_path / 'b')
        assert server.bodies[-1]['system'][0]['cache_control'] == {'type': 'ephemeral', 'ttl': '1h'}


def test_long_tools_are_marked_where_nothing_else_is_shared(tmp_path: Path) -> None:
    tool = {'type': 'function', 'function': {'name': 'look', 'description': LONG, 'parameters': {'type': 'object'}}}
    with serve('4') as server:
        run_config(config(server, {'round': [human('x {question}')]}, model={'tools': [tool]}), out=tmp_path)
        [shared] = {str(body['tools']) for body in server.bodies}
        places = [marks(body) for body in server.bodies]
    assert shared.count('cache_control') + len(places[0]) == 1


def test_one_row_writes_no_cache(tmp_path: Path) -> None:
    with serve('4') as server:
        whole = config(server, SYSTEM)
        del whole['datasets'][0]['test'][1:]
        run_config(whole, out=tmp_path)
        assert not marks(server.bodies[0])


def test_a_lifetime_that_does_not_exist_is_refused() -> None:
    with serve('4') as server, pytest.raises(ConfigError, match=r"prompt_cache\n  expected True, False, '5m' or '1h'"):
        prepare(config(server, SYSTEM, model={'prompt_cache': '2d'}))


def test_the_plan_forecasts_the_price_with_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    from rolecall.experiment.opening.model_entries import ModelEntry

    monkeypatch.setattr(ModelEntry, 'count', lambda entry, request: 2000)
    with serve('4') as server:
        priced = config(server, SYSTEM, model={'price': {'input': 1000, 'output': 0, 'cached': 100}})
        plan = plan_run(priced)
        [pair] = plan.pairs
        assert pair.price == pytest.approx(6.0)
        assert pair.shared_part == pytest.approx(0.97, abs=0.03)
        kept = pair.shared_part * 2.0
        assert pair.cached_price == pytest.approx(3 * (2 - kept) + 1.25 * kept + 2 * 0.1 * kept)
        assert f'about {pair.cached_price:.2f} with {pair.shared_part:.0%} of each prompt from the cache' in str(plan)
        priced['models'][0]['prompt_cache'] = '1h'
        assert plan_run(priced).pairs[0].cached_price == pytest.approx(pair.cached_price + 0.75 * kept)
        priced['models'][0]['prompt_cache'] = False
        assert plan_run(priced).pairs[0].cached_price is None


def test_what_the_server_read_from_its_cache_is_in_the_report(tmp_path: Path) -> None:
    from rolecall.ui.report import StoredRun, report_markdown

    usage = {'input_tokens': 5, 'cache_read_input_tokens': 1500, 'cache_creation_input_tokens': 0, 'output_tokens': 1}
    whole = {'content': [{'type': 'text', 'text': '4'}], 'stop_reason': 'end_turn', 'usage': usage}
    with serve(lambda body: whole) as server:
        run_config(config(server, SYSTEM), out=tmp_path)
    with RunReader(tmp_path) as reader:
        assert '4,500' in report_markdown(StoredRun(reader))


def test_a_prefix_is_found_by_origin_and_not_by_chance() -> None:
    with serve('4') as server:
        whole = config(server, {'round': [human('Ask: {question}')]})
        for row in whole['datasets'][0]['test']:
            row['question'] = 'What is the same in all rows here by chance'
        [one] = prepare(whole).pairs
    assert find_shared_prefix(one.compiled) == ([], 'Ask: ')
