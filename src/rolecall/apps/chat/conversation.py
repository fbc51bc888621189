"""One conversation with a model: requests, retries and tool rounds, through the same client as runs."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from typing import Any

from rolecall.apps.chat.adapters import ModuleCall
from rolecall.apps.chat.answerer import Answerer, Connection, FailoverPolicy
from rolecall.apps.chat.background import run_in_thread
from rolecall.apps.chat.call_options import CallSettings
from rolecall.apps.chat.chat_reply import (
    Attempt,
    ChatReply,
    Message,
    find_cost,
    read_user_messages,
    sum_cost,
    sum_usage,
)
from rolecall.apps.chat.events import Event, OnEvent, Retry, Spent, ToolFailure, report
from rolecall.apps.chat.hints import BadValueError
from rolecall.apps.chat.module_errors import (
    BadAnswerError,
    CostLimitError,
    ModuleError,
    StoppedError,
    ToolRoundsError,
    UnfinishedCallError,
)
from rolecall.apps.chat.streaming import OnPiece, StreamPiece
from rolecall.apps.chat.structured import AnswerType
from rolecall.apps.chat.tool_calls import CallFilter
from rolecall.apps.chat.toolbox import INTERRUPTED, Toolbox
from rolecall.apps.chat.trimming import HistoryBudget, drop_turns_to_fit
from rolecall.core.program.compiled import Trace
from rolecall.core.prompters.base_prompter import Prompter
from rolecall.core.prompters.call_inputs import run_hooks
from rolecall.core.prompters.history import check_history
from rolecall.core.prompts.frozen import copy_data
from rolecall.core.render.spans import Request
from rolecall.errors import describe_error
from rolecall.models.protocol import THINK, ModelError, Reply, Usage
from rolecall.runs.telemetry import traced
from rolecall.strings import end_sentence

_UNSUPPORTED = (400, 415, 422)
_LONGEST_RETRY_AFTER = 60.0
"""Seconds that a server may ask a call without a timeout to wait."""
_MEDIA = ('image_url', 'image', 'input_audio', 'audio_url', 'video_url', 'file')
_STRICT_ID = re.compile('[A-Za-z0-9]{9}')
_ASKED_AGAIN = 2
"""How often a model is asked again whose answer is not of the type asked for."""


@dataclass(slots=True, eq=False)
class Conversation:
    """One call on its way: the messages after the prompt, the models asked so far, and what they cost.

    A model that fails is followed by the next, which goes on with the same messages: tools that have run are not run
    again.
    """

    answerers: Sequence[Answerer]
    failover: FailoverPolicy = field(default_factory=FailoverPolicy)
    answer: AnswerType | None = None
    toolbox: Toolbox | None = None
    on_piece: OnPiece | None = None
    home: asyncio.AbstractEventLoop | None = None
    on_event: OnEvent | None = None
    budget: HistoryBudget | None = None
    failures: list[ModelError] = field(default_factory=list)
    """Why requests were sent again."""
    said: list[Message] = field(default_factory=list)
    before: tuple[Any, ...] = ()
    attempts: list[Attempt] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)
    """Of the current model."""
    dropped: list[Any] = field(default_factory=list)
    first: Request | None = None
    place: int = 0
    rounds: int = 0
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    streamed: bool = False
    """Whether text of the current request was passed on, which cannot be taken back."""

    @property
    def line(self) -> Connection:
        return self.answerers[self.place].line

    @property
    def options(self) -> CallSettings:
        return self.answerers[self.place].options

    @property
    def _is_last(self) -> bool:
        return self.place == len(self.answerers) - 1

    async def answer_in_time(self, prompter: Prompter, call: ModuleCall) -> ChatReply:
        """The reply to a call, within its timeout."""
        about = {'gen_ai.operation.name': 'invoke_agent', 'rolecall.call.id': self.id}
        with traced('invoke_agent', about) as noted:
            try:
                reply = await self._answer_in_time(prompter, call)
            except (Exception, asyncio.CancelledError) as error:
                self._report('failure', error)
                raise
            noted |= {'gen_ai.response.model': reply.model, 'rolecall.cost': reply.cost}
        return reply

    async def _answer_in_time(self, prompter: Prompter, call: ModuleCall) -> ChatReply:
        timeout = self.answerers[0].options.timeout
        try:
            return await asyncio.wait_for(self.hold(prompter, call), timeout)
        except asyncio.TimeoutError:
            last = f' The last attempt: {self.failures[-1]}' if self.failures else ''
            status = self.failures[-1].status if self.failures else None
            what = f'no answer within {timeout or 0:g} s (timeout), retries included.{last}'
            error = ModelError(what, transient=True, status=status)
        except StoppedError as stopped:
            stopped.history = [*self.before, *self.said]
            raise
        except ModelError as failure:
            error = failure
        except Exception as failure:
            if not self.rounds or hasattr(failure, 'history'):
                raise
            error = ModelError(describe_error(failure))
            error.__cause__ = failure
        if self.attempts:
            earlier = '; '.join(f'{attempt.model}: {attempt.failure}' for attempt in self.attempts)
            error.args = (f'{end_sentence(str(error))} Models asked before: {earlier}',)
        if self.rounds and not isinstance(error, UnfinishedCallError):
            self.attempts.append(self._describe_attempt(str(error)))
            raise UnfinishedCallError(error, [*self.before, *self.said], self.attempts) from error
        raise error

    async def hold(self, prompter: Prompter, call: ModuleCall) -> ChatReply:
        """The reply of the first model that answers."""
        earlier = copy_data(call.history) if isinstance(call.history, (list, tuple)) else []
        prompter, call = await apply_hooks(prompter, call)
        if self.toolbox is not None:
            for answerer in self.answerers:
                answerer.line.adapter.check_tool_support(prompter)
            if self.answerers[0].options.deps is None and (name := self.toolbox.find_tool_with_deps()) is not None:
                raise ModuleError(f'the tool {name} needs dependencies: pass deps=… with the call.')
        media = find_media(call)
        if media and not self.line.takes_media:
            raise ModuleError(f'{media[0]}: this model takes text only.')
        while True:
            try:
                reply, value = await self.line.hold(self._converse(prompter, call, earlier, media))
            except (ModelError, BadAnswerError) as error:
                if self._is_last or self.streamed or not self.failover.applies_to(error):
                    raise
                why = str(error)
            else:
                if self._is_last or self.streamed or not self.failover.applies_to(reply):
                    return self._finish(reply, value)
                why = f'{reply.outcome}: {reply.reason}'
            name = self.answerers[self.place].name
            self.attempts.append(self._describe_attempt(why))
            self.place += 1
            self.said = _shorten_ids(self.said, len(self.before))
            self.first, self.usages, self.dropped = None, [], []
            self._report('fallback', f'{name} failed ({why}); {self.answerers[self.place].name} is asked.')

    def _describe_attempt(self, failure: str = '') -> Attempt:
        usage = sum_usage(self.usages)
        cost = find_cost(usage, self.line.price) if self.usages else 0.0
        return Attempt(self.answerers[self.place].name, usage, cost, failure)

    async def _converse(
        self, prompter: Prompter, call: ModuleCall, earlier: Sequence[Any], media: Sequence[str]
    ) -> tuple[Reply, Any]:
        """The reply of the current model and its value. With a toolbox, run the tools it calls until it answers."""
        if media and not self.line.takes_media:
            raise ModelError(f'{media[0]}: this model takes text only.')
        most = self.toolbox.max_rounds if self.toolbox is not None else 0
        tries, settled = 0, len(self.said)
        while True:
            self._check_cost()
            if self.budget is not None:
                call = await self._trim(self.budget, prompter, call)
            try:
                reply = await self._ask(prompter, call, len(earlier))
            except ModelError as error:
                if media and error.status in _UNSUPPORTED:
                    error.args = (f'{error} ({media[0]}: does the model take more than text?)',)
                raise
            self.before = self.before or (*earlier, *read_user_messages(prompter, call.input))
            if self.toolbox is not None and reply.tool_calls:
                self.said.append(self.line.adapter.thinking.write_message(reply))
                if self.rounds == most:
                    raise ToolRoundsError(most, self.said, self.before)
                self.rounds += 1
                await self._use_tools(self.toolbox, reply)
                settled = len(self.said)
                continue
            try:
                value, complaint = self._read_value(reply, tries)
            except BadAnswerError as error:
                del self.said[settled:]  # another model need not read the answers that did not fit
                error.history = [*self.before, *self.said]
                raise
            if complaint is None:
                return reply, value
            tries += 1
            answer = self.line.adapter.thinking.write_message(reply)
            self.said += [answer, {'role': 'user', 'content': complaint}]

    def _finish(self, reply: Reply, value: Any) -> ChatReply:
        self.attempts.append(self._describe_attempt())
        usage = sum_usage([attempt.usage for attempt in self.attempts])
        spent = Spent(usage, sum_cost(self.attempts))
        self._report('usage', spent)
        answer = self.line.adapter.thinking.write_message(reply)
        return ChatReply(
            **{field.name: getattr(reply, field.name) for field in fields(Reply) if field.name != 'usage'},
            usage=usage,
            prompt=self.first if self.first is not None else '',
            said=(*self.said, answer),
            before=self.before,
            cost=spent.cost,
            dropped=tuple(self.dropped),
            value=value,
            attempts=tuple(self.attempts),
        )

    def _check_cost(self) -> None:
        """Raise CostLimitError if the call has cost as much as it may."""
        most = self.answerers[0].options.max_cost
        if most is None:
            return
        for answerer in self.answerers:
            if answerer.line.price is None:
                remedy = "Give it: OnlineChatModule(…, price={'input': 1.0, 'output': 4.0})."
                raise ModuleError(f'max_cost: the price of {answerer.name} is not known. {remedy}')
        spent = sum_cost([*self.attempts, self._describe_attempt()])
        if spent is None:
            raise ModuleError(f'max_cost: {self.answerers[self.place].name} does not report the tokens of its answers.')
        if spent >= most:
            raise CostLimitError(spent, most, [*self.before, *self.said])

    async def _trim(self, budget: HistoryBudget, prompter: Prompter, call: ModuleCall) -> ModuleCall:
        """The call with a history that keeps to the token budget, tool rounds so far included."""
        check_history(call.history or ())
        model, sampling = self.line.model, self.options.sampling

        async def measure(history: Sequence[Any]) -> int:
            request, extra, _ = self.line.adapter.word(prompter, replace(call, history=list(history)), self.said)
            return await budget.measure(model, request, replace(sampling, extra={**sampling.extra, **extra}))

        remaining, dropped = await drop_turns_to_fit(call.history or (), measure, budget.limit_for(model, sampling))
        if dropped:
            self.dropped += dropped
            self._report('trim', dropped)
        return replace(call, history=list(remaining)) if dropped else call

    async def _ask(self, prompter: Prompter, call: ModuleCall, earlier: int) -> Reply:
        adapter, sampling = self.line.adapter, self.options.sampling
        request, extra, reads = adapter.word(prompter, call, self.said)
        if self.first is None:
            self.first = adapter.word(prompter, call, ()).reads if self.said else reads
        if self.answer is not None and self.line.model.capabilities.json_schema:
            extra = {**extra, 'json_schema': self.answer.schema}
        calls = None
        if adapter.writes_calls and (call.tools or prompter.tools):
            calls = CallFilter(lambda text: self._pass_on(StreamPiece('text', text)))
        self.streamed = False
        self._report('request', reads, partial(adapter.trace, prompter, call, tuple(self.said)))
        own = _without_forced_choice(sampling.extra) if self.rounds else sampling.extra
        drawn = replace(sampling, extra={**own, **extra})

        def take(piece: StreamPiece) -> None:
            if calls is not None and piece.kind == 'text':
                calls.take(piece.text)
            else:
                self._pass_on(piece)

        reply = await self.answerers[self.place].send(
            request,
            drawn,
            on_piece=None if self.on_piece is None else take,
            begins_thinking=isinstance(reads, str) and reads.rstrip().endswith(THINK[0]),
            first_token=None if self._is_last else self.failover.first_token,
            on_retry=self._allow_retry,
        )
        reply = adapter.read_reply(reply, prompter, call)
        if self.toolbox is not None and reply.outcome != 'ok':
            reply = replace(reply, tool_calls=())  # the answer is refused or lost: its calls are not to be run
        self._report('reply', reply)
        if calls is not None and self.on_piece is not None:
            calls.finish(reply.text)
        self.usages.append(reply.usage)
        return _number_calls(reply, earlier + len(self.said))

    def _pass_on(self, piece: StreamPiece) -> None:
        self.streamed = self.streamed or piece.kind == 'text'
        if self.on_piece is not None:
            self.on_piece(piece)

    async def _use_tools(self, toolbox: Toolbox, reply: Reply) -> None:
        """Run the calls of a reply. Each gets its result, even if the call is interrupted while tools run."""
        for call in reply.tool_calls:
            self._report('tool_call', call)
        running = toolbox.start(reply, home=self.home, deps=self.answerers[0].options.deps)
        try:
            await asyncio.gather(*running)
        finally:
            for call, task in zip(reply.tool_calls, running, strict=True):
                text, error = task.result() if task.done() and not task.cancelled() else INTERRUPTED
                name = call['function']['name']
                message = {'role': 'tool', 'tool_call_id': call['id'], 'name': name, 'content': text}
                if error is not None:
                    self._report('tool_failure', ToolFailure(str(name), call, error))
                self._report('tool_result', message)
                self.said.append(message)

    def _read_value(self, reply: Reply, tries: int) -> tuple[Any, str | None]:
        """The value of an answer, or what the model is told because there is none."""
        if self.answer is None or reply.outcome != 'ok' or reply.tool_calls:
            return None, None
        try:
            return self.answer.read(reply.text), None
        except BadValueError as error:
            why = f'{error} (it was cut at its length limit, max_tokens)' if reply.reason == 'length' else str(error)
            self._report('bad_answer', why)
            if tries == _ASKED_AGAIN or self.streamed:
                raise BadAnswerError(reply, why, tries + 1) from None
            return None, self.answer.complaint(why)

    def _report(self, kind: str, data: Any, trace: Callable[[], Trace] | None = None) -> None:
        report(self.on_event, Event(kind, data, self.id, self.answerers[self.place].name, trace))

    def _allow_retry(self, error: ModelError, pause: float) -> None:
        """Report a retry; refuse one for which the server asks longer than the caller waits."""
        longest = self.options.timeout or _LONGEST_RETRY_AFTER
        if error.retry_after is not None and error.retry_after > longest:
            sentence = f'It asks for a pause of {error.retry_after:,.0f} s, and the call waits {longest:g} s at most.'
            raise ModelError(
                f'{end_sentence(str(error))} {sentence}',
                status=error.status,
                retry_after=error.retry_after,
                transient=True,
            ) from error
        self.failures.append(error)
        self._report('retry', Retry(error, pause))


def _without_forced_choice(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters without a `tool_choice` that forces a call: forced in every round, no model could answer."""
    forced = extra.get('tool_choice') not in (None, 'auto', 'none', {'type': 'auto'}, {'type': 'none'})
    free = {name: value for name, value in extra.items() if not (forced and name == 'tool_choice')}
    if isinstance(body := extra.get('extra_body'), Mapping):
        free['extra_body'] = _without_forced_choice(body)
    return free


def _shorten_ids(messages: Sequence[Message], start: int) -> list[Message]:
    """The messages with ids of tool calls that every vendor and chat template takes: nine letters and digits.

    Vendors refuse an id that stands twice, so it is made of the old one and its place in the whole conversation.
    """
    short: dict[str, str] = {}
    renamed: list[Message] = []
    for place, message in enumerate(messages, start):
        if calls := message.get('tool_calls'):
            long_ids = [str(call['id']) for call in calls if not _STRICT_ID.fullmatch(str(call['id']))]
            short |= {long: hashlib.sha256(f'{place} {long}'.encode()).hexdigest()[:9] for long in long_ids}
            message = {**message, 'tool_calls': [{**call, 'id': short.get(call['id'], call['id'])} for call in calls]}
        if message.get('tool_call_id') in short:
            message = {**message, 'tool_call_id': short[message['tool_call_id']]}
        renamed.append(message)
    return renamed


def _number_calls(reply: Reply, start: int) -> Reply:
    """The reply with a unique id for each tool call, so that results can refer to it."""
    # The strictest chat templates require nine letters and digits.
    calls: dict[Any, Mapping[str, Any]] = {}
    for i, call in enumerate(reply.tool_calls):
        own = call.get('id')
        name = own if own and own not in calls else f'call{start:03}{i:02}'
        calls[name] = {**call, 'id': name}
    return replace(reply, tool_calls=tuple(calls.values()))


def find_media(call: ModuleCall) -> list[str]:
    """Where a call has more than text, each place with the kind of content.

    >>> find_media(ModuleCall([{'role': 'user', 'content': [{'type': 'image_url', 'image_url': {'url': 'a.png'}}]}]))
    ['input[0].content[0] has type image_url']
    """
    places = []
    for name, turns in (('history', call.history), ('input', call.input)):
        for i, turn in enumerate(turns if isinstance(turns, (list, tuple)) else ()):
            content = turn.get('content') if isinstance(turn, Mapping) else None
            for k, part in enumerate(content if isinstance(content, (list, tuple)) else ()):
                kind = part.get('type') if isinstance(part, Mapping) else None
                if kind in _MEDIA:
                    places.append(f'{name}[{i}].content[{k}] has type {kind}')
    return places


async def apply_hooks(prompter: Prompter, call: ModuleCall) -> tuple[Prompter, ModuleCall]:
    """The prompter without its hooks, and the call as the hooks changed it."""
    if not prompter.hooks:
        return prompter, call
    arguments = (call.input, call.history, call.tools, None)
    changed = await run_in_thread(lambda: run_hooks(prompter.hooks, arguments))
    return _without_hooks(prompter), ModuleCall(*changed[:3])


@lru_cache(maxsize=32)
def _without_hooks(prompter: Prompter) -> Prompter:
    return replace(prompter, hooks=())
