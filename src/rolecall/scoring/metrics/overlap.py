"""How much two texts share: F1 of words, ROUGE, BLEU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.scoring.extras import needed
from rolecall.scoring.metrics.base import Answer, Mark, Metric, compared, mark_of
from rolecall.scoring.texts import alternatives, bare_words, chinese_words, plain_words, stripped
from rolecall.scoring.usercode import ScoringError

__all__ = ['bleu', 'jieba_rouge', 'rouge', 'word_f1']

_ROUGE = ('rouge1', 'rouge2', 'rougeL', 'rougeLsum')
_BLEU_ORDERS = 4
_BLEU_SMOOTHING = 'exp'


def word_f1(language: str = 'en') -> Metric:
    """F1 of the words of the answer and the nearest gold answer, as SQuAD counts them; exact match beside it."""

    def shared(prediction: Any, gold: Any) -> Mapping[str, float]:
        ours = bare_words(prediction)
        right = [bare_words(one) for one in alternatives(gold)] or [[]]
        return {'f1': max(_f1(ours, one) for one in right), 'exact': float(ours in right)}

    return Metric('f1', compared(shared))


def rouge() -> Metric:
    """ROUGE-1, -2, -L and -Lsum (F-measures); the number is ROUGE-1. Words of every script count."""
    return Metric('rouge1', _rouge_mark(plain_words, _ROUGE))


def jieba_rouge() -> Metric:
    """ROUGE-1, -2 and -L over Chinese words as `jieba` finds them; the number is ROUGE-1."""
    return Metric('rouge1', _rouge_mark(chinese_words, _ROUGE[:3]))


def bleu(tokenize: str | None = None, lowercase: bool = False) -> Metric:
    """BLEU of the whole corpus by `sacrebleu`, with its options `tokenize` and `lowercase`."""
    library = _sacrebleu()
    known = (*library.BLEU.TOKENIZERS,)
    if tokenize is not None and tokenize not in known:
        raise ConfigError(
            Problem('tokenize', f'sacrebleu has no tokenizer {tokenize!r}.', did_you_mean(tokenize, known))
        )
    scorer = library.BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=True)

    def mark(answer: Answer) -> Mark:
        found = scorer.sentence_score(stripped(answer.prediction), _references(answer))
        return Mark(found.score / 100, tally=(*found.counts, *found.totals, found.sys_len, found.ref_len))

    return Metric('bleu', mark, total=_corpus_bleu)


def _corpus_bleu(tally: Sequence[float]) -> float:
    """BLEU of what all sentences add up to, smoothed as `sacrebleu` smooths a corpus by default."""
    *counts, sys_len, ref_len = map(int, tally)
    found = _sacrebleu().BLEU.compute_bleu(
        correct=counts[:_BLEU_ORDERS],
        total=counts[_BLEU_ORDERS:],
        sys_len=sys_len,
        ref_len=ref_len,
        smooth_method=_BLEU_SMOOTHING,
    )
    return float(found.score) / 100


def _references(answer: Answer) -> list[str]:
    gold = alternatives(answer.gold)
    if not gold:
        raise ScoringError('needs a gold answer, and the row has an empty list of them.')
    return list(map(stripped, gold))


def _f1(ours: Sequence[str], right: Sequence[str]) -> float:
    if not ours or not right:
        return float(ours == right)
    shared = (Counter(ours) & Counter(right)).total()
    return 2 * shared / (len(ours) + len(right))


def _rouge_mark(words: Callable[[str], list[str]], kinds: Sequence[str]) -> Callable[[Answer], Mark]:
    library = needed('rouge_score.rouge_scorer', purpose='to compute ROUGE')
    scorer = library.RougeScorer(list(kinds), tokenizer=_Tokenizer(words))

    def mark(answer: Answer) -> Mark:
        best = scorer.score_multi(_references(answer), stripped(answer.prediction))
        return mark_of({kind: best[kind].fmeasure for kind in kinds})

    return mark


class _Tokenizer:
    """The shape in which `rouge-score` takes a tokenizer."""

    def __init__(self, words: Callable[[str], list[str]]) -> None:
        self.tokenize = words


@cache
def _sacrebleu() -> Any:
    return needed('sacrebleu.metrics', purpose='to compute BLEU')
