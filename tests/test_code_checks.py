"""A solution and its checks in two processes: what crosses between them, and what a solution cannot do to its verdict."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from rolecall.scoring.code.benchmark_programs import (
    code_execution,
    code_generation,
    humaneval,
    humaneval_plus,
    leetcode,
    mbpp,
    with_test_code,
)
from rolecall.scoring.code.execution import CodeProgram, run_program, run_programs
from rolecall.scoring.code.sandbox import SandboxLimits
from rolecall.scoring.code.sandbox_probe import choose_sandbox
from rolecall.scoring.metrics.metric import Answer

pytestmark = pytest.mark.skipif(sys.platform != 'linux', reason='sandboxes need Linux')

LIMITS = SandboxLimits(seconds=60)


def outcomes(*programs: CodeProgram) -> list[str]:
    done = run_programs(programs, sandbox=choose_sandbox(), limits=LIMITS, workers=2)
    return [one.outcome if one.passed else f'{one.outcome}: {one.detail}' for one in done]


CROSSES = [  # solution, checks that must pass
    ('def f(x): return x', 'assert f(3) == 3 and f("a") == "a" and f(None) is None and f(True) is True'),
    ('def f(x): return x', 'assert f([1, (2, {3}), {"a": [4.5]}]) == [1, (2, {3}), {"a": [4.5]}]'),
    ('def f(x): return x', 'assert f({(1, 2): frozenset([3])}) == {(1, 2): frozenset([3])}'),
    ('def f(x): return x', 'assert f(10**400) == 10**400 and f(-(2**64)) == -(2**64)'),
    ('def f(x): return x', 'assert f(float("inf")) == float("inf") and f(float("nan")) != f(float("nan"))'),
    ('def f(x): return x', 'assert f(1e-320) == 1e-320 and f(0.1 + 0.2) == 0.1 + 0.2'),
    ('def f(x): return x', 'assert f(b"\\x00\\xff") == b"\\x00\\xff" and f(bytearray(b"a")) == bytearray(b"a")'),
    ('def f(x): return x', 'assert f(3 + 4j) == 3 + 4j and f(range(2, 9, 3)) == range(2, 9, 3)'),
    ('def f(x): return x', 'assert f("\\ud800") == "\\ud800" and f("猫\\n") == "猫\\n"'),
    ('def f(): return (1, 2)', 'assert f() == (1, 2) and f() != [1, 2] and isinstance(f(), tuple)'),
    ('from collections import Counter\ndef f(s): return Counter(s)', 'assert f("aab") == {"a": 2, "b": 1}'),
    ('from collections import namedtuple\nP = namedtuple("P", "x y")\ndef f(): return P(1, 2)', 'assert f() == (1, 2)'),
    ('from collections import deque\ndef f(): return deque([1])', 'from collections import deque\nassert f() == deque([1])'),
    ('from decimal import Decimal\ndef f(): return Decimal("1.10")', 'from decimal import Decimal\nassert f() == Decimal("1.1")'),
    ('from fractions import Fraction\ndef f(): return Fraction(1, 3)', 'from fractions import Fraction\nassert f() == Fraction(2, 6)'),
    ('import datetime\ndef f(): return datetime.date(2020, 2, 29)', 'import datetime\nassert f() == datetime.date(2020, 2, 29)'),
    ('def f(a, *, b=2): return a + b', 'assert f(1) == 3 and f(a=1, b=5) == 6'),
    ('def f(x): x.append(4); x.sort(reverse=True)', 'x = [1, 2]\nf(x)\nassert x == [4, 2, 1]'),
    ('def f(d): d["n"] = d.pop("m") + 1', 'd = {"m": 1}\nf(d)\nassert d == {"n": 2}'),
    ('def f(n):\n    for i in range(n): yield i * i', 'assert list(f(3)) == [0, 1, 4] and sum(f(3)) == 5'),
    ('def f(): return map(str, [1, 2])', 'assert list(f()) == ["1", "2"]'),
    ('def f(g, x): return g(g(x))', 'assert f(lambda v: v + 1, 0) == 2 and f(str.upper, "a") == "A"'),
    ('def f(n): return lambda x: x + n', 'assert f(2)(3) == 5'),
    ('class Solution:\n    def twice(self, x): return 2 * x', 'assert Solution().twice(4) == 8'),
    ('class Stack:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n    def __len__(self): return len(self.items)',
     's = Stack()\ns.push(1)\ns.push(2)\nassert len(s) == 2 and s.items == [1, 2] and s.items[0] == 1'),
    ('class Pair:\n    def __init__(self, a, b): self.a, self.b = a, b\ndef longest(pairs): return max(p.b - p.a for p in pairs)',
     'assert longest([Pair(1, 4), Pair(2, 9)]) == 7'),
    ('class Node:\n    def __init__(self, v): self.v, self.left = v, None\ndef depth(n): return 0 if n is None else 1 + depth(n.left)',
     'root = Node(1)\nroot.left = Node(2)\nassert depth(root) == 2 and root.left.v == 2'),
    ('def total(node): return node.value + (total(node.next) if node.next else 0)',
     'class Link:\n    def __init__(self, value, next=None): self.value, self.next = value, next\nassert total(Link(1, Link(2))) == 3'),
    ('def f(x):\n    if x < 0: raise ValueError("negative")', 'try:\n    f(-1)\n    assert False\nexcept ValueError as error:\n    assert str(error) == "negative"'),
    ('class Odd(KeyError): pass\ndef f(): raise Odd("k")', 'try:\n    f()\n    assert False\nexcept KeyError:\n    pass'),
    ('import math\ndef area(r): return math.pi * r * r', 'assert math.isclose(area(1), 3.14159, rel_tol=1e-3)'),
    ('def sum(a, b): return a * b', 'assert sum(3, 4) == 12'),
    ('LIMIT = 5\ndef f(x): return x > LIMIT', 'assert f(6) and not f(LIMIT)'),
    ('def f(x): return str(x)', 'def check(candidate):\n    assert candidate(1) == "1"\ncheck(f)'),
    ('state = []\ndef f(x):\n    state.append(x)\n    return len(state)', 'assert f(1) == 1 and f(1) == 2'),
    ('def f(): print("x" * 100000); return 1', 'assert f() == 1'),
]  # fmt: skip


def test_values_calls_and_errors_cross_as_they_are() -> None:
    programs = [CodeProgram(source, checks=checks) for source, checks in CROSSES]
    assert [(case, out) for case, out in zip(CROSSES, outcomes(*programs), strict=True) if out != 'passed'] == []


def test_numpy_numbers_are_numbers() -> None:
    pytest.importorskip('numpy')
    source = 'import numpy as np\ndef mean(x): return np.mean(x)\ndef top(x): return np.int64(max(x))\ndef row(x): return np.array(x) * 2'
    checks = 'assert mean([1, 2]) == 1.5 and top([1, 3]) == 3 and (row([1, 2]) == np.array([2, 4])).all()'
    assert outcomes(CodeProgram(source, checks=checks)) == ['passed']


LIAR = (
    'class Liar:\n    def __eq__(self, other): return True\n    __ne__ = __lt__ = __gt__ = __le__ = __ge__ = __eq__\n'
)
CHECKS = 'assert f(2) == 4\nassert f(3) == 9'
CHEATS = [  # solutions that are wrong, and try to pass all the same
    f'{LIAR}def f(x): return Liar()',
    f'{LIAR}class L(int, Liar): pass\ndef f(x): return L(0)',
    'class S(str):\n    def __eq__(self, other): return True\n    __hash__ = str.__hash__\ndef f(x): return S("4")',
    'class F(float):\n    def __eq__(self, other): return True\ndef f(x): return F(1)',
    'import builtins\nbuiltins.AssertionError = ValueError\ndef f(x): return 0',
    'import os\nos._exit(0)',
    'import sys\nsys.exit(0)',
    'raise SystemExit(0)',
    'def f(x):\n    import os\n    os._exit(0)',
    # every report key that can be found in the process, reported with every verdict
    'import gc, json, os, re, sys\n'
    'def keys():\n'
    '    frame, seen = sys._getframe(), set()\n'
    '    while frame:\n'
    '        for value in frame.f_locals.values():\n'
    '            if isinstance(value, bytes) and re.fullmatch(rb"[0-9a-f]{32}", value): seen.add(value)\n'
    '            if isinstance(value, dict) and "key" in value: seen.add(value["key"].encode())\n'
    '        frame = frame.f_back\n'
    '    return seen\n'
    'def f(x):\n'
    '    for key in keys():\n'
    '        for step in ("passed", "loaded", "tested", "said"):\n'
    '            line = key + json.dumps({"step": step, "message": {"value": True}}).encode() + b"\\n"\n'
    '            for place in range(3, 20):\n'
    '                try: os.write(place, line)\n'
    '                except OSError: pass\n'
    '    return 0',
    # the outcome of an exception, claimed to be a pass
    'import sys\n'
    'frame = sys._getframe()\n'
    'while frame:\n'
    '    if "explain" in frame.f_globals: frame.f_globals["explain"] = lambda error: ("passed", "")\n'
    '    frame = frame.f_back\n'
    'def f(x): raise ValueError("no")',
    # answers to the checks' questions that are not answers
    'import sys\n'
    'frame = sys._getframe()\n'
    'while frame:\n'
    '    if "Peer" in frame.f_globals: frame.f_globals["Peer"]._answer = lambda self, question: {"op": "passed"}\n'
    '    frame = frame.f_back\n'
    'def f(x): return 0',
    'import sys\n'
    'frame = sys._getframe()\n'
    'while frame:\n'
    '    if "Peer" in frame.f_globals: frame.f_globals["Peer"]._answer = lambda self, question: "[" * 100000\n'
    '    frame = frame.f_back\n'
    'def f(x): return 0',
    # a builtin that the checks use, defined anew
    'def abs(x): return 0\ndef f(x): return 0',
    'def __build_class__(*a): pass\nAssertionError = Exception\ndef f(x): return 0',
]  # fmt: skip


def test_a_solution_cannot_decide_its_own_verdict() -> None:
    programs = [CodeProgram(source, checks=CHECKS) for source in CHEATS]
    assert [source for source, out in zip(CHEATS, outcomes(*programs), strict=True) if out == 'passed'] == []


NAMES = '("abs", "range", "all", "zip", "len", "isinstance", "print", "check", "candidate", "_inputs", "_same", "_reference", "_candidate", "_tolerance", "json", "__builtins__", "__name__", "inputs", "results", "assertion")'
OVERRIDES = {  # put before a wrong solution
    'nothing': '',
    'names': 'def _lie(*given, **named): return True\nfor _name in ' + NAMES + ': globals()[_name] = _lie',
    'builtins': 'import builtins\nfor _name in ("abs", "all", "zip", "len"): setattr(builtins, _name, lambda *given: ())',
    'no inputs': '_inputs = inputs = results = []',
    'a dict of builtins': 'globals()["__builtins__"] = dict(vars(__import__("builtins")), abs=lambda x: 0, range=lambda *given: [], all=lambda x: True)',
    'AssertionError': 'import builtins\nbuiltins.AssertionError = AssertionError = type("Quiet", (Exception,), {})',
}  # fmt: skip
FORGERIES = {  # names that a solution adds to those the checks asked for
    'no inputs': '{"_inputs": []}',
    'abs': '{"abs": lambda x: 0}',
    'range': '{"range": lambda *given: []}',
    'all': '{"all": lambda values: True}',
    'enumerate': '{"enumerate": lambda *given: []}',
    'check': '{"check": lambda candidate: None}',
    'its own comparison': '{"_same": lambda *given: True}',
    'its own reference': '{"_reference": lambda *given: -1}',
    'builtins': '{"__builtins__": {"abs": lambda x: 0, "all": lambda x: True, "range": lambda *given: [], "enumerate": lambda *given: []}}',
}  # fmt: skip
OVERRIDES |= {
    f'forged {name}': (
        'import sys\n_frame = sys._getframe()\nwhile _frame:\n'
        '    if "Peer" in _frame.f_globals:\n'
        '        _peer = _frame.f_globals["Peer"]\n'
        '        def _forged(self, question, answer=_peer._answer):\n'
        '            reply = answer(self, question)\n'
        f'            if question["op"] == "names": reply["value"]["dict"] += self.encode({forged})["dict"]\n'
        '            return reply\n'
        '        _peer._answer = _forged\n'
        '    _frame = _frame.f_back'
    )
    for name, forged in FORGERIES.items()
}
BODY = 'def add(a, b):\n    """Add."""\n'
TESTED = {
    'prompt': BODY,
    'entry_point': 'add',
    'canonical_solution': '    return a + b\n',
    'test': 'def check(candidate):\n    assert all(abs(candidate(n, 2.0) - n - 2) < 1e-6 for n in range(3))\n',
}
MBPP_PLUS_TEST = """
def is_floats(x): return isinstance(x, float)
def assertion(out, exp, atol):
    if atol == 0 and is_floats(exp): atol = 1e-6
    assert abs(out - exp) <= atol
inputs = [[1, 2], [3, 4.5]]
results = [3, 7.5]
for i, (inp, exp) in enumerate(zip(inputs, results)):
    assertion(add(*inp), exp, 0)
"""
SAMPLE = '{"inputs": ["1\\n2", "3\\n4"], "outputs": ["3", "7"], "fn_name": "add"}'
FORMS: dict[str, Callable[[str], CodeProgram]] = {
    'HumanEval': lambda code: humaneval(Answer(code, values=TESTED)),
    'HumanEval+ by tests': lambda code: humaneval_plus(Answer(code, values=TESTED)),
    'HumanEval+ by reference': lambda code: humaneval_plus(Answer(code, values={**TESTED, 'plus_input': [[5, 6.5], [1, 1]]})),
    'MBPP': lambda code: mbpp(Answer(code, 'assert abs(add(1, 2) - 3) < 0.1\nassert all([add(2, 2) == 4])')),
    'MBPP by reference': lambda code: mbpp(Answer(code, 'assert abs(add(1, 2) - 3) < 0.1', {'code': 'def add(a, b): return a + b'})),
    'MBPP+': lambda code: mbpp(Answer(code, 7, {'test': MBPP_PLUS_TEST, 'code': 'def add(a, b): return a + b'})),
    'MBPP+ without a reference': lambda code: mbpp(Answer(code, 7, {'test': MBPP_PLUS_TEST})),
    'LeetCode': lambda code: leetcode(Answer(code, 'assert all(add(n, 1) == n + 1 for n in range(3))')),
    'LiveCodeBench': lambda code: code_generation(Answer(f'```\n{code}\n```', values={'evaluation_sample': SAMPLE}), extractor='v1'),
    'HumanEval Pro': lambda code: with_test_code(Answer(code, values={'test_code': 'assert abs(add(1, 2) - 3) < 0.1'})),
}  # fmt: skip


@pytest.mark.parametrize('form', FORMS)
def test_no_override_helps_a_wrong_solution_or_hurts_a_right_one(form: str) -> None:
    wrong = [f'{override}\n{BODY}    return -1\n' for override in OVERRIDES.values()]
    right = f'{BODY}    return a + b\n'
    ended = outcomes(*map(FORMS[form], [*wrong, right]))
    assert [name for name, out in zip(OVERRIDES, ended, strict=False) if out == 'passed'] == []
    assert ended[-1] == 'passed'


def test_of_several_builtins_only_the_tested_one_may_be_the_solution_s() -> None:
    checks = 'assert sum(list(range(3)), 1) == 7'
    right = CodeProgram('def sum(values, n): return 7', checks=checks)
    wrong = CodeProgram('def range(n): return []\ndef list(x): return [4, 2]\ndef abs(x): return 0', checks=checks)
    assert [out == 'passed' for out in outcomes(right, wrong)] == [True, False]


def test_a_solution_may_change_what_it_is_given() -> None:
    source = (
        'def change(value):\n'
        '    getattr(value, "update", getattr(value, "extend", None))([("a", 1)] if isinstance(value, dict) else ["a"])'
    )
    given = ['{}', '{"a": 2, "b": 3}', '{1}', '[]', '__import__("collections").deque([1])']
    left = ['{"a": 1}', '{"a": 1, "b": 3}', '{1, "a"}', '["a"]', '__import__("collections").deque([1, "a"])']
    checks = [
        f'value = {before}\nchange(value)\nassert value == {after}' for before, after in zip(given, left, strict=True)
    ]
    assert set(outcomes(*(CodeProgram(source, checks=check) for check in checks))) == {'passed'}


def test_a_solution_cannot_look_behind_what_the_checks_hand_to_it() -> None:
    source = (
        'def f(g):\n'
        '    for name in ("__globals__", "__code__", "func_globals", "gi_frame"):\n'
        '        try: getattr(g, name)\n'
        '        except Exception: continue\n'
        '        return name\n'
        '    try: g._ask("getattr", "__globals__")\n'
        '    except PermissionError: return "denied"\n'
    )
    assert outcomes(CodeProgram(source, checks='assert f(lambda: 1) == "denied"')) == ['passed']


def test_modules_that_the_checks_use_are_the_real_ones() -> None:
    source = 'class math:\n    isclose = staticmethod(lambda *a, **b: True)\ndef area(r): return 0'
    [out] = outcomes(CodeProgram(source, checks='assert math.isclose(area(1), 3.14)'))
    assert out.startswith('failed: AssertionError')


@pytest.mark.parametrize(
    ('source', 'used'),
    [
        ('def f(x): raise StopIteration', 'f(x) == x'),
        ('class Ends:\n    def __len__(self): raise StopIteration\ndef f(x): return Ends()', 'len(f(x)) == x'),
        ('class Ends:\n    def __getattr__(self, name): raise StopIteration\ndef f(x): return Ends()', 'f(x).y == x'),
    ],
)
def test_a_solution_cannot_end_the_loop_of_its_checks(source: str, used: str) -> None:
    [out] = outcomes(CodeProgram(source, checks=f'assert all(map(lambda x: {used}, [1, 2]))'))
    assert out.startswith('failed: RuntimeError: the solution raised StopIteration')


def test_no_number_is_close_to_infinity() -> None:
    row = {**TESTED, 'canonical_solution': '    return float("inf")\n', 'plus_input': [[5, 6.5]]}
    ended = outcomes(*(humaneval_plus(Answer(f'    return {x}', values=row)) for x in ('float("inf")', '0.0')))
    assert [out == 'passed' for out in ended] == [True, False]


def test_a_predicted_value_cannot_call_the_function_it_is_a_value_of() -> None:
    sample = {'code': 'def f(x): return x * 2', 'input': 'f(2)', 'output': '4'}
    replies = [f'[ANSWER]{value}[/ANSWER]' for value in ('4', 'f( 2)', '5')]
    ended = outcomes(*(code_execution(Answer(reply, values={'evaluation_sample': sample})) for reply in replies))
    assert [out == 'passed' for out in ended] == [True, False, False]


def test_a_wrong_solution_fails_with_what_happened() -> None:
    found = outcomes(
        CodeProgram('def f(x): return x', checks='assert f(1) == 2, "one is not two"'),
        CodeProgram('def f(x): return 1 / 0', checks='assert f(1) == 2'),
        CodeProgram('def f(x): return open("/etc/passwd").read()', checks='assert f(1) == 2'),
        CodeProgram('def g(x): return x', checks='assert f(1) == 2'),
        CodeProgram('def f(x: return', checks='assert f(1) == 2'),
    )
    assert found[0] == 'failed: AssertionError: one is not two (line 1)'
    assert found[1] == 'failed: ZeroDivisionError: division by zero (line 1)'
    assert found[2].startswith(('denied: PermissionError', 'failed: FileNotFoundError'))
    assert found[3].startswith("failed: NameError: name 'f' is not defined")
    assert found[4].startswith('failed: SyntaxError')


def test_time_and_memory_are_limited_in_calls_too() -> None:
    endless = CodeProgram('def f(x):\n    while True: pass', checks='assert f(1)')
    ended = run_program(endless, choose_sandbox(), SandboxLimits(seconds=1))
    assert (ended.outcome, ended.detail) == ('timeout', 'no result within 1 s')
    large = CodeProgram('def f(x): return len([0] * 10**9)', checks='assert f(1)')
    assert run_program(large, choose_sandbox(), SandboxLimits(seconds=60, memory=256)).outcome == 'memory'
