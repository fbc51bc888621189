"""`rolecall bench`: what is sent, when it arrives, what is counted, and how two results are compared."""

from __future__ import annotations

import asyncio
import csv
import json
import random
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest
from aiohttp import web

from rolecall.errors import ConfigError
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.source_options import SourceOptions
from rolecall.models.backends import build_model
from rolecall.models.http.served_model import StreamAllowance, StreamTimes
from rolecall.models.protocol import Reply, Sampling
from rolecall.runs import RunOptions, run_config
from rolecall.runs.serving.bench_files import StoredBench, save_result
from rolecall.runs.serving.bench_options import BenchOptions, Level
from rolecall.runs.serving.load_generator import LoadRun, RequestRecord, send_load
from rolecall.runs.serving.serving_benchmark import BenchResult, LevelRun, describe_run, find_steady, run_benchmark
from rolecall.runs.store.run_reader import RunReader
from rolecall.ui.cli.main import main
from rolecall.ui.report import StoredRun, report_html
from rolecall.ui.report.bench_text import bench_notes
from servers import running, serve
from tables import in_one
from timed_server import fetch_times, timed_server
from web_pages import Client, serve_page

ROWS = [{'question': f'what is {number} and {number}?'} for number in range(8)]


@pytest.fixture(scope='module')
def quick_server() -> Iterator[str]:
    with timed_server(first=0.01, gap=0.002, longest=7) as url:
        yield url


def measure(url: str, source: Any = None, **options: Any) -> BenchResult:
    source = ROWS if source is None else source
    experiment = Experiment.open(source, SourceOptions(models=(url,), model_name='timed'))
    return run_benchmark(experiment, BenchOptions(**{'warmup': 0, 'concurrency': (4,), 'requests': 12, **options}))


@pytest.mark.parametrize('concurrency', [1, 64])
def test_times_are_those_of_the_servers_own_clock(concurrency: int) -> None:
    with timed_server(first=0.1, gap=0.02, longest=8) as url:
        [level] = measure(url, concurrency=(concurrency,), requests=4 * concurrency if concurrency > 1 else 6).levels
        served = fetch_times(url)
    assert level.figures['completed'] == len(served)
    ttft = 1e3 * fmean(times['sent'][0] - times['received'] for times in served)
    e2el = 1e3 * fmean(times['ended'] - times['received'] for times in served)
    gaps = [
        1e3 * (later - earlier)
        for times in served
        for earlier, later in zip(times['sent'], times['sent'][1:], strict=False)
    ]
    assert level.figures['mean_itl_ms'] == pytest.approx(fmean(gaps), rel=0.2)
    assert ttft <= level.figures['mean_ttft_ms'] <= 1.25 * ttft + 20  # busy machines run these tests
    assert e2el * 0.99 <= level.figures['mean_e2el_ms'] <= 1.15 * e2el + 20


@pytest.mark.parametrize(('options', 'gaps', 'tokens'), [({'together': 2}, 1, 2), ({'silent_every': 2}, 2, 1)])
def test_gaps_are_those_between_pieces_with_text(options: dict[str, Any], gaps: int, tokens: int) -> None:
    # two tokens in each piece; or every other token without text, as half a character or a control token has none
    with timed_server(first=0.05, gap=0.02, longest=9, **options) as url:
        [level] = measure(url, concurrency=(1,), requests=4).levels
        served = fetch_times(url)
    between = 1e3 * fmean((times['sent'][-1] - times['sent'][0]) / 8 for times in served)
    assert level.figures['mean_itl_ms'] == pytest.approx(gaps * between, rel=0.2)
    assert level.figures['mean_tpot_ms'] == pytest.approx(8 * between / (9 * tokens - 1), rel=0.2)


def test_pieces_that_arrive_together_have_one_time() -> None:
    events = [{'choices': [{'index': 0, 'delta': {'content': word}}]} for word in ('one', 'two', 'three')]
    events.append({'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'stop'}]})

    async def answer(request: web.Request) -> web.Response:
        text = ''.join(f'data: {json.dumps(event)}\n\n' for event in events)
        return web.Response(text=text, content_type='text/event-stream')

    async def time_reply(url: str) -> StreamTimes:
        model: Any = build_model({'type': 'OpenAI', 'path': 'timed', 'openai_api_base': url, 'key': ''}, name='timed')
        await model.time_reply([{'role': 'user', 'content': 'x'}], Sampling(), times := StreamTimes(), stream=True)
        await model.close()
        return times

    with running(answer) as url:
        times = asyncio.run(time_reply(f'{url}/v1'))
    assert len(times.pieces) == 3
    assert len(set(times.pieces)) == 1


def test_tokens_that_a_server_does_not_report_are_not_zero(tmp_path: Path) -> None:
    records = [RequestRecord(number, 0, None, StreamTimes(number, [number + 1, number + 2])) for number in range(3)]
    for record in records:
        record.conclude(Reply('yes', 'ok', ''), stall=10)
        record.times.ended = record.times.pieces[-1]
    level = LevelRun({'level': 'concurrency 1', **describe_run(LoadRun(records), goodput={})}, records)
    assert (level.figures['total_output_tokens'], level.figures['input_throughput']) == (6, None)
    settings = {'dataset': 'd', 'model_id': 'm', 'endpoint': 'e', 'no_stream': False, 'goodput': {}, 'load_average': []}
    settings |= dict.fromkeys(('input_len', 'output_len', 'prefix_cache'))
    notes = list(bench_notes(save_result(BenchResult(settings, [level]), tmp_path)))
    assert any('reports no prompt tokens' in note for note in notes)


def test_requests_queue_at_the_capacity_of_the_server() -> None:
    with timed_server(first=0.05, gap=0.001, longest=2, capacity=1) as url:
        [level] = measure(url, concurrency=(4,), requests=8).levels
    waits = sorted(record.times.first_token or 0.0 for record in level.records)
    assert waits[0] < 0.1 < 0.15 < median(waits), 'each waits for the three before it'


@pytest.mark.parametrize(('places', 'is_late'), [((1,), True), ((), False)])
def test_requests_that_wait_for_a_place_are_said_to_be_late(places: Any, is_late: bool, tmp_path: Path) -> None:
    with timed_server(first=0.05, gap=0.001, longest=2, capacity=1) as url:
        result = measure(url, rate=(60.0,), requests=16, arrivals='constant', concurrency=places)
    notes = ' '.join(bench_notes(save_result(result, tmp_path)))
    assert ('ms late (P99), which no latency here includes' in notes) is is_late


def test_failures_cuts_and_stalls_are_counted_and_not_averaged() -> None:
    with timed_server(first=0.01, gap=0.005, longest=6, fail_every=5, cut_every=7, stall_every=11, stall=0.6) as url:
        [level] = measure(url, requests=40, stall=0.3).levels
    assert level.figures['errors_by_kind'] == {'failed': 8, 'cut': 4, 'stalled': 3}
    assert (level.figures['completed'], level.figures['failed']) == (25, 15)
    assert level.figures['max_e2el_ms'] < 600, 'a stall is in no average'
    reasons = {record.outcome: record.reason for record in level.records}
    assert 'out of memory' in reasons['failed']
    assert [count for reason, count in level.figures['errors'] if 'out of memory' in reason] == [8]
    assert 'more than 0.3 s' in reasons['stalled']


def test_prompts_of_exact_lengths_share_a_beginning_only_with_the_prefix_cache_on(quick_server: str) -> None:
    for cache in ('on', 'off'):
        result = measure(quick_server, input_len=64, output_len=7, prefix_cache=cache)
        records = result.levels[0].records
        assert {(record.input_tokens, record.output_tokens) for record in records} == {(64, 7)}
        assert result.settings['prefix_cache'] == cache


def test_what_is_sent_begins_differently_with_the_prefix_cache_off_and_carries_replies_to_the_next_turn() -> None:
    dialogue = {
        'abbr': 'talk',
        'test': [{'q': ['first', 'second'], 'a': ['', '']}],
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {
            'prompt_template': {
                'type': 'MultiTurnPromptTemplate',
                'template': {'round': [{'role': 'HUMAN', 'prompt': '{q}'}, {'role': 'BOT', 'prompt': '{a}'}]},
            },
            'inferencer': {'type': 'MultiTurnGenInferencer', 'infer_mode': 'every'},
        },
    }
    with serve(lambda body: f'reply to {len(body["messages"])}') as server:
        entry = {'abbr': 'm', 'type': 'OpenAI', 'path': 'toy', 'openai_api_base': server.url, 'key': 'k'}
        source = {'models': [entry], 'datasets': [dialogue]}
        for cache in (None, 'off'):
            run_benchmark(
                Experiment.open(source), BenchOptions(warmup=0, concurrency=(1,), requests=2, prefix_cache=cache)
            )
        bodies = [call.body['messages'] for call in server.calls if call.body]
    assert [message['content'] for message in bodies[1]] == ['first', 'reply to 1', 'second']
    beginnings = {messages[0]['content'] for messages in bodies[4:]}
    assert len(beginnings) == 2, 'one for each conversation'
    assert all(text.endswith('] first') for text in beginnings)
    assert bodies[5][1]['content'] == 'reply to 1'


def test_the_files_have_the_names_of_vllm_and_aisbench(quick_server: str, tmp_path: Path) -> None:
    result = measure(quick_server, requests=30, goodput=['ttft:500', 'e2el:1'])
    stored = save_result(result, tmp_path / 'result')
    again = StoredBench.load(tmp_path / 'result')
    [level] = again.levels
    assert again.settings == json.loads(json.dumps(stored.settings))
    assert {'request_throughput', 'output_throughput', 'mean_ttft_ms', 'p99_itl_ms', 'median_tpot_ms'} <= set(level)
    assert level['request_goodput'] == 0, 'no reply is there within a millisecond'
    low, high = level['p50_e2el_ms_interval']
    assert low <= level['median_e2el_ms'] <= high
    with (tmp_path / 'result' / 'measures.csv').open(encoding='utf-8') as lines:
        measures = list(csv.DictReader(lines))
    assert {line['Performance Parameters'] for line in measures} == {'E2EL', 'TTFT', 'TPOT', 'ITL'}
    assert list(measures[0])[1:5] == ['Performance Parameters', 'Stage', 'Average', 'Min']
    [requests] = again.requests
    assert sum(request['output_tokens'] for request in requests) == level['total_output_tokens']
    assert len(requests[0]['itl']) == requests[0]['output_tokens'] - 1


def test_a_rate_is_kept_by_chance_evenly_or_as_recorded(quick_server: str, tmp_path: Path) -> None:
    trace = tmp_path / 'trace.jsonl'
    recorded = [(0, 9, 3), (1, 40, 4), (9, 12, 2)]
    trace.write_text(
        ''.join(
            json.dumps(dict(timestamp=at, input_length=sent, output_length=got)) + '\n' for at, sent, got in recorded
        )
    )
    result = measure(quick_server, arrivals=str(trace), rate=[20], requests=None, concurrency=())
    [level] = result.levels
    starts = [record.due - level.records[0].due for record in level.records]
    assert starts == pytest.approx([0, 1 / 90, 0.1])
    assert [(record.input_tokens, record.output_tokens) for record in level.records] == [(9, 3), (40, 4), (12, 2)]
    [level] = measure(quick_server, arrivals='constant', rate=[50], requests=10, concurrency=()).levels
    assert level.figures['client']['p99_late_ms'] < 100
    gaps = Level(None, 100.0).starts(2001, 'poisson')
    assert gaps is not None
    assert gaps[-1] == pytest.approx(20, rel=0.1)


def test_whole_replies_have_end_to_end_times_only(quick_server: str) -> None:
    [level] = measure(quick_server, no_stream=True).levels
    assert level.figures['mean_e2el_ms'] > 15
    assert 'mean_ttft_ms' not in level.figures


@in_one
@pytest.mark.parametrize(
    ('seconds', 'steady_from'),
    [
        ([1.0] * 40, 0),
        ([9.0] * 10 + [1.0, 1.2] * 30, 10),
        ([0.1 * number for number in range(60)], None),
        ([1.0] * 10, None),
    ],
)
def test_the_steady_state_begins_where_latencies_stop_changing(seconds: list[float], steady_from: int | None) -> None:
    records = [
        RequestRecord(number, 0, None, StreamTimes(float(number), [], number + latency), output_tokens=1)
        for number, latency in enumerate(seconds)
    ]
    window, why = find_steady(records)
    assert (window[0] if window else None) == steady_from
    assert bool(why) == (window is None)


def test_two_processes_send_what_one_would(quick_server: str) -> None:
    fetch_times(quick_server)
    [level] = measure(quick_server, processes=2, requests=20).levels
    assert level.figures['completed'] == len(fetch_times(quick_server)) == 20
    assert level.figures['client']['processes'] == 2
    assert level.figures['max_concurrent_requests'] <= 4


def test_the_command_prints_a_table_and_says_where_the_result_is(
    quick_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        'bench',
        '--model',
        quick_server,
        '--input-len',
        '20',
        '--output-len',
        '4',
        '--concurrency',
        '1',
        '2',
        '--requests',
        '20',
    ]
    assert main(words) == 0
    printed = capsys.readouterr()
    for line in (
        'concurrency',
        'Mean TTFT (ms)',
        'P99 ITL (ms)',
        'Output token throughput',
        'Client: share of a core',
    ):
        assert line in printed.out
    assert 'wrote bench/synthetic' in printed.err
    assert main([*words, '--json']) == 0
    assert len(json.loads(capsys.readouterr().out)['levels']) == 2
    assert (tmp_path / 'bench' / 'synthetic-2').is_dir()


@in_one
@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'goodput': ['tftt:200']}, "Did you mean 'ttft'?"),
        ({'goodput': ['ttft=200']}, 'unknown measure'),
        ({'goodput': ['ttft:soon']}, 'Write ttft:200.'),
        ({'arrivals': 'poison'}, "Did you mean 'poisson'?"),
        ({'goodput': ['ttft:nan']}, 'Write ttft:200.'),
        ({'concurrency': [0]}, 'expected numbers above 0, got 0.'),
        ({'seconds': float('nan')}, 'expected numbers above 0, got nan.'),
        ({'warmup': -1}, 'expected a number of at least 0, got -1.'),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace('?', '[?]')):
        measure('http://127.0.0.1:9', **options)


def test_a_length_that_no_prompt_has_names_the_closest(quick_server: str) -> None:
    with pytest.raises(ConfigError, match='no prompt of 1 token was found; the closest has 5.\n.*name a tokenizer'):
        measure(quick_server, input_len=1)


def test_the_command_says_what_is_missing_before_it_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path('trace.jsonl').write_text('{"timestamp": 0}\n{"timestamp": 1}\n')
    served = ['--model', 'http://127.0.0.1:9']
    for words, message in (
        (['--input-len', '9'], 'no server is named'),
        ([*served, '--arrivals', 'trace.jsonl'], 'there is nothing to send'),
        ([*served, '--input-len', '9', '--out', 'trace.jsonl'], 'is not empty'),
        ([*served, '--input-len', '9', '--out', '.'], 'is not empty'),
    ):
        assert main(['bench', *words]) == 2
        assert message in capsys.readouterr().err


def test_every_level_sends_something_however_short(quick_server: str) -> None:
    [level] = measure(quick_server, seconds=1e-9, warmup=2).levels
    assert level.figures['completed'] == 1


def test_an_interrupted_benchmark_keeps_its_finished_levels(
    quick_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    levels = iter([None])

    async def send_one_level(*arguments: Any) -> LoadRun:
        if next(levels, KeyboardInterrupt) is KeyboardInterrupt:
            raise KeyboardInterrupt
        return await send_load(*arguments)

    monkeypatch.setattr('rolecall.runs.serving.serving_benchmark.send_load', send_one_level)
    words = ['bench', '--model', quick_server, '--input-len', '9', '--concurrency', '1', '2', '--requests', '4']
    assert main([*words, '--warmup', '0', '--out', 'half']) == 130
    assert 'Interrupted after 1 of 2 levels.' in capsys.readouterr().out
    assert [level['level'] for level in StoredBench.load('half').levels] == ['concurrency 1']
    assert main([*words, '--warmup', '0', '--out', 'none']) == 130
    assert not Path('none').exists()


def test_a_model_in_this_process_is_refused() -> None:
    experiment = Experiment.open(ROWS, SourceOptions(models=(lambda prompt: 'yes',)))
    with pytest.raises(ConfigError, match='Give the URL of a server'):
        run_benchmark(experiment, BenchOptions())


def save_made_up(directory: Path, *, first: float, seed: int) -> None:
    """A benchmark of 80 requests, two at once, whose first tokens come after about `first` seconds."""
    draw = random.Random(seed)
    records = []
    for number in range(80):
        sent = 0.5 * (number // 2)
        start = sent + first * draw.uniform(0.9, 1.1)
        pieces = [start + 0.02 * place * draw.uniform(0.98, 1.02) for place in range(5)]
        times = StreamTimes(sent, pieces, pieces[-1])
        records.append(RequestRecord(number, 0, None, times, input_tokens=9, output_tokens=5))
    load = {'level': 'concurrency 2', 'max_concurrency': 2, 'request_rate': None}
    figures = describe_run(LoadRun(records, [0.001], 0.1), goodput={})
    settings = dict.fromkeys(('input_len', 'output_len', 'prefix_cache', 'no_stream')) | {'goodput': {}}
    about = {'dataset': 'made up', 'model_id': 'none', 'endpoint': 'none', 'date': 'today', 'load_average': [0.0, 0.0]}
    save_result(BenchResult({**settings, **about}, [LevelRun({**load, **figures}, records)]), directory)


def test_two_benchmarks_are_compared_and_gated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, (name, first) in enumerate((('quick', 0.2), ('again', 0.2), ('slow', 0.3))):
        save_made_up(tmp_path / name, first=first, seed=seed)
    quick, again, slow = (str(tmp_path / name) for name in ('quick', 'again', 'slow'))
    assert main(['compare', quick, slow, '--gate', '--margin', '5']) == 1
    printed = capsys.readouterr().out
    assert 'concurrency 2 × TTFT (ms): worse, +' in printed
    assert printed.rstrip().endswith('WORSE')
    assert main(['compare', quick, again, '--gate', '--margin', '5']) == 0
    assert main(['compare', quick, slow]) == 0, 'without --gate, only told'
    assert main(['report', slow]) == 0
    assert main(['report', slow, '--html', str(tmp_path / 'page.html')]) == 0
    capsys.readouterr()
    assert main(['report', slow, '--csv']) == 0
    assert capsys.readouterr().out.startswith('level,stage,')
    assert main(['report', slow, '--json']) == 0
    assert json.loads(capsys.readouterr().out)['levels'][0]['level'] == 'concurrency 2'
    assert main(['report', slow, '--markdown']) == 2
    assert 'is a benchmark: it has no such report' in capsys.readouterr().err
    page = (tmp_path / 'page.html').read_text(encoding='utf-8')
    assert page.count('<figure>') == 6 + 4, 'curves and histograms'
    other = json.loads((tmp_path / 'slow' / 'bench.json').read_text(encoding='utf-8'))
    other['levels'][0]['level'], other['settings']['output_len'] = 'concurrency 3', 9
    (tmp_path / 'slow' / 'bench.json').write_text(json.dumps(other), encoding='utf-8')
    capsys.readouterr()
    assert main(['compare', quick, slow, '--gate']) == 3, 'levels that only one has are not measured'
    assert 'the benchmarks do not measure the same: output_len None → 9.' in capsys.readouterr().err


def test_times_of_zero_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_made_up(tmp_path / 'whole', first=0.2, seed=0)
    file = tmp_path / 'whole' / 'requests.jsonl'  # every reply came in one piece
    lines = [{**json.loads(line), 'tpot': 0.0} for line in file.read_text(encoding='utf-8').splitlines()]
    file.write_text('\n'.join(map(json.dumps, lines)), encoding='utf-8')
    assert main(['compare', str(tmp_path / 'whole'), str(tmp_path / 'whole')]) == 0
    assert 'TPOT (ms): not measured' in capsys.readouterr().out


def test_a_run_keeps_the_times_of_streams_and_draws_scores_against_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def entry(name: str, url: str, price: float) -> dict[str, Any]:
        price_of = {'input': price, 'output': price}
        return {'abbr': name, 'type': 'OpenAI', 'path': 'toy', 'openai_api_base': url, 'key': 'k', 'price': price_of}

    dataset = {
        'abbr': 'sums',
        'test': [{'q': f'{number} and {number}', 'a': 'yes indeed'} for number in range(8)],
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': '{q}'}},
        'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}},
    }
    with serve('yes indeed') as right, serve('not at all', latency=0.02) as wrong:
        config = {'models': [entry('cheap', right.url, 1.0), entry('dear', wrong.url, 9.0)], 'datasets': [dataset]}
        run_config(config, RunOptions(out=tmp_path / 'run', times=True, force=True))
        streamed = [body.get('stream') for body in (*right.bodies, *wrong.bodies)]
    assert streamed == [True] * 16
    with RunReader(tmp_path / 'run') as reader:
        results = list(reader.results())
        assert all(0 < result.first_token_seconds <= result.seconds for result in results)
        run = StoredRun(reader)
        page = report_html(run, prices=run.prices({}))
    assert all(title in page for title in ('seconds to first token', 'milliseconds per output token'))
    assert 'Mean score against seconds for a row (median)' in page
    assert 'cheap: 100.0, US$' in page
    monkeypatch.setattr(StreamAllowance, 'allows', lambda self: False)
    with serve('yes indeed') as server:
        config = {'models': [entry('cheap', server.url, 1.0)], 'datasets': [dataset]}
        run_config(config, RunOptions(out=tmp_path / 'busy', times=True, force=True))
        assert [body.get('stream') for body in server.bodies] == [None] * 8, 'too many pieces a second: whole replies'


def test_the_page_of_rolecall_web_leads_to_benchmarks(quick_server: str, tmp_path: Path) -> None:
    save_result(measure(quick_server, requests=20), tmp_path / 'first')
    with serve_page(tmp_path / 'first') as (port, rules):
        client = Client(port, rules)
        assert client.get('session')['benches'] == ['first']
        answer, page = client.send('/bench/0')
        assert client.send('/bench/1')[0].status == 404
    assert 'Inter-token Latency (ms)' in page
    assert "default-src 'none'" in page, 'its own policy is stricter than that of the other views'
    assert answer.headers['Content-Security-Policy'] == "frame-ancestors 'none'"
