"""Log-probabilities of a prompt's own tokens, as servers give them back.

Some servers accept the request but return only the generated token, or nothing for the prompt. That would
make every label equally likely, so it is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rolecall.checking import is_number, is_whole
from rolecall.models.openai.wire import read_usage
from rolecall.models.protocol import Scored
from rolecall.models.tokenizers.tokenizer import Tokenizer

_TOKEN_ID = re.compile(r'token_id:(\d+)')
_BROKEN = ('�', 'bytes:')
UNKNOWN = -1
_LARGEST = 3.4e38
"""Scores are stored in single precision."""


class NoPromptLogprobsError(ValueError):
    """The server's reply has no log-probabilities of the prompt."""


def read_echo(
    answer: Mapping[str, Any], *, prompt: str | Sequence[int], tokenizer: Tokenizer | None = None, seconds: float = 0.0
) -> Scored:
    """The scores in a /completions reply to `echo` with `logprobs`, without the generated token."""
    echoed = answer['choices'][0].get('logprobs') or {}
    tokens, logprobs = echoed.get('tokens') or [], echoed.get('token_logprobs') or []
    size = _prompt_size(answer, prompt, tokens)
    if size is None or not size <= len(tokens) == len(logprobs):
        raise NoPromptLogprobsError(f'{len(logprobs)} log-probabilities for a prompt of {size or "more"} tokens')
    tokens = tokens[:size]
    ids = [int(match[1]) if (match := _TOKEN_ID.fullmatch(token)) else UNKNOWN for token in tokens]
    texts = [None if token_id != UNKNOWN else token for token_id, token in zip(ids, tokens, strict=True)]
    scored = _collect_scored(answer, ids, texts, logprobs[:size], prompt=prompt, tokenizer=tokenizer, seconds=seconds)
    return replace(scored, greedy=_find_greedy(logprobs[:size], echoed.get('top_logprobs')))


def _find_greedy(logprobs: Sequence[float | None], tops: Any) -> tuple[bool, ...]:
    """Which tokens are the likeliest of those that the server lists at their place; empty if it lists none."""
    if not isinstance(tops, list) or len(tops) < len(logprobs) or not all(map(_lists_tokens, tops[1 : len(logprobs)])):
        return ()
    pairs = zip(logprobs[1:], tops[1:], strict=False)
    return (False, *(own is not None and own >= max(top.values()) for own, top in pairs))


def _lists_tokens(top: Any) -> bool:
    return isinstance(top, Mapping) and bool(top) and all(map(_is_logprob, top.values()))


def _prompt_size(answer: Mapping[str, Any], prompt: str | Sequence[int], tokens: Sequence[str]) -> int | None:
    size = (answer.get('usage') or {}).get('prompt_tokens')
    if isinstance(size, int):
        return size
    if not isinstance(prompt, str):
        return len(prompt)
    length, size = 0, 0
    for token in tokens:
        if length >= len(prompt):
            return size
        length, size = length + len(token), size + 1
    return size if length >= len(prompt) else None


def read_prompt_logprobs(
    answer: Mapping[str, Any],
    *,
    prompt: str | Sequence[int] | None,
    tokenizer: Tokenizer | None = None,
    seconds: float = 0.0,
) -> Scored:
    """The scores in a reply to `prompt_logprobs`: one entry per token, keyed by its id, the first empty."""
    choice = answer['choices'][0]
    entries = answer.get('prompt_logprobs') or choice.get('prompt_logprobs')
    if not entries:
        raise NoPromptLogprobsError('no prompt_logprobs in it')
    reported_ids = choice.get('prompt_token_ids') or answer.get('prompt_token_ids')
    prompt_ids = reported_ids or (None if isinstance(prompt, str) else prompt)
    ids: list[int] = []
    texts: list[str | None] = []
    logprobs: list[float | None] = []
    ranks: list[Any] = []
    for place, entry in enumerate(entries):
        key = _own_key(entry, prompt_ids[place] if prompt_ids else None)
        ids.append(UNKNOWN if key is None else int(key))
        texts.append(None if key is None else entry[key].get('decoded_token'))
        logprobs.append(None if key is None else entry[key]['logprob'])
        ranks.append(None if key is None else entry[key].get('rank'))
    ids = list(reported_ids) if reported_ids else ids
    scored = _collect_scored(answer, ids, texts, logprobs, prompt=prompt, tokenizer=tokenizer, seconds=seconds)
    known_ranks = all(is_whole(rank, least=1) for rank in ranks[1:])
    return replace(scored, greedy=(False, *(rank == 1 for rank in ranks[1:])) if ranks and known_ranks else ())


def _own_key(entry: Mapping[str, Any] | None, token_id: int | None) -> str | None:
    """Which of an entry's tokens is the prompt's: the one with the known id, else the first."""
    if not entry:
        return None
    return str(token_id) if token_id is not None and str(token_id) in entry else next(iter(entry))


def _collect_scored(
    answer: Mapping[str, Any],
    ids: Sequence[int],
    texts: Sequence[str | None],
    logprobs: Sequence[float | None],
    *,
    prompt: str | Sequence[int] | None,
    tokenizer: Tokenizer | None,
    seconds: float,
) -> Scored:
    if any(logprob is None for logprob in logprobs[1:]):
        raise NoPromptLogprobsError('its tokens have none')
    if not all(_is_logprob(logprob) for logprob in logprobs[1:]):
        raise ValueError('a log-probability is not a number from -3.4e38 to 3.4e38')
    if not all(is_whole(token, least=UNKNOWN, most=2**31 - 1) for token in ids):
        raise ValueError('a token id is not a whole number below 2**31')
    offsets: tuple[tuple[int, int], ...] = ()
    if prompt is not None and not isinstance(prompt, str):
        ids = list(prompt) if len(prompt) == len(ids) else ids
    elif prompt is not None:
        own = None if tokenizer is None else _own_tokens(tokenizer, prompt, ids)
        offsets = place_tokens(texts, prompt) if own is None else own[1]
        ids = ids if own is None else own[0]
    first = (None,) if logprobs else ()
    return Scored(tuple(ids), (*first, *logprobs[1:]), offsets, read_usage(answer.get('usage'), seconds))


def _is_logprob(value: object) -> bool:
    return is_number(value, least=-_LARGEST, most=_LARGEST) or value == -math.inf


def _own_tokens(
    tokenizer: Tokenizer, prompt: str, ids: Sequence[int]
) -> tuple[list[int], tuple[tuple[int, int], ...]] | None:
    """Ids and ranges from the model's own tokenizer, if it splits the prompt as the server did."""
    cut = tokenizer.offsets(prompt)
    own, places = [token for token, _, _ in cut], [(start, stop) for _, start, stop in cut]
    if tokenizer.adds_bos and tokenizer.bos_id is not None and len(ids) == len(own) + 1:
        own, places = [tokenizer.bos_id, *own], [(0, 0), *places]
    same = len(own) == len(ids) and all(reported in (mine, UNKNOWN) for reported, mine in zip(ids, own, strict=True))
    return (own, tuple(places)) if same else None


def place_tokens(tokens: Sequence[str | None], text: str) -> tuple[tuple[int, int], ...]:
    """The character range of each token; empty if the tokens do not add up to the text.

    The first may be a marker that is not in the text, or unknown. Of a character that is split over several tokens the
    first has it and the others are empty.

    >>> place_tokens(['<s>', 'One', ' two'], 'One two')
    ((0, 0), (0, 3), (3, 7))
    >>> place_tokens([None, ' two'], 'One two')
    ((0, 3), (3, 7))
    """
    places: list[tuple[int, int]] = []
    stop = len(text)
    waiting = 0
    for token in reversed(tokens[1:]):
        if token is None:
            return ()
        if any(sign in token for sign in _BROKEN):
            waiting += 1
            continue
        end = _end_before(token, text, stop, waiting)
        if end is None:
            return ()
        places += [*[(stop, stop)] * (waiting - 1), *[(end, stop)] * (waiting > 0)]
        stop, waiting = end - len(token), 0
        places.append((stop, end))
    first = tokens[0] if tokens else ''
    if waiting:
        end = len(first) if first and text.startswith(first) else 0
        if not 0 < stop - end <= waiting:
            return ()
        places += [*[(stop, stop)] * (waiting - 1), (end, stop)]
        stop = end
    return ((0, stop), *reversed(places)) if stop == 0 or first is None or first == text[:stop] else ()


def _end_before(token: str, text: str, stop: int, waiting: int) -> int | None:
    """Where a token ends: at `stop`, or before as many characters as tokens with parts of characters follow it."""
    nearest = stop - (waiting > 0)
    for end in range(nearest, max(stop - waiting, 0) - 1, -1):
        if text.endswith(token, 0, end):
            return end
    return None
