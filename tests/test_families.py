from __future__ import annotations

from typing import Any

import pytest

from chat_template_corpus import FAMILIES
from rolecall.core.render import meta as families
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.meta import META_TEMPLATES, MetaTemplate, add_meta_template, meta_template
from rolecall.errors import TemplateError
from rolecall.registry import Registry

ROLES = {'SYSTEM': 'system', 'HUMAN': 'user', 'BOT': 'assistant'}
TALK = [('HUMAN', '1+1=?'), ('BOT', '2'), ('HUMAN', '2+2=?')]
BRIEF = [('SYSTEM', 'Be brief.'), *TALK]


def joined(template: dict[str, Any], talk: list[tuple[str, str]]) -> str:
    """begin + prompt + end of each speech, then the begin of the role that answers."""
    roles = {role['role']: role for role in (*template['round'], *template.get('reserved_roles', ()))}
    speeches = (roles[name]['begin'] + prompt + roles[name]['end'] for name, prompt in talk)
    return template.get('begin', '') + ''.join(speeches) + roles['BOT']['begin']


@pytest.mark.parametrize(
    ('name', 'family', 'talk', 'space'),
    [
        ('chatml', 'chatml', BRIEF, ''),
        ('qwen', 'qwen-tools', BRIEF, ''),
        ('yi', 'chatml', BRIEF, ''),
        ('llama2', 'llama2', TALK, ' '),
        ('llama3', 'llama3', BRIEF, ''),
        ('gemma', 'gemma', TALK, ''),
        ('mistral', 'mistral', TALK, ' '),
        ('deepseek', 'deepseek', BRIEF, ''),
        ('phi3', 'phi3', BRIEF, ''),
        ('zephyr', 'zephyr', BRIEF, ''),
        ('vicuna', 'vicuna', TALK, ' '),
    ],
)
def test_a_meta_template_writes_what_the_chat_template_writes(
    name: str, family: str, talk: list[tuple[str, str]], space: str
) -> None:
    """`space` is what the family's models write before an answer."""
    source, bos, eos = FAMILIES[family]
    chat = ChatTemplate(source, bos_token=bos, eos_token=eos)
    text = chat.render([{'role': ROLES[role], 'content': prompt} for role, prompt in talk])
    spaced = [(role, space + prompt if role == 'BOT' else prompt) for role, prompt in talk]
    assert joined(meta_template(name), spaced) == text.removeprefix('<s>' if name == 'vicuna' else '')


@pytest.mark.parametrize('name', META_TEMPLATES)
def test_every_shipped_template_can_be_used(name: str) -> None:
    template = meta_template(name)
    assert set(template) <= {'begin', 'end', 'round', 'reserved_roles', 'eos_token_id'}
    assert [role['role'] for role in template['round']] == ['HUMAN', 'BOT']
    assert [role['role'] for role in template['round'] if role.get('generate')] == ['BOT']
    assert list(MetaTemplate.read(template).roles)[:2] == ['HUMAN', 'BOT']


@pytest.mark.parametrize('name', META_TEMPLATES)
def test_generation_never_starts_after_a_space(name: str) -> None:
    begin = meta_template(name)['round'][1].get('begin', '')
    assert not begin.endswith(' ')


def test_an_api_has_roles_and_no_markers() -> None:
    assert meta_template('api') == {
        'round': [
            {'role': 'HUMAN', 'api_role': 'HUMAN'},
            {'role': 'BOT', 'api_role': 'BOT', 'generate': True},
        ],
        'reserved_roles': [{'role': 'SYSTEM', 'api_role': 'SYSTEM'}],
    }
    assert 'reserved_roles' not in meta_template('api-no-system')


def test_a_copy_can_be_changed_without_changing_the_original() -> None:
    meta_template('llama3')['round'][0]['begin'] = 'changed'
    assert meta_template('llama3')['round'][0]['begin'].startswith('<|start_header_id|>user')


def test_a_misspelt_name_gets_a_suggestion() -> None:
    with pytest.raises(TemplateError, match="Did you mean 'llama3'"):
        meta_template('lama3')


def test_own_templates_get_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, '_templates', dict(families._templates))
    monkeypatch.setattr(families, 'META_TEMPLATES', Registry('meta template', families._templates))
    mine = {'round': [{'role': 'HUMAN', 'begin': '>'}]}
    add_meta_template('mine', mine)
    mine['round'][0]['begin'] = 'changed later'
    assert meta_template('mine') == {'round': [{'role': 'HUMAN', 'begin': '>'}]}
    add_meta_template('mine', {'round': []})
    assert meta_template('mine') == {'round': []}


def test_a_shipped_template_is_replaced_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, '_templates', dict(families._templates))
    monkeypatch.setattr(families, 'META_TEMPLATES', Registry('meta template', families._templates))
    with pytest.raises(TemplateError, match='replace=True'):
        add_meta_template('llama3', {'round': []})
    add_meta_template('llama3', {'round': []}, replace=True)
    assert meta_template('llama3') == {'round': []}


def test_only_a_mapping_is_a_template() -> None:
    with pytest.raises(TemplateError, match='expected a mapping'):
        add_meta_template('mine', 'begin')  # type: ignore[arg-type]
