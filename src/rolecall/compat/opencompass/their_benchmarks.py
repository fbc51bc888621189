"""Readings and verdicts that belong to one benchmark each, as OpenCompass and AISBench give them, defects included."""

from __future__ import annotations

import re
from typing import Any

from rolecall.compat.benchmark_metrics.mathematics import theorem_answer
from rolecall.compat.opencompass.their_answers import read_phrase
from rolecall.compat.opencompass.their_metrics import same_as_any
from rolecall.core.prompts.pieces import text_of
from rolecall.scoring.metrics.metric import comparison
from rolecall.scoring.texts import alternatives, longest_common

_YES_OR_NO = re.compile('yes|no')
_BOOLEANS = (
    r'<boolean>\s*({0})\s*</boolean>',
    r'the answer is:?\s*"?({0})|answer:\s*({0})\b|\\boxed\{{({0})',
    r'\A({0})|({0})\Z',
)
_LABELLED = re.compile(r'answer\s*:\s*([a-d])', re.IGNORECASE)
_AMOUNT = re.compile(r'-?\d*[./]?\d+')
_FIGURES = re.compile(r'-?\d*\.?\d+')
_DIGITS = re.compile(r'\d[\d.]*')
_WORD_END = re.compile(r'[^\w]|_')
_PUNCTUATION = str.maketrans(dict.fromkeys('\n:"\'.,?!{}', ' '))
_LONGEST_LINE = 2000
"""Characters of a line of code that are compared; a line of code is shorter."""
_MGSM = {
    'en': 'Answer',
    'bn': 'উত্তর',
    'de': 'Antwort',
    'es': 'Respuesta',
    'fr': 'Réponse',
    'ja': '答え',
    'ru': 'Ответ',
    'sw': 'Jibu',
    'te': 'సమాధానం',
    'th': 'คำตอบ',
    'zh': '答案',
}
"""The word before the answer, by language."""


def read_yes_or_no(text: str) -> str:
    """The first `yes` or `no` behind the last `answer is ` of the first paragraph, also inside a word.

    >>> read_yes_or_no('I cannot know.'), read_yes_or_no('No. So the answer is yes.')
    ('no', 'yes')
    """
    paragraph = text.partition('\n\n')[0]
    match = _YES_OR_NO.search(paragraph.rpartition('answer is ')[2].lower())
    return match[0] if match else ''


def read_amount(text: str, name: str = '') -> str:
    """The first number between the first two `The answer is` (`答案是`), else the last of the reply; else the text.

    >>> read_amount('The answer is 1,200 of 5. The answer is 7'), read_amount('5 or 6'), read_amount('The answer is B.')
    ('1200', '6', 'B.')
    """
    parts = text.split('答案是' if '_cn' in name else 'The answer is')
    rest = parts[1] if len(parts) > 1 else text
    numbers: list[str] = _AMOUNT.findall(rest.replace(',', ''))
    if not numbers:
        return rest.strip() if len(parts) > 1 else text
    return numbers[0] if len(parts) > 1 else numbers[-1]


def read_digits(text: str) -> str:
    """The digits of the first word with one behind `The answer is `; nothing without such a statement.

    >>> read_digits('The answer is $1,200.50.'), read_digits('7 or 8')
    ('120050', '')
    """
    parts = text.split('The answer is ')
    words = parts[1].split() if len(parts) > 1 else []
    word = next((word for word in words if any(map(str.isdigit, word))), '')
    return ''.join(filter(str.isdigit, word))


def read_yes_before_no(text: str) -> str:
    """`<BOOLEAN> Yes </BOOLEAN>` where the reply has `yes` anywhere, else the same with `No`.

    >>> read_yes_before_no('I know that yesterday')
    '<BOOLEAN> Yes </BOOLEAN>'
    """
    word = next((word for word in ('Yes', 'No') if word.lower() in text.lower()), '')
    return word and f'<BOOLEAN> {word} </BOOLEAN>'


def read_stated_boolean(text: str) -> str:
    """`<BOOLEAN> Yes </BOOLEAN>` or `… No …`: as the reply has it, behind `the answer is`, or at its beginning or end.

    >>> read_stated_boolean('The answer is not 5.'), read_stated_boolean('It is so, yes.')
    ('<BOOLEAN> No </BOOLEAN>', '')
    """
    low = text.strip().lower()
    words = (
        found[found.lastindex or 1]
        for form in _BOOLEANS
        for word in ('yes', 'no')
        if (found := re.search(form.format(word), low))
    )
    word = next(words, '').capitalize()
    return word and f'<BOOLEAN> {word} </BOOLEAN>'


def read_theorem_answer(text: str) -> str:
    """The answer behind the last `the answer is`, else the last digits; `no` or `yes` anywhere is a truth value.

    >>> read_theorem_answer('I do not know'), read_theorem_answer('The answer is (a).')
    ('False', '(a)')
    """
    answer = theorem_answer(text, '')
    figures: list[str] = [] if 'he answer is' in text or not answer[-1:].isdigit() else _FIGURES.findall(text)
    return figures[-1] if figures else answer


def read_bare_theorem_answer(text: str) -> str:
    """The same without the brackets at its ends.

    >>> read_bare_theorem_answer('The answer is (a) or so')
    'a) or so'
    """
    return read_theorem_answer(text).strip('()')


def read_after_label(text: str, lang: str) -> str:
    """The last digits behind the last `Answer`, in the row's language.

    >>> read_after_label('Answer: -1,800.50 dollars.', 'en'), read_after_label('18', 'en')
    ('1800.50', '')
    """
    label = _MGSM.get(lang, 'Answer')
    numbers = _DIGITS.findall(text.rpartition(label)[2].replace(',', '')) if label in text else []
    return numbers[-1].rstrip('.') if numbers else ''


@same_as_any('accuracy')
def equal_phrase(ours: str, gold: str) -> bool:
    """The share of rows whose first line, behind `answer is`, is the phrase of a gold answer."""
    line = ours.partition('\n')[0].lower().rpartition('answer is')[2]
    return read_phrase(line) == read_phrase(gold).lower()


@same_as_any('accuracy')
def same_first_word(ours: str, gold: str) -> bool:
    """The share of rows whose text before the first space or sign is the gold word; articles are nothing."""
    return read_phrase(_WORD_END.split(ours.strip(), maxsplit=1)[0]) == read_phrase(gold)


@comparison('accuracy')
def contain_facts(prediction: str, gold: Any) -> bool:
    """The share of rows whose first sentence has the first gold answer in it, also inside words."""
    sentence = prediction.lower().partition('.')[0]
    for begin in ('<context>', '<example>'):
        sentence = sentence.partition(begin)[0]
    return _first(gold).lower() in sentence


@same_as_any('accuracy')
def named_word(ours: str, gold: str) -> bool:
    """The share of rows that have the gold answer as a word; brackets, bold and backticks belong to a word."""
    return gold in ours.translate(_PUNCTUATION).split()


@comparison('accuracy')
def named_speaker(prediction: str, gold: Any) -> bool:
    """The share of rows that have the first gold answer as a word in capitals."""
    return _first(gold) in prediction.translate(_PUNCTUATION).upper().split()


@comparison('edit_similarity')
def rounded_similarity(prediction: str, gold: Any) -> float:
    """How alike the first line of code and the gold line are (edit ratio), in whole percents."""
    lines = prediction.lstrip('\n').split('\n')
    line = next((line for line in lines if not any(sign in line for sign in ('`', '#', '//'))), '')

    def ratio(answer: str) -> float:
        shared = 2 * len(longest_common(answer, line[:_LONGEST_LINE])) if line and answer else 0
        return round(shared / max(len(line) + len(answer), 1), 2)

    return max((ratio(text_of(answer)) for answer in alternatives(gold)), default=0.0)


def _first(gold: Any) -> str:
    return text_of(next(iter(alternatives(gold)), ''))
