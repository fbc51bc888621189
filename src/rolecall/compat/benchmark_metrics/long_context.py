"""Answers from very long texts: InfiniteBench, BABILong and MRCR."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Any

from rolecall.scoring.metrics.metric import comparison
from rolecall.scoring.texts import alternatives, first_answer, names_whole, parse_gold, strip_text


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
