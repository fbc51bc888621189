"""What is said about two numbers that differ: steps from the first to the second, and what cannot be known."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from rolecall.core.prompts.pieces import label_of
from rolecall.experiment.pairs.pair import Preview
from rolecall.insight.edits import Edit
from rolecall.strings import count_noun, join_words

_VISIBLE = 0.005
"""Shares below this many points are not worth a step."""


@dataclass(frozen=True, slots=True)
class FlippedRow:
    """A row whose score a cause changes."""

    left_row: int
    right_row: int
    before: float | None
    after: float | None
    gold: Any = None
    left_read: Any = None
    right_read: Any = None
    left_reply: str = ''
    right_reply: str = ''


@dataclass(frozen=True, slots=True)
class OriginChange:
    """What two requests say differently, by the origin of the words."""

    origin: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class CauseShare:
    """One cause with its share of the difference, in points."""

    cause: str
    points: float
    rows: int = 0
    """How many rows it changes."""
    low: float | None = None
    """The interval of the share, with these rows as a sample of such rows."""
    high: float | None = None
    flips: tuple[FlippedRow, ...] = ()
    changes: tuple[OriginChange, ...] = ()
    """How the requests of the first of these rows differ."""
    is_asked: bool = False
    """Whether a model was asked for it (the ladder)."""

    @property
    def note(self) -> str:
        """How many rows it changes, and the interval of its share."""
        rows = count_noun(self.rows, 'row') if self.rows else ''
        interval = '' if self.low is None or self.high is None else f'[{self.low:+.1f}, {self.high:+.1f}]'
        return ' '.join(filter(None, (rows, interval)))


@dataclass(frozen=True, slots=True)
class WaterfallBar:
    """One bar of a waterfall: where it begins and ends, as shares of the width."""

    name: str
    number: str
    start: float
    end: float
    kind: Literal['score', 'gain', 'loss']
    note: str = ''


@dataclass(frozen=True, slots=True)
class Explanation:
    """Two numbers of a dataset × model, and the steps from the first to the second."""

    left: str
    right: str
    dataset: str
    model: str
    metric: str
    left_value: float | None
    right_value: float | None
    rows: int
    """Rows that both sides have."""
    steps: tuple[CauseShare, ...] = ()
    unknown: tuple[str, ...] = ()
    """What cannot be known, or takes asking a model."""
    edits: tuple[Edit, ...] = field(default=(), repr=False)
    alternatives: tuple[tuple[str, float], ...] = ()
    """Beside a published number: what the stored replies come to if read or counted otherwise, nearest first."""

    @property
    def difference(self) -> float | None:
        return None if self.left_value is None or self.right_value is None else self.right_value - self.left_value

    @property
    def sentence(self) -> str:
        """The whole in one sentence."""
        if self.difference is None:
            return f'{self.dataset}: {self._numbers}.'
        if self.alternatives:
            name, value = self.alternatives[0]
            return f'{self.left} has {self.left_value:.1f}, not {self.right}; {name}, its replies come to {value:.1f}.'
        visible = sorted(filter(_is_visible, self.steps), key=lambda step: -abs(step.points))
        if not visible:
            return f'{self.left} and {self.right} have the same score, {self._number(self.left_value)}.'
        shares = [f'{step.points:+.1f} is {_name(step.cause)}{_count(step.rows)}' for step in visible]
        return f'Of {self.difference:+.1f} points, {join_words(shares)}.'

    def waterfall(self) -> list[WaterfallBar]:
        """The way from the left number to the right one, as bars; empty without two numbers."""
        if self.left_value is None or self.right_value is None or not self.steps:
            return []
        levels = [self.left_value]
        for step in self.steps:
            levels.append(levels[-1] + step.points)
        low, high = min(levels), max(levels)
        floor = max(0.0, low - (high - low) / 4) if low >= 0 else low
        width = high - floor or 1.0
        places = [(level - floor) / width for level in levels]
        bars = [WaterfallBar(self.left, f'{self.left_value:.1f}', 0.0, places[0], 'score')]
        for step, before, after in zip(self.steps, places, places[1:], strict=False):
            kind: Literal['gain', 'loss'] = 'gain' if step.points >= 0 else 'loss'
            bars.append(
                WaterfallBar(step.cause, f'{step.points:+.1f}', min(before, after), max(before, after), kind, step.note)
            )
        return [*bars, WaterfallBar(self.right, f'{self.right_value:.1f}', 0.0, places[-1], 'score')]

    @property
    def _numbers(self) -> str:
        return f'{self.left} {self._number(self.left_value)}, {self.right} {self._number(self.right_value)}'

    @staticmethod
    def _number(value: float | None) -> str:
        return 'has no score' if value is None else f'{value:.1f}'

    def as_json(self) -> dict[str, Any]:
        """Everything in plain values."""
        record = asdict(self)
        edits = [{'cause': edit.cause, 'settings': ['.'.join(path) for path in edit.paths]} for edit in self.edits]
        return {**record, 'difference': self.difference, 'sentence': self.sentence, 'edits': edits}


def _is_visible(step: CauseShare) -> bool:
    return abs(step.points) > _VISIBLE


_NAMES = {
    'reader': 'reading',
    'denominator': 'the denominator',
    'metric': 'the metric',
    'prompt': 'left for the prompt',
}


def _name(cause: str) -> str:
    return _NAMES.get(cause, cause)


def _count(rows: int) -> str:
    return f' ({count_noun(rows, "row")})' if rows else ''


def origin_changes(left: Preview | None, right: Preview | None) -> tuple[OriginChange, ...]:
    """How two requests differ, origin by origin: the words of the template, of an example, of the model's format."""
    if left is None or right is None:
        return ()
    words = [_words_by_origin(preview) for preview in (left, right)]
    changes = tuple(
        OriginChange(origin, words[0].get(origin, ''), words[1].get(origin, ''))
        for origin in {**words[0], **words[1]}
        if words[0].get(origin) != words[1].get(origin)
    )
    if changes or left.request == right.request:
        return changes
    return (OriginChange('order', ', '.join(words[0]), ', '.join(words[1])),)


def _words_by_origin(preview: Preview) -> dict[str, str]:
    words: dict[str, str] = {}
    for span in preview.spans:
        name = label_of(span.origin)
        words[name] = words.get(name, '') + (f'<{span.token}>' if span.token is not None else str(span.text))
    return words
