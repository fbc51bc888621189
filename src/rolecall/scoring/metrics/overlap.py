"""Overlap of two texts: F1 of words, ROUGE, BLEU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from rolecall.errors import ConfigError, Problem, did_you_mean, import_extra
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.metrics.metric import Answer, Corpus, Mark, Metric, make_mark, mark_by
from rolecall.scoring.texts import (
    after_reasoning,
    alternatives,
    bare_words,
    chinese_words,
    f1_of_words,
    plain_words,
    strip_text,
)

_ROUGE = ('rouge1', 'rouge2', 'rougeL', 'rougeLsum')
BLEU_ORDERS = 4
_BLEU_SMOOTHING = 'exp'


def word_f1(language: str = 'en') -> Metric:
    """F1 of the words shared with the closest gold answer, as SQuAD counts them; also exact match."""

    def compare(prediction: Any, gold: Any) -> Mapping[str, float]:
        ours = bare_words(_own(prediction))
        right = [bare_words(answer) for answer in alternatives(gold)] or [[]]
        return {
            'f1': max(f1_of_words(ours, answer) if ours and answer else float(ours == answer) for answer in right),
            'exact': float(ours in right),
        }

    return Metric('f1', mark_by(compare))


def rouge() -> Metric:
    """ROUGE-1, -2, -L and -Lsum (F-measures); the score is ROUGE-1. Words of every script count."""
    return Metric('rouge1', _rouge_mark(plain_words, _ROUGE))


def jieba_rouge() -> Metric:
    """ROUGE-1, -2 and -L over Chinese words as segmented by `jieba`; the score is ROUGE-1."""
    return Metric('rouge1', _rouge_mark(chinese_words, _ROUGE[:3]))


def bleu(tokenize: str | None = None, lowercase: bool = False) -> Metric:
    """Corpus BLEU by `sacrebleu`, with its options `tokenize` and `lowercase`."""
    library = _sacrebleu()
    tokenizers = (*library.BLEU.TOKENIZERS,)
    if tokenize is not None and tokenize not in tokenizers:
        raise ConfigError(
            Problem('tokenize', f'sacrebleu has no tokenizer {tokenize!r}.', did_you_mean(tokenize, tokenizers))
        )
    scorer = library.BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=True)

    def mark(answer: Answer) -> Mark:
        result = scorer.sentence_score(_own(answer.prediction), _references(answer))
        return Mark(
            result.score / 100,
            tally=(*result.counts, *result.totals, result.sys_len, result.ref_len),
        )

    return Metric('bleu', mark, Corpus(total=corpus_bleu))


def corpus_bleu(tally: Sequence[float]) -> float:
    """BLEU of the summed counts, with `sacrebleu`'s default smoothing for a corpus."""
    *counts, sys_len, ref_len = map(int, tally)
    result = _sacrebleu().BLEU.compute_bleu(
        correct=counts[:BLEU_ORDERS],
        total=counts[BLEU_ORDERS:],
        sys_len=sys_len,
        ref_len=ref_len,
        smooth_method=_BLEU_SMOOTHING,
    )
    return float(result.score) / 100


def _own(prediction: Any) -> str:
    """A reply without its reasoning."""
    return after_reasoning(strip_text(prediction)).strip()


def _references(answer: Answer) -> list[str]:
    gold = alternatives(answer.gold)
    if not gold:
        raise ScoringError('needs a gold answer, but the list of gold answers is empty.')
    return list(map(strip_text, gold))


def _rouge_mark(words: Callable[[str], list[str]], kinds: Sequence[str]) -> Callable[[Answer], Mark]:
    library = import_extra('rouge_score.rouge_scorer', extra='score', purpose='to compute ROUGE')
    scorer = library.RougeScorer(list(kinds), tokenizer=_Tokenizer(words))

    def mark(answer: Answer) -> Mark:
        best = scorer.score_multi(_references(answer), _own(answer.prediction))
        return make_mark({kind: best[kind].fmeasure for kind in kinds})

    return mark


class _Tokenizer:
    """The tokenizer interface of `rouge-score`."""

    def __init__(self, words: Callable[[str], list[str]]) -> None:
        self.tokenize = words


@cache
def _sacrebleu() -> Any:
    return import_extra('sacrebleu.metrics', extra='score', purpose='to compute BLEU')
