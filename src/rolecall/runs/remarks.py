"""What looks wrong about the replies of a whole dataset, where each row by itself is fine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from rolecall.core.prompts.values import text_of
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun

_LOOKED_AT = 1000
_FEWEST = 2
_FEWEST_ALIKE = 4
"""So many rows must be alike before it is said: fewer may be chance."""
_TEXT_METRICS = ('accuracy', 'exact_match', 'contains_answer')


def remark_on_stored(results: Iterator[Result], card: Scorecard) -> list[str]:
    """At most one remark about a dataset × model by its first rows, which stand for the others."""
    rows = list(islice(results, _LOOKED_AT))
    remarks = remark_on(rows, card)
    if card.total > len(rows):
        return [remark.replace(': ', f' (its first {count_noun(len(rows), "row")}): ', 1) for remark in remarks]
    return remarks


def remark_on(results: Sequence[Result], card: Scorecard) -> list[str]:
    """At most one remark about a dataset × model, the most telling one.

    >>> rows = [Result('qa', 'm', row, 'ok', prediction='', replies=('',), gold='Paris') for row in range(3)]
    >>> remark_on(rows, Scorecard('qa', 'm', 'accuracy', 0.0))
    ['qa × m: every reply is empty. Look at a prompt with rolecall view; an instruct model needs its chat template.']
    """
    if len(results) < _FEWEST:
        return []
    name = f'{card.dataset} × {card.model}'
    asked = [result for result in results if result.outcome in ('ok', 'unparsed')]
    if len(asked) < _FEWEST:
        return []
    if any(result.replies for result in asked) and not any(text.strip() for one in asked for text in one.replies):
        advice = 'Look at a prompt with rolecall view; an instruct model needs its chat template.'
        return [f'{name}: every reply is empty. {advice}']
    if all(result.outcome == 'unparsed' for result in asked):
        shown = ' '.join(next((text for one in asked for text in one.replies if text.strip()), '').split())
        return [f'{name}: no answer was found in any reply. The first reply is {shown!r:.80}: is the extraction right?']
    answers = {text_of(result.prediction) for result in asked}
    golds = {text_of(result.gold) for result in asked}
    if len(asked) >= _FEWEST_ALIKE and len(answers) == 1 and len(golds) > 1:
        return [f'{name}: every row has the same answer, {next(iter(answers))!r:.60}.']
    return _remark_on_golds(name, asked, card) or _remark_on_containment(name, asked, card)


def _remark_on_golds(name: str, asked: Sequence[Result], card: Scorecard) -> list[str]:
    """Gold answers that no reply can match."""
    if card.metric not in _TEXT_METRICS:
        return []
    without = [result for result in asked if _is_missing(result.gold)]
    if without and not any(result.correct for result in without):
        rows = f'{len(without):,} of {count_noun(len(asked), "row")}'
        return [f'{name}: no gold answer in {rows}: counted as wrong. Is the answer column the right one?']
    if card.value == 0 and all(isinstance(result.gold, Mapping) for result in asked):
        keys = ', '.join(map(str, asked[0].gold))
        return [f'{name}: every gold answer is an object, which no reply equals. Name a value inside it: {keys}.']
    return []


def _is_missing(gold: object) -> bool:
    """Empty, or the NaN that pandas writes for an empty cell."""
    return gold != gold or (isinstance(gold, str) and not gold.strip())


def _remark_on_containment(name: str, asked: Sequence[Result], card: Scorecard) -> list[str]:
    """Replies that hold the gold answer, and are all marked wrong for the words around it."""
    if card.metric not in _TEXT_METRICS[:2] or card.value != 0:
        return []
    holding = sum(_holds(result) for result in asked)
    if holding < _FEWEST:
        return []
    advice = "The metric 'contains' accepts that, or extract the answer first."
    return [f'{name}: no answer is exact, but {holding:,} of {len(asked):,} replies contain the gold answer. {advice}']


def _holds(result: Result) -> bool:
    golds = result.gold if isinstance(result.gold, list | tuple) else [result.gold]
    reply = text_of(result.prediction).casefold()
    return any(text.casefold() in reply for text in map(text_of, golds) if len(text) > 1)
