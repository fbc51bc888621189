"""Rows as token sequences with labels, checked and counted before any weights are loaded."""

from __future__ import annotations

import hashlib
import random
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rolecall.apps.sft.training_file import IGNORED, Given, SftReport, entries
from rolecall.apps.tuning.tune_settings import TuneSettings
from rolecall.errors import DataError
from rolecall.models.local_engine import PromptEncoder
from rolecall.strings import count_noun


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """One row: its token ids, and the same with -100 where there is no loss."""

    ids: array[int]
    labels: array[int]

    @property
    def trained(self) -> int:
        """The number of tokens with a loss."""
        return len(self.labels) - self.labels.count(IGNORED)


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """The rows of a tuning, some of them held out."""

    train: Sequence[TokenSequence]
    held_out: Sequence[TokenSequence]
    report: SftReport = field(repr=False)
    too_long: int = 0
    limit: int | None = None

    @property
    def digest(self) -> str:
        """A digest of everything that is trained on or held out."""
        hashed = hashlib.sha256()
        for part in (self.train, self.held_out):
            hashed.update(f'{len(part)};'.encode())
            for row in part:
                hashed.update(row.ids.tobytes())
                hashed.update(row.labels.tobytes())
        return hashed.hexdigest()[:16]

    def closing_token(self, special: Iterable[int]) -> int | None:
        """The special token that ends every answer, if there is one."""
        special_ids = frozenset(special)
        last = {next((label for label in reversed(row.labels) if label in special_ids), None) for row in self.train}
        return last.pop() if len(last) == 1 else None

    def remarks(self) -> Iterator[str]:
        """What people should know about their rows."""
        yield from self.report.remarks()
        if self.too_long:
            yield f"{count_noun(self.too_long, 'row')} left out: longer than the model's {self.limit:,} tokens."
        trained = sum(row.trained for row in self.train)
        held_back = f', {count_noun(len(self.held_out), "row")} held out' if self.held_out else ', none held out'
        yield f'{count_noun(len(self.train), "row")} to train on with {count_noun(trained, "answer token")}{held_back}.'


def read_training_rows(
    examples: Iterable[Given], encoder: PromptEncoder, settings: TuneSettings, *, limit: int | None, skip: bool = False
) -> TrainingRows:
    """Tokenize examples as inference would. Rows longer than `limit` tokens are left out and counted."""
    report = SftReport()
    sequences: list[TokenSequence] = []
    too_long = 0
    for line in entries(examples, report, form='tokens', encoder=encoder, skip=skip):
        if limit is not None and len(line['input_ids']) > limit:
            too_long += 1
        else:
            sequences.append(TokenSequence(array('i', line['input_ids']), array('i', line['labels'])))
    if not sequences:
        raise DataError(_describe_nothing(report, too_long, limit))
    wanted = int(settings.held_out if settings.held_out >= 1 else settings.held_out * len(sequences))
    chosen = frozenset(random.Random(settings.seed).sample(range(len(sequences)), min(wanted, len(sequences))))
    if len(chosen) == len(sequences):
        raise DataError(f'all {count_noun(len(sequences), "row")} are held out: nothing is left to train on.')
    return TrainingRows(
        [row for i, row in enumerate(sequences) if i not in chosen],
        [row for i, row in enumerate(sequences) if i in chosen],
        report,
        too_long,
        limit,
    )


def _describe_nothing(report: SftReport, too_long: int, limit: int | None) -> str:
    if too_long:
        return f'no row fits: {count_noun(too_long, "row")} longer than {limit:,} tokens. Shorten them.'
    if report.left_out:
        return '\n'.join(('no row can be trained on.', *report.remarks()))
    return 'there are no rows to train on: the file is empty.'


def order_batches(lengths: Sequence[int], size: int, *, seed: int, epoch: int) -> list[list[int]]:
    """The rows of each batch in one epoch: shuffled, with rows of similar length together, so that little is padded.

    >>> sorted(map(sorted, order_batches([5, 1, 5, 1], 2, seed=0, epoch=0)))
    [[0, 2], [1, 3]]
    """
    chance = random.Random(f'{seed} {epoch}')
    order = list(range(len(lengths)))
    chance.shuffle(order)
    reach = size * 32
    near = [
        index for at in range(0, len(order), reach) for index in sorted(order[at : at + reach], key=lengths.__getitem__)
    ]
    batches = [near[at : at + size] for at in range(0, len(near), size)]
    chance.shuffle(batches)
    return batches
