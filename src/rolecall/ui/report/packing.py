"""The rows of a run as compact JSON for the page: every text that occurs more than once is written once.

Few-shot prompts share most of their words, so a row adds little more than its own text. Rows that would make the page
too large are left out, and counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import Any

from rolecall.core.prompts.pieces import Origin, label_of
from rolecall.core.render.spans import Span
from rolecall.experiment.previews.blocks import blocks_of, is_messages, shorten_media
from rolecall.insight.run_source import SentRequest
from rolecall.runs.store.results import Result, SettledRows
from rolecall.scoring.reading_choice import word_other_verdict
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.report.counts import VERDICTS, Pair, verdict_of
from rolecall.ui.report.score_text import OUTCOMES
from rolecall.ui.views.looks import groups_in, style_of


class RowSample:
    """Up to `most` rows of each dataset × model: half spread over all of its rows, half over those that are not right.

    >>> sample = RowSample(4)
    >>> for row in range(100):
    ...     sample.add(Result('d', 'm', row, 'ok', correct=row % 10 != 3))
    >>> list(sample.rows()), sample.left_out
    ([('d', 'm', 0), ('d', 'm', 3), ('d', 'm', 64), ('d', 'm', 83)], Counter({('d', 'm'): 96}))
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: dict[Pair, _Spread] = {}
        self._wrong: dict[Pair, _Spread] = {}
        self._totals: Counter[Pair] = Counter()

    def add(self, result: Result | SettledRows) -> None:
        """See a row, or many."""
        pair = (result.dataset, result.model)
        if isinstance(result, SettledRows):
            wrong = [row for row, right in zip(result.rows, result.correct, strict=True) if right == 0]
            self._see(pair, result.rows, wrong)
        else:
            self._see(pair, [result.row], [result.row] if result.correct is False or result.outcome != 'ok' else [])

    def _see(self, pair: Pair, rows: Sequence[int], wrong: Sequence[int]) -> None:
        self._totals[pair] += len(rows)
        self._all.setdefault(pair, _Spread(self._most)).see(rows)
        self._wrong.setdefault(pair, _Spread(self._most // 2)).see(wrong)

    @property
    def left_out(self) -> Counter[Pair]:
        """How many rows of each dataset × model are not shown."""
        included = Counter((dataset, model) for dataset, model, _ in self.rows())
        return Counter({pair: total - included[pair] for pair, total in self._totals.items() if total > included[pair]})

    def rows(self) -> Iterator[tuple[str, str, int]]:
        """The rows to show, in order."""
        for pair, total in self._totals.items():
            if total <= self._most:
                chosen = self._all[pair].rows
            else:
                half = self._most - self._most // 2
                spread = self._all[pair].rows
                evenly = spread[:: -(-len(spread) // half)]
                chosen = list(dict.fromkeys(merge(evenly, self._wrong[pair].rows)))
            yield from ((*pair, row) for row in chosen)


class _Spread:
    """Keeps at most `most` of the numbers it sees, evenly spread: every one, every second, every fourth, …"""

    def __init__(self, most: int) -> None:
        self._most = most
        self._step = 1
        self._count = 0
        self.rows: list[int] = []

    def see(self, rows: Sequence[int]) -> None:
        self.rows += rows[-self._count % self._step :: self._step]
        self._count += len(rows)
        while len(self.rows) > self._most:
            self.rows = self.rows[::2]
            self._step *= 2


_UNSAFE = re.compile('[<>&\u2028\u2029\ud800-\udfff]')
_PARAGRAPH = re.compile(r'.+?(?:\n\n+|\Z)', re.DOTALL)
_LONGEST = 30_000
_ASKED, _IN_A_SHOT = 1, 2
_UNKNOWN: list[Any] = ['', 'as sent', '', 0, '']


def pack(value: Any) -> str:
    """A value as JSON that is safe inside a script element, whatever its texts contain.

    >>> pack({'reply': '</script><script>'})
    '{"reply":"\\\\u003c/script\\\\u003e\\\\u003cscript\\\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(',', ':'), allow_nan=False)
    return _UNSAFE.sub(lambda match: f'\\u{ord(match.group()):04x}', text)


@dataclass(slots=True)
class Packer:
    """Takes rows as long as there is room, in bytes.

    One half of the room is shared evenly by the datasets × models. The other half is lent to those that need more, to
    each at most as much as is left after it, so that none can crowd out the rest.
    """

    share: int
    pool: int
    rows: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    origins: list[list[Any]] = field(default_factory=lambda: [_UNKNOWN])
    left_out: Counter[Pair] = field(default_factory=Counter)
    pairs: dict[Pair, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=lambda: {outcome: at for at, outcome in enumerate(OUTCOMES)})
    _used: Counter[Pair] = field(default_factory=Counter)
    _lent: Counter[Pair] = field(default_factory=Counter)
    _text_numbers: dict[str, int] = field(default_factory=dict)
    _origin_numbers: dict[Origin, int] = field(default_factory=dict)
    _charged: int = 0

    def has_room(self, pair: Pair) -> bool:
        """Whether another row of this pair would be taken."""
        return self._used[pair] < self.share or self._lent[pair] < self.pool

    def sort_as(self, cards: Iterable[Scorecard]) -> None:
        """List rows in the order of the scores, dataset by dataset."""
        for card in cards:
            if not card.members:
                self.pairs.setdefault((card.dataset, card.model), len(self.pairs))

    def skip(self, pair: Pair) -> None:
        """Count a row that is not taken."""
        self.left_out[pair] += 1

    def add(
        self, result: Result, sent: Iterable[SentRequest], judged: Iterable[tuple[SentRequest, str]] = ()
    ) -> int | None:
        """Take one row, and what its judge was asked and replied; the number of characters sent for it, if known."""
        pair = (result.dataset, result.model)
        self._charged = 0
        prompts = [self._prompt(request) for request in sent]
        judge = [[self._prompt(request)[0], _cut(reply)] for request, reply in judged]
        stated = (*result.replies, list(result.replies), result.extracted)
        row = pack(
            [
                self.pairs.setdefault(pair, len(self.pairs)),
                result.row,
                self.outcomes.setdefault(result.outcome, len(self.outcomes)),
                VERDICTS.index(verdict_of(result)),
                result.score if _finite_number(result.score) else None,
                [prompt for prompt, _ in prompts],
                [_cut(reply) for reply in result.replies],
                [_cut(thought) for thought in result.reasoning],
                None if result.prediction in stated else _answer(result.prediction),
                _answer(result.extracted),
                _answer(result.gold),
                _cut(result.reason),
                {**_more(result), **({'judge': judge} if judge else {})},
            ]
        )
        self.rows.append(row)
        self._charge(pair, _bytes(row) + self._charged)
        return sum(size for _, size in prompts) if prompts else None

    def _charge(self, pair: Pair, size: int) -> None:
        own = min(size, max(0, self.share - self._used[pair]))
        self._used[pair] += size
        self._lent[pair] += size - own
        self.pool -= size - own

    def _prompt(self, sent: SentRequest) -> tuple[list[Any], int]:
        """One request: a title, what to know about it, and its blocks; and its size."""
        preview, headed = sent.preview, is_messages(sent.preview)
        runs = self._runs if sent.origins else self._runs_as_sent
        blocks = [[block.heading if headed else '', block.extra, runs(block.spans)] for block in blocks_of(preview)]
        note = 0 if sent.origins else 1 if sent.changed else 2
        label = '' if preview.label is None else f'label {preview.label}'
        title = label if preview.turn is None else f'turn {preview.turn}'
        return [title, note, blocks], sum(len(span.text) for span in preview.spans)

    def _runs(self, spans: Iterable[Span]) -> list[int]:
        """Texts and their origins, in turn."""
        runs: list[int] = []
        for span in spans:
            words = shorten_media(str(span.text)) if span.origin.kind == 'media' else _cut(str(span.text))
            if text := words if span.token is None else f'<{span.token}>':
                runs += (self._text(text), self._origin(span.origin))
        return runs

    def _runs_as_sent(self, spans: Iterable[Span]) -> list[int]:
        """Texts by paragraphs, so that those that prompts share are written once."""
        paragraphs = (part for span in spans for part in _PARAGRAPH.findall(span.text))
        return [number for part in paragraphs for number in (self._text(_cut(part)), 0)]

    def _text(self, text: str) -> int:
        number = self._text_numbers.get(text)
        if number is None:
            number = self._text_numbers[text] = len(self.texts)
            self.texts.append(pack(text))
            self._charged += _bytes(self.texts[-1])
        return number

    def _origin(self, origin: Origin) -> int:
        number = self._origin_numbers.get(origin)
        if number is None:
            number = self._origin_numbers[origin] = len(self.origins)
            place = _IN_A_SHOT if origin.shot is not None else _ASKED if origin.kind == 'field' else 0
            ((group, names),) = groups_in([Span(' ', origin)]).items()
            self.origins.append([style_of(origin), label_of(origin), group, place, *(names or [''])])
        return number


def _answer(value: object) -> str | None:
    """An answer as text: a text as it is, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value if value is None else _cut(value)
    return _cut(json.dumps(value, ensure_ascii=False, default=str))


def _more(result: Result) -> dict[str, Any]:
    """Further facts about a row; unknown values are left out."""
    losses = _table_of_losses(result.details)
    ended = _endings(result)
    dropped = (*(('labels', 'decide_by') if losses else ()), *(('ended',) if ended else ()))
    details = {name: value for name, value in result.details.items() if name not in dropped}
    more = {
        'seconds': result.seconds if _finite_number(result.seconds) else None,
        'in': result.input_tokens,
        'expected': None if result.expected_tokens == result.input_tokens else result.expected_tokens,
        'served': str(result.served),
        'out': result.output_tokens,
        'cached': result.cached_tokens,
        'thought': result.reasoning_tokens,
        'shots': list(result.shots),
        'dropped': result.shots_dropped,
        'cluster': result.cluster,
        'fingerprint': result.fingerprint,
        'losses': losses,
        'ended': ended,
        'golds': _turn_golds(result),
        'read': [place and list(place[:4]) for place in result.read_from or result.beside[4:]],
        'beside': word_other_verdict(result.beside),
        'details': _cut(json.dumps(details, ensure_ascii=False, indent=1, default=str)) if details else None,
    }
    return {name: value for name, value in more.items() if value not in (None, '', 0, [])}


def _endings(result: Result) -> list[str] | None:
    """Why each reply ended, where that is known of each."""
    ended = result.details.get('ended')
    if not isinstance(ended, (list, tuple)) or len(ended) != len(result.replies):
        return None
    return [str(ending) for ending in ended]


_LOSSES = {'whole': 'per token', 'sum': 'sum', 'per_token': 'per answer token', 'per_character': 'per character'}


def _table_of_losses(details: Mapping[str, Any]) -> list[list[Any]] | None:
    """The labels of a row with their losses: a line of heads, of which the deciding one comes first, and the labels."""
    labels = details.get('labels')
    if not isinstance(labels, (list, tuple)) or not labels or not all(isinstance(entry, Mapping) for entry in labels):
        return None
    decide_by = str(details.get('decide_by', 'whole'))
    names = [decide_by, *(name for name in _LOSSES if name != decide_by)]
    if not all(isinstance(entry.get(decide_by), (int, float)) and 'label' in entry for entry in labels):
        return None
    numeric = [name for name in names if all(_finite_number(entry.get(name)) for entry in labels)]
    heads = [_LOSSES.get(name, name.replace('_', ' ')) for name in numeric]
    rows = [[_cut(entry['label']), *(entry[name] for name in numeric), entry.get('tokens')] for entry in labels]
    return [['label', *heads, 'tokens'], *rows]


def _finite_number(value: object) -> bool:
    return isinstance(value, (int, float)) and abs(value) < float('inf')


def _turn_golds(result: Result) -> list[str | None] | None:
    """The gold answer of each turn of a dialogue."""
    turns = isinstance(result.gold, (list, tuple)) and len(result.replies) > 1
    return [_answer(gold) for gold in result.gold] if turns and len(result.gold) == len(result.replies) else None


def _cut(value: object) -> str:
    """The value as text; a very long one has its middle cut out, with a note."""
    text = value if isinstance(value, str) else str(value)
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f'{text[:half]}\n[… {len(text) - 2 * half:,} characters left out of this report …]\n{text[-half:]}'


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode('utf-8', 'surrogatepass'))
