"""A request as the tokens its model sees: ids, boundaries, counts by origin, and what fits into the context.

Each token belongs to the origin of its first character. Nothing is sent or downloaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rolecall.core.prompts.pieces import label_of
from rolecall.experiment.opening.fitting import TokenBudget
from rolecall.experiment.pairs.pair import Pair, Preview
from rolecall.experiment.previews.blocks import TokenAt, is_messages, tokens_of
from rolecall.strings import count_noun, printable
from rolecall.ui.views.looks import LOOKS, group_of

if TYPE_CHECKING:
    from rolecall.models.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Counted:
    """The tokens of one request."""

    tokenizer: str
    tokens: tuple[TokenAt, ...]
    budget: TokenBudget = field(default_factory=TokenBudget)
    counted: int | None = None
    """The number of tokens by the model's own tokenizer and chat template; None if that is not known here."""
    preview: Preview | None = None
    contents_only: bool = False
    """Messages: the server's own words around them are not counted."""

    @property
    def total(self) -> int:
        return len(self.tokens)

    @property
    def by_origin(self) -> dict[str, int]:
        """How many tokens each group of the legend has."""
        counts = Counter(group_of(token.origin) for token in self.tokens)
        return {group: counts[group] for group in LOOKS if counts[group]}

    def facts(self) -> Iterator[tuple[str, str]]:
        """Headings with their text."""
        per = ', '.join(f'{count:,} {group}' for group, count in self.by_origin.items())
        scope = ' in the contents of the messages' if self.contents_only else ''
        yield 'tokens', f'{self.total:,}{scope} ({per})'
        if crossing := [token for token in self.tokens if token.crosses]:
            examples = ', '.join(repr(token.piece) for token in crossing[:3])
            yield 'boundaries', f'{count_noun(len(crossing), "token")} across two origins: {examples}'
        yield 'tokenizer', self.tokenizer
        if (limit := self.budget.tokens) is not None:
            yield 'budget', self._describe_budget(limit)

    def _describe_budget(self, limit: int) -> str:
        less = f'{self.budget.max_seq_len:,} − {self.budget.reserved:,} = {limit:,} tokens'
        if self.counted is None:
            why = "the model's own tokenizer or chat template was not found, or there are media"
            return f'{less}: not known here whether it fits ({why})'
        dropped = self.preview.shots_dropped if self.preview is not None else 0
        without = f' after {count_noun(dropped, "shot")} dropped' if dropped else ''
        if self.counted > limit:
            return f'{less}: {self.counted - limit:,} too many{without}'
        return f'{less}: fits{without}, {limit - self.counted:,} left'

    def as_json(self) -> dict[str, Any]:
        """The count in plain values."""
        return {
            'tokenizer': self.tokenizer,
            'total': self.total,
            'by_origin': self.by_origin,
            'contents_only': self.contents_only,
            'budget': self.budget.tokens,
            'counted': self.counted,
            'tokens': [
                {
                    'id': token.id,
                    'text': token.text,
                    'piece': token.piece,
                    'kind': token.origin.kind,
                    'message': token.message,
                    'part': token.part,
                    'crosses': token.crosses,
                }
                for token in self.tokens
            ],
        }

    def plain_lines(self) -> Iterator[str]:
        """The count, then one token on each line: number, id, origin, text."""
        for heading, words in self.facts():
            yield f'-- {heading}: {printable(words)}'
        width = max((len(label_of(token.origin)) for token in self.tokens), default=0)
        for number, token in enumerate(self.tokens):
            mark = '*' if token.crosses else ' '
            yield f'{number:>6} {token.id:>7} {label_of(token.origin).ljust(width)}{mark}│{token.as_line()}'


def count_tokens(pair: Pair, preview: Preview, tokenizer: Tokenizer) -> Counted:
    """The tokens of a request as a tokenizer cuts it, and how the pair counted it when it made it fit."""
    model_entry = pair.model_entry
    begins = model_entry is not None and model_entry.kind == 'text'
    tokens = tuple(tokens_of(preview.spans, tokenizer, with_bos=begins))
    own = None
    if model_entry is not None and preview.request is not None and pair.budget.tokens is not None:
        own = model_entry.count(preview.request)
    return Counted(
        tokenizer.name,
        tokens,
        pair.budget,
        own,
        preview,
        contents_only=is_messages(preview),
    )
