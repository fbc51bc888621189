"""Receipts: what a server reports of the requests, compared with what was sent.

The server counts the tokens of every prompt; the model's own tokenizer says how many there should be. A constant
difference is a template or a BOS token, a ceiling is a silent truncation, and a jump is another server.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rolecall.strings import count_noun

SMALLEST_WINDOW = 128
"""Tokens that any server reads: one that reports fewer for everything does not count."""
_FEWEST = 3
"""Rows that must agree before others are judged by them."""
_LOOSE = 0.05
"""How far, as a share, counts may differ where the tokenizers do not agree exactly."""
_LEVEL = 0.02
"""How far, as a share, prompts at one ceiling differ in length at least."""
_WINDOWS = 256
"""Context limits are multiples of it."""
_NEAR = 0.75
"""Prompts that a server cuts to its limit are at least this share of it, by a tokenizer and template not its own."""
_BOS_LIKE = 2
"""A difference so small is plausible in itself; a larger one must be that of rows of several lengths."""
_EXACT_SHARE = 0.9


class TokenCount(NamedTuple):
    """The input tokens of one row: those expected, and those the server reports, over all of its requests."""

    row: int
    expected: int
    """0 where the tokens of the row cannot be counted here."""
    reported: int
    calls: int = 1

    @property
    def sent(self) -> float:
        return self.expected / self.calls

    @property
    def accepted(self) -> float:
        return self.reported / self.calls

    @property
    def difference(self) -> float:
        """Expected minus reported, for each request."""
        return self.sent - self.accepted


@dataclass(frozen=True, slots=True)
class CountComparison:
    """What the token counts of a dataset × model come to."""

    kind: Literal['same', 'constant', 'level', 'jump', 'varies']
    """The differences of the rows that were not truncated."""
    base: float = 0.0
    """Expected minus reported of most rows, for each request."""
    ceiling: int = 0
    """The largest prompt that the server reports."""
    truncated: tuple[int, ...] = ()
    """Rows of which the server read less than was sent."""
    longest: int = 0
    """The largest prompt that was sent."""
    differences: tuple[tuple[float, int, int], ...] = ()
    """By frequency: a difference, in how many rows, and the first of them."""


def compare_counts(
    counts: Sequence[TokenCount], *, window: int | None = None, lengths: Mapping[int, float] | None = None
) -> CountComparison:
    """Find out what the server did. `window` is its context limit, where it is known.

    `lengths`: those of the prompts in characters, where tokens cannot be counted.

    >>> short = [TokenCount(row, 90 + row, 91 + row) for row in range(10)]
    >>> compare_counts(short).kind, compare_counts(short).base
    ('constant', -1.0)
    >>> compare_counts([*short, TokenCount(10, 160_689, 16_387), TokenCount(11, 30_000, 16_387)]).truncated
    (10, 11)
    """
    counted = [count for count in counts if count.expected]
    base = _find_base(counted)
    ceiling = max((count.accepted for count in counts), default=0)
    window = window if window is not None and window >= ceiling else None  # otherwise it is no longer true
    longer = _find_longer(counted, base, ceiling)
    if longer is None:
        far = {count.row: count for count in counted if count.sent - base > ceiling * (1 + _LOOSE)}
        shares = [count.accepted / count.sent for count in counted if count.row not in far]
        least = min(shares, default=math.inf)  # by another tokenizer, long prompts shrink as short ones do
        is_cut = window is not None and all(
            count.sent > window and count.accepted < least * count.sent for count in far.values()
        )
        longer = set(far) if is_cut else set()
    truncated = longer | _find_level(counts, lengths or {count.row: count.sent for count in counted}, window)
    if truncated:
        truncated |= {count.row for count in counts if not count.expected and count.accepted == ceiling}
    rest = [count for count in counted if count.row not in truncated]
    frequent = Counter(count.difference for count in rest).most_common()
    firsts = {count.difference: count.row for count in reversed(rest)}
    return CountComparison(
        'level' if len(frequent) > 1 and {count.accepted for count in counts} == {ceiling} else _name_kind(frequent),
        base,
        round(ceiling),
        tuple(sorted(truncated)),
        round(max((count.sent for count in counted), default=0)),
        tuple((difference, rows, firsts[difference]) for difference, rows in frequent),
    )


def _find_base(counts: Sequence[TokenCount]) -> float:
    """The difference that most rows have; of several, the smallest. 0 if no two rows have the same."""
    common = Counter(count.difference for count in counts)
    most = max(common.values(), default=1)
    if most == 1 < len(counts):
        return 0.0
    return min((difference for difference, rows in common.items() if rows == most), key=abs, default=0.0)


def _find_level(counts: Sequence[TokenCount], lengths: Mapping[int, float], window: int | None) -> set[int]:
    """Rows at one ceiling: of prompts that differ in length the server reports the same, largest number of tokens.

    A prompt that fills a known window leaves no room for a reply, so it was cut.
    """
    ceiling = max((count.accepted for count in counts), default=0)
    level = {count.row for count in counts if count.accepted == ceiling}
    if ceiling < SMALLEST_WINDOW or all(count.sent == ceiling for count in counts if count.row in level):
        return set()
    if ceiling == window:
        return level
    counted = [count for count in counts if count.expected]
    is_near = all(count.sent >= _NEAR * ceiling for count in counted if count.row in level)
    varies = counted or len({count.accepted for count in counts}) > 2  # or it does not count at all
    sizes = {lengths[row] for row in level if row in lengths}
    if len(sizes) < 2 or not (is_near and varies):
        return set()
    spread, least = max(sizes) - min(sizes), (_LEVEL if counted else _LOOSE) * max(sizes)
    is_far = counted and min(sizes) > ceiling * (1 + _LOOSE) and spread > _LOOSE * ceiling
    is_wide = len(sizes) >= _FEWEST and len(level) >= 0.1 * len(counts) and spread > max(8, least)
    is_round = ceiling % _WINDOWS == 0 and len(level) > max(2, len(counts) / 2) and (counted or spread > least)
    return level if is_far or is_wide or is_round else set()


def _find_longer(counts: Sequence[TokenCount], base: float, ceiling: float) -> set[int] | None:
    """Rows that are longer than anything the server reports to have read; None if shorter rows do not arrive whole."""
    whole = [count for count in counts if count.sent - base <= ceiling]
    steady = [count.accepted for count in whole if count.difference == base]
    plausible = abs(base) <= _BOS_LIKE or len(set(steady)) >= _FEWEST
    if not plausible or len(steady) < max(_FEWEST, _EXACT_SHARE * len(whole)):
        return None
    return {count.row for count in counts if count.sent - base > ceiling} if ceiling >= SMALLEST_WINDOW else set()


def _name_kind(frequent: Sequence[tuple[float, int]]) -> Literal['same', 'constant', 'jump', 'varies']:
    if len(frequent) <= 1:
        return 'constant' if frequent and frequent[0][0] else 'same'
    levels = [rows for _, rows in frequent if rows >= _FEWEST]
    enough = sum(levels) >= _EXACT_SHARE * sum(rows for _, rows in frequent)
    return 'jump' if len(levels) > 1 and enough else 'varies'


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the server did with the requests of a dataset × model, by its own reports."""

    checked: int = 0
    """Rows whose tokens were compared."""
    unknown: int = 0
    """Rows whose tokens the model's tokenizer does not tell: those of pictures and sound, for one."""
    unreported: int = 0
    """Rows whose tokens the server does not report."""
    difference: float | None = None
    """Expected minus reported tokens of most rows, for each request."""
    truncated: int = 0
    """Rows of which the server read less than was sent."""
    findings: tuple[str, ...] = ()
    """What a reader of the score should know, in sentences."""
    served: Mapping[str, int] | None = None
    """Who answered, as the replies say, with the number of rows."""
    temperature: str = ''
    """`server default` where no request stated one."""

    def describe(self) -> str:
        """The receipt in a few words, to stand beside the score.

        >>> Receipt(checked=20, difference=0.0, temperature='server default').describe()
        'temperature: server default; prompt tokens as expected'
        """
        parts = [f'temperature: {self.temperature}'] if self.temperature else []
        if self.truncated:
            parts.append(f'{count_noun(self.truncated, "row")} truncated by the server')
        if self.difference:
            parts.append(describe_difference(self.difference))
        elif self.checked and not self.findings:
            parts.append('prompt tokens as expected')
        for rows, word in ((self.unknown, 'known'), (self.unreported, 'reported')):
            parts += [f'prompt tokens of {count_noun(rows, "row")} not {word}'] if rows else []
        return '; '.join(parts)


def describe_difference(difference: float) -> str:
    """A difference of prompt tokens, in words.

    >>> describe_difference(-1.0), describe_difference(12.0)
    ('1 prompt token more than expected', '12 prompt tokens fewer than expected')
    """
    amount = f'{abs(difference):,.1f}'.removesuffix('.0')
    return f'{amount} prompt token{"" if amount == "1" else "s"} {"fewer" if difference > 0 else "more"} than expected'


def describe_counts(comparison: CountComparison, explanation: str, *, unit: str = 'row') -> list[str]:
    """The sentences about token counts. `explanation`: what the differences are, if known; `unit`: what was sent."""
    messages = []
    if comparison.truncated:
        rows = count_noun(len(comparison.truncated), unit)
        sent = f' of up to {comparison.longest:,}' if comparison.longest else ''
        result = 'the outcome is truncated_by_server, not an answer' if unit == 'row' else 'the verdicts do not count'
        messages.append(
            f'the server silently cut {rows} to {comparison.ceiling:,} tokens{sent}; {result}. '
            f'Raise its context length, or set max_seq_len={comparison.ceiling}.'
        )
    if comparison.kind == 'constant':
        explanation = explanation or 'no BOS token, system message or known chat template explains it'
        messages.append(f'{describe_difference(comparison.base)} in every request: {explanation}.')
    elif comparison.kind == 'level':
        reading = 'does not count them, or uses another tokenizer.'
        if comparison.ceiling >= SMALLEST_WINDOW:
            reading = 'cuts all of them, or uses another tokenizer. Measure its context length with --probe-servers.'
        messages.append(
            f'the server reports {comparison.ceiling:,} prompt tokens for every {unit}, though they differ in length '
            f'(up to {comparison.longest:,}): it {reading}'
        )
    elif comparison.kind == 'jump':
        (usual, _, _), *others = comparison.differences
        level, differing, row = others[0]
        change = f'{describe_difference(usual)}, but ' if usual else ''
        other = describe_difference(level) if level else 'as many as expected'
        messages.append(
            f'{change}{other} in {count_noun(differing, unit)}{f", first in row {row}" if unit == "row" else ""}: '
            f'{explanation or "another server or template answered"}.'
        )
    elif comparison.kind == 'varies':
        levels = [difference for difference, _, _ in comparison.differences]
        explanation = explanation or 'the server uses another tokenizer or chat template, or cuts every prompt'
        span = f'{0 - max(levels):+,.0f} to {0 - min(levels):+,.0f}'
        messages.append(f'prompt tokens differ from those expected by {span}: {explanation}.')
    return messages
