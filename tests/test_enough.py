"""A run asks enough and no more: samples, goals, caps, and a person who tells it what to do."""

from __future__ import annotations

import json
import random
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rolecall
from rolecall.errors import ConfigError, RunError
from rolecall.runs import RunReader
from rolecall.runs.brake import Control, change_control
from rolecall.runs.pair_run import RowDraw
from rolecall.scoring.confidence_sequence import MEASURING, ConfidenceSequence
from rolecall.ui.cli.main import main
from rolecall.ui.views.run_progress import QuietProgress
from servers import Server, serve
from tables import in_one

ROWS = [{'q': f'{number}', 'a': 'yes', 'kind': f'{number % 3}'} for number in range(1500)]


def answers(share: float, salt: str = '') -> Any:
    """A model that knows this share of the answers."""

    def answer(prompt: str) -> str:
        number = prompt.partition('Q')[2].partition('?')[0]
        return 'yes' if zlib.crc32(f'{salt} {number}'.encode()) % 1000 < 1000 * share else 'no'

    answer.__name__ = f'knows{share:.0%}'.replace('%', '') + salt
    return answer


def run(*models: Any, out: Path, rows: Any = ROWS, metric: Any = 'exact', **options: Any) -> Any:
    return rolecall.run(
        rows, template='Q{q}?', answer='a', metric=metric, model=list(models), out=out, quiet=True, **options
    )


def rows_in(directory: Path) -> dict[str, list[int]]:
    with RunReader(directory) as reader:
        return {model: [row.row for row in reader.results(model=model)] for _, model in reader.pairs()}


def test_a_run_stops_when_models_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(answers(0.9), answers(0.6), out=tmp_path, until='decided')
    asked = rows_in(tmp_path)
    assert {len(numbers) for numbers in asked.values()} == {len(next(iter(asked.values())))}
    assert len(asked['knows90']) < 200
    assert asked['knows90'] == asked['knows60'] != list(range(len(asked['knows90'])))
    assert main(['report', str(tmp_path), '--markdown']) == 0
    report = capsys.readouterr().out
    assert 'knows90 beats knows60 by' in report
    assert f'After {len(asked["knows90"])} of 1,500 rows, in random order.' in report


def test_models_that_are_alike_are_asked_everything_and_called_undecided(tmp_path: Path) -> None:
    done = run(answers(0.7, 'a'), answers(0.7, 'b'), out=tmp_path, until='decided', rows=ROWS[:200])
    assert {len(numbers) for numbers in rows_in(tmp_path).values()} == {200}
    with RunReader(done.out) as reader:
        assert 'are not told apart' in reader.scorecards()[0].stopped


def test_a_run_stops_when_a_score_is_known_closely_enough(tmp_path: Path) -> None:
    done = run(answers(0.9), out=tmp_path, until='±6')
    [card] = done.summary.scorecards
    assert card.scored < 600
    assert card.low is not None
    assert card.high is not None
    assert card.high - card.low <= 12
    assert card.interval is not None
    assert card.interval.method == 'confidence sequence'


def test_a_goal_that_is_reached_asks_nothing_more_when_it_is_run_again(tmp_path: Path) -> None:
    first = run(answers(0.9), answers(0.6), out=tmp_path, until='decided')
    before = rows_in(tmp_path)
    again = run(answers(0.9), answers(0.6), out=tmp_path, until='decided')
    assert rows_in(tmp_path) == before
    assert [card.value for card in again.summary.scorecards] == [card.value for card in first.summary.scorecards]


def test_a_narrower_goal_goes_on_where_a_wider_one_ended(tmp_path: Path) -> None:
    run(answers(0.9), out=tmp_path, until='±10')
    before = set(rows_in(tmp_path)['knows90'])
    run(answers(0.9), out=tmp_path, until='±5')
    assert before < set(rows_in(tmp_path)['knows90'])
    with pytest.raises(ConfigError, match='which are no part of rows until ±10'):
        run(answers(0.9), out=tmp_path, until='±10')


@in_one
@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'until': 'decided'}, 'there is nothing to decide between: the run has 1 model.'),
        ({'until': 'soon'}, "expected decided, or a width in points as ±2, got 'soon'."),
        ({'until': '±0'}, "expected decided, or a width in points as ±2, got '±0'."),
        ({'until': '±2', 'limit': 5}, 'each says which rows are asked about.'),
        ({'sample': 0}, 'sample must be at least 1, got 0.'),
        ({'max_minutes': 0}, 'max_minutes must be more than 0, got 0.'),
        ({'max_cost': float('nan')}, 'max_cost must be more than 0, got nan.'),
    ],
)
def test_goals_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match='.*') as refusal:
        run(answers(0.9), out=Path('never'), rows=ROWS[:3], **options)
    assert message in str(refusal.value)


def test_a_score_that_is_no_mean_of_its_rows_has_no_goal(tmp_path: Path) -> None:
    rows = [{'q': f'{n}', 'a': f'the cat sat on the mat {n % 7} times before {n}'} for n in range(40)]
    with pytest.raises(RunError, match='is no mean of rows between 0 and 100 %'):
        run(
            lambda prompt: f'the cat sat on the mat {len(prompt)} times',
            out=tmp_path,
            rows=rows,
            metric={'type': 'BleuEvaluator'},
            until='±2',
        )


class Rates:
    """Gives 7 of 10 points, and says nothing of single rows."""

    def score(self, predictions: list[str], references: list[str]) -> dict[str, float]:
        return {'rating': 7.0}


@pytest.mark.parametrize('metric', [{'type': Rates}, 'bleu'])
def test_ratings_and_scores_that_are_off_by_rounding_have_no_goal(metric: Any, tmp_path: Path) -> None:
    with pytest.raises(RunError, match='is no mean of rows between 0 and 100 %'):
        run(lambda _prompt: 'yes', out=tmp_path, rows=ROWS[:40], metric=metric, until='±2')


def test_a_sample_is_drawn_at_random_and_a_larger_one_holds_it(tmp_path: Path) -> None:
    few = run(answers(0.8), out=tmp_path, sample=50)
    drawn = set(rows_in(tmp_path)['knows80'])
    assert len(drawn) == 50
    assert drawn != set(range(50))
    [card] = few.summary.scorecards
    assert card.rows_note.startswith('50 of 1,500 rows, drawn at random (seed 0); on all rows knows80 would score')
    run(answers(0.8), out=tmp_path, sample=80)
    assert drawn < set(rows_in(tmp_path)['knows80'])
    [whole] = run(answers(0.8), out=tmp_path, sample=5000).summary.scorecards
    assert (whole.scored, whole.rows_note) == (1500, '')
    with pytest.raises(ConfigError, match='no part of 60 rows, drawn with seed 1'):
        run(answers(0.8), out=tmp_path, sample=60, sample_seed=1)


def test_a_limit_says_that_the_rows_are_the_first(tmp_path: Path) -> None:
    [card] = run(answers(0.8), out=tmp_path, limit=20).summary.scorecards
    assert card.notes()[0].endswith(': the first 20 of 1,500 rows.')
    [card] = run(answers(0.8), out=tmp_path, limit=30, rows=ROWS[:30]).summary.scorecards
    assert card.rows_note == ''


def test_datasets_of_a_group_share_a_sample_in_proportion(tmp_path: Path) -> None:
    config = {
        'datasets': [
            {
                'abbr': name,
                'test': ROWS[:count],
                'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
                'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': 'Q{q}?'}},
                'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}},
            }
            for name, count in (('large', 90), ('small', 30), ('alone', 60))
        ],
        'groups': {'both': ['large', 'small']},
    }
    done = rolecall.run(config, model=answers(0.8), out=tmp_path, sample=20, quiet=True)
    scored = {card.dataset: card.scored for card in done.summary.scorecards if not card.members}
    assert scored == {'large': 15, 'small': 5, 'alone': 20}


def test_draws_hold_smaller_draws_and_every_row_once() -> None:
    pools = [{'a': 100, 'b': 37, 'c': 3}]
    draws = [RowDraw(pools, end=end, seed=3) for end in (10, 20, 140)]
    for dataset, total in pools[0].items():
        first, second, everything = (set(draw.numbers(dataset)) for draw in draws)
        assert first <= second <= everything == set(range(total))


@in_one
@pytest.mark.parametrize(
    ('truth', 'options'),
    [
        (0.7, {'stakes': MEASURING}),
        (0.05, {'stakes': MEASURING}),
        (0.7, {'population': 600, 'half_width': 0.05}),
        (0.05, {'population': 600, 'half_width': 0.02}),
    ],
)
def test_an_interval_that_is_watched_after_every_row_holds_the_truth(truth: float, options: dict[str, Any]) -> None:
    chance = random.Random(5)
    missed = 0
    for _ in range(40):
        rows = [float(row < 600 * truth) for row in range(600)]
        chance.shuffle(rows)
        if 'population' not in options:
            rows = chance.choices(rows, k=300)
        watched = ConfidenceSequence(0, 1, **options)
        for begin in range(0, len(rows), 20):
            watched.add(rows[begin : begin + 20])
            if watched.excludes(truth):
                missed += 1
                break
    assert missed <= 6


def test_the_interval_of_a_population_ends_at_its_mean() -> None:
    watched = ConfidenceSequence(0, 1, population=50, half_width=0.05)
    for _ in range(5):
        watched.add([1, 1, 1, 0, 1, 1, 0, 0, 1, 0])
    assert list(watched.interval()) == pytest.approx([0.6, 0.6], abs=1e-5)
    watched = ConfidenceSequence(0, 1, [1] * 40, population=50, half_width=0.05)
    assert watched.interval().low >= 0.8, 'the other ten may all be wrong'


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as server:
        yield server


def entry(server: Server, **options: Any) -> dict[str, Any]:
    return {
        'type': 'OpenAI',
        'abbr': 'served',
        'path': 'toy',
        'key': 'k',
        'openai_api_base': f'{server.url}/v1/chat/completions',
        **options,
    }


def test_a_cap_on_cost_ends_a_run_between_rows_and_a_higher_one_goes_on(tmp_path: Path, server: Server) -> None:
    priced = entry(server, price={'input': 1000.0, 'output': 1000.0}, concurrency=2)
    done = run(priced, out=tmp_path, rows=ROWS[:60], max_cost=0.1)
    asked = len(rows_in(tmp_path)['served'])
    assert 0 < asked < 60
    assert done.summary.exit_code == 1
    assert f'{asked / 0.6:.3g} % measured: --max-cost 0.1 is reached' in done.summary.ended
    again = run(priced, out=tmp_path, rows=ROWS[:60])
    assert len(rows_in(tmp_path)['served']) == 60
    assert again.summary.ended == ''


def test_a_cap_on_cost_is_refused_where_the_price_is_not_known(tmp_path: Path, server: Server) -> None:
    with pytest.raises(ConfigError, match='the price of served is not known'):
        run(entry(server), out=tmp_path, rows=ROWS[:3], max_cost=1)
    run(entry(server), out=tmp_path, rows=ROWS[:3], max_total_tokens=10_000)


def test_a_cap_on_cost_takes_the_prices_given_to_the_run(tmp_path: Path, server: Server) -> None:
    dataset = {
        'abbr': 'sums',
        'path': str(tmp_path / 'rows.jsonl'),
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': 'Q{q}?'}},
    }
    (tmp_path / 'rows.jsonl').write_text(''.join(json.dumps(row) + '\n' for row in ROWS[:60]))
    prices = tmp_path / 'prices.json'
    prices.write_text('{"toy": {"input": 1000, "output": 1000}}')
    config = {'models': [entry(server, concurrency=2)], 'datasets': [dataset]}
    rolecall.run_config(config, out=tmp_path / 'run', prices=prices, max_cost=0.1)
    assert 0 < len(rows_in(tmp_path / 'run')['served']) < 60


def test_each_dataset_and_model_of_a_run_with_a_goal_is_announced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced: list[str] = []
    monkeypatch.setattr(
        QuietProgress, 'on_pair_start', lambda self, dataset, model, *_: announced.append(model), raising=False
    )
    run(answers(0.9), answers(0.6), out=tmp_path, until='decided')
    assert sorted(announced) == ['knows60', 'knows90']


def test_a_cap_on_tokens_ends_a_run(tmp_path: Path, server: Server) -> None:
    done = run(entry(server, concurrency=1), out=tmp_path, rows=ROWS[:60], max_total_tokens=100)
    assert '--max-total-tokens 100 is reached' in done.summary.ended
    assert len(rows_in(tmp_path)['served']) < 60


@pytest.mark.parametrize('amount', [20, 25, 100])
def test_rows_under_way_do_not_lead_beyond_a_cap(tmp_path: Path, amount: int) -> None:
    usage = {'prompt_tokens': 7, 'completion_tokens': 1}
    reply = {'choices': [{'message': {'content': 'x'}, 'finish_reason': 'stop'}], 'usage': usage}
    with serve(lambda _body: reply) as server:
        done = run(entry(server), out=tmp_path, rows=ROWS[:60], max_total_tokens=amount)
    assert done.summary.tokens <= max(amount, 4 * 8), 'four rows are tried before the first answer'


@pytest.mark.parametrize('usage', [{}, {'prompt_tokens': 10**12, 'completion_tokens': 10**12}])
def test_a_server_that_reports_no_tokens_cannot_be_capped(tmp_path: Path, usage: dict[str, int]) -> None:
    reply = {'choices': [{'message': {'content': 'x'}, 'finish_reason': 'stop'}], 'usage': usage}
    with serve(lambda _body: reply) as server:
        done = run(entry(server, concurrency=1), out=tmp_path, rows=ROWS[:60], max_total_tokens=100)
    assert '--max-total-tokens cannot be kept, as served reports no tokens; use --max-minutes' in done.summary.ended
    assert len(server.calls) < 10


def test_a_function_that_reports_no_tokens_takes_nothing_of_a_cap(tmp_path: Path) -> None:
    done = run(answers(0.8), out=tmp_path, rows=ROWS[:20], max_total_tokens=1)
    assert (done.summary.ended, len(rows_in(tmp_path)['knows80'])) == ('', 20)


def wait_for(condition: Any) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_person_pauses_a_run_changes_its_concurrency_and_lets_go_of_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    monkeypatch.setattr(QuietProgress, 'on_message', lambda self, message: messages.append(message))
    with serve(latency=0.05) as server:
        model = entry(server, concurrency=4)
        running = threading.Thread(target=run, args=(model,), kwargs={'out': tmp_path, 'rows': ROWS[:400]})
        running.start()
        wait_for(lambda: len(server.calls) > 8)
        assert main(['runs', 'control', str(tmp_path), '--pause']) == 0
        assert capsys.readouterr().out == 'paused\n'
        wait_for(lambda: _is_still(server))
        paused_at = len(server.calls)
        assert main(['runs', 'control', str(tmp_path), '--resume', '--concurrency', '1']) == 0
        wait_for(lambda: len(server.calls) > paused_at + 4)
        assert main(['runs', 'control', str(tmp_path), '--drop', 'nobody']) == 2
        assert 'nobody is not a model of' in capsys.readouterr().err
        assert main(['runs', 'control', str(tmp_path), '--drop', 'served']) == 0
        running.join(20)
        assert not running.is_alive()
    assert paused_at < len(rows_in(tmp_path)['served']) < 400
    assert [message for message in messages if 'at once' in message] == ['served: at most 1 at once from now on.']
    assert main(['runs', 'control', str(tmp_path), '--pause']) == 2
    assert 'no run is under way here' in capsys.readouterr().err


def test_rows_that_wait_to_be_sent_are_not_under_way(tmp_path: Path) -> None:
    def start(out: Path, **options: Any) -> threading.Thread:
        model = entry(server, concurrency=64, query_per_second=20)
        running = threading.Thread(
            target=lambda: ended.append(run(model, out=out, rows=ROWS[:400], **options).summary.ended), daemon=True
        )
        running.start()
        return running

    ended: list[str] = []
    with serve(latency=0.05) as server:
        running = start(tmp_path / 'dropped')
        wait_for(lambda: len(server.calls) > 4)
        assert main(['runs', 'control', str(tmp_path / 'dropped'), '--pause']) == 0
        wait_for(lambda: _is_still(server))
        assert len(server.calls) < 60, 'of the 128 rows that are held ready'
        assert main(['runs', 'control', str(tmp_path / 'dropped'), '--drop', 'served']) == 0
        running.join(20)
        assert not running.is_alive()
        answered = len(server.calls)
        start(tmp_path / 'late', max_minutes=0.02).join(20)
        assert len(rows_in(tmp_path / 'late')['served']) == len(server.calls) - answered < 60
    assert len(rows_in(tmp_path / 'dropped')['served']) == answered
    assert ended[0].endswith('% measured: served let go of from outside')


def _is_still(server: Server) -> bool:
    before = len(server.calls)
    time.sleep(0.4)
    return len(server.calls) == before


def test_what_a_stranger_writes_into_the_control_file_is_ignored(tmp_path: Path) -> None:
    for text in ('[]', '{"paused": "yes", "concurrency": -3, "dropped": 5}', 'nonsense', '{"concurrency": true}'):
        (tmp_path / 'control.json').write_text(text)
        assert Control.read(tmp_path) == Control()
    with pytest.raises(RunError, match='no run found'):
        change_control(tmp_path, paused=True)
