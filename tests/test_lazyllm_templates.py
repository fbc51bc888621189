"""LazyLLM's templates and prompt library by their names, on the core: variables, examples, origins, errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecall import ChatPrompter
from rolecall.compat.lazyllm import ActorPrompt, DataPrompt, FewShotPromptTemplate, PromptTemplate
from rolecall.errors import PrompterError

SHOT = PromptTemplate.from_template('{q} = {a}')


def few(**options: Any) -> FewShotPromptTemplate:
    usual: dict[str, Any] = {'prefix': 'Add.', 'suffix': '{q} =', 'egs_prompt_template': SHOT, 'required_vars': ['q']}
    return FewShotPromptTemplate(**{**usual, 'examples': [{'q': '1+1', 'a': 2}, {'q': '1+2', 'a': 3}], **options})


@pytest.mark.parametrize(
    ('template', 'values', 'text'),
    [
        ('Hello {name}', {'name': 'Ada'}, 'Hello Ada'),
        ('{a}{b}{a}', {'a': 1, 'b': None}, '1None1'),
        ('{{"x": {x}}}', {'x': '{y}'}, '{"x": {y}}'),
        ('{x:>4}|{x!r}', {'x': 'a'}, "   a|'a'"),
        ('', {}, ''),
        ('Hello {name}', {'name': 'Ada', 'unused': 1}, 'Hello Ada'),
    ],
)
def test_a_template_is_filled_as_str_format_fills_it(template: str, values: dict[str, Any], text: str) -> None:
    assert PromptTemplate.from_template(template).format(**values) == text == template.format(**values)


def test_values_may_be_fixed_by_value_or_by_function() -> None:
    template = PromptTemplate.from_template('{who} at {time} in {place}').partial(time=lambda: 'noon', place='Rome')
    assert template.required_vars == ['who']
    assert template.format(who='Ada', time='never') == 'Ada at noon in Rome'


def test_examples_stand_between_prefix_and_suffix() -> None:
    assert few().format(q='2+2') == 'Add.\n1+1 = 2\n1+2 = 3\n2+2 ='
    assert few(examples=[]).format(q='2+2') == 'Add.\n\n2+2 ='
    kept = few(prefix='{how}.', required_vars=['how', 'q'], separator_for_egs=' | ').partial(how='Sum')
    assert kept.format(q='2+2') == 'Sum.\n1+1 = 2 | 1+2 = 3\n2+2 ='


@given(st.text(), st.text())
def test_values_with_braces_stay_data(question: str, answer: str) -> None:
    text = few(examples=[{'q': question, 'a': answer}]).format(q=question)
    assert text == f'Add.\n{question} = {answer}\n{question} ='


def test_every_character_has_an_origin() -> None:
    trace = few().trace(q='2+2')
    assert ''.join(span.text for span in trace.spans) == trace.request
    assert [(span.text, span.origin.shot) for span in trace.spans if span.origin.name == 'a'] == [('2', 0), ('3', 1)]


def fail() -> str:
    raise RuntimeError('no clock')


@pytest.mark.parametrize(
    ('build', 'kind', 'sentence'),
    [
        (lambda: PromptTemplate('{a}', partial_vars={'b': 1}), ValueError, 'not found in template: b'),
        (lambda: PromptTemplate('{a}', required_vars=['a'], partial_vars={'a': 1}), ValueError, 'have overlap: a'),
        (lambda: PromptTemplate('{a}'), ValueError, 'Missing variables in required_vars or partial_vars: a'),
        (
            lambda: PromptTemplate('{a}', required_vars=['a', 'b']),
            ValueError,
            'Extra variables not found in template: b',
        ),
        (lambda: PromptTemplate.from_template('{a'), ValueError, r'Write \{\{ and \}\} for braces'),
        (lambda: PromptTemplate.from_template('{}'), ValueError, r'\{\} is not a name'),
        (lambda: PromptTemplate.from_template('{a}').format(b=1), KeyError, 'Missing required variables: a. Got: b'),
        (lambda: PromptTemplate.from_template('{a:d}').format(a='x'), ValueError, 'Error formatting template'),
        (lambda: PromptTemplate.from_template('{a}').partial(b=1), KeyError, 'Variables not found in template: b'),
        (lambda: PromptTemplate('{a}', partial_vars={'a': fail}).format(), TypeError, 'variable "a": no clock'),
        (lambda: few(examples=[{'q': '1'}]), ValueError, 'Example 0 missing required variables: a'),
        (lambda: DataPrompt(lang='fr')('field_extractor'), ValueError, "no prompts in 'fr'"),
        (lambda: DataPrompt(lang='en')('field_extracter'), ValueError, "Did you mean 'field_extractor'"),
        (lambda: DataPrompt.add_prompt('empty'), ValueError, 'system_prompt and user_prompt are both missing'),
    ],
)
def test_errors_are_ours_and_those_that_lazyllm_raises(
    build: Callable[[], object], kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence) as caught:
        build()
    assert isinstance(caught.value, PrompterError)


def test_prompts_for_data_are_prompters() -> None:
    for lang in ('en', 'zh'):
        prompter = DataPrompt(lang=lang)('field_extractor')
        assert isinstance(prompter, ChatPrompter)
        messages = prompter.generate_prompt(
            {'persona': 'clerk', 'text': 'Ada, 36', 'fields': 'name, age'}, return_dict=True
        )['messages']
        assert 'clerk' in messages[0]['content']
        assert 'Ada, 36' in messages[1]['content']
    DataPrompt.add_prompt('shout', 'You shout {word}.', lang='en')
    assert DataPrompt('en')('shout', return_raw=True)['system'] == 'You shout {word}.'
    assert 'shout' in DataPrompt('en').get_all_keys()


@pytest.fixture
def no_actors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ActorPrompt, '_prompts', {})
    monkeypatch.setattr('rolecall.compat.lazyllm.find_spec', lambda _name: None)


def test_actors_come_from_files(no_actors: None, tmp_path: Path) -> None:
    with pytest.raises(PrompterError, match=r"ActorPrompt\.add_file\('prompts\.chat\.json', lang='en'\)"):
        ActorPrompt()('Poet')
    file = tmp_path / 'prompts.chat.json'
    file.write_text(json.dumps([{'act': 'Poet', 'prompt': 'You are a poet.'}]))
    ActorPrompt.add_file(file, lang='en')
    actors = ActorPrompt('en')
    assert (actors.get_all_acts(), actors.get_all_acts('fr'), actors.supported_langs) == (['Poet'], [], ['en'])
    assert actors('Poet', return_raw=True) == 'You are a poet.'
    assert actors('Poet').generate_prompt('Rain?', return_dict=True)['messages'][-1]['content'] == 'Rain?'
    (tmp_path / 'bad.json').write_text('[{"act": 1}]')
    with pytest.raises(PrompterError, match='expected a JSON list of objects with act and prompt'):
        ActorPrompt.add_file(tmp_path / 'bad.json', lang='en')
