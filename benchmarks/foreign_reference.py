"""The reference side of foreign_readings.py; runs where OpenCompass and AISBench are installed, and imports nothing of ours.

Takes a JSON line for each job on standard input (system, postprocessor, its options, evaluator, its options, replies, golds)
and writes one for each: what the postprocessor read from each reply, and the evaluator's number for each row alone.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import warnings
from typing import Any

os.environ |= {'HF_HUB_OFFLINE': '1', 'HF_EVALUATE_OFFLINE': '1', 'TQDM_DISABLE': '1'}
warnings.filterwarnings('ignore')
logging.disable(logging.CRITICAL)
ANSWERS = os.fdopen(os.dup(1), 'w', encoding='utf-8')
os.dup2(2, 1)  # what the packages print
SLOW, SAMPLE = ('AccEvaluator', 'MATHVerifyEvaluator'), 300
"""Evaluators that take long for a row, and about how many rows they score."""
PLACES = {
    'opencompass': (
        *('opencompass.datasets', 'opencompass.datasets.PMMEval', 'opencompass.utils.text_postprocessors'),
        *('opencompass.openicl.icl_evaluator', 'opencompass.evaluator'),
    ),
    'aisbench': (
        *('ais_bench.benchmark.datasets', 'ais_bench.benchmark.utils.postprocess.text_postprocessors'),
        *('ais_bench.benchmark.openicl.icl_evaluator', 'ais_bench.benchmark.utils.postprocess'),
    ),
}


def find(system: str, name: str) -> Any:
    """A function or class of a system by the name that configs use."""
    for place in PLACES[system]:
        try:
            module = importlib.import_module(place)
        except ImportError:
            continue
        if hasattr(module, name):
            return getattr(module, name)
    package = PLACES[system][0].partition('.')[0]
    for place, module in list(sys.modules.items()):
        if place.startswith(f'{package}.') and name in vars(module):
            return vars(module)[name]
    raise LookupError(f'{system} has no {name}')


def work(system: str, reader: str, options: dict, evaluator: str, settings: dict, replies: list, golds: list) -> dict:
    read = find(system, reader) if reader else None
    readings = [attempt(lambda reply=reply: read(reply, **options)) if read else reply for reply in replies]
    if not evaluator:
        return {'readings': readings}
    judge = find(system, evaluator)(**settings)
    every = max(1, len(readings) // SAMPLE) if evaluator in SLOW else 1
    scores = [
        attempt(lambda p=p, g=g: score(judge, p, g)) if row % every == 0 else None
        for row, (p, g) in enumerate(zip(readings, golds, strict=True))
    ]
    return {'readings': readings, 'scores': scores}


def attempt(call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        return {'error': f'{type(error).__name__}: {error}'[:200]}


def score(judge: Any, prediction: Any, gold: Any) -> float:
    """The first number that an evaluator gives for one row."""
    result = judge.score([prediction], [gold])
    if 'error' in result:
        raise ValueError(result['error'])
    return next(float(value) for value in result.values() if isinstance(value, (int, float)))


for line in sys.stdin:
    try:
        answer = work(*json.loads(line))
    except Exception as error:
        answer = {'error': f'{type(error).__name__}: {error}'[:300]}
    ANSWERS.write(json.dumps(answer, ensure_ascii=False, default=str) + '\n')
    ANSWERS.flush()
