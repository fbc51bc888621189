"""A model as the judge: its requests come from the pair's judge, and go the same way as all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from rolecall.errors import RenderError
from rolecall.experiment.opening.judges import JudgeEntry
from rolecall.experiment.opening.sampling import sampling_of
from rolecall.models.protocol import Model, ModelError
from rolecall.runs.client.cache import CachedClient, RequestDeferred, RowClient
from rolecall.runs.client.retry import ModelUnavailableError
from rolecall.runs.used_tokens import Used


class Opinion(str):
    """A judge's reply, with the judge's name and the fingerprint of the request it answers."""

    judge: str
    fingerprint: str

    def __new__(cls, words: str, judge: str, fingerprint: str) -> Opinion:
        opinion = super().__new__(cls, words)
        opinion.judge, opinion.fingerprint = judge, fingerprint
        return opinion


class Judge:
    """Asks a judge about answers, once it has a client. Failed questions are counted by reason."""

    def __init__(self, judge_entry: JudgeEntry, model: Model) -> None:
        self.judge_entry = judge_entry
        self.model = model
        self.client: CachedClient | None = None
        self.rerun: Collection[str] = ()
        """Outcomes after which it is asked again; otherwise stored replies are used."""
        self.failures: Counter[str] = Counter()
        """Why it gave no reply, and how often."""
        self.broken: str | None = None
        """Why nothing more can be asked of it in this run."""
        self.deferred = 0
        """Questions that wait for a batch."""
        self.used = Used(0)
        """The tokens of its replies, stored ones included."""
        self.counted: set[int] = set()
        """Questions whose tokens are counted. The judges of a run share it: equal questions are sent once."""
        self._sampling = sampling_of({}, self.entry)

    @property
    def entry(self) -> Mapping[str, Any]:
        """The judge's model entry in the config."""
        return self.judge_entry.model_entry.entry

    async def __call__(self, values: Mapping[str, Any]) -> Opinion:
        """The judge's reply; `ModelError` if there is none."""
        try:
            return await self._ask(values)
        except RequestDeferred:
            self.deferred += 1
            raise ModelError(f'{self.model.name}: the question waits for a batch.') from None
        except (ModelError, RenderError) as error:
            self.failures[str(error)] += 1
            raise ModelError(str(error)) from error
        except ModelUnavailableError as error:
            self.broken = str(error)
            self.failures[str(error)] += 1
            raise ModelError(str(error)) from error

    async def _ask(self, values: Mapping[str, Any]) -> Opinion:
        if self.client is None:
            raise ModelError(f'{self.model.name}: a judge can only be asked during a run.')
        step = self.judge_entry.step(values)
        if step.too_long:
            raise ModelError(f'{self.model.name}: {step.too_long}')
        [(_, request)] = step.requests
        ask = RowClient(self.client, retry_failed='failed' in self.rerun)
        reply = await ask.generate(request, self._sampling)
        if reply.outcome in self.rerun and not ask.sent:
            ask = RowClient(self.client, retry_all=True)
            reply = await ask.generate(request, self._sampling)
        self._count_tokens(ask)
        if reply.outcome != 'ok':
            raise ModelError(f'{self.model.name}: {reply.outcome}: {reply.reason}')
        return Opinion(reply.text, self.model.name, ask.fingerprints[0])

    def _count_tokens(self, ask: RowClient) -> None:
        question = int(ask.fingerprints[0][:16], 16)  # a number takes half the memory of a text
        if question not in self.counted:
            self.counted.add(question)
            self.used.add(Used.of(ask))
