"""Whose reading makes a score: that of the system whose names a config uses, or ours. The other stands beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

from rolecall.registry import Part, load_object
from rolecall.strings import count_noun

if TYPE_CHECKING:
    from rolecall.scoring.scorecard import Verdict

OWN = 'own'
READ_BY: Mapping[str, str] = {
    OWN: 'by our reading',
    'opencompass': 'as OpenCompass reads it',
    'aisbench': 'as AISBench reads it',
    'lm_eval': 'as lm-eval reads it',
}
"""Whose reading a score can go by (`read_as`), and how the score says so."""
_MEANINGS = 'rolecall.compat.opencompass.evaluator_names:MEANINGS'
_PARTS = ('evaluator', 'pred_postprocessor', 'model_postprocessor', 'dataset_postprocessor')
_ROUNDED = 0.005
"""Scores that differ by no more are the same, rounded."""
_NESTED = ('evaluator', 'rule_evaluator', 'pred_postprocessor')
"""Options of an evaluator that name further parts."""


@dataclass(frozen=True, slots=True)
class OtherReading:
    """The score by the reading beside the one that was chosen: ours beside OpenCompass', or the other way round."""

    read_as: str
    """Whose reading made the card's own score."""
    other: str
    value: float | None
    low: float | None
    high: float | None
    scored: int
    differ: int
    """Rows whose verdicts differ."""

    def describe(self, value: float, digits: int = 1) -> str:
        """Both scores in words; empty if no row differs.

        >>> OtherReading('opencompass', 'own', 61.2, None, None, 500, differ=38).describe(58.9)
        '58.9 as OpenCompass reads it; 61.2 by our reading; 38 rows differ'
        """
        if not self.differ:
            return ''
        scores = [(self.read_as, value), (self.other, self.value)]
        words = [f'{number:,.{digits}f} {READ_BY[reader]}' for reader, number in scores if number is not None]
        return '; '.join([*words, f'{count_noun(self.differ, "row")} {"differs" if self.differ == 1 else "differ"}'])


def word_other_verdict(beside: Sequence[Any]) -> str:
    """What the other reading says of a row, in words; empty if it says the same.

    >>> word_other_verdict(['own', 'B', 1.0, True]), word_other_verdict([])
    ("'B' by our reading: right", '')
    """
    if not beside:
        return ''
    reader, extracted, score, correct = beside[:4]
    verdict = {True: 'right', False: 'wrong'}.get(correct, 'not scored' if score is None else f'score {score:.3g}')
    return f'{extracted!r} {READ_BY.get(reader, reader)}: {verdict}'


def compare_readings(verdicts: Sequence[Verdict], others: Sequence[Verdict], read_as: str) -> int:
    """Note on each verdict what the other reading says of its row; how many differ.

    A foreign reader does not say where it read. Where both read the same answer, our place is kept.
    """
    differ = 0
    for verdict, other in zip(verdicts, others, strict=True):
        near = verdict.score == other.score or abs((verdict.score or 0.0) - (other.score or 0.0)) <= _ROUNDED
        same = near and verdict.correct == other.correct
        verdict.settled = verdict.settled and other.settled and verdict.score == other.score
        if not verdict.read_from and verdict.extracted == other.extracted:
            verdict.read_from = other.read_from
        if not same:
            differ += 1
            verdict.beside = (read_as, other.extracted, other.score, other.correct, *other.read_from)
    return differ


def system_of(kind: object) -> str:
    """The system that a name belongs to: by its package, else OpenCompass.

    >>> system_of('ais_bench.benchmark.openicl.AccEvaluator'), system_of('AccEvaluator')
    ('aisbench', 'opencompass')
    """
    path = kind if isinstance(kind, str) else getattr(kind, 'dotted', getattr(kind, '__module__', ''))
    return 'aisbench' if str(path).startswith('ais_bench') else 'opencompass'


def read_meaning(part: Part[Any], kind: object, read_as: str | None, *, skip: int = 0) -> Part[Any]:
    """A built-in part with the meaning that its name has in a system: the one it belongs to, or `read_as`.

    With options that only ours has, it is ours; options that only theirs has do not matter to ours. The first `skip`
    arguments of its function are no options.
    """
    if not part.builtin:
        return part
    system = read_as or system_of(kind)
    path = _meaning(part.name, 'opencompass' if system == OWN else system)
    theirs = part if path is None else replace(part, value=load_object(path))
    if path is None or theirs.option_problems(skip=skip):
        return part
    taken = signature(part.value).parameters
    ours = {name: value for name, value in part.options.items() if name in taken}
    return replace(part, options=ours) if system == OWN else theirs


def named_system(eval_cfg: Mapping[str, Any], names: Mapping[str, Any]) -> str:
    """The system whose names an `eval_cfg` uses; empty if all its parts are ours. `names` are the registries."""
    for key, kind in _kinds_in(eval_cfg, _PARTS):
        registry = names['evaluator' if key.endswith('evaluator') else 'postprocessor']
        name, system = registry.builtin_name(kind), system_of(kind)
        if name is not None and _meaning(name, system) is not None:
            return system
        if isinstance(own := getattr(kind, 'read_as', None), str):
            return own
    return ''


def _kinds_in(section: Mapping[str, Any], keys: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The types of the parts that a section of a config names, with their keys."""
    for key in keys:
        entry = section.get(key)
        if isinstance(entry, Mapping) and 'type' not in entry:  # extractors by name
            yield from ((key, kind) for _, kind in _kinds_in(entry, tuple(entry)))
        elif isinstance(entry, Mapping):
            yield key, entry['type']
            yield from _kinds_in(entry, _NESTED)
        elif entry is not None:
            yield key, entry


def _meaning(name: str, system: str) -> str | None:
    path: str | None = load_object(_MEANINGS).get(system, {}).get(name)
    return path
