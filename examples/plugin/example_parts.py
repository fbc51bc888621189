"""One part of each kind. The first line of a part's docstring is what `rolecall config list` shows."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rolecall import PromptTemplate
from rolecall.experiment.inferencers.inferencer import Prediction, only_step
from rolecall.experiment.lint import Rule
from rolecall.experiment.lint.subject import Violation
from rolecall.experiment.opening.judge_config import Rubric
from rolecall.models import Sampling
from rolecall.sources.retrievers import Picked


class ChoicesTemplate(PromptTemplate):
    """A question and its lettered choices, one on each line."""

    def __init__(self, question: str = 'question', letters: str = 'ABCD', ice_token: str | None = None) -> None:
        choices = '\n'.join(f'{letter}. {{{letter}}}' for letter in letters)
        super().__init__(f'{ice_token or ""}{{{question}}}\n{choices}\nAnswer: {{answer}}', ice_token=ice_token)


@dataclass(frozen=True)
class LastRetriever:
    """The last `ice_num` training rows, the same for every test row."""

    ice_num: int = 1
    ice_separator: str = '\n\n'
    ice_eos_token: str = '\n\n'
    fixed = True

    def retrieve(
        self, train: Sequence[Any], test: Iterable[Any], *, reader: Any, same_split: bool = False, progress: Any = None
    ) -> Iterator[Picked]:
        last = tuple(range(len(train)))[-self.ice_num :]
        return (Picked(last) for _ in test)


class Calculator:
    """Adds the numbers of the last line of a prompt; no model at all, but it answers like one."""

    def __init__(self, words: str = 'The sum is {}.') -> None:
        self.words = words

    def generate(self, requests: Sequence[str], sampling: Sampling) -> list[str]:
        asked = [request.replace('A:', '').strip().rpartition('Q:')[2] for request in requests]
        return [self.words.format(sum(map(int, re.findall(r'\d+', text)))) for text in asked]


@dataclass(frozen=True)
class AskAgain:
    """Asks until the reply has a number in it, at most `attempts` times."""

    needs = ('generate',)
    sampling: Sampling
    attempts: int = 3

    async def infer(self, pair: Any, row: Any, picked: Picked, ask: Any) -> Prediction:
        step = only_step(pair, row, picked)
        replies: list[str] = []
        while len(replies) < self.attempts and not re.search(r'\d', ''.join(replies[-1:])):
            reply = await ask.generate(step.requests[0][1], self.sampling, sample=len(replies))
            replies.append(reply.text)
        return Prediction(replies[-1], replies=tuple(replies), shots_dropped=step.shots_dropped)


def distance(prediction: str, gold: str) -> float:
    """How far the predicted number is from the right one."""
    return abs(float(prediction) - float(gold))


def last_word(reply: str) -> str:
    """The last word of the reply, without punctuation."""
    return (re.findall(r'\w+', reply) or [''])[-1]


def load_sums(count: int = 10, seed: int = 0) -> dict[str, list[dict[str, str]]]:
    """Sums of two numbers, drawn by a seed."""
    drawn = random.Random(seed)
    pairs = [(drawn.randrange(100), drawn.randrange(100)) for _ in range(count + 3)]
    rows = [{'question': f'{a} + {b}', 'answer': str(a + b)} for a, b in pairs]
    return {'train': rows[:3], 'test': rows[3:]}


def find_shouting(subject: Any, asked: Any) -> Iterator[Violation]:
    """Rows whose text is all capitals."""
    for name, value in asked.values.items():
        if isinstance(value, str) and len(value) > 3 and value.isupper():
            yield Violation(f'the column {name!r} is written in capitals.', about=name, example=value)


SHOUTING = Rule(
    name='shouting',
    severity='info',
    description='A column is written in capitals.',
    remedy='Write it as people do.',
    levels=('dataset',),
    each=find_shouting,
)

POLITENESS = Rubric(
    summary='Is the answer polite?',
    metric='politeness',
    words='Is this answer polite?\n<answer>\n{prediction}\n</answer>\nReply with A if it is, or with B if it is not.',
)

ARROWS: Mapping[str, Any] = {
    'round': [
        {'role': 'HUMAN', 'begin': '>> ', 'end': '\n'},
        {'role': 'BOT', 'begin': '<< ', 'end': '\n', 'generate': True},
    ]
}
