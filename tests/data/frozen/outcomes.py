"""Replies that do not come: rows that fail, rows that are filtered, replies that end while thinking."""

from .dataset_parts import TEXT, dataset
from .frozen_models import answer, answer_or_fail

models = [dict(abbr='flaky', type=answer_or_fail, retry=0), dict(abbr='steady', type=answer)]
ROWS = [dict(q=f'number {n}?', a='yB7'[n % 3]) for n in range(12)]
datasets = [dataset('strict', TEXT, test=ROWS, eval_cfg=dict(evaluator=dict(type='AccEvaluator'), failures='wrong')), dataset('lenient', TEXT, test=ROWS)]
