"""LongBench: F1, ROUGE-L, code, classes and numbers of paragraphs; the best of several gold answers counts.

Chinese texts are split into words by `jieba`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from rolecall.scoring.metrics.metric import Answer, Mark, comparison, row_comparison
from rolecall.scoring.texts import alternatives, bare_words, chinese_words, f1_of_words, longest_common, strip_text

Language = Literal['en', 'zh']


@comparison('f1')
def words_f1(prediction: str, gold: Any, language: Language = 'en') -> float:
    """F1 of the words shared with the closest gold answer, without case, articles and punctuation."""
    return _best(gold, lambda answer: f1_of_words(words_of(prediction, language), words_of(answer, language)))


@comparison('rouge_l')
def rouge_l(prediction: str, gold: Any, language: Language = 'en') -> float:
    """ROUGE-L (F-measure) with the closest gold answer, over the distinct words of common subsequences."""

    def spaced(text: str) -> str:
        return ' '.join(chinese_words(text)) if language == 'zh' else text

    ours = spaced(prediction)
    return _best(gold, lambda answer: rouge_l_of(ours, spaced(answer)))


@comparison('edit_similarity')
def code_similarity(prediction: str, gold: Any) -> float:
    """How alike the first line of code and the gold line are (edit ratio); comments and fences are skipped."""
    lines = prediction.lstrip('\n').split('\n')
    code = [line for line in lines if not any(mark in line for mark in ('`', '#', '//'))]
    line = code[0] if code else ''

    def ratio(answer: str) -> float:
        return 2 * len(longest_common(answer, line)) / (len(line) + len(answer)) if line or answer else 1.0

    return _best(gold, ratio)


@comparison('class_share')
def classes(prediction: str, gold: Any) -> float:
    """One over the number of classes a reply names, if the gold class is among them; parts of its name do not count.

    The gold answer is a dict with `answers` and `all_classes`.
    """
    all_classes = gold.get('all_classes', ()) if isinstance(gold, Mapping) else ()
    answers = alternatives(gold['answers'] if isinstance(gold, Mapping) else gold)
    best = 0.0
    for answer in answers:
        counted = [name for name in all_classes or answers if name == answer or name not in answer]
        named = [name for name in counted if name in prediction]
        best = max(best, 1 / len(named) if answer in named else 0.0)
    return best


@comparison('share_of_numbers')
def counts(prediction: str, gold: Any) -> float:
    """The share of the numbers in a reply that are the gold number."""
    numbers = re.findall(r'\d+', prediction)
    return _best(gold, lambda answer: numbers.count(answer.strip()) / len(numbers) if numbers else 0.0)


@comparison('share_of_numbers')
def paragraphs(prediction: str, gold: Any, language: Language = 'en') -> float:
    """The share of the numbers in a reply that are the number of the gold paragraph (`Paragraph 7`, `段落7`)."""
    numbers = re.findall(r'\d+', prediction)

    def share(answer: str) -> float:
        wanted = re.search(r'段落\s*(\d+)' if language == 'zh' else r'Paragraph\s+(\d+)', answer)
        return numbers.count(wanted[1]) / len(numbers) if wanted and numbers else 0.0

    return _best(gold, share)


@row_comparison('accuracy')
def v2_accuracy(answer: Answer) -> Mark:
    """The share of rows with the gold letter, also by `difficulty` and `length`."""
    right = strip_text(answer.prediction) == strip_text(answer.gold)
    levels = [str(answer.values[column]) for column in ('difficulty', 'length') if answer.values.get(column)]
    return Mark(float(right), correct=right, parts={f'accuracy_{level}': float(right) for level in levels})


def words_of(text: str, language: Language) -> list[str]:
    """The words that F1 counts: normalised as in SQuAD, or found by `jieba`, without punctuation."""
    if language == 'en':
        return bare_words(text)
    cleaned = (re.sub(r'[\W_]', '', word.lower()) for word in chinese_words(text))
    return [word for word in cleaned if word]


def rouge_l_of(ours: str, right: str) -> float:
    """ROUGE-L of whole summaries: F1 of the distinct words in common subsequences of sentences (split at `.`)."""
    left, wanted = _sentences(ours), _sentences(right)
    shared = {word for sentence in wanted for other in left for word in longest_common(sentence, other)}
    sizes = sum(len({word for sentence in text for word in sentence}) for text in (left, wanted))
    return 2 * len(shared) / sizes if sizes else 0.0


def _sentences(text: str) -> list[list[str]]:
    return [words for sentence in text.split('.') if (words := sentence.split())]


def _best(gold: Any, score: Callable[[str], float]) -> float:
    return max((score(strip_text(answer)) for answer in alternatives(gold)), default=0.0)
