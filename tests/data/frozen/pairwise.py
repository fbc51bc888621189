"""Two models whose answers a judge compares."""

from .dataset_parts import TEXT, dataset
from .frozen_models import answer_or_fail, chat_model, prefer, text_model

SIDE_BY_SIDE = dict(type='PromptTemplate', template='{q}\n[A] {prediction}\n[B] {prediction2}')
models = [text_model(), chat_model(), dict(abbr='flaky', type=answer_or_fail)]
judge_models = [dict(abbr='umpire', type=prefer)]
datasets = [
    dataset(
        'duels',
        TEXT,
        eval_cfg=dict(evaluator=dict(type='PairwiseEvaluator', against='text', prompt_template=SIDE_BY_SIDE)),
    )
]
