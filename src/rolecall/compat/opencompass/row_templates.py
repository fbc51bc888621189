"""Templates of one benchmark whose prompt follows from the columns of each row."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rolecall.core.prompts.template import PackageTemplate
from rolecall.sources.datasets.worded import find_wording

_TYPES = ('Numerical', 'Expression', 'Equation', 'Interval')


class RowTemplate:
    """A function from a row to its speeches (or messages), as `PackageTemplate` takes it."""

    def __init__(self, word: Callable[[Mapping[str, Any]], list[dict[str, str]]], prompt_type: str = '') -> None:
        self.generate_item = word
        self.prompt_type = prompt_type


def word_olympiad(row: Mapping[str, Any]) -> str:
    """The prompt of a row.

    >>> word_olympiad({'problem': '1+1?', 'question_type': 'Theorem proof'})[:51]
    'The following is a theorem proving problem from an '
    """
    say: Callable[[str], str] = partial(find_wording, 'olympiadbench', str(row.get('language', 'English')))
    subject = say('subjects').split('|')[row.get('subject', 'Math') != 'Math']
    if row.get('question_type') == 'Theorem proof':
        task = say('proof').format(subject=subject)
    else:
        form, unit = say('forms').split('|')[bool(row.get('is_multiple_answer'))], ''
        if row.get('unit'):
            form, unit = form + say('unit'), say('unit_note')
        task = say('open').format(subject=subject, types=_name_types(row, say), form=form, unit=unit)
    return f'{task}\n{row.get("problem", "")}\n\n{say("reason")}'


def _name_types(row: Mapping[str, Any], say: Callable[[str], str]) -> str:
    """What the answer is: of one type, of the same type each, or of several in order."""
    written = str(row.get('answer_type', ''))
    if 'Need_human_evaluate' in written or 'Tuple' in written:
        return ''
    several = bool(row.get('is_multiple_answer'))
    types = [
        next(name for kind, name in zip(_TYPES, say('types').split('|'), strict=True) if kind in part.partition('-')[0])
        for part in (written.split(',') if several else [written])
    ]
    if not several:
        return say('one').format(types[0])
    return say('all').format(types[0]) if len(set(types)) == 1 else say('each').format(say('comma').join(types))


def _ask_judge(row: Mapping[str, Any]) -> list[dict[str, str]]:
    """InverseIFEval: each row brings its judge's prompt, with the row's columns and the `{response}` as fields."""
    values = {**row, 'response': row.get('prediction', '')}
    prompt = re.sub(r'\{(\w+)\}', lambda field: str(values.get(field[1], field[0])), row['judge_prompt_template'])
    return [{'role': 'system', 'content': row.get('judge_system_prompt', '')}, {'role': 'user', 'content': prompt}]


OLYMPIAD, RAW_OLYMPIAD, INVERSE_IFEVAL = (
    partial(PackageTemplate, template)
    for template in (
        RowTemplate(lambda row: [{'role': 'HUMAN', 'prompt': word_olympiad(row)}]),
        RowTemplate(lambda row: [{'role': 'user', 'content': word_olympiad(row)}], 'raw_messages'),
        RowTemplate(_ask_judge, 'raw_messages'),
    )
)
