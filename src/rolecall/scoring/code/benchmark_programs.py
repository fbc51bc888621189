"""From a row and a reply to the program that decides whether the reply is right: one function for each benchmark."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

from rolecall.scoring.blame import ScoringError
from rolecall.scoring.code import extraction
from rolecall.scoring.code.execution import Case, CodeProgram
from rolecall.scoring.metrics.metric import Answer
from rolecall.sources.datasets.rows import list_names

_CONTEST_IMPORTS = """\
import bisect, collections, copy, functools, heapq, itertools, json, math, operator, random, re, string, sys
from bisect import *
from collections import *
from copy import *
from functools import *
from heapq import *
from itertools import *
from math import *
from operator import itemgetter
from random import *
from typing import *
sys.setrecursionlimit(50000)
"""
_UNITTEST = """
import io as _io, unittest as _unittest
_result = _unittest.TextTestRunner(_io.StringIO()).run(_unittest.defaultTestLoader.loadTestsFromTestCase(TestCases))
assert _result.testsRun, 'there are no tests'
assert _result.wasSuccessful(), ((_result.errors or _result.failures)[0][1].strip().splitlines() or [''])[-1]
"""
_AGAINST_REFERENCE = """
def _same(ours, right, tolerance):
    if isinstance(right, float) or isinstance(ours, float):
        try:
            return ours == right or abs(ours - right) <= (tolerance or 1e-6) + 1e-7 * abs(right) < float('inf')
        except TypeError:
            return False
    if isinstance(right, (list, tuple)) and isinstance(ours, (list, tuple)):
        return len(ours) == len(right) and all(_same(a, b, tolerance) for a, b in zip(ours, right))
    return ours == right

import copy as _copy
for _given in _inputs:
    _right = _reference(*_copy.deepcopy(_given))
    _ours = _candidate(*_copy.deepcopy(_given))
    assert _same(_ours, _right, _tolerance), f'{_given!r:.100} gives {_ours!r:.80}, not {_right!r:.80}'
"""


def humaneval(answer: Answer) -> CodeProgram:
    """The prompt, the completion, the row's test, and the call of its check."""
    prompt, test, entry_point = (need(answer, column) for column in ('prompt', 'test', 'entry_point'))
    completion = extraction.fit_completion(prompt, str(answer.prediction))
    return CodeProgram(
        f'{prompt}{completion}',
        checks=f'{test}\ncheck({entry_point})',
        setup=extraction.complete_stub(prompt),
        names=(entry_point,),
    )


def humaneval_plus(answer: Answer) -> CodeProgram:
    """HumanEval+ in either published form: tests as code, or inputs on which the canonical solution is right."""
    inputs = [*(answer.values.get('base_input') or ()), *(answer.values.get('plus_input') or ())]
    if not inputs:
        return humaneval(answer)
    prompt, solution, entry_point = (need(answer, column) for column in ('prompt', 'canonical_solution', 'entry_point'))
    return CodeProgram(
        prompt + extraction.fit_completion(prompt, str(answer.prediction)),
        checks=f'_candidate = {entry_point}\n{_AGAINST_REFERENCE}',
        setup=(
            f'_names = {{}}\nexec({prompt + solution!r}, _names)\n_reference = _names[{entry_point!r}]\n'
            f'_tolerance = {answer.values.get("atol") or 0!r}\n_inputs = {inputs!r}'
        ),
        names=(entry_point,),
    )


def mbpp(answer: Answer) -> CodeProgram:
    """The program and the row's assertions. The gold answer is their text, a list of them, or a mapping with them."""
    code = extraction.mbpp_program(str(answer.prediction))
    checks = _assertions(answer)
    return CodeProgram(code, checks=checks, names=_names_under_test(answer.values.get('code'), checks))


def _names_under_test(reference: object, checks: str) -> tuple[str, ...]:
    """The functions and classes of a reference solution that the checks use; empty where they cannot be told."""
    try:
        defined = ast.parse(str(reference or '')).body
        used = {node.id for node in ast.walk(ast.parse(checks)) if isinstance(node, ast.Name)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    named = (node.name for node in defined if isinstance(node, (ast.FunctionDef, ast.ClassDef)))
    return tuple(name for name in named if name in used)


def _assertions(answer: Answer) -> str:
    gold, row = answer.gold, answer.values
    setup = '\n'.join(row.get('test_imports') or ()) or str(row.get('test_setup_code') or '')
    if isinstance(gold, Mapping):
        gold = gold.get('test_list_2')
    elif row.get('test'):  # MBPP+ has its tests in a column of their own
        return str(row['test'])
    elif not isinstance(gold, (str, list, tuple)) or 'assert' not in str(gold):
        gold = row.get('test_list')
    text = '\n'.join(map(str, gold)) if isinstance(gold, (list, tuple)) else str(gold or '')
    if 'assert' not in text:
        raise ScoringError('found no assertions in the gold answer or in the columns test_list and test.')
    return f'{setup}\n{text}'


def with_test_code(answer: Answer) -> CodeProgram:
    """The reply's block and the row's `test_code` (HumanEval Pro, MBPP Pro)."""
    return CodeProgram(extraction.fenced_block(str(answer.prediction)), checks=need(answer, 'test_code'))


def multipl_e(answer: Answer) -> CodeProgram:
    """MultiPL-E in Python: the prompt, the completion up to a stop token, the row's tests."""
    _only_python(answer.values.get('language', 'py'))
    prompt = need(answer, 'prompt')
    code = extraction.body_of_function(str(answer.prediction), prompt)
    for stop in answer.values.get('stop_tokens') or ():
        code = code.split(stop)[0]
    return CodeProgram(
        f'{prompt}{code}',
        checks=need(answer, 'tests'),
        setup=extraction.complete_stub(prompt),
        names=extraction.last_function(prompt),
    )


def humaneval_x(answer: Answer) -> CodeProgram:
    """HumanEval-X in Python: the prompt, the function's body, the row's test."""
    prompt = need(answer, 'prompt')
    return CodeProgram(
        f'{prompt}{extraction.body_of_function(str(answer.prediction), prompt)}',
        checks=need(answer, 'test'),
        setup=extraction.complete_stub(prompt),
        names=extraction.last_function(prompt),
    )


def _only_python(language: object) -> None:
    if language not in ('py', 'python'):
        raise ScoringError(f'only Python programs are run here; this row is {language!r}.')


def bigcodebench(answer: Answer, *, eval_type: str) -> CodeProgram:
    """The program and the row's unittest; what is completed starts with the prompt."""
    code = extraction.longest_program(str(answer.prediction))
    if eval_type == 'complete':
        code = f'{need(answer, "complete_prompt")}{answer.prediction}'
    calibrated = f'{need(answer, "code_prompt")}\n    pass\n' if answer.values.get('code_prompt') else ''
    return CodeProgram(f'{calibrated}{code}\n{need(answer, "test")}\n{_UNITTEST}', module='__test__')


def ds1000(answer: Answer) -> CodeProgram:
    """The row's code context, which tests the solution it is given."""
    context = need(answer, 'code_context')
    checks = ['test_execution(_solution)', *(['test_string(_solution)'] if 'def test_string' in context else [])]
    return CodeProgram(f'{context}\n_solution = {str(answer.prediction)!r}\n' + '\n'.join(checks))


def leetcode(answer: Answer) -> CodeProgram:
    """The program after the usual imports, and the row's assertions."""
    return CodeProgram(
        f'{_CONTEST_IMPORTS}{extraction.mbpp_program(str(answer.prediction))}',
        checks=_assertions(answer),
        setup=_CONTEST_IMPORTS,
    )


def code_generation(answer: Answer, *, extractor: str) -> CodeProgram:
    """LiveCodeBench: a function called with each test's arguments, or a script fed each test's input."""
    extract = extraction.last_fenced_lines if extractor == 'v2' else extraction.first_fenced_lines
    return _contest_program(extract(str(answer.prediction)), _parse(need(answer, 'evaluation_sample')), lines=True)


def contest(answer: Answer) -> CodeProgram:
    """APPS and TACO: as in the row's `input_output`."""
    return _contest_program(extraction.fenced_block(str(answer.prediction)), _parse(need(answer, 'input_output')))


def _contest_program(code: str, sample: Mapping[str, Any], *, lines: bool = False) -> CodeProgram:
    """`lines` says that the arguments of a call are one text, a JSON value on each line."""
    function = sample.get('fn_name') or ''
    source = f'{_CONTEST_IMPORTS}{code}'
    pairs = list(zip(sample.get('inputs') or (), sample.get('outputs') or (), strict=False))
    if not pairs:
        raise ScoringError('found no tests: the row has no inputs and outputs.')
    if not function:
        tests = tuple(Case(_text(inputs), partial(prints_the_same, _text(right))) for inputs, right in pairs)
        return CodeProgram(source, 'stdio', tests)
    arguments = [[json.loads(line) for line in inputs.split('\n')] if lines else inputs for inputs, _ in pairs]
    golds = [json.loads(right) if lines else right for _, right in pairs]
    tests = tuple(Case(inputs, partial(returns_the_same, gold)) for inputs, gold in zip(arguments, golds, strict=True))
    return CodeProgram(source, 'call', tests, function)


def _text(value: Any) -> str:
    return '\n'.join(map(str, value)) if isinstance(value, list) else str(value)


def prints_the_same(right: str, printed: str) -> bool:
    """Whether the printed lines are the right ones, apart from spaces at their ends; or the same numbers.

    >>> prints_the_same('1 2\\n3', '1 2 \\n3\\n'), prints_the_same('0.50', '0.5'), prints_the_same('1', '2')
    (True, True, False)
    """
    ours, gold = ([line.strip() for line in text.strip().split('\n')] for text in (printed, right))
    return len(ours) == len(gold) and all(a == b or _same_numbers(a, b) for a, b in zip(ours, gold, strict=True))


def _same_numbers(ours: str, gold: str) -> bool:
    a, b = ours.split(), gold.split()
    try:
        return len(a) == len(b) and all(Decimal(x) == Decimal(y) for x, y in zip(a, b, strict=True))
    except (InvalidOperation, ValueError):
        return False


def returns_the_same(gold: Any, returned: Any) -> bool:
    """Whether a value is the gold one, which some data keep in a list of one.

    >>> returns_the_same([1, 2], [1, 2]), returns_the_same([[1, 2]], [1, 2]), returns_the_same([1], 2)
    (True, True, False)
    """
    return bool(returned == gold) or (isinstance(gold, list) and len(gold) == 1 and bool(returned == gold[0]))


def code_execution(answer: Answer) -> CodeProgram:
    """LiveCodeBench: the value that a reply predicts a call to have. Repeating the call does not count."""
    sample = _parse(answer.gold if answer.gold is not None else need(answer, 'evaluation_sample'))
    predicted = extraction.extract_execution_result(str(answer.prediction))
    if not predicted or str(sample['input']) in predicted:
        return CodeProgram('raise AssertionError("no value was predicted")')
    return CodeProgram(
        f'{_CONTEST_IMPORTS}_predicted = ({predicted})',
        checks=f'assert ({sample["output"]}) == _predicted',
        setup=f'{_CONTEST_IMPORTS}{sample["code"]}',
        names=('_predicted',),
    )


def output_prediction(answer: Answer) -> CodeProgram:
    """LiveCodeBench: the output that a reply predicts a test to have."""
    sample = _parse(answer.gold if answer.gold is not None else need(answer, 'evaluation_sample'))
    predicted = extraction.extract_assertion(str(answer.prediction))
    if not predicted:
        return CodeProgram('raise AssertionError("no output was predicted")')
    return CodeProgram(
        f'_predicted = ({predicted})',
        checks=f'assert json.loads({str(sample["output"])!r}) == _predicted',
        setup='import json',
        names=('_predicted',),
    )


def need(answer: Answer, column: str) -> str:
    """The text of a column that the tests need."""
    value = answer.values.get(column)
    if value is None:
        there = list_names(answer.values) or 'none'
        raise ScoringError(f'needs the column {column!r} to test a program. The columns are: {there}.')
    return value if isinstance(value, str) else json.dumps(value)


def _parse(text: Any) -> Mapping[str, Any]:
    parsed = json.loads(text) if isinstance(text, str) else text
    if not isinstance(parsed, Mapping):
        raise ScoringError(f'expected a mapping of tests, got {parsed!r:.80}.')
    return parsed


def problem_of(answer: Answer, columns: Sequence[str]) -> str | None:
    """The problem that a row is a sample of, where rows repeat problems."""
    names: Sequence[Any] = [answer.values[column] for column in columns if answer.values.get(column) is not None]
    if isinstance(answer.gold, Mapping):
        names = [answer.gold['task_id']] if 'task_id' in answer.gold else names
    return str(names[0]) if names else None
