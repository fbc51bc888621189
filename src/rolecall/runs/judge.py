"""A model as the judge: worded by the evaluator's template, asked through the same clients and store as everybody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from rolecall.checking import Problems
from rolecall.errors import ConfigError, Problem, RenderError, did_you_mean
from rolecall.models.backends import build_model
from rolecall.models.protocol import Model, ModelError
from rolecall.pairs.model_entries import ModelEntry, build_model_entry
from rolecall.pairs.sampling import sampling_of
from rolecall.program import compile  # noqa: A004  # the word for it
from rolecall.prompts.template import Template, build_template
from rolecall.prompts.wording import Wording
from rolecall.runs.client.cache import CachedClient, RowClient
from rolecall.runs.client.model_client import ModelUnavailableError

__all__ = ['Judge', 'find_judge']

_WHERE = 'eval_cfg.evaluator'


class Judge:
    """Says what it thinks of an answer. It can be asked once it has a client; why it could not say is kept."""

    def __init__(self, wording: Wording, model_entry: ModelEntry, model: Model) -> None:
        self.model = model
        self.entry = model_entry.entry
        self.client: CachedClient | None = None
        self.rerun: Collection[str] = ()
        """Outcomes after which it is asked again; otherwise what is known stays as it is."""
        self.silences: Counter[str] = Counter()
        """Why it said nothing, and how often."""
        self.broken: str | None = None
        """Why nothing more can be asked of it in this run."""
        self._program = compile(wording, model_entry.renderer)
        self._sampling = sampling_of({}, model_entry.entry)

    async def __call__(self, values: Mapping[str, Any]) -> str:
        """The judge's words; `ModelError` where there are none."""
        try:
            return await self._opinion(values)
        except (ModelError, RenderError) as error:
            self.silences[str(error)] += 1
            raise ModelError(str(error)) from error
        except ModelUnavailableError as error:
            self.broken = str(error)
            self.silences[str(error)] += 1
            raise ModelError(str(error)) from error

    async def _opinion(self, values: Mapping[str, Any]) -> str:
        if self.client is None:
            raise ModelError(f'{self.model.name}: the judge can be asked during a run only.')
        request = self._program(values)
        ask = RowClient(self.client, retry_failed='failed' in self.rerun)
        reply = await ask.generate(request, self._sampling)
        if reply.outcome in self.rerun and not ask.sent:
            reply = await RowClient(self.client, retry_all=True).generate(request, self._sampling)
        if reply.outcome != 'ok':
            raise ModelError(f'{self.model.name}: {reply.outcome}: {reply.reason}')
        return reply.text


def find_judge(
    evaluator: object, model_entries: Sequence[ModelEntry], models: Mapping[str, Model | None]
) -> Judge | None:
    """The judge that an evaluator's entry describes; None if it describes none.

    `judge_cfg` is a model entry, or the abbr of a model of the config; left out or empty, the config's only model.
    """
    found = next(_with_template(evaluator), None)
    if found is None:
        return None
    wording = Wording(prompt_template=_template(found['prompt_template']))
    model_entry, model = _seat(found.get('judge_cfg') or {}, model_entries, models)
    return None if model is None else Judge(wording, model_entry, model)


def _with_template(entry: object) -> Iterator[Mapping[str, Any]]:
    """The entry, or a part of it, that words a judge's prompt."""
    if not isinstance(entry, Mapping):
        return
    if isinstance(entry.get('prompt_template'), Mapping):
        yield entry
    for inner in entry.values():
        yield from _with_template(inner)


def _template(written: Mapping[str, Any]) -> Template:
    try:
        return build_template(written)
    except ConfigError as error:
        raise type(error)(problem.inside(f'{_WHERE}.prompt_template') for problem in error.problems) from error


def _seat(
    judge: object, model_entries: Sequence[ModelEntry], models: Mapping[str, Model | None]
) -> tuple[ModelEntry, Model | None]:
    where = f'{_WHERE}.judge_cfg'
    if isinstance(judge, Mapping) and 'type' in judge:
        problems = Problems()
        model_entry = build_model_entry({'abbr': 'judge', **judge}, where, problems)
        problems.raise_all()
        if model_entry is not None:
            return model_entry, build_model(model_entry.entry, name=model_entry.abbr)
    named = judge if isinstance(judge, str) else judge.get('abbr') if isinstance(judge, Mapping) else None
    fits = [model_entry for model_entry in model_entries if named is None or model_entry.abbr == named]
    if len(fits) != 1:
        what = f'no model {named!r} in the config.' if named else 'which model is the judge is not said.'
        remedy = (
            did_you_mean(named, [model_entry.abbr for model_entry in model_entries])
            if named
            else "Name one: judge_cfg='its abbr'."
        )
        raise ConfigError(Problem(where, what, remedy))
    if fits[0].abbr not in models:
        return fits[0], build_model(fits[0].entry, name=fits[0].abbr)
    return fits[0], models[fits[0].abbr]
