"""Prompts per second of the prompters, against LazyLLM 1.4 in an environment of its own.

    python benchmarks/prompters.py --reference-python /path/to/other/env/bin/python

Each row is measured in turns, here and in the other environment, so that both meet the same machine; the best of a few
turns counts. Both sides get the same arguments and the same special tokens.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

TOKENS = {
    'system': 'You are an AI-Agent developed by LazyLLM.',
    'sos': '<|im_start|>system\n',
    'eos': '<|im_end|>\n',
    'soh': '<|im_start|>user\n',
    'eoh': '<|im_end|>\n',
    'soa': '<|im_start|>assistant\n',
    'eoa': '<|im_end|>\n',
    'soe': '<|im_start|>tool\n',
    'eoe': '<|im_end|>\n',
    'tool_start_token': '<tool>',
    'tool_end_token': '</tool>',
    'tool_args_token': '<args>',
}
QUESTION = 'What is the difference between a process and a thread, and when should one prefer either of them?'
CHAT = 'You are a helpful assistant that answers questions about operating systems.'
TWO_SLOTS = 'Answer from the context only. Context: {context}. The name of the user is {name}.'
ONE_SLOT = 'Please complete the addition, the input is {instruction}'
FOUR_SLOTS = 'Context: {context}. Question: {question}. Answer in {language}, in the style of {style}.'
PAIRS = [[f'Question {i}: {QUESTION}', f'Answer {i}: a process owns memory, a thread shares it.'] for i in range(20)]
MESSAGES = [
    {'role': role, 'content': text} for pair in PAIRS for role, text in zip(('user', 'assistant'), pair, strict=True)
]
OTHERS = [{**message, 'content': message['content'] + ' Indeed.'} for message in MESSAGES]
GROWING = [MESSAGES[: 2 * n] for n in range(1, 21)]
FOUR = {'context': QUESTION, 'question': QUESTION, 'language': 'French', 'style': 'a poem'}


def tool(number: int) -> dict[str, Any]:
    parameters = {
        name: {'type': 'string', 'description': f'The {name} that the tool looks at.'}
        for name in ('city', 'day', 'unit')
    }
    function = {
        'name': f'get_weather_{number}',
        'description': 'Looks up the weather in a city on a day, in the unit asked for.',
        'parameters': {'type': 'object', 'properties': parameters, 'required': ['city', 'day']},
    }
    return {'type': 'function', 'function': function}


TEN, ONE = [tool(i) for i in range(10)], [tool(0)]
Row = tuple[str, str, dict[str, Any], dict[str, Any]]
ROWS: list[Row] = [
    ('chat str, plain', 'Chat', {'instruction': CHAT}, {'input': QUESTION}),
    (
        'chat dict 2 slots, str out',
        'Chat',
        {'instruction': TWO_SLOTS},
        {'input': {'context': QUESTION, 'name': 'Ann', 'input': QUESTION}},
    ),
    ('chat str, 20 pairs history, str out', 'Chat', {'instruction': CHAT}, {'input': QUESTION, 'history': PAIRS}),
    ('chat str, 40 msg history, str out', 'Chat', {'instruction': CHAT}, {'input': QUESTION, 'history': MESSAGES}),
    (
        'chat str, 40 msg history, openai',
        'Chat',
        {'instruction': CHAT},
        {'input': QUESTION, 'history': MESSAGES, 'format': 'openai'},
    ),
    (
        'chat str, 10 tools, openai',
        'Chat',
        {'instruction': CHAT, 'tools': TEN},
        {'input': QUESTION, 'format': 'openai'},
    ),
    ('chat str, 10 tools, str out', 'Chat', {'instruction': CHAT, 'tools': TEN}, {'input': QUESTION}),
    (
        'chat 20 pairs + 10 tools, str out',
        'Chat',
        {'instruction': CHAT, 'tools': TEN},
        {'input': QUESTION, 'history': PAIRS},
    ),
    ('chat 1 tool, str out', 'Chat', {'instruction': CHAT, 'tools': ONE}, {'input': QUESTION}),
    ('alpaca str, 1 slot', 'Alpaca', {'instruction': ONE_SLOT}, {'input': QUESTION}),
    ('alpaca dict 4 slots', 'Alpaca', {'instruction': FOUR_SLOTS}, {'input': FOUR}),
    ('alpaca dict 4 slots openai', 'Alpaca', {'instruction': FOUR_SLOTS}, {'input': FOUR, 'format': 'openai'}),
    ('alpaca 10 tools, str out', 'Alpaca', {'instruction': ONE_SLOT, 'tools': TEN}, {'input': QUESTION}),
    (
        'chat 10 tools given at the call, openai',
        'Chat',
        {'instruction': CHAT},
        {'input': QUESTION, 'tools': TEN, 'format': 'openai'},
    ),
    ('chat 10 tools given at the call, str out', 'Chat', {'instruction': CHAT}, {'input': QUESTION, 'tools': TEN}),
    ('chat 1 tool given at the call, str out', 'Chat', {'instruction': CHAT}, {'input': QUESTION, 'tools': ONE}),
    *(
        (
            f'chat, {name}, {form or "str out"}',
            'Chat',
            {'instruction': CHAT},
            {'input': QUESTION, 'histories': histories, 'format': form},
        )
        for name, histories in (
            ('conversation of 1 to 20 rounds', GROWING),
            ('another 40 msg each time', [MESSAGES, OTHERS]),
        )
        for form in ('openai', None)
    ),
]


def built(kind: str, init: dict[str, Any], reference: bool) -> Any:
    """A prompter with the tokens of a model, in either package."""
    if reference:
        import lazyllm

        prompter = getattr(lazyllm, f'{kind}Prompter')(**init)
        prompter._set_model_configs(**TOKENS)
        return prompter
    import rolecall

    return getattr(rolecall, f'{kind}Prompter')(**init).bind(TOKENS)


def seconds_per_call(call: Callable[[], object], for_seconds: float) -> float:
    count, step, start = 0, 1, time.perf_counter()
    while (passed := time.perf_counter() - start) < for_seconds:
        for _ in range(step):
            call()
        count += step
        step = min(step * 2, 1000)
    return passed / count


def measure(number: int, for_seconds: float, reference: bool) -> tuple[float, object]:
    _, kind, init, arguments = ROWS[number]
    prompter = built(kind, init, reference)
    arguments = dict(arguments)
    given = arguments.pop('input')
    histories = itertools.cycle(arguments.pop('histories', ()))
    call = partial(prompter.generate_prompt, given, **arguments)
    first = next(histories, None)
    prompt = call() if first is None else call(first)
    return seconds_per_call(call if first is None else lambda: call(next(histories)), for_seconds), prompt


def serve() -> None:
    """The other environment's side: a line with a row's number and seconds in, a line with the result out."""
    import logging

    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        number, for_seconds = json.loads(line)
        print('ANSWER' + json.dumps(measure(number, for_seconds, True)), flush=True)


class Reference:
    """The other environment, asked row by row."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, __file__, '--serve'],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def measure(self, number: int, for_seconds: float) -> tuple[float, object]:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError('the other environment has no pipes')
        self._process.stdin.write(json.dumps([number, for_seconds]) + '\n')
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith('ANSWER'):
                seconds, prompt = json.loads(line.removeprefix('ANSWER'))
                return seconds, prompt
        raise SystemExit('the other environment ended: does it have lazyllm?')

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def compare(reference: Reference | None, for_seconds: float, turns: int, only: str) -> None:
    print(f'{"":42}{"rolecall":>12}{"LazyLLM":>12}{"ratio":>9}  same prompt')
    for number, (name, *_) in enumerate(ROWS):
        if only not in name:
            continue
        ours = theirs = float('inf')
        own_prompt = other_prompt = None
        for _ in range(turns):
            seconds, own_prompt = measure(number, for_seconds, False)
            ours = min(ours, seconds)
            if reference:
                seconds, other_prompt = reference.measure(number, for_seconds)
                theirs = min(theirs, seconds)
        line = f'{name:42}{ours * 1e6:9.2f} us'
        if reference:
            same = 'yes' if json.loads(json.dumps(own_prompt)) == other_prompt else 'no'
            line += f'{theirs * 1e6:9.2f} us{theirs / ours:8.1f}x  {same}'
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else '')
    parser.add_argument('--reference-python', help='the Python of an environment that has lazyllm')
    parser.add_argument('--seconds', type=float, default=0.2, help='how long each turn takes')
    parser.add_argument('--turns', type=int, default=3)
    parser.add_argument('--only', default='', help='rows with this in their name')
    parser.add_argument('--serve', action='store_true', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    reference = Reference(options.reference_python) if options.reference_python else None
    compare(reference, options.seconds, options.turns, options.only)
    if reference:
        reference.close()


if __name__ == '__main__':
    main()
