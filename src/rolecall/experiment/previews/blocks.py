"""A preview for people, in blocks (a text, each message or part of it) with the facts below, as tokens, and as JSON."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rolecall.core.program import fingerprint
from rolecall.core.prompts.multimodal import MediaUrl
from rolecall.core.prompts.pieces import Origin
from rolecall.core.render.spans import Span, join_spans
from rolecall.experiment.pairs.pair import Preview
from rolecall.models.tokenizers.tokenizer import Tokenizer
from rolecall.strings import count_noun, printable

_HAPPENED = {
    'fallback': 'fell back',
    'not_sent': 'not sent',
    'moved': 'moved',
    'merged': 'merged',
    'shots_dropped': 'dropped',
    'truncated': 'truncated',
    'too_long': 'not sent',
    'not_counted': 'context',
}
_BLANK = re.compile('[ \t\n\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]')
_MARKS = {' ': '·', '\t': '⇥\t', '\n': '⏎\n', '\u00a0': '⍽', '\u3000': '□□'}
_KEPT_OF_MEDIA = 60

SPECIAL_TOKEN = re.compile(
    r'<\|[^|<>\s]{1,40}\|>|<[｜|][^<>\s]{1,40}[｜|]>|</?(?:s|bos|eos|pad|unk|think|tool_call|start_of_turn|end_of_turn)>'
    r'|\[/?INST\]|<</?SYS>>|\[(?:BOS|EOS|PAD|UNK|CLS|SEP|MASK|gMASK|sMASK)\]|<eo[ha]>'
)
"""What tokenizers' special tokens commonly look like, for when no tokenizer is at hand."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the request under one heading."""

    heading: str
    spans: tuple[Span, ...]
    extra: str = ''
    """Further keys of a message, as JSON."""


def is_messages(preview: Preview) -> bool:
    """Whether the request consists of messages (or, without a model, of speeches)."""
    if preview.request is None:
        return not isinstance(preview.prompt, str)
    return isinstance(preview.request, list) and all(isinstance(entry, Mapping) for entry in preview.request)


def blocks_of(preview: Preview) -> list[Block]:
    """The blocks of a request, in order. Their spans are all the spans of the preview."""
    if not is_messages(preview):
        return [Block('text' if isinstance(preview.request, str) else 'text and token ids', preview.spans)]
    if preview.request is None:
        return list(_speech_blocks(preview))
    return [block for i, message in enumerate(preview.request) for block in _message_blocks(i, message, preview.spans)]


def _message_blocks(number: int, message: Any, spans: tuple[Span, ...]) -> Iterator[Block]:
    role = str(message.get('role', ''))
    extra = {key: value for key, value in message.items() if key not in ('role', 'content')}
    shown_extra = json.dumps(extra, ensure_ascii=False, default=str) if extra else ''
    own = [span for span in spans if span.message == number]
    parts = {span.part: None for span in own} or {None: None}
    content = message.get('content')
    for at, part in enumerate(parts):
        kind = '' if part is None else f' · {content[part].get("type", "part")}'
        mine = tuple(span for span in own if span.part == part)
        yield Block(f'{role}{kind}', mine, shown_extra if at == 0 else '')


def _speech_blocks(preview: Preview) -> Iterator[Block]:
    """Speeches as the dataset has them. Empty strings between speeches have spans, but no place in the prompt."""
    entries = list(preview.prompt)
    for number in dict.fromkeys(span.message for span in preview.spans):
        own = tuple(span for span in preview.spans if span.message == number)
        entry = entries[0] if entries else ''
        text = ''.join(join_spans(own).values())
        if not text and _words(entry):
            continue
        entries = entries[1:]
        yield Block(str(entry.get('role', '')) if isinstance(entry, Mapping) else 'nobody', own)


def _words(entry: Any) -> Any:
    return entry.get('prompt', entry.get('content')) if isinstance(entry, Mapping) else entry


def show_blanks(text: str) -> str:
    """The text with a mark for every space, tab and line break (which still breaks the line).

    >>> show_blanks('a b\\n')
    'a·b⏎\\n'
    """
    return _BLANK.sub(lambda match: _MARKS.get(match[0]) or f'⟨{unicodedata.name(match[0]).lower()}⟩', text)


def shorten_media(text: str) -> str:
    """A reference to media, short enough to read.

    >>> shorten_media('data:image/png;base64,' + 'A' * 5000)
    'data:image/png;base64,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA… (5,022 characters)'
    """
    if len(text) <= 2 * _KEPT_OF_MEDIA:
        return text
    return f'{text[:_KEPT_OF_MEDIA]}… ({len(text):,} characters)'


def split_matches(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, bool]]:
    """The text cut where the pattern matches; the flag says which stretches did.

    >>> list(split_matches('<s>Hi', SPECIAL_TOKEN))
    [('<s>', True), ('Hi', False)]
    """
    at = 0
    for match in pattern.finditer(text):
        if match.start() > at:
            yield text[at : match.start()], False
        if match.group():
            yield match.group(), True
        at = match.end()
    if at < len(text):
        yield text[at:], False


def title_of(preview: Preview) -> str:
    """Which request this is, in one line."""
    words = [f'{preview.dataset} × {preview.model or "no model"}', f'row {preview.row}', preview.mode]
    if preview.label is not None:
        words.append(f'label {preview.label}')
    if preview.turn is not None:
        words.append(f'turn {preview.turn}')
    return ' · '.join(words)


def facts_of(preview: Preview) -> Iterator[tuple[str, str]]:
    """Headings with their text."""
    for note, times in Counter(preview.notes).items():
        quoted = f' {note.text!r:.120}' if note.text else ''
        again = f' ({times} times)' if times > 1 else ''
        yield _HAPPENED[note.kind], f'{note.message}{quoted}{again}'
    if preview.shots:
        yield 'shots', f'{len(preview.shots)}: {_name_rows(preview.shots)}'
    if preview.skipped:
        yield 'skipped', f'{_name_rows(preview.skipped)}: the same as the row being asked about'
    hidden = dict.fromkeys(span.origin.name for span in preview.spans if span.origin.kind == 'masked')
    if hidden:
        yield 'hidden', ', '.join(name or 'the answer' for name in hidden)
    kinds = [span.origin.kind if span.message is None else '' for span in preview.spans]
    if 'sep' in kinds:  # a sep_token divides the text into context and answer
        before = sum(len(span.text) for span in preview.spans[: kinds.index('sep')])
        yield 'context', f'ends after character {before:,}'
    size = count_noun(sum(map(len, join_spans(preview.spans).values())), 'character')
    if isinstance(preview.request, list) and preview.spans and preview.spans[0].message is not None:
        size = f'{size} in {count_noun(len(preview.request), "message")}'
    yield 'size', size
    if preview.request is not None:
        yield 'fingerprint', fingerprint(preview.request)


def _name_rows(numbers: Sequence[int]) -> str:
    noun = 'training row' if len(numbers) == 1 else 'training rows'
    return f'{noun} {", ".join(map(str, numbers))}'


def as_json(preview: Preview) -> dict[str, Any]:
    """A preview in plain values (media references are written out by `json_line`)."""
    return {
        'dataset': preview.dataset,
        'model': preview.model,
        'row': preview.row,
        'mode': preview.mode,
        'label': preview.label,
        'turn': preview.turn,
        'prompt': preview.prompt,
        'request': preview.request,
        'spans': [span_as_json(span) for span in preview.spans],
        'notes': [{'kind': note.kind, 'message': note.message, 'text': note.text} for note in preview.notes],
        'shots': preview.shots,
        'shots_dropped': preview.shots_dropped,
        'sent': preview.sent,
        'skipped': preview.skipped,
        'fingerprint': None if preview.request is None else fingerprint(preview.request),
    }


def json_line(value: Mapping[str, Any]) -> str:
    """A value on one line, readable in any script.

    >>> json_line({'prompt': '你好\\n'})
    '{"prompt": "你好\\\\n"}'
    """
    return json.dumps(value, ensure_ascii=False, default=_plain)


def ascii_json(value: Mapping[str, Any]) -> str:
    """A value as JSON in ASCII, so that any text survives any transport, lone surrogates included."""
    return json.dumps(value, default=_plain)


def span_as_json(span: Span) -> dict[str, Any]:
    """A span in plain values."""
    origin = span.origin
    return {
        'text': span.text,
        'kind': origin.kind,
        'name': origin.name,
        'shot': origin.shot,
        'role': origin.role,
        'fallback': origin.fallback,
        **({'source': origin.source} if origin.source else {}),
        'message': span.message,
        'part': span.part,
        'token': span.token,
    }


def _plain(value: object) -> object:
    """Media references and other mappings as JSON types; anything else as text."""
    if isinstance(value, MediaUrl):
        return str(value)
    return dict(value) if isinstance(value, Mapping) else str(value)


_BOS = Origin('marker', 'BOS')


@dataclass(frozen=True, slots=True)
class TokenAt:
    """One token and where its first character comes from."""

    id: int
    text: str
    """Its characters; for a token id from the meta template, the tokenizer's piece."""
    piece: str
    origin: Origin
    message: int | None = None
    part: int | None = None
    crosses: bool = False
    """Whether it also holds characters of the next origin."""

    def as_line(self) -> str:
        """The token on one line, with its blanks visible."""
        return show_blanks(printable(self.piece)).replace('\n', '').replace('\t', '')


def tokens_of(spans: Iterable[Span], tokenizer: Tokenizer, *, with_bos: bool) -> Iterator[TokenAt]:
    """The tokens of spans. Text without token ids in it is tokenized as one; media are not text."""
    begun = not (with_bos and tokenizer.adds_bos and tokenizer.bos_id is not None)
    for (message, part, is_text), run in groupby(spans, key=lambda s: (s.message, s.part, _is_text(s))):
        for token in _run_tokens(list(run), tokenizer, message, part) if is_text else _tokens_of_ids(run, tokenizer):
            if not begun and token.id != tokenizer.bos_id and tokenizer.bos_id is not None:
                yield _token_of_id(tokenizer.bos_id, Span('', _BOS), tokenizer)
            begun = True
            yield token


def _is_text(span: Span) -> bool:
    return span.token is None and span.origin.kind != 'media'


def _tokens_of_ids(spans: Iterable[Span], tokenizer: Tokenizer) -> Iterator[TokenAt]:
    return (_token_of_id(span.token, span, tokenizer) for span in spans if span.token is not None)


def _token_of_id(id_: int, span: Span, tokenizer: Tokenizer) -> TokenAt:
    piece = tokenizer.pieces([id_])[0]
    return TokenAt(id_, piece, piece, span.origin, span.message, span.part)


def _run_tokens(
    spans: Sequence[Span], tokenizer: Tokenizer, message: int | None, part: int | None
) -> Iterator[TokenAt]:
    text = ''.join(str(span.text) for span in spans)
    offsets = tokenizer.offsets(text)
    pieces = tokenizer.pieces([id_ for id_, _, _ in offsets])
    rest = iter([span for span in spans if span.text])
    span = next(rest, None)
    stop_of_span = len(span.text) if span else 0
    for (id_, start, stop), piece in zip(offsets, pieces, strict=True):
        while span is not None and start >= stop_of_span and (following := next(rest, None)) is not None:
            span = following
            stop_of_span += len(span.text)
        origin = span.origin if span else Origin('text')
        yield TokenAt(id_, text[start:stop], piece, origin, message, part, crosses=stop > stop_of_span)
