"""What local engines share: a worker thread, decoding options, requests as token ids, replies cut at their stops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rolecall.checking import OptionReader
from rolecall.core.render.spans import Request
from rolecall.models.protocol import ModelError, Reply, Sampling, Scored, Usage, redact_reply, split_reasoning
from rolecall.models.tokenizers.tokenizer import Tokenizer
from rolecall.redaction import Redactor, environment_secrets

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


T = TypeVar('T')
E = TypeVar('E')


class WorkerThread:
    """The one thread that runs a local model. It starts with the first call, and again after `close`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[Event], T]) -> T:
        """Run `work` in the thread. When the caller is cancelled, the event passed to `work` is set.

        >>> import asyncio
        >>> asyncio.run(WorkerThread('small').run(lambda stopped: stopped.is_set()))
        False
        """
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix=f'rolecall-{self._name}')
        stopped = Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, stopped)
        except asyncio.CancelledError:
            stopped.set()
            raise

    async def close(self, let_go: Callable[[], object]) -> None:
        """End the thread after its current work; it runs `let_go` last."""
        import asyncio

        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.get_running_loop().run_in_executor(pool, let_go)
            await asyncio.to_thread(pool.shutdown)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """What the entries of all models in this process may say."""

    max_seq_len: int | None = None
    max_out_len: int = 512
    min_out_len: int = 0
    seed: int | None = None
    stops: tuple[str, ...] = ()
    generation: Mapping[str, Any] = field(default_factory=dict)

    def decoding(self, sampling: Sampling) -> Decoding:
        """Decoding options; the request's parameters win over the entry's."""
        raise NotImplementedError

    def _merge(self, sampling: Sampling, settings: dict[str, Any], *stops: str) -> dict[str, Any]:
        """The options that all engines have, taken out of these settings of the entry and the request."""
        draws, warmth = settings.pop('do_sample', None), settings.pop('temperature', None)
        return {
            'max_new': _first(sampling.max_out_len, settings.pop('max_new_tokens', None), self.max_out_len),
            'min_new': _first(sampling.min_out_len, settings.pop('min_new_tokens', None), self.min_out_len),
            'temperature': _first(sampling.temperature, None if draws is False else warmth, 1.0 if draws else None),
            'top_p': _first(sampling.top_p, settings.pop('top_p', None)),
            'top_k': _first(sampling.top_k, settings.pop('top_k', None)),
            'min_p': settings.pop('min_p', None),
            'seed': _first(sampling.seed, settings.pop('seed', None), self.seed),
            'stops': tuple(dict.fromkeys(filter(None, (*sampling.stop, *stops, *self.stops)))),
        }

    def _gather(self, sampling: Sampling) -> dict[str, Any]:
        """The settings of the entry and the request by name; those of the request win."""
        return {**self.generation, **{name: value for name, value in sampling.extra.items() if value is not None}}

    def describe(self) -> dict[str, Any]:
        """What a reply depends on."""
        return {
            'generation': {key: str(value) for key, value in sorted(self.generation.items())},
            'stops': list(self.stops),
            'max_seq_len': self.max_seq_len,
            'max_out_len': self.max_out_len,
            'min_out_len': self.min_out_len,
        }


def read_local_settings(reader: OptionReader, entry: Mapping[str, Any], *more_stops: str) -> dict[str, Any]:
    """The settings of every local model; `more_stops` are other keys of stop strings."""
    stops = [stop for key in ('stop_words', *more_stops) for stop in reader.texts(key) or ()]
    return {
        'max_seq_len': reader.whole('max_seq_len'),
        'max_out_len': reader.whole('max_out_len') or 512,
        'min_out_len': 0 if entry.get('min_out_len') == 0 else reader.whole('min_out_len') or 0,
        'stops': tuple(stops),
        'generation': reader.mapping('generation_kwargs'),
    }


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


S = TypeVar('S', bound=LocalSettings)


class LocalModel(Generic[E, S]):
    """The base of models in this process: an engine, opened at the first request in a thread of its own.

    Replies hide secrets of the environment and of the config.
    """

    def __init__(self, settings: S, name: str) -> None:
        self.name = name
        self._settings = settings
        self._worker = WorkerThread(name)
        self._engine: E | None = None
        self._redactor = Redactor(environment_secrets())

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """Hide these as well, wherever the model repeats them."""
        self._redactor = Redactor({*self._redactor.secrets, *secrets})

    async def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Reply]:
        decoding = self._settings.decoding(sampling)
        replies = await self._in_thread(lambda engine: self._generate(engine, requests, decoding))
        return [redact_reply(reply, self._redactor) for reply in replies]

    async def score(self, requests: Sequence[Request]) -> list[Scored]:
        return await self._in_thread(lambda engine: self._score(engine, requests))

    async def load(self) -> None:
        """Load the weights now, not at the first request."""
        await self._in_thread(lambda _engine: None)

    async def close(self) -> None:
        await self._worker.close(self._release)

    async def _in_thread(self, work: Callable[[E], T]) -> T:
        return await self._worker.run(lambda stopped: self._work(work, stopped))

    def _work(self, work: Callable[[E], T], stopped: Event) -> T:
        """Run some work with the engine, in its thread; `stopped` is set when nobody waits for it any more."""
        if self._engine is None:
            self._engine = self._open()
        return work(self._engine)

    def _open(self) -> E:
        """The engine with its weights."""
        raise NotImplementedError

    def _release(self) -> None:
        self._engine = None

    def _generate(self, engine: E, requests: Sequence[Request], decoding: Any) -> list[Reply]:
        raise NotImplementedError

    def _score(self, engine: E, requests: Sequence[Request]) -> list[Scored]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Decoding:
    """Decoding options; without a temperature, the most likely token is taken."""

    max_new: int
    min_new: int = 0
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TransformersDecoding(Decoding):
    """Decoding options of `transformers` and vLLM."""

    eos_ids: tuple[int, ...] | None = None
    """None: the model's own."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of `transformers.GenerationConfig`."""

    @property
    def beams(self) -> int:
        return int(self.extra.get('num_beams') or 1)

    def room(self, length: int, limit: int | None) -> int:
        """How many tokens the answer to a prompt of `length` tokens may have, within a context of `limit`."""
        return self.max_new if limit is None else max(0, min(self.max_new, limit - length))


def cut_at_stop(text: str, stops: Iterable[str], *, after: int = 0) -> str | None:
    """The text before the first stop string that ends past character `after`, or None.

    >>> cut_at_stop('4\\n\\nQuestion: what', ['Question:', '\\n\\n'])
    '4'
    >>> cut_at_stop('4.', ['\\n']) is None
    True
    """
    places = [text.find(stop, max(0, after - len(stop) + 1)) for stop in stops if stop]
    hits = [place for place in places if place >= 0]
    return text[: min(hits)] if hits else None


def too_long_reply(length: int, limit: int | None) -> Reply:
    """The reply for a prompt that leaves no room for an answer."""
    reason = f'the prompt has {length} tokens, and the model takes {limit} with the answer.'
    return Reply('', 'too_long', reason, usage=Usage(input_tokens=length, output_tokens=0))


def separate_thinking(reply: Reply) -> Reply:
    """The reply with its reasoning moved out of the text.

    >>> separate_thinking(Reply('<think>2 and 2</think>4')).text
    '4'
    """
    answer, reasoning, exhausted = split_reasoning(reply.text, cut_off=reply.reason == 'length')
    return replace(
        reply, text=answer, reasoning=reasoning, outcome='thinking_exhausted' if exhausted else reply.outcome
    )


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """The token ids of a request, with the character ranges they cover (empty if the request was token ids)."""

    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PromptEncoder:
    """Turns requests into token ids. `begins`: prepend a BOS if the tokenizer adds one and the request has none.

    A chat template writes its own BOS: use `begins=False`.
    """

    tokenizer: Tokenizer
    begins: bool = True

    def encode(self, request: Request) -> TokenPrompt:
        """The ids of a request; special tokens written in the text become those tokens.

        Places in text with ids in it count each id as the characters of its token.
        """
        if isinstance(request, str):
            offsets = self.tokenizer.offsets(request)
            ids = [number for number, _, _ in offsets]
            bos = self._bos(ids)
            return TokenPrompt((*bos, *ids), (*((0, 0) for _ in bos), *((start, stop) for _, start, stop in offsets)))
        ids, ranges, at = [], [], 0
        is_mixed = {type(part) for part in request} >= {int, str}
        for part in request:
            if isinstance(part, Mapping):
                raise ModelError(
                    'this model takes text, not messages: its chat template was not found when the prompts were '
                    'rendered. Give chat_template in the model entry, or a path that contains tokenizer_config.json.'
                )
            if isinstance(part, int):
                ids.append(part)
                ranges.append((at, at + len(self.tokenizer.pieces([part])[0])) if is_mixed else (0, 0))
            elif is_mixed:
                tokens = self.tokenizer.offsets(part)
                ids += [number for number, _, _ in tokens]
                ranges += [(at + start, at + stop) for _, start, stop in tokens]
            else:
                ids += self.tokenizer.encode(part)
            at = ranges[-1][1] if ranges else 0
        bos = self._bos(ids)
        return TokenPrompt((*bos, *ids), (*((0, 0) for _ in bos), *ranges) if is_mixed else ())

    def _bos(self, ids: Sequence[int]) -> tuple[int, ...]:
        bos = self.tokenizer.bos_id
        wanted = self.begins and self.tokenizer.adds_bos and bos is not None and list(ids[:1]) != [bos]
        return (bos,) if wanted and bos is not None else ()


def decode_continuation(tokenizer: Tokenizer, before: Sequence[int], ids: Sequence[int]) -> str:
    """The text that `ids` add after `before`, including a leading space."""
    if not before:
        return tokenizer.decode(ids)
    anchor = before[-1:]
    start = tokenizer.decode(anchor)
    whole = tokenizer.decode([*anchor, *ids])
    return whole[len(start) :] if whole.startswith(start) else tokenizer.decode(ids)
