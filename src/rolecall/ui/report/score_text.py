"""How scores are written: digits by scale, intervals, and denominators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rolecall.scoring.metrics.judging import JUDGE_ASKED, JUDGE_CHECKED, RULE_WRONG
from rolecall.scoring.scorecard import JudgeAgreement, Scorecard
from rolecall.scoring.statistics import wilson
from rolecall.strings import count_noun

OUTCOMES = {
    'ok': 'ok',
    'unparsed': 'unparsed',
    'filtered': 'filtered',
    'too_long': 'too long',
    'truncated_by_server': 'truncated by the server',
    'thinking_exhausted': 'thinking exhausted',
    'failed': 'failed',
}
"""How a row can end, in words."""


MOST_FURTHER = 6
"""Further numbers shown beside a score on a terminal and a page."""

FOLD_FROM = 8
"""With this many members of groups or more, they are folded."""

GROUP_INTERVALS = 'Intervals of groups are over rows, with the datasets as given.'
Line = tuple[str, str]
"""A dataset (or group) and a metric."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Scorecards by dataset and metric (down) and model (across); the members of a group follow it."""

    lines: tuple[Line, ...]
    models: tuple[str, ...]
    cards: dict[tuple[str, str, str], Scorecard]
    groups: dict[Line, str] = field(default_factory=dict)
    """The outermost group that a line is folded under."""
    depths: dict[Line, int] = field(default_factory=dict)
    """The nesting depth of a line in groups."""

    def card(self, line: Line, model: str) -> Scorecard | None:
        """The score in one cell, if there is one."""
        return self.cards.get((*line, model))

    def is_group(self, line: Line) -> bool:
        """Whether a line is the average of others."""
        return any(card.members for model in self.models if (card := self.card(line, model)))

    @property
    def interval_notes(self) -> list[str]:
        """What the intervals of groups assume, where there are some."""
        return [GROUP_INTERVALS] if any(card.members and card.low is not None for card in self.cards.values()) else []

    def alias(self, line: Line) -> str:
        """The other name of a line's dataset, where a task file has one."""
        return next((card.alias for model in self.models if (card := self.card(line, model)) and card.alias), '')

    def groups_over(self, dataset: str) -> list[str]:
        """The outermost groups that contain the dataset, at any depth."""
        members = {card.dataset: card.members for card in self.cards.values() if card.members}
        outer = dict.fromkeys(self.groups.values())
        return [group for group in outer if dataset in _find_leaves(group, members)]

    def has_members(self, line: Line) -> bool:
        """Whether other lines are folded under this one."""
        return line not in self.groups and line[0] in self.groups.values()

    def cards_in_order(self) -> Iterator[Scorecard]:
        """Every score, line by line."""
        for line in self.lines:
            for model in self.models:
                if (card := self.card(line, model)) is not None:
                    yield card

    def fold(self) -> Grid:
        """The grid without the members of groups."""
        return replace(self, lines=tuple(line for line in self.lines if line not in self.groups))


def grid_of(cards: Iterable[Scorecard]) -> Grid:
    """The scorecards as a table: groups first, each followed by its members, then the rest in the order they come.

    A group of datasets that other groups divide among them (MMLU and its four fields) stands before those groups.

    >>> from rolecall.scoring.scorecard import Members
    >>> group = Scorecard('all', 'm', 'accuracy', 55.0, group=Members(('a', 'b')))
    >>> grid_of([Scorecard('c', 'm', 'f1', 1.0), Scorecard('a', 'm', 'accuracy', 50.0), group]).lines
    (('all', 'accuracy'), ('a', 'accuracy'), ('c', 'f1'))
    """
    by_place = {(card.dataset, card.metric, card.model): card for card in cards}
    lines = list(dict.fromkeys((dataset, metric) for dataset, metric, _ in by_place))
    members = {card.dataset: card.members for card in by_place.values() if card.members}
    inside = {name for names in members.values() for name in names}
    leaves = {name: _find_leaves(name, members) for name in members}
    within = {name: [other for other in members if leaves[other] < leaves[name]] for name in members}
    ordered: dict[Line, None] = {}
    groups: dict[Line, str] = {}
    depths: dict[Line, int] = {}

    def place(name: str, outermost: str | None, depth: int = 0) -> None:
        for line in lines:
            if line[0] == name and line not in ordered:
                ordered[line] = None
                depths[line] = depth
                if outermost is not None:
                    groups[line] = outermost
        elsewhere = {leaf for other in within.get(name, ()) if other not in inside for leaf in leaves[other]}
        for member in members.get(name, ()):
            if member not in elsewhere:
                place(member, outermost or name, depth + 1)

    outer = sorted((name for name in members if name not in inside), key=lambda name: not within[name])
    for name in [*outer, *(line[0] for line in lines)]:
        place(name, None)
    return Grid(tuple(ordered), tuple(dict.fromkeys(model for _, _, model in by_place)), by_place, groups, depths)


def _find_leaves(name: str, members: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The datasets in a group and in the groups inside it."""
    visited: dict[str, None] = {}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current not in visited:
            visited[current] = None
            waiting += members.get(current, ())
    return frozenset(current for current in visited if current not in members)


def describe_extraction(cards: Iterable[Scorecard]) -> list[str]:
    """How much scores of the same replies differ by extractor, and whether that changes the ranking.

    >>> describe_extraction([
    ...     Scorecard('d', 'm', 'accuracy (strict)', 25.0, total=4, outcomes={'unparsed': 3}, extractor='strict'),
    ...     Scorecard('d', 'm', 'accuracy (flexible)', 75.0, total=4, extractor='flexible'),
    ... ])
    ['d × m: 50.0 between flexible (75.0) and strict (25.0, 3 of 4 unparsed).']
    """
    return _describe_readings(card for card in cards if not card.judge)


def describe_servers(cards: Iterable[Scorecard]) -> list[str]:
    """Who answered, as the replies say, and with which temperature if the requests left that open.

    >>> from rolecall.scoring.receipt import Receipt
    >>> describe_servers([Scorecard('d', 'm', 'accuracy', 60.0, receipt=Receipt(served={'llama-3, Acme': 20}))])
    ['d × m: answered by llama-3, Acme (20 rows).']
    """
    lines = []
    for card in cards:
        served = card.receipt.served if card.receipt else None
        names = '; '.join(f'{name} ({count_noun(rows, "row")})' for name, rows in (served or {}).items())
        lines += [f'{card.dataset} × {card.model}: answered by {names}.'] if names else []
    return list(dict.fromkeys(lines))


def describe_judges(cards: Iterable[Scorecard]) -> list[str]:
    """How far several judges agree on the same answers, and how far apart they put their scores.

    >>> from rolecall.scoring.scorecard import Judging
    >>> judging = Judging('gpt', agreement=JudgeAgreement(('gpt', 'claude'), rows=90, equal=80.0, alpha=0.523))
    >>> describe_judges([Scorecard('d', 'm', 'accuracy (gpt)', 60.0, extractor='gpt', judging=judging)])
    ["d × m: gpt and claude agree on 80.0 % of 90 rows (Krippendorff's alpha 0.52)."]
    """
    cards = list(cards)
    judged = [card for card in cards if card.judge]
    agreements = [
        _describe_agreement(card, card.judging.agreement) for card in judged if card.judging and card.judging.agreement
    ]
    return [*filter(None, map(describe_cascade, cards)), *agreements, *_describe_readings(judged)]


def describe_cascade(card: Scorecard) -> str:
    """What a cascade saved, and what that risks; empty if the score has none.

    >>> further = {'asked_judge': 20.0, 'checked_by_judge': 10.0, 'contradicted_by_judge': 10.0}
    >>> describe_cascade(Scorecard('d', 'm', 'accuracy', 60.0, scored=100, further=further)).partition(' (')[0]
    'd × m: the rule decided 80 of 100 answers. The judge checked 10 of them'
    """
    further = card.further or {}
    if JUDGE_ASKED not in further:
        return ''
    spared = round(card.scored * (1 - further[JUDGE_ASKED] / 100))
    checked = round(card.scored * further[JUDGE_CHECKED] / 100)
    decided = (
        f'{card.dataset} × {card.model}: the rule decided {spared:,} of {card.scored:,} answers. '
        f'The judge checked {checked:,} of them ({count_noun(spared - checked, "request")} saved)'
    )
    if not checked:
        return f'{decided}.'
    wrong = round(checked * further[RULE_WRONG] / 100)
    low, high = wilson(wrong, checked)
    share = f'{100 * wrong / checked:.1f} % [{100 * low:.1f}, {100 * high:.1f}]'
    return f'{decided} and contradicts {wrong:,}: {share}.'


def _describe_agreement(card: Scorecard, agreement: JudgeAgreement) -> str:
    *others, last = agreement.judges
    who = f'{card.dataset} × {card.model}: {", ".join(others)} and {last}'
    if not agreement.rows:
        return f'{who} gave no row two verdicts.'
    alpha = '' if agreement.alpha is None else f" (Krippendorff's alpha {agreement.alpha:.2f})"
    verdicts = f'{agreement.equal:.1f} % of' + ('' if len(others) == 1 else ' all pairs of verdicts on')
    return f'{who} agree on {verdicts} {count_noun(agreement.rows, "row")}{alpha}.'


def _describe_readings(cards: Iterable[Scorecard]) -> list[str]:
    """How much the columns of a dataset × model differ, and whether that changes the ranking."""
    by_pair: dict[tuple[str, str], dict[str, Scorecard]] = {}
    for card in cards:
        if card.value is not None and card.extractor:
            by_pair.setdefault((card.dataset, card.model), {})[card.extractor] = card
    lines = _describe_leads(by_pair)
    for (dataset, model), columns in by_pair.items():
        if len(columns) > 1:
            high, low = (pick(columns.values(), key=_value_of) for pick in (max, min))
            gap = _value_of(high) - _value_of(low)
            between = f'between {_describe_reading(high)} and {_describe_reading(low)}' if gap else 'between any two'
            lines.append(f'{dataset} × {model}: {gap:,.1f} {between}.')
    return lines


def _describe_leads(by_pair: Mapping[tuple[str, str], Mapping[str, Scorecard]]) -> list[str]:
    """For each dataset, the lead of the best model by the first extractor over the second best, by each extractor."""
    by_dataset: dict[str, list[tuple[str, Mapping[str, Scorecard]]]] = {}
    for (dataset, model), columns in by_pair.items():
        by_dataset.setdefault(dataset, []).append((model, columns))
    lines = []
    for dataset, models in by_dataset.items():
        models.sort(key=lambda ours: -_value_of(next(iter(ours[1].values()))))
        if len(models) > 1:
            (first, ours), (second, theirs) = models[:2]
            leads = [
                f'{_value_of(ours[name]) - _value_of(theirs[name]):+,.1f} by {name}' for name in ours if name in theirs
            ]
            if len(leads) > 1:
                lines.append(f'{dataset}: {first} against {second}: {", ".join(leads)}.')
    return lines


def _value_of(card: Scorecard) -> float:
    return card.value or 0.0


def _describe_reading(card: Scorecard) -> str:
    unparsed = card.outcomes.get('unparsed', 0)
    lost = f', {unparsed:,} of {card.total:,} unparsed' if unparsed else ''
    return f'{card.extractor} ({_value_of(card):,.1f}{lost})'


def digits_of(cards: Sequence[Scorecard]) -> dict[str, int]:
    """Decimals for each metric: three where it stays within 1, one where it goes beyond 10, two between."""
    scales: dict[str, float] = {}
    for card in cards:
        numbers = (abs(number) for number in (card.value, card.low, card.high) if number is not None)
        scales[card.metric] = max(scales.get(card.metric, 0.0), *numbers, 0.0)
    return {metric: 3 if scale <= 1 else 2 if scale <= 10 else 1 for metric, scale in scales.items()}


def score(card: Scorecard, digits: int) -> str:
    """The score itself, or a dash."""
    return '–' if card.value is None else f'{card.value:,.{digits}f}'


def interval(card: Scorecard, digits: int) -> str:
    """The interval in brackets, or nothing."""
    if card.low is None or card.high is None:
        return ''
    return f'[{card.low:,.{digits}f}, {card.high:,.{digits}f}]'


def denominator(card: Scorecard) -> str:
    """How many rows the score is based on, of how many; of a group that lacks scores, how many members have one.

    >>> from rolecall.scoring.scorecard import Members
    >>> denominator(Scorecard('all', 'm', 'acc', None, scored=7, total=7, group=Members(('a', 'b'), missing=('b',))))
    '1 of 2 members'
    """
    if card.group and card.group.missing and card.value is None:
        return f'{len(card.members) - len(card.group.missing):,} of {count_noun(len(card.members), "member")}'
    return f'{card.scored:,}/{card.total:,}'


def left_out(card: Scorecard) -> str:
    """The outcomes other than `ok`, and how many other rows are missing from the score.

    >>> left_out(Scorecard('d', 'm', 'acc', 50.0, scored=6, total=10, outcomes={'ok': 7, 'failed': 2}))
    '2 failed, 1 not scored, 1 not asked'
    """
    named = dict.fromkeys([*OUTCOMES, *card.outcomes])
    ended = [
        f'{card.outcomes[outcome]:,} {OUTCOMES.get(outcome, outcome)}'
        for outcome in named
        if outcome != 'ok' and card.outcomes.get(outcome)
    ]
    finished = sum(card.outcomes.values())
    unscored = 0 if card.is_baseline else card.outcomes.get('ok', 0) - card.scored
    unasked = card.total - finished if card.outcomes else 0
    return ', '.join(
        ended
        + ([f'{unscored:,} not scored'] if unscored > 0 else [])
        + ([f'{unasked:,} not asked'] if unasked > 0 else [])
    )


def further_numbers(card: Scorecard, digits: int, *, most: int | None = None) -> list[str]:
    """The numbers beside a score, the first `most` of them: parts of it, outcomes of programs, turns, and lm-eval's
    standard errors. Numbers that have a column or a table of their own are left out.

    >>> further = {'acc_norm': 40.0, 'acc_stderr': 5.0, 'acc_norm_stderr': 4.9, 'rouge2': 7.0}
    >>> further_numbers(Scorecard('d', 'm', 'acc', 50.0, further=further), 1)
    ['acc 50.0 ± 5.0 stderr', 'acc_norm 40.0 ± 4.9 stderr', 'rouge2 7.0']
    >>> further_numbers(Scorecard('d', 'm', 'acc', 50.0, further=further), 1, most=1)
    ['acc 50.0 ± 5.0 stderr', 'and 2 more in --csv']
    """
    further = card.further or {}
    if card.value is None or card.compared is not None:
        return []
    elsewhere = {card.metric, JUDGE_ASKED, JUDGE_CHECKED, RULE_WRONG, *(card.further_intervals or ())}
    errors = {name: error for name, error in further.items() if '_stderr' in name}
    texts = []
    for name, value in {card.metric: card.value, **further}.items():
        metric, comma, pipeline = name.partition(',')
        error = errors.get(f'{metric}_stderr{comma}{pipeline}')
        if error is not None:
            texts.append(f'{name} {value:,.{digits}f} ± {error:,.{digits}f} stderr')
        elif name not in errors and name not in elsewhere:
            texts.append(f'{name} {value:,.{digits}f}')
    hidden = 0 if most is None else len(texts) - most
    return [*texts[:most], f'and {hidden:,} more in --csv'] if hidden > 0 else texts
