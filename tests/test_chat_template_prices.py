"""What operations of chat templates cost: the same on every machine, so that a template stops at the same place.

A price is an upper bound that grows with what is touched. It may be changed, on purpose and here.
"""

from __future__ import annotations

from typing import Any

import pytest
from jinja2.utils import Namespace
from markupsafe import Markup

from rolecall.core.render import chat_program
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.metering import MAX_BITS, WorkExceededError, WorkMeter, breadth_of, measure, size_of
from rolecall.core.render.pricing import charge_filter, charge_method, charge_operator
from rolecall.errors import RenderError
from tables import in_one

PLENTY = 10**9
MESSAGES = [{'role': 'user', 'content': 'Hi you'}, {'role': 'assistant', 'content': 'Ho'}]

# value, method, arguments, named arguments, characters, steps
METHODS: list[Any] = [
    ('abcd', 'upper', (), {}, 4, 2),
    ('abcd', 'find', ('bc',), {}, 7, 2),
    ('a' * 40000, 'find', ('b' * 90,), {}, 40090, 628),
    ('abcd' * 100, 'count', ('b' * 200,), {}, 5600, 89),
    ([1, 2], 'count', (2,), {}, 87, 7),
    ([1, 2], 'index', ('ab',), {}, 87, 7),
    ('abcd' * 4, 'rfind', ('bcd',), {}, 25, 2),
    (
        'abcd',
        'rindex',
        (
            'd',
            1,
        ),
        {},
        6,
        2,
    ),
    ('abcd', 'rpartition', ('d',), {}, 5, 2),
    ('a,b,c', 'split', (',',), {}, 198, 5),
    ('a b', 'split', (), {}, 128, 4),
    (
        'a,b,c',
        'rsplit',
        (
            ',',
            1,
        ),
        {},
        204,
        5,
    ),
    ('a b', 'rsplit', (), {}, 128, 4),
    ('a\nb', 'splitlines', (), {}, 128, 4),
    ('xxaxx', 'strip', (), {}, 5, 2),
    ('xxaxx', 'strip', ('x' * 64,), {}, 25, 2),
    (b'xx', 'strip', (b'x' * 32,), {}, 6, 2),
    (
        'aXbX',
        'replace',
        (
            'X',
            'yy',
        ),
        {},
        9,
        2,
    ),
    (
        'ab',
        'replace',
        (
            '',
            'yy',
        ),
        {},
        8,
        2,
    ),
    (
        b'aXb',
        'replace',
        (
            b'X',
            b'yy',
        ),
        {},
        12,
        2,
    ),
    (',', 'join', (['a', 'bc'],), {}, 30, 6),
    (Markup(','), 'join', (['a', 'bc'],), {}, 180, 8),
    ('a', 'center', (100,), {}, 100, 3),
    ('abc', 'ljust', (2,), {}, 3, 2),
    ('ab', 'encode', (), {}, 8, 2),
    (
        'ab',
        'encode',
        (
            'ascii',
            'namereplace',
        ),
        {},
        200,
        5,
    ),
    ('ab', 'encode', (), {'errors': 'replace'}, 8, 2),
    (b'ab', 'decode', ('latin-1',), {}, 8, 2),
    ({'a': 1}, 'get', ('a',), {}, 1, 2),
    ({'a': 1}, 'items', (), {}, 0, 2),
    ([1, 2, 3], 'copy', (), {}, 24, 2),
    ('abc', 'startswith', (('a', 'bc'),), {}, 27, 6),
    ('a\tb', 'expandtabs', (8,), {}, 63, 2),
    ('ab', 'translate', ({97: 'xyz'},), {}, 155, 8),
    (Markup('<b>'), 'striptags', (), {}, 199, 5),
    ('ab', 'partition', ('b',), {}, 3, 2),
    (
        5,
        'to_bytes',
        (
            10,
            'big',
        ),
        {},
        70,
        3,
    ),
    ('abc', 'expandtabs', (), {'tabsize': 8}, 63, 2),
]

# filter, arguments, named arguments, characters, steps
FILTERS = [
    ('upper', ('abc',), {}, 3, 2),
    ('length', ('abc',), {}, 0, 2),
    ('list', ('abc',), {}, 192, 5),
    ('list', ([1, 2],), {}, 16, 2),
    ('title', ('abc',), {}, 48, 2),
    ('urlize', ('abcdefgh',), {}, 533, 10),
    ('e', ('<<',), {}, 12, 2),
    ('trim', (' a ',), {}, 3, 2),
    (
        'trim',
        (
            ' a ',
            ' ' * 32,
        ),
        {},
        9,
        2,
    ),
    ('trim', (' a ',), {'chars': ' ' * 32}, 9, 2),
    ('int', ('123',), {}, 3, 2),
    (
        'int',
        (
            'ff',
            0,
            16,
        ),
        {},
        2,
        2,
    ),
    ('int', ('ff',), {'base': 16}, 2, 2),
    ('float', ('1.5',), {}, 3, 2),
    (
        'round',
        (
            2.5,
            3,
        ),
        {},
        193,
        5,
    ),
    ('round', (2.5,), {'precision': 3}, 193, 5),
    (
        'replace',
        (
            'aXb',
            'X',
            'yy',
        ),
        {},
        6,
        2,
    ),
    (
        'join',
        (
            ['a', 'b'],
            ', ',
        ),
        {},
        32,
        6,
    ),
    ('join', (['a', 'b'],), {}, 26, 6),
    (
        'join',
        (
            [{'x': 1}],
            ',',
            'x',
        ),
        {},
        37,
        8,
    ),
    ('join', (['a', 'b'],), {'d': ','}, 58, 6),
    (
        'center',
        (
            'a',
            50,
        ),
        {},
        50,
        2,
    ),
    ('center', ('a',), {'width': 50}, 50, 2),
    ('sum', ([1, 2, 3],), {}, 35, 8),
    ('sum', ([[1], [2]],), {'start': [0]}, 150, 12),
    (
        'sum',
        (
            [{'a': 1}],
            'a',
            0.5,
        ),
        {},
        50,
        8,
    ),
    (
        'indent',
        (
            'a\nb',
            3,
        ),
        {},
        12,
        2,
    ),
    (
        'indent',
        (
            [1],
            3,
        ),
        {},
        71,
        5,
    ),
    (
        'format',
        (
            '%s-%5d',
            'ab',
            3,
        ),
        {},
        36,
        4,
    ),
    ('format', ('%(a)s',), {'a': 'xyz'}, 16, 4),
    (
        'batch',
        (
            [1, 2, 3],
            2,
        ),
        {},
        117,
        9,
    ),
    (
        'default',
        (
            'abc',
            'd',
        ),
        {},
        0,
        2,
    ),
    ('pprint', ([1, 2],), {}, 1735, 41),
]

# operator, left, right, characters, steps
OPERATORS = [
    ('+', 1, 2, 0, 2),
    ('*', 2**3000, 2**3000, 0, 41),
    ('**', 3, 4, 0, 2),
    ('+', 'ab', 'c', 24, 2),
    ('*', 'ab', 5, 80, 3),
    ('*', 5, [1, 2], 80, 3),
    ('*', 'ab', -5, 0, 2),
    ('%', '%s %s', ('ab', 'c'), 14, 2),
    ('%', '%5d', 1, 15, 2),
    ('%', '%*d', (7, 1), 25, 2),
    ('%', Markup('%s'), '<', 24, 2),
    ('%', b'%s', b'ab', 9, 2),
    ('-', 1.5, 2, 16, 2),
    ('%', 7.5, 2, 16, 2),
    ('//', 2**900, 2**600, 0, 4),
]

# value, size, breadth, steps to measure it
SIZES = [
    ('four', 4, 4, 0),
    (b'ab', 2, 2, 0),
    (5, 2, 2, 0),
    (2**300, 101, 101, 0),
    (1.5, 1, 1, 0),
    (None, 1, 1, 0),
    (True, 1, 1, 0),
    (range(5), 40, 5, 10),
    ([], 8, 0, 0),
    (['ab', 1], 27, 2, 4),
    ({'a': [1, 'xy']}, 44, 1, 8),
    ((1, (2, 'a')), 43, 2, 8),
    (Namespace(a='xyz'), 28, 1, 4),
    ({1, 2}, 26, 2, 4),
    ([range(3), None, 2.5], 37, 3, 6),
]

# template, text, steps, characters
TEMPLATES = [
    ('{{ messages[0].content }}', 'Hi you', 1, 6),
    ('{% for m in messages %}[{{ m.role }}]{% endfor %}', '[user][assistant]', 4, 17),
    ("{{ 'a' + 'b' + messages[0].role }}", 'abuser', 1, 6),
    ('{{ [1] + [2] }}', '[1, 2]', 0, 0),
    ("{{ messages[0].content ~ '!' }}", 'Hi you!', 2, 13),
    ("{{ messages[0]['content'][1:] }}", 'i you', 3, 11),
    ("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(1) }}{{ m('xy') }}", '<1><xy>', 22, 30),
    ('{% if messages[0].role == messages[1].role %}x{% endif %}', '', 2, 0),
    ("{% if 'user' in messages[0].role %}x{% endif %}", 'x', 1, 0),
    ("{% if messages[0].role in ['user', 'x'] %}x{% endif %}", 'x', 0, 0),
    ('{% if messages[0].role in messages %}x{% endif %}', '', 24, 0),
    ('{% if 5 in [1, messages] %}x{% endif %}', '', 2, 0),
    ("{{ {'a' ~ 1: 2}['a1'] }}", '2', 0, 0),
    ('{% for i in range(3) if i is odd %}{{ i }}{% endfor %}', '1', 19, 9),
    ('{{ 10 is divisibleby 5 }}', 'True', 0, 0),
    ("{{ messages|map(attribute='role')|join(',') }}", 'user,assistant', 33, 102),
    ("{{ messages|map('length')|list }}", '[2, 2]', 37, 90),
    ("{{ messages|selectattr('role', 'eq', 'user')|list|length }}", '1', 29, 41),
    ("{{ messages|sort(attribute='role.x')|length if false }}", '', 1, 1),
    ("{{ [{'a': {'b': 1}}]|map(attribute='a.b')|list }}", '[1]', 27, 49),
    ("{{ [{'a': {'b': 1}}]|sort(attribute='a.b') }}", "[{'a': {'b': 1}}]", 0, 0),
    (
        '{{ messages|tojson }}',
        '[{"role": "user", "content": "Hi you"}, {"role": "assistant", "content": "Ho"}]',
        41,
        261,
    ),
    (
        '{{ messages|tojson(indent=2) }}',
        '[\n  {\n    "role": "user",\n    "content": "Hi you"\n  },\n  {\n    "role": "assistant",\n    "content": "Ho"\n  }\n]',
        42,
        325,
    ),
    (
        "{{ messages|tojson(separators=(',', ':')) }}",
        '[{"role":"user","content":"Hi you"},{"role":"assistant","content":"Ho"}]',
        52,
        679,
    ),
    ('{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{{ ns }}', "<Namespace {'a': 2}>", 15, 42),
    ('{{ dict([(1, 2)], a=3) }}', "{1: 2, 'a': 3}", 25, 102),
    ("{{ '{:>5}|{!r}'.format(1, 'a') }}", "    1|'a'", 35, 50),
    ("{{ ('{}'|safe).format('<') }}", '&lt;', 25, 20),
    ("{{ ('<'|safe) ~ '<' }}", '<<', 0, 0),
    ("{% autoescape true %}{{ '<' * 3 }}{{ '<' ~ 1 }}{% endautoescape %}", '&lt;&lt;&lt;&lt;1', 4, 42),
    ("{% for m in messages %}{{ loop.changed(m.role) }}{{ loop.cycle('a', 'b') }}{% endfor %}", 'TrueaTrueb', 16, 21),
    ('{{ cycler(1, 2).next() }}', '1', 17, 17),
    ('{% block b %}x{% endblock %}', 'x', 1, 1),
    ('{{ range(4)|batch(2)|list }}', '[[0, 1], [2, 3]]', 42, 227),
    ("{{ ' ab '|trim|upper }}", 'AB', 0, 0),
    ("{{ 'a,b'.split(',')|list }}", "['a', 'b']", 11, 174),
    ('{{ -(3) + 4 * 2 }}', '5', 5, 2),
    ('{% generation %}{{ messages[1].content }}{% endgeneration %}', 'Ho', 1, 2),
    (
        '{% for m in messages %}{% for n in messages %}{{ n.role }}{% endfor %}{% endfor %}',
        'userassistantuserassistant',
        26,
        26,
    ),
    ("{{ 'abc'|replace('b', 'xx') }}", 'axxc', 0, 0),
    ('{% set x = messages[0].content is string and 3 is even %}{{ x }}', 'False', 1, 1),
    ('{{ messages[0].role + messages[0].content }}', 'userHi you', 1, 10),
    ('{{ ([1] + messages)[:1] }}', '[1]', 7, 65),
    ("{{ (messages[0].role + 'x')[1:] }}", 'serx', 4, 14),
    (
        "{% autoescape true %}{{ messages[0].role + '<' }}{{ messages[0].role + '<' ~ 1 }}{% endautoescape %}",
        'user&lt;user&lt;1',
        6,
        77,
    ),
    ("{{ ([messages[0].role] + ['x']) ~ '' }}", "['user', 'x']", 8, 58),
    ("{% if messages[0].role + 'x' == messages[1].role %}x{% endif %}", '', 2, 5),
    ("{{ messages[0].role < messages[1].role < 'zz' }}", 'False', 2, 0),
    ("{{ 'x' not in messages[0].content }}", 'True', 1, 0),
    ("{{ messages[0].role not in ('a', messages[1].role) }}", 'True', 6, 0),
    ("{{ 'a' in 'b' < messages[0].role }}", 'False', 0, 0),
    ("{{ {messages[0].role + 'x': 1}[messages[0].role + 'x'] }}", '1', 3, 11),
    ('{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}x{{ 1 + 1 }}{% endcall %}', '[x2]', 19, 13),
    ('{% for x in [1, [2]] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}', '12', 17, 19),
    ("{% for m in messages if m.role == 'user' %}{{ m.content }}{% else %}none{% endfor %}", 'Hi you', 4, 6),
    ('{{ messages|length + 1 - 2 }}', '1', 7, 1),
    ("{{ [messages[0].role, 'b']|join('-') }}", 'user-b', 7, 38),
    ('{{ (messages[0].role ~ 1) ~ (messages[0].role ~ 2) }}', 'user1user2', 5, 28),
    ("{{ messages[0].content is in(['a', messages[0].content]) }}", 'True', 5, 0),
    ('{{ messages[0].content is eq(messages[1].content) }}', 'False', 1, 0),
    ("{{ messages|map(attribute='role')|map('upper')|first }}", 'USER', 29, 40),
    ("{{ messages|groupby('role')|length }}", '2', 27, 136),
    ('{% for a in range(2) %}{% for b in range(2) if b %}{{ a }}{% endfor %}{% endfor %}', '01', 50, 42),
    ('{{ messages[0]|items|list }}', "[('role', 'user'), ('content', 'Hi you')]", 26, 125),
    ("{{ ('a' * 70)[::2] }}", 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 14, 665),
    ("{{ messages[0].content.replace('i', 'o').upper().split(' ')|last }}", 'YOU', 11, 155),
    ("{{ '%s-%03d' % ('a', 7) }}", 'a-007', 3, 30),
    ("{{ '%s'|format('a') }}", 'a', 0, 0),
    ('{{ [3, 1]|sort|sum }}', '4', 0, 0),
    ("{{ namespace({'a': 1}).a }}", '1', 15, 35),
    ('{{ 7 // 2 * 1.5 }}', '4.5', 5, 25),
    ("{{ 'ab' * 3 ~ [1] * 2 }}", 'ababab[1, 1]', 11, 108),
    ("{{ ('a' * 640) is eq('b') }}", 'False', 93, 5120),
    ("{{ ('a' * 640) is in(['b' * 640]) }}", 'False', 187, 10240),
]


def spent(meter: WorkMeter) -> tuple[int, int]:
    return meter.max_chars - meter.chars, meter.max_steps - meter.steps_left


def named(rows: list[Any]) -> list[Any]:
    return [pytest.param(*row, id=f'{row[1] if row[0] is not row[1] else ""}-{i}') for i, row in enumerate(rows)]


@in_one
@pytest.mark.parametrize(('value', 'name', 'args', 'kwargs', 'chars', 'steps'), named(METHODS))
def test_a_method_costs(value: Any, name: str, args: Any, kwargs: Any, chars: int, steps: int) -> None:
    meter = WorkMeter(PLENTY, PLENTY)
    with meter:
        charge_method(value, name, args, kwargs)
    assert spent(meter) == (chars, steps)


@in_one
@pytest.mark.parametrize(('name', 'args', 'kwargs', 'chars', 'steps'), FILTERS)
def test_a_filter_costs(name: str, args: Any, kwargs: Any, chars: int, steps: int) -> None:
    meter = WorkMeter(PLENTY, PLENTY)
    with meter:
        charge_filter(name, args, kwargs)
    assert spent(meter) == (chars, steps)


@in_one
@pytest.mark.parametrize(('symbol', 'left', 'right', 'chars', 'steps'), OPERATORS)
def test_an_operator_costs(symbol: str, left: Any, right: Any, chars: int, steps: int) -> None:
    meter = WorkMeter(PLENTY, PLENTY)
    with meter:
        charge_operator(symbol, left, right)
    assert spent(meter) == (chars, steps)


@in_one
@pytest.mark.parametrize(('value', 'size', 'breadth', 'steps'), SIZES)
def test_a_value_measures(value: Any, size: int, breadth: int, steps: int) -> None:
    meter = WorkMeter(PLENTY, PLENTY)
    with meter:
        assert (size_of(value), breadth_of(value)) == (size, breadth)
    assert spent(meter) == (0, steps)


def test_depth_is_measured_and_bounded() -> None:
    deep: Any = 'x'
    with WorkMeter(PLENTY, PLENTY):
        assert [measure(value)[1] for value in ('x', [], [1], [[1], {'a': (2,)}])] == [0, 1, 1, 3]
        for _ in range(100):
            deep = [deep]
        assert measure(deep)[1] == 100
        with pytest.raises(WorkExceededError, match='more than 100 deep'):
            measure([deep])


@pytest.mark.parametrize(('source', 'text', 'steps', 'chars'), TEMPLATES)
def test_a_template_takes(monkeypatch: pytest.MonkeyPatch, source: str, text: str, steps: int, chars: int) -> None:
    template, meters = ChatTemplate(source), []

    class Kept(WorkMeter):
        __slots__ = ()

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            meters.append(self)

    monkeypatch.setattr(chat_program, 'WorkMeter', Kept)
    assert template.render(MESSAGES) == text
    assert [spent(meter) for meter in meters] == [(chars, steps)]


@in_one
@pytest.mark.parametrize(
    ('source', 'steps', 'chars'), [('{{ messages[0].content }}', 1, 6), ("{{ messages|map('length')|list }}", 37, 90)]
)
def test_exactly_what_is_needed_is_enough(source: str, steps: int, chars: int) -> None:
    assert ChatTemplate(source, max_steps=steps, max_chars=chars).render(MESSAGES)
    with pytest.raises(RenderError, match=f'more than {steps - 1:,} steps'):
        ChatTemplate(source, max_steps=steps - 1, max_chars=chars).render(MESSAGES)
    with pytest.raises(RenderError, match=f'more than {chars - 1:,} characters'):
        ChatTemplate(source, max_steps=steps, max_chars=chars - 1).render(MESSAGES)


BITS: dict[str, Any] = {'x': 2**MAX_BITS - 1, 'n': MAX_BITS}


@in_one
@pytest.mark.parametrize('value', ['x', 'x + 0', 'x - 1', '-x', "('1' * n)|int(0, 2)", '2 ** (n // 2)', 'x // 1'])
def test_a_number_may_have_so_many_bits(value: str) -> None:
    assert ChatTemplate('{{ (' + value + ') is number }}').render(MESSAGES, variables=BITS) == 'True'


@in_one
@pytest.mark.parametrize(
    'value', ['x + 1', 'x * 2', '-x - 1', '[x, x]|sum', "('1' * (n + 1))|int(0, 2)", '2 ** n', '(x + 1) // 2']
)
def test_a_number_may_not_have_one_bit_more(value: str) -> None:
    with pytest.raises(RenderError, match='more than 4,200 digits'):
        ChatTemplate('{{ (' + value + ') is number }}').render(MESSAGES, variables=BITS)


def test_functions_may_be_compared_but_not_printed() -> None:
    source = '{{ messages.copy == strftime_now }}{{ strftime_now in [strftime_now] }}{{ strftime_now is eq(raise_exception) }}'
    assert ChatTemplate(source).render(MESSAGES) == 'FalseTrueFalse'
