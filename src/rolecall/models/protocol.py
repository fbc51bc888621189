"""The model protocol, the same for embedded models, local models and APIs.

A model declares its capabilities; a config that needs more is refused before the run. It takes requests and returns
replies or token scores; retries, caching and concurrency belong to the run. `split_reasoning` separates reasoning from
the answer, for models that write both into one text; `redact_reply` hides secrets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeGuard

from rolecall.core.render.spans import Request
from rolecall.errors import RolecallError
from rolecall.quick_init import quick_init
from rolecall.redaction import Redactor

THINK = ('<think>', '</think>')
Outcome = Literal['ok', 'failed', 'too_long', 'truncated_by_server', 'filtered', 'thinking_exhausted', 'unparsed']
"""How a row ended. Only `ok` is an answer; the others are counted separately."""

OnText = Callable[[str], None]
"""Called with each piece of a reply's text while the reply is being generated."""

Message = Mapping[str, Any]


def is_messages(request: Request) -> TypeGuard[list[Message]]:
    """Whether a request is messages, rather than a text or token ids."""
    return isinstance(request, list) and all(isinstance(entry, Mapping) for entry in request)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do."""

    generate: bool = True
    score: bool = False
    """Log-probabilities of the tokens of a prompt."""
    chat: bool = False
    """Takes messages; otherwise text or token ids."""
    tokenize: bool = False
    media: bool = False
    tools: bool = False
    prefill: bool = False
    system: bool = True
    json_schema: bool = False
    """Takes the sampling parameter `json_schema`, and answers with JSON that fits it."""
    reply_logprobs: bool = False
    """Takes the sampling parameter `logprobs`, and may give the log-probabilities of the reply's tokens."""
    refuses: tuple[str, ...] = ()
    """Sampling parameters that its API does not have."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters. All of them are part of a request's identity."""

    max_out_len: int | None = None
    min_out_len: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters, passed on unchanged."""

    def as_dict(self) -> dict[str, Any]:
        """The parameters that are set."""
        parameters = {
            'max_out_len': self.max_out_len,
            'min_out_len': self.min_out_len,
            'temperature': self.temperature,
            'top_p': self.top_p,
            'top_k': self.top_k,
            'seed': self.seed,
            'stop': list(self.stop) or None,
            **self.extra,
        }
        return {name: value for name, value in parameters.items() if value is not None}


@quick_init
@dataclass(frozen=True, slots=True)
class Usage:
    """What a call cost."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """Input tokens served from a cache."""
    seconds: float | None = None
    reasoning_tokens: int | None = None
    """Output tokens spent on reasoning."""
    cache_written_tokens: int | None = None
    """Input tokens written to a cache, where the server charges extra for that."""
    first_token_seconds: float | None = None
    """Until the first piece of a streamed reply."""


class Served(NamedTuple):
    """Who answered, in the words of the reply; empty where it does not say."""

    model: str = ''
    provider: str = ''
    system_fingerprint: str = ''
    quantization: str = ''

    def __str__(self) -> str:
        return ', '.join(filter(None, self))

    def merge(self, other: Served) -> Served:
        """Who answered two requests of a row: both names where they differ.

        >>> Served('llama', 'Acme').merge(Served('llama', 'Bolt')).provider
        'Acme / Bolt'
        """
        if self in (other, NOT_STATED):
            return other
        names = (dict.fromkeys([*mine.split(' / '), theirs]) for mine, theirs in zip(self, other, strict=True))
        return Served(*(' / '.join(filter(None, both)) for both in names))


NOT_STATED = Served()


@quick_init
@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. `reasoning` is separate from the answer."""

    text: str
    outcome: Outcome = 'ok'
    reason: str = ''
    """Why the outcome is not `ok`, or why generation ended (`stop`, `length`, `tool_calls` …)."""
    reasoning: str = ''
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    usage: Usage = Usage()
    others: tuple[Reply, ...] = ()
    """Further answers to the same request, where the call asked for several (`n`)."""
    logprobs: tuple[tuple[str, float], ...] = field(default=(), repr=False)
    """The generated tokens with their log-probabilities, where the call asked for them and the server gave them."""
    thinking: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The fields of the server's message that carry reasoning and its signatures, to be sent back unchanged."""
    served: Served = NOT_STATED


@dataclass(frozen=True, slots=True)
class Scored:
    """The tokens of a prompt with their log-probabilities; the first has none, because nothing comes before it."""

    ids: tuple[int, ...]
    """-1 where the server does not say."""
    logprobs: tuple[float | None, ...]
    offsets: tuple[tuple[int, int], ...] = ()
    """The character range of each token in the prompt's text; empty if unknown."""
    usage: Usage = Usage()
    greedy: tuple[bool, ...] = ()
    """For each token, whether no other was likelier at its place (of the first, False); empty if unknown."""

    @classmethod
    def from_marked(
        cls, ids: tuple[int, ...], marked: Sequence[float | None], offsets: tuple[tuple[int, int], ...], usage: Usage
    ) -> Scored:
        """Scores whose sign says which tokens are the likeliest: one without a minus sign is.

        >>> Scored.from_marked((7, 8, 9), (None, 0.5, -1.0), (), Usage()).logprobs
        (None, -0.5, -1.0)
        >>> Scored.from_marked((7, 8, 9), (None, 0.5, -1.0), (), Usage()).greedy
        (False, True, False)
        """
        logprobs = tuple(None if score is None else -abs(score) for score in marked)
        greedy = tuple(score is not None and math.copysign(1.0, score) > 0 for score in marked)
        return cls(ids, logprobs, offsets, usage, greedy)


class ModelError(RolecallError):
    """A call failed. A `transient` failure may be retried, after `retry_after` seconds if the server gives a delay."""

    def __init__(
        self, message: str, *, transient: bool = False, retry_after: float | None = None, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.transient = transient
        self.retry_after = retry_after
        self.status = status


class Model(Protocol):
    """Anything that answers requests. A local model takes `batch` requests per call; an API takes one."""

    @property
    def name(self) -> str:
        """The model's abbr in the config."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What a reply depends on besides the request: model, revision, weights, server. Never an API key."""

    @property
    def batch(self) -> int:
        """How many requests one call should carry."""

    @property
    def max_seq_len(self) -> int | None:
        """The context limit in tokens, where it is known."""

    async def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Reply]:
        """One reply per request."""

    async def score(self, requests: Sequence[Request]) -> list[Scored]:
        """Log-probabilities of each request's tokens; shared prefixes are computed once."""

    def count(self, request: Request) -> int | None:
        """The exact number of input tokens, or None without a tokenizer."""

    async def close(self) -> None:
        """Release connections and memory."""


class SplitReply(NamedTuple):
    """An answer and the reasoning before it. `exhausted`: the text was cut off before the reasoning ended."""

    answer: str
    reasoning: str = ''
    exhausted: bool = False


def split_reasoning(text: str, *, cut_off: bool = False, tags: tuple[str, str] = THINK) -> SplitReply:
    """Split the reasoning at the start of a text from the answer. A text without any is unchanged.

    >>> split_reasoning('<think>2 and 2</think>\\n\\nFour')
    SplitReply(answer='Four', reasoning='2 and 2', exhausted=False)
    >>> split_reasoning('<think>2 and', cut_off=True)
    SplitReply(answer='', reasoning='2 and', exhausted=True)

    A chat template may open the reasoning in the prompt; then only its end is in the text.

    >>> split_reasoning('2 and 2</think>Four').answer
    'Four'
    """
    opening, closing = tags
    start = text.lstrip()
    opened = start.startswith(opening)
    thought, closed, answer = text.partition(closing)
    if closed and (opened or opening not in thought):
        return SplitReply(answer.lstrip(), thought.lstrip().removeprefix(opening).strip())
    if opened and cut_off:
        return SplitReply('', start.removeprefix(opening).strip(), exhausted=True)
    return SplitReply(text)


def redact_reply(reply: Reply, redactor: Redactor) -> Reply:
    """The reply with every secret that a server echoed replaced."""
    if not redactor.secrets:
        return reply
    generated = ''.join(token for token, _ in reply.logprobs)
    plain = not (reply.tool_calls or reply.thinking or reply.others)
    if plain and all(map(redactor.is_clean, (reply.text, reply.reason, reply.reasoning, generated, *reply.served))):
        return reply
    return replace(
        reply,
        text=redactor.redact(reply.text),
        reason=redactor.redact(reply.reason),
        reasoning=redactor.redact(reply.reasoning),
        tool_calls=redactor.redact_value(reply.tool_calls),
        thinking=redactor.redact_value(reply.thinking),
        others=tuple(redact_reply(other, redactor) for other in reply.others),
        logprobs=reply.logprobs if redactor.is_clean(generated) else (),
        served=Served(*map(redactor.redact, reply.served)),
    )


@dataclass(frozen=True, slots=True)
class ModelContext:
    """What a model is told about the run: which files its requests may name, and what its replies must not show."""

    media_folders: Sequence[Path] = ()
    secrets: Collection[str] = ()
    shared_prefixes: Sequence[tuple[Sequence[Any], str]] = ()
    """What all requests of a pair begin with, for servers that can be asked to keep it."""

    def tell(self, model: Any) -> None:
        """Tell a model what it has a use for."""
        if hasattr(model, 'restrict_media'):
            model.restrict_media(self.media_folders)
        if hasattr(model, 'add_secrets'):
            model.add_secrets(self.secrets)
        if hasattr(model, 'share_prefixes'):
            model.share_prefixes(self.shared_prefixes)
