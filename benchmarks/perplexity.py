"""Four-choice questions by perplexity: every label from scratch, grouped per question, and what is shared computed once.

    python benchmarks/perplexity.py
    python benchmarks/perplexity.py --questions 20 --answers texts
    python benchmarks/perplexity.py --engine transformers --path FOLDER --device cuda --questions 50

Five examples (about 800 tokens) stand before every question. OpenCompass computes each of the four labels from the first
token on; lm-evaluation-harness groups the labels of a question; rolecall computes what prompts share once. The three ways
run on the same weights in one process, and must choose the same labels with the same scores.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from rolecall.models.protocol import Scored

ITEMS = ['apples', 'pencils', 'tickets', 'loaves of bread', 'litres of milk', 'model trains', 'postcards', 'chairs']
PEOPLE = ['Amina', 'Bruno', 'Chen', 'Dalia', 'Edgar', 'Farid', 'Greta', 'Hiro', 'Ines', 'Jakob']
PLACES = ['the market', 'the school fair', 'a small shop near the station', 'the harbour', 'the library sale']


@dataclass(frozen=True, slots=True)
class Question:
    """A question in words, its four options, and which is right."""

    text: str
    options: tuple[int, ...]
    right: int


@dataclass(slots=True)
class Way:
    """One way to compute, and what it has cost so far."""

    name: str
    model: Any
    forget: Callable[[], Awaitable[None]] | None = None
    """Lets the model start anew before each question."""
    tokens: int = 0
    seconds: float = 0.0
    scores: list[float] = field(default_factory=list)

    async def ask(self, group: list[str]) -> None:
        if self.forget is not None:
            await self.forget()
        begun = time.perf_counter()
        found: list[Scored] = await self.model.score(group)
        self.seconds += time.perf_counter() - begun
        self.tokens += sum((one.usage.input_tokens or 0) - (one.usage.cached_tokens or 0) for one in found)
        self.scores += [sum(value or 0.0 for value in one.logprobs) for one in found]

    @property
    def chosen(self) -> list[int]:
        groups = [self.scores[start : start + 4] for start in range(0, len(self.scores), 4)]
        return [group.index(max(group)) for group in groups]


def question(chance: random.Random) -> Question:
    """A word problem in three steps."""
    one, two = chance.sample(PEOPLE, 2)
    item, place = chance.choice(ITEMS), chance.choice(PLACES)
    count, price, given, more = (
        chance.randint(12, 60),
        chance.randint(2, 9),
        chance.randint(2, 9),
        chance.randint(3, 30),
    )
    result = (count - given + more) * price
    text = (
        f'{one} goes to {place} early in the morning with {count} {item} to sell. On the way {one} meets {two}, an old '
        f'friend, and gives away {given} of the {item} as a present. At {place} a neighbour brings {more} more {item} '
        f'that were left over from last week, and they are put on the same table, because nobody wants to carry them '
        f'back home through the rain in the evening. Every one of the {item} costs {price} '
        f'dollars, and by the evening all of them are sold. How many dollars does {one} take home at the end of the day?'
    )
    options = [result, result + price, result - given * price, count * price + more]
    chance.shuffle(options)
    return Question(text, tuple(options), options.index(result))


def asked(one: Question) -> str:
    options = '\n'.join(f'{letter}. {value} dollars' for letter, value in zip('ABCD', one.options, strict=True))
    return f'Question: {one.text}\n{options}\nAnswer:'


def answers(one: Question, style: str) -> list[str]:
    if style == 'letters':
        return [f' {letter}' for letter in 'ABCD']
    return [f' {one.options[place]} dollars, which is option {letter}.' for place, letter in enumerate('ABCD')]


def prompts(count: int, style: str) -> list[list[str]]:
    """The four prompts of each question, five examples before each."""
    chance = random.Random(7)
    shots = [question(chance) for _ in range(5)]
    beginning = ''.join(f'{asked(shot)}{answers(shot, style)[shot.right]}\n\n' for shot in shots)
    asking = [question(chance) for _ in range(count)]
    return [[f'{beginning}{asked(one)}{answer}' for answer in answers(one, style)] for one in asking]


# The engines: each gives the three ways.

SCRATCH, GROUPED, SHARED = (
    'every label from scratch (OpenCompass)',
    'grouped per question (lm-evaluation-harness)',
    'shared (rolecall)',
)


def llama(options: argparse.Namespace) -> list[Way]:
    from rolecall.models.llama.model import LlamaModel, build

    entry = {'type': 'LlamaCpp', 'path': options.path or 'smollm2', 'n_threads': options.threads, 'max_seq_len': 4096}
    shared, grouped = build(entry, name='shared'), build(entry, name='grouped')
    alone = LlamaModel(shared._settings, name='alone', share=False)
    return [Way(SCRATCH, alone), Way(GROUPED, grouped, grouped.forget), Way(SHARED, shared)]


def transformers(options: argparse.Namespace) -> list[Way]:
    from rolecall.models.transformers.model import TransformersModel, build

    entry = {
        'type': 'HuggingFaceBaseModel',
        'path': options.path,
        'device': options.device,
        'batch_size': options.batch,
    }
    shared, grouped = build(entry, name='shared'), build(entry, name='grouped')
    alone = TransformersModel(shared._settings, name='alone', shares=False)

    async def forget() -> None:
        await grouped._in_thread(lambda engine: engine.scorer.forget())

    return [Way(SCRATCH, alone), Way(GROUPED, grouped, forget), Way(SHARED, shared)]


ENGINES = {'llama': llama, 'transformers': transformers}


async def main(options: argparse.Namespace) -> None:
    ways = ENGINES[options.engine](options)
    *_, ours = ways
    groups = prompts(options.questions, options.answers)
    for way in ways:
        await way.model.score(['Hello there, this is to load the weights.'])
    lengths = [ours.model.count(prompt) for group in groups for prompt in group]
    shots = ours.model.count(groups[0][0].rpartition('Question:')[0])
    print(
        f'{options.engine}: {len(groups)} questions, 4 {options.answers} each, {min(lengths)} to {max(lengths)} tokens, {shots} of them examples'
    )
    # Question by question in turn, so that whatever else the machine does meets all three alike.
    for group in groups:
        for way in ways:
            await way.ask(group)
    print(
        f'\n| | tokens computed | seconds | tokens, times ours | seconds, times ours | largest difference of a score |\n|{"---|" * 6}'
    )
    for way in ways:
        difference = max(abs(one - other) for one, other in zip(way.scores, ours.scores, strict=True))
        print(
            f'| {way.name} | {way.tokens:,} | {way.seconds:.1f} | {way.tokens / ours.tokens:.1f} | {way.seconds / ours.seconds:.1f} | {difference:.2g} |'
        )
    same = all(way.chosen == ours.chosen for way in ways)
    print(f'\nThe chosen labels are {"the same" if same else "NOT the same"} in all three ways.')
    for way in ways:
        await way.model.close()


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--engine', choices=ENGINES, default='llama')
    parser.add_argument('--path', help='a .gguf file, or the folder of a Transformers model')
    parser.add_argument('--questions', type=int, default=8)
    parser.add_argument('--answers', choices=('letters', 'texts'), default='letters')
    parser.add_argument('--threads', type=int, help='llama: a fixed number of threads (default: as many as help)')
    parser.add_argument('--device', help='transformers: cpu, cuda, …')
    parser.add_argument('--batch', type=int, default=8, help='transformers: prompts at a time')
    asyncio.run(main(parser.parse_args()))
