"""LV-Eval: F1 and ROUGE-L that count only if enough of the answer's keywords are in the reply.

The gold answer is a list: the answer, and last its keywords (which may be empty). Common words are not keywords; the
lists are LV-Eval's.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from rolecall.compat.benchmark_metrics.longbench import Language, rouge_l_of, words_of
from rolecall.scoring.metrics.metric import comparison
from rolecall.scoring.texts import alternatives, f1_of_words, first_answer, strip_text

_ENGLISH = """
and to of in her was with for it from is that his he by she they or at because be on are their what as had
were about being this who but have has when which does
"""
_CHINESE = """
的 和 是 等 在 年 可以 为 与 ‰ 了 或 一种 月 c 至 日 有 进行 于 不 中 × 根据 小 由
亩 也 要 指 法 会 元 主要 以及 通过 首先 对 然后 号 以 所 后 丁 包括 无 将 用 能 形
方面 因素 位于 而 从 到 一定 用于 但 使用 让 具有 并 亿元 万元 上 类 基于 才 来 地 片
其他 个 或者 变得 时 给 你 使 条 受 已经 带 度
"""
_COMMON: dict[Language, frozenset[str]] = {'en': frozenset(_ENGLISH.split()), 'zh': frozenset(_CHINESE.split())}
_LEAST_RECALL: dict[Language, float] = {'en': 0.2, 'zh': 0.4}


@comparison('f1')
def plain_f1(prediction: str, gold: Any, language: Language = 'en') -> float:
    """F1 of the words shared with the first gold answer."""
    return f1_of_words(words_of(prediction, language), words_of(first_answer(gold), language))


@comparison('LVEval_f1')
def keyword_f1(prediction: str, gold: Any, language: Language = 'en') -> float:
    """F1 with the first gold answer; 0 if the reply has less than 20 % (Chinese: 40 %) of the keywords' words."""
    ours = words_of(prediction, language)
    keywords = words_of(strip_text(alternatives(gold)[-1]) if alternatives(gold) else '', language)
    if not keywords and language == 'zh':
        keywords = words_of(first_answer(gold), language)
    shared = Counter(ours) & Counter(keywords)
    recalled = sum(count for word, count in shared.items() if word not in _COMMON[language])
    if keywords and recalled / len(keywords) < _LEAST_RECALL[language]:
        return 0.0
    return f1_of_words(ours, words_of(first_answer(gold), language))


@comparison('LVEval_rouge')
def plain_rouge_l(prediction: str, gold: Any, language: Language = 'en') -> float:
    """ROUGE-L with the first gold answer, common words left out."""

    def spaced(text: str) -> str:
        return ' '.join(word for word in words_of(text, language) if word not in _COMMON[language])

    return rouge_l_of(spaced(prediction), spaced(first_answer(gold)))
