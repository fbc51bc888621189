"""A model as the judge: its requests come from the pair's judge, and go the same way as all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from rolecall.core.program import fingerprint
from rolecall.core.render.spans import Request
from rolecall.errors import RenderError
from rolecall.experiment.opening.judges import JudgeEntry
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.sampling import sampling_of
from rolecall.models.protocol import Model, ModelError
from rolecall.runs.client.cache import CachedClient, RowClient
from rolecall.runs.client.model_client import RequestPending
from rolecall.runs.client.retry import ModelUnavailableError
from rolecall.runs.receipts import check_requests, find_served
from rolecall.runs.store.results import Used
from rolecall.scoring.receipt import TokenCount

_REMEMBERED = 200
"""Questions that are kept whole, to explain a difference of their tokens."""


class JudgeClients:
    """The clients of a run's judges: that of a model of the run, where it is the judge."""

    def __init__(
        self,
        judges: Iterable[JudgeEntry],
        caches: Iterable[CachedClient],
        *,
        connect: Callable[[ModelEntry], CachedClient],
        rerun: Collection[str],
    ) -> None:
        """`caches`: those of the run's models; `connect` opens one for another model."""
        self._rerun = rerun
        self._counted: set[int] = set()
        self._caches = {id(cache.client.model): cache for cache in caches}
        own: dict[str, CachedClient] = {}
        for judge in judges:
            model = judge.model_entry.model
            if id(model) not in self._caches:
                key = fingerprint('', model=dict(model.identity))
                if key not in own:
                    own[key] = connect(judge.model_entry)
                self._caches[id(model)] = own[key]
        self.own = [cache.client for cache in own.values()]
        """Clients that only judge."""

    def build(self, judge: JudgeEntry) -> Judge:
        """A judge for one pair."""
        cache = self._caches[id(judge.model_entry.model)].for_dataset('')
        return Judge(judge, cache, rerun=self._rerun, counted=self._counted)


class JudgeReply(str):
    """A judge's reply, with the judge's name and the fingerprint of the request it answers."""

    judge: str
    fingerprint: str

    def __new__(cls, words: str, judge: str, fingerprint: str) -> JudgeReply:
        reply = super().__new__(cls, words)
        reply.judge, reply.fingerprint = judge, fingerprint
        return reply


class Judge:
    """Asks a judge about the answers of one pair. Failed questions are counted by reason."""

    def __init__(
        self, judge_entry: JudgeEntry, client: CachedClient, *, rerun: Collection[str], counted: set[int]
    ) -> None:
        """`rerun`: outcomes after which it is asked again; otherwise stored replies are used.

        `counted`: questions whose tokens are counted. The judges of a run share it: equal questions are sent once.
        """
        self._entry = judge_entry
        self._client = client
        self._rerun = rerun
        self._counted = counted
        self._sampling = sampling_of({}, judge_entry.model_entry.entry)
        self.model: Model = judge_entry.model_entry.model
        self.failures: Counter[str] = Counter()
        """Why it gave no reply, and how often."""
        self.broken: str | None = None
        """Why nothing more can be asked of it in this run."""
        self.pending = 0
        """Questions that wait for a batch."""
        self.used = Used(0)
        """The tokens of its replies, stored ones included."""
        self.findings: list[str] = []
        """What its server did with the questions, in sentences."""
        self._counts: dict[int, TokenCount] = {}
        self._first: dict[int, Request] = {}
        self._cut: frozenset[int] = frozenset()

    async def __call__(self, values: Mapping[str, Any]) -> JudgeReply:
        """The judge's reply; `ModelError` if there is none."""
        try:
            return await self._ask(values)
        except RequestPending:
            self.pending += 1
            raise ModelError(f'{self.model.name}: the question waits for a batch.') from None
        except (ModelError, RenderError, ModelUnavailableError) as error:
            if isinstance(error, ModelUnavailableError):
                self.broken = str(error)
            self.failures[str(error)] += 1
            raise ModelError(str(error)) from error

    async def _ask(self, values: Mapping[str, Any]) -> JudgeReply:
        step = self._entry.step(values)
        if step.too_long:
            raise ModelError(f'{self.model.name}: {step.too_long}')
        [(_, request)] = step.requests
        ask = RowClient(self._client, retry_failed='failed' in self._rerun)
        reply = await ask.generate(request, self._sampling)
        if reply.outcome in self._rerun and not ask.sent:
            ask = RowClient(self._client, retry_all=True)
            reply = await ask.generate(request, self._sampling)
        question = int(ask.fingerprints[0][:16], 16)  # a number takes half the memory of a text
        self._count_tokens(ask, question, request)
        if reply.outcome != 'ok':
            raise ModelError(f'{self.model.name}: {reply.outcome}: {reply.reason}')
        if question in self._cut:
            raise ModelError(f'{self.model.name}: truncated_by_server: the server cut the question.')
        return JudgeReply(reply.text, self.model.name, ask.fingerprints[0])

    def _count_tokens(self, ask: RowClient, question: int, request: Request) -> None:
        if question not in self._counted:
            self._counted.add(question)
            self.used.add(Used.from_dict({'rows': 1, **ask.used}))
        if 'input_tokens' in ask.used and question not in self._counts:
            self._counts[question] = TokenCount(question, ask.expected_tokens or 0, ask.used['input_tokens'])
            if len(self._first) < _REMEMBERED:
                self._first[question] = request

    def refuse_cut(self) -> bool:
        """Compare the tokens of its questions with those expected; whether replies to some no longer count."""
        if (model := find_served(self.model)) is not None:
            first, counts = self._first, list(self._counts.values())
            comparison, lines = check_requests(
                model, counts, lambda rows: {row: first[row] for row in rows if row in first}, unit='question'
            )
            self.findings = [f'judge {self.model.name}: {line}' for line in lines]
            self._cut = frozenset(comparison.truncated)
            self.failures = Counter() if self._cut else self.failures
        return bool(self._cut)
