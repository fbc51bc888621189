"""Verdicts of ours and of the package's own scoring, on the same replies to the same gold answers."""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, ClassVar

from coverage import entries, plain
from coverage_rows import GOLDS, made_rows, pick
from coverage_trial import JUDGES
from coverage_workers import run_trials
from rolecall.compat.opencompass.evaluator_names import CODE_METRICS
from rolecall.registry import part_name
from rolecall.scoring.answers import Scorable
from rolecall.scoring.evaluate import build_scorer

__all__ = ['compare']

POSTPROCESSING = ('pred_postprocessor', 'dataset_postprocessor')
READING = ('pred_postprocessor', 'model_postprocessor')
KNOWN = ('evaluator', 'dataset_postprocessor', *READING)
ANSWERS = {
    'letter': ('B', ['A', 'C']),
    'number': ('18', ['20', '1.8']),
    'decimal': ('1,234.5', ['1234', '12345']),
    'fraction': ('\\frac{1}{2}', ['\\frac{1}{3}', '2']),
    'word': ('Paris', ['Lyon', 'Parisian']),
    'phrase': ('the silver coffee pot', ['the pot', 'a silver spoon']),
    'chinese': ('北京', ['上海', '北']),
    'truth': ('yes', ['no', 'yesterday']),
}
"""Kinds of gold answers, each with wrong ones."""
WORDINGS = {
    'bare': '{}',
    'sentence': 'The answer is {}.',
    'brackets': 'The answer is ({}).',
    'boxed': 'Let us think. So the final answer is $\\boxed{{{}}}$.',
    'dollars': 'Therefore the result equals ${}$.',
    'bold': '**Answer: {}**',
    'chinese': '经过分析，答案是{}。',
    'chinese, boxed': '所以最终答案为\\boxed{{{}}}',
    'wordy': 'First we look at 3 cases. Then A is excluded, because it is wrong. Hence the correct answer is {} and we are done.',
    'corrected': 'The answer is 7. Wait, that is wrong. The answer is {}.',
    'two lines': '{}\n\nThis follows from the text above.',
    'next question': 'The answer is {}.\n\nQuestion: What is next?\nThe answer is 99.',
    'thinking': '<think>Is it 5? Or C?</think>\n\nANSWER: {}',
    'quoted': '"{}"',
    'lower': '{:l}',
    'with unit': 'It costs {} dollars in total.',
    'marked': '#### {}',
    'json': '{{"answer": "{}"}}',
}
"""How a reply words an answer."""
EMPTY = {
    'empty': '',
    'spaces': '  \n',
    'refusal': 'I am sorry, but I cannot answer that.',
    'cut': 'To find this we first compute the sum of all',
    'cut, boxed': 'So we get \\boxed{',
    'several': 'It could be A, B, C or D.',
}
"""Replies without an answer."""


LISTED = re.compile(
    'NQ|TriviaQA|SQuAD20|Squad|LongBench(?:F1|Rouge|CodeSim|Count)|Ruler|LVEvalF1|InfiniteBenchendia|BabiLong|GaokaoBench|LEval'
)
"""Evaluators whose gold answer is a list."""
LETTERS = ('BBHEvaluator_mcq', 'AGIEvalEvaluator_mcq', 'GPQAEvaluator', 'LongBenchv2Evaluator', 'SuperGPQAEvaluator')
"""Evaluators whose gold answer is a letter."""


class _Answer(str):
    def __format__(self, how: str) -> str:
        return self.lower() if how == 'l' else str(self)


def replies_to(right: str, wrong: list[str]) -> Iterator[tuple[str, str]]:
    """Replies with their names: right and wrong in every wording, and those without an answer."""
    for wording, text in WORDINGS.items():
        yield f'right, {wording}', text.format(_Answer(right))
        for answer in wrong:
            yield f'wrong, {wording}', text.format(_Answer(answer))
    yield from EMPTY.items()


def compare(name: str, root: Path, given: argparse.Namespace) -> None:
    """Print how many verdicts are equal, and where they differ."""
    remember_metrics()
    theirs = {scoring_key(one.entry): one.entry for one in entries(root, 'real')}
    ours = {scoring_key(one.entry): one.entry for one in entries(root, 'reference')}
    pairs = {key: (entry, theirs[key]) for key, entry in ours.items() if key in theirs and is_compared(entry)}
    known = given.results / f'{name}-compared.jsonl' if given.results else None
    results = run_trials(pairs, compare_pair, limit_s=4 * given.limit, known=known, label=f'{name}, compared')
    show(name, {describe(pairs[key][0]) + f' #{key[:6]}': result for key, result in results.items()}, given.show or 30)


def remember_metrics() -> None:
    """Load each metric of the `evaluate` package once: the package's evaluators do so for every score."""
    evaluate = importlib.import_module('evaluate')
    evaluate.load = functools.cache(evaluate.load)


def scoring_key(entry: Mapping[str, Any]) -> str:
    scoring = entry.get('eval_cfg')
    kept = {key: plain(scoring.get(key)) for key in KNOWN} if isinstance(scoring, Mapping) else {}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()


def is_compared(entry: Mapping[str, Any]) -> bool:
    """Whether a plain comparison scores the entry: no judge, no code."""
    scoring = entry.get('eval_cfg')
    evaluator = scoring.get('evaluator') if isinstance(scoring, Mapping) else None
    kind = part_name(evaluator.get('type') if isinstance(evaluator, Mapping) else evaluator or '')
    return isinstance(entry.get('reader_cfg'), Mapping) and kind not in ('', *JUDGES, 'CascadeEvaluator', *CODE_METRICS)


def describe(entry: Mapping[str, Any]) -> str:
    scoring = entry['eval_cfg']
    parts = [scoring['evaluator'], *(scoring[one] for one in POSTPROCESSING if scoring.get(one))]
    first, *others = [part_name(part.get('type') if isinstance(part, Mapping) else part) for part in parts]
    return f'{first} ({", ".join(others)})' if others else first


def compare_pair(pair: tuple[Mapping[str, Any], Mapping[str, Any]]) -> str:
    """Counts and differences of one way of scoring, as JSON; or why one of the two cannot score."""
    counts: Counter[str] = Counter()
    differences = []
    sides = []
    for who, entry in zip(('ours', 'theirs'), pair, strict=True):
        try:
            sides.append(Side(who, entry))
        except Exception as error:
            return json.dumps({'cannot': f'{who}: {" ".join(str(error).split())[:150]}'})
    for kind, gold, replies in questions(pair[0]):
        values = [[side.score(reply, gold) for _, reply in replies] for side in sides]
        for (name, reply), ours, theirs in zip(replies, *map(in_percent, values), strict=True):
            if ours is None or theirs is None:
                counts[
                    'neither scores' if ours is theirs else f'only {"theirs" if ours is None else "ours"} scores'
                ] += 1
                continue
            same = abs(ours - theirs) < 0.06
            counts['equal' if same else 'different'] += 1
            if not same:
                read = [str(side.extract(reply))[:60] for side in sides]
                differences.append([kind, name, str(gold)[:60], reply[:120], ours, theirs, *read])
    return json.dumps({'counts': counts, 'differences': differences}, ensure_ascii=False)


class Side:
    """One of the two: reads an answer from a reply, then scores it. Scores are remembered, as most ways share evaluators."""

    known: ClassVar[dict[tuple[str, ...], float | None]] = {}

    def __init__(self, who: str, entry: Mapping[str, Any]) -> None:
        scoring = {key: value for key, value in entry['eval_cfg'].items() if key in KNOWN}
        self.output = (entry['reader_cfg'] or {}).get('output_column')
        self.row = made_rows(entry)[1][0]
        self.reader = build_scorer({key: value for key, value in scoring.items() if key in READING})
        rest = {key: value for key, value in scoring.items() if key not in READING}
        self.scorer = build_scorer(scoring, output_column=self.output)
        self.name = (who, json.dumps(plain(rest), sort_keys=True, default=str))

    def extract(self, reply: str) -> Any:
        return self.reader.extract(reply)

    def score(self, reply: str, gold: Any) -> float | None:
        """The score of one reply; None where there is none."""
        key = (*self.name, repr(self.extract(reply)), repr(gold))
        if key not in self.known:
            self.known[key] = self._score(reply, gold)
        return self.known[key]

    def _score(self, reply: str, gold: Any) -> float | None:
        row = {**self.row, **({self.output: gold} if self.output else {})}
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                return self.scorer.score([Scorable(0, 'ok', reply, gold, row)]).value
        except Exception:
            return None


def questions(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any, list[tuple[str, str]]]]:
    """Gold answers that an evaluator can read, each with replies."""
    evaluator = entry['eval_cfg']['evaluator']
    name = part_name(evaluator.get('type') if isinstance(evaluator, Mapping) else evaluator)
    if name in GOLDS:
        gold = pick(GOLDS[name], 0)
        inner = gold[0] if isinstance(gold, list) and gold else gold
        right = str(inner.get('answers', inner.get('answer', inner)) if isinstance(inner, Mapping) else inner)
        yield 'own', gold, list(replies_to(right, ['something else', '7']))
        return
    for kind, (right, wrong) in ANSWERS.items():
        if name not in LETTERS or kind == 'letter':
            yield kind, [right] if LISTED.match(name) else right, list(replies_to(right, wrong))


def in_percent(values: list[float | None]) -> list[float | None]:
    """Values on a scale from 0 to 100."""
    most = max((value for value in values if value is not None), default=0)
    return [None if value is None else value * (100 if most <= 1 else 1) for value in values]


def show(name: str, results: Mapping[str, str], most: int) -> None:
    read = {
        label: json.loads(result) if result.startswith('{') else {'cannot': result} for label, result in results.items()
    }
    total: Counter[str] = Counter()
    for one in read.values():
        total.update(one.get('counts', {}))
    compared = {label: one for label, one in read.items() if 'counts' in one}
    alike = sum(not one['differences'] for one in compared.values())
    print(
        f'{name}: {len(compared):,} ways of scoring compared, {alike:,} with equal verdicts throughout; {len(read) - len(compared):,} not by both'
    )
    print(f'  verdicts: {", ".join(f"{count:,} {what}" for what, count in total.most_common())}')
    for label, one in sorted(compared.items(), key=lambda item: -len(item[1]['differences']))[:most]:
        for kind, reply, gold, text, ours, theirs, *read in one['differences'][:3]:
            print(
                f'  {len(one["differences"]):4}  {label}: {kind}; {reply}: gold {gold!r}, reply {text!r}: ours {ours:g} ({read[0]!r}), theirs {theirs:g} ({read[1]!r})'
            )
