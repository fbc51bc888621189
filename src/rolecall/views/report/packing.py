"""The rows of a run as compact JSON for the page: every text that occurs more than once is written once.

Few-shot prompts share most of their words, so a row costs little more than what is its own. What would make the page
too large is left out, and counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rolecall.prompts.multimodal import MediaUrl
from rolecall.prompts.pieces import Origin
from rolecall.render.spans import Request, Span
from rolecall.runs.results import Result
from rolecall.views.blocks import blocks_of, is_messages
from rolecall.views.looks import group_of, label_of, style_of
from rolecall.views.report.source import Sent
from rolecall.views.report.tally import VERDICTS, Pair, verdict_of
from rolecall.views.report.words import OUTCOMES
from rolecall.views.visible import shortened

__all__ = ['Packer', 'packed']

_UNSAFE = re.compile('[<>&\u2028\u2029\ud800-\udfff]')
_PARAGRAPH = re.compile(r'.+?(?:\n\n+|\Z)', re.DOTALL)
_LONGEST = 30_000
_OUTCOMES = tuple(OUTCOMES)
_UNKNOWN: list[Any] = ['', 'as sent', '', 0]


def packed(value: Any) -> str:
    """A value as JSON that may stand inside a script element, whatever its texts say.

    >>> packed({'reply': '</script><script>'})
    '{"reply":"\\\\u003c/script\\\\u003e\\\\u003cscript\\\\u003e"}'
    """
    written = json.dumps(value, ensure_ascii=False, separators=(',', ':'), default=_plain, allow_nan=False)
    return _UNSAFE.sub(lambda found: f'\\u{ord(found.group()):04x}', written)


def _plain(value: object) -> object:
    if isinstance(value, MediaUrl):
        return str(value)
    try:
        return dict(value)  # type: ignore[call-overload]  # a mapping of another class; anything else is refused here
    except (TypeError, ValueError):
        return str(value)


@dataclass(slots=True)
class Packer:
    """Takes rows until the share of their dataset × model is full. `share` counts bytes."""

    share: int
    rows: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    origins: list[list[Any]] = field(default_factory=lambda: [_UNKNOWN])
    left_out: Counter[Pair] = field(default_factory=Counter)
    pairs: dict[Pair, int] = field(default_factory=dict)
    _used: Counter[Pair] = field(default_factory=Counter)
    _text_numbers: dict[str, int] = field(default_factory=dict)
    _origin_numbers: dict[Origin, int] = field(default_factory=dict)
    _charged: int = 0

    def has_room(self, pair: Pair) -> bool:
        """Whether another row of this pair would be taken."""
        return self._used[pair] < self.share

    def skip(self, pair: Pair) -> None:
        """Count a row that is not taken."""
        self.left_out[pair] += 1

    def add(self, result: Result, sent: Iterable[Sent]) -> int | None:
        """Take one row; the number of characters that were sent for it, if that is known."""
        pair = (result.dataset, result.model)
        self._charged = 0
        prompts = [self._prompt(one) for one in sent]
        row = packed(
            [
                self.pairs.setdefault(pair, len(self.pairs)),
                result.row,
                _OUTCOMES.index(result.outcome),
                VERDICTS.index(verdict_of(result)),
                _finite(result.score),
                [prompt for prompt, _ in prompts],
                [_cut(reply) for reply in result.replies],
                [_cut(thought) for thought in result.reasoning],
                _answer(result.prediction) if _says_more(result) else None,
                _answer(result.extracted),
                _answer(result.gold),
                _cut(result.reason),
                _more(result),
            ]
        )
        self.rows.append(row)
        self._used[pair] += _bytes(row) + self._charged
        return sum(size for _, size in prompts) if prompts else None

    def _prompt(self, sent: Sent) -> tuple[list[Any], int]:
        """One request: a title, what to know about it, and its blocks."""
        if sent.preview is None:
            blocks = list(_stored_blocks(sent))
            packed_blocks = [[heading, extra, self._plain_runs(text)] for heading, extra, text in blocks]
            return ['', 1 if sent.changed else 2, packed_blocks], sum(len(text) for _, _, text in blocks)
        preview = sent.preview
        title = '' if preview.label is None else f'label {preview.label}'
        title = title if preview.turn is None else f'turn {preview.turn}'
        headed = is_messages(preview)
        found = [
            [block.heading if headed else '', block.extra, self._runs(block.spans)] for block in blocks_of(preview)
        ]
        return [title, 0, found], sum(len(span.text) for span in preview.spans)

    def _runs(self, spans: Iterable[Span]) -> list[int]:
        runs: list[int] = []
        for span in spans:
            text = f'<{span.token}>' if span.token is not None else _span_text(span)
            if text:
                runs += (self._text(text), self._origin(span.origin))
        return runs

    def _plain_runs(self, text: str) -> list[int]:
        """A stored text by paragraphs, so that those that prompts share are written once."""
        runs: list[int] = []
        for paragraph in _PARAGRAPH.findall(text):
            runs += (self._text(_cut(paragraph)), 0)
        return runs

    def _text(self, text: str) -> int:
        number = self._text_numbers.get(text)
        if number is None:
            number = self._text_numbers[text] = len(self.texts)
            self.texts.append(packed(text))
            self._charged += _bytes(self.texts[-1])
        return number

    def _origin(self, origin: Origin) -> int:
        number = self._origin_numbers.get(origin)
        if number is None:
            number = self._origin_numbers[origin] = len(self.origins)
            asked = origin.shot is None and origin.kind == 'field'
            self.origins.append([style_of(origin), label_of(origin), group_of(origin), int(asked)])
        return number


def _span_text(span: Span) -> str:
    return shortened(str(span.text)) if span.origin.kind == 'media' else _cut(str(span.text))


def _stored_blocks(sent: Sent) -> Iterator[tuple[str, str, str]]:
    """Heading, further keys and text of each message; one block for a text or token ids."""
    if not sent.messages:
        yield '', '', _as_text(sent.request)
        return
    for message in sent.messages:
        extra = {key: value for key, value in message.items() if key not in ('role', 'content')}
        content = message.get('content')
        text = content if isinstance(content, str) else '\n'.join(map(_part_text, _parts(content)))
        yield str(message.get('role', '')), json.dumps(extra, ensure_ascii=False, default=str) if extra else '', text


def _parts(content: object) -> list[Any]:
    return list(content) if isinstance(content, (list, tuple)) else []


def _part_text(part: Any) -> str:
    text = part.get('text') if isinstance(part, dict) else None
    return text if isinstance(text, str) else shortened(json.dumps(part, ensure_ascii=False, default=str))


def _as_text(request: Request | None) -> str:
    if isinstance(request, str):
        return request
    return ''.join(f'<{entry}>' if isinstance(entry, int) else str(entry) for entry in request or ())


def _says_more(result: Result) -> bool:
    """Whether the prediction says anything that neither the replies nor the extracted answer say."""
    return result.prediction not in (*result.replies, list(result.replies), result.extracted)


def _answer(value: object) -> str | None:
    """An answer as text: a text as it is, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value if value is None else _cut(value)
    return _cut(json.dumps(value, ensure_ascii=False, default=str))


def _more(result: Result) -> dict[str, Any]:
    """What else is known of a row; what is not known is left away."""
    more = {
        'seconds': _finite(result.seconds),
        'in': result.input_tokens,
        'out': result.output_tokens,
        'shots': list(result.shots),
        'dropped': result.shots_dropped,
        'cluster': result.cluster,
        'fingerprint': result.fingerprint,
        'details': _cut(json.dumps(dict(result.details), ensure_ascii=False, indent=1, default=str))
        if result.details
        else None,
    }
    return {name: value for name, value in more.items() if value not in (None, '', 0, [])}


def _finite(number: float | None) -> float | None:
    return number if number is not None and abs(number) < float('inf') else None


def _cut(text: str) -> str:
    """A text without its middle where it is very long; it says so."""
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f'{text[:half]}\n[… {len(text) - 2 * half:,} characters left out of this report …]\n{text[-half:]}'


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode('utf-8', 'surrogatepass'))
