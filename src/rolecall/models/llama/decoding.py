"""Answers to prompts, several streams at a time; a stream that has finished takes the next prompt.

Each answer has its own random generator, so answers decoded at the same time do not affect each other. Answers are
held to a JSON Schema by llguidance, which comes with llama.cpp: it says which tokens may follow. Fields come in the
order of the schema; what it does not know (such as `uniqueItems`) is checked when the answer is read.
"""

from __future__ import annotations

import codecs
import ctypes
import hashlib
import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from rolecall.models.llama import bindings
from rolecall.models.llama.streams import Ids, Streams
from rolecall.models.llama.vocabulary import LlamaVocabulary
from rolecall.models.local_engine import Decoding
from rolecall.models.protocol import ModelError, OnText, Reply, Usage

_FORM = {'whitespace_flexible': False, 'item_separator': ', ', 'key_separator': ': ', 'lenient': True}
"""On one line, as models write JSON by default; with free white space an answer might never end."""
_LOG_TO_STDERR = 12
"""Where the level of messages on stderr stands among the settings of a matcher."""


class _Tokens(ctypes.Structure):
    """`LlgTokenizerInit`."""

    _fields_ = (
        ('vocab_size', ctypes.c_uint32),
        ('tok_eos', ctypes.c_uint32),
        ('token_lens', ctypes.c_void_p),
        ('token_bytes', ctypes.c_char_p),
        ('tokenizer_json', ctypes.c_char_p),
        ('tokenize_assumes_string', ctypes.c_bool),
        ('tokenize_fn', ctypes.c_void_p),
        ('use_approximate_greedy_tokenize_fn', ctypes.c_bool),
        ('tokenize_user_data', ctypes.c_void_p),
        ('slices', ctypes.c_void_p),
    )


_SETTINGS_OF: WeakKeyDictionary[LlamaVocabulary, bindings.Parameters] = WeakKeyDictionary()


def _read_settings(vocabulary: LlamaVocabulary) -> bindings.Parameters:
    """The settings of a matcher for a vocabulary; its tokens are handed over once."""
    if vocabulary not in _SETTINGS_OF:
        native = bindings.library()
        # The byte 0xFF, which is in no text, marks control tokens.
        pieces = [b'\xff' * vocabulary.is_control(id_) + vocabulary.bytes_of(id_) for id_ in range(vocabulary.size)]
        lengths = (ctypes.c_uint32 * len(pieces))(*map(len, pieces))
        tokens = _Tokens(len(pieces), _end_of(vocabulary), ctypes.addressof(lengths), b''.join(pieces))
        tokens.use_approximate_greedy_tokenize_fn = True
        why = ctypes.create_string_buffer(400)
        tokenizer = native.llg_new_tokenizer(ctypes.byref(tokens), why, len(why))
        if not tokenizer:
            raise ModelError(f'answers of this model cannot be held to a JSON schema: {why.value.decode()}.')
        settings = bindings.Parameters()
        native.llg_constraint_init_set_defaults(ctypes.byref(settings), tokenizer)
        ctypes.c_uint32.from_buffer(settings, _LOG_TO_STDERR).value = 0
        _SETTINGS_OF[vocabulary] = settings
    return _SETTINGS_OF[vocabulary]


def _end_of(vocabulary: LlamaVocabulary) -> int:
    return vocabulary.eos_id if vocabulary.eos_id is not None else vocabulary.ends[0]


class AnswerGrammar:
    """The state of one answer within a JSON Schema."""

    def __init__(self, vocabulary: LlamaVocabulary, schema: Any) -> None:
        self._native = bindings.library()
        self._vocabulary = vocabulary
        text = json.dumps({**schema, 'x-guidance': _FORM} if isinstance(schema, Mapping) else schema)
        settings = ctypes.byref(_read_settings(vocabulary))
        self._matcher = self._native.llg_new_matcher(settings, b'json_schema', text.encode())
        self._check()

    def __del__(self) -> None:
        matcher, self._matcher = getattr(self, '_matcher', None), None
        if matcher:
            self._native.llg_free_matcher(matcher)

    def mask(self, logits: npt.NDArray[np.float32], *, greedy: bool) -> npt.NDArray[np.float32]:
        """The logits without the tokens that cannot come next. Where only the best counts, it is looked at first."""
        self._native.llg_matcher_compute_mask(self._matcher)
        self._check()
        size = self._native.llg_matcher_get_mask_byte_size(self._matcher)
        bits = np.ctypeslib.as_array(self._native.llg_matcher_get_mask(self._matcher), (size,))
        best = int(logits.argmax())
        if greedy and bits[best >> 3] >> (best & 7) & 1:
            return logits
        allowed = np.unpackbits(bits, bitorder='little')[: len(logits)].astype(bool)
        allowed[list(self._vocabulary.ends)] = allowed[_end_of(self._vocabulary)]
        masked: npt.NDArray[np.float32] = np.where(allowed, logits, np.float32(-np.inf))
        return masked

    def accept(self, token: int) -> None:
        """This token came next."""
        if token not in self._vocabulary.ends:
            self._native.llg_matcher_consume_token(self._matcher, token)
            self._check()

    def _check(self) -> None:
        if why := self._native.llg_matcher_get_error(self._matcher):
            raise ModelError(f'the JSON schema of the answer cannot be used: {why.decode(errors="replace")}.')


@dataclass(frozen=True, slots=True)
class LlamaDecoding(Decoding):
    """Decoding options of the embedded engine."""

    ignore_eos: bool = False
    schema: Any = None
    """The JSON Schema of answers."""


def random_generator(decoding: Decoding, ids: Ids, *, sample: int) -> np.random.Generator | None:
    """The random generator of an answer; None for greedy decoding.

    The seed, the prompt and the sample number (within one call) determine the result.
    """
    if not decoding.temperature:
        return None
    if decoding.seed is None:
        return np.random.default_rng()
    prompt = hashlib.sha256(ids.tobytes()).digest()
    return np.random.default_rng([decoding.seed & (1 << 64) - 1, sample, int.from_bytes(prompt[:8], 'little')])


def draw_token(logits: npt.NDArray[np.float32], decoding: Decoding, chance: np.random.Generator | None) -> int:
    """The next token: temperature first, then `top_k`, `top_p` and `min_p`.

    >>> draw_token(np.array([0, 3, 1], np.float32), Decoding(9), None)
    1
    >>> draw_token(np.array([0, 3, 1], np.float32), Decoding(9, temperature=1, top_k=1), np.random.default_rng(0))
    1
    """
    if chance is None or not decoding.temperature:
        return int(logits.argmax())
    order = np.argsort(-logits, kind='stable')
    if decoding.top_k and decoding.top_k > 0:
        order = order[: decoding.top_k]
    scaled = logits[order].astype(np.float64) / decoding.temperature
    weights = np.exp(scaled - scaled[0])
    if decoding.top_p is not None and decoding.top_p < 1:
        before = np.cumsum(weights) - weights
        weights[1:][before[1:] >= decoding.top_p * weights.sum()] = 0
    if decoding.min_p:
        weights[weights < decoding.min_p * weights[0]] = 0
    bounds = np.cumsum(weights)
    place = int(np.searchsorted(bounds, chance.random() * bounds[-1], side='right'))
    return int(order[min(place, int(np.flatnonzero(weights)[-1]))])


class GrowingAnswer:
    """An answer being generated. `on_text` receives its text, except for what may be the start of a stop string."""

    def __init__(
        self, vocabulary: LlamaVocabulary, decoding: LlamaDecoding, *, room: int, on_text: OnText | None = None
    ) -> None:
        """`room`: the number of tokens left in the context."""
        self._vocabulary = vocabulary
        self._answering = decoding
        self._room = room
        self._grammar = None if decoding.schema is None else AnswerGrammar(vocabulary, decoding.schema)
        self._stops = [stop.encode() for stop in decoding.stops if stop]
        self._longest = max(map(len, self._stops), default=0)
        self._data = bytearray()
        self._on_text = on_text
        self._sent = 0
        self._decoder = codecs.getincrementaldecoder('utf-8')(errors='replace')
        self.tokens = 0
        self.ended = ''
        """Why it ended: `stop`, `length` or `room`; empty until then."""

    @property
    def text(self) -> str:
        """The text so far, without an incomplete last character; invalid bytes are U+FFFD."""
        return codecs.getincrementaldecoder('utf-8')(errors='replace').decode(bytes(self._data))

    def mask_logits(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The logits, with tokens that are not allowed yet masked."""
        if self._grammar is not None:
            return self._grammar.mask(logits, greedy=not self._answering.temperature)
        if not self._answering.ignore_eos and self.tokens >= self._answering.min_new:
            return logits
        ruled: npt.NDArray[np.float32] = logits.copy()
        ruled[list(self._vocabulary.ends)] = -np.inf
        return ruled

    def add(self, token: int) -> None:
        """Add the next token; `ended` says whether it was the last."""
        self.tokens += 1
        if self._grammar is not None:
            self._grammar.accept(token)
        vocabulary = self._vocabulary
        piece = vocabulary.bytes_of(token)
        if token in vocabulary.ends or (vocabulary.is_control(token) and _find_stop(piece, self._stops) is not None):
            self.ended = 'stop'
            return
        if not vocabulary.is_control(token):
            searched = max(0, len(self._data) - self._longest + 1)
            self._data += piece
            place = _find_stop(self._data, self._stops, searched)
            if place is not None:
                del self._data[place:]
                self.ended = 'stop'
                return
            if self._on_text is not None:
                self._send_text(self._on_text)
        if self.tokens >= self._answering.max_new:
            self.ended = 'length'
        elif self.tokens >= self._room:
            self.ended = 'room'

    def _send_text(self, on_text: OnText) -> None:
        sure = len(self._data) - max((_partial_stop_length(self._data, stop) for stop in self._stops), default=0)
        text = self._decoder.decode(bytes(self._data[self._sent : sure]))
        self._sent = max(self._sent, sure)
        if text:
            on_text(text)


def _partial_stop_length(data: bytearray, stop: bytes) -> int:
    """How many bytes at the end of the data may be the start of a stop string."""
    lengths = range(min(len(data), len(stop) - 1), 0, -1)
    return next((length for length in lengths if data.endswith(stop[:length])), 0)


def _find_stop(data: bytes | bytearray, stops: Sequence[bytes], start: int = 0) -> int | None:
    places = [place for stop in stops if (place := data.find(stop, start)) >= 0]
    return min(places, default=None)


@dataclass(slots=True, eq=False)
class _Running:
    """A prompt being answered in one stream."""

    number: int
    prompt: Ids
    reused: int
    writing: GrowingAnswer
    chance: np.random.Generator | None
    begun: float
    token: int = -1

    @property
    def place(self) -> int:
        return len(self.prompt) + self.writing.tokens - 1

    def take(self, logits: npt.NDArray[np.float32], decoding: LlamaDecoding) -> None:
        self.token = draw_token(self.writing.mask_logits(logits), decoding, self.chance)
        self.writing.add(self.token)


def generate_replies(
    streams: Streams,
    vocabulary: LlamaVocabulary,
    prompts: Sequence[Ids],
    decoding: LlamaDecoding,
    *,
    parallel: int,
    limit: int,
    on_text: OnText | None = None,
) -> list[Reply]:
    """One reply per prompt, in order; prompts with a common prefix are taken one after the other.

    `on_text` is called with the text of the only answer while it is generated.
    """
    replies = {number: reply for number, ids in enumerate(prompts) if (reply := _refuse_prompt(ids, limit)) is not None}
    waiting = deque(sorted(set(range(len(prompts))) - replies.keys(), key=lambda number: prompts[number].tolist()))
    if not waiting:
        return [replies[number] for number in range(len(prompts))]
    longest = max(len(prompts[number]) for number in waiting)
    streams.make_room(streams=min(parallel, len(waiting)), cells=min(limit, longest + decoding.max_new))
    samples = _count_repeats(prompts)
    free = list(range(min(parallel, len(streams.cached))))
    running: dict[int, _Running] = {}
    while waiting or running:
        while waiting and free:
            stream = free.pop(0)
            number = waiting.popleft()
            ids = prompts[number]
            begun = time.perf_counter()
            writing = GrowingAnswer(vocabulary, decoding, room=limit - len(ids), on_text=on_text)
            chance = random_generator(decoding, ids, sample=samples[number])
            answer = _Running(number, ids, streams.place(stream, ids), writing, chance, begun)
            for _, rows in streams.feed(stream, ids, last_only=True):
                if len(rows):
                    answer.take(rows[-1], decoding)
            running[stream] = answer
            _collect(running, replies, free, limit)
        order = sorted(running)
        if order:
            ones = [running[stream] for stream in order]
            rows = streams.step([answer.token for answer in ones], [answer.place for answer in ones], order)
            for answer, row in zip(ones, rows, strict=True):
                answer.take(row, decoding)
        _collect(running, replies, free, limit)
    return [replies[number] for number in range(len(prompts))]


def _collect(running: dict[int, _Running], replies: dict[int, Reply], free: list[int], limit: int) -> None:
    """Move finished answers out of their streams."""
    for stream in [stream for stream, answer in running.items() if answer.writing.ended]:
        answer = running.pop(stream)
        replies[answer.number] = _reply(answer, limit)
        free.append(stream)
    free.sort()


def _reply(answer: _Running, limit: int) -> Reply:
    usage = Usage(
        input_tokens=len(answer.prompt),
        output_tokens=answer.writing.tokens,
        cached_tokens=answer.reused,
        seconds=time.perf_counter() - answer.begun,
    )
    if answer.writing.ended == 'room':
        why = f'the context of {limit} tokens was full after {answer.writing.tokens} tokens of the answer'
        return Reply(answer.writing.text, 'too_long', why, usage=usage)
    return Reply(answer.writing.text, reason=answer.writing.ended, usage=usage)


def _refuse_prompt(ids: Ids, limit: int) -> Reply | None:
    usage = Usage(input_tokens=len(ids), output_tokens=0)
    if not len(ids):
        return Reply('', 'failed', 'the prompt is empty and the model has no BOS token', usage=usage)
    if len(ids) >= limit:
        why = f'the prompt has {len(ids)} tokens; the context of {limit} leaves no room for an answer'
        return Reply('', 'too_long', why, usage=usage)
    return None


def _count_repeats(prompts: Sequence[Ids]) -> list[int]:
    """For each prompt, how many identical ones come before it."""
    counts: dict[bytes, int] = {}
    repeats = []
    for ids in prompts:
        key = ids.tobytes()
        repeats.append(counts.get(key, 0))
        counts[key] = repeats[-1] + 1
    return repeats
