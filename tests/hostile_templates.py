"""Chat templates written to eat time or memory, and a program that renders each in a process of its own with limits.

    python tests/hostile_templates.py MAX_STEPS MAX_CHARS SECONDS MEBIBYTES

prints a JSON object: for each template the error, the length of its text, or the signal that ended it.
"""

from __future__ import annotations

import json
import os
import resource
import sys

from rolecall.core.render.chat_template import ChatTemplate
from rolecall.errors import RenderError

MESSAGES = [{'role': 'user', 'content': 'Hi'}, {'role': 'assistant', 'content': 'Ho'}]


def loop(expression: str, before: str = '') -> str:
    return before + '{% for i in range(99999) %}{% set x = ' + expression + ' %}{% endfor %}'


def shown(*expressions: str, before: str = '') -> dict[str, str]:
    return {expression: before + '{{ ' + expression + ' }}' for expression in expressions}


def looped(*expressions: str, before: str = '') -> dict[str, str]:
    return {f'loop: {expression}': loop(expression, before) for expression in expressions}


LONG_NEEDLE = "{% set s = 'a' * 1000000 %}{% set n = 'b' ~ 'a' * 499999 %}"
NAIVE_NEEDLE = "{% set s = 'a' * 29999 %}{% set n = 'a' * 49 ~ 'b' ~ 'a' * 49 %}"
SEARCHES = (
    's.rfind(n)',
    's.rindex(n)',
    's.rsplit(n)|length',
    's.rpartition(n)|length',
    's.find(n)',
    's.count(n)',
    's.split(n)|length',
    's.partition(n)|length',
    "s.replace(n, '')|length",
    'n in s',
    's.endswith(n)',
)
SEARCHING = {f'long: {name}': source for name, source in shown(*SEARCHES, before=LONG_NEEDLE).items()}
SEARCHING |= looped(*SEARCHES, before=NAIVE_NEEDLE)
SEARCHING |= shown(
    's.strip(n)|length',
    '(s|trim(n))|length',
    '(s|trim(chars=n))|length',
    before="{% set s = 'a' * 3000000 %}{% set n = 'b' * 3000000 ~ 'a' %}",
)

BIG = "{% set x = ('f' * 3400)|int(0, 16) %}{% set y = 3 ** 4400 %}"
NUMBERS = shown(
    "'%1000000000d' is even",
    "'%1000000000d' is odd",
    "'%1000000000d' is divisibleby 1",
    "['%1000000000d']|select('divisibleby', 1)|list",
    "('f' * 60000000)|int(0, 16) is even",
    "('f' * 5000000)|int(base=16) is odd",
    "(0).from_bytes(('a' * 9000000).encode(), 'big') is odd",
    '0x' + 'f' * 100_000 + ' is even',
    '**'.join(['2'] * 3000),
    "1.5|round(20000000, 'ceil')",
    "1.5|round(-20000000, 'floor')",
    "1.5|round(precision=20000000, method='ceil')",
)
NUMBERS |= looped(
    'x is divisibleby 7',
    "('f' * 3400)|int(0, 16)",
    '-----x',
    '(2 ** 6990) * (2 ** 6990)',
    'x // y',
    'x % y',
    '3 ** 8700',
    "x ~ ''",
    "1.5|round(4000, 'ceil')",
    "(0).from_bytes(('a' * 1700).encode(), 'big')",
    before=BIG,
)

SUMS = shown(
    '([[]] * 2000)|sum(start=[0] * 1000000)|length',
    '([[]] * 400)|sum(start=[0] * 5000000)|length',
    '([()] * 2000)|sum(start=(0,) * 1000000)|length',
    "([{'a': []}] * 2000)|sum('a', [0] * 1000000)|length",
)
SUMS |= looped('([[]] * 100)|sum(start=[0] * 100)')

HELD = "{% set ns = namespace(s='x' * 10000000) %}"
NAMESPACES = shown(
    '[ns] * 3000',
    "('{0}' * 3000).format(ns)|length",
    "('{0.s}' * 3000).format(ns)|length",
    "('{0!r}' * 3000).format(ns)|length",
    "('{a.s}' * 3000).format_map({'a': ns})|length",
    '([ns] * 3000)|join|length',
    "''.join(([ns] * 3000)|map('string'))|length",
    "('%s' * 300) % ((ns,) * 300)",
    'ns|pprint',
    'ns|tojson',
    before=HELD,
)
NAMESPACES |= looped(
    'ns|string|length',
    "ns ~ ''",
    'ns|upper',
    'ns|e',
    'ns == ns',
    "ns|replace('x', 'y')",
    "'%s'|format(ns)",
    'ns|format',
    before=HELD,
)
NAMESPACES |= {
    'namespace printed': HELD + '{% for i in range(1000) %}{{ ns }}{% endfor %}',
    'namespace in itself': '{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}',
    'namespace copied': loop('namespace(d)', '{% set d = {}.fromkeys(range(9999)|map("string")) %}'),
    'format reaches into a loop': "{% for i in [1, 'x' * 10000000] %}{{ ('{0.nextitem}' * 3000).format(loop)|length }}{% endfor %}",
}

GROWING = shown(
    "('\ufbf9' * 5000000).encode('ascii', 'namereplace')|length",
    "('\ufbf9' * 5000000).encode(errors='namereplace', encoding='ascii')|length",
    "('\ufbf9' * 20000000).encode('ascii', 'xmlcharrefreplace')|length",
    "('\ufbf9\ufbf8' * 500000).encode('punycode')|length",
    "('a\ufbf9' * 500000).encode('idna')|length",
    "('a' * 5000000).encode().decode('punycode')|length",
    "('\ufbf9' * 20000000).encode('utf-32')|length",
    "('<' * 60000000)|e|length",
    "('<' * 30000000)|forceescape|length",
    "('\x01' * 60000000)|tojson|length",
    "('\U0001f600' * 20000000)|tojson(ensure_ascii=true)|length",
    "('\U0001f600' * 60000000)|urlencode|length",
    "('\u0390' * 30000000).upper()|length",
    "((''|safe) + '<' * 30000000)|length",
    "(('{0}' * 3000)|safe).format('<' * 1000000)|length",
    "((('%s' * 300)|safe) % (('<' * 1000000,) * 300))|length",
    "(''|safe).join(['<' * 1000000] * 60)|length",
    "'a'|center(60000000)",
    "'a'|center(6000000)|list|length",
    "('{:9999999}' * 3000).format(*range(3000))|length",
)
GROWING |= looped("('\ufbf9' * 5000).encode('ascii', 'namereplace')", "'{:99999}'.format(1)")
GROWING |= {
    'autoescape': '{% autoescape true %}{{ "<" * 60000000 }}{% endautoescape %}',
    'autoescape concatenation': '{% autoescape true %}{% set x = ("<" * 60000000) ~ "" %}{% endautoescape %}',
}


def kept(value: str) -> str:
    """A linked list of values, all of them held."""
    return '{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [' + value + ', ns.l] %}{% endfor %}'


KEEPING = {
    f'kept: {value[:40]}': kept(value)
    for value in (
        '{1: 1, 2: 2, 3: 3}',
        '{' + ', '.join(f'{i}: {i}' for i in range(200)) + '}',
        "('a ' * 9999).split()",
        "('\U0001f600' * 9999)|list",
        "'\U0001f600' * 99999",
        'namespace(a=1)',
        'messages|map("string")|list',
    )
}
KEEPING |= {
    'printed: wide letters': "{% set s = '\U0001f600' * 99999 %}{% for i in range(99999) %}{{ s }}{% endfor %}",
    'printed: numbers': '{% for i in range(99999) %}{% for j in range(99999) %}{{ i * j }}{% endfor %}{% endfor %}',
}

EVERYTHING_ELSE = looped(
    "[{'a': 1}, {'a': 2}]|groupby('a')",
    "range(999)|map('string')|sort",
    "{'a': 1, 'b': 2}|dictsort",
    'range(999)|batch(3)|list',
    'range(999)|slice(3)|list',
    'range(999)|unique|list',
    "('a ' * 99)|wordwrap(5)",
    "('a.com ' * 9)|urlize",
    "{'a': 1}|xmlattr",
    '5|filesizeformat',
    "('a ' * 999)|truncate(9)",
    "('a\\n' * 999)|indent",
    'range(99)|list|pprint',
    "('<a>' * 99)|striptags",
    "('é' * 99)|urlencode",
    "('a ' * 99)|wordcount",
    "('a ' * 99)|title",
    'messages|tojson(indent=2)',
    "strftime_now('%Y-%m-%d')",
    'cycler(1, 2).next()',
    'joiner()()',
    '{}.fromkeys(range(99999))',
    "'abc'.translate({97: 'b'})",
    "''.maketrans('abc', 'def')",
    "'\\t'.expandtabs(99)",
    "('a' * 9999)[::2]",
    "messages|selectattr('role', 'equalto', 'user')|list",
    "messages[0]|attr('content')",
)
EVERYTHING_ELSE |= {
    'many variables': ''.join(f'{{{{ a{i} }}}}' for i in range(5000)),
    'many assignments': ''.join(f'{{% set a{i} = {i} %}}' for i in range(3500)),
    'long chain of attributes': '{{ a' + '.b' * 9000 + ' }}',
    'long chain of minus signs': '{{ ' + '-' * 9000 + '1 }}',
}

TEMPLATES = {**SEARCHING, **NUMBERS, **SUMS, **NAMESPACES, **GROWING, **KEEPING, **EVERYTHING_ELSE}


def render(source: str, max_steps: int, max_chars: int) -> str:
    try:
        return f'ok: {len(ChatTemplate(source, max_steps=max_steps, max_chars=max_chars).render(MESSAGES))}'
    except RenderError as error:
        return f'error: {error}'


def render_in_a_process(source: str, budget: tuple[int, int], seconds: int, memory: int) -> str:
    """Render in a fork that the system kills past the limits; returns the outcome."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        try:
            outcome = render(source, *budget)
        except BaseException as error:
            outcome = f'unexpected: {error!r}'
        os.write(writer, outcome[:500].encode('utf-8', 'replace'))
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader, 'rb') as told:
        return told.read().decode() or f'killed: {status}'


def address_space() -> int:
    with open('/proc/self/statm', encoding='ascii') as sizes:
        return int(sizes.read().split()[0]) * resource.getpagesize()


if __name__ == '__main__':
    steps, chars, seconds, mebibytes, stride = map(int, sys.argv[1:])
    memory = address_space() + (mebibytes << 20)
    json.dump(
        {n: render_in_a_process(s, (steps, chars), seconds, memory) for n, s in [*TEMPLATES.items()][::stride]},
        sys.stdout,
    )
