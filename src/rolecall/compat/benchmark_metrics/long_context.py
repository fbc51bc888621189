"""Answers from very long texts: LongBench, LV-Eval, InfiniteBench, BABILong, MRCR, NeedleBench and RULER.

Of several gold answers the best counts. Chinese texts are split into words by `jieba`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from typing import Any, Literal

from rolecall.scoring.metrics.metric import Answer, Mark, comparison, row_comparison
from rolecall.scoring.texts import (
    alternatives,
    bare_words,
    chinese_words,
    f1_of_words,
    first_answer,
    last_boxed,
    longest_common,
    names_whole,
    parse_gold,
    strip_text,
)

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


@comparison('accuracy')
def named_answer(prediction: str, gold: Any) -> bool:
    """The share of rows that name a gold answer as a word, in any case."""
    return any(names_whole(prediction.lower(), strip_text(answer).lower()) for answer in alternatives(gold))


@comparison('correct_beginning')
def running_numbers(prediction: str, gold: Any) -> float:
    """How far a reply follows the gold numbers before it first differs, as a share of them."""
    numbers = [int(digits) for digits in re.findall(r'[0-9]+', prediction)]
    wanted = [int(strip_text(number)) for number in alternatives(gold)]
    same = [ours == right for ours, right in zip(numbers, wanted, strict=False)]
    right = same.index(False) if False in same else len(same)
    return right / len(wanted) if wanted else 0.0


@comparison('accuracy')
def facts(prediction: str, gold: Any) -> bool:
    """The share of rows whose first sentence, cut at `<context>` or `<example>`, names the gold answer."""
    sentence = re.split(r'\.|<context>|<example>', prediction.lower(), maxsplit=1)[0]
    return names_whole(sentence, first_answer(gold).lower())


@comparison('similarity')
def recall_turn(prediction: str, gold: Any) -> float:
    """How alike reply and gold answer are after their prefix (Ratcliff and Obershelp); 0 without the prefix.

    The gold answer is a dict, or JSON, with `answer` and `prefix`.
    """
    facts = parse_gold(gold)
    answer, prefix = str(facts['answer']), str(facts['prefix'])
    if not prediction.startswith(prefix):
        return 0.0
    return SequenceMatcher(None, prediction.removeprefix(prefix), answer.removeprefix(prefix)).ratio()


# LV-Eval's gold answer is a list: the answer, and last its keywords, which may be empty. Common words are none.
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


@comparison('contains_answer')
def find_needle(prediction: str, gold: Any, use_trim: bool = False) -> bool:
    """The share of rows that name the keyword of their needle; the gold answer is `needle*keyword`."""
    keyword = strip_text(gold).rpartition('*')[2]
    return bool(keyword) and keyword in prediction


@comparison('average_score')
def find_needles(prediction: str, gold: Any) -> Mark:
    """The share of keywords that a reply names, also by depth; the gold answer is `keyword*…#depth*…`."""
    keywords, _, depths = strip_text(gold).partition('#')
    hits = [float(bool(keyword) and keyword in prediction) for keyword in keywords.split('*')]
    named = {f'Depth{depth}': hit for depth, hit in zip(depths.split('*'), hits, strict=False) if depth}
    return Mark(sum(hits) / len(hits), parts=named)


@comparison('word_recall')
def find_needle_words(prediction: str, gold: Any) -> float:
    """The share of the keyword's words that a reply names, in any case; the gold answer is `answer*keyword`."""
    words = strip_text(gold).rpartition('*')[2].lower().split()
    return sum(word in prediction.lower() for word in words) / len(words) if words else 0.0


def read_ancestor(text: str) -> str:
    r"""The name in the last `\boxed{…}`, without LaTeX commands, quotes and braces.

    >>> read_ancestor(r'So it is \boxed{{\text{Jasmine~Lane}}}.')
    'Jasmine Lane'
    """
    name = re.sub(r'\\text\{([^{}]+)\}', r'\1', last_boxed(text))
    return ' '.join(re.sub(r'[\\"\'{}]', '', name).replace('~', ' ').split())


@comparison('recall')
def contain_share(prediction: str, gold: Any) -> float:
    """The share of the gold strings that a reply contains, in any case."""
    wanted = alternatives(gold)
    return sum(_contains(prediction, text) for text in wanted) / len(wanted) if wanted else 0.0


@comparison('contains_answer')
def contain_any(prediction: str, gold: Any) -> bool:
    """The share of replies that contain one of the gold strings, in any case."""
    return any(_contains(prediction, text) for text in alternatives(gold))


def _contains(prediction: str, wanted: Any) -> bool:
    return strip_text(wanted).lower() in prediction.lower()
