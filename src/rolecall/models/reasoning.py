"""Separates reasoning from the answer, for models that write both into one text."""

from __future__ import annotations

from typing import NamedTuple

THINK = ('<think>', '</think>')


class SplitReply(NamedTuple):
    """An answer and the reasoning before it. `exhausted`: the text was cut off before the reasoning ended."""

    answer: str
    reasoning: str = ''
    exhausted: bool = False


def split_reasoning(text: str, *, cut_off: bool = False, tags: tuple[str, str] = THINK) -> SplitReply:
    """Split the reasoning at the start of a text from the answer. A text without any is unchanged.

    >>> split_reasoning('<think>2 and 2</think>\\n\\nFour')
    SplitReply(answer='Four', reasoning='2 and 2', exhausted=False)
    >>> split_reasoning('<think>2 and', cut_off=True)
    SplitReply(answer='', reasoning='2 and', exhausted=True)

    A chat template may open the reasoning in the prompt; then only its end is in the text.

    >>> split_reasoning('2 and 2</think>Four').answer
    'Four'
    """
    opening, closing = tags
    start = text.lstrip()
    opened = start.startswith(opening)
    thought, closed, answer = text.partition(closing)
    if closed and (opened or opening not in thought):
        return SplitReply(answer.lstrip(), thought.lstrip().removeprefix(opening).strip())
    if opened and cut_off:
        return SplitReply('', start.removeprefix(opening).strip(), exhausted=True)
    return SplitReply(text)
