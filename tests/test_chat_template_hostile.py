"""Templates written to hang, to eat the memory or to get out: each ends in a RenderError, and soon."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_template_corpus import FAMILIES
from rolecall.core.render import metering
from rolecall.core.render.chat_program import ENVIRONMENT
from rolecall.core.render.chat_template import MAX_CHARS, MAX_STEPS, ChatTemplate
from rolecall.core.render.metering import WorkExceededError, WorkMeter, spend
from rolecall.errors import RenderError

MESSAGES = [{'role': 'user', 'content': 'Hi', 'extra': {'list': [1]}}]


def repeated(value: str, start: str = "'a'") -> str:
    return '{% set ns = namespace(s=' + start + ') %}{% for i in range(99) %}{% set ns.s = ' + value + ' %}{% endfor %}'


DOUBLED = {
    'concatenation': repeated('ns.s ~ ns.s'),
    'addition': repeated('ns.s + ns.s'),
    'lists': repeated('ns.s + ns.s', '[1]'),
    'join filter': repeated('[ns.s, ns.s]|join'),
    'join method': repeated("''.join([ns.s, ns.s])"),
    'format method': repeated("'{0}{0}'.format(ns.s)"),
    'percent': repeated("'%s%s' % (ns.s, ns.s)"),
    'replace method': repeated("ns.s.replace('a', 'aa')"),
    'replace filter': repeated("ns.s|replace('a', 'aa')"),
    'escaping': '{% autoescape true %}' + repeated('ns.s ~ ns.s', "'<'") + '{% endautoescape %}',
    'macro': '{% macro d(x) %}{{ x }}{{ x }}{% endmacro %}' + repeated('d(ns.s)'),
    'block': "{% set ns = namespace(s='a') %}{% for i in range(99) %}"
    '{% set x %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = x %}{% endfor %}',
    'squares': repeated('ns.s * ns.s', '3'),
    'powers': repeated('ns.s ** ns.s', '3'),
}

# A value of sixty small lists that looks like one of 2**60 items.
FOLDED = (
    '{% set ns = namespace(x=[1], y=[1], t=(1,), n=1, d={}) %}{% for i in range(60) %}'
    '{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% set ns.t = (ns.t, ns.t) %}'
    '{% set ns.n = namespace(a=ns.n, b=ns.n) %}{% set ns.d = {1: ns.d, 2: ns.d} %}{% endfor %}'
)
UNFOLDED = [
    '{{ ns.x }}',
    '{{ ns.x|tojson }}',
    '{{ ns.x|string|length }}',
    '{{ ns.x|upper }}',
    "{{ (ns.x ~ '')|length }}",
    "{{ ('%s' % ns.x)|length }}",
    "{{ '{}'.format(ns.x)|length }}",
    '{{ [ns.x]|join|length }}',
    '{{ ns.x == ns.y }}',
    '{{ ns.x in [ns.y] }}',
    '{{ ns.x is eq ns.y }}',
    "{{ [ns.x]|select('eq', ns.y)|list|length }}",
    '{{ [ns.x].index(ns.y) }}',
    '{{ [ns.x, ns.y]|sort|length }}',
    '{% for i in [ns.x, ns.y] %}{{ loop.changed(i) }}{% endfor %}',
    '{{ {ns.t: 1}|length }}',
    '{{ {}[ns.t] }}',
    '{{ {}.get(ns.t) }}',
    '{{ ns.t in {} }}',
    '{{ [ns.t]|unique|list|length }}',
    '{{ dict([(ns.t, 1)])|length }}',
    '{{ ns.n }}',
    '{{ ns.n|upper }}',
    '{{ ns.d.values() }}',
    '{{ [ns.x] + [1] }}',
    "{{ (([ns.x] + [1]) ~ '')|length }}",
    '{{ [ns.x] + [1] == [ns.y] + [1] }}',
    '{{ ns.x + [1] in [ns.y + [1]] }}',
    '{{ {ns.t + (1,): 1}|length }}',
    '{{ {}[ns.t + (1,)] }}',
    '{{ ([ns.x] + [1])[:1] }}',
    '{{ [ns.x] * 2 }}',
    '{{ ns.x if true }}',
    '{{ none or ns.x }}',
]

ENDLESS = {
    'nested ranges': '{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}',
    'ranges that pass nothing on': '{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}',
    'macro that calls itself': '{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}',
    'macro that calls itself twice': '{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(60) }}',
    'caller that calls twice': '{% macro m(n) %}{% set c = caller %}{% if n %}{% call m(n-1) %}{{ c() }}{{ c() }}{% endcall %}'
    '{% else %}{{ caller() }}{% endif %}{% endmacro %}{% call m(60) %}z{% endcall %}',
    'block that prints itself': '{% block b %}{{ self.b() }}{{ self.b() }}{% endblock %}',
    'loop that loops': '{% for x in [1, 1] recursive %}{% if loop.depth < 60 %}{{ loop([1, 1]) }}{% endif %}{% endfor %}',
    'many arguments': '{% macro m() %}{{ varargs|length }}{% endmacro %}{% for i in range(99999) %}{{ m(*range(99999)) }}{% endfor %}',
    'much text': '{% for i in range(99999) %}' + 'x' * 100_000 + '{% endfor %}',
    'much output': "{% set s = 'x' * 100000 %}{% for i in range(99999) %}{{ s }}{% endfor %}",
    'many statements': '{% for i in range(99999) %}' + '{% if a %}x{% endif %}' * 3000 + '{% endfor %}',
    'kept texts': repeated('ns.s + [x ~ i]', '[]').replace('{% for', "{% set x = 'x' * 100000 %}{% for"),
    'number that grows by addition': repeated('ns.s + ns.s', '3').replace('99', '99999'),
    'slow': "{% set s = 'ab ' * 9999 %}{% for i in range(99999) %}{% set x = s|title %}{% endfor %}",
    'groups': "{% for i in range(9999) %}{% set x = ([{'a': 1}] * 9999)|groupby('a') %}{% endfor %}",
    'path': "{% set ns = namespace() %}{% set ns.a = ns %}{{ ([ns] * 9999)|map(attribute='a' ~ ('.a' * 9999))|list|length }}",
    'sorting path': "{% set ns = namespace() %}{% set ns.a = ns %}{{ ([ns] * 9999)|sort(attribute='a' ~ ('.a' * 9999)) }}",
    'length of a lazy list': "{% for i in range(999) %}{% for j in range(99999)|map('string') %}{{ loop.length }}{% break %}{% endfor %}{% endfor %}",
}
ENDLESS |= {
    expression: '{% set s = "x" * 99999 %}{% set t = "x" * 99998 ~ "x" %}{% for i in range(99999) %}{% set x = '
    + expression
    + ' %}{% endfor %}'
    for expression in (
        'range(99999)|sum',
        'range(99999)|list',
        'range(99999)|sort',
        "'a' in range(99999)",
        'range(99999)|reject("defined")|list',
        'range(99999)|map(" tick")|list',
        '[-999999]|map(" tick", -999999)|list',
        's[1:]',
        "'y' in s",
        's == t',
        's is eq t',
        's|upper',
        's.upper()',
        's|e|e|e|forceescape',
        's|urlencode',
        's|wordcount',
        's|truncate',
        's.find("y")',
        'namespace(a=1)',
        "{'a': 1}.items()|list",
    )
}

HUGE = [
    "'a' * 10**9",
    "10**9 * 'a'",
    '[0] * 10**9',
    "'a' * 1000000000",
    '(10**1000)**1000',
    '9**(9**9)',
    "'a'|center(10**9)",
    "'a'|center(1000000000)",
    "'a'|center(width=1000000000)",
    "'a'.center(1000000000)",
    "'a'.ljust(1000000000)",
    "'a'.rjust(1000000000)",
    "'a'.zfill(1000000000)",
    "'\\t'.expandtabs(1000000000)",
    "('a' * 99999).join(range(99999)|map('string'))",
    "('a' * 99999).join(range(99999)|map('string')|list|reverse)",
    "range(99999)|join('a' * 99999)",
    "range(99999)|list|reverse|join('a' * 99999)",
    "('a' * 99999).translate({97: 'b' * 99999})",
    "'a'.encode().center(1000000000)",
    "(5).to_bytes(1000000000, 'big')",
    "'{:1000000000}'.format(1)",
    "'{:{}}'.format(1, 1000000000)",
    "'{:{w}>1000000000}'.format(1, w='a')",
    "'{a:1000000000}'.format_map({'a': 1})",
    "'%1000000000d' % 1",
    "'%*d' % (1000000000, 1)",
    "'%.1000000000f' % 1",
    "'%1000000000d'|format(1)",
    "('{:1000000000}'|attr('format'))(1)",
    "'{:1000000000}'['format'](1)",
    "['%1000000000d']|map('format', 1)|list",
    "'a\\nb'|indent(1000000000)",
    "'a\\nb'|indent(width=1000000000)",
    "('a ' * 9999)|wordwrap(1, wrapstring='b' * 99999)",
    '[[1]]|tojson(indent=1000000000)',
    "(range(9999)|list)|tojson(separators=('a' * 99999, ':'))",
    '[1]|slice(1000000000)|list',
    "[1]|batch(1000000000, 'x')|list",
    "1.5|round(1000000000, 'ceil')",
    '([[1] * 99] * 9999)|sum(start=[])',
    'range(10**9)|list',
    "('é ' * 999999).split()|length",
    "('é' * 999999)|list|length",
    "('<!---->' * 99999)|striptags",
    "(('<!---->' * 99999)|safe).striptags()",
    "('a.com ' * 99999)|urlize",
    'range(99999)|list|pprint',
    "('f' * 4000000)|int(0, 16) * 2",
    "strftime_now('%10000000d' * 99999)",
    'lipsum(1000000000)',
]

ESCAPES = [
    "''.__class__.__mro__[1].__subclasses__()",
    "(''|attr('__class__')).__mro__",
    "''['__class__']['__mro__']",
    "'{0.__class__.__mro__}'.format('')",
    "('{0.__class__.__mro__}'|attr('format'))('')",
    'raise_exception.__globals__.x',
    'namespace.__init__.__globals__',
    "cycler.__init__.__globals__.os.popen('id').read()",
    'self._TemplateReference__context.x',
    'strftime_now.__closure__[0]',
    "messages[0].update({'role': 'x'})",
    'messages.append(1)',
    'messages[0].extra.list.append(2)',
    "dict.update(messages[0], {'role': 'x'})",
    "dict.pop(messages[0], 'role')",
    "messages[0]|attr('clear')()",
]

LONG = {
    'characters': 'a' * 10**7,
    'number': '{{ ' + '9' * 100_000 + ' }}',
    'parentheses': '{{ ' + '(' * 50_000 + '1' + ')' * 50_000 + ' }}',
    'sum': '{{ ' + '+'.join(['a'] * 9000) + ' }}',
    'concatenation': '{{ ' + '~'.join(['a'] * 30_000) + ' }}',
    'filters': '{{ a' + '|e' * 9000 + ' }}',
    'conditions': '{% if a %}' + '{% elif b %}x' * 5000 + '{% endif %}{{ a.b }}',
    'nested conditions': '{% if a %}' * 5000 + '{% endif %}' * 5000,
    'nested loops': '{% for a in b %}' * 50 + '{% endfor %}' * 50,
}

DEEP = {
    'tuples as a key': '{% set ns = namespace(x=(1,)) %}{% for i in range(9999) %}{% set ns.x = (ns.x,) %}{% endfor %}{{ {ns.x: 1} }}',
    'lists as text': '{% set ns = namespace(x=[1]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}',
}

GREEDY = [
    *(pytest.param(source, id=f'doubled: {name}') for name, source in DOUBLED.items()),
    *(pytest.param(FOLDED + use, id=f'unfolded: {use}') for use in UNFOLDED),
    *(pytest.param(source, id=f'endless: {name}') for name, source in ENDLESS.items()),
    *(pytest.param('{% set x = ' + value + ' %}{{ x is defined }}', id=f'huge: {value}') for value in HUGE),
    *(pytest.param(source, id=f'deep: {name}') for name, source in DEEP.items()),
]


@pytest.mark.parametrize('source', GREEDY)
def test_a_greedy_template_is_stopped(source: str) -> None:
    with pytest.raises(RenderError, match=r'was stopped|Range too big|different text'):
        ChatTemplate(source, max_steps=100_000, max_chars=1 << 22).render(MESSAGES)


@pytest.mark.parametrize('way', ESCAPES)
def test_a_template_can_neither_get_out_nor_change_what_it_was_given(way: str) -> None:
    messages = copy.deepcopy(MESSAGES)
    with pytest.raises(RenderError, match=r'unsafe|undefined value|no attribute|unexpected'):
        ChatTemplate('{{ ' + way + ' }}').render(messages)
    assert messages == MESSAGES


@pytest.mark.parametrize('source', LONG.values(), ids=LONG)
def test_a_template_that_is_too_long_or_too_nested_is_refused(source: str) -> None:
    with pytest.raises(RenderError):
        ChatTemplate(source).render(MESSAGES)


@pytest.mark.parametrize('name', ['nested ranges', 'loop that loops', 'macro that calls itself twice'])
def test_the_default_bounds_stop_it_too(name: str) -> None:
    with pytest.raises(RenderError, match='takes more than 1,000,000 steps'):
        ChatTemplate(ENDLESS[name]).render(MESSAGES)


def test_a_template_is_stopped_at_the_same_place_every_time() -> None:
    source = '{% for i in range(n) %}{{ i }} {{ messages[0].content ~ i }}{% endfor %}'

    def reaches(n: int) -> bool:
        try:
            ChatTemplate(source, max_steps=5000).render(MESSAGES, variables={'n': n})
        except RenderError:
            return False
        return True

    assert [reaches(n) for n in range(0, 2000, 40)] == [reaches(n) for n in range(0, 2000, 40)]
    assert reaches(100)
    assert not reaches(1990)


def test_random_texts_are_refused_because_a_prompt_must_be_the_same_each_time() -> None:
    with pytest.raises(RenderError, match='different text each time'):
        ChatTemplate('{{ [1, 2]|random }}').render(MESSAGES)


def test_every_filter_and_test_of_the_environment_is_charged() -> None:
    untouched = {
        name
        for name, filter_ in ENVIRONMENT.filters.items()
        if filter_.__module__.startswith('jinja2') and not hasattr(filter_, '__wrapped__')
    }
    assert untouched == set()


@pytest.mark.parametrize('name', [name for name in FAMILIES if name != 'oddities'])
def test_a_long_conversation_stays_far_below_the_bounds(name: str) -> None:
    source, bos, eos = FAMILIES[name]
    messages = [{'role': role, 'content': 'word ' * 200} for _ in range(500) for role in ('user', 'assistant')]
    template = ChatTemplate(source, bos_token=bos, eos_token=eos, max_steps=150_000, max_chars=1 << 24)
    assert len(template.render(messages)) > 950_000


def outcomes(steps: int, chars: int, *, seconds: int, mebibytes: int, stride: int = 1) -> dict[str, str]:
    """What comes of each hostile template (or each third, …) in a process that the system ends past these limits."""
    limits = map(str, (steps, chars, seconds, mebibytes, stride))
    script = Path(__file__).with_name('hostile_templates.py')
    source = str(Path(metering.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, str(script), *limits],
        env={**os.environ, 'PYTHONPATH': source},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def over_budget(found: dict[str, str]) -> dict[str, str]:
    return {name: outcome for name, outcome in found.items() if not outcome.startswith(('ok: ', 'error: the chat'))}


@pytest.mark.skipif(sys.platform != 'linux', reason='limits of processes as Linux has them')
def test_a_part_of_the_budget_is_a_part_of_the_time_and_memory() -> None:
    found = outcomes(MAX_STEPS // 20, MAX_CHARS // 20, seconds=2, mebibytes=128, stride=3)
    assert len(found) > 40
    assert over_budget(found) == {}


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != 'linux', reason='limits of processes as Linux has them')
def test_the_default_budget_is_ten_seconds_and_half_a_gigabyte() -> None:
    found = outcomes(MAX_STEPS, MAX_CHARS, seconds=10, mebibytes=512)
    assert len(found) > 120
    assert over_budget(found) == {}


ADDRESSED = [
    'messages.copy',
    'strftime_now',
    'cycler(1, 2)',
    'joiner()',
    "messages|map('upper')",
    'range(3)|batch(2)',
    'namespace(a=messages.copy)',
    '[{1: (messages.copy,)}]',
]
PRINTED = [
    '{}',
    "({}) ~ ''",
    '({})|string',
    '({})|upper',
    '({})|e',
    "'%s' % [{}]",
    "'{{}}'.format({})",
    "'{{!r}}'.format({})",
    '[{}, 1]|join',
    "({})|replace('a', 'b')",
    "'%s'|format([{}])",
    '({})|pprint',
]


@pytest.mark.parametrize('printed', PRINTED)
@pytest.mark.parametrize('value', ADDRESSED)
def test_no_memory_address_is_printed(value: str, printed: str) -> None:
    with pytest.raises(RenderError, match='memory address'):
        ChatTemplate('{{ ' + printed.format(value) + ' }}').render(MESSAGES)


def test_attributes_reached_by_a_format_are_printed_or_refused_like_any_other() -> None:
    assert ChatTemplate("{{ '{0.a}{0.b!r}'.format(namespace(a=1, b='x')) }}").render(MESSAGES) == "1'x'"
    assert ChatTemplate("{{ '{a[0]}'.format_map({'a': [5]}) }}").render(MESSAGES) == '5'
    assert ChatTemplate("{{ ('<{}>'|safe).format('<') }}").render(MESSAGES) == '<&lt;>'
    with pytest.raises(RenderError, match='memory address'):
        ChatTemplate("{{ '{0.copy}'.format(messages) }}").render(MESSAGES)


@pytest.mark.parametrize(
    ('expression', 'text'),
    [
        ('7 is odd', 'True'),
        ('7 is even', 'False'),
        ('4 is even and 9 is divisibleby 3', 'True'),
        ("'ff'|int(0, 16)", '255'),
        ("'ff'|int(base=16)", '255'),
        ("('9' * 20000)|int(7)", '7'),
        ('2.567|round(1)', '2.6'),
        ("2.1|round(method='ceil')", '3.0'),
        ('[[1], [2]]|sum(start=[])', '[1, 2]'),
        ("'a-b-c'.rsplit('-', 1)", "['a-b', 'c']"),
        ("'xxaxx'.strip('x')", 'a'),
        ("'é'.encode('ascii', 'namereplace')", "b'\\\\N{LATIN SMALL LETTER E WITH ACUTE}'"),
        ("'é'.encode(errors='ignore', encoding='ascii')", "b''"),
        ("namespace({'a': 1}, b=2)", "<Namespace {'a': 1, 'b': 2}>"),
        ('{% autoescape true %}{{ "<" ~ 1 }}{% endautoescape %}', '&lt;1'),
    ],
)
def test_what_is_bounded_still_works(expression: str, text: str) -> None:
    source = expression if expression.startswith('{%') else '{{ ' + expression + ' }}'
    assert ChatTemplate(source).render(MESSAGES) == text


@pytest.mark.parametrize('encoding', ['punycode', 'idna', 'unicode_escape', 'utf-7'])
def test_slow_encodings_are_refused(encoding: str) -> None:
    with pytest.raises(RenderError, match=f"the encoding '{encoding}' is not supported"):
        ChatTemplate("{{ 'a'.encode('" + encoding + "') }}").render(MESSAGES)


def test_a_clock_stands_behind_the_meter() -> None:
    with WorkMeter(10**9, 10**9, max_seconds=0):
        spend(0, 1000)  # the clock is not looked at for every step
        with pytest.raises(WorkExceededError, match='runs for too long'):
            spend(0, 1 << 20)
    with WorkMeter(100_000, 1000):
        for _ in range(100_000):
            spend(0, 1)
        with pytest.raises(WorkExceededError, match='more than 100,000 steps'):
            spend(0, 1)


ATOMS = st.sampled_from(
    [
        '1',
        '0',
        '-7',
        '2.5',
        "'ab'",
        "''",
        "('a'*999)",
        "'%s'",
        "'%99999d'",
        "'{0}'",
        '[1,[2]]',
        '(1,)',
        'none',
        'true',
        "{'a':1}",
        'messages',
        'messages[0]',
        'ns',
        'range(999)',
        'nothing',
        '(2**999)',
        "('<'*99)|safe",
        'loop',
    ]
)
NAMES = st.sampled_from(sorted(name for name in ENVIRONMENT.filters if name.isidentifier()))
TESTS = st.sampled_from(sorted(name for name in ENVIRONMENT.tests if name.isidentifier()))
METHODS = st.sampled_from(
    sorted(name for kind in (str, bytes, list, dict, int, float) for name in vars(kind) if not name.startswith('_'))
)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> str:
    if not depth or draw(st.integers(0, 3)) == 0:
        return str(draw(ATOMS))
    inner = expressions(depth - 1)
    value = draw(inner)
    arguments = ', '.join(draw(st.lists(inner, max_size=2)))
    kind = draw(st.integers(0, 6))
    if kind == 0:
        return (
            f'({value} {draw(st.sampled_from(["+", "-", "*", "//", "%", "**", "~", "in", "==", "<"]))} {draw(inner)})'
        )
    if kind == 1:
        return f'({value}).{draw(METHODS)}({arguments})'
    if kind == 2:
        return f'({value})[{draw(inner)}]' if draw(st.booleans()) else f'({value})[:{draw(inner)}]'
    if kind == 3:
        return f'(({value}) is {draw(TESTS)}({arguments}))'
    if kind == 4:
        return f'(({value})|map({draw(NAMES)!r})|list)'
    return f'(({value})|{draw(NAMES)}({arguments}))'


@settings(max_examples=150)
@given(expressions())
def test_whatever_a_template_computes_it_ends_in_a_text_or_an_error_of_ours(expression: str) -> None:
    source = '{% set ns = namespace(a=[1]) %}{% for i in [1, 2] %}{{ ' + expression + ' }}{% endfor %}'
    messages: list[dict[str, Any]] = copy.deepcopy(MESSAGES)
    try:
        text = ChatTemplate(source, max_steps=20_000, max_chars=1 << 20).render(messages)
    except RenderError:
        text = ''
    assert len(text) <= 1 << 20
    assert ' at 0x' not in text
    assert messages == MESSAGES
