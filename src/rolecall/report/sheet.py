"""The report as CSV: one line for each score, numbers in full."""

from __future__ import annotations

import csv
import io
import json

from rolecall.report.source import Run
from rolecall.report.tally import every_card, tally_of
from rolecall.report.words import OUTCOMES

__all__ = ['report_csv']


def report_csv(run: Run) -> str:
    """The scores of a run. The outcomes add up to the rows that are finished."""
    out = io.StringIO(newline='')
    writer = csv.writer(out, lineterminator='\n')
    writer.writerow(['dataset', 'model', 'metric', 'value', 'low', 'high', 'scored', 'total', *OUTCOMES, 'details'])
    for card in every_card(run.scorecards(), tally_of(run.results())):
        writer.writerow(
            [
                *(card.dataset, card.model, card.metric),
                *('' if number is None else repr(number) for number in (card.value, card.low, card.high)),
                *(card.scored, card.total),
                *(card.outcomes.get(outcome, 0) for outcome in OUTCOMES),
                json.dumps(dict(card.details), ensure_ascii=False, default=str) if card.details else '',
            ]
        )
    return out.getvalue()
