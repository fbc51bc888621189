"""What is said about two numbers that differ: steps from the first to the second, and what cannot be known.

Typed edits lead from one dataset × model to another: each replaces the settings of one cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from rolecall.core.prompts.pieces import label_of
from rolecall.core.render.meta import find_meta_template
from rolecall.experiment.opening.templates import is_worded_as_dialogue, match_shapes
from rolecall.experiment.pairs.pair import Preview
from rolecall.runs.parts import CAUSES, Path, as_data, split_causes
from rolecall.strings import count_noun, join_words

Entries = tuple[Mapping[str, Any], Mapping[str, Any]]
"""The entry of a dataset, and that of a model."""
SCORING = ('reader', 'metric', 'aggregation', 'denominator')
"""Causes that stored replies are enough for."""
_FIELD = re.compile(r'\{\w+\}')
_BOS = re.compile(
    r'^(?:\{\{-?\s*bos_token\s*-?\}\}|<s>|<bos>|<\|startoftext\|>|<\|begin_of_(?:text|sentence)\|>|\[BOS\])'
)
_SECTIONS = ('begin', 'round', 'end')
_MISSING: Any = object()
AS_SCORED = 'as scored'


@dataclass(frozen=True, slots=True)
class Edit:
    """The settings of one cause that differ, by their paths."""

    cause: str
    paths: tuple[Path, ...]

    @property
    def is_sent(self) -> bool:
        """Whether a model has to be asked to see what it does."""
        return self.cause not in (*SCORING, 'rows')


def find_edits(left: Entries, right: Entries) -> list[Edit]:
    """What differs between two dataset × model, cause by cause.

    >>> dataset = {'infer_cfg': {'prompt_template': {'template': 'A. {A}\\\\nB. {B}'}}}
    >>> other = {'infer_cfg': {'prompt_template': {'template': 'A. {B}\\\\nB. {A}'}}}
    >>> [edit.cause for edit in find_edits((dataset, {'max_out_len': 8}), (other, {'max_out_len': 9}))]
    ['option order', 'length']
    """
    sides = _split_both(*_match_shapes(left, right))
    names = [model.get('abbr') for _, model in (left, right)]
    edits = []
    for cause in CAUSES:
        ours, theirs = (side.get(cause, {}) for side in sides)
        paths = sorted(
            path for path in {**ours, **theirs} if _differ(ours.get(path, _MISSING), theirs.get(path, _MISSING))
        )
        is_model = cause == 'engine' and (names[0] != names[1] or ('model', 'path') in paths)
        if paths:
            edits.append(_name_exactly(Edit('the model' if is_model else cause, tuple(paths)), ours, theirs))
    return edits


def _differ(left: Any, right: Any) -> bool:
    return left is not right and (left is _MISSING or right is _MISSING or as_data(left) != as_data(right))


def split_settings(entries: Entries) -> dict[str, dict[Path, Any]]:
    """The settings by cause; dialogues and meta templates by section, so that a system text is a setting of its own."""
    causes: dict[str, dict[Path, Any]] = {}
    for cause, settings in split_causes(*entries).items():
        for path, value in settings.items():
            inner = value.get('template') if isinstance(value, Mapping) and path[-1] == 'prompt_template' else value
            if not isinstance(inner, Mapping) or not {*inner} & {*_SECTIONS} or cause not in ('wording', 'format'):
                causes.setdefault(cause, {})[path] = value
                continue
            place = (*path, 'template') if inner is not value else path
            for section, content in inner.items():
                own = 'system text' if cause == 'wording' and section == 'begin' else cause
                causes.setdefault(own, {}).update({(*place, section): content})
            if inner is not value:
                causes[cause] |= {(*path, key): rest for key, rest in value.items() if key != 'template'}
    return causes


def _match_shapes(left: Entries, right: Entries) -> list[Entries]:
    """Both sides with meta templates spelt out and, without one, templates of one shape: each setting has one place."""
    sides = [
        (dataset, {**model, 'meta_template': find_meta_template(model['meta_template'])})
        if isinstance(model.get('meta_template'), str)
        else (dataset, model)
        for dataset, model in (left, right)
    ]
    infers = [infer for dataset, _ in sides if isinstance(infer := dataset.get('infer_cfg'), Mapping)]
    if len(infers) < len(sides) or any(model.get('meta_template') for _, model in sides):
        return sides
    columns = [(dataset.get('reader_cfg') or {}).get('output_column') for dataset, _ in sides]
    matched = match_shapes(infers[0], infers[1], (columns[0], columns[1]))
    return [({**dataset, 'infer_cfg': infer}, model) for (dataset, model), infer in zip(sides, matched, strict=True)]


def _split_both(left: Entries, right: Entries) -> list[dict[str, dict[Path, Any]]]:
    """The settings of both sides by cause. Where a meta template's markers stand only around a dialogue, a text and a
    dialogue differ as a whole."""
    alike = len({is_worded_as_dialogue(dataset.get('infer_cfg') or {}) for dataset, _ in (left, right)}) == 1
    return [split_settings(entries) if alike else split_causes(*entries) for entries in (left, right)]


def _name_exactly(edit: Edit, left: Mapping[Path, Any], right: Mapping[Path, Any]) -> Edit:
    """The edit under the name of the one thing that it changes: the order of options, a BOS token."""
    pairs = [(str(left.get(path, '')), str(right.get(path, ''))) for path in edit.paths]
    if edit.cause == 'wording' and all(
        _FIELD.sub('', before) == _FIELD.sub('', after)
        and sorted(_FIELD.findall(before)) == sorted(_FIELD.findall(after))
        for before, after in pairs
    ):
        return replace(edit, cause='option order')
    if edit.cause == 'format' and all(
        path[-1] in ('begin', 'chat_template') and _BOS.sub('', before) == _BOS.sub('', after)
        for path, (before, after) in zip(edit.paths, pairs, strict=True)
    ):
        return replace(edit, cause='BOS')
    return edit


def apply_edits(left: Entries, right: Entries, edits: Iterable[Edit]) -> Entries:
    """The left side with the settings of these edits as the right one has them."""
    sides = _match_shapes(left, right)
    settings = [{path: value for own in side.values() for path, value in own.items()} for side in _split_both(*sides)]
    both: Mapping[str, Any] = {'dataset': sides[0][0], 'model': sides[0][1]}
    for edit in edits:
        for path in edit.paths:
            both = _put(both, path, settings[1].get(path, _MISSING))
    return both['dataset'], both['model']


def _put(entry: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """An entry with a value at a path, or without it."""
    key, *rest = path
    others = {name: inner for name, inner in entry.items() if name != key}
    if not rest:
        return others if value is _MISSING else {**entry, key: value}
    inner = entry.get(key)
    return {**entry, key: _put(inner if isinstance(inner, Mapping) else {}, rest, value)}


_VISIBLE, _ROUNDED = 0.005, 0.05
"""Shares below so many points are not worth a step; a published number has one decimal."""


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
    is_lent: bool = False
    """Whether one side was not run, and has the other side's replies."""

    @property
    def difference(self) -> float | None:
        return None if self.left_value is None or self.right_value is None else self.right_value - self.left_value

    @property
    def sentence(self) -> str:
        """The whole in one sentence."""
        if self.difference is None:
            numbers = f'{self.left} {self._number(self.left_value)}, {self.right} {self._number(self.right_value)}'
            return f'{self.dataset}: {numbers}.'
        if self.alternatives:
            name, value = self.alternatives[0]
            if name == AS_SCORED:
                is_same = abs(self.difference) < _ROUNDED
                verdict = 'too' if is_same else f'not {self.right}; no other reading comes nearer'
                return f'{self.left} has {self.left_value:.1f}, {verdict}.'
            return f'{self.left} has {self.left_value:.1f}, not {self.right}; {name}, its replies come to {value:.1f}.'
        visible = [step for step in self.steps if abs(step.points) > _VISIBLE]
        if not visible and self.is_lent:
            score = self._number(self.left_value)
            return f'Read and scored as {self.left} or as {self.right} says, the replies come to {score}.'
        if not visible:
            return f'{self.left} and {self.right} have the same score, {self._number(self.left_value)}.'
        visible.sort(key=lambda step: -abs(step.points))
        shares = [
            f'{step.points:+.1f} is {_NAMES.get(step.cause, step.cause)}'
            + (f' ({count_noun(step.rows, "row")})' if step.rows else '')
            for step in visible
        ]
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

    @staticmethod
    def _number(value: float | None) -> str:
        return 'has no score' if value is None else f'{value:.1f}'

    def as_json(self) -> dict[str, Any]:
        """Everything in plain values."""
        record = asdict(self)
        edits = [{'cause': edit.cause, 'settings': ['.'.join(path) for path in edit.paths]} for edit in self.edits]
        return {**record, 'difference': self.difference, 'sentence': self.sentence, 'edits': edits}


_NAMES = {
    'reader': 'reading',
    'denominator': 'the denominator',
    'metric': 'the metric',
    'prompt': 'left for the prompt',
}


def origin_changes(left: Preview | None, right: Preview | None) -> tuple[OriginChange, ...]:
    """How two requests differ, origin by origin: the words of the template, of an example, of the model's format."""
    if left is None or right is None:
        return ()
    words = [_words_by_origin(preview) for preview in (left, right)]
    changes = tuple(
        OriginChange(origin, words[0].get(origin, ''), words[1].get(origin, ''))
        for origin in {**words[0], **words[1]}
        if words[0].get(origin, '') != words[1].get(origin, '')
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
