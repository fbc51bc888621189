"""Python functions as tools, calls in texts, and answers piece by piece: the parts of modules that need no model."""

from __future__ import annotations

import asyncio
import datetime
import functools
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecall.apps.chat import ModuleError, background, tool_schema
from rolecall.apps.chat.hints import BadValueError, schema_of, value_of
from rolecall.apps.chat.streaming import AnswerFilter
from rolecall.apps.chat.tool_calls import CallFilter, calls_in
from rolecall.apps.chat.toolbox import Toolbox, ToolResult
from rolecall.apps.chat.tools import Tool
from rolecall.models.llama.decoding import GrowingAnswer, LlamaDecoding
from rolecall.models.protocol import Reply, split_reasoning


class Unit(Enum):
    CELSIUS = 'C'
    FAHRENHEIT = 'F'


@dataclass
class Place:
    city: str
    zip: int | None = None
    tags: list[str] = field(default_factory=list)


class Point(TypedDict, total=False):
    x: float
    y: float


@dataclass
class Node:
    name: str
    children: list[Node] = field(default_factory=list)


STRING, INTEGER, NUMBER, NULL = ({'type': kind} for kind in ('string', 'integer', 'number', 'null'))
PLACE = {
    'type': 'object',
    'properties': {
        'city': STRING,
        'zip': {'anyOf': [INTEGER, NULL]},
        'tags': {'type': 'array', 'items': STRING},
    },
    'required': ['city'],
}
HINTS: list[tuple[Any, dict[str, Any]]] = [
    (str, STRING),
    (int, INTEGER),
    (float, NUMBER),
    (bool, {'type': 'boolean'}),
    (None, NULL),
    (Any, {}),
    (object, {}),
    (Optional[str], {'anyOf': [STRING, NULL]}),  # noqa: UP045  # as it is often written
    (str | int, {'anyOf': [STRING, INTEGER]}),
    (Union[str, int, None], {'anyOf': [STRING, INTEGER, NULL]}),  # noqa: UP007  # likewise
    (list, {'type': 'array'}),
    (list[int], {'type': 'array', 'items': INTEGER}),
    (Sequence[list[str]], {'type': 'array', 'items': {'type': 'array', 'items': STRING}}),
    (set[str], {'type': 'array', 'items': STRING, 'uniqueItems': True}),
    (tuple[int, ...], {'type': 'array', 'items': INTEGER}),
    (tuple[int, str], {'type': 'array', 'prefixItems': [INTEGER, STRING], 'minItems': 2, 'maxItems': 2}),
    (dict, {'type': 'object'}),
    (dict[str, int], {'type': 'object', 'additionalProperties': INTEGER}),
    (Mapping[str, Any], {'type': 'object', 'additionalProperties': {}}),
    (Literal['a', 'b'], {'enum': ['a', 'b'], 'type': 'string'}),
    (Literal['a', 1], {'enum': ['a', 1]}),
    (Unit, {'enum': ['C', 'F'], 'type': 'string'}),
    (Annotated[int, 'How many.'], {'type': 'integer', 'description': 'How many.'}),
    (Annotated[int, {'un': 'hashable'}], INTEGER),
    (Place, PLACE),
    (Point, {'type': 'object', 'properties': {'x': NUMBER, 'y': NUMBER}, 'required': []}),
    (
        Node,
        {
            'type': 'object',
            'properties': {'name': STRING, 'children': {'type': 'array', 'items': {'type': 'object'}}},
            'required': ['name'],
        },
    ),
]


@pytest.mark.parametrize(('hint', 'schema'), HINTS, ids=[str(hint) for hint, _ in HINTS])
def test_hints_as_json_schema(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint) == schema


@pytest.mark.parametrize(
    ('hint', 'given', 'value'),
    [
        (int, 3.0, 3),
        (float, 3, 3.0),
        (int | None, None, None),
        (str | int, 3, 3),
        (float | int, 3, 3),
        (list[float], [1, 2.5], [1.0, 2.5]),
        (set[int], [1, 1], {1}),
        (tuple[int, str], [1, 'a'], (1, 'a')),
        (dict[str, int], {'a': 1.0}, {'a': 1}),
        (Literal[1, 'a'], 'a', 'a'),
        (Unit, 'F', Unit.FAHRENHEIT),
        (Place, {'city': 'Rome', 'tags': ['old']}, Place('Rome', tags=['old'])),
        (Point, {'x': 1}, {'x': 1.0}),
        (Any, [{'whatever': None}], [{'whatever': None}]),
        (Annotated[int, 'How many.'], 3, 3),
    ],
)
def test_values_as_hints_want_them(hint: Any, given: Any, value: Any) -> None:
    found = value_of(given, hint, 'x')
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ('hint', 'given', 'sentence'),
    [
        (int, True, 'x must be integer, got True'),
        (int, 2.5, 'x must be integer, got 2.5'),
        (bool, 1, 'x must be boolean'),
        (str, None, 'x must be string, got None'),
        (list[int], 'many', 'x must be a list'),
        (list[int], [1, 'two'], r'x\[1\] must be integer'),
        (tuple[int, int], [1], 'x must have 2 items, got 1'),
        (dict[str, int], [], 'x must be an object'),
        (dict[str, int], {'a': 'b'}, 'x.a must be integer'),
        (Literal['a', 'b'], 'c', "x must be one of 'a', 'b'; got 'c'"),
        (Literal[1], True, 'x must be one of 1'),
        (Unit, 'K', 'x must be one of'),
        (int | None, 'a', 'x must be integer.* or x must be null'),
        (Place, {'zip': 1}, "x lacks 'city'"),
        (Place, {'city': 'Rome', 'country': 'I'}, "x has an unknown field 'country'"),
        (Place, 'Rome', 'x must be an object'),
    ],
)
def test_values_that_are_not_what_hints_want(hint: Any, given: Any, sentence: str) -> None:
    with pytest.raises(BadValueError, match=sentence):
        value_of(given, hint, 'x')


def described(
    query: str,
    limit: int = 5,
    *,
    units: Literal['C', 'F'] = 'C',
    where: Annotated[str, 'From the hint.'] = '',
    sentinel: object = object(),
) -> str:
    """Look something up.

    It takes a while.

    Args:
        query: What to look for,
            in words.
        limit (int): How many.
        where: From the docstring.

    Returns:
        limit: not a parameter.
    """
    return query


def sphinx(query: str, limit: int) -> None:
    """Look something up.

    :param query: What to look for,
        in words.
    :param int limit: How many.
    :returns: nothing
    """


def bare(query, limit=3):  # type: ignore[no-untyped-def]
    return query


def free(query: str, *rest: str, **more: int) -> None:
    """Free."""


def search(query: str, key: str) -> str:
    """Search."""
    return key


class Finder:
    """Finds."""

    def look(self, query: str) -> str:
        """Look."""
        return query

    def __call__(self, query: str) -> str:
        return query


SPHINX_QUERY = {'type': 'string', 'description': 'What to look for, in words.'}


def test_a_function_is_described_by_hints_and_docstring() -> None:
    schema = tool_schema(described)
    assert schema['type'] == 'function'
    function = schema['function']
    assert function['name'] == 'described'
    assert function['description'] == 'Look something up.\n\nIt takes a while.'
    assert function['parameters'] == {
        'type': 'object',
        'properties': {
            'query': {'type': 'string', 'description': 'What to look for, in words.'},
            'limit': {'type': 'integer', 'description': 'How many.', 'default': 5},
            'units': {'enum': ['C', 'F'], 'type': 'string', 'default': 'C'},
            'where': {'type': 'string', 'description': 'From the hint.', 'default': ''},
            'sentinel': {},
        },
        'required': ['query'],
    }


def test_parameters_in_the_other_style() -> None:
    function = tool_schema(sphinx)['function']
    assert function['description'] == 'Look something up.'
    assert function['parameters']['properties'] == {
        'query': {'type': 'string', 'description': 'What to look for, in words.'},
        'limit': {'type': 'integer', 'description': 'How many.'},
    }


@pytest.mark.parametrize(
    ('function', 'name', 'properties', 'required'),
    [
        (bare, 'bare', {'query': {}, 'limit': {'default': 3}}, ['query']),
        (free, 'free', {'query': STRING}, ['query']),
        (Finder().look, 'look', {'query': STRING}, ['query']),
        (Finder(), 'Finder', {'query': STRING}, ['query']),
        (functools.partial(sphinx, limit=3), 'sphinx', {'query': SPHINX_QUERY}, ['query']),
        (functools.partial(functools.partial(sphinx, limit=3), query='x'), 'sphinx', {}, []),
        (
            functools.partial(sphinx, 'x'),
            'sphinx',
            {'limit': {'type': 'integer', 'description': 'How many.'}},
            ['limit'],
        ),
        (lambda: None, None, None, None),
    ],
)
def test_callables_of_all_kinds(
    function: Any, name: str | None, properties: dict[str, Any] | None, required: list[str] | None
) -> None:
    if name is None:
        with pytest.raises(ModuleError, match='is not a valid tool name'):
            tool_schema(function)
        return
    found = tool_schema(function)['function']
    assert found['name'] == name
    assert properties is None or found['parameters']['properties'] == properties
    assert found['parameters']['required'] == required


@pytest.mark.parametrize('function', [functools.partial(search, key='secret'), functools.partial(free, key='secret')])
def test_what_is_bound_is_neither_told_nor_taken(function: Any) -> None:
    tool = Tool(function)
    assert 'key' not in tool.schema['function']['parameters']['properties']
    assert 'secret' not in str(tool.schema)
    assert tool.arguments({'query': 'x'}) == {'query': 'x'}
    with pytest.raises(BadValueError, match="unknown parameter 'key'; known: query"):
        tool.arguments({'query': 'x', 'key': 'mine'})


def test_what_cannot_be_a_tool() -> None:
    def placed(x: int, /) -> None: ...

    def unknown(x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for function, sentence in ((placed, 'positional-only'), (unknown, 'unsupported type hint'), (3, 'Python function')):
        with pytest.raises(ModuleError, match=sentence):
            tool_schema(function)  # type: ignore[arg-type]


def test_free_parameters_take_what_is_named() -> None:
    assert tool_schema(free)['function']['parameters']['additionalProperties'] is True
    assert Tool(free).arguments({'query': 'x', 'other': 1}) == {'query': 'x', 'other': 1}


@pytest.mark.parametrize(
    ('text', 'left', 'names'),
    [
        ('<tool_call>{"name": "add", "arguments": {"x": 1}}</tool_call>', '', ['add']),
        ('Well.\n<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call>', 'Well.', ['add']),
        ('<tool_call>{"name": "a"}</tool_call><tool_call>{"name": "b"}</tool_call>', '', ['a', 'b']),
        ('<tool_call>[{"name": "a"}, {"name": "b", "arguments": "{}"}]</tool_call>', '', ['a', 'b']),
        ('<tool_call>{"name": "add"}', '', ['add']),
        ('[TOOL_CALLS] [{"name": "add", "arguments": {}}]', '', ['add']),
        ('{"name": "add", "parameters": {"x": 1}}', '', ['add']),
        ('```json\n{"name": "add", "arguments": {}}\n```', '', ['add']),
        ('<|python_tag|>{"name": "add", "parameters": {}}', '', ['add']),
        ('{"type": "function", "function": {"name": "add", "arguments": {}}}', '', ['add']),
        (
            '<tool_call>{"name": "a"}</tool_call><tool_call>{"name": b}</tool_call>',
            '<tool_call>{"name": b}</tool_call>',
            ['a'],
        ),
        ('[TOOL_CALLS] [{"name": "a"}, 3]', '[TOOL_CALLS] [{"name": "a"}, 3]', []),
        ('[{"name": "add"}, 3]', '[{"name": "add"}, 3]', []),
        ('[' * 100_000, '[' * 100_000, []),
        ('<tool_call>' + '{"a":' * 100_000, '<tool_call>' + '{"a":' * 100_000, []),
        ('{"name": "Ada", "age": 36}', '{"name": "Ada", "age": 36}', []),
        ('<tool_call>add(1)</tool_call>', '<tool_call>add(1)</tool_call>', []),
        ('[1, 2]', '[1, 2]', []),
        ('plain', 'plain', []),
        ('', '', []),
    ],
)
def test_calls_in_texts(text: str, left: str, names: list[str]) -> None:
    said, calls = calls_in(text, ['add', 'a', 'b'])
    assert (said, [call['function']['name'] for call in calls]) == (left, names)


@given(st.text(), st.sampled_from(['add', 'b']))
def test_texts_without_calls_are_left_alone(text: str, name: str) -> None:
    said, calls = calls_in(text, [name])
    assert calls or said == text


CALLS = [
    '<tool_call>{"name": "add", "arguments": {"x": 1}}</tool_call>',
    '<tool_call>add(1)</tool_call>',
    '[TOOL_CALLS][{"name": "add", "arguments": {"x": 1}}]',
    '{"name": "add", "arguments": {"x": 1}}',
    '```json\n{"name": "add", "arguments": {"x": 1}}\n```',
    '<|python_tag|>{"name": "add", "parameters": {"x": 1}}',
]


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:stop] for start, stop in itertools.pairwise(places)]


@given(
    st.sampled_from(['', ' ', '<think>', '\n<think>two', '<thin', '<']),
    st.text(alphabet='ab<>/think \n', max_size=20),
    st.sampled_from(['', '</think>', '</think>\n\n']),
    st.text(max_size=20),
    st.lists(st.integers(0, 80), max_size=12),
)
def test_pieces_join_to_the_answer_without_its_thoughts(
    opening: str, thought: str, closing: str, answer: str, cuts: list[int]
) -> None:
    text = f'{opening}{thought}{closing}{answer}'
    whole = split_reasoning(text).answer
    told: list[str] = []
    teller = AnswerFilter(told.append)
    for piece in pieces_of(text, cuts):
        teller.take(piece)
    teller.finish(Reply(whole))
    # An end of thinking without its beginning is known too late: its thoughts were told already.
    if '</think>' not in text or text.lstrip().startswith('<think>'):
        assert ''.join(told) == whole


@given(
    st.sampled_from(['', ' ', '\n', 'Let me see.', 'a < b ', '[1] is ', '```python\nx\n``` ']),
    st.text(alphabet='ab<[_tol \n', max_size=12),
    st.lists(st.sampled_from(CALLS), max_size=2).map(''.join),
    st.sampled_from(['', ' ', 'done']),
    st.lists(st.integers(0, 120), max_size=12),
)
def test_pieces_join_to_the_answer_without_its_calls(
    opening: str, text: str, calls: str, rest: str, cuts: list[int]
) -> None:
    written = f'{opening}{text}{calls}{rest}'
    answer, _ = calls_in(written, ['add'])
    pieces: list[str] = []
    passing = CallFilter(pieces.append)
    for piece in pieces_of(written, cuts):
        passing.take(piece)
    passing.finish(answer)
    assert ''.join(pieces) == answer


def test_text_with_tools_is_passed_on_as_it_is_written() -> None:
    for text in ('The sum of two and two is four.', '```python\nprint(4)\n```', 'a < b and [x]'):
        pieces: list[str] = []
        passing = CallFilter(pieces.append)
        for character in text:
            passing.take(character)
        assert ''.join(pieces) == text
        assert len(pieces) > 3


class Alphabet:
    """A vocabulary of bytes; 255 ends an answer, 254 is a control token."""

    ends = (255,)

    def is_control(self, number: int) -> bool:
        return number == 254

    def bytes_of(self, number: int) -> bytes:
        return bytes([number])


@given(st.text(alphabet='ab你END\n', max_size=30), st.lists(st.sampled_from(['END', 'ENN', 'b\n', '你a']), max_size=3))
def test_what_may_be_a_stop_is_kept_back(text: str, stops: list[str]) -> None:
    told: list[str] = []
    vocabulary: Any = Alphabet()
    writing = GrowingAnswer(vocabulary, LlamaDecoding(100, stops=tuple(stops)), room=100, on_text=told.append)
    for number in (*text.encode(), 254, 255):
        if not writing.ended:
            writing.add(number)
    assert writing.text.startswith(''.join(told))
    ends = [place for stop in stops if (place := text.find(stop)) >= 0]
    # What follows the first stop to be complete is never told; what could begin a stop waits for the end.
    assert text.startswith(''.join(told))
    if ends:
        first = min(text.find(stop) + len(stop) for stop in stops if stop in text)
        assert len(''.join(told)) <= first
        assert not any(stop in ''.join(told) for stop in stops)
    elif not any(text.endswith(stop[:length]) for stop in stops for length in range(1, len(stop))):
        assert ''.join(told) == text


@dataclass
class Positive:
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError('negative')


@dataclass
class Adder:
    """Adds something."""

    n: str

    def __call__(self, x: int) -> int:
        return x + int(self.n)


class Speechless(Exception):  # noqa: N818  # it cannot even say its name
    def __str__(self) -> str:
        raise ValueError('no words')


def speechless() -> None:
    raise Speechless


def leaving() -> None:
    sys.exit(3)


async def leaving_later() -> None:
    sys.exit(3)


def interrupted() -> None:
    raise KeyboardInterrupt


def cancelled() -> None:
    raise asyncio.CancelledError


@dataclass
class Final:
    n: int

    def __post_init__(self) -> None:
        sys.exit(self.n)


def final(x: Final) -> None: ...


def first_word(word: str) -> str:
    return next(known for known in ['a'] if known == word)


async def later(word: str) -> str:
    raise StopAsyncIteration(word)


def whole(x: int) -> int:
    return x


def positive(x: Positive) -> int:
    return x.n


def several(x: set[list[int]]) -> int:
    return len(x)


@pytest.mark.parametrize(
    ('function', 'arguments', 'told'),
    [
        (first_word, {'word': 'z'}, 'Error: StopIteration: '),
        (later, {'word': 'z'}, 'Error: StopAsyncIteration: z'),
        (whole, {'x': float('inf')}, 'Error: x must be integer, got inf.'),
        (whole, {'x': float('nan')}, 'Error: x must be integer, got nan.'),
        (positive, {'x': {'n': -1}}, 'Error: x: negative.'),
        (several, {'x': [[1]]}, "Error: TypeError: unhashable type: 'list'"),
        (Adder('1'), {'x': 'foo'}, "Error: x must be integer, got 'foo'."),
        (Adder('1'), {'x': 2}, '3'),
        (leaving, {}, 'Error: SystemExit: 3'),
        (leaving_later, {}, 'Error: SystemExit: 3'),
        (final, {'x': {'n': 4}}, 'Error: SystemExit: 4'),
        (interrupted, {}, 'Error: KeyboardInterrupt: '),
        (cancelled, {}, 'Error: CancelledError: '),
        (speechless, {}, 'Error: Speechless'),
    ],
)
def test_whatever_a_tool_does_the_model_is_told(function: Any, arguments: Any, told: str) -> None:
    toolbox = Toolbox([function], max_rounds=1)
    [name] = [schema['function']['name'] for schema in toolbox.schemas]
    call = {'id': '1', 'function': {'name': name, 'arguments': arguments}}
    [result] = asyncio.run(asyncio.wait_for(run_calls(toolbox, [call]), 60))
    assert result.text == told


def unparsable(x: 'list[int') -> None: ...  # type: ignore[syntax]  # noqa: F722


def unresolved(x: 'Unit.Kelvin') -> None: ...  # type: ignore[name-defined]  # noqa: UP037


@pytest.mark.parametrize('function', [unparsable, unresolved])
def test_a_hint_that_cannot_be_understood_is_told_when_the_tool_is_described(function: Any) -> None:
    with pytest.raises(ModuleError, match='an unsupported type hint'):
        tool_schema(function)


# The loop that all modules share


async def leave() -> None:
    sys.exit('bye')


async def stop_the_loop() -> None:
    asyncio.get_running_loop().stop()


async def one() -> int:
    return 1


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """What some work gives or raises, unless it hangs."""
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done.result(seconds)


def test_work_that_ends_a_program_ends_neither_the_loop_nor_hangs() -> None:
    before = background._running
    with pytest.raises(SystemExit, match='bye'):
        within(60, lambda: background.result_of(leave()))
    assert within(60, lambda: background.result_of(one())) == 1
    assert before is None or background._running is before


def test_a_loop_that_has_ended_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, '_running', None)
    loops = []
    for _ in range(2):
        assert within(60, lambda: background.result_of(one())) == 1
        assert background._running is not None
        loops.append(background._running)
        background.submit(stop_the_loop())
        loops[-1].thread.join(60)
        loops[-1].loop.close()
    assert loops[0] is not loops[1]


def test_work_beside_the_loop_may_wait_for_any_number_of_others() -> None:
    def nested(depth: int) -> int:
        async def level() -> int:
            return await background.run_in_thread(lambda: nested(depth - 1))

        return 0 if depth == 0 else 1 + background.result_of(level())

    assert within(60, lambda: nested(64)) == 64


# -- tools that misbehave ------------------------------------------------------------------------------------------------


async def run_calls(toolbox: Toolbox, calls: Sequence[Mapping[str, Any]]) -> list[ToolResult]:
    return list(await asyncio.gather(*toolbox.start(Reply('', tool_calls=tuple(calls)), home=None)))


def wait(seconds: float = 5) -> str:
    time.sleep(seconds)
    return 'done'


async def await_forever() -> str:
    await asyncio.Event().wait()
    return 'never'


@pytest.mark.parametrize('function', [wait, await_forever])
def test_a_tool_that_never_returns_is_given_up_and_both_sides_are_told(function: Any) -> None:
    toolbox = Toolbox([function], max_rounds=1, timeout=0.05)
    call = {'id': '1', 'function': {'name': function.__name__, 'arguments': {}}}
    [(text, error)] = asyncio.run(asyncio.wait_for(run_calls(toolbox, [call]), 60))
    assert text == f'Error: the tool {function.__name__} did not return within 0.05 s; it may have taken effect.'
    assert isinstance(error, TimeoutError)
    assert 'did not return within 0.05 s' in str(error)


@pytest.mark.parametrize('timeout', [0, -1, 'long', True, float('nan')])
def test_a_time_limit_of_tools_is_a_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(ModuleError, match='timeout must be a number of seconds'):
        Toolbox([wait], max_rounds=1, timeout=timeout)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    'arguments', [{'x': nested(200)}, '[' * 300 + ']' * 300, '[' * 100_000], ids=('values', 'text', 'open')
)
def test_deep_arguments_are_refused_before_the_tool_runs(arguments: Any) -> None:
    def take(x: Any = None) -> str:
        raise AssertionError('it ran')

    call = {'id': '1', 'function': {'name': 'take', 'arguments': arguments}}
    [(text, _)] = asyncio.run(run_calls(Toolbox([take], max_rounds=1), [call]))
    assert text == 'Error: the arguments are nested too deeply.'


def test_deep_arguments_in_a_text_reach_the_tool_as_text_that_it_refuses() -> None:
    deep = '[' * 200 + ']' * 200
    _, [call] = calls_in(f'<tool_call>{{"name": "take", "arguments": {{"x": {deep}}}}}</tool_call>', ['take'])
    assert isinstance(call['function']['arguments'], str)
    assert calls_in(f'<tool_call>{"[" * 100_000}</tool_call>', ['take'])[1] == ()


def test_a_reply_with_countless_calls_runs_a_bounded_number_of_them() -> None:
    ran: list[int] = []

    def note(x: int) -> str:
        ran.append(x)
        return 'ok'

    calls = [{'id': str(i), 'function': {'name': 'note', 'arguments': {'x': i}}} for i in range(300)]
    results = asyncio.run(run_calls(Toolbox([note], max_rounds=1), calls))
    assert len(results) == 300
    assert len(ran) == 128
    assert 'too many calls' in results[-1].text


# Values of tools


class Address(pydantic.BaseModel):
    street: str


class Person(pydantic.BaseModel):
    name: str
    address: Address
    friends: list[Person] = []


@dataclass
class Order:
    number: int
    buyer: Person
    at: datetime.date = datetime.date(2026, 1, 31)


def take_order(order: Order, others: list[Person], best: Person | None = None) -> Order:
    """Take an order."""
    assert isinstance(order.buyer, Person)
    assert isinstance(others[0].address, Address)
    return order


def run_tool(function: Any, arguments: Any) -> tuple[str, BaseException | None]:
    toolbox = Toolbox([function], max_rounds=1)
    [name] = [schema['function']['name'] for schema in toolbox.schemas]
    call = {'id': '1', 'function': {'name': name, 'arguments': arguments}}
    [result] = asyncio.run(run_calls(toolbox, [call]))
    return result


def test_pydantic_and_dataclass_parameters_and_results() -> None:
    ada = {'name': 'Ada', 'address': {'street': 'Main'}, 'friends': []}
    text, error = run_tool(take_order, {'order': {'number': 1, 'buyer': ada}, 'others': [ada]})
    assert error is None
    assert json.loads(text) == {'number': 1, 'buyer': ada, 'at': '2026-01-31'}
    parameters = tool_schema(take_order)['function']['parameters']
    jsonschema = pytest.importorskip('jsonschema')
    jsonschema.validate({'order': {'number': 1, 'buyer': ada}, 'others': [ada]}, parameters)  # every $ref resolves
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({'order': {'number': 1, 'buyer': {'name': 'Ada'}}, 'others': []}, parameters)
    text, error = run_tool(take_order, {'order': {'number': 1, 'buyer': {'name': 'Ada'}}, 'others': []})
    assert text == 'Error: order.buyer.address: Field required.'
    assert isinstance(error, ValueError)


def test_models_of_one_name_keep_their_own_definitions() -> None:
    other = pydantic.create_model('Address', zip_code=(int, ...))
    outer = pydantic.create_model('Outer', home=(other, ...))

    def move(old: Person, new: Any) -> str:
        return ''

    move.__annotations__ = {'old': Person, 'new': outer}
    definitions = tool_schema(move)['function']['parameters']['$defs']
    assert set(definitions) == {'Address', 'Person', 'Address2'}
    assert 'street' in definitions['Address']['properties']
    assert 'zip_code' in definitions['Address2']['properties']


def test_a_tool_with_a_schema_of_its_own() -> None:
    schema = {
        'name': 'set_light',
        'description': 'Switch a light.',
        'parameters': {
            'type': 'object',
            'properties': {'room-name': {'type': 'string'}, 'level': {'enum': [0, 1]}},
            'required': ['room-name'],
            'additionalProperties': False,
        },
    }
    tool = Tool(lambda **given: sorted(given.items()), schema=schema)
    assert tool_schema(tool) == {'type': 'function', 'function': schema}
    assert run_tool(tool, {'room-name': 'hall', 'level': 1})[0] == '[["level", 1], ["room-name", "hall"]]'
    assert run_tool(tool, {'level': 1})[0] == "Error: the input lacks 'room-name'."
    assert run_tool(tool, {'room-name': 'hall', 'level': 7})[0] == 'Error: the input.level must be one of 0, 1; got 7.'
    for wrong in ({'description': 'no name'}, 'text', {'name': 'x', 'parameters': {'type': 'string'}}):
        with pytest.raises(ModuleError, match='the schema of a tool|must be a JSON Schema'):
            Tool(print, schema=wrong)  # type: ignore[arg-type]
