"""Single conditions of wording and running that random faults showed to be untested."""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from rolecall import ChatPrompter
from rolecall.core.prompters.vendors import openai_messages
from rolecall.core.prompts.template import MultiTurnPromptTemplate, RawPromptTemplate
from rolecall.errors import RolecallError, RunError, TemplateError
from rolecall.models.protocol import ModelError, Reply, Sampling, Scored
from rolecall.runs.batches.ledger import BatchLedger
from rolecall.runs.client.limiter import Limiter, Limits
from rolecall.runs.client.retry import is_row_failure
from rolecall.runs.listener import NullListener, tell_programs
from rolecall.runs.logs.opencompass_log import _read_entries
from rolecall.runs.parts import _words_of
from rolecall.runs.serving.bench_options import mean_rate
from rolecall.runs.serving.load_generator import BenchConversation, fix_output
from rolecall.runs.workers.worker_pool import ModelWorker
from virtual_time import run_in_virtual_time


@pytest.mark.parametrize(
    'template', ['Add {q}', {'begin': [{'role': 'HUMAN', 'prompt': '{q}'}]}, {'A': '{q} A', 'B': '{q} B'}]
)
def test_a_dialogue_of_several_turns_needs_a_round(template: Any) -> None:
    with pytest.raises(TemplateError, match='expected a dialogue with a round'):
        MultiTurnPromptTemplate(template)


@pytest.mark.parametrize('messages', ['Hello', {'role': 'user', 'content': 'Hello'}, [], 5])
def test_raw_messages_are_a_list_with_something_in_it(messages: Any) -> None:
    with pytest.raises(TemplateError, match='expected a list of messages'):
        RawPromptTemplate(messages)


@pytest.mark.parametrize(('slots', 'count'), [('abcdef', 'six'), ('abcdefg', '7')])
def test_slots_are_counted_in_words_up_to_six(slots: str, count: str) -> None:
    prompter = ChatPrompter(' '.join(f'{{{slot}}}' for slot in slots))
    with pytest.raises(RolecallError, match=f'the instruction has {count}: a, b'):
        prompter.generate_prompt('x')


def test_arguments_of_a_call_keep_their_letters() -> None:
    block = {'type': 'tool_use', 'id': '1', 'name': 'find', 'input': {'city': 'Zürich'}}
    (message,) = openai_messages({'role': 'assistant', 'content': [block]})
    assert message['tool_calls'][0]['function']['arguments'] == '{"city": "Zürich"}'


def test_a_template_without_words_is_itself_whatever_the_order_of_its_keys() -> None:
    assert _words_of({'a': 1, 'b': 2}) == _words_of({'b': 2, 'a': 1}) != _words_of({'a': 2, 'b': 1})


# -- running -----------------------------------------------------------------------------------------------------------


def test_a_call_that_is_cancelled_while_it_waits_gives_no_place_back() -> None:
    async def run() -> tuple[int, int]:
        limiter = Limiter(Limits(start=1, most=1))
        slot = await limiter.acquire()
        waiting = asyncio.ensure_future(limiter.acquire())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        before = limiter.active
        limiter.release(slot, 'answered')
        return before, limiter.active

    assert run_in_virtual_time(run()) == (1, 0)


def test_a_server_that_is_down_is_tried_once_a_second() -> None:
    async def run() -> list[float]:
        clock = asyncio.get_running_loop().time
        limiter = Limiter(Limits(start=8), clock=clock)
        while limiter.down_since is None:
            limiter.release(await limiter.acquire(), 'trouble')
            await asyncio.sleep(0.1)
        began = []
        for _ in range(4):
            await limiter.acquire()
            began.append(clock())
        return began

    began = run_in_virtual_time(run())
    assert [round(later - earlier, 3) for earlier, later in itertools.pairwise(began)] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ('status', 'answered', 'stays'), [(400, False, True), (404, False, False), (404, True, True), (None, True, True)]
)
def test_a_status_of_a_wrong_address_is_the_row_s_once_the_model_has_answered(
    status: int | None, answered: bool, stays: bool
) -> None:
    assert is_row_failure(ModelError('no', status=status), answered=answered) is stays


def test_the_rate_of_a_trace_is_that_of_its_gaps() -> None:
    assert mean_rate([1.0, 2.0, 5.0]) == 0.5


def test_replies_have_a_fixed_length_only_where_one_is_asked_for() -> None:
    talks = [BenchConversation(('Hi',), Sampling(max_out_len=5, stop=('.',)))]
    assert fix_output(talks, None) == talks
    assert fix_output(talks, 9)[0].sampling == Sampling(max_out_len=9, extra={'ignore_eos': True})


def test_programs_that_have_just_begun_are_not_told_of() -> None:
    heard: list[str] = []

    class Hearing(NullListener):
        def on_message(self, message: str) -> None:
            heard.append(message)

    async def run() -> None:
        tell_programs('sums × m', Hearing())(1, 5)
        await asyncio.sleep(0)

    asyncio.run(run())
    assert heard == []


def test_predictions_of_an_aisbench_log_are_in_the_order_of_their_ids(tmp_path: Path) -> None:
    path = tmp_path / 'sums.jsonl'
    path.write_text(''.join(json.dumps({'id': row, 'prediction': f'{row}'}) + '\n' for row in (2, 0, 1)))
    assert [entry['prediction'] for entry in _read_entries(path)] == ['0', '1', '2']
    path.write_text(''.join(json.dumps({'prediction': word}) + '\n' for word in 'ba'))
    assert [entry['prediction'] for entry in _read_entries(path)] == ['b', 'a']


class AllOrNothing:
    """Answers requests that come alone, and none of several."""

    name = 'm'

    async def score(self, requests: Any) -> list[Scored]:
        return [Scored((1,), (-0.5,)) for _ in self._alone(requests)]

    async def generate(self, requests: Any, sampling: Sampling) -> list[Reply]:
        return [Reply('ok') for _ in self._alone(requests)]

    def _alone(self, requests: Any) -> Any:
        if len(requests) > 1:
            raise ModelError('too many')
        return requests


@pytest.mark.parametrize(('kind', 'type_'), [('score', Scored), ('generate', Reply)])
def test_a_worker_whose_model_fails_on_several_asks_for_each_alone(kind: Any, type_: type) -> None:
    worker = object.__new__(ModelWorker)
    worker._model, worker._node = AllOrNothing(), 'here'
    reply = asyncio.run(worker.answer(kind, ['a', 'b'], Sampling()))
    assert [type(answer) for answer in reply.answers] == [type_, type_]


def test_a_list_of_batches_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    ledger = BatchLedger(tmp_path)
    other = sqlite3.connect(next(tmp_path.glob('*.sqlite*')), timeout=0, isolation_level=None)
    other.execute('BEGIN IMMEDIATE')
    ledger._db.execute('PRAGMA busy_timeout = 0')
    with pytest.raises(RunError, match='the list of batches cannot be written: database is locked'):
        ledger.note('a', 1)
    other.execute('ROLLBACK')
    other.close()
    ledger.close()
