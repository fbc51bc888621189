"""What a run would send, of each dataset and model the rows, requests, tokens and price; and what it came to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecall.errors import Problem
from rolecall.experiment.lint import Finding
from rolecall.runs.pair_run import PreparedRun
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun

if TYPE_CHECKING:
    from rolecall.runs.batches.ledger import BatchRecord


@dataclass(frozen=True, slots=True)
class PlannedPair:
    """One dataset × model. What is not known is None; what was counted on a part of the rows is not `exact`."""

    dataset: str
    model: str
    rows: int
    requests: int
    cached: int = 0
    """Requests that were finished before and will not be sent."""
    repeated: int = 0
    """Requests that equal an earlier one: they share its reply."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    """At most."""
    price: float | None = None
    """At most, in US dollars (or the currency of the entry's own `price`)."""
    remote: bool = False
    """Whether a server elsewhere is asked, so that tokens cost money."""
    shots_dropped: int = 0
    too_long: int = 0
    left_out: int = 0
    """Malformed lines of the data that are passed over (`on_error='skip'`)."""
    to_judge: int = 0
    """Requests to a judge about the answers, at most; they stand in no other number."""
    batch: bool = False
    """Whether the price is that of batches."""
    shared_part: float = 0.0
    """What part of each request the server is asked to keep for the others."""
    cached_price: float | None = None
    """About, if what requests share is written to the server's cache once and read from there by all others."""
    unchecked: bool = False
    """Whether it is not known here that all requests fit the context."""
    exact: bool = True

    @property
    def about(self) -> str:
        return '' if self.exact else '~'


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Every dataset × model of a run.

    >>> print(RunPlan((PlannedPair('gsm8k', 'gpt', rows=100, requests=100, cached=40, input_tokens=81200),)))
    gsm8k × gpt: 100 rows, 100 requests (40 known), 81,200 input tokens
    60 requests to send
    """

    pairs: tuple[PlannedPair, ...]
    probes: int = 0
    """Tiny requests that show what servers do with prompts, at most; they are sent before the others."""

    @property
    def requests(self) -> int:
        """How many requests are to be sent."""
        return sum(pair.requests - pair.cached for pair in self.pairs)

    @property
    def input_tokens(self) -> int | None:
        """Input tokens of all requests; None if a tokenizer is missing."""
        return _sum([pair.input_tokens for pair in self.pairs])

    @property
    def price(self) -> float | None:
        """The price of all requests, at most; None if no entry has one."""
        prices = [pair.price for pair in self.pairs if pair.price is not None]
        return sum(prices) if prices else None

    @property
    def exact(self) -> bool:
        return all(pair.exact for pair in self.pairs)

    def lines(self) -> Iterator[str]:
        """The plan for people."""
        for pair in self.pairs:
            yield f'{pair.dataset} × {pair.model}: {", ".join(_parts(pair))}'
        about = '' if self.exact else '~'
        judging = sum(pair.to_judge for pair in self.pairs)
        more = f', and up to {judging:,} to judges' if judging else ''
        probes = f', and {count_noun(self.probes, "probe")}' if self.probes else ''
        some = (
            ' for those whose price is known' if any(line.remote and line.price is None for line in self.pairs) else ''
        )
        without = ' without the judges' if judging else ''
        batch = ' at the batch price' if any(pair.batch for pair in self.pairs) else ''
        price = '' if self.price is None else f', at most {self.price:.2f}{batch}{some}{without}'
        yield f'{about}{count_noun(self.requests, "request")} to send{more}{probes}{price}'

    def __str__(self) -> str:
        return '\n'.join(self.lines())


def _parts(pair: PlannedPair) -> Iterator[str]:
    cached = f' ({pair.about}{pair.cached:,} known)' if pair.cached else ''
    yield count_noun(pair.rows, 'row')
    yield f'{pair.about}{count_noun(pair.requests, "request")}{cached}'
    if pair.repeated:
        yield f'{pair.about}{count_noun(pair.repeated, "duplicate")} (not sent)'
    if pair.input_tokens is not None:
        yield f'{pair.about}{count_noun(pair.input_tokens, "input token")}'
    elif pair.remote:
        yield 'input tokens not known'
    if pair.unchecked:
        yield 'not known here whether they fit the context'
    if pair.shots_dropped:
        yield f'{pair.about}{count_noun(pair.shots_dropped, "example")} dropped to fit'
    if pair.too_long:
        yield f'{pair.about}{count_noun(pair.too_long, "row")} too long'
    if pair.left_out:
        yield f'{count_noun(pair.left_out, "malformed line")} left out'
    if pair.to_judge:
        yield f'up to {count_noun(pair.to_judge, "request")} to its judge'
    if pair.price is not None:
        yield f'at most {pair.price:.2f}{" at the batch price" if pair.batch else ""}'
        if pair.cached_price is not None:
            yield f'about {pair.cached_price:.2f} with {pair.shared_part:.0%} of each prompt from the cache'
    elif pair.remote:
        yield 'price not known'


def _sum(amounts: Sequence[int | None]) -> int | None:
    counted = [amount for amount in amounts if amount is not None]
    return sum(counted) if len(counted) == len(amounts) else None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run came to."""

    out: Path
    plan: RunPlan
    scorecards: tuple[Scorecard, ...] = ()
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """How rows ended in this run, those that were known included."""
    findings: tuple[Finding, ...] = ()
    """What the linter calls an error."""
    warnings: tuple[Finding, ...] = ()
    """What the linter calls a warning."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why rows failed, with how many of the first rows of each dataset × model."""
    reply_warnings: tuple[str, ...] = ()
    """What looks wrong about the replies as a whole: all empty, all the same, none parsed."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """Models, judges among them, that could not be asked to the end, with why."""
    unjudged: int = 0
    """Answers on which a judge was asked and said nothing."""
    without_verdict: int = 0
    """Rows with a reply of the judge that cannot be read."""
    interrupted: bool = False
    ended: str = ''
    """Which cap ended the run before all rows were asked about."""
    cost: float = 0.0
    tokens: int = 0
    """What the answers of this run took, those that were known left out."""
    dry: bool = False
    seconds: float = 0.0
    skipped: tuple[Problem, ...] = ()
    """Why datasets or pairs were left out (`keep_going`)."""
    submitted: tuple[BatchRecord, ...] = ()
    """The batches that were submitted (`batch`)."""
    waiting: int = 0
    """Rows and judgements that wait for a batch."""

    @classmethod
    def of(cls, prepared: PreparedRun, plan: RunPlan, findings: Sequence[Finding], **facts: Any) -> RunSummary:
        """The summary of a run, with what is known of it before anything is sent."""
        errors, warnings = (
            tuple(finding for finding in findings if finding.severity == severity) for severity in ('error', 'warning')
        )
        out = Path(prepared.options.out or '')
        return cls(out, plan, findings=errors, warnings=warnings, skipped=prepared.skipped, **facts)

    @property
    def exit_code(self) -> int:
        """0 if every row came to something; 130 if interrupted.

        1 if a row failed, a model could not be asked, a judge said nothing, a cap ended it, or something was left out.
        """
        if self.interrupted:
            return 130
        unscored = self.unjudged or self.without_verdict or any(card.error for card in self.scorecards)
        return 1 if self.skipped or self.broken or self.ended or unscored or self.outcomes.get('failed') else 0
