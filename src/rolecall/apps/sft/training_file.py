"""Training files from examples: their lines in one form, and a report of what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rolecall.apps.sft.examples import TextExample, TrainingExample, UntrainableError
from rolecall.apps.sft.forms import Form, TokenCounts, lines_of
from rolecall.errors import PrompterError, RenderError
from rolecall.models.local_engine import PromptEncoder
from rolecall.strings import count_noun

Given = tuple[str, Callable[[], TrainingExample]]
"""The place of a row, and a function that builds its example."""


@dataclass(slots=True)
class SftReport(TokenCounts):
    """Counts of what happened during an export, with one example of each kind."""

    examples: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    cases: dict[str, str] = field(default_factory=dict)
    leads: Counter[str] = field(default_factory=Counter)
    endless: int = 0
    """Examples without an end marker."""

    def leave_out(self, where: str, error: RenderError | PrompterError) -> None:
        """Count a skipped row."""
        reason = error.reason if isinstance(error, UntrainableError) else _REFUSED[isinstance(error, PrompterError)]
        self.left_out[reason] += 1
        self.cases.setdefault(reason, f'{where}: {error}')

    def count(self, example: TrainingExample) -> None:
        self.examples += 1
        if isinstance(example, TextExample):
            self.endless += not example.ending
            self.leads[example.lead] += bool(example.lead.strip())

    def remarks(self) -> Iterator[str]:
        """Remarks for the user."""
        for reason, count in self.left_out.most_common():
            yield f'{count_noun(count, "row")} left out: {reason}. The first: {self.cases[reason]}'
        for lead, count in (+self.leads).most_common(3):
            rows = count_noun(count, 'row')
            yield f'{rows}: the model side puts {lead!r:.60} between request and answer, trained on too.'
        if self.endless:
            what = 'no end marker, so the model will not learn where to stop. Add one with --end'
            yield f'{count_noun(self.endless, "row")}: {what}'
        if self.straddling:
            yield f'{count_noun(self.straddling, "token")} spanning the boundary of an answer: not trained on.'
        if self.shifted:
            yield f'{count_noun(self.shifted, "row")}: the request tokenizes differently when the answer follows.'


_REFUSED = {False: 'the row cannot become a request', True: 'the prompter cannot word the row'}


def entries(
    examples: Iterable[Given],
    report: SftReport,
    *,
    form: Form,
    encoder: PromptEncoder | None = None,
    skip: bool = False,
) -> Iterator[dict[str, Any]]:
    """The examples as lines of a training file. `tokens` needs an `encoder`.

    A row that gives no example is an error, unless it is to be skipped; then it is counted.
    """
    for where, teach in examples:
        try:
            example = teach()
            lines = list(lines_of(example, form, report, encoder))
        except (RenderError, PrompterError) as error:
            if not skip:
                raise RenderError(f'{where}: {error}') from error
            report.leave_out(where, error)
            continue
        report.count(example)
        yield from lines
