"""The text equals what transformers writes, template by template, dialogue by dialogue."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_template_corpus import CLOCK, DIALOGUES, FAMILIES, WEATHER, Family, assistant, system, user
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.errors import RenderError

pytestmark = pytest.mark.heavy

MODES = {
    'plain': {'add_generation_prompt': False},
    'asked': {'add_generation_prompt': True},
    'prefilled': {'continue_final_message': True, 'add_generation_prompt': False},
}


class Theirs:
    """transformers' rendering of a family, or None where it refuses."""

    def __init__(self, family: Family) -> None:
        from tokenizers import Tokenizer, models
        from transformers import PreTrainedTokenizerFast

        tokens = {name: token for name, token in (('bos_token', family.bos), ('eos_token', family.eos)) if token}
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), **tokens)
        self.tokenizer.chat_template = family.source

    def render(self, messages: list[Any], **options: Any) -> str | None:
        from jinja2 import TemplateError

        try:
            text: str = self.tokenizer.apply_chat_template(messages, tokenize=False, **options)
        except (TemplateError, TypeError, ValueError, KeyError):
            return None
        return text


def ours(family: Family) -> ChatTemplate:
    return ChatTemplate(family.source, bos_token=family.bos, eos_token=family.eos)


def rendered(template: ChatTemplate, messages: list[Any], **options: Any) -> str | None:
    try:
        return template.render(messages, **options)
    except RenderError:
        return None


def assert_equal(expected: str | None, text: str | None) -> None:
    """One difference is meant: where a template prints a prefill twice, transformers leaves its private mark in."""
    if expected is not None and 'CONTINUE_FINAL_MESSAGE_TAG' in expected:
        assert text is None
    else:
        assert text == expected


@pytest.mark.parametrize('name', FAMILIES)
def test_every_dialogue_gives_the_same_text(name: str) -> None:
    family = FAMILIES[name]
    theirs, template = Theirs(family), ours(family)
    for messages, tools, mode in itertools.product(DIALOGUES.values(), (None, [WEATHER], [WEATHER, CLOCK]), MODES):
        options = {**MODES[mode], 'tools': tools}
        assert_equal(theirs.render(messages, **options), rendered(template, messages, **options))


@pytest.mark.parametrize('name', [name for name in FAMILIES if name != 'oddities'])
def test_any_text_gives_the_same_text(name: str) -> None:
    family = FAMILIES[name]
    theirs, template = Theirs(family), ours(family)
    texts = st.text(alphabet=st.sampled_from('ab \n\t<>|{}%"\'\\é你🙂\u2028'), max_size=12)

    @settings(max_examples=40, deadline=None)
    @given(st.lists(texts, min_size=1, max_size=5), st.booleans(), st.sampled_from(sorted(MODES)))
    def check(contents: list[str], with_system: bool, mode: str) -> None:
        messages = [(user, assistant)[place % 2](text) for place, text in enumerate(contents)]
        if with_system:
            messages.insert(0, system(contents[0]))
        options = MODES[mode]
        assert_equal(theirs.render(messages, **options), rendered(template, messages, **options))

    check()


EXPRESSIONS = [
    "{{ 'a,b'.split(',')|map('upper')|join(';') }}",
    "{{ ' x '.strip() ~ 'y'.center(5) ~ 'z'.zfill(3) ~ 'a\tb'.expandtabs(4) }}",
    "{{ '%s %r %5.1f|%-4s|' % ('a', 'b', 1.25, 'c') }} {{ '{:>5}|{!r}'.format('é', 'x') }}",
    "{{ {'b': [1, 2.5, none], 'a': 'é<&>'}|tojson }} {{ [1]|tojson(indent=1) }}",
    '{{ messages|tojson(indent=2, ensure_ascii=true) }}',
    "{% set ns = namespace(t='') %}{% for m in messages[::-1] %}{% set ns.t = ns.t + m.role[0] %}{% endfor %}{{ ns.t }}",
    '{% for a in range(3) %}{% for b in range(a) if b %}{{ a }}{{ b }}{% else %}-{% endfor %}{% endfor %}',
    '{% for x in [[1, [2]], 3] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}',
    '{% for x in "abc" %}{{ loop.index }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}',
    '{% for x in range(9)|select("odd") %}{{ x }}/{{ loop.length }} {% if x == 7 %}{% break %}{% endif %}{% endfor %}',
    "{% set x = messages|selectattr('role', 'eq', 'user')|map(attribute='content')|list %}{{ x|length }}{{ x }}",
    '{{ [3, 1, 2]|sort(reverse=true) }}{{ [1, 2, 3]|sum }}{{ [0.1, 0.2]|sum }}{{ [1, 2]|max }}{{ [[1], [2]]|sum(start=[]) }}',
    '{{ range(7)|batch(3, "x")|list }}{{ range(7)|slice(3)|list }}{{ [1, 1, 2]|unique|list }}{{ "ab"|list }}{{ "ab"|reverse }}',
    '{{ "some words to wrap"|wordwrap(6) }}{{ "<b>x</b>"|striptags }}{{ "a b"|urlencode }}{{ 1234567|filesizeformat }}{{ 2.567|round(1) }}',
    '{{ "see example.com"|urlize }}{{ {"a": 1}|xmlattr }}{{ {"b": 1, "a": [1, 2]}|pprint }}{{ "a\nb"|indent }}{{ "x"|center(7) }}',
    '{{ {"a": 1}.items()|list }}{{ {"a": 1}|items|list }}{{ {"a": 1}.get("b", 2) }}{{ {"a": {"b": 1}}.a.b }}{{ (1, 2) + (3,) }}',
    "{{ 'a' in 'abc' and 1 in [1] and 'x' not in {'y': 1} }}{{ 1 < 2 <= 2 }}{{ messages[0] == messages[0] }}{{ none is none }}",
    '{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }}{{ m(1, 3, 4, c=5) }}{{ m.name }}{{ m.arguments }}',
    '{% call(x) m2() %}<{{ x }}>{% endcall %}{% macro m2() %}{{ caller(1) }}{% endmacro %}',
    '{% macro m2() %}{{ caller(1) }}{% endmacro %}{% call(x) m2() %}<{{ x }}>{% endcall %}',
    '{% block b %}in{% endblock %}{{ self.b() }}{% filter upper|trim %} x {% endfilter %}{% set y|upper %}z{% endset %}{{ y }}',
    '{{ "a" "b" }}{{ 7 / 2 }}{{ -7 // 2 }}{{ 7 % 3 }}{{ 2 ** 10 }}{{ 2 ** -1 }}{{ +1 }}{{ not 1 }}{{ 1 if 0 }}{{ 1e3 }}{{ 0x1f }}',
    '{% autoescape true %}{{ "<" ~ ">" }}{{ "<"|safe ~ "<" }}{% endautoescape %}{{ "<"|e ~ "<" }}{{ ("<"|safe) + ">" }}',
    '{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner("|") %}{{ j() }}{{ j() }}',
    '{{ namespace(a=1, b=[2]) }}{{ dict(a=1, **{"b": 2}) }}{{ dict([("k", "v")]) }}{{ undefined_thing }}{{ messages[99] }}{{ messages[0].nope }}',
    '{{ tools }}{{ documents }}{{ tools is none }}{{ bos_token is defined }}{{ strftime_now is defined }}{{ strftime_now("x") }}',
    '{{- 1 -}}   \n   {%- if true -%}  a  {%- endif %}\n  {# c #}\n{% raw %}{{ x }}{% endraw %}\n\n',
]


@pytest.mark.parametrize('source', EXPRESSIONS)
def test_the_language_is_the_same(source: str) -> None:
    family = Family(source)
    messages = [system('s'), user('ü "x"'), assistant('y')]
    expected = Theirs(family).render(messages)
    try:
        text = rendered(ours(family), messages)
    except RenderError:
        text = None
    assert text == expected
