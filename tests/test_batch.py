"""Runs by batch: submitted, left, collected later or elsewhere, through faults at every step, nothing paid twice."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from batch_servers import BatchServer, serve_batches
from helpers import bot, human, template
from rolecall import ConfigError
from rolecall.errors import RunError
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.models.anthropic.model import AnthropicBatches
from rolecall.models.http.batches import encode_entry
from rolecall.models.openai.model import OpenAIBatches
from rolecall.runs import collect, collect_run, run_config
from rolecall.runs.batches import pending
from rolecall.runs.batches.ledger import BatchLedger
from rolecall.runs.batches.ledger_reader import describe_waiting
from rolecall.runs.listener import NullListener
from rolecall.runs.store.copies import merge_runs, repair_run
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import Store
from rolecall.ui.cli.main import main

VENDORS = {'openai': 'OpenAI', 'anthropic': 'Claude'}
ASKED = {'round': [human('{question}'), bot('{answer}')]}


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with serve_batches() as found:
        yield found


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is written out in a config is not kept with the run: it is looked up where the run is collected."""
    for name in ('OPENAI_API_KEY', 'ANTHROPIC_API_KEY'):
        monkeypatch.setenv(name, 'sk-secret')


@pytest.fixture(params=VENDORS)
def vendor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Listener(NullListener):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def on_message(self, message: str) -> None:
        self.messages.append(message)


def dataset(count: int = 4, **more: Any) -> dict[str, Any]:
    rows = [{'question': f'Q{i}?', 'answer': f'Answer to Q{i}?'} for i in range(count)]
    return {
        'abbr': 'demo',
        'type': 'Rows',
        'test': rows,
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
        'infer_cfg': {'prompt_template': template(ASKED), 'inferencer': {'type': 'GenInferencer', 'max_out_len': 9}},
        'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}},
        **more,
    }


def model(server: BatchServer, vendor: str = 'openai', **more: Any) -> dict[str, Any]:
    return {'abbr': 'm', 'type': VENDORS[vendor], 'path': 'toy', 'base_url': server.url, 'key': 'sk-secret', **more}


def config(server: BatchServer, vendor: str = 'openai', *datasets: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {'models': [model(server, vendor, **more)], 'datasets': list(datasets) or [dataset()]}


def answers(run: Path) -> dict[int, Any]:
    with RunReader(run) as reader:
        return {result.row: result.prediction for result in reader.results()}


def outcomes(run: Path) -> Counter[str]:
    with RunReader(run) as reader:
        return Counter(result.outcome for result in reader.results())


def created(server: BatchServer) -> int:
    return len(server.batches)


# -- submitted, left, collected ------------------------------------------------------------------------------------------


def test_a_batch_gives_the_rows_and_scores_of_a_live_run(server: BatchServer, vendor: str, tmp_path: Path) -> None:
    whole = config(server, vendor)
    submitted = run_config(whole, out=tmp_path / 'batch', batch=True)
    assert (submitted.waiting, submitted.exit_code, created(server), server.live) == (4, 0, 1, [])
    waiting = collect_run(tmp_path / 'batch')
    assert (waiting.waiting, waiting.exit_code) == (4, 3)
    server.process()
    came = collect_run(tmp_path / 'batch', config=whole)
    assert came.run is not None
    assert (came.exit_code, came.fetched, server.live) == (0, Counter(answered=4), [])
    live = run_config(whole, out=tmp_path / 'live')
    assert answers(tmp_path / 'batch') == answers(tmp_path / 'live')
    assert [card.value for card in came.run.scorecards] == [card.value for card in live.scorecards] == [100.0]
    with RunReader(tmp_path / 'batch') as one, RunReader(tmp_path / 'live') as other:
        assert one.fingerprints() == other.fingerprints()
    again = run_config(whole, out=tmp_path / 'batch')
    assert (again.plan.requests, len(server.live)) == (0, 4)


def test_the_body_in_a_batch_is_that_of_a_live_call(server: BatchServer, vendor: str, tmp_path: Path) -> None:
    rows = [
        {'question': 'Ünïcode "quotes" \u2028 \x85 \ud83d\ude00 <tag> {answer}', 'answer': ''},
        {'question': '日本', 'answer': ''},
    ]
    talk = dataset(abbr='talk', test=rows)
    talk['infer_cfg']['inferencer'] |= {'temperature': 0.5, 'stopping_criteria': ['\n']}
    run_config(config(server, vendor, talk, dataset()), out=tmp_path / 'batch', batch=True)
    run_config(config(server, vendor, talk, dataset()), out=tmp_path / 'live')
    in_order = lambda bodies: sorted(bodies, key=json.dumps)  # noqa: E731
    assert in_order(server.bodies().values()) == in_order(server.live)
    with RunReader(tmp_path / 'live') as live:
        assert set(server.bodies()) == live.fingerprints()


def test_an_entry_holds_the_bytes_of_the_body() -> None:
    body = {'model': 'm', 'messages': [{'role': 'user', 'content': 'é'}]}
    entry = encode_entry({'custom_id': 'a'}, 'body', body)
    assert (
        entry == '{"custom_id": "a", "body": {"model": "m", "messages": [{"role": "user", "content": "é"}]}}'.encode()
    )


def test_collecting_works_from_a_copy_of_the_run_directory_and_the_key(
    vendor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = {'openai': 'OPENAI_API_KEY', 'anthropic': 'ANTHROPIC_API_KEY'}[vendor]
    with serve_batches(key='sk-right') as server:
        shots = dataset(train=[{'question': 'T?', 'answer': 'yes'}])
        shots['infer_cfg'] |= {
            'ice_template': template(ASKED),
            'prompt_template': template({'begin': '</E>', **ASKED}, ice_token='</E>'),
            'retriever': {'type': 'FixKRetriever', 'fix_id_list': [0]},
        }
        path = tmp_path / 'config.json'
        path.write_text(json.dumps(config(server, vendor, shots, key='sk-right')))
        run_config(path, out=tmp_path / 'here', batch=True)
        shutil.copytree(tmp_path / 'here', tmp_path / 'there')
        path.unlink()
        server.process()
        assert b'sk-right' not in (tmp_path / 'there/run.sqlite').read_bytes()
        monkeypatch.delenv(variable, raising=False)
        without = collect_run(tmp_path / 'there')
        assert without.exit_code == 1
        assert f'the environment variable {variable} is not set' in without.problems[0]
        monkeypatch.setenv(variable, 'sk-right')
        came = collect_run(tmp_path / 'there')
        assert (came.exit_code, len(answers(tmp_path / 'there'))) == (0, 4)


def test_several_batches_stay_within_the_limits(
    server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.most = 3
    monkeypatch.setattr(OpenAIBatches, 'most_requests', 3)
    summary = run_config(config(server, 'openai', dataset(8)), out=tmp_path, batch=True)
    assert [batch.requests for batch in summary.submitted] == [3, 3, 2]
    assert collect_run(tmp_path).waiting == 8
    server.process()
    assert collect_run(tmp_path).fetched == Counter(answered=8)
    size = max(len(json.dumps(line)) for batch in server.batches.values() for line in batch['_lines'])
    monkeypatch.setattr(OpenAIBatches, 'most_bytes', size + 100)
    run_config(config(server, 'openai', dataset(2)), out=tmp_path / 'bytes', batch=True)
    assert created(server) == 5


def test_equal_requests_go_out_once_and_answered_ones_not_at_all(server: BatchServer, tmp_path: Path) -> None:
    same = dataset(test=[{'question': 'Q?', 'answer': 'a'}] * 3)
    run_config(config(server, 'openai', same), out=tmp_path, batch=True)
    assert len(server.bodies()) == 1
    again = run_config(config(server, 'openai', same), out=tmp_path, batch=True)
    assert (again.submitted, again.waiting, created(server)) == ((), 3, 1)
    server.process()
    collect_run(tmp_path)
    assert outcomes(tmp_path) == Counter(ok=3)
    later = run_config(config(server, 'openai', dataset(2, abbr='new'), same), out=tmp_path, batch=True)
    assert [batch.requests for batch in later.submitted] == [2]


def test_samples_of_one_row_are_requests_of_their_own(server: BatchServer, tmp_path: Path) -> None:
    run_config(config(server, 'openai', dataset(2, n=3)), out=tmp_path, batch=True)
    assert len(server.bodies()) == 6
    server.process()
    assert collect_run(tmp_path, config=config(server, 'openai', dataset(2, n=3))).exit_code == 0
    assert all(len(prediction) == 3 for prediction in answers(tmp_path).values())


# -- what the batch did not answer -----------------------------------------------------------------------------------------


def test_what_failed_or_expired_is_offered_for_live_calls(server: BatchServer, vendor: str, tmp_path: Path) -> None:
    server.fates = {'Q0': 'expired', 'Q1': 'error', 'Q2': 'missing', 'Q3': 'refused'}
    whole = config(server, vendor, dataset(6))
    run_config(whole, out=tmp_path, batch=True)
    server.process()
    came = collect_run(tmp_path, config=whole)
    assert came.fetched == Counter(answered=2, refused=1, expired=1, failed=2)
    assert (came.exit_code, came.unanswered, came.waiting, server.live) == (1, 3, 0, [])
    assert outcomes(tmp_path) == Counter(ok=2, failed=1)
    run_config(whole, out=tmp_path)
    assert (len(server.live), outcomes(tmp_path)) == (3, Counter(ok=5, failed=1))
    run_config(whole, out=tmp_path, rerun={'failed'})
    assert (len(server.live), outcomes(tmp_path)) == (4, Counter(ok=6))


def test_what_expired_can_go_into_another_batch(server: BatchServer, vendor: str, tmp_path: Path) -> None:
    server.fates = {'Q0': 'expired'}
    run_config(config(server, vendor), out=tmp_path, batch=True)
    server.process()
    collect_run(tmp_path)
    again = run_config(config(server, vendor), out=tmp_path, batch=True)
    assert [batch.requests for batch in again.submitted] == [1]
    server.fates = {}
    server.process()
    assert (collect_run(tmp_path).exit_code, outcomes(tmp_path)) == (0, Counter(ok=4))


def test_partial_results_of_an_expired_batch_are_kept(server: BatchServer, tmp_path: Path) -> None:
    run_config(config(server), out=tmp_path, batch=True)
    server.process(status='expired', share=0.5)
    came = collect_run(tmp_path)
    assert (came.fetched, came.unanswered) == (Counter(answered=2, expired=2), 2)


@pytest.mark.parametrize('endpoint', ['chat', 'responses'])
def test_an_error_in_place_of_an_answer_is_not_an_empty_answer(
    server: BatchServer, tmp_path: Path, endpoint: str
) -> None:
    server.fates = {'Q1': 'embedded'}
    run_config(config(server, endpoint=endpoint), out=tmp_path, batch=True)
    server.process()
    came = collect_run(tmp_path)
    assert (came.fetched, came.unanswered, came.exit_code) == (Counter(answered=3, failed=1), 1, 1)


def test_a_filtered_answer_is_an_outcome_as_in_a_live_run(server: BatchServer, tmp_path: Path) -> None:
    server.fates = {'Q0': 'filtered'}
    run_config(config(server), out=tmp_path, batch=True)
    server.process()
    collect_run(tmp_path)
    assert outcomes(tmp_path) == Counter(ok=3, filtered=1)


def test_a_live_run_does_not_ask_what_a_batch_is_paid_for(server: BatchServer, tmp_path: Path) -> None:
    run_config(config(server), out=tmp_path, batch=True)
    with pytest.raises(RunError, match=r'4 requests of this run in a batch; asked live, they would be paid twice'):
        run_config(config(server), out=tmp_path)
    other = config(server, 'openai', abbr='other')
    run_config(other, out=tmp_path)
    assert len(server.live) == 4


def test_cancelling_keeps_what_was_answered_and_frees_the_rest(
    server: BatchServer, vendor: str, tmp_path: Path
) -> None:
    run_config(config(server, vendor), out=tmp_path, batch=True)
    stopping = collect_run(tmp_path, cancel=True)
    assert (stopping.waiting, stopping.exit_code) == (4, 3)
    server.process(status='cancelled', share=0.5)
    came = collect_run(tmp_path)
    assert came.fetched == Counter(answered=2, cancelled=2)
    run_config(config(server, vendor), out=tmp_path)
    assert (len(server.live), outcomes(tmp_path)) == (2, Counter(ok=4))


def test_a_batch_that_is_gone_can_be_given_up(server: BatchServer, vendor: str, tmp_path: Path) -> None:
    run_config(config(server, vendor), out=tmp_path, batch=True)
    server.batches.clear()
    lost = collect_run(tmp_path)
    assert (lost.exit_code, lost.waiting, len(lost.problems)) == (1, 4, 1)
    assert collect_run(tmp_path, cancel=True).fetched == Counter(cancelled=4)
    run_config(config(server, vendor), out=tmp_path)
    assert outcomes(tmp_path) == Counter(ok=4)


# -- results that cannot be trusted ------------------------------------------------------------------------------------------


def cut(content: bytes) -> bytes:
    return content[: len(content) - 30]


def garble(content: bytes) -> bytes:
    rest = content.splitlines()[1:]
    return b'\n'.join([b'\xff\x00{"custom_id": 7}', b'[]', b'{"custom_id": "x", "result": 3, "response": 3}', *rest])


def lose_a_line(content: bytes) -> bytes:
    return b''.join(content.splitlines(keepends=True)[1:])


@pytest.mark.parametrize('damage', [cut, garble, lose_a_line])
def test_damaged_results_lose_nothing(
    server: BatchServer, vendor: str, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    run_config(config(server, vendor), out=tmp_path, batch=True)
    server.edit_results = damage
    server.process()
    listener = Listener()
    came = collect_run(tmp_path, progress=listener)
    assert (came.fetched, came.waiting, came.exit_code) == (Counter(answered=3), 1, 1)
    told = 'the results have 3 of 4 requests' if damage is lose_a_line else 'of the results cannot be read'
    assert any(told in message for message in listener.messages)
    with pytest.raises(RunError, match='1 request of this run in a batch'):
        run_config(config(server, vendor), out=tmp_path)
    for batch in server.batches.values():  # the vendor has repaired the file
        batch |= {'status': 'in_progress'} if 'status' in batch else {'processing_status': 'in_progress'}
    server.edit_results = lambda content: content
    server.process()
    assert (collect_run(tmp_path).fetched, outcomes(tmp_path)) == (Counter(answered=1), Counter(ok=4))


def test_damaged_results_can_be_given_up(server: BatchServer, vendor: str, tmp_path: Path) -> None:
    run_config(config(server, vendor), out=tmp_path, batch=True)
    server.edit_results = cut
    server.process()
    assert collect_run(tmp_path, cancel=True).fetched == Counter(answered=3, cancelled=1)
    run_config(config(server, vendor), out=tmp_path)
    assert (len(server.live), outcomes(tmp_path)) == (1, Counter(ok=4))


def test_unknown_and_repeated_ids_are_left_out(server: BatchServer, vendor: str, tmp_path: Path) -> None:
    run_config(config(server, vendor), out=tmp_path, batch=True)

    def add_lines(content: bytes) -> bytes:
        first = content.splitlines()[0]
        entry = json.loads(first)
        return content + first + b'\n' + json.dumps({**entry, 'custom_id': 'f' * 32}).encode() + b'\n'

    server.edit_results = add_lines
    server.process()
    listener = Listener()
    came = collect_run(tmp_path, progress=listener)
    assert (came.fetched, came.exit_code) == (Counter(answered=4), 0)
    assert any('1 result left out: not of this batch' in message for message in listener.messages)
    with RunReader(tmp_path) as reader:
        assert not reader.knows('f' * 32)


def test_repeated_results_do_not_stand_for_missing_ones(
    server: BatchServer, vendor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, '_TOGETHER', 2)
    run_config(config(server, vendor), out=tmp_path, batch=True)
    server.edit_results = lambda content: b''.join(content.splitlines(keepends=True)[:2]) * 2
    server.process()
    listener = Listener()
    came = collect_run(tmp_path, progress=listener)
    assert (came.fetched, came.waiting, came.exit_code) == (Counter(answered=2), 2, 1)
    assert any('the results have 2 of 4 requests that are done' in message for message in listener.messages)


def test_waiting_ends_where_results_stay_unreadable(server: BatchServer, tmp_path: Path) -> None:
    run_config(config(server), out=tmp_path, batch=True)
    server.edit_results = lose_a_line
    server.process()
    came = collect_run(tmp_path, wait=True, every=0.01)
    assert (came.waiting, came.exit_code) == (1, 1)


def test_a_batch_with_nothing_but_errors_is_collected(server: BatchServer, vendor: str, tmp_path: Path) -> None:
    run_config(config(server, vendor), out=tmp_path, batch=True)
    server.fates = {'Q': 'refused'}
    server.process()
    assert collect_run(tmp_path).fetched == Counter(refused=4)
    assert outcomes(tmp_path) == Counter(failed=4)


def test_collecting_twice_changes_nothing(server: BatchServer, vendor: str, tmp_path: Path) -> None:
    run_config(config(server, vendor), out=tmp_path, batch=True)
    server.process()
    assert collect_run(tmp_path).fetched == Counter(answered=4)
    before = answers(tmp_path)
    count = len(server.requests)
    again = collect_run(tmp_path)
    assert (again.fetched, again.exit_code, answers(tmp_path)) == (Counter(), 0, before)
    assert len(server.requests) == count


def test_two_collections_at_once_do_not_meet(server: BatchServer, tmp_path: Path) -> None:
    run_config(config(server), out=tmp_path, batch=True)
    with closing(Store(tmp_path)), pytest.raises(RunError, match='another process is running here'):
        collect_run(tmp_path)


# -- faults of the network and of processes ----------------------------------------------------------------------------------


@pytest.mark.parametrize('fault', ['429', '500', 'drop'])
@pytest.mark.parametrize(
    ('method', 'ending'), [('GET', 'batches/batch_2'), ('GET', '/content'), ('POST', 'files'), ('POST', 'batches')]
)
def test_faults_of_the_server_are_retried(
    server: BatchServer, tmp_path: Path, method: str, ending: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, '_LONGEST_PAUSE', 0.01)
    server.fail(method, ending, fault)
    run_config(config(server), out=tmp_path, batch=True)
    server.process()
    assert (collect_run(tmp_path).fetched, created(server)) == (Counter(answered=4), 1)


def test_a_batch_whose_id_got_lost_is_found_again(
    server: BatchServer, vendor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, '_LONGEST_PAUSE', 0.01)
    server.fail('POST', 'batches', 'lose')
    run_config(config(server, vendor), out=tmp_path, batch=True)
    server.process()
    assert (collect_run(tmp_path).fetched, created(server)) == (Counter(answered=4), 1)


STEPS = ('uploaded', 'creating', 'created')


@pytest.mark.parametrize('step', STEPS)
@pytest.mark.parametrize('then', ['run', 'collect'])
def test_a_process_that_dies_while_submitting_pays_nothing_twice(
    server: BatchServer, vendor: str, tmp_path: Path, step: str, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies just before the step is written down."""
    real = BatchLedger.update

    class Killed(BaseException):
        pass

    def die(ledger: BatchLedger, batch: Any, **changes: str) -> Any:
        if changes.get('state') == step:
            raise Killed
        return real(ledger, batch, **changes)

    with monkeypatch.context() as patch:
        patch.setattr(BatchLedger, 'update', die)
        with pytest.raises(Killed):
            run_config(config(server, vendor), out=tmp_path, batch=True)
    assert created(server) == (step == 'created')
    assert describe_waiting(tmp_path)
    if then == 'collect':
        found = collect_run(tmp_path)
        assert (found.waiting, found.exit_code) == (4, 3 if step == 'created' else 1)
    run_config(config(server, vendor), out=tmp_path, batch=True)
    assert created(server) == 1
    server.process()
    assert (collect_run(tmp_path).fetched, outcomes(tmp_path)) == (Counter(answered=4), Counter(ok=4))


def test_a_live_run_forgets_what_never_reached_the_server(server: BatchServer, tmp_path: Path) -> None:
    server.fail('POST', 'files', '401')
    with pytest.raises(RunError, match='4 requests of m not submitted'):
        run_config(config(server), out=tmp_path, batch=True)
    run_config(config(server), out=tmp_path)
    assert (len(server.live), created(server)) == (4, 0)
    run_config(config(server), out=tmp_path, batch=True)
    assert created(server) == 0


def test_another_batch_of_the_same_size_is_not_taken_for_ours(
    server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anthropic's batches carry no mark, so one that was created at the same time may look like ours."""

    class Killed(BaseException):
        pass

    def die(ledger: BatchLedger, batch: Any, remote_id: str) -> Any:
        raise Killed

    foreign = [{'custom_id': f'other-{i}', 'params': {'messages': [{'content': 'Hi'}]}} for i in range(4)]
    with monkeypatch.context() as patch:
        patch.setattr(BatchLedger, 'mark_created', die)
        with pytest.raises(Killed):
            run_config(config(server, 'anthropic'), out=tmp_path, batch=True)
    ours = dict(server.batches)
    server.batches.clear()
    server.add_anthropic(foreign)
    server.batches |= ours
    listener = Listener()
    collect_run(tmp_path, progress=listener)
    server.process()
    collect_run(tmp_path, progress=listener)
    assert any('not the batch that was submitted' in message for message in listener.messages)
    assert (collect_run(tmp_path).fetched, outcomes(tmp_path)) == (Counter(answered=4), Counter(ok=4))


def test_a_batch_that_was_taken_for_ours_can_be_submitted_after_all(
    server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process died before the server was asked, and a batch of the same size appeared there."""

    class Killed(BaseException):
        pass

    async def die(*_: Any) -> Any:
        raise Killed

    foreign = [{'custom_id': f'other-{i}', 'params': {'messages': [{'content': 'Hi'}]}} for i in range(4)]
    with monkeypatch.context() as patch:
        patch.setattr(AnthropicBatches, 'create', die)
        with pytest.raises(Killed):
            run_config(config(server, 'anthropic'), out=tmp_path, batch=True)
    server.add_anthropic(foreign)
    assert collect_run(tmp_path).waiting == 4
    server.process()
    assert 'not the batch that was submitted' in collect_run(tmp_path).problems[0]
    run_config(config(server, 'anthropic'), out=tmp_path, batch=True)
    server.process()
    assert (collect_run(tmp_path).fetched, outcomes(tmp_path)) == (Counter(answered=4), Counter(ok=4))


@pytest.mark.parametrize('status', ['400', '404'])
def test_a_server_that_cannot_list_its_batches_is_not_asked_twice(
    server: BatchServer, vendor: str, tmp_path: Path, status: str
) -> None:
    server.fail('POST', 'batches', 'lose')
    for _ in range(3):
        server.fail('GET', 'batches', status)
    for _ in range(2):
        with pytest.raises(RunError, match='cannot be listed(.|\n)*The server may have created it'):
            run_config(config(server, vendor), out=tmp_path, batch=True)
    given_up = collect_run(tmp_path, cancel=True)
    assert (given_up.fetched, given_up.waiting, created(server)) == (Counter(cancelled=4), 0, 1)


@pytest.mark.parametrize('status', ['404', '400'])
def test_a_server_that_refuses_batches_leaves_nothing_behind(server: BatchServer, tmp_path: Path, status: str) -> None:
    server.fail('POST', 'files', status)
    with pytest.raises(RunError, match='Run without --batch'):
        run_config(config(server), out=tmp_path, batch=True)
    assert describe_waiting(tmp_path) == []
    run_config(config(server), out=tmp_path)
    assert outcomes(tmp_path) == Counter(ok=4)


def test_a_batch_that_fails_as_a_whole_says_why(server: BatchServer, tmp_path: Path) -> None:
    run_config(config(server), out=tmp_path, batch=True)
    [batch] = server.batches.values()
    batch |= {'status': 'failed', 'errors': {'data': [{'line': 2, 'message': 'model not enabled for sk-secret'}]}}
    listener = Listener()
    came = collect_run(tmp_path, progress=listener, config=config(server))
    assert (came.fetched, came.unanswered) == (Counter(failed=4), 4)
    assert any('line 2: model not enabled for [key]' in message for message in listener.messages)


def test_ids_of_a_server_do_not_lead_elsewhere(server: BatchServer, tmp_path: Path) -> None:
    run_config(config(server), out=tmp_path, batch=True)
    server.process()
    [batch] = server.batches.values()
    batch['output_file_id'] = '../../secret'
    came = collect_run(tmp_path)
    assert (came.waiting, came.exit_code) == (4, 1)
    assert not any('secret' in path for _, path in server.requests)


# -- configs -------------------------------------------------------------------------------------------------------------


def test_a_config_that_changed_is_collected_as_it_was_submitted(server: BatchServer, tmp_path: Path) -> None:
    path = tmp_path / 'config.json'
    path.write_text(json.dumps(config(server)))
    run_config(path, out=tmp_path / 'run', batch=True)
    changed = config(server)
    changed['datasets'][0]['infer_cfg']['prompt_template'] = template({'round': [human('Now: {question}'), bot('')]})
    path.write_text(json.dumps(changed))
    server.process()
    listener = Listener()
    came = collect_run(tmp_path / 'run', progress=listener)
    assert (came.exit_code, outcomes(tmp_path / 'run')) == (0, Counter(ok=4))
    assert any('differ from what was submitted' in message for message in listener.messages)


@pytest.mark.parametrize('change', ['other rows', 'no file'])
def test_data_that_changed_is_collected_as_it_was_submitted(server: BatchServer, tmp_path: Path, change: str) -> None:
    data, file, out = tmp_path / 'rows.jsonl', tmp_path / 'config.py', tmp_path / 'run'
    rows = dataset()['test']
    data.write_text('\n'.join(map(json.dumps, rows)))
    entry = {name: value for name, value in dataset().items() if name not in ('type', 'test')}
    whole = config(server, 'openai', {**entry, 'path': str(data)})
    file.write_text('\n'.join(f'{name} = {value!r}' for name, value in whole.items()))
    run_config(file, out=out, batch=True)
    if change == 'no file':
        data.unlink()
    else:
        data.write_text(data.read_text().replace('Q', 'X'))
    server.process()
    listener = Listener()
    came = collect_run(out, progress=listener)
    assert (came.exit_code, outcomes(out)) == (0, Counter(ok=4))
    assert sum('differ from what was submitted' in message for message in listener.messages) == 1


def test_what_several_commands_submit_is_collected_together(server: BatchServer, tmp_path: Path) -> None:
    """Datasets and models in turn, then rows that have changed."""
    changed = [{'question': f'X{i}?', 'answer': f'Answer to X{i}?'} for i in range(3)]
    models = [model(server), model(server, abbr='n', path='other')]
    whole = {'models': models, 'datasets': [dataset(abbr='a'), dataset(abbr='b')]}
    run_config(whole, out=tmp_path, batch=True, dataset='a', model='m')
    run_config(whole, out=tmp_path, batch=True, dataset='b', limit=1)
    later = {'models': models[:1], 'datasets': [dataset(abbr='b', test=changed)]}
    run_config(later, out=tmp_path, batch=True, limit=2)
    server.process()
    came = collect_run(tmp_path)
    assert (came.exit_code, came.run and [card.value for card in came.run.scorecards]) == (3, [100.0] * 2)
    assert came.unsubmitted == 5  # what no command asked for: n's changed rows, and those of a that b does not have
    with RunReader(tmp_path) as reader:
        assert {row.prediction for row in reader.results('b', 'm')} == {'Answer to X0?', 'Answer to X1?'}


def test_functions_of_the_config_need_the_config(
    server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / 'config.py'
    whole = config(server, key='$TOY_API_KEY')
    whole['datasets'][0]['eval_cfg']['pred_postprocessor'] = {'type': 'SHOUT'}
    path.write_text(f'def shout(text):\n    return text.upper()\n\n{_as_python(whole)}')
    monkeypatch.setenv('TOY_API_KEY', 'sk-toy')
    run_config(path, out=tmp_path / 'run', batch=True)
    server.process()
    path.rename(tmp_path / 'moved.py')
    stored = collect_run(tmp_path / 'run')
    assert (stored.fetched, stored.exit_code) == (Counter(answered=4), 1)
    assert 'shout' in stored.unfinished
    assert collect_run(tmp_path / 'run', config=tmp_path / 'moved.py').unfinished == ''
    assert outcomes(tmp_path / 'run') == Counter(ok=4)


def _as_python(whole: dict[str, Any]) -> str:
    return '\n'.join(f'{name} = {value!r}' for name, value in whole.items()).replace("'SHOUT'", 'shout')


@pytest.mark.parametrize(
    ('change', 'told'),
    [
        (
            lambda one: one['models'].append({'abbr': 'f', 'type': 'Function', 'function': 'toys.words_of'}),
            'no batch endpoint',
        ),
        (
            lambda one: (
                one['models'][0].update(type='OpenAICompletions', score='echo'),
                one['datasets'][0]['infer_cfg'].update(
                    inferencer={'type': 'PPLInferencer'}, prompt_template=template({'a': '{question}', 'b': 'x'})
                ),
            ),
            'needs prompt log-probabilities; batches return none',
        ),
    ],
    ids=['local', 'perplexity'],
)
def test_what_cannot_be_asked_by_batch_is_refused_before_anything_is_sent(
    server: BatchServer, tmp_path: Path, change: Callable[[Any], Any], told: str
) -> None:
    whole = config(server)
    change(whole)
    with pytest.raises(ConfigError, match=told):
        run_config(whole, out=tmp_path, batch=True)
    assert server.requests == []


# -- stages ----------------------------------------------------------------------------------------------------------------


def test_later_turns_go_out_as_batches_of_their_own(server: BatchServer, vendor: str, tmp_path: Path) -> None:
    rows = [{'question': [f'First {i}?', f'Second {i}?'], 'answer': ['a', 'b']} for i in range(3)]
    talk = dataset(abbr='talk', test=rows)
    del talk['eval_cfg']
    talk['infer_cfg'] = {
        'prompt_template': {'type': 'MultiTurnPromptTemplate', 'template': ASKED},
        'inferencer': {'type': 'MultiTurnGenInferencer', 'infer_mode': 'every'},
    }
    whole = config(server, vendor, talk)
    run_config(whole, out=tmp_path / 'run', batch=True)
    server.process()
    first = collect_run(tmp_path / 'run', config=whole)
    assert (first.unsubmitted, first.exit_code, created(server)) == (3, 3, 1)
    second = collect_run(tmp_path / 'run', submit=True, config=whole)
    assert (second.waiting, created(server)) == (3, 2)
    server.process()
    assert collect_run(tmp_path / 'run', submit=True, config=whole).exit_code == 0
    run_config(whole, out=tmp_path / 'live')
    assert answers(tmp_path / 'run') == answers(tmp_path / 'live')


def test_two_copies_of_a_run_submit_the_next_stage_once(server: BatchServer, tmp_path: Path) -> None:
    rows = [{'question': [f'First {i}?', f'Second {i}?'], 'answer': ['a', 'b']} for i in range(3)]
    talk = dataset(abbr='talk', test=rows)
    del talk['eval_cfg']
    talk['infer_cfg'] = {
        'prompt_template': {'type': 'MultiTurnPromptTemplate', 'template': ASKED},
        'inferencer': {'type': 'MultiTurnGenInferencer', 'infer_mode': 'every'},
    }
    whole = config(server, 'openai', talk)
    run_config(whole, out=tmp_path / 'here', batch=True)
    shutil.copytree(tmp_path / 'here', tmp_path / 'there')
    server.process()
    for copy in ('here', 'there'):
        assert collect_run(tmp_path / copy, submit=True, config=whole).waiting == 3
    assert created(server) == 2
    server.process(status='expired', share=0.0)
    for copy in ('here', 'there'):
        assert collect_run(tmp_path / copy, config=whole).unanswered == 3
    assert collect_run(tmp_path / 'here', submit=True, config=whole).waiting == 3  # an expired batch is not ours again
    assert created(server) == 3
    server.process()
    for copy in ('here', 'there'):
        collect_run(tmp_path / copy, submit=True, config=whole)
        assert collect_run(tmp_path / copy, config=whole).exit_code == 0
    assert (created(server), answers(tmp_path / 'here')) == (3, answers(tmp_path / 'there'))


@pytest.mark.parametrize('step', ['files', 'batches'])
def test_two_copies_of_a_run_that_was_not_submitted_yet_pay_once(
    server: BatchServer, tmp_path: Path, step: str
) -> None:
    """The first attempt is refused for the key, before or after the upload; then the directory is copied."""
    server.fail('POST', step, '401')
    with pytest.raises(RunError, match='4 requests of m not submitted'):
        run_config(config(server), out=tmp_path / 'here', batch=True)
    shutil.copytree(tmp_path / 'here', tmp_path / 'there')
    for copy in ('here', 'there'):
        run_config(config(server), out=tmp_path / copy, batch=True)
    assert created(server) == 1
    server.process()
    for copy in ('here', 'there'):
        assert collect_run(tmp_path / copy).fetched == Counter(answered=4)


@pytest.mark.parametrize('harm', ['locked', 'damaged'])
def test_a_ledger_that_cannot_be_read_does_not_mean_that_nothing_waits(
    server: BatchServer, tmp_path: Path, harm: str
) -> None:
    whole = config(server)
    run_config(whole, out=tmp_path / 'run', batch=True)
    file = tmp_path / 'run' / 'run.sqlite'
    holder = sqlite3.connect(file, isolation_level=None)
    if harm == 'locked':
        holder.execute('PRAGMA journal_mode = DELETE')
        holder.execute('BEGIN EXCLUSIVE')
    else:
        holder.execute('PRAGMA writable_schema = ON')
        holder.execute("UPDATE sqlite_master SET rootpage = 1 WHERE name = 'batch_requests'")
        holder.close()
    with pytest.raises(RunError, match='the list of batches cannot be read'):
        run_config(whole, out=tmp_path / 'run')
    assert 'the list of batches cannot be read' in describe_waiting(tmp_path / 'run')[0]
    assert server.live == []
    holder.close()


def test_a_judge_is_asked_by_a_second_batch(server: BatchServer, tmp_path: Path) -> None:
    server.answer = lambda asked: 'A' if 'Reference answer' in asked else f'Answer to {asked}'
    judged = dataset(3)
    judged['eval_cfg'] = {
        'evaluator': {
            'type': 'GenericLLMEvaluator',
            'judge_cfg': {**model(server, 'openai', path='big'), 'abbr': 'judge'},
            'prompt_template': template(
                {'round': [human('Reference answer: {answer}\nGiven: {prediction}\nA: correct, B: wrong')]}
            ),
            'dict_postprocessor': {'type': 'generic_llmjudge_postprocess'},
        }
    }
    whole = config(server, 'openai', judged)
    run_config(whole, out=tmp_path / 'run', batch=True)
    server.process()
    first = collect_run(tmp_path / 'run', config=whole)
    assert (first.unsubmitted, created(server)) == (3, 1)
    assert first.run is not None
    assert first.run.scorecards == ()
    run_config(whole, out=tmp_path / 'run', batch=True)
    assert created(server) == 2
    server.process()
    came = collect_run(tmp_path / 'run', config=whole)
    assert came.run is not None
    assert (came.exit_code, server.live) == (0, [])
    live = run_config(whole, out=tmp_path / 'live')
    assert [card.value for card in came.run.scorecards] == [card.value for card in live.scorecards]


def test_a_comparison_by_two_judges_is_asked_by_a_second_batch_and_each_question_once(
    server: BatchServer, tmp_path: Path
) -> None:
    def answer(asked: str) -> str:
        return ('[[A]]' if 'Q1' in asked else '[[B]]') if 'Which is better' in asked else 'Mine.'

    server.answer = answer
    judges = [model(server, 'openai', path=f'judge{number}', abbr=f'judge{number}') for number in (1, 2)]
    evaluator = {'type': 'PairwiseEvaluator', 'judge_cfg': judges, 'against': {'column': 'answer'}}
    compared = dataset(3, eval_cfg={'evaluator': evaluator})
    models = [model(server, 'openai', path=name, abbr=name) for name in ('one', 'two')]
    whole = {'models': models, 'datasets': [compared]}
    run_config(whole, out=tmp_path / 'run', batch=True)
    server.process()
    first = collect_run(tmp_path / 'run', config=whole)
    assert first.run is not None
    assert (first.unsubmitted, first.run.scorecards) == (3 * 2 * 2, ())
    run_config(whole, out=tmp_path / 'run', batch=True)
    asked = [body['model'] for body in server.bodies().values()]
    assert Counter(asked) == {'one': 3, 'two': 3, 'judge1': 6, 'judge2': 6}
    server.process()
    came = collect_run(tmp_path / 'run', config=whole)
    assert came.run is not None
    assert (came.exit_code, server.live) == (0, [])
    live = run_config(whole, out=tmp_path / 'live')
    numbers = [[(card.model, card.metric, card.value) for card in run.scorecards] for run in (came.run, live)]
    assert numbers[0] == numbers[1]
    assert len(numbers[0]) == 4


# -- what people see -------------------------------------------------------------------------------------------------------


def test_the_command_line_submits_shows_waits_and_collects(
    server: BatchServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = config(server, price={'input': 1000, 'output': 1000})
    (tmp_path / 'c.json').write_text(json.dumps(whole))

    def rolecall(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, 'argv', ['rolecall', *words])
        code = main(list(words))
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    code, said = rolecall('run', 'c.json', '--out', 'r', '--batch')
    assert code == 0
    assert '4 requests submitted in 1 batch.' in said
    assert 'rolecall runs collect r --wait' in said
    at = f'4 requests of m waiting at {server.url}/v1 since '
    for words in (['runs', 'list', '.'], ['report', 'r', '--markdown'], ['doctor', 'r']):
        assert at in rolecall(*words)[1], words
    rolecall('report', 'r', '--html', 'r.html')
    assert at in (tmp_path / 'r.html').read_text()
    assert json.loads(rolecall('runs', 'list', '.', '--json')[1])['waiting'][0].startswith(at)
    assert rolecall('run', 'c.json', '--out', 'r')[0] == 2
    assert rolecall('runs', 'collect', 'r')[0] == 3
    server.fates = {'Q0': 'expired'}
    server.process()
    code, said = rolecall('runs', 'collect', 'r', '--wait')
    assert code == 1
    assert 'Send live: rolecall run c.json --out r\n' in said
    code, said = rolecall('run', 'c.json', '--out', 'r')
    assert code == 0
    code, said = rolecall('report', 'r', '--csv')
    # 4 rows of 15 tokens, 0.001 each: three at half the price
    assert '0.0375' in said


def test_repairing_keeps_what_waits_and_merging_refuses_it(server: BatchServer, tmp_path: Path) -> None:
    run_config(config(server), out=tmp_path / 'run', batch=True)
    with pytest.raises(RunError, match=r'4 requests of m waiting at .*\n.*rolecall runs collect'):
        merge_runs(tmp_path / 'merged', [tmp_path / 'run'])
    repair_run(tmp_path / 'run', tmp_path / 'saved')
    assert describe_waiting(tmp_path / 'saved') == describe_waiting(tmp_path / 'run')
    server.process()
    assert (collect_run(tmp_path / 'saved').exit_code, outcomes(tmp_path / 'saved')) == (0, Counter(ok=4))


def test_wait_asks_until_the_batch_has_ended(server: BatchServer, tmp_path: Path) -> None:
    path = tmp_path / 'c.json'
    path.write_text(json.dumps(config(server)))
    run_config(path, out=tmp_path / 'r', batch=True)
    words = [sys.executable, '-m', 'rolecall', 'runs', 'collect', str(tmp_path / 'r'), '--wait', '--every', '0.05']
    server.fail('GET', 'batch_2', '500')
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        while 'in_progress' not in waiting.stderr.readline():
            assert waiting.poll() is None
        server.process()
        _, said = waiting.communicate(timeout=120)
    assert (waiting.returncode, 'Everything collected' in said) == (0, True)
    assert outcomes(tmp_path / 'r') == Counter(ok=4)


def test_the_plan_shows_the_price_of_a_batch(
    server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ModelEntry, 'count', lambda entry, request: 100)
    for price, part in (({'input': 1000, 'output': 0}, 0.5), ({'input': 1000, 'output': 0, 'batch': 0.25}, 0.25)):
        priced = config(server, price=price)
        live = run_config(priced, out=tmp_path, dry_run=True).plan
        batch = run_config(priced, out=tmp_path, dry_run=True, batch=True).plan
        assert (live.price, batch.price) == (pytest.approx(0.4), pytest.approx(0.4 * part))
        assert ('at the batch price' in str(batch), 'at the batch price' in str(live)) == (True, False)


def test_the_session_of_the_manual_holds(
    server: BatchServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parent.parent / 'docs/batch.md').read_text('utf-8')
    session = page.split('```console\n')[1].split('```')[0]
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'config.py').write_text(_as_python(config(server, 'openai', dataset(abbr='gsm8k'), abbr='gpt')))
    for block in session.split('$ rolecall ')[1:]:
        command, *expected = block.splitlines()
        if '--wait' in command:
            server.process()
        monkeypatch.setattr(sys, 'argv', ['rolecall', *command.split()])
        main(command.split())
        printed = capsys.readouterr()
        said = printed.out + printed.err
        for line in expected:
            assert re.search('.*'.join(map(re.escape, line.split('…'))), said), line
