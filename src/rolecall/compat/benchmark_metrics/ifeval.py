"""IFEval: whether a reply follows instructions that a program can check, strictly and loosely.

Every kind of instruction is a function of the reply and the instruction's arguments. Loosely, a reply also counts
without its first line, its last line, or its asterisks. Sentences end at `.`, `!` or `?`; `langdetect` finds languages.
P-MMEval asks the same in ten languages: there commas, quotes and full stops of every script count, and the characters
of Chinese, Japanese and Thai are words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from rolecall.core.prompts.pieces import text_of
from rolecall.errors import import_extra
from rolecall.patterns import find_all, search_groups
from rolecall.plain_files import read_table
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.metrics.metric import Answer, Mark, row_comparison
from rolecall.scoring.texts import names_whole

_ANSWERS = ('My answer is yes.', 'My answer is no.', 'My answer is maybe.')
_ABBREVIATION = re.compile(r'\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Inc|Ltd|Jr|Sr|Co|e\.g|i\.e|vs|etc)\.(?=\s)')
_FENCES = ('```json', '```Json', '```JSON', '```')
_LEAST = 'at least'
_UNSPACED = '\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff'
_STOPS = str.maketrans({'。': '. ', '！': '! ', '？': '? ', '؟': '? '})
_QUOTES = ('""', '“”', '«»', '「」', '『』')

Check: TypeAlias = Callable[..., bool]


@row_comparison('Prompt-level-strict-accuracy', needs_gold=False)
def instruction_accuracy(answer: Answer) -> Mark:
    """The share of prompts whose instructions are all followed; also by instruction, and loosely."""
    return _mark_instructions(answer, INSTRUCTIONS)


@row_comparison('Prompt-level-strict-accuracy', needs_gold=False)
def multilingual_instruction_accuracy(answer: Answer) -> Mark:
    """The same in any language: commas, quotes and full stops of every script; unspaced characters are words."""
    return _mark_instructions(answer, _MULTILINGUAL)


def _mark_instructions(answer: Answer, checks: Mapping[str, Check]) -> Mark:
    facts = answer.gold if isinstance(answer.gold, Mapping) else answer.values
    kinds, options = facts.get('instruction_id_list'), facts.get('kwargs')
    if not isinstance(kinds, Sequence) or not isinstance(options, Sequence):
        raise ScoringError("needs the columns 'instruction_id_list' and 'kwargs', or a gold answer that has them.")
    reply, prompt = text_of(answer.prediction), text_of(facts.get('prompt', ''))
    strict = follow_instructions(reply, kinds, options, prompt=prompt, checks=checks)
    tries = [follow_instructions(variant, kinds, options, prompt=prompt, checks=checks) for variant in _loosen(reply)]
    loose = [any(followed) for followed in zip(*tries, strict=True)]
    if not strict:
        return Mark(1.0, correct=True)
    parts = {
        'Inst-level-strict-accuracy': sum(strict) / len(strict),
        'Prompt-level-loose-accuracy': float(all(loose)),
        'Inst-level-loose-accuracy': sum(loose) / len(loose),
    }
    return Mark(float(all(strict)), correct=all(strict), parts=parts)


def follow_instructions(
    reply: str,
    kinds: Sequence[str],
    options: Sequence[Mapping[str, Any]],
    *,
    prompt: str = '',
    checks: Mapping[str, Check] | None = None,
) -> list[bool]:
    """Whether the reply follows each instruction; an empty reply follows none.

    >>> follow_instructions('no commas here', ['punctuation:no_comma', 'startend:quotation'], [{}, {}])
    [True, False]
    """
    followed = []
    for kind, kwargs in zip(kinds, options, strict=True):
        check = (checks or INSTRUCTIONS).get(kind)
        if check is None:
            raise ScoringError(f'unknown instruction {kind!r}.')
        arguments = {name: value for name, value in kwargs.items() if value is not None}
        if kind == 'combination:repeat_prompt':
            arguments.setdefault('prompt_to_repeat', prompt)
        followed.append(bool(reply.strip()) and check(reply, **arguments))
    return followed


def _loosen(reply: str) -> list[str]:
    lines = reply.split('\n')
    cut = [reply, *('\n'.join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return [*cut, *(variant.replace('*', '') for variant in cut)]


def _reaches(count: int, wanted: int, relation: str) -> bool:
    return count >= wanted if relation == _LEAST else count < wanted


def _has_keywords(reply: str, keywords: Sequence[str]) -> bool:
    return all(search_groups(word, reply, re.IGNORECASE) for word in keywords)


def _keyword_frequency(reply: str, keyword: str, frequency: int, relation: str = _LEAST) -> bool:
    return _reaches(len(find_all(keyword, reply, re.IGNORECASE)), frequency, relation)


def _lacks_words(reply: str, forbidden_words: Sequence[str]) -> bool:
    return not any(search_groups(rf'\b{word}\b', reply, re.IGNORECASE) for word in forbidden_words)


def _letter_frequency(reply: str, letter: str, let_frequency: int, let_relation: str = _LEAST) -> bool:
    return _reaches(reply.lower().count(letter.lower()), let_frequency, let_relation)


def _is_in_language(reply: str, language: str) -> bool:
    library = import_extra('langdetect', extra='score', purpose='to tell the language of a reply')
    library.DetectorFactory.seed = 0
    try:
        return bool(library.detect(reply) == language)
    except library.lang_detect_exception.LangDetectException:  # digits and punctuation are of no language
        return True


def _count_sentences(reply: str, num_sentences: int, relation: str = _LEAST) -> bool:
    plain = _ABBREVIATION.sub(lambda match: match[0].replace('.', ''), reply)
    return _reaches(len(re.findall(r'[^.!?\s][^.!?]*(?:[.!?]+(?=\S)[^.!?]*)*', plain)), num_sentences, relation)


def _count_paragraphs(reply: str, num_paragraphs: int) -> bool:
    parts = re.split(r'\s?\*\*\*\s?', reply)
    inner = all(part.strip() for part in parts[1:-1])
    return inner and sum(bool(part.strip()) for part in parts) == num_paragraphs


def _count_words(reply: str, num_words: int, relation: str = _LEAST) -> bool:
    return _reaches(len(re.findall(r'\w+', reply)), num_words, relation)


def _nth_paragraph_begins(reply: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    parts = reply.split('\n\n')
    full = sum(bool(part.strip()) for part in parts)
    if full != num_paragraphs or not 1 <= nth_paragraph <= len(parts) or not parts[nth_paragraph - 1].strip():
        return False
    word = parts[nth_paragraph - 1].split()[0].lstrip('\'"')
    return re.split(r'[.,?!\'"]', word, maxsplit=1)[0].lower() == first_word.lower()


def _count_placeholders(reply: str, num_placeholders: int) -> bool:
    return len(re.findall(r'\[[^\[\]\n]*\]', reply)) >= num_placeholders


def _has_postscript(reply: str, postscript_marker: str) -> bool:
    patterns = {'P.P.S': r'p\.\s?p\.\s?s', 'P.S.': r'p\.\s?s\.'}
    pattern = patterns.get(postscript_marker, re.escape(postscript_marker.lower()))
    return re.search(pattern, reply.lower()) is not None


def _count_bullets(reply: str, num_bullets: int) -> bool:
    stars = re.findall(r'^[^\S\n]*\*[^*].*$', reply, re.MULTILINE)
    return len(stars) + len(re.findall(r'^[^\S\n]*-.*$', reply, re.MULTILINE)) == num_bullets


def _is_constrained(reply: str) -> bool:
    return any(answer in reply for answer in _ANSWERS)


def _count_highlights(reply: str, num_highlights: int) -> bool:
    single = [text for text in re.findall(r'\*[^\n*]*\*', reply) if text.strip('*').strip()]
    double = [text for text in re.findall(r'\*\*[^\n*]*\*\*', reply) if text.strip('*').strip()]
    return len(single) + len(double) >= num_highlights


def _count_sections(reply: str, section_spliter: str, num_sections: int) -> bool:
    return len(re.findall(rf'\s?{re.escape(section_spliter)}\s?\d+\s?', reply)) >= num_sections


def _is_json(reply: str) -> bool:
    text = reply.strip()
    for fence in _FENCES:
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix('```').strip())
    except (ValueError, RecursionError):
        return False
    return True


def _has_title(reply: str) -> bool:
    spans = ((line, line.find('<<'), line.rfind('>>')) for line in reply.split('\n'))
    return any(0 <= start < end - 2 and line[start:end].strip('<>').strip() for line, start, end in spans)


def _are_two_responses(reply: str) -> bool:
    parts = reply.split('******')
    inner = all(part.strip() for part in parts[1:-1])
    responses = [part.strip() for part in parts if part.strip()]
    return inner and len(responses) == 2 and responses[0] != responses[1]


def _repeats_prompt(reply: str, prompt_to_repeat: str) -> bool:
    return reply.strip().lower().startswith(prompt_to_repeat.strip().lower())


def _ends_with(reply: str, end_phrase: str) -> bool:
    return reply.strip().strip('"').lower().endswith(end_phrase.strip().lower())


def _is_quoted(reply: str) -> bool:
    text = reply.strip()
    return len(text) > 1 and text.startswith('"') and text.endswith('"')


def _capital_words(reply: str, capital_frequency: int, capital_relation: str = _LEAST) -> bool:
    words = [word for word in re.findall(r"[^\W_][\w'’.-]*", reply) if word.isupper()]
    return _reaches(len(words), capital_frequency, capital_relation)


def _is_english_upper(reply: str) -> bool:
    return reply.isupper() and _is_in_language(reply, 'en')


def _is_english_lower(reply: str) -> bool:
    return reply.islower() and _is_in_language(reply, 'en')


def _lacks_commas(reply: str) -> bool:
    return ',' not in reply


def _lacks_words_of_any_script(reply: str, forbidden_words: Sequence[str]) -> bool:
    return not any(names_whole(reply.lower(), word.lower()) for word in forbidden_words)


def _count_sentences_of_any_script(reply: str, num_sentences: int, relation: str = _LEAST) -> bool:
    return _count_sentences(reply.translate(_STOPS), num_sentences, relation)


def _count_words_of_any_script(reply: str, num_words: int, relation: str = _LEAST) -> bool:
    return _reaches(len(re.findall(rf'[{_UNSPACED}]|[^\W{_UNSPACED}]+', reply)), num_words, relation)


def _nth_paragraph_begins_in_any_script(reply: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    parts = [part.strip() for part in reply.split('\n\n') if part.strip()]
    begins = len(parts) == num_paragraphs and 1 <= nth_paragraph <= num_paragraphs
    return begins and parts[nth_paragraph - 1].lstrip('\'"').lower().startswith(first_word.lower())


def _is_quoted_in_any_script(reply: str) -> bool:
    text = reply.strip()
    return len(text) > 1 and text[0] + text[-1] in _QUOTES


def _lacks_commas_of_any_script(reply: str) -> bool:
    return re.search('[,，،、]', reply) is None


_KINDS = read_table(__file__)
INSTRUCTIONS: Mapping[str, Check] = {kind: globals()[check] for kind, check, *_ in _KINDS}
"""The 25 kinds of instructions, by their names in the dataset."""
_MULTILINGUAL: Mapping[str, Check] = {kind: globals()[checks[-1]] for kind, *checks in _KINDS}
