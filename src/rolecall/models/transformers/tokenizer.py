"""A tokenizer run by the `transformers` package, for models without a tokenizer.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rolecall.tokenizers.text import Offset, side_by_side, whole

__all__ = ['TransformersTokenizer']


@dataclass(frozen=True, eq=False)
class TransformersTokenizer:
    """What `AutoTokenizer` gives, in the words of `rolecall.tokenizers.tokenizer.Tokenizer`."""

    inner: Any = field(repr=False)

    @property
    def name(self) -> str:
        return str(self.inner.name_or_path)

    @property
    def bos_id(self) -> int | None:
        found = self.inner.bos_token_id
        return None if found is None else int(found)

    @property
    def eos_id(self) -> int | None:
        found = self.inner.eos_token_id
        return None if found is None else int(found)

    @cached_property
    def adds_bos(self) -> bool:
        return self.bos_id is not None and list(self.inner('a')['input_ids'][:1]) == [self.bos_id]

    @cached_property
    def special_tokens(self) -> Mapping[str, int]:
        return {
            str(token): number for number, token in self.inner.added_tokens_decoder.items() if token.special
        } | dict(zip(self.inner.all_special_tokens, self.inner.all_special_ids, strict=True))

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        options: dict[str, Any] = {} if special else {'split_special_tokens': True}
        return list(self.inner(whole(text), add_special_tokens=False, **options)['input_ids'])

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.inner.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self.decode([number]) for number in ids]

    def offsets(self, text: str) -> list[Offset]:
        if self.inner.is_fast:
            found = self.inner(whole(text), add_special_tokens=False, return_offsets_mapping=True)
            return side_by_side(found['input_ids'], [stop for _, stop in found['offset_mapping']], len(text))
        ids = self.encode(text)
        return side_by_side(ids, [len(self.decode(ids[: place + 1])) for place in range(len(ids))], len(text))

    def count(self, text: str) -> int:
        return len(self.encode(text))
