"""Values that spell a control token stay text: `<|im_end|>` in a row is ten characters, not the end of a turn.

Where the tokenizer is here, such a row's request is carried with the token ids of those characters; all others stay
the text that they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from rolecall.core.program import Trace
from rolecall.core.program.varying import Indexed
from rolecall.core.prompts.pieces import Row
from rolecall.core.render.spans import Span
from rolecall.errors import DataError, MissingExtraError
from rolecall.experiment.opening.fitting import Labelled
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.pairs.programs import RowProgram, Traced
from rolecall.models.tokenizers.tokenizer import Tokenizer, find_tokenizer

_VALUES = ('field', 'reply')
_SHORTEST = 3
_NEVER = re.compile(r'(?!)')


class PlainValues:
    """A program whose requests hold no control tokens but those of the template and the model side."""

    def __init__(self, program: RowProgram, model_entry: ModelEntry, train: Indexed) -> None:
        self._program = program
        self._entry = model_entry.entry
        self._train = train
        self._shots: dict[int, bool] = {}
        self.weighs, self.waits, self.complete = program.weighs, program.waits, program.complete

    def turns(self, row: Row) -> Sequence[int | None]:
        return self._program.turns(row)

    def requests(self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]) -> Labelled:
        requests = self._program.requests(row, shots, turn, replies)
        if not (self._spells_token(row.values()) or self._spells_token(replies) or any(map(self._shot_does, shots))):
            return requests
        return [(label, trace.request) for label, trace, _ in self.traces(row, shots, turn, replies)]

    def traces(self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]) -> Iterator[Traced]:
        for label, trace, prompt in self._program.traces(row, shots, turn, replies):
            yield label, self._protect(trace), prompt

    @cached_property
    def _tokenizer(self) -> Tokenizer | None:
        try:
            return find_tokenizer(self._entry)
        except (DataError, MissingExtraError):
            return None

    @cached_property
    def _control(self) -> re.Pattern[str]:
        """What becomes a control token where it stands in a text."""
        special = self._tokenizer.special_tokens if self._tokenizer else ()
        tokens = [token for token in special if len(token) >= _SHORTEST]
        return re.compile('|'.join(map(re.escape, sorted(tokens, key=len, reverse=True)))) if tokens else _NEVER

    def _spells_token(self, values: Any) -> bool:
        control = self._control
        return control is not _NEVER and any(control.search(v if isinstance(v, str) else str(v)) for v in values)

    def _shot_does(self, number: int) -> bool:
        if number not in self._shots:
            self._shots[number] = self._spells_token(self._train[number].values())
        return self._shots[number]

    def _protect(self, trace: Trace) -> Trace:
        if not isinstance(trace.request, str) or self._tokenizer is None:
            return trace
        spans = [part for span in trace.spans for part in self._split(span, self._tokenizer)]
        if not any(span.token is not None for span in spans):
            return trace
        request: list[int | str] = []
        for span in spans:
            if span.token is not None:
                request.append(span.token)
            elif request and isinstance(request[-1], str):
                request[-1] += span.text
            elif span.text:
                request.append(span.text)
        return replace(trace, request=request, spans=tuple(spans))

    def _split(self, span: Span, tokenizer: Tokenizer) -> Iterator[Span]:
        """The span with each control token that a value spells as the ids of its characters."""
        at = 0
        for match in self._control.finditer(span.text) if span.origin.kind in _VALUES else ():
            if match.start() > at:
                yield replace(span, text=span.text[at : match.start()])
            ids = tokenizer.encode(match[0], special=False)
            for number, piece in zip(ids, tokenizer.pieces(ids), strict=True):
                yield replace(span, text=piece, token=number)
            at = match.end()
        if at < len(span.text) or not at:
            yield replace(span, text=span.text[at:]) if at else span
