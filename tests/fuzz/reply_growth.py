"""How long everything that reads a reply takes as the reply grows: subjects, replies, and the measurement."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from rolecall.apps.chat.structured import _read_json
from rolecall.apps.chat.tool_calls import calls_in
from rolecall.errors import RolecallError
from rolecall.redaction import drop_url_secrets
from rolecall.scoring.code import extraction
from rolecall.scoring.evaluators import METRICS, read_evaluator
from rolecall.scoring.metrics.judge_replies import READINGS
from rolecall.scoring.metrics.metric import Answer
from rolecall.scoring.postprocessors import POSTPROCESSORS, read_postprocessor
from rolecall.scoring.readers.quotations import leave_out_quotations
from rolecall.scoring.scanners import SCANNERS, ScannedReply, Scanner

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    'first_option_postprocess': {'options': 'ABCD'},
    'last_option_postprocess': {'options': 'ABCD'},
    'choice_postprocess': {'choices': ['yes', 'no']},
    'xml_tag_postprocessor': {'tag': '<answer>'},
    'think_pred_postprocess': {'re_pattern': r'</think>(.*)'},
    'match_answer_pattern': {'answer_pattern': 'Answer: (.*)'},
    'TruthfulQAEvaluator': {'metrics': 'rouge'},
    'AssertEvaluator': {'asserts': [{'type': 'is-json', 'value': {'type': 'array', 'uniqueItems': True}}]},
}
EXTRACTORS = (
    extraction.mbpp_program,
    extraction.fenced_block,
    extraction.longest_program,
    extraction.first_fenced_lines,
    extraction.last_fenced_lines,
    extraction.extract_execution_result,
    extraction.extract_assertion,
    lambda reply: extraction.fit_completion('def f(x):\n', reply),
    lambda reply: extraction.body_of_function(reply, 'def f(x):'),
)
GOLDS: tuple[Any, ...] = (
    'B',
    '12',
    ['A', 'B'],
    'the cat',
    '[[1, 2], [3, 4]]',
    'q--A--ABCD',
    {'answers': {'correct_answers': ['a cat'], 'incorrect_answers': ['a dog']}},
    [{'f': {'x': [1]}}],
    '{"f": {"x": [1]}}',
    1,
)
VALUES: Mapping[str, Any] = {
    'options': ['one', 'two'],
    'discipline': 'x',
    'id': 'relevance_1',
    'prompt': 'p',
    'question': 'What?',
    'instruction_id_list': ['length_constraints:number_words'],
    'kwargs': [{'num_words': 3, 'relation': 'at least'}],
}
SHAPES: Mapping[str, Callable[[int], str]] = {
    name: (lambda size, piece=piece: (piece * (size // len(piece) + 1))[:size])
    for name, piece in {
        'newlines': '\n',
        'spaces': ' ',
        'one letter': 'a',
        'one capital': 'A',
        'digits': '1',
        'zeros': '0',
        'open brackets': '[',
        'nested pairs': '[[',
        'closed brackets': ']',
        'parentheses': '(',
        'braces': '{',
        'boxed': r'\boxed{',
        'dollars': '$',
        'backslashes': '\\',
        'quotes': '"',
        'stars': '*',
        'commas': ',',
        'points': '.',
        'dashes': '-',
        'hashes': '#',
        'fences': '```\n',
        'words': 'a b ',
        'lines': 'word\n',
        'blank lines': ' \n',
        'numbers': '1 2,3.4 ',
        'answers': 'The answer is ',
        'labels': 'Answer: ',
        'capital labels': 'ANSWER: ',
        'rows of a grid': '[1, 2], ',
        'tags': '<answer>',
        'thoughts': '<think>',
        'json': '{"a": ',
        'calls': 'f(a=',
        'chinese': '答案是',
        'marked chinese': '【答案】',
        'sentences': 'So it is 5. ',
        'mixed': ' \n[({"$\\boxed{1A.,- ',
        'ratings': '[[5',
        'powers': '2^',
        'fractions': r'\frac{1}{',
        'one han character': '我',
        'programs begun': '[BEGIN]\n',
        'programs done': 'x DONE ',
        'python tags': '[PYTHON]',
        'functions': 'def f(x):\n    return (\n',
        'tildes': '~~~\n',
        'backticks': '`',
        'percents': '1%',
    }.items()
} | {
    **{
        f'{name} after {start}': (lambda size, start=start, space=space: f'{start}{space * size}x')
        for start in (
            'A',
            r'\boxed{',
            'Answer:',
            'The answer is',
            '[',
            '[[',
            '【答案】',
            '{"answer":',
            '```',
            '1',
            '<answer>',
            '[BEGIN]',
            'DONE',
        )
        for name, space in {'spaces': ' ', 'newlines': '\n'}.items()
    },
    'closed boxes': lambda size: r'\boxed{1}' * (size // 9),
    'letter after dashes': lambda size: f'a{"-" * size}!',
    'list of objects': lambda size: str([{'a': number} for number in range(size // 10)]).replace("'", '"'),
    'braces closed': lambda size: r'\boxed{' + '{' * (size // 2) + '}' * (size // 2),
    'word': lambda size: 'The answer is ' + 'a' * size,
    'number': lambda size: 'The answer is ' + '1' * size,
}


_FIRST, _SLACK, _TOLERANCE = 0.4, 0.02, 2.5
"""Seconds for the shortest reply, seconds that any call may take, and how much faster than the reply its time may grow."""


class TooSlowError(Exception):
    """A call took longer than its limit."""


def _stop(number: int, frame: object) -> None:
    raise TooSlowError


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End the block after some seconds of CPU time; regular expressions of the standard library can be interrupted, too."""
    before = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def subjects() -> Iterator[tuple[str, Callable[[str], object]]]:
    """Every registered postprocessor, metric and parser of judges' replies, as a function of a reply."""
    for name in POSTPROCESSORS:
        yield f'postprocessor {name}', read_postprocessor({'type': name, **OPTIONS.get(name, {})})
    for extract in EXTRACTORS:
        yield f'program {extract.__name__}', extract
    for name in READINGS:
        yield f'judge {name}', _judge(name)
    yield 'judge quotations', lambda reply: leave_out_quotations(reply, [reply])
    for name, scanner in SCANNERS.items():
        yield f'scan {name}', _scan(scanner)
    yield 'scan for calls', lambda reply: calls_in(reply, ['f'])
    yield 'scan for calls in tags', lambda reply: calls_in(f'<tool_call>{reply}', ['f'])
    yield 'scan for calls in a fence', lambda reply: calls_in(f'```{reply}', ['f'])
    yield 'scan for JSON in a fence', lambda reply: _read_json(f'```{reply}')
    yield 'scan for secrets', lambda reply: drop_url_secrets(f'https://host/{reply}?a={reply}')
    for name in METRICS:
        try:
            metric = read_evaluator({'type': name, **OPTIONS.get(name, {})})
        except RolecallError:
            continue  # needs options or a package that is not installed
        if metric.prepare is None and metric.needs_judge is None:
            yield f'metric {name}', _marks(metric.mark)


def _scan(scanner: Scanner) -> Callable[[str], object]:
    return lambda reply: scanner(ScannedReply(reply, f'Write JSON. {reply}', 'B', 'length', answered=False))


def _judge(name: str) -> Callable[[str], object]:
    reading = READINGS[name]
    answer = Answer('x', 'B', VALUES)
    return lambda reply: _quietly(lambda: reading.read(reply, answer))


def _marks(mark: Callable[[Answer], object]) -> Callable[[str], object]:
    usable = [gold for gold in GOLDS if _quietly(lambda gold=gold: (mark(Answer('B', gold, VALUES)), True)) is not None]
    golds = usable[:2] or GOLDS[:1]
    return lambda reply: [_quietly(lambda gold=gold: mark(Answer(reply, gold, VALUES))) for gold in golds]


def _quietly(call: Callable[[], object]) -> object:
    try:
        return call()
    except TooSlowError:
        raise
    except Exception:  # what a reply like this is worth is not the question here
        return None


def seconds_for(call: Callable[[str], object], reply: str, limit: float) -> float:
    """The CPU time of one call; infinite if it takes longer than the limit."""
    began = time.process_time()
    try:
        with limited(limit):
            _quietly(lambda: call(reply))
    except TooSlowError:
        return float('inf')
    return time.process_time() - began


def growth_faults(
    call: Callable[[str], object], sizes: Sequence[int], shapes: Iterable[str] = tuple(SHAPES)
) -> list[str]:
    """The shapes of reply for which the time grows faster than the reply, beyond a fixed amount of time."""
    _quietly(lambda: call('The answer is B.'))  # loads what it needs
    faults = []
    for name in shapes:
        before = _FIRST
        for smaller, size in pairwise((sizes[0], *sizes)):
            allowed = _TOLERANCE * before * size / smaller
            reply = SHAPES[name](size)
            took = seconds_for(call, reply, 1.2 * allowed)
            if took > allowed and (took := seconds_for(call, reply, 1.2 * allowed)) > allowed:  # not by chance
                faults.append(f'{name}: {size:,} characters took {took:.2f} s, {smaller:,} of them {before:.2f} s')
                break
            before = max(took, _SLACK)
    return faults
