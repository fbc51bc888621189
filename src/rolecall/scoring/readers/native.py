"""Our readers, one for each kind of answer. Each takes a reply and gives a `Reading`, or None where it finds nothing.

The functions that end in `_in` give the value alone, for metrics that read a reply themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rolecall.scoring.readers.expressions import Expressions
from rolecall.scoring.readers.mentions import is_lettered, option_texts
from rolecall.scoring.readers.numbers import Numbers, find_numbers
from rolecall.scoring.readers.options import Options
from rolecall.scoring.readers.phrases import Phrases
from rolecall.scoring.readers.ranking import read_reply
from rolecall.scoring.readers.reading import Page, Reading
from rolecall.scoring.texts import last_boxed

_NUMBERS, _EXPRESSIONS, _PHRASES = Numbers(), Expressions(), Phrases()
_LETTERS = 'ABCDEFGHIJKLMNOPQR'


def read_choice(
    text: str,
    choices: Sequence[str],
    row: Mapping[str, Any] | None = None,
    several: bool = False,
    forms: Sequence[str] = (),
) -> Reading | None:
    """The choice that a reply names: a letter, the text of the row's option, or a word (`yes`, `positive`).

    With `several`, a list of letters is an answer: all of them, in alphabetical order. `forms` is what stands before
    the answer in the form that the prompt asks for; a run fills it in.

    >>> read_choice('The answer is (C).', 'ABCD').value, read_choice('Nope.', ['yes', 'no']).value
    ('C', 'no')
    >>> read_choice('Rome', 'AB', {'options': ['Paris', 'Rome']}).value
    'B'
    >>> read_choice('It could be positive or negative.', ['positive', 'negative']).counts
    False
    >>> read_choice('The answers are C and A.', 'ABCD', several=True).value
    'AC'
    """
    labels = [str(choice) for choice in choices]
    texts = option_texts(row) if row and is_lettered(labels) else ()
    return read_reply(text, Options(labels, texts, several=several), forms)


def read_option(
    text: str,
    options: str | Sequence[str],
    cushion: bool = True,
    row: Mapping[str, Any] | None = None,
    forms: Sequence[str] = (),
) -> Reading | None:
    """The option that a reply states or concludes.

    >>> read_option('A dog. I think the best is (C)', options='ABCD').value
    'C'
    """
    return read_choice(text, list(options), row, forms=forms)


def read_lettered(text: str) -> Reading | None:
    """The letter of a multiple-choice answer, such as `(B)`.

    >>> read_lettered('So the answer is (B).').value
    'B'
    """
    return read_choice(text, _LETTERS)


def read_number(text: str, forms: Sequence[str] = ()) -> Reading | None:
    """The number that a reply states, or that its last sentence comes to.

    >>> read_number('Answer: 18 dollars, not 20.\\n\\nConfidence: 95%').value
    '18'
    """
    return read_reply(text, _NUMBERS, forms)


def read_expression(text: str, forms: Sequence[str] = ()) -> Reading | None:
    r"""The expression that a reply states, boxes or comes to.

    >>> read_expression(r'The answer is 3, that is, \boxed{\frac{6}{2}}.').value
    '\\frac{6}{2}'
    """
    return read_reply(text, _EXPRESSIONS, forms)


def read_text(text: str, forms: Sequence[str] = ()) -> Reading | None:
    """The text that a reply states as its answer; else the reply without its reasoning.

    >>> [read_text(reply).value for reply in ('So the answer is Paris.', '{"answer": "Paris"}', 'Paris')]
    ['Paris', 'Paris', 'Paris']
    """
    return read_reply(text, _PHRASES, forms)


def option_in(text: str, options: str | Sequence[str]) -> str:
    """The value of `read_option`; empty if the reply states and concludes none."""
    return _value(read_option(text, options))


def expression_in(text: str) -> str:
    """The value of `read_expression`; empty if there is none."""
    return _value(read_expression(text))


def number_in(text: str) -> str:
    """The value of `read_number`; empty if there is none.

    >>> number_in('150 minutes (2.5 hours)'), number_in('two dozen'), number_in('none')
    ('150', '24', '')
    """
    return _value(read_number(text))


def last_number(text: str) -> str:
    """The last number in digits, whatever it counts; empty if there is none.

    >>> [last_number(text) for text in ('from 12 to -3,000.', '70 000', '12,5 m', '3.2 × 10^5', '3 1/2', '10 - 3')]
    ['-3000', '70000', '12.5', '3.2e5', '3.5', '3']
    """
    numbers = find_numbers(text)
    return numbers[-1] if numbers else ''


def first_number(text: str) -> float | None:
    """The first number in digits.

    >>> first_number('It costs $1,250.50, or 3 a day')
    1250.5
    """
    return next(map(float, find_numbers(text)), None)


def read_last_number(text: str) -> str:
    r"""The number after `####`, or in the last `\boxed{…}`, or else the last number before a next question.

    >>> read_last_number('3 + 4 = 7 eggs, so $1,234.50.\n\nQuestion: How old is 55?')
    '1234.50'
    """
    own = Page(text).own
    if '####' in own:
        marked = own.rpartition('####')[2].strip().partition('\n')[0]
        if final := find_numbers(marked):
            return final[-1] if '=' in marked else final[0]
    return last_number(last_boxed(own)) or last_number(own)


def read_gold_solution(text: str) -> str:
    """The text after `####` in GSM8K's solutions, without thousands separators.

    >>> read_gold_solution('They ate 1,000.\\n#### 1,200')
    '1200'
    """
    return text.rpartition('####')[2].strip().replace(',', '')


def _value(reading: Reading | None) -> str:
    return reading.value or '' if reading is not None and reading.counts else ''
