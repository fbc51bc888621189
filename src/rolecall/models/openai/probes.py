"""Probes: a few tiny requests that show what a server does with a prompt, where it does not say so itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rolecall.core.render.spans import Request
from rolecall.models.http.server_facts import ServerFacts
from rolecall.models.protocol import Message, ModelError, Reply, Sampling

if TYPE_CHECKING:
    from rolecall.models.openai.model import OpenAIModel

MOST_PROBES = 13
_SYSTEM = 'You answer with a number and nothing else. ' * 6
_FEWEST_SYSTEM = 20
"""Fewer tokens than any tokenizer makes of the system message."""
_FILLER, _SHORT, _LONG = 'hi ', 50, 6000
"""A prompt of a repeated word, so that tokens grow by the same amount; the long one exceeds the usual 4,096."""
_LIMIT = re.compile(r'context (?:length|size|window)\D{0,40}(\d{3,8})|(\d{3,8}) tokens?\b.{0,20}context', re.IGNORECASE)


@dataclass
class _Prober:
    """Sends probes to one model and counts them."""

    model: OpenAIModel
    sent: int = 0

    async def ask(self, text: str, *, system: str = '', most: int = 1, **sampling: Any) -> Reply:
        """The reply to a prompt, of at most `most` tokens."""
        self.sent += 1
        [reply] = await self.model.generate([_word(self.model, text, system)], Sampling(max_out_len=most, **sampling))
        return reply


def _word(model: OpenAIModel, text: str, system: str = '') -> Request:
    """A prompt as the model takes it."""
    speeches = [('system', system), ('user', text)]
    messages: list[Message] = [{'role': role, 'content': content} for role, content in speeches if content]
    return messages if model.capabilities.chat else text


async def probe_server(model: OpenAIModel, facts: ServerFacts) -> ServerFacts:
    """The facts with what probes show. A probe that the server refuses decides nothing else."""
    prober = _Prober(model)
    short = await prober.ask('hi')
    if model.capabilities.chat:
        facts = replace(facts, keeps_system=await _keeps_system(prober, short), logprobs=await _gives_logprobs(prober))
    facts = replace(facts, seed=await _obeys_seed(prober), stop=await _obeys_stop(prober))
    if facts.window is None:
        window, truncates = await _find_window(prober)
        facts = replace(facts, window=window, truncates=truncates)
    return replace(facts, bos=await _count_bos(model), probes=prober.sent + (facts.engine == 'vLLM'))


async def _keeps_system(prober: _Prober, short: Reply) -> bool | None:
    before = short.usage.input_tokens
    try:
        after = (await prober.ask('hi', system=_SYSTEM)).usage.input_tokens
        if before is None or after is None or after - before >= _FEWEST_SYSTEM:
            return None if before is None or after is None else True
        as_user = (await prober.ask(_SYSTEM)).usage.input_tokens
    except ModelError:
        return None  # refused, which the run will say
    return False if as_user is not None and as_user > after else None  # None: it counts no tokens


async def _gives_logprobs(prober: _Prober) -> bool:
    try:
        return bool((await prober.ask('Count to five.', most=3, extra={'logprobs': True})).logprobs)
    except ModelError:
        return False


async def _obeys_seed(prober: _Prober) -> bool | None:
    """Whether two replies with one seed are equal; None where other seeds give the same, too."""
    options: dict[str, Any] = {'most': 12, 'temperature': 1.5}
    try:
        # The other seed comes first: with the prompt in its cache, llama.cpp computes it a little differently.
        other, first, again = [(await prober.ask('Tell me a story.', seed=seed, **options)).text for seed in (8, 7, 7)]
    except ModelError:
        return None
    return None if first == again == other else first == again


async def _obeys_stop(prober: _Prober) -> bool | None:
    """Whether a reply ends before words out of its middle."""
    try:
        text = (await prober.ask('Count to twenty.', most=24, temperature=0)).text
        middle = text[len(text) // 2 :][:4]
        if not middle.strip():
            return None
        stopped = (await prober.ask('Count to twenty.', most=24, temperature=0, stop=(middle,))).text
    except ModelError:
        return None
    return len(stopped) < len(text) and middle not in stopped


async def _find_window(prober: _Prober) -> tuple[int | None, bool | None]:
    """The context limit that a long prompt meets, and whether the server cut it silently."""
    try:
        steps = [(await prober.ask(_FILLER * length)).usage.input_tokens for length in (_SHORT, 2 * _SHORT)]
        if None in steps:
            return None, None
        growth = (steps[1] - steps[0]) / _SHORT  # type: ignore[operator]  # no step is None
        long = await prober.ask(_FILLER * _LONG)
    except ModelError as error:
        return _read_limit(str(error)), False
    if long.outcome == 'too_long':
        return _read_limit(long.reason), False
    reported, expected = long.usage.input_tokens, growth * (_LONG - _SHORT) + (steps[0] or 0)
    return (None, None) if reported is None or reported >= 0.98 * expected else (reported, True)


def _read_limit(message: str) -> int | None:
    """The context limit that an error message names.

    >>> _read_limit('request (5031 tokens) exceeds the available context size (2048 tokens), try increasing it')
    2048
    >>> _read_limit("This model's maximum context length is 512 tokens. However, you requested 6001.")
    512
    """
    match = _LIMIT.search(message)
    return None if match is None else int(match[1] or match[2])


async def _count_bos(model: OpenAIModel) -> int | None:
    """How many BOS tokens the server puts before a prompt, where it returns token ids."""
    ids, tokenizer = await model.read_prompt_ids(_word(model, 'hi')), model.tokenizer
    if not ids or tokenizer is None or tokenizer.bos_id is None:
        return None
    return next((place for place, token in enumerate(ids) if token != tokenizer.bos_id), len(ids))
