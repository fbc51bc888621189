"""One prompter, many models: tokens, meta templates, chat templates."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rolecall import AlpacaPrompter, ChatPrompter, EmptyPrompter, Prompter
from rolecall.core import ApiRenderer, MetaTemplate, TextRenderer
from rolecall.core.program.answer_turn import MessagesRenderer
from rolecall.core.prompters import Tokens, encode_trace
from rolecall.core.render.chat_renderer import ChatRenderer
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.spans import join_spans
from rolecall.errors import PrompterError, RolecallError

TOKENS = Tokens(
    sos='<s>',
    eos='</s>',
    soh='<u>',
    eoh='</u>',
    soa='<a>',
    eoa='</a>',
    soe='<e>',
    eoe='</e>',
    tool_start='<t>',
    tool_end='</t>',
    tool_args='<with>',
    system='S',
)
META = {
    'begin': '<bos>',
    'round': [
        {'role': 'HUMAN', 'begin': '<H>', 'end': '</H>'},
        {'role': 'BOT', 'begin': '<B>', 'end': '</B>', 'generate': True},
    ],
    'reserved_roles': [{'role': 'SYSTEM', 'begin': '<S>', 'end': '</S>'}],
    'end': '<eos>',
}
CHATML = (
    '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}'
    '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
)
WITH_TOOLS = (
    '{% if tools %}<tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools>{% endif %}'
    '{% for m in messages %}[{{ m.role }}]{{ m.content or "" }}'
    '{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}{{ c.function.arguments | tojson }}</call>{% endfor %}'
    '{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}'
)
TOOL = {'type': 'function', 'function': {'name': 'add', 'description': 'Adds.', 'parameters': {'type': 'object'}}}
CALL = {'id': 'c1', 'type': 'function', 'function': {'name': 'add', 'arguments': '{"x": 1}'}}
TALK: list[Any] = [
    {'role': 'user', 'content': 'Add 1.'},
    {'role': 'assistant', 'content': '', 'tool_calls': [CALL]},
    {'role': 'tool', 'tool_call_id': 'c1', 'content': '2'},
]
PROMPTER = ChatPrompter('Add.', system='S')


def text_of(prompter: Prompter, *given: Any, **options: Any) -> Any:
    """The string prompt, after a look at its spans."""
    trace = prompter.trace(*given, **options)
    assert trace.body == prompter.generate_prompt(*given, **options)
    assert join_spans(trace.spans) == trace.texts
    return trace.body


def test_one_prompter_serves_two_models_at_once() -> None:
    prompter = ChatPrompter('Add {x}.')
    before = prompter.generate_prompt('1')
    ours, theirs = prompter.bind(TOKENS), prompter.bind({'soh': 'USER: ', 'soa': 'MODEL: '}, system='T')
    with ThreadPoolExecutor() as pool:
        got = list(pool.map(lambda one: one.generate_prompt('1'), [ours, theirs, prompter] * 50))
    assert set(got[::3]) == {'<s>SAdd 1.\n\n</s>\n\n\n<u>\n\n</u><a>\n'}
    assert set(got[1::3]) == {'TAdd 1.\n\n\n\n\nUSER: \n\nMODEL: \n'}
    assert set(got[2::3]) == {before}


def test_a_models_tokens_say_how_to_write_calls_and_results() -> None:
    text = text_of(PROMPTER.bind(TOKENS), 'q', TALK, [TOOL])
    assert '<u>Add 1.</u><a><t>add<with>{"x": 1}</t></a><e>2</e>\n<u>\nq' in text
    assert '### Function-call Format. \n\n<t>tool-name<with>{"argument": "value"}</t>\n\n</s>' in text


@pytest.mark.parametrize('lacking', ['soe', 'tool_start'])
def test_a_call_that_the_tokens_cannot_write_is_refused(lacking: str) -> None:
    tokens = {name: getattr(TOKENS, name) for name in Tokens.__dataclass_fields__ if name != lacking}
    with pytest.raises(PrompterError, match=lacking):
        PROMPTER.bind(tokens).generate_prompt('q', TALK)


def test_messages_as_input_are_history_and_the_users_last_words() -> None:
    bound = PROMPTER.bind(TOKENS)
    talk = [*TALK, {'role': 'user', 'content': [{'type': 'text', 'text': 'q'}]}]
    assert text_of(bound, talk) == text_of(bound, 'q', TALK)
    with pytest.raises(PrompterError, match="must be the user's"):
        bound.generate_prompt(TALK)
    picture = {'type': 'image_url', 'image_url': {'url': 'x'}}
    with pytest.raises(PrompterError, match='more than text'):
        bound.generate_prompt([{'role': 'user', 'content': [picture]}])


@pytest.mark.parametrize('model', [META, MetaTemplate.read(META), TextRenderer(MetaTemplate.read(META))], ids=type)
def test_a_meta_template_words_the_conversation(model: Any) -> None:
    bound = PROMPTER.bind(model)
    assert text_of(bound, 'q') == '<bos><S>S\nAdd.\n\n</S><H>q</H><B>'
    pairs = [['a', 'b']]
    messages = [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]
    expected = '<bos><S>S\nAdd.\n\n</S><H>a</H><B>b</B><H>q</H><B>'
    assert text_of(bound, 'q', pairs) == text_of(bound, 'q', messages) == expected
    assert text_of(bound, [*messages, {'role': 'user', 'content': 'q'}]) == expected
    assert text_of(bound, 'q', pairs, label='4') == f'{expected}4</B><eos>'
    assert '</S>' in text_of(bound, 'q', tools=[TOOL]).partition('### Function-call Tools. ')[2]


def test_a_meta_template_without_a_system_role_lets_the_user_say_it() -> None:
    bound = PROMPTER.bind({'round': META['round']})
    trace = bound.trace('q')
    assert trace.request == '<H>S\nAdd.\n\n</H><H>q</H><B>'
    assert any(note.kind == 'fallback' for note in trace.notes)


def test_a_meta_template_with_token_ids_gives_token_ids() -> None:
    meta = {'begin': [1], 'round': [{'role': 'HUMAN'}, {'role': 'BOT', 'generate': True}]}
    bound = EmptyPrompter().bind(meta)
    assert bound.generate_prompt('q') == [1, 'q']
    assert encode_trace(bound.trace('q'), special=lambda text: [0], plain=lambda text: [7]) == [1, 7]


def test_a_chat_template_words_the_conversation() -> None:
    bound = PROMPTER.bind(ChatRenderer(ChatTemplate(CHATML)))
    expected = (
        '<|im_start|>system\nS\nAdd.\n\n<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n'
        '<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n'
    )
    assert text_of(bound, 'q', [['a', 'b']]) == expected
    assert text_of(bound, 'q', [['a', 'b']], label='4') == f'{expected}4<|im_end|>\n'
    assert '### Function-call Tools. ' in text_of(bound, 'q', tools=[TOOL])
    with pytest.raises(PrompterError, match='history has a tool call, and this model has no form'):
        bound.generate_prompt('q', TALK)


def test_a_chat_template_that_knows_tools_writes_them_itself() -> None:
    bound = PROMPTER.bind(ChatRenderer(ChatTemplate(WITH_TOOLS)))
    text = text_of(bound, 'q', TALK, [TOOL])
    assert text.startswith('<tools>{"type": "function", ')
    assert text.endswith('[user]Add 1.[assistant]<call>add{"x": 1}</call>[tool]2[user]q[assistant]')
    in_messages = [*TALK, {'role': 'user', 'content': 'q'}]
    assert text_of(bound, in_messages, tools=[TOOL]) == text
    prefixed = ChatPrompter({'system': 'Add.', 'user': 'Now: '}, system='S').bind(bound.model)
    assert text_of(prefixed, in_messages).endswith('[user]Now: q[assistant]')
    assert text_of(prefixed, TALK[1:]).endswith('[user]Now: [assistant]<call>add{"x": 1}</call>[tool]2[assistant]')
    given = {'what': 'it', 'input': TALK[:1]}
    slotted = ChatPrompter({'user': '{what}: '}, system='').bind(bound.model)
    assert text_of(slotted, given) == '[user]it: Add 1.[assistant]'


def test_the_user_says_the_instruction_where_tools_leave_no_place_for_a_system_message() -> None:
    template = ChatTemplate(
        "{% if tools %}<tools>{{ tools | tojson }}</tools>{% for m in messages if m.role != 'system' %}"
        '[{{ m.role }}]{{ m.content }}{% endfor %}{% else %}'
        '{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% endif %}[assistant]'
    )
    bound = ChatPrompter('Add {x}.', system='S').bind(ChatRenderer(template))
    assert text_of(bound, '1+1').startswith('[system]S')
    assert text_of(bound, '1+1', tools=[TOOL]).endswith('</tools>[user]S\nAdd 1+1.\n\n[assistant]')


def test_a_local_model_gets_the_messages_that_its_server_would_get() -> None:
    template = ChatTemplate(CHATML)
    for prompter in (AlpacaPrompter('Add {x}.', system='S'), ChatPrompter('Add {x}.')):
        text = text_of(prompter.bind(template), '1+1')
        assert text == template.render(prompter.generate_prompt('1+1', return_dict=True)['messages'])
        assert text.endswith('Add 1+1.\n\n<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n')


def test_without_a_system_role_the_user_says_the_instruction_and_nothing_empty_follows() -> None:
    no_system = ChatTemplate(
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        '[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]'
    )
    prompter = AlpacaPrompter('Add {x}.', system='S')
    text = text_of(prompter.bind(no_system), '1+1')
    assert text.startswith('[user]S\nBelow is')
    assert text.endswith('Add 1+1.\n\n[assistant]')
    meta = dict(round=[dict(role='HUMAN', begin='<h>', end='</h>'), dict(role='BOT', generate=True)])
    assert text_of(prompter.bind(meta), '1+1').endswith('Add 1+1.\n\n</h>')


def test_a_template_gets_the_bare_input_as_the_user_message() -> None:
    chat = ChatRenderer(ChatTemplate(CHATML))
    assert text_of(EmptyPrompter().bind(chat), 'q') == '<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n'


def test_an_inference_prompt_is_the_beginning_of_the_training_text() -> None:
    sides: list[Any] = [None, TOKENS, META, ChatRenderer(ChatTemplate(CHATML)), ChatRenderer(ChatTemplate(WITH_TOOLS))]
    prompters = [AlpacaPrompter('Do {x}.'), ChatPrompter('Do.'), ChatPrompter({'system': 'S', 'user': 'U {x}'})]
    for side in sides:
        for prompter in prompters:
            bound = prompter.bind(side)
            prompt, training = bound.generate_prompt('q'), bound.generate_prompt('q', label='yes')
            assert training.startswith(f'{prompt}yes')


def test_messages_are_the_same_whatever_text_model_a_prompter_is_bound_to() -> None:
    for side in (META, ChatRenderer(ChatTemplate(CHATML))):
        for form in ('openai', 'anthropic'):
            assert PROMPTER.bind(side).generate_prompt('q', format=form) == PROMPTER.generate_prompt('q', format=form)


def test_an_api_is_nothing_to_bind_to() -> None:
    with pytest.raises(PrompterError, match='takes messages'):
        PROMPTER.bind(ApiRenderer())


def test_a_role_that_a_meta_template_lacks_is_an_error_of_ours() -> None:
    with pytest.raises(RolecallError, match='tool'):
        PROMPTER.bind(META).generate_prompt('q', TALK[2:])


def test_a_spoken_shape_is_laid_out_once() -> None:
    calls = []

    class Counting:
        def render(self, script: Any, mode: Any, *, prefill: bool = False) -> Any:
            calls.append(mode)
            return TextRenderer(MetaTemplate.read(META)).render(script, mode, prefill=prefill)

    bound = PROMPTER.bind(Counting())
    texts = {bound.generate_prompt(str(i), [[str(i), 'b']]) for i in range(5)}
    assert len(texts) == 5
    assert calls == ['gen']


SIDES: list[Any] = [TOKENS, MetaTemplate.read(META), ChatTemplate(CHATML), ChatRenderer(ChatTemplate(CHATML))]


@pytest.mark.parametrize('side', SIDES, ids=['tokens', 'meta', 'template', 'renderer'])
def test_messages_do_not_end_with_the_assistant(side: Any) -> None:
    talk = [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]
    with pytest.raises(PrompterError, match='the last message of a'):
        PROMPTER.bind(side).generate_prompt(talk)


@pytest.mark.parametrize('side', SIDES, ids=['tokens', 'meta', 'template', 'renderer'])
def test_the_response_is_the_answer_whatever_closes_it(side: Any) -> None:
    bound = PROMPTER.bind(side)
    prompt, whole = bound.generate_prompt('1+1'), bound.generate_prompt('1+1', label='2')
    assert bound.get_response(whole, prompt) == bound.get_response(whole.rstrip('\n'), prompt) == '2'
    assert bound.get_response('2') == '2'


def test_without_a_system_level_tools_are_told_to_the_user() -> None:
    prompter = ChatPrompter({'system': 'S', 'user': 'U '}, enable_system=False, tools=[TOOL]).bind(META)
    prompt = prompter.generate_prompt('q')
    assert '<S>' not in prompt
    assert prompt.startswith('<bos><H>### Function-call Tools.')
    assert prompt.endswith('SU q</H><B>')


BLOCKS: list[tuple[Any, str]] = [
    ({'role': 'assistant', 'content': [{'type': 'tool_use', 'id': '1'}]}, "a part of type 'tool_use' needs a name"),
    ({'role': 'user', 'content': [{'type': 'image'}]}, "a part of type 'image' needs a source"),
    ({'role': 'user', 'content': [{'type': 'image', 'source': {'type': 'base64', 'data': ''}}]}, 'media_type and data'),
    ({'role': 'user', 'content': [{'type': 'text'}, {'type': 'tool_result'}]}, "a part of type 'text' needs a text"),
    ({'role': 'user', 'content': [{'type': 'tool_result', 'content': ['a']}]}, 'text or a list of parts'),
    ({'role': 'assistant', 'content': 'a', 'tool_calls': 5}, 'tool_calls must be a list'),
]


@pytest.mark.parametrize(('message', 'reason'), BLOCKS)
@pytest.mark.parametrize('form', [{}, {'format': 'openai'}, {'format': 'anthropic'}])
def test_broken_parts_of_messages_are_named(message: Any, reason: str, form: Any) -> None:
    with pytest.raises(PrompterError, match=reason):
        PROMPTER.bind(TOKENS).generate_prompt('q', [message], **form)


def test_a_block_that_calls_beside_no_calls_is_a_call() -> None:
    block = {'type': 'tool_use', 'id': '1', 'name': 'add', 'input': {'x': 1}}
    message = {'role': 'assistant', 'content': [block], 'tool_calls': None}
    [_, said, _] = PROMPTER.generate_prompt('q', [message], format='openai')['messages']
    assert said['tool_calls'][0]['function']['name'] == 'add'


def test_a_tool_without_its_wrapping_is_sent_in_each_vendor_s() -> None:
    bare = {'name': 'add', 'description': 'Adds.', 'parameters': {'type': 'object', 'properties': {}}}
    openai, anthropic = (PROMPTER.generate_prompt('q', tools=[bare], format=form) for form in ('openai', 'anthropic'))
    assert openai['tools'] == [{'type': 'function', 'function': bare}]
    assert anthropic['tools'] == [
        {'name': 'add', 'description': 'Adds.', 'input_schema': {'type': 'object', 'properties': {}}}
    ]
    with pytest.raises(PrompterError, match=r'tools\[0\]: parameters must be a JSON Schema'):
        PROMPTER.generate_prompt('q', tools=[{'name': 'add', 'parameters': ['a']}])


@pytest.mark.parametrize('side', SIDES, ids=['tokens', 'meta', 'template', 'renderer'])
def test_a_bound_prompter_can_be_pickled_and_copied(side: Any) -> None:
    bound = PROMPTER.bind(side)
    for again in (pickle.loads(pickle.dumps(bound)), copy.deepcopy(bound)):
        assert again.generate_prompt('1+1') == bound.generate_prompt('1+1')


def test_a_failure_and_a_picture_in_a_tool_result_stay_so_for_the_other_vendor() -> None:
    picture = {'type': 'image', 'source': {'type': 'base64', 'media_type': 'image/png', 'data': 'AAAA'}}
    results = [
        {'type': 'tool_result', 'tool_use_id': '1', 'content': 'no such city', 'is_error': True},
        {'type': 'tool_result', 'tool_use_id': '2', 'content': [picture]},
    ]
    messages = PROMPTER.generate_prompt('q', [{'role': 'user', 'content': results}], format='openai')['messages']
    assert messages[1]['content'] == 'Error: no such city'
    assert messages[2]['content'][0]['image_url'] == {'url': 'data:image/png;base64,AAAA'}


ANSWER = {'role': 'assistant', 'content': None, 'tool_calls': [CALL]}


def test_an_answer_with_a_tool_call_is_worded_as_the_model_words_calls() -> None:
    chat = PROMPTER.bind(ChatTemplate(WITH_TOOLS))
    for given in (ANSWER, [ANSWER]):
        text = chat.generate_prompt('q', tools=[TOOL], label=given)
        assert text == chat.generate_prompt('q', tools=[TOOL]) + '<call>add{"x": 1}</call>'
    tokens = PROMPTER.bind({'soa': '<a>', 'eoa': '</a>', 'tool_start': '<t>', 'tool_end': '</t>'})
    text = text_of(tokens, 'q', label=ANSWER)
    assert text == tokens.generate_prompt('q') + '<t>{"name": "add", "arguments": {"x": 1}}</t></a>'
    sent = PROMPTER.generate_prompt('q', label=ANSWER, return_dict=True)['messages']
    assert sent[-1] == {'role': 'assistant', 'content': None, 'tool_calls': [CALL]}
    blocks = PROMPTER.generate_prompt('q', label=ANSWER, format='anthropic')['messages'][-1]['content']
    assert blocks == [{'type': 'tool_use', 'id': 'c1', 'name': 'add', 'input': {'x': 1}}]
    assert PROMPTER.generate_prompt('q', label={'role': 'assistant', 'content': 'Two.'}) == PROMPTER.generate_prompt(
        'q', label='Two.'
    )


@pytest.mark.parametrize(
    ('label', 'said'),
    [
        (ANSWER, 'the answer has a tool call, and this model has no form for one'),
        ({'role': 'user', 'content': 'x'}, "must be an assistant message, got one of role 'user'"),
        ({'role': 'assistant'}, 'answer: a message needs content or tool_calls'),
        ({'role': 'assistant', 'tool_calls': [{'name': 'add'}]}, 'answer: a tool call must name its function'),
    ],
)
def test_an_answer_that_the_model_cannot_say_is_refused(label: Any, said: str) -> None:
    with pytest.raises(PrompterError, match=said):
        PROMPTER.bind(ChatTemplate(CHATML)).generate_prompt('q', label=label)


def test_a_prompter_can_give_the_messages_that_a_chat_template_receives() -> None:
    for source, tools in ((WITH_TOOLS, [TOOL]), (CHATML, [])):
        chat = ChatRenderer(ChatTemplate(source))
        messages = PROMPTER.bind(MessagesRenderer(chat)).generate_prompt('q', tools=[TOOL])
        assert chat.template.render(messages, tools=tools or None) == PROMPTER.bind(chat).generate_prompt(
            'q', tools=[TOOL]
        )
