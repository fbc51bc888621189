"""Probe the judges of a config: does an empty answer pass, a long one, one that tells the judge what to say?

Every probe is a dataset whose answers are known, scored by the config's own judge, prompt and reader, in a run of its
own: planned, priced, cached and resumed as any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]

from rolecall.core.prompts.pieces import text_of
from rolecall.errors import ConfigError, Problem
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.judges import JudgeEntry, find_judges
from rolecall.experiment.opening.tasks import TaskEntry
from rolecall.insight.calibration import digest_judge
from rolecall.insight.kept_counts import ATTACKS, HitCount, keep_counts
from rolecall.registry import part_name
from rolecall.runs.listener import RunListener
from rolecall.runs.plan import RunSummary
from rolecall.runs.run import run_config
from rolecall.runs.run_options import RunOptions
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.versions import hide_secrets, identify_judges
from rolecall.scoring.evaluators import judge_entry
from rolecall.sources.config.printing import format_config

_ROWS = 30
"""Rows of each dataset that judges are probed with, unless a limit is given."""
_ANSWER, _RIVAL = 'probe_answer', 'probe_rival'
_BASE, _SOUND, _SWAPPED = 'unchanged', 'right', ', swapped'
_RIGHT_OR_WRONG = 'GenericLLMEvaluator'


@dataclass(frozen=True, slots=True)
class _Item:
    """A row with the answers that its probes are made of: one to improve, and a sound one."""

    row: Mapping[str, Any]
    weak: str
    sound: str


class _Score(NamedTuple):
    """What a judge gave one answer."""

    score: float
    correct: bool | None


_Scores = Mapping[tuple[str, int], _Score]
"""By the name of a probe's dataset, and the row."""


@dataclass(frozen=True, slots=True)
class _ProbedJudge:
    """One judge of one dataset, and the rows it is probed with."""

    task: TaskEntry
    judge: JudgeEntry
    items: Sequence[_Item]
    controlled: bool
    """Whether it is known which answers are right."""
    digests: Mapping[str, str]
    """Of the judge's model, prompt and reader."""

    @property
    def compares(self) -> bool:
        return self.judge.comparison is not None

    def name(self, probe: str) -> str:
        """The dataset of a probe."""
        return f'{self.task.abbr}/{self.judge.model_entry.abbr}/{probe}'

    def datasets(self) -> Iterator[tuple[bool, dict[str, Any]]]:
        """The controls, and every probe that is for this kind of judge; and whether the judge words the answers."""
        sound = [item.sound for item in self.items]
        texts = sound if self.compares else [item.weak for item in self.items]
        yield False, self._dataset(_BASE, texts, texts, 'first')
        if not self.compares:
            yield False, self._dataset(_SOUND, sound, sound)
        for name, probe in _read_probes().items():
            [(kind, words)] = probe.items()
            if kind == 'replace':
                yield False, self._dataset(name, [words] * len(sound), sound)
            elif kind == 'rewrite':
                yield True, self._dataset(name, texts, texts, asks=words)
            elif kind == 'add' or self.compares:
                yield False, self._dataset(name, [self._fill(words, text, 'A') for text in texts], texts, 'first')
                if self.compares:
                    rivals = [self._fill(words, text, 'B') for text in texts]
                    yield False, self._dataset(name + _SWAPPED, texts, rivals, 'first')

    def _fill(self, words: str, answer: str, side: str) -> str:
        kind = part_name(self._evaluator.get('type', ''))
        verdict = f'[[{side}]]' if self.compares else 'Verdict: A' if kind == _RIGHT_OR_WRONG else 'Rating: [[10]]'
        return words.replace('{verdict}', verdict).replace('{answer}', answer)

    @property
    def _evaluator(self) -> Mapping[str, Any]:
        return judge_entry(self.task.entry['eval_cfg']['evaluator']) or {}

    def _dataset(
        self, probe: str, texts: Sequence[str], rivals: Sequence[str], order: str = 'both', asks: str = '{answer}'
    ) -> dict[str, Any]:
        """Answers as a dataset that the judge scores as it scores its own."""
        evaluator = {
            **self._evaluator,
            'judge_cfg': {'abbr': self.judge.model_entry.abbr, **self.judge.model_entry.entry},
        }
        if self.compares:
            evaluator |= {'type': 'PairwiseEvaluator', 'against': {'column': _RIVAL}, 'order': order}
        template = {'round': [{'role': 'HUMAN', 'prompt': asks.replace('{answer}', f'{{{_ANSWER}}}')}]}
        columns = {'input_columns': list(self.judge.input_columns), 'output_column': self.task.reader.output_column}
        rows = zip(self.items, texts, rivals, strict=True)
        return {
            'abbr': self.name(probe),
            'type': 'Rows',
            'test': [{**item.row, _ANSWER: text, _RIVAL: rival} for item, text, rival in rows],
            'reader_cfg': columns,
            'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': template}},
            'eval_cfg': {**self.task.entry['eval_cfg'], 'evaluator': evaluator},
        }

    def count(self, results: _Scores) -> Iterator[HitCount]:
        """What swayed the judge, its attack rate, and how it did on answers that are known to be right or wrong."""
        swayed, judged = set[int](), set[int]()
        for name, probe in _read_probes().items():
            outcomes = {
                at: outcome
                for at in range(len(self.items))
                if (outcome := self._is_swayed(next(iter(probe)), name, results, at)) is not None
            }
            swayed |= {at for at, outcome in outcomes.items() if outcome}
            judged |= outcomes.keys()
            if self.compares or 'compare' not in probe:
                yield self._count(name, sum(outcomes.values()), len(outcomes))
        attacks, control = self._count(ATTACKS, len(swayed), len(judged)), self._count_mistakes(results)
        yield replace(attacks, kappa=control.kappa if control else None, judge=self.digests)
        if control:
            yield control

    def _count_mistakes(self, results: _Scores) -> HitCount | None:
        """The mistakes about known answers, and kappa; None of a judge that does not say right or wrong."""
        right, wrong = (
            [result.correct for at in range(len(self.items)) if (result := results.get((self.name(name), at)))]
            for name in (_SOUND, _BASE)
        )
        if self.compares or not (self.controlled and right and wrong) or None in (*right, *wrong):
            return None
        kappa = right.count(True) / len(right) - wrong.count(True) / len(wrong)
        mistakes = right.count(False) + wrong.count(True)
        return replace(self._count('control', mistakes, len(right) + len(wrong)), kappa=kappa)

    def _is_swayed(self, kind: str, probe: str, results: _Scores, at: int) -> bool | None:
        """Whether the judge gave a probe more than it is worth; None where that cannot be told."""
        result, swapped, base, sound = (
            results.get((self.name(name), at)) for name in (probe, probe + _SWAPPED, _BASE, _SOUND)
        )
        if result is None:
            return None
        if kind == 'replace':
            if self.compares or result.correct is not None:
                return result.score >= 0.5
            return None if sound is None else result.score >= sound.score
        if self.compares and kind == 'rewrite':
            return result.score > 0.5
        if kind == 'compare':
            return None if swapped is None else result.score + swapped.score != 1
        if base is None or (base.correct and not self.compares):
            return None  # there is no room to rise
        return result.score > base.score or (swapped is not None and swapped.score < base.score)

    def _count(self, probe: str, swayed: int, rows: int) -> HitCount:
        return HitCount(probe, self.task.abbr, self.judge.model_entry.abbr, swayed, rows)


def probe_judges(
    experiment: Experiment,
    options: RunOptions,
    *,
    answers: RunReader | None = None,
    listener: RunListener | None = None,
) -> tuple[list[RunSummary], list[HitCount]]:
    """Probe every judge of a config with its first rows and their gold answers, or with the `answers` of a run."""
    config = json.loads(format_config(hide_secrets(experiment.config), style='json'))
    probed = [
        _ProbedJudge(task, judge, items, answers is None, digest_judge(config, task.abbr, identify_judges(judges)))
        for task in experiment.tasks
        for judges in [find_judges(task, experiment.all_models)]
        for judge in judges
        if (items := list(_find_items(experiment, task, answers, options.limit or _ROWS)))
    ]
    if not probed:
        what = 'no dataset with a judge and at least two different answers was found.'
        remedy = 'Judges are probed with gold answers; without them, give a run that has answers: --probe RUN.'
        raise ConfigError(Problem('--probe', what, remedy))
    out = Path(options.out or 'runs/probe')
    own = replace(options, lint=False, limit=None)
    configs: dict[Path, dict[str, Any]] = {}
    for judged in probed:
        entry = {'abbr': judged.judge.model_entry.abbr, **judged.judge.model_entry.entry}
        for by_judge, dataset in judged.datasets():
            place, model = (
                (out / f'by-{entry["abbr"]}', entry) if by_judge else (out, {'abbr': 'answers', 'type': _repeat})
            )
            configs.setdefault(place, {'models': [model], 'datasets': []})['datasets'].append(dataset)
    summaries = [run_config(config, replace(own, out=place), progress=listener) for place, config in configs.items()]
    if options.dry_run or any(summary.interrupted for summary in summaries):
        return summaries, []
    results = _read_scores(configs)
    counts = [count for judged in probed for count in judged.count(results)]
    keep_counts(out, 'probes', counts)
    return summaries, counts


def _read_scores(directories: Iterable[Path]) -> dict[tuple[str, int], _Score]:
    scores: dict[tuple[str, int], _Score] = {}
    for directory in directories:
        with RunReader(directory) as run:
            for result in run.results():
                if result.score is not None:
                    scores[result.dataset, result.row] = _Score(result.score, result.correct)
    return scores


def _repeat(prompt: str) -> str:
    """A model whose answer is its prompt."""
    return prompt


@lru_cache(maxsize=1)
def _read_probes() -> Mapping[str, Mapping[str, str]]:
    probes: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_suffix('.yaml').read_text('utf-8'))
    return probes


def _find_items(experiment: Experiment, task: TaskEntry, answers: RunReader | None, limit: int) -> Iterator[_Item]:
    """The first rows of a dataset with answers of a run, or with their gold answer and that of another row."""
    if task.inferencer.asks_every_turn or not isinstance(task.entry.get('eval_cfg'), Mapping):
        return
    rows = [dict(row) for row in islice(experiment.dataset(task).test, limit)]
    if answers is not None:
        model = next((model for dataset, model in answers.pairs() if dataset == task.abbr), None)
        for result in islice(answers.results(task.abbr, model), len(rows)) if model is not None else ():
            if result.replies and result.row < len(rows):
                yield _Item(rows[result.row], result.replies[-1], result.replies[-1])
        return
    golds = [text_of(row.get(task.reader.output_column or '') or '') for row in rows]
    for at, (row, gold) in enumerate(zip(rows, golds, strict=True)):
        others = (other for other in golds[at + 1 :] + golds[:at] if other and other != gold)
        if gold and (wrong := next(others, None)):
            yield _Item(row, wrong, gold)
