"""How a model is addressed: meta templates, APIs, chat templates, and what happens to words on the way."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from helpers import API, LM, bot, config, human, requests, shown, system, template
from rolecall import PromptTemplate, compile
from rolecall.core import (
    ApiRenderer,
    DialogueProgram,
    MetaTemplate,
    MMPromptTemplate,
    MultiTurnPromptTemplate,
    RawPromptTemplate,
    TextRenderer,
    Wording,
    compile_labels,
    fingerprint,
)
from rolecall.core.prompts.multimodal import MediaUrl
from rolecall.core.render.chat_renderer import ChatRenderer
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.spans import join_spans, texts_of
from rolecall.errors import RenderError

QA = [{'question': 'q', 'answer': 'a'}]
ROUND = {'round': [human('{question}'), bot('{answer}')]}


def ask(written: Any, meta: Any, *, mode: Any = 'gen', **options: Any) -> Any:
    """One request of a text model for a row with question q and answer a."""
    side = TextRenderer(MetaTemplate.read(meta)) if meta is not None else TextRenderer()
    return compile(Wording(PromptTemplate(written), output_column='answer'), side, mode=mode, **options)(QA[0])


@pytest.mark.parametrize(
    ('written', 'meta', 'expected'),
    [
        pytest.param(
            ROUND, {'round': ['~', *LM['round'], '!']}, '~<H>q</H><B>', id='strings of the round up to the answer'
        ),
        pytest.param(
            {'round': [human('1'), bot('2'), human('{question}')]},
            {'round': ['~', *LM['round'], '!']},
            '~<H>1</H><B>2</B>!~<H>q</H><B>',
            id='strings of the round in every round',
        ),
        pytest.param(
            {'round': [system('s'), human('{question}')]},
            {**LM, 'reserved_roles': [{'role': 'SYSTEM', 'begin': '<S>', 'end': '</S>'}]},
            '<S>s</S><H>q</H><B>',
            id='a reserved role inside the round',
        ),
        pytest.param(
            {'round': [human('{question}', begin='[', end=']'), bot('{answer}')]},
            LM,
            '[q]<B>',
            id="the dataset's begin and end win",
        ),
        pytest.param(
            {'round': [{'role': 'HUMAN'}, bot('{answer}')]},
            {'round': [{'role': 'HUMAN', 'prompt': 'default {question}'}, LM['round'][1]]},
            'default {question}<B>',
            id='a speech without words takes the default, as it is',
        ),
        pytest.param(
            {'round': [human('{question}')]},
            {
                'round': [
                    LM['round'][0],
                    {'role': 'THOUGHT', 'begin': '<T>', 'end': '</T>', 'prompt': 'hm'},
                    LM['round'][1],
                ]
            },
            '<H>q</H><T>hm</T><B>',
            id='a default between the question and the answer',
        ),
        pytest.param(
            {'round': [human('{question}'), {'role': 'AFTER', 'prompt': 'x'}]},
            {'round': [*LM['round'], {'role': 'AFTER', 'begin': '<A>'}]},
            '<H>q</H><B>',
            id='what a role says after the place of the answer is not sent',
        ),
        pytest.param(ROUND, {'begin': '[', 'end': ']'}, '[q]', id='no round: begin and end around the lines'),
        pytest.param(
            ROUND,
            {'round': [{**r, 'generate': False} for r in LM['round']], 'end': '.'},
            '<H>q</H><B></B>.',
            id='nobody generates',
        ),
        pytest.param('{question}: {answer}', LM, 'q: ', id='a string stays as it is'),
        pytest.param({'begin': 'B', **ROUND}, LM, 'B<H>q</H><B>', id='begin as a string'),
        pytest.param(
            {'begin': [human('{question}'), bot('{answer}')]}, LM, '<H>q</H><B></B><B>', id='only a begin section'
        ),
        pytest.param(
            {'round': [human('x', begin='[', end=']'), bot('y')]}, None, '[x]\ny', id='no meta: own begin and end'
        ),
    ],
)
def test_a_text_model_receives(written: Any, meta: Any, expected: str) -> None:
    assert ask(written, meta) == expected


def test_an_answer_can_be_begun_for_the_model() -> None:
    written = {'round': [human('{question}'), bot('Answer: {answer}')]}
    assert ask(written, LM) == '<H>q</H><B>'
    assert ask(written, LM, prefill=True) == '<H>q</H><B>Answer: '
    (one,) = shown(QA, template(written), meta=API, api=True, inferencer={'type': 'GenInferencer', 'prefill': True})
    assert one.request == [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': 'Answer: '}]
    (told,) = shown(QA, template(written), meta=LM)
    assert [(note.kind, note.text) for note in told.notes] == [('not_sent', 'Answer: ')]


def test_token_ids_are_carried_between_the_words() -> None:
    meta = {
        'begin': [1],
        'round': [
            {'role': 'HUMAN', 'begin': ['<H>', 7], 'end': [8]},
            {'role': 'BOT', 'begin': [9, 10], 'generate': True},
        ],
    }
    assert ask(ROUND, meta) == [1, '<H>', 7, 'q', 8, 9, 10]
    side = TextRenderer(MetaTemplate.read(meta), encode=lambda text: [ord(c) for c in text])
    program = compile(Wording(PromptTemplate(ROUND), output_column='answer'), side)
    assert program(QA[0]) == [1, 60, 72, 62, 7, 113, 8, 9, 10]
    trace = compile(
        Wording(PromptTemplate(ROUND), output_column='answer'), TextRenderer(MetaTemplate.read(meta))
    ).trace(QA[0])
    assert [span.token for span in trace.spans if span.token is not None] == [1, 7, 8, 9, 10]
    assert join_spans(trace.spans) == texts_of(trace.request)


def test_a_column_token_map_gives_columns_tokens_of_their_own() -> None:
    wording = Wording(
        PromptTemplate('</input> {input} </target>', column_token_map={'input': '</input>', 'target': '</target>'}),
        output_column='target',
    )
    assert compile(wording)({'input': '</target>', 'target': 'T'}) == '</target> </target> '


def test_the_output_column_is_replaced_by_the_text_asked_for() -> None:
    inferencer = {'type': 'GenInferencer', 'gen_field_replace_token': '___'}
    assert requests(QA, template('{question} {answer}'), inferencer=inferencer) == ['q ___']


def test_labels_of_any_hashable_type_keep_their_order() -> None:
    programs = compile_labels(PromptTemplate({1: '{q} one', True is False: '{q} no', (2, 3): '{q} pair'}))
    assert [(label, program({'q': 'x'})) for label, program in programs.items()] == [
        (1, 'x one'),
        (False, 'x no'),
        ((2, 3), 'x pair'),
    ]


def test_every_span_knows_where_it_comes_from() -> None:
    wording = Wording(
        PromptTemplate({'begin': [system('Solve.'), '</E>'], 'round': [human('Q: {q}'), bot('{a}')]}, ice_token='</E>'),
        PromptTemplate({'round': [human('{q}'), bot('{a}')]}),
        output_column='a',
    )
    trace = compile(wording, TextRenderer(MetaTemplate.read(LM)), shots=[{'q': 's', 'a': 't'}]).trace(
        {'q': 'x', 'a': 'y'}
    )
    labels = [(s.text, s.origin.kind, s.origin.name, s.origin.shot, s.origin.fallback) for s in trace.spans]
    assert labels == [
        ('<H>', 'marker', 'HUMAN', None, ''),
        ('Solve.', 'text', '', None, 'HUMAN'),
        ('</H>', 'marker', 'HUMAN', None, ''),
        ('<H>', 'marker', 'HUMAN', 0, ''),
        ('s', 'field', 'q', 0, ''),
        ('</H>', 'marker', 'HUMAN', 0, ''),
        ('<B>', 'marker', 'BOT', 0, ''),
        ('t', 'field', 'a', 0, ''),
        ('</B>', 'marker', 'BOT', 0, ''),
        ('<H>', 'marker', 'HUMAN', None, ''),
        ('Q: ', 'text', '', None, ''),
        ('x', 'field', 'q', None, ''),
        ('</H>', 'marker', 'HUMAN', None, ''),
        ('<B>', 'marker', 'BOT', None, ''),
    ]


def test_messages_of_the_model_side_are_merged_role_by_role() -> None:
    raw = {
        'type': 'RawPromptTemplate',
        'messages': [{'role': 'system', 'content': 'dsys'}, {'role': 'user', 'content': '{question}'}],
    }
    extra = [{'role': 'system', 'content': 'SYS '}, {'role': 'user', 'content': 'EXTRA '}]
    assert requests(QA, raw, meta=extra, api=True) == [
        [{'role': 'system', 'content': 'SYS dsys'}, {'role': 'user', 'content': 'EXTRA q'}]
    ]
    alone = {'type': 'RawPromptTemplate', 'messages': [{'role': 'user', 'content': '{question}'}]}
    assert requests(QA, alone, meta=extra[:1], api=True) == [
        [{'role': 'system', 'content': 'SYS '}, {'role': 'user', 'content': 'q'}]
    ]


def test_raw_messages_go_as_they_are() -> None:
    call = {'role': 'assistant', 'content': None, 'tool_calls': [{'id': '1'}]}
    messages = [
        {'role': 'user', 'content': 'a {q}'},
        {
            'role': 'user',
            'content': [
                {'type': 'text', 'text': '{q}'},
                {'type': 'image_url', 'image_url': {'url': '{u}', 'detail': 'low'}},
            ],
        },
        call,
        {'role': 'tool', 'content': '{q}', 'tool_call_id': '1'},
        {'expand_column': 'more'},
    ]
    row = {'q': 'x', 'u': 'http://u', 'more': [{'role': 'user', 'content': 'a {q}'}]}
    program = compile(RawPromptTemplate(messages), ApiRenderer())
    assert program(row) == [
        {'role': 'user', 'content': 'a x'},
        {
            'role': 'user',
            'content': [
                {'type': 'text', 'text': 'x'},
                {'type': 'image_url', 'image_url': {'url': 'http://u', 'detail': 'low'}},
            ],
        },
        call,
        {'role': 'tool', 'content': 'x', 'tool_call_id': '1'},
        {'role': 'user', 'content': 'a {q}'},
    ]
    trace = program.trace(row)
    assert join_spans(trace.spans) == texts_of(trace.request)
    verbatim = compile(RawPromptTemplate([{'role': 'user', 'content': '{q}'}], format_variables=False), ApiRenderer())
    assert verbatim(row) == [{'role': 'user', 'content': '{q}'}]


def test_examples_as_raw_messages_take_the_place_of_the_token() -> None:
    raw = {'type': 'RawPromptTemplate', 'messages': ['</E>', {'role': 'user', 'content': '{question}'}]}
    ice = {
        'type': 'RawPromptTemplate',
        'messages': [{'role': 'user', 'content': '{question}'}, {'role': 'assistant', 'content': '{answer}'}],
    }
    assert requests(QA, raw, ice, [{'question': 't', 'answer': 'x'}], api=True) == [
        [{'role': 'user', 'content': 't'}, {'role': 'assistant', 'content': 'x'}, {'role': 'user', 'content': 'q'}]
    ]


CHATML = (
    '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}'
    '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
)
NO_SYSTEM = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    '<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<model>{% endif %}'
)


def chat(source: str, written: Any = ROUND, **options: Any) -> list[Any]:
    model = {'abbr': 'm', 'type': 'HuggingFacewithChatTemplate', 'path': 'none', 'chat_template': source}
    return shown([{'question': ' q ', 'answer': 'a'}], template(written), model=model, **options)


def test_a_chat_template_writes_the_text_and_its_contents_keep_their_origin() -> None:
    (one,) = chat(CHATML)
    assert one.request == '<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n'
    assert [(span.text, span.origin.kind) for span in one.spans] == [
        ('<|im_start|>user\n', 'chat_template'),
        ('q', 'field'),
        ('<|im_end|>\n<|im_start|>assistant\n', 'chat_template'),
    ]


def test_a_system_speech_falls_back_where_the_chat_template_refuses_it() -> None:
    (one,) = chat(NO_SYSTEM, {'begin': [system('Be brief.')], **ROUND})
    assert one.request == '<user>Be brief.\n q <model>'
    assert 'fallback' in [note.kind for note in one.notes]
    assert [s.origin.fallback for s in one.spans if s.text == 'Be brief.'] == ['user']


def test_a_chat_template_continues_a_begun_answer() -> None:
    written = {'round': [human('{question}'), bot('Answer: {answer}')]}
    (one,) = chat(CHATML, written, inferencer={'type': 'GenInferencer', 'prefill': True})
    assert one.request == '<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nAnswer:'


def test_what_cannot_be_told_is_the_chat_templates_own() -> None:
    upper = ChatTemplate('{% for m in messages %}{{ m.content | upper }}{% endfor %}')
    trace = compile(PromptTemplate(ROUND), ChatRenderer(upper)).trace(QA[0])
    assert [(span.text, span.origin.kind) for span in trace.spans] == [('Q', 'chat_template')]


def test_large_media_are_carried_by_reference() -> None:
    picture = 'A' * 20_000_000
    tagged = f'<AIS_TEXT_START>What?<AIS_CONTENT_TAG><AIS_IMAGE_START>{picture}<AIS_CONTENT_TAG>'
    side = ApiRenderer()
    parts = {
        'text': '{question}',
        'image': {'type': 'image_url', 'image_url': {'url': 'data:image/jpeg;base64,{image}'}},
    }
    programs = [compile(MMPromptTemplate({'round': [{'role': 'HUMAN', 'prompt_mm': parts}]}), side) for _ in range(3)]
    tracemalloc.start()
    shown_ = [
        program(row) for program in programs for row in ({'question': tagged}, {'question': '?', 'image': picture})
    ]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    url = shown_[0][0]['content'][1]['image_url']['url']  # type: ignore[call-overload,index]
    assert isinstance(url, MediaUrl)
    assert url == f'data:image/jpeg;base64,{picture}'
    assert fingerprint(shown_[0]) == fingerprint(programs[1]({'question': tagged}))


@pytest.mark.parametrize(
    ('question', 'expected'),
    [
        ('<AIS_IMAGE_START>a<AIS_CONTENT_TAG><AIS_TEXT_START>T<AIS_CONTENT_TAG>', ['i:f/a', 't:Q T.']),
        (
            '<AIS_TEXT_START>T<AIS_CONTENT_TAG><AIS_IMAGE_START>a<AIS_CONTENT_TAG><AIS_TEXT_START>U<AIS_CONTENT_TAG>',
            ['t:Q T', 'i:f/a', 't:U.'],
        ),
        (
            '<AIS_IMAGE_START>http://x/a<AIS_CONTENT_TAG><AIS_IMAGE_START>b<AIS_CONTENT_TAG>',
            ['t:Q .', 'i:http://x/a', 'i:f/b'],
        ),
        ('T', ['t:Q T.']),
    ],
)
def test_parts_follow_the_order_of_the_tags(question: str, expected: list[str]) -> None:
    parts = {'text': 'Q {question}.', 'image': 'f/{image}'}
    program = compile(MMPromptTemplate({'round': [{'role': 'HUMAN', 'prompt_mm': parts}]}), ApiRenderer())
    trace = program.trace({'question': question})
    content = trace.request[0]['content']  # type: ignore[call-overload,index]
    assert [f't:{p["text"]}' if p['type'] == 'text' else f'i:{p["image_url"]["url"]}' for p in content] == expected
    assert join_spans(trace.spans) == texts_of(trace.request)


def test_a_list_of_pictures_in_a_column_gives_a_part_for_each() -> None:
    parts = {'text': '{q}', 'image': {'type': 'image_url', 'image_url': {'url': 'file://{pics}'}}}
    program = compile(MMPromptTemplate({'round': [{'role': 'HUMAN', 'prompt_mm': parts}]}), ApiRenderer())
    content = program({'q': 'x', 'pics': ['a', 'data:b']})[0]['content']  # type: ignore[call-overload,index]
    assert [part['image_url']['url'] for part in content[1:]] == ['file://a', 'data:b']


def test_a_dialogue_goes_turn_by_turn_with_begin_and_further_columns() -> None:
    written = {'begin': [system('{topic}')], 'round': [human('{topic}: {q}'), bot('A: {a}')]}
    row = {'topic': 'math', 'q': ['1', '2'], 'a': ['x', 'y']}
    wording = Wording(MultiTurnPromptTemplate(written), output_column='a')
    every = DialogueProgram(wording, TextRenderer(MetaTemplate.read(LM)))
    assert every.turns_to_ask(row) == [0, 1]
    assert every(row, 0) == '<H>math</H><H>math: 1</H><B>'
    assert every(row, 1, ['reply {q}']) == '<H>math</H><H>math: 1</H><B>reply {q}</B><H>math: 2</H><B>'
    gold = DialogueProgram(wording, TextRenderer(MetaTemplate.read(LM)), infer_mode='last')
    assert gold.turns_to_ask(row) == [1]
    trace = gold.trace(row, 1)
    assert trace.request == '<H>math</H><H>math: 1</H><B>A: x</B><H>math: 2</H><B>'
    assert join_spans(trace.spans) == texts_of(trace.request)
    with pytest.raises(RenderError, match='needs the replies of all turns before it \\(1\\), got 0'):
        every(row, 1)
    with pytest.raises(RenderError, match='at least one turn'):
        every({'topic': 'x', 'q': [], 'a': []}, 0)


def test_a_dialogue_without_an_answering_speech_still_has_its_replies() -> None:
    wording = Wording(
        MultiTurnPromptTemplate({'round': [human('{q}')], 'end': [human('Last one.')]}), output_column='a'
    )
    dialogue = DialogueProgram(wording, ApiRenderer())
    row = {'q': ['1', '2'], 'a': ['x', 'y']}
    assert [m['content'] for m in dialogue(row, 1, ['r'])] == ['1', 'r', '2\nLast one.']  # type: ignore[call-overload,index]
    gold = DialogueProgram(wording, ApiRenderer(), infer_mode='every_with_gt')
    assert [m['content'] for m in gold(row, 1)] == ['1', 'x', '2\nLast one.']  # type: ignore[call-overload,index]


def test_messages_are_shared_but_cannot_be_changed() -> None:
    program = compile(PromptTemplate({'begin': [human('same'), bot('ok')], **ROUND}), ApiRenderer())
    first, second = program(QA[0]), program(QA[0])
    assert first == second
    assert first is not second
    with pytest.raises(TypeError, match='shared between requests'):
        first[0]['content'] = 'changed'  # type: ignore[call-overload,index]


def test_the_sep_token_says_where_the_answer_begins() -> None:
    from rolecall.experiment.experiment import Experiment
    from rolecall.sources.retrievers import Picked

    prompt = template({'x': '{question}: <SEP>x', 'yy': 'Q {question}: <SEP>yy'}, sep_token='<SEP>')
    whole = config(QA, prompt, inferencer={'type': 'PPLInferencer'}, meta=LM)
    experiment = Experiment.open(whole)
    pair = experiment.pair(experiment.tasks[0], experiment.models[0])
    step = pair.step(QA[0], Picked(()))
    assert dict(step.requests) == {'x': 'q: x', 'yy': 'Q q: yy'}
    assert pair.answers_at(QA[0], step) == {'x': 3, 'yy': 5}
