"""A first config for a file of rows: its columns, guessed from names and values, and a file to start from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rolecall.assemble.rows_config import METRIC_NAMES, columns_of, find_question
from rolecall.datasets.formats import open_file
from rolecall.errors import DataError
from rolecall.models.model_names import DEFAULT_MODEL
from rolecall.strings import printable

__all__ = ['Guess', 'guess_columns', 'write_config']

_ANSWERS = (
    *(
        'answer',
        'label',
        'target',
        'gold',
        'output',
        'expected',
        'response',
        'solution',
        'class',
        'category',
        'answers',
    ),
    *('correct', 'sentiment', 'intent', '答案'),
)
_LOOKED_AT = 500
_MOST_CHOICES = 10
_REPEATED = 3
"""Answers that each occur this often are choices."""
_SHORT = 5


@dataclass(frozen=True, slots=True)
class Guess:
    """How rows are probably meant."""

    columns: tuple[str, ...]
    question: str
    answer: str | None
    choices: tuple[str, ...] = ()
    metric: str = 'exact'


def guess_columns(path: Path) -> Guess:
    """What the columns of a file of rows probably are."""
    rows = list(islice(open_file(path), _LOOKED_AT))
    columns = tuple(columns_of(rows))
    if not columns:
        raise DataError(f'{path}: the file has no rows.')
    lowered = {name.lower(): name for name in columns}
    answer = next((lowered[name] for name in _ANSWERS if name in lowered), None)
    others = [name for name in columns if name != answer]
    question = find_question(others) or _longest(rows, others) or columns[0]
    return guess_answers(rows, Guess(columns, question, answer if answer != question else None))


def guess_answers(rows: Iterable[Mapping[str, Any]], guess: Guess) -> Guess:
    """The guess with choices and a metric that suit the answers."""
    if guess.answer is None:
        return guess
    golds = [str(row[guess.answer]) for row in rows if row.get(guess.answer) not in (None, '')]
    distinct = sorted(set(golds))
    if 2 <= len(distinct) <= _MOST_CHOICES and len(golds) >= _REPEATED * len(distinct) and _are_words(distinct):
        return Guess(guess.columns, guess.question, guess.answer, tuple(distinct), 'accuracy')
    if golds and all(_is_number(gold) for gold in golds):
        return Guess(guess.columns, guess.question, guess.answer, (), 'number')
    long = sum(len(gold.split()) > _SHORT for gold in golds) * 2 > len(golds)
    return Guess(guess.columns, guess.question, guess.answer, (), 'rouge' if long else 'contains')


def _are_words(answers: Sequence[str]) -> bool:
    return all(len(answer.split()) <= _SHORT and ',' not in answer for answer in answers)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(',', ''))
    except ValueError:
        return False
    return True


def _longest(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str | None:
    """The column with the longest texts."""
    lengths = {name: sum(len(str(row.get(name, ''))) for row in rows) for name in columns}
    return max(lengths, key=lambda name: lengths[name], default=None)


def _in_comment(text: str) -> str:
    """A name on one line, with nothing in it that could end a comment or a docstring."""
    return printable(' '.join(text.split())).replace('\\', '/').replace('"', "'")


def write_config(path: Path, guess: Guess, *, model: str = DEFAULT_MODEL, name: str) -> str:
    """A commented Python config for a file of rows."""
    evaluator, extract = METRIC_NAMES[guess.metric]
    prompt = f'{{{guess.question}}}'
    options = [choice for choice in guess.choices if choice in guess.columns]
    if options == list(guess.choices) and options:
        prompt += ''.join(f'\n{choice}. {{{choice}}}' for choice in options)
    extraction = repr(extract)
    if guess.choices:
        prompt += f'\nAnswer with one of: {", ".join(guess.choices)}.'
        extraction = f"dict(type='choice_postprocess', choices={list(guess.choices)!r})"
    bot = f", dict(role='BOT', prompt={f'{{{guess.answer}}}'!r})" if guess.answer else ''
    inputs = [one for one in guess.columns if one != guess.answer and f'{{{one}}}' in prompt]
    scoring = ''
    if guess.answer is not None:
        reading = f'            pred_postprocessor={extraction},  # how the answer is read from a reply\n'
        scoring = (
            '        eval_cfg=dict(\n'
            f'            evaluator=dict(type={evaluator!r}),  # others: rolecall list metrics\n'
            f'{reading if extraction != "None" else ""}'
            '        ),\n'
        )
    columns = _in_comment(', '.join(guess.columns))
    return f'''"""An evaluation of {_in_comment(path.name)}.

    rolecall view {_in_comment(name)}     what each model will receive
    rolecall run {_in_comment(name)}      ask, score, report; started again, it resumes
"""

models = [
    {model!r},  # also 'openai/gpt-4.1-mini', 'ollama/llama3.2', 'hf:FOLDER', 'http://localhost:8000/v1', …
]

datasets = [
    dict(
        abbr={path.name.split('.')[0]!r},
        type='File',
        path={str(path)!r},
        reader_cfg=dict(
            input_columns={inputs!r},  # columns of the file: {columns}
            output_column={guess.answer!r},  # hidden from the row that is asked about, shown in examples
        ),
        infer_cfg=dict(
            # Columns stand in braces. The BOT's turn is where the model answers.
            prompt_template=dict(
                type='PromptTemplate',
                template=dict(round=[dict(role='HUMAN', prompt={prompt!r}){bot}]),
            ),
            # Five examples for each row: rolecall run {_in_comment(name)} --shots 5 --retriever bm25
            inferencer=dict(type='GenInferencer', max_out_len=512),
        ),
{scoring}    ),
]
'''
