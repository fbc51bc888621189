"""P-MMEval and MGSM: choices, numbers and translations in many languages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise, takewhile
from math import exp, log, perm, prod
from typing import Any

from rolecall.errors import import_extra
from rolecall.scoring.metrics.metric import Answer, Corpus, Mark, Metric, comparison
from rolecall.scoring.metrics.overlap import BLEU_ORDERS, corpus_bleu
from rolecall.scoring.readers.native import last_number, option_in
from rolecall.scoring.readers.numbers import number_of
from rolecall.scoring.texts import alternatives, chinese_words, first_answer, strip_text

_MOST_LINES = 20
_UNSPACED = re.compile('[\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\u0e00-\u0e7f]')
_NUMBER_LABELS = re.compile(
    r'(?:Answer|Réponse|Antwort|Respuesta|Ответ|回答|答案|答え|คำตอบ|Jibu|ఉత్తరం|সমাধান|উত্তর|Câu trả lời|Jawaban|'
    r'Resposta|답변|الجواب)\s*[:：]',
    re.IGNORECASE,
)


@comparison('accuracy')
def choice_or_index(prediction: str, gold: Any) -> bool:
    """The share of rows with the gold letter; a gold number is the index of the option, from 0."""
    wanted = first_answer(gold)
    letter = chr(ord('A') + int(wanted)) if wanted.isdecimal() else wanted
    return bool(letter) and prediction.strip().upper() == letter.upper()


@comparison('accuracy')
def final_number(prediction: str, gold: Any) -> bool:
    """The share of rows whose final number is the gold one."""
    ours, right = number_of(read_final_number(prediction)), number_of(strip_text(gold))
    return ours is not None and ours == right


def best_lines_bleu() -> Metric:
    """Corpus BLEU of the consecutive lines of each reply that are nearest to the gold translation.

    Characters of Chinese, Japanese, Korean and Thai are words of their own.
    """
    bleu = import_extra('sacrebleu.metrics', extra='score', purpose='to compute BLEU').BLEU
    tokenizer = bleu(tokenize='13a').tokenizer
    split_word = lru_cache(maxsize=2**16)(lambda word: tokenizer(word).split())  # it never looks beyond a space

    def tokenize(text: str) -> list[str]:
        words = _UNSPACED.sub(r' \g<0> ', text).split()
        return list(chain.from_iterable(map(split_word, words)))

    def mark(answer: Answer) -> Mark:
        lines = [line for line in strip_text(answer.prediction).split('\n') if line.strip()][:_MOST_LINES]
        wanted = [tokenize(strip_text(text)) for text in alternatives(answer.gold)]
        score, tally = _find_best_part([tokenize(line) for line in lines or ['']], wanted)
        return Mark(score / 100, tally=tally)

    return Metric('BLEU', mark, Corpus(total=corpus_bleu))


def _find_best_part(lines: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> tuple[float, tuple[int, ...]]:
    """The run of consecutive lines with the best BLEU, and its counts: matching and all n-grams by order, lengths."""
    best: tuple[float, tuple[int, ...]] = (-1.0, ())
    least, sizes = 0.0, sorted(map(len, wanted))
    longest = sum(sizes)
    allowed: Counter[tuple[str, ...]] = Counter()
    for text in wanted:
        allowed |= Counter(ngram for end in range(1, len(text) + 1) for ngram in _ngrams_ending(text, end))
    vocabulary = set(chain.from_iterable(wanted))
    words = list(chain.from_iterable(lines))
    ends = [0, *accumulate(map(len, lines))]
    matches = [  # of each line: n-grams of the gold translation that end in it, and where they begin
        [
            (end - len(ngram), ngram)
            for end in range(begin + 1, stop + 1)
            if words[end - 1] in vocabulary
            for ngram in takewhile(allowed.__contains__, _ngrams_ending(words, end))
        ]
        for begin, stop in pairwise(ends)
    ]
    for first, start in enumerate(ends[:-1]):
        used: Counter[tuple[str, ...]] = Counter()
        correct = [0] * BLEU_ORDERS
        for end, line in zip(ends[first + 1 :], matches[first:], strict=True):
            length = end - start
            if best[0] * length > 100 * longest:  # precision is below that
                break
            for place, ngram in line:
                if place >= start:
                    used[ngram] += 1
                    correct[len(ngram) - 1] += used[ngram] <= allowed[ngram]
            if prod(count or 1 for count in correct) < least * perm(length, BLEU_ORDERS):
                continue  # even without a brevity penalty
            totals = [max(0, length - order) for order in range(BLEU_ORDERS)]
            tally = (*correct, *totals, length, min(sizes, key=lambda size: abs(size - length)))
            if (score := _sentence_bleu(tally)) > best[0]:
                best, least = (score, tally), 0.9999 * (score / 100) ** BLEU_ORDERS
    return best


def _ngrams_ending(words: Sequence[str], end: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[end - order : end]) for order in range(1, min(BLEU_ORDERS, end) + 1))


def _sentence_bleu(tally: Sequence[int]) -> float:
    """BLEU of one text, smoothed (a count of 0 is half of the one before) and over the orders that it has."""
    *counts, length, wanted = tally
    orders = [pair for pair in zip(counts[:BLEU_ORDERS], counts[BLEU_ORDERS:], strict=True) if pair[1]]
    if not counts[0] or not orders:
        return 0.0
    smooth, total = 1.0, 0.0
    for correct, possible in orders:
        smooth = smooth if correct else smooth / 2
        total += log((correct or smooth) / possible)
    return 100 * exp(min(0.0, 1 - wanted / length) + total / len(orders))


def read_choice(text: str, lang_code: str = '') -> str:
    """The letter in `{"answer": "B"}`, after `the answer is` in one of ten languages, or the clearest one.

    >>> read_choice('{"answer": "B"}'), read_choice('La réponse est C', lang_code='fr'), read_choice('(D)')
    ('B', 'C', 'D')
    """
    return option_in(text, 'ABCD')


def read_final_number(text: str, lang: str = '') -> str:
    """The number after the last `Answer:` in one of the benchmark's languages, or else the last number.

    >>> read_final_number('7 apples.\\nRéponse: 1,200 pommes, pas 5.')
    '1200'
    """
    labels = list(_NUMBER_LABELS.finditer(text))
    after = text[labels[-1].end() :].strip().partition('\n')[0].rpartition('=')[2] if labels else ''
    number = re.search(r'-?\d[\d,.]*', after)
    return last_number(number[0].rstrip('.,')) if number else last_number(text)


def read_chinese_words(text: str) -> str:
    """The words of the first line, as `jieba` finds them, with spaces between them.

    >>> read_chinese_words('我爱北京。\\n它很大。')
    '我 爱 北京 。'
    """
    return ' '.join(chinese_words(text.strip().partition('\n')[0]))


def read_translation(text: str, lang_fullname: str = '', lang_code: str = '') -> str:
    """The translation: the reply without empty lines.

    >>> read_translation('\\nBonjour.\\n\\n', lang_fullname='French')
    'Bonjour.'
    """
    return '\n'.join(line.strip() for line in text.split('\n') if line.strip())
