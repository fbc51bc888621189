from __future__ import annotations

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import FrozenInstanceError
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_template_corpus import CLOCK, DIALOGUES, FAMILIES, WEATHER, assistant, call, result, system, user
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.errors import RenderError, RolecallError
from small_gguf import make_gguf

NOW = datetime(2025, 3, 9, 12, 0)


@cache
def template(name: str, **options: Any) -> ChatTemplate:
    family = FAMILIES[name]
    return ChatTemplate(family.source, bos_token=family.bos, eos_token=family.eos, now=lambda: NOW, **options)


ASKED = [user('1+1=?'), assistant('2'), user('2+2=?')]
BRIEF = [system('Be brief.'), user(' 1+1=? ')]
VICUNA_BEGIN = (
    '<s>A chat between a curious user and an artificial intelligence assistant. '
    "The assistant gives helpful, detailed, and polite answers to the user's questions. "
)

EXPECTED = [
    (
        'chatml',
        BRIEF,
        '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n 1+1=? <|im_end|>\n<|im_start|>assistant\n',
    ),
    (
        'chatml-default',
        [user('Hi')],
        '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n',
    ),
    ('llama2', ASKED, '<s>[INST] 1+1=? [/INST] 2 </s><s>[INST] 2+2=? [/INST]'),
    ('llama2', BRIEF, '<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n 1+1=? [/INST]'),
    (
        'llama3',
        BRIEF,
        '<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>'
        '<|start_header_id|>user<|end_header_id|>\n\n1+1=?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n',
    ),
    (
        'llama31',
        [user('Hi')],
        '<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nToday Date: 09 Mar 2025\n\n<|eot_id|>'
        '<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n',
    ),
    (
        'gemma',
        ASKED,
        '<bos><start_of_turn>user\n1+1=?<end_of_turn>\n<start_of_turn>model\n2<end_of_turn>\n'
        '<start_of_turn>user\n2+2=?<end_of_turn>\n<start_of_turn>model\n',
    ),
    ('mistral', ASKED, '<s>[INST] 1+1=?[/INST] 2</s>[INST] 2+2=?[/INST]'),
    ('mistral', BRIEF, '<s>[INST] Be brief.\n\n 1+1=? [/INST]'),
    (
        'qwen-thinking',
        [user('a'), assistant('<think>\nhm\n</think>\n\nb'), user('c')],
        '<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n',
    ),
    (
        'deepseek',
        [system('Be brief.'), *ASKED],
        '<｜begin▁of▁sentence｜>Be brief.<｜User｜>1+1=?<｜Assistant｜>2<｜end▁of▁sentence｜><｜User｜>2+2=?<｜Assistant｜>',
    ),
    ('phi3', BRIEF, '<|system|>\nBe brief.<|end|>\n<|user|>\n 1+1=? <|end|>\n<|assistant|>\n'),
    ('zephyr', BRIEF, '<|system|>\nBe brief.</s>\n<|user|>\n 1+1=? </s>\n<|assistant|>\n'),
    ('vicuna', ASKED, VICUNA_BEGIN + 'USER: 1+1=? ASSISTANT: 2</s>USER: 2+2=? ASSISTANT:'),
    (
        'parts',
        [user([{'type': 'image'}, {'type': 'text', 'text': 'What?'}])],
        '[USER] <|image|>What?\n[ASSISTANT] ',
    ),
]


@pytest.mark.parametrize(('name', 'messages', 'text'), EXPECTED)
def test_a_family_is_addressed_as_it_expects(name: str, messages: list[Any], text: str) -> None:
    assert template(name).render(messages) == text


def test_tools_and_their_calls_are_written_as_json_with_letters_as_they_are() -> None:
    messages = [user('Größe?'), call('weather', {'city': '城市', 'x': [1, None, True]}), result('20')]
    text = template('qwen-tools').render(messages, tools=[WEATHER, CLOCK])
    assert (
        '<tools>\n{"type": "function", "function": {"name": "weather", "description": "The weather in a city,' in text
    )
    assert '\\"now\\" & <soon>."' in text
    assert '<tool_call>\n{"name": "weather", "arguments": {"city": "城市", "x": [1, null, true]}}\n</tool_call>' in text
    assert text.endswith('<|im_start|>user\n<tool_response>\n20\n</tool_response><|im_end|>\n<|im_start|>assistant\n')


def test_no_generation_prompt_is_asked_for() -> None:
    assert template('chatml').render([user('Hi')], add_generation_prompt=False) == '<|im_start|>user\nHi<|im_end|>\n'


def test_variables_reach_the_template_and_win_over_its_tokens() -> None:
    thinking = template('qwen-thinking')
    assert thinking.render([user('a')], variables={'enable_thinking': False}).endswith('<think>\n\n</think>\n\n')
    assert template('llama3').render([user('a')], variables={'bos_token': '!'}).startswith('!<|start')


def test_the_generation_tag_prints_its_body_and_keeps_its_variables() -> None:
    text = template('generation').render([user('a'), assistant('b')], add_generation_prompt=False)
    assert text == '<|user|>\na<|end|>\n<|assistant|>\nb<|end|>\n'


@pytest.mark.parametrize(
    ('name', 'final', 'ending'),
    [
        ('chatml', 'The answer is', '<|im_start|>assistant\nThe answer is'),
        ('chatml', 'The answer is ', '<|im_start|>assistant\nThe answer is '),
        ('chatml', '', '<|im_start|>assistant\n'),
        ('llama3', '  The answer is \n', '<|end_header_id|>\n\nThe answer is'),
        ('llama3', '<|eot_id|>', '<|end_header_id|>\n\n<|eot_id|>'),
        ('llama2', 'The', ' [/INST] The'),
        ('parts', [{'type': 'text', 'text': 'A'}, {'type': 'text', 'text': 'B '}], '[ASSISTANT] AB '),
        ('zephyr', '1+1=?', '<|assistant|>\n1+1=?'),
    ],
)
def test_a_prefill_ends_exactly_after_the_final_content(name: str, final: Any, ending: str) -> None:
    messages = [user('1+1=?'), assistant(final)]
    before = copy.deepcopy(messages)
    assert template(name).render(messages, continue_final_message=True).endswith(ending)
    assert messages == before


@given(st.lists(st.text(alphabet='a \n<|>é{}%', max_size=8), min_size=1, max_size=4))
def test_a_prefill_is_a_beginning_of_the_whole(contents: list[str]) -> None:
    messages = [(user, assistant)[place % 2](text) for place, text in enumerate(contents)]
    for name in ('chatml', 'llama3', 'qwen-tools'):
        whole = template(name).render(messages, add_generation_prompt=False)
        assert whole.startswith(template(name).render(messages, continue_final_message=True))


@pytest.mark.parametrize(
    ('source', 'messages', 'said'),
    [
        ('{{ messages[0].content }}', [user('a'), assistant('b')], 'does not print it'),
        ('{{ messages[0].content * 2 }}', [user('a')], 'prints it more than once'),
        ("{{ messages[0].content.split('</think>')[-1] }}", [assistant('<think>a</think>b')], 'changes it'),
        ('{{ messages[0].content|tojson }}', [assistant('"a"')], 'changes it'),
        ('{{ messages[0].content }}', [call('weather', {}, text=None)], 'no text to continue'),
        ('{{ messages[0].content }}', [user([{'type': 'image'}])], 'no text to continue'),
        ('', [], 'no message to continue'),
    ],
)
def test_what_cannot_be_continued_is_an_error(source: str, messages: list[Any], said: str) -> None:
    with pytest.raises(RenderError, match=said):
        ChatTemplate(source).render(messages, continue_final_message=True)


@pytest.mark.parametrize(
    ('name', 'has_system', 'has_tools', 'has_date'),
    [
        ('chatml', True, False, False),
        ('llama2', True, False, False),
        ('llama3', True, False, False),
        ('llama31', True, True, True),
        ('gemma', False, False, False),
        ('mistral', True, True, False),
        ('qwen-tools', True, True, False),
        ('deepseek', True, False, False),
        ('phi3', True, False, False),
        ('zephyr', True, False, False),
        ('vicuna', True, False, False),
    ],
)
def test_what_a_template_supports_is_found_by_trying(
    name: str, has_system: bool, has_tools: bool, has_date: bool
) -> None:
    found = template(name)
    assert (found.supports_system, found.supports_tools, found.prints_date) == (has_system, has_tools, has_date)


@pytest.mark.parametrize(
    ('source', 'dated'),
    [
        ("{{ strftime_now('%Y') }}", True),
        ("{% if tools %}{{ strftime_now('%d') }}{% endif %}", True),
        ("{% set unused = strftime_now('%Y') %}x", False),
        ('{{ date_string }}', True),
        ("{{ current_date|default('today') }}", True),
        ("{% set date_string = 'never' %}{{ date_string }}", False),
        ('{{ messages[0].update }}', False),
        ("{{ raise_exception('no') }}", False),
    ],
)
def test_a_date_is_noticed_when_it_shows(source: str, dated: bool) -> None:
    assert ChatTemplate(source).prints_date is dated


def test_a_system_message_that_is_dropped_silently_is_unsupported() -> None:
    source = "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}"
    assert not ChatTemplate(source).supports_system


CONFIG = {
    'chat_template': [
        {'name': 'default', 'template': '{{ bos_token }}plain{{ eos_token }}'},
        {'name': 'tool_use', 'template': 'tools: {{ tools|length }}'},
        {'name': 'rag', 'template': 'rag {{ unk_token }}{{ image_token }}{{ additional_special_tokens|join }}'},
    ],
    'bos_token': {'__type': 'AddedToken', 'content': '<s>', 'lstrip': False},
    'eos_token': '</s>',
    'unk_token': None,
    'additional_special_tokens': ['<a>', {'content': '<b>'}],
    'extra_special_tokens': {'image_token': '<image>'},
}


def test_a_tokenizer_config_gives_template_and_tokens() -> None:
    found = ChatTemplate.from_tokenizer_config(CONFIG)
    assert found.render([user('a')]) == '<s>plain</s>'
    assert found.render([user('a')], tools=[WEATHER, CLOCK]) == 'tools: 2'
    named = ChatTemplate.from_tokenizer_config(CONFIG, name='rag')
    assert named.render([user('a')], tools=[WEATHER]) == 'rag <image><a><b>'


def test_named_templates_may_be_a_dict_and_one_template_a_string() -> None:
    templates = {'default': 'one', 'tool_use': 'two'}
    assert ChatTemplate.from_tokenizer_config({'chat_template': templates}).render([], tools=[WEATHER]) == 'two'
    assert ChatTemplate.from_tokenizer_config({'chat_template': 'one'}).render([], tools=[WEATHER]) == 'one'


@pytest.mark.parametrize(
    ('config', 'name', 'said'),
    [
        ({}, None, 'no chat template'),
        ({'chat_template': None}, None, 'no chat template'),
        (CONFIG, 'tool_uses', "Did you mean 'tool_use'"),
        ({'chat_template': {'rag': 'x'}}, None, "Known: 'rag'"),
    ],
)
def test_a_config_without_the_template_is_an_error(config: dict[str, Any], name: str | None, said: str) -> None:
    with pytest.raises(RenderError, match=said):
        ChatTemplate.from_tokenizer_config(config, name=name)


@pytest.mark.parametrize(
    ('source', 'said'),
    [
        ("{{ raise_exception('Roles must alternate!') }}", 'rejected these messages: Roles must alternate!'),
        ('{% for %}', 'does not parse: line 1: Expected an expression'),
        ('a\nb {% endfor %}', 'does not parse: line 2: '),
        ('{% do x %}', "unknown tag 'do'"),
        ('{{ 1|nothing }}', "No filter named 'nothing'"),
        ('{{ nothing.at.all }}', "uses an undefined value: 'nothing' is undefined"),
        ('{{ bos_token + "x" }}', "'bos_token' is undefined"),
        ('{{ messages[0].content + 1 }}', 'failed: can only concatenate str'),
        ('{{ 1 / 0 }}', 'failed: division by zero'),
        ("{% include 'x' %}", 'no loader'),
        ("{% extends 'x' %}", 'no loader'),
        ("{% import 'x' as x %}", 'no loader'),
        ('{{ messages|tojson(indent="x" * 99999999) }}', 'was stopped: it makes more than 67,108,864 characters.'),
    ],
)
def test_a_fault_in_a_template_is_one_sentence(source: str, said: str) -> None:
    with pytest.raises(RenderError) as caught:
        ChatTemplate(source).render([user('Hi')])
    assert said in str(caught.value)
    assert str(caught.value).startswith('the chat template ')


def test_the_messages_are_never_changed() -> None:
    for name in FAMILIES:
        for messages in DIALOGUES.values():
            before = copy.deepcopy(messages)
            with suppress(RenderError):
                template(name).render(messages, tools=[WEATHER], continue_final_message=True)
            assert messages == before


def test_a_template_is_a_value() -> None:
    one, other = ChatTemplate('{{ 1 }}', bos_token='<s>'), ChatTemplate('{{ 1 }}', bos_token='<s>')
    assert one == other
    assert hash(one) == hash(other)
    assert one != ChatTemplate('{{ 1 }}')
    with pytest.raises(FrozenInstanceError):
        one.source = 'x'  # type: ignore[misc]


def test_threads_do_not_share_their_bounds() -> None:
    short = ChatTemplate('{% for i in range(1000) %}{{ i }}{% endfor %}', max_steps=9000)
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda _: short.render([]), range(40)))
    assert set(texts) == {''.join(map(str, range(1000)))}


def test_a_template_is_read_from_every_file_that_holds_one(tmp_path: Path) -> None:
    source = '{{ bos_token }}{{ messages[0].content }}'
    settings = {'chat_template': source, 'bos_token': {'content': '<s>'}}
    folder, jinja, bare = tmp_path / 'model', tmp_path / 'jinja', tmp_path / 'bare'
    for made in (folder, jinja, bare):
        made.mkdir()
    (folder / 'tokenizer_config.json').write_text(json.dumps(settings))
    (jinja / 'tokenizer_config.json').write_text(json.dumps({'bos_token': '<s>'}))
    (jinja / 'chat_template.jinja').write_text(source)
    (bare / 'mine.jinja').write_text('<s>{{ messages[0].content }}')
    make_gguf(tmp_path / 'model.gguf', **{'tokenizer.chat_template': '<s>{{ messages[0].content }}'})
    for path in (folder, folder / 'tokenizer_config.json', jinja, jinja / 'tokenizer_config.json', bare / 'mine.jinja'):
        assert ChatTemplate.from_file(path).render([{'role': 'user', 'content': 'Hi'}]) == '<s>Hi'
    for path in (jinja / 'chat_template.jinja', tmp_path / 'model.gguf'):
        assert ChatTemplate.from_file(str(path)).render([{'role': 'user', 'content': 'Hi'}]) == '<s>Hi'


@pytest.mark.parametrize(
    ('name', 'content', 'said'),
    [
        ('missing', None, 'missing: file not found'),
        ('tokenizer_config.json', '{}', 'no chat template found'),
        ('tokenizer_config.json', '[', 'not valid JSON'),
        ('model.gguf', 'x', 'not a GGUF file'),
        ('one.jinja', '', 'no chat template found'),
        ('one.jinja', '{% for %}', 'does not parse'),
    ],
)
def test_a_file_without_a_template_is_named(tmp_path: Path, name: str, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(RolecallError, match=said):
        ChatTemplate.from_file(tmp_path / name)


def test_a_key_without_a_value_is_left_out_of_a_message() -> None:
    template = ChatTemplate(
        '{% for m in messages %}{{ m.role }}:{{ m.content }}:{{ m.tool_calls is defined }};{% endfor %}'
    )
    call = {'role': 'assistant', 'content': None, 'tool_calls': [{'function': {'name': 'f', 'arguments': {}}}]}
    assert (
        template.render([call, {'role': 'user', 'content': 'x', 'tool_calls': None}]) == 'assistant::True;user:x:False;'
    )
