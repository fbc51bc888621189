"""Endless generated rows with verifiers: the tasks of the package reasoning-gym, as `reasoning-gym:TASK`."""

from __future__ import annotations

from typing import Any

from rolecall.errors import ConfigError, Problem

GENERATED = 'reasoning-gym:'
_PROMPT = '{question}\nPut your final answer, and nothing else, between <answer> and </answer>.'


def make_generated_entry(task: str) -> dict[str, Any]:
    """The dataset of a task: 100 rows of one seed, which `size` and `seed` change.

    >>> make_generated_entry('leg_counting')['abbr']
    'reasoning_gym-leg_counting'
    """
    if not task.isidentifier():
        what = f'expected the name of a task, got {task!r}.'
        raise ConfigError(Problem(f'{GENERATED}{task}', what, f'Write, for instance, {GENERATED}leg_counting.'))
    return {
        'abbr': f'reasoning_gym-{task}',
        'type': 'ReasoningGymDataset',
        'name': task,
        'size': 100,
        'seed': 42,
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
        'infer_cfg': {
            'prompt_template': {
                'type': 'PromptTemplate',
                'template': {'round': [{'role': 'HUMAN', 'prompt': _PROMPT}]},
            },
            'retriever': {'type': 'ZeroRetriever'},
            'inferencer': {'type': 'GenInferencer', 'max_out_len': 1024},
        },
        'eval_cfg': {
            'evaluator': {'type': 'ReasoningGymEvaluator'},
            'pred_postprocessor': {'type': 'xml_tag_postprocessor', 'tag': '<answer>'},
        },
    }
