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


def _same_problem(*columns: str) -> Callable[[Answer], str | None]:
    return lambda answer: benchmark_programs.problem_of(answer, *columns)


def humaneval(
    k: int | Sequence[int] = _SEVERAL, timeout: float = 3.0, metric: str = 'HumanEval', **options: Any
) -> Metric:
    """HumanEval: the share of completions that pass the row's tests."""
    if metric == 'EvalPlus':
        return humaneval_plus(k=k, **options)
    return _code_metric(benchmark_programs.humaneval, problem=_same_problem('task_id'), k=k, timeout=timeout, **options)


def humaneval_plus(k: int | Sequence[int] = _SEVERAL, timeout: float = 10.0, **options: Any) -> Metric:
    """HumanEval+: the share of completions that pass the row's tests, or agree with its canonical solution."""
    return _code_metric(
        benchmark_programs.humaneval_plus, problem=_same_problem('task_id'), k=k, timeout=timeout, **options
    )


def humaneval_x(
    language: str = 'python',
    timeout: float = 5.0,
    ip_address: str = '',
    port: object = '',
    retry: int = 0,
    **options: Any,
) -> Metric:
    """HumanEval-X in Python: the share of function bodies that pass the row's test. No service is asked."""
    if language not in ('python', 'py'):
        raise ConfigError(
            Problem('language', f'{language!r} programs are not run here.', "Only language='python' is supported.")
        )
    del ip_address, port, retry  # of the service that other systems ask
    return _code_metric(
        benchmark_programs.humaneval_x, problem=_same_problem('task_id'), timeout=min(timeout, 60), **options
    )


def with_test_code(
    timeout: float = 10.0, language: str = 'py', ip_address: str = '', retry: int = 0, **options: Any
) -> Metric:
    """HumanEval Pro and MBPP Pro: the share of programs that pass the row's test_code."""
    del language, ip_address, retry
    return _code_metric(benchmark_programs.with_test_code, problem=_same_problem('id'), timeout=timeout, **options)


def multipl_e(
    language: str = 'py', timeout: float = 10.0, ip_address: str = '', retry: int = 0, **options: Any
) -> Metric:
    """MultiPL-E in Python: the share of completions that pass the row's tests."""
    if language not in ('python', 'py'):
        raise ConfigError(
            Problem('language', f'{language!r} programs are not run here.', "Only language='py' is supported.")
        )
    del ip_address, retry
    return _code_metric(benchmark_programs.multipl_e, problem=_same_problem('name'), timeout=timeout, **options)


def mbpp(metric: str = 'MBPP', k: int | Sequence[int] = (), timeout: float = 10.0, **options: Any) -> Metric:
    """MBPP and MBPP+: the share of programs that pass the row's assertions."""
    if metric not in ('MBPP', 'MBPPPlus'):
        raise ConfigError(Problem('metric', f'unknown metric {metric!r}.', did_you_mean(metric, ('MBPP', 'MBPPPlus'))))
    return _code_metric(benchmark_programs.mbpp, problem=_same_problem('task_id'), k=k, timeout=timeout, **options)


def mbpp_pass_k(k: int | Sequence[int] = _SEVERAL, timeout: float = 10.0, **options: Any) -> Metric:
    """MBPP with several samples for each problem."""
    return mbpp(k=k, timeout=timeout, **options)


def leetcode(k: int | Sequence[int] = _SEVERAL, timeout: float = 10.0, **options: Any) -> Metric:
    """LeetCode contests: the share of programs that pass the row's assertions."""
    return _code_metric(
        benchmark_programs.leetcode, problem=_same_problem('Contest id', 'task_id'), k=k, timeout=timeout, **options
    )


def code_generation(
    num_process_evaluate: int | None = None,
    timeout: float = 6.0,
    release_version: str = '',
    extractor_version: str = 'v1',
    start_date: str | None = None,
    end_date: str | None = None,
    memory_limit_bytes: int | None = None,
    **options: Any,
) -> Metric:
    """LiveCodeBench code generation: the share of programs that pass all tests of the row."""
    del release_version, start_date, end_date  # they chose the rows, when those were loaded
    memory = 4096 if memory_limit_bytes is None else max(memory_limit_bytes >> 20, 1)
    return _code_metric(
        partial(benchmark_programs.code_generation, extractor=extractor_version),
        problem=_same_problem('question_id'),
        timeout=timeout,
        **{'memory': memory, 'workers': num_process_evaluate, **options},
    )


def code_execution(timeout: float = 3.0, **options: Any) -> Metric:
    """LiveCodeBench code execution: the share of predicted values that are right."""
    return _code_metric(benchmark_programs.code_execution, problem=_same_problem('id'), timeout=timeout, **options)


def output_prediction(timeout: float = 3.0, **options: Any) -> Metric:
    """LiveCodeBench test output: the share of predicted outputs that are right."""
    return _code_metric(benchmark_programs.output_prediction, problem=_same_problem(), timeout=timeout, **options)


def bigcodebench(
    release_version: str = '',
    eval_type: str = 'instruct',
    remote_execute_api: str = '',
    headers: object = None,
    dataset_version: str = 'full',
    local_mode: bool = False,
    path: str = '',
    pass_k: str = '1',
    parallel: int = -1,
    min_time_limit: float = 1.0,
    max_as_limit: int = 30 * 1024,
    max_data_limit: int = 30 * 1024,
    max_stack_limit: int = 10,
    check_gt_only: bool = False,
    no_gt: bool = False,
    timeout: float = 240.0,
    **options: Any,
) -> Metric:
    """BigCodeBench: the share of programs that pass the row's unittest. It runs here, with the packages installed."""
    del release_version, remote_execute_api, headers, dataset_version, local_mode, path, min_time_limit
    del max_data_limit, max_stack_limit, check_gt_only, no_gt
    if eval_type not in ('instruct', 'complete'):
        raise ConfigError(
            Problem('eval_type', f'unknown type {eval_type!r}.', did_you_mean(eval_type, ('instruct', 'complete')))
        )
    numbers = [int(k) for k in str(pass_k).split(',') if k.strip().isdigit()]
    workers = parallel if parallel > 0 else None
    return _code_metric(
        partial(benchmark_programs.bigcodebench, eval_type=eval_type),
        problem=_same_problem('task_id'),
        k=numbers,
        timeout=timeout,
        **{'memory': max_as_limit, 'workers': workers, **options},
    )


def contest(timeout: float = 10.0, **options: Any) -> Metric:
    """APPS and TACO: the share of programs that pass all tests of the row."""
    return _code_metric(
        benchmark_programs.contest,
        problem=_same_problem('problem_id'),
        k=_SEVERAL,
        timeout=timeout,
        **{'memory': 4096, **options},
    )


def ds1000(num_workers: int | None = None, timeout: float = 60.0, **options: Any) -> Metric:
    """DS-1000: the share of solutions that the row's code context accepts."""
    return _code_metric(
        benchmark_programs.ds1000,
        problem=_same_problem(),
        timeout=timeout,
        **{'memory': 8192, 'workers': num_workers, **options},
    )
