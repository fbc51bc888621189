"""Models that take messages: what a chat template hides is said so, and what cannot be sent is refused at once."""

from __future__ import annotations

from typing import Any

import pytest

from helpers import API, LM, bot, config, human
from rolecall import PromptTemplate, RolecallError, compile
from rolecall.core import ApiRenderer, MetaTemplate, MMPromptTemplate, RawPromptTemplate, TextRenderer, Wording
from rolecall.core.render.chat_renderer import ChatLayout, ChatRenderer
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.spans import join_spans, texts_of
from rolecall.errors import RenderError, TemplateError
from rolecall.experiment.experiment import preview
from tables import in_one

ROUND = {'round': [human('{question}'), bot('{answer}')]}
LINES = '{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}'
TEXT: Any = TextRenderer
MESSAGES: Any = ApiRenderer
CHAT: Any = ChatRenderer
TEMPLATE: Any = ChatTemplate(LINES)
TOOL = {'type': 'function', 'function': {'name': 'look', 'parameters': {}}}


@in_one
@pytest.mark.parametrize(
    'shown',
    [
        'm.content[:4]',
        'm.content[2:]',
        'm.content[:1]',
        'm.content[3:9]',
        'm.content | truncate(9)',
        'm.content | upper',
        'm.content | replace(".", "")',
        'm.content | replace(";", "")',
        'm.content | reverse',
        'm.content | length',
        'm.content.split(";")[0]',
    ],
)
@pytest.mark.parametrize('value', ['abcdefgh ijk', 'a', '', '\ue0000.7;', '\ue0000.0;x\ue0010.', '5;.'])
def test_what_a_chat_template_does_to_contents_never_breaks_a_trace(shown: str, value: str) -> None:
    side = ChatRenderer(ChatTemplate('{% for m in messages %}[{{ m.role }}] {{ ' + shown + ' }}\n{% endfor %}'))
    program = compile(PromptTemplate({'round': [human('{question}'), bot('b'), human('{question}')]}), side)
    trace = program.trace({'question': value})
    assert join_spans(trace.spans) == texts_of(program({'question': value}))


def test_contents_cut_by_a_chat_template_are_labelled_as_its_own() -> None:
    source = '{% for m in messages %}[{{ m.role }}] {{ m.content[:4] }}\n{% endfor %}'
    model = {'abbr': 'm', 'type': 'HuggingFacewithChatTemplate', 'path': 'none', 'chat_template': source}
    prompt = {'type': 'PromptTemplate', 'template': ROUND}
    (one,) = preview(config([{'question': 'abcdefgh', 'answer': 'x'}], prompt, model=model))
    assert [(span.text, span.origin.kind) for span in one.spans] == [('[user] abcd\n', 'chat_template')]


@in_one
@pytest.mark.parametrize(
    ('make', 'said'),
    [
        pytest.param(lambda: MetaTemplate.read((5,)), 'expected a message with role and content', id='a tuple'),
        pytest.param(lambda: MetaTemplate.read(({},)), None, id='a stray comma'),
        pytest.param(
            lambda: MetaTemplate.read({'round': [{'role': 'HUMAN', 'api_role': ['x']}]}),
            r"round\[0\]\.api_role\n  unknown api_role \['x'\]",
            id='an api_role',
        ),
        pytest.param(lambda: TEXT('chatml'), 'expected a mapping with a round', id='a name'),
        pytest.param(lambda: MESSAGES(5), 'expected a mapping with a round', id='a number'),
        pytest.param(lambda: CHAT(5), 'expected a ChatTemplate', id='no chat template'),
        pytest.param(lambda: CHAT('{% for %}'), 'does not parse', id='a broken source'),
        pytest.param(
            lambda: CHAT(TEMPLATE, {'rond': []}),
            "unknown key 'rond'",
            id='a misspelt key',
        ),
        *[
            pytest.param(
                lambda found=found: ChatTemplate.from_tokenizer_config({'chat_template': found}),
                'needs a name and a template',
                id=f'{found}',
            )
            for found in ([{'name': 'x'}], [{'template': 'x'}], ['x'], {'default': 5}, [{'name': 1, 'template': 'x'}])
        ],
        pytest.param(lambda: TEMPLATE.render(None), 'a list of messages', id='no messages'),
        pytest.param(lambda: TEMPLATE.render('hi'), 'a list of messages', id='a text'),
    ],
)
def test_a_wrong_model_side_is_refused_at_once(make: Any, said: str | None) -> None:
    if said is None:
        make()
        return
    with pytest.raises(RolecallError, match=said) as refused:
        make()
    assert isinstance(refused.value, (TemplateError, RenderError))


def test_model_sides_understand_what_configs_write() -> None:
    row = {'question': 'q', 'answer': 'a'}
    assert compile(PromptTemplate(ROUND), TEXT(LM))(row) == '<H>q</H><B>'
    assert compile(PromptTemplate(ROUND), MESSAGES(API))(row) == [{'role': 'user', 'content': 'q'}]
    assert compile(PromptTemplate(ROUND), CHAT(LINES))(row) == '[user] q\n'


@in_one
@pytest.mark.parametrize(
    'template',
    [
        PromptTemplate(ROUND),
        RawPromptTemplate([{'role': 'user', 'content': '{question}'}, {'role': 'assistant', 'content': '{answer}'}]),
    ],
)
def test_an_answer_that_nobody_began_is_no_message(template: Any) -> None:
    row = {'question': 'q', 'answer': 'GOLD'}
    wording = Wording(template, output_column='answer')
    program = compile(wording, ApiRenderer(), prefill=True)
    assert program(row) == [{'role': 'user', 'content': 'q'}]
    asking = ChatTemplate(LINES + '{% if add_generation_prompt %}[assistant] {% endif %}')
    assert compile(wording, ChatRenderer(asking), prefill=True)(row) == '[user] q\n[assistant] '


def test_a_begun_answer_is_still_sent() -> None:
    raw = [{'role': 'user', 'content': '{question}'}, {'role': 'assistant', 'content': 'It is {answer}'}]
    program = compile(Wording(RawPromptTemplate(raw), output_column='answer'), ApiRenderer(), prefill=True)
    assert program({'question': 'q', 'answer': 'GOLD'})[-1] == {'role': 'assistant', 'content': 'It is '}


@in_one
@pytest.mark.parametrize(
    ('parts', 'expected'),
    [
        pytest.param({'text': '{question}', 'image': '{image}'}, ['[q', 'i.png', ']'], id='the picture last'),
        pytest.param({'image': '{image}'}, ['[', 'i.png', ']'], id='no text'),
        pytest.param({'text': '{question}'}, ['[q]'], id='no picture'),
    ],
)
@pytest.mark.parametrize('by', ['dataset', 'model'])
def test_words_around_a_speech_go_around_its_parts(parts: dict[str, str], expected: list[str], by: str) -> None:
    around = {'begin': '[', 'end': ']'}
    speech = {'role': 'HUMAN', 'prompt_mm': parts, **(around if by == 'dataset' else {})}
    asking, answering = API['round']
    side = MetaTemplate.read({'round': [{**asking, **(around if by == 'model' else {})}, answering]})
    program = compile(MMPromptTemplate({'round': [speech]}), ApiRenderer(side))
    trace = program.trace({'question': 'q', 'image': 'i.png'})
    (message,) = trace.request
    assert isinstance(message, dict)
    assert list(texts_of([message]).values()) == expected
    assert join_spans(trace.spans) == texts_of(trace.request)
    kinds = [span.origin.kind for span in trace.spans]
    assert kinds[0] == kinds[-1] == ('text' if by == 'dataset' else 'marker')


def test_begin_of_a_speech_with_pictures_is_filled_and_token_ids_are_refused() -> None:
    speech = {'role': 'HUMAN', 'begin': '{question}: ', 'prompt_mm': {'image': '{image}'}}
    (message,) = compile(MMPromptTemplate({'round': [speech]}), ApiRenderer())({'question': 'q', 'image': 'i.png'})
    assert message['content'][0] == {'type': 'text', 'text': 'q: '}
    ids = MetaTemplate.read({'round': [{'role': 'HUMAN', 'api_role': 'HUMAN', 'begin': [1]}, API['round'][1]]})
    with pytest.raises(TemplateError, match='token ids; an API takes text'):
        compile(MMPromptTemplate({'round': [{'role': 'HUMAN', 'prompt_mm': {'image': '{image}'}}]}), ApiRenderer(ids))


def test_tools_need_a_place_in_the_chat_template() -> None:
    with pytest.raises(TemplateError, match='does not print tools'):
        ChatRenderer(ChatTemplate(LINES), tools=(TOOL,))
    taking = ChatRenderer(ChatTemplate('{{ tools | tojson if tools else "" }}' + LINES), tools=(TOOL,))
    assert 'look' in str(compile(PromptTemplate(ROUND), taking)({'question': 'q', 'answer': ''}))


@in_one
@pytest.mark.parametrize(
    ('template', 'tools', 'roles'),
    [
        ('{% if tools %}{{ tools|tojson }}{% endif %}' + LINES, (TOOL,), ['system', 'user']),
        (
            "{% if not tools %}{{ raise_exception('no system') if messages[0].role == 'system' }}{% endif %}"
            '{{ tools|tojson if tools }}' + LINES,
            (TOOL,),
            ['system', 'user'],
        ),
        (
            "{% if not tools %}{{ raise_exception('no system') if messages[0].role == 'system' }}{% endif %}"
            '{{ tools|tojson if tools }}' + LINES,
            (),
            ['user'],
        ),
        (
            "{{ raise_exception('no system') if tools and messages[0].role == 'system' }}"
            '{{ tools|tojson if tools }}' + LINES,
            (TOOL,),
            ['user'],
        ),
    ],
    ids=['always', 'with tools only: given', 'with tools only: none', 'without tools only'],
)
def test_whether_a_system_message_is_taken_is_asked_with_the_tools(template: str, tools: Any, roles: list[str]) -> None:
    written = {'begin': [{'role': 'SYSTEM', 'fallback_role': 'HUMAN', 'prompt': 'Be brief.'}], **ROUND}
    side = ChatRenderer(ChatTemplate(template), tools=tools)
    layout = side.render(PromptTemplate(written).script(), 'gen').layout
    assert isinstance(layout, ChatLayout)
    assert [message['role'] for message in layout.messages.fill({'question': 'q'})] == roles
