"""Runs that live in memory, for tests of reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from helpers import API, bot, config, human, template
from rolecall.core.program import fingerprint
from rolecall.core.render.spans import Request
from rolecall.experiment.experiment import preview
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.report import ConfigPreviews

HOSTILE = (
    '</script><img src=x onerror="window.hacked=1"><!-- {{7*7}} \u202egnp.exe\u2066 \x00\ud800 & " \' ` | # </style>'
)


@dataclass
class MemoryRun:
    """A run without a store."""

    cards: list[Scorecard] = field(default_factory=list)
    rows: list[Result] = field(default_factory=list)
    requests: dict[str, Request] = field(default_factory=dict)
    title: str = 'a run'
    created: str = '2026-11-15 12:00'
    damage: str = ''
    notices: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    batched: dict[tuple[str, str], Any] = field(default_factory=dict)
    parts: dict[tuple[str, str], Any] = field(default_factory=dict)
    archive: Any = field(default_factory=lambda: SimpleNamespace(directory=Path('nowhere')))

    def counts(self, kind):
        return []

    def times(self):
        return []

    def scorecards(self):
        return self.cards

    def results(self):
        return iter(self.rows)

    light_results = results

    def result(self, dataset, model, row):
        return next((one for one in self.rows if (one.dataset, one.model, one.row) == (dataset, model, row)), None)

    def request(self, fingerprint):
        return self.requests.get(fingerprint)


def run_with(text: str = 'Hi', name: str = 'demo', *, rows: int = 1, **result: Any) -> MemoryRun:
    """A run of one dataset × model whose every text is the given one."""
    made = [
        Result(
            name,
            name,
            number,
            'ok',
            prediction=text,
            extracted=text,
            gold=text,
            correct=False,
            replies=(text,),
            reasoning=(text,),
            fingerprint='f',
            fingerprints=('f',),
            details={text: text},
            **result,
        )
        for number in range(rows)
    ]
    made.append(Result(name, name, rows, 'failed', reason=text))
    card = Scorecard(name, name, name, 0.5, 0.4, 0.6, rows, rows + 1, {'ok': rows, 'failed': 1})
    return MemoryRun([card], made, {'f': [{'role': text, 'content': text, 'name': text}]}, text, text)


def sums_config(rows: int, *, prompt: str = 'Add: {question}') -> dict[str, Any]:
    """Sums for a text model and an API, with one example."""
    sums = [{'question': f'{number} + {number}', 'answer': str(2 * number)} for number in range(rows)]
    both = template({'begin': ['</E>'], 'round': [human(prompt), bot('{answer}')]}, ice_token='</E>')
    made = config(sums, None, both, [{'question': '100 + 1', 'answer': '101'}], meta='chatml')
    made['datasets'][0]['abbr'] = 'sums'
    made['models'][0]['abbr'] = 'chatml'
    made['models'].append({'abbr': 'api', 'type': 'OpenAI', 'path': 'none', 'meta_template': API})
    return made


def made_up_run(rows: int = 8) -> tuple[MemoryRun, ConfigPreviews]:
    """A finished run of the sums, half of them right, and what words its prompts."""
    asked = sums_config(rows)
    run = MemoryRun()
    for one in preview(asked):
        identity = fingerprint(one.request, model=one.model)
        run.requests[identity] = one.request
        right = one.row % 2 == 0
        gold = one.values['answer']
        run.rows.append(
            Result(
                one.dataset,
                one.model,
                one.row,
                'ok',
                prediction=f'It is {gold}.',
                extracted=gold if right else '0',
                gold=gold,
                correct=right,
                score=float(right),
                fingerprint=identity,
                fingerprints=(identity,),
                replies=(f'It is {gold}.',),
                reasoning=('Let me add.',),
                input_tokens=40 + one.row,
                output_tokens=5,
                seconds=0.5,
                shots=one.shots,
            )
        )
    for (dataset, model), count in Counter((row.dataset, row.model) for row in run.rows).items():
        run.cards.append(Scorecard(dataset, model, 'accuracy', 50.0, 40.0, 60.0, count, count, {'ok': count}))
    return run, ConfigPreviews(asked)
