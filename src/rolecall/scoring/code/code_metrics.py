"""The evaluators that run code, under the names configs give them.

Each makes a `pass@1` metric. Its programs run side by side, before the answers are marked; the outcome of a program
(passed, failed, timeout, memory, denied) is the row's note, and the shares of all outcomes are reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.code import benchmark_programs, report_progress
from rolecall.scoring.code.execution import CodeProgram, Execution, run_programs
from rolecall.scoring.code.sandbox import Sandbox, SandboxError, SandboxLimits
from rolecall.scoring.code.sandbox_probe import choose_sandbox
from rolecall.scoring.metrics.metric import Answer, Mark, Metric, PassRate

_SEVERAL = (1, 10, 100)
_OPTIONS = ('memory', 'workers', 'sandbox')
_OF_A_SERVICE = ('ip_address', 'port', 'retry')
"""Options of the service that other systems ask."""
_OF_BIGCODEBENCH = (
    *('release_version', 'remote_execute_api', 'headers', 'dataset_version', 'local_mode', 'path', 'min_time_limit'),
    *('max_data_limit', 'max_stack_limit', 'check_gt_only', 'no_gt'),
)


def _code_metric(
    make: Callable[[Answer], CodeProgram],
    *,
    problem: Callable[[Answer], str | None],
    k: int | Sequence[int] = (),
    timeout: float,
    **options: Any,
) -> Metric:
    """`options` are memory, workers and sandbox."""
    if unknown := [name for name in options if name not in _OPTIONS]:
        remedy = did_you_mean(unknown[0], (*_OPTIONS, 'timeout', 'k'))
        raise ConfigError(Problem(name, f'unknown option {name!r}.', remedy) for name in unknown)
    memory, workers, sandbox = options.get('memory', 1024), options.get('workers'), options.get('sandbox')
    limits = _limits(timeout, memory, workers)
    chosen = choose_sandbox(sandbox, where='sandbox' if sandbox else '')
    executions: dict[tuple[int, str, str], Execution] = {}

    def prepare(answers: Sequence[Answer]) -> None:
        executions.clear()
        keys = list(dict.fromkeys(map(_key, answers)))
        by_key = {_key(answer): answer for answer in answers}
        programs = [make(by_key[key]) for key in keys]
        executions.update(zip(keys, _run(programs, chosen, limits, workers), strict=True))

    def mark(answer: Answer) -> Mark:
        key = _key(answer)
        execution = executions.get(key) or _run([make(answer)], chosen, limits, 1)[0]
        note = f'{execution.outcome}: {execution.detail}' if execution.detail else execution.outcome
        return Mark(float(execution.passed), correct=execution.passed, note=note)

    return Metric(
        'pass@1',
        mark,
        PassRate(problem=problem, k=(k,) if isinstance(k, int) else tuple(k), breakdown=_share_of_outcomes),
        needs_gold=False,
        prepare=prepare,
    )


def _run(
    programs: Sequence[CodeProgram], sandbox: Sandbox, limits: SandboxLimits, workers: int | None
) -> list[Execution]:
    try:
        return run_programs(programs, sandbox=sandbox, limits=limits, workers=workers, progress=report_progress.get())
    except SandboxError as error:
        raise ScoringError(f'could not run a program in the sandbox: {error}.') from error


def _key(answer: Answer) -> tuple[int, str, str]:
    return id(answer.values), repr(answer.gold), str(answer.prediction)


def _share_of_outcomes(rows: Sequence[tuple[Answer, Mark]]) -> Mapping[str, float]:
    counts = Counter(mark.note.partition(':')[0] for _, mark in rows if mark.note)
    return {outcome: count / len(rows) for outcome, count in counts.items() if outcome != 'passed'}


def _limits(timeout: float, memory: int, workers: int | None) -> SandboxLimits:
    numbers = {'timeout': timeout, 'memory': memory, 'workers': 1 if workers is None else workers}
    problems = [
        Problem(name, f'must be a number above 0, got {value!r}.')
        for name, value in numbers.items()
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0
    ]
    if problems:
        raise ConfigError(problems)
    return SandboxLimits(seconds=float(timeout), memory=int(memory))


def _declare(
    about: str,
    make: Callable[[Answer], CodeProgram],
    *columns: str,
    k: int | Sequence[int] = (),
    timeout: float = 10.0,
    ignored: Sequence[str] = (),
    **usual: Any,
) -> Callable[..., Metric]:
    """An evaluator. `columns` name the problem of a row; `ignored` are options that mean nothing here."""

    def evaluator(k: int | Sequence[int] = k, timeout: float = timeout, **options: Any) -> Metric:
        own = {name: value for name, value in options.items() if name not in ignored}
        problem = partial(benchmark_programs.problem_of, columns=columns)
        return _code_metric(make, problem=problem, k=k, timeout=timeout, **{**usual, **own})

    evaluator.__doc__ = about
    return evaluator


def _refuse_other_languages(language: str, remedy: str) -> None:
    if language not in ('python', 'py'):
        raise ConfigError(Problem('language', f'{language!r} programs are not run here.', remedy))


humaneval_plus = _declare(
    "HumanEval+: the share of completions that pass the row's tests, or agree with its canonical solution.",
    benchmark_programs.humaneval_plus,
    'task_id',
    k=_SEVERAL,
)
with_test_code = _declare(
    "HumanEval Pro and MBPP Pro: the share of programs that pass the row's test_code.",
    benchmark_programs.with_test_code,
    'id',
    ignored=('language', *_OF_A_SERVICE),
)
mbpp_pass_k = _declare(
    'MBPP with several samples for each problem.', benchmark_programs.mbpp, 'task_id', k=_SEVERAL, ignored=('metric',)
)
leetcode = _declare(
    "LeetCode contests: the share of programs that pass the row's assertions.",
    benchmark_programs.leetcode,
    *('Contest id', 'task_id'),
    k=_SEVERAL,
)
code_execution = _declare(
    'LiveCodeBench code execution: the share of predicted values that are right.',
    benchmark_programs.code_execution,
    'id',
    timeout=3.0,
)
output_prediction = _declare(
    'LiveCodeBench test output: the share of predicted outputs that are right.',
    benchmark_programs.output_prediction,
    timeout=3.0,
)
contest = _declare(
    'APPS and TACO: the share of programs that pass all tests of the row.',
    benchmark_programs.contest,
    'problem_id',
    k=_SEVERAL,
    memory=4096,
)
_HUMANEVAL = _declare('', benchmark_programs.humaneval, 'task_id', k=_SEVERAL, timeout=3.0)
_HUMANEVAL_X = _declare('', benchmark_programs.humaneval_x, 'task_id', ignored=_OF_A_SERVICE)
_MULTIPL_E = _declare('', benchmark_programs.multipl_e, 'name', ignored=_OF_A_SERVICE)
_MBPP = _declare('', benchmark_programs.mbpp, 'task_id')
_DS1000 = _declare('', benchmark_programs.ds1000, timeout=60.0, memory=8192)


def humaneval(metric: str = 'HumanEval', **options: Any) -> Metric:
    """HumanEval: the share of completions that pass the row's tests."""
    if metric == 'EvalPlus':
        return humaneval_plus(**{name: value for name, value in options.items() if name != 'timeout'})
    return _HUMANEVAL(**options)


def humaneval_x(language: str = 'python', timeout: float = 5.0, **options: Any) -> Metric:
    """HumanEval-X in Python: the share of function bodies that pass the row's test. No service is asked."""
    _refuse_other_languages(language, "Only language='python' is supported.")
    return _HUMANEVAL_X(timeout=min(timeout, 60), **options)


def multipl_e(language: str = 'py', **options: Any) -> Metric:
    """MultiPL-E in Python: the share of completions that pass the row's tests."""
    _refuse_other_languages(language, "Only language='py' is supported.")
    return _MULTIPL_E(**options)


def mbpp(metric: str = 'MBPP', **options: Any) -> Metric:
    """MBPP and MBPP+: the share of programs that pass the row's assertions."""
    if metric not in ('MBPP', 'MBPPPlus'):
        raise ConfigError(Problem('metric', f'unknown metric {metric!r}.', did_you_mean(metric, ('MBPP', 'MBPPPlus'))))
    return _MBPP(**options)


def code_generation(
    num_process_evaluate: int | None = None,
    extractor_version: str = 'v1',
    memory_limit_bytes: int | None = None,
    **options: Any,
) -> Metric:
    """LiveCodeBench code generation: the share of programs that pass all tests of the row."""
    program = partial(benchmark_programs.code_generation, extractor=extractor_version)
    memory = 4096 if memory_limit_bytes is None else max(memory_limit_bytes >> 20, 1)
    ignored = ('release_version', 'start_date', 'end_date')  # they chose the rows, when those were loaded
    make = _declare('', program, 'question_id', timeout=6.0, ignored=ignored, memory=memory)
    return make(**{'workers': num_process_evaluate, **options})


def bigcodebench(
    eval_type: str = 'instruct', pass_k: str = '1', parallel: int = -1, max_as_limit: int = 30 * 1024, **options: Any
) -> Metric:
    """BigCodeBench: the share of programs that pass the row's unittest. It runs here, with the packages installed."""
    if eval_type not in ('instruct', 'complete'):
        raise ConfigError(
            Problem('eval_type', f'unknown type {eval_type!r}.', did_you_mean(eval_type, ('instruct', 'complete')))
        )
    program = partial(benchmark_programs.bigcodebench, eval_type=eval_type)
    numbers = [int(k) for k in str(pass_k).split(',') if k.strip().isdigit()]
    make = _declare('', program, 'task_id', k=numbers, timeout=240.0, ignored=_OF_BIGCODEBENCH, memory=max_as_limit)
    return make(**{'workers': parallel if parallel > 0 else None, **options})


def ds1000(num_workers: int | None = None, **options: Any) -> Metric:
    """DS-1000: the share of solutions that the row's code context accepts."""
    return _DS1000(**{'workers': num_workers, **options})
