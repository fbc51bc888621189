"""Answers that models judge: right or wrong, rated, in a cascade, by two judges."""

from .dataset_parts import TEXT, dataset
from .frozen_models import chat_model, judge, strict_judge, text_model

VERDICT = dict(type='PromptTemplate', template='Question: {q}\nGold: {a}\nAnswer: {prediction}\nA or B?')
RATING = dict(
    type='PromptTemplate',
    template=dict(
        begin=[dict(role='SYSTEM', fallback_role='HUMAN', prompt='Rate from 1 to 10.')],
        round=[dict(role='HUMAN', prompt='{q} -> {prediction}')],
    ),
)
models = [text_model(), chat_model()]
judge_models = [dict(abbr='mild', type=judge), dict(abbr='strict', type=strict_judge)]


def judged(abbr, evaluator):
    return dataset(abbr, TEXT, eval_cfg=dict(evaluator=evaluator))


datasets = [
    judged('verdicts', dict(type='GenericLLMEvaluator', prompt_template=VERDICT)),
    judged('ratings', dict(type='LMEvaluator', prompt_template=RATING, judge_cfg=dict(abbr='rater', type=judge))),
    judged(
        'cascade',
        dict(
            type='CascadeEvaluator',
            rule_evaluator=dict(type='AccEvaluator'),
            llm_evaluator=dict(type='GenericLLMEvaluator', prompt_template=VERDICT, judge_cfg=dict(abbr='j', type=judge)),
        ),
    ),
]
groups = {'judged': ['verdicts', 'cascade']}
