"""Score code that a model wrote, by running it in a sandbox. Needs the extra `[code]`, or bubblewrap."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar

__all__ = ['CODE_METRICS', 'report_progress']

CODE_METRICS: Mapping[str, str] = {
    'HumanEvalEvaluator': 'rolecall.scoring.code.code_metrics:humaneval',
    'HumanEvalPlusEvaluator': 'rolecall.scoring.code.code_metrics:humaneval_plus',
    'HumanevalXEvaluator': 'rolecall.scoring.code.code_metrics:humaneval_x',
    'HumanevalProEvaluator': 'rolecall.scoring.code.code_metrics:with_test_code',
    'MBPPProEvaluator': 'rolecall.scoring.code.code_metrics:with_test_code',
    'MBPPEvaluator': 'rolecall.scoring.code.code_metrics:mbpp',
    'MBPPEvaluator2': 'rolecall.scoring.code.code_metrics:mbpp',
    'MBPPPassKEvaluator': 'rolecall.scoring.code.code_metrics:mbpp_pass_k',
    'LCPassKEvaluator': 'rolecall.scoring.code.code_metrics:leetcode',
    'LCEvaluator': 'rolecall.scoring.code.code_metrics:leetcode',
    'LCBCodeGenerationEvaluator': 'rolecall.scoring.code.code_metrics:code_generation',
    'LCBCodeExecutionEvaluator': 'rolecall.scoring.code.code_metrics:code_execution',
    'LCBTestOutputEvaluator': 'rolecall.scoring.code.code_metrics:output_prediction',
    'BigCodeBenchEvaluator': 'rolecall.scoring.code.code_metrics:bigcodebench',
    'TACOEvaluator': 'rolecall.scoring.code.code_metrics:contest',
    'APPSEvaluator': 'rolecall.scoring.code.code_metrics:contest',
    'DS1000Evaluator': 'rolecall.scoring.code.code_metrics:ds1000',
    'MultiplEEvaluator': 'rolecall.scoring.code.code_metrics:multipl_e',
}
"""Evaluators by the names configs give them, and where they are made."""

report_progress: ContextVar[Callable[[int, int], None] | None] = ContextVar('report_progress', default=None)
"""Called with the number of programs that have run, and of all programs."""
