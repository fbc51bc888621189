"""P-MMEval and MGSM: choices, numbers and translations in many languages."""

from __future__ import annotations

import re
from typing import Any

from rolecall.errors import import_extra
from rolecall.scoring.metrics.metric import Answer, Corpus, Mark, Metric, comparison
from rolecall.scoring.metrics.overlap import corpus_bleu
from rolecall.scoring.readers.native import last_number, option_in
from rolecall.scoring.readers.numbers import number_of
from rolecall.scoring.texts import alternatives, first_answer, strip_text

_MOST_LINES = 20
_UNSPACED = re.compile('[\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\u0e00-\u0e7f]')
_STATED = (
    'La réponse est',
    'The answer is',
    'Câu trả lời là',
    'الجواب هو',
    'คำตอบคือ',
    '答案是',
    '답변은',
    'A resposta é',
    '答えは',
    'Jawaban adalah',
    'La respuesta es',
)
_JSON = re.compile(r'["\']answer["\']\s*:\s*(?:["\']\s*)?([A-Da-d])(?![A-Za-z])')
_AFTER = re.compile(rf'(?:{"|".join(map(re.escape, _STATED))})\W{{0,8}}([A-Da-d])(?![A-Za-z])', re.IGNORECASE)
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
    library = import_extra('sacrebleu.metrics', extra='score', purpose='to compute BLEU')
    scorer = library.BLEU(tokenize='13a', effective_order=True)

    def mark(answer: Answer) -> Mark:
        lines = [_space_out(line) for line in strip_text(answer.prediction).split('\n') if line.strip()][:_MOST_LINES]
        wanted = [_space_out(strip_text(answer_text)) for answer_text in alternatives(answer.gold)]
        parts = [' '.join(lines[start:end]) for start in range(len(lines)) for end in range(start + 1, len(lines) + 1)]
        best = max((scorer.sentence_score(part, wanted) for part in parts or ['']), key=lambda score: score.score)
        return Mark(best.score / 100, tally=(*best.counts, *best.totals, best.sys_len, best.ref_len))

    return Metric('BLEU', mark, Corpus(total=corpus_bleu))


def _space_out(text: str) -> str:
    return ' '.join(_UNSPACED.sub(r' \g<0> ', text).split())


def read_choice(text: str, lang_code: str = '') -> str:
    """The letter in `{"answer": "B"}`, after `the answer is` in one of ten languages, or the clearest one.

    >>> read_choice('{"answer": "B"}'), read_choice('La réponse est C', lang_code='fr'), read_choice('(D)')
    ('B', 'C', 'D')
    """
    found = _JSON.findall(text) or _AFTER.findall(text)
    return found[-1].upper() if found else option_in(text, 'ABCD')


def read_final_number(text: str, lang: str = '') -> str:
    """The number after the last `Answer:` in one of the benchmark's languages, or else the last number.

    >>> read_final_number('7 apples.\\nRéponse: 1,200 pommes, pas 5.')
    '1200'
    """
    labels = list(_NUMBER_LABELS.finditer(text))
    after = text[labels[-1].end() :].strip().partition('\n')[0].rpartition('=')[2] if labels else ''
    number = re.search(r'-?\d[\d,.]*', after)
    return last_number(number[0].rstrip('.,')) if number else last_number(text)


def read_translation(text: str, lang_fullname: str = '', lang_code: str = '') -> str:
    """The translation: the reply without empty lines.

    >>> read_translation('\\nBonjour.\\n\\n', lang_fullname='French')
    'Bonjour.'
    """
    return '\n'.join(line.strip() for line in text.split('\n') if line.strip())
