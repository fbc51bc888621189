"""Fine-tuning data of datasets: what is trained on begins with exactly what inference sends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_template_corpus import (
    CHATML,
    CHATML_WITH_DEFAULT,
    DEEPSEEK,
    GEMMA,
    LLAMA2,
    LLAMA3,
    MISTRAL,
    PHI3,
    QWEN_THINKING,
    QWEN_TOOLS,
    VICUNA,
    ZEPHYR,
    Family,
)
from helpers import API, LM, bot, config, human, system, template
from rolecall import PromptTemplate
from rolecall.apps.sft.examples import MessagesExample, TextExample, UntrainableError
from rolecall.apps.sft.pair_examples import pair_examples
from rolecall.apps.sft.training_file import Form, SftReport, entries
from rolecall.apps.sft.training_programs import Aim, TrainingProgram
from rolecall.core import MetaTemplate, TextRenderer, Wording
from rolecall.core.render.meta import META_TEMPLATES, meta_template
from rolecall.errors import ConfigError, RenderError
from rolecall.experiment.experiment import Experiment, preview
from rolecall.experiment.pairs.pair import Pair, Preview
from tables import in_one

ROWS = [
    {'question': '1+1=?', 'answer': 2},
    {'question': 'Say {answer} </H>', 'answer': '<|im_end|> "{question}"\n\nand more'},
    {'question': ' ', 'answer': 'ü 你好 \\ </B>'},
]
SHOTS = [{'question': '0+1=?', 'answer': 'one'}, {'question': '3+1=?', 'answer': 'four'}]
ASKED = dict(round=[human('Q: {question}'), bot('{answer}')])
TEMPLATES: dict[str, Any] = {
    'a dialogue': ASKED,
    'words around the answer': dict(round=[human('Q: {question}'), bot('The answer is {answer}, sure.')]),
    'no speech for the answer': dict(round=[human('{question}')]),
    'an empty speech for the answer': dict(round=[human('{question}'), bot('')]),
    'a system message': dict(begin=[system('Be brief.')], round=[human('{question}'), bot('{answer}')]),
    'a dialogue before': dict(round=[human('Hi'), bot('Hello'), human('{question}')]),
    'the answer hidden in the question': dict(round=[human('{question} not {answer}'), bot('{answer}')]),
    'an end': dict(round=[human('{question}'), bot('{answer}')], end=[human('Bye')]),
    'a string': 'Q: {question}\nA: {answer}',
    'a string without the answer': 'Q: {question}\nA: ',
    'a string that mentions the answer twice': 'Not {answer}.\nQ: {question}\nA: {answer}',
}
CHATS: dict[str, Family] = {
    'chatml': CHATML,
    'default system': CHATML_WITH_DEFAULT,
    'llama2': LLAMA2,
    'llama3': LLAMA3,
    'gemma': GEMMA,
    'mistral': MISTRAL,
    'qwen': QWEN_TOOLS,
    'thinking': QWEN_THINKING,
    'deepseek': DEEPSEEK,
    'phi3': PHI3,
    'vicuna': VICUNA,
    'zephyr': ZEPHYR,
}
TEXT_FAMILIES = [name for name in META_TEMPLATES if not name.startswith('api') and name != 'shouting']
TURNS: dict[str, Any] = {
    'test': [{'question': ['a?', 'b?', 'c?'], 'answer': ['A', 'B', 'C']}],
    'prompt': {
        'type': 'MultiTurnPromptTemplate',
        'template': dict(begin=[system('Be brief.')], round=[human('{question}'), bot('{answer}')]),
    },
}


def chat_model(family: Family, **more: Any) -> dict[str, Any]:
    return {
        'abbr': 'chat',
        'type': 'HuggingFacewithChatTemplate',
        'path': 'none',
        'chat_template': family.source,
        'bos_token': family.bos,
        'eos_token': family.eos,
        **more,
    }


SIDES: dict[str, dict[str, Any]] = {
    **{f'meta {name}': {'meta': name} for name in TEXT_FAMILIES},
    **{f'chat {name}': {'model': chat_model(family)} for name, family in CHATS.items()},
}
CANNOT = {
    'chat phi3': 'ends earlier answers differently',  # the whole ends with a token that earlier answers do not have
    'chat mistral': 'does not begin with what inference sends',  # system words move to the last question
}


def pair_of(written: dict[str, Any]) -> Pair:
    experiment = Experiment.open(written)
    return experiment.pair(experiment.tasks[0], experiment.models[0])


def examples(written: dict[str, Any], form: Form = 'text', **aim: Any) -> list[Any]:
    return [teach() for _, teach in pair_examples(pair_of(written), form=form, aim=Aim(**aim))]


def taught(*args: Any, form: Form = 'text', all_answers: bool = False, end: str = '', **options: Any) -> list[Any]:
    return examples(config(*args, **options), form, all_answers=all_answers, end=end)


def trained(example: TextExample) -> list[str]:
    return [example.text[start:stop] for start, stop in example.stretches]


def with_requests(written: dict[str, Any], **aim: Any) -> Iterator[tuple[Preview, TextExample]]:
    yield from zip(preview(written), examples(written, **aim), strict=True)


# Symmetry.


@in_one
@pytest.mark.parametrize('family', TEXT_FAMILIES)
@pytest.mark.parametrize('name', TEMPLATES)
@pytest.mark.parametrize('shots', [None, SHOTS], ids=['zero shots', 'two shots'])
def test_every_meta_template_is_trained_with_what_it_is_asked(family: str, name: str, shots: Any) -> None:
    if shots and name.startswith('a string'):
        written = config(ROWS, template('</E>' + TEMPLATES[name], ice_token='</E>'), template('{question} {answer}'), shots, meta=family)  # fmt: skip
    elif shots:
        begin = TEMPLATES[name].get('begin', [])
        written = config(ROWS, template({**TEMPLATES[name], 'begin': [*begin, '</E>']}, ice_token='</E>'), template(ASKED), shots, meta=family)  # fmt: skip
    else:
        written = config(ROWS, template(TEMPLATES[name]), meta=family)
    role = next(role for role in meta_template(family)['round'] if role.get('generate'))
    for sent, example in with_requests(written):
        assert example.text.startswith(sent.request)
        assert example.asked == sent.request
        [(start, stop)] = example.stretches
        assert (start, stop) == (len(sent.request), len(example.text))
        answer = example.text[start:].removesuffix(role['end'] if isinstance(TEMPLATES[name], dict) else '')
        words = 'The answer is {}, sure.' if name == 'words around the answer' else '{}'
        assert answer == words.format(sent.values['answer'])


@in_one
@pytest.mark.parametrize('family', CHATS)
@pytest.mark.parametrize('name', TEMPLATES)
def test_every_chat_template_is_trained_with_what_it_is_asked(family: str, name: str) -> None:
    rows = [{'question': 'Say {answer}', 'answer': 'Well, {question} ü'}]
    written = config(rows, template(TEMPLATES[name]), model=chat_model(CHATS[family]))
    for sent, example in with_requests(written):
        assert example.text.startswith(sent.request)
        assert not example.lead.strip()
        [(start, stop)] = example.stretches
        assert start == len(sent.request)
        assert str(sent.values['answer']) in example.text[start:stop]
        assert example.ending
        assert example.text[start:stop].endswith(example.ending)


@in_one
@pytest.mark.parametrize('meta', [None, 'api', 'api-no-system'])
@pytest.mark.parametrize('family', [None, CHATML, LLAMA3], ids=['api', 'chatml', 'llama3'])
@pytest.mark.parametrize('name', TEMPLATES)
def test_the_messages_before_the_answer_are_the_request(name: str, family: Family | None, meta: str | None) -> None:
    entry = {'abbr': 'm', 'type': 'OpenAI', 'path': 'none', 'meta_template': meta}
    side = chat_model(family, meta_template=meta) if family else entry
    asked = preview(config(ROWS, template(TEMPLATES[name]), model=entry))
    made = examples(config(ROWS, template(TEMPLATES[name]), model=side), form='messages')
    for sent, example in zip(asked, made, strict=True):
        *before, answer = example.messages
        assert before == sent.request
        assert answer['role'] == 'assistant'
        assert str(sent.values['answer']) in answer['content']
        assert example.trained == {len(before)}


@given(st.text(), st.text().filter(str.strip))
def test_whatever_the_words_are_the_request_comes_first(question: str, answer: str) -> None:
    rows = [{'question': question, 'answer': answer}]
    for written in (
        config(rows, template(TEMPLATES['words around the answer']), meta=LM),
        config(rows, template(TEMPLATES['a string'])),
    ):
        [(sent, example)] = with_requests(written)
        assert example.text.startswith(sent.request)
        assert answer in example.text[len(sent.request) :]


@in_one
@pytest.mark.parametrize('side', [side for side in SIDES if side not in CANNOT])
@pytest.mark.parametrize('infer_mode', ['every', 'every_with_gt'])
@pytest.mark.parametrize(
    'speeches', [[human('{question}'), bot('{answer}')], [human('{question}')]], ids=['both', 'human']
)
def test_every_turn_of_a_dialogue_is_trained_with_what_it_is_asked(side: str, infer_mode: str, speeches: Any) -> None:
    prompt = {**TURNS['prompt'], 'template': dict(begin=[system('Be brief.')], round=speeches)}
    asks = {'type': 'MultiTurnGenInferencer', 'infer_mode': infer_mode}
    written = config(TURNS['test'], prompt, inferencer=asks, **SIDES[side])
    sent = [one.request for one in preview(written, replies=['A', 'B', 'C'])]
    [example] = examples(written)
    assert [start for start, _ in example.stretches] == list(map(len, sent))
    for request, words, answer in zip(sent, trained(example), 'ABC', strict=True):
        assert example.text.startswith(request)
        assert words.strip().startswith(answer)
        assert words.endswith(example.ending)


def test_an_answer_that_has_no_words_in_the_template_is_said_alone() -> None:
    prompt = {**TURNS['prompt'], 'template': dict(round=[human('{question}'), bot('')])}
    [example] = taught(TURNS['test'], prompt, inferencer={'type': 'MultiTurnGenInferencer'}, meta=LM)
    assert example.text == '<H>a?</H><B>A</B><H>b?</H><B>B</B><H>c?</H><B>C</B>'
    assert trained(example) == ['A</B>', 'B</B>', 'C</B>']
    with pytest.raises(UntrainableError, match="column 'answer' is empty at turn 1"):
        taught([{'question': ['a', 'b'], 'answer': ['A', '']}], prompt, inferencer={'type': 'MultiTurnGenInferencer'})


@in_one
@pytest.mark.parametrize(('side', 'reason'), CANNOT.items())
def test_a_chat_template_that_rewrites_earlier_turns_is_refused(side: str, reason: str) -> None:
    with pytest.raises(UntrainableError, match=reason):
        taught(**TURNS, inferencer={'type': 'MultiTurnGenInferencer'}, **SIDES[side])


def test_dialogues_through_an_api_are_messages_in_which_each_answer_is_trained_on() -> None:
    written = config(**TURNS, api=True, inferencer={'type': 'MultiTurnGenInferencer', 'infer_mode': 'last'})
    [example] = examples(written, form='messages')
    assert example.trained == {2, 4, 6}
    assert [example.messages[i]['content'] for i in sorted(example.trained)] == ['A', 'B', 'C']
    [sent] = preview(written)
    assert list(example.messages[:-1]) == sent.request


# What is trained on.


@in_one
@pytest.mark.parametrize(
    ('meta', 'text', 'words'),
    [
        (LM, '<H>Q</H><B>A</B>', 'A</B>'),
        ({**LM, 'end': '<eos>'}, '<H>Q</H><B>A</B>', 'A</B>'),
        ({'round': [{'role': 'HUMAN', 'end': '|'}, {'role': 'BOT', 'generate': True}], 'end': '<eos>'}, 'Q|A<eos>', 'A<eos>'),
        ({'round': [{'role': 'HUMAN', 'end': '|'}, {'role': 'BOT', 'generate': True}, '</s>']}, 'Q|A</s>', 'A</s>'),
        ({'round': [{'role': 'HUMAN', 'end': '|'}, {'role': 'BOT', 'end': '\n', 'generate': True}]}, 'Q|A\n', 'A\n'),
        (None, 'Q\nA', '\nA'),
    ],
)  # fmt: skip
def test_the_answer_is_trained_on_with_what_ends_it(meta: Any, text: str, words: str) -> None:
    [example] = taught([{'question': 'Q', 'answer': 'A'}], template(dict(round=[human('{question}'), bot('{answer}')])), meta=meta)  # fmt: skip
    assert example.text == text
    assert trained(example) == [words]


def test_an_end_can_be_given_where_there_is_none() -> None:
    [example] = taught([{'question': 'Q', 'answer': 'A'}], template('{question}: {answer}'), end='</s>')
    assert (example.text, trained(example)) == ('Q: A</s>', ['A</s>'])
    [example] = taught([{'question': 'Q', 'answer': 'A'}], template(ASKED), meta=LM, end='</s>')
    assert trained(example) == ['A</B>']


def test_a_chat_templates_turn_ends_with_its_token() -> None:
    family = Family(CHATML.source, eos='<|im_end|>')
    [example] = taught([{'question': 'Q', 'answer': 'A'}], template(ASKED), model=chat_model(family))
    assert trained(example) == ['A<|im_end|>']
    assert example.text.endswith('A<|im_end|>\n')


@in_one
@pytest.mark.parametrize('side', [side for side in SIDES if side != 'chat phi3'])
def test_answers_of_examples_are_trained_on_if_asked_for(side: str) -> None:
    prompt = template(dict(begin=['</E>'], round=[human('{question}'), bot('{answer}')]), ice_token='</E>')
    written = config([{'question': 'Q', 'answer': 'A'}], prompt, template(ASKED), SHOTS, **SIDES[side])
    [alone], [example] = examples(written), examples(written, all_answers=True)
    assert alone.text == example.text
    assert alone.stretches == example.stretches[-1:]
    said = [words.removesuffix(example.ending).strip() for words in trained(example)]
    assert said == ['one', 'four', 'A']
    assert all(words.endswith(example.ending) for words in trained(example))


def test_answers_of_examples_that_are_strings_are_trained_on_if_asked_for() -> None:
    prompt = template('</E>Q: {question} A: {answer}', ice_token='</E>')
    [example] = taught([{'question': 'q', 'answer': 'a'}], prompt, template('Q: {question} A: {answer}'), SHOTS, all_answers=True)  # fmt: skip
    assert trained(example) == ['one', 'four', 'a']


def test_answers_in_raw_messages_are_trained_on_if_asked_for() -> None:
    rows = [{'history': [{'role': 'user', 'content': 'Hi'}, {'role': 'assistant', 'content': 'Hello'}], 'question': 'q', 'answer': 'a'}]  # fmt: skip
    raw = {
        'type': 'RawPromptTemplate',
        'messages': [
            {'expand_column': 'history'},
            {'role': 'user', 'content': '{question}'},
            {'role': 'assistant', 'content': '{answer}'},
        ],
    }
    [example] = taught(rows, raw, model=chat_model(CHATML), all_answers=True)
    assert trained(example) == ['Hello<|im_end|>\n', 'a<|im_end|>\n']
    [sent] = preview(config(rows, raw, model=chat_model(CHATML)))
    assert example.asked == sent.request
    [messages] = taught(rows, raw, api=True, form='messages', all_answers=True)
    assert messages.trained == {1, 3}


def test_messages_that_are_not_trained_on_have_no_weight() -> None:
    prompt = template(dict(begin=['</E>'], round=[human('{question}'), bot('{answer}')]), ice_token='</E>')
    written = config([{'question': 'Q', 'answer': 'A'}], prompt, template(ASKED), SHOTS[:1], api=True)
    [entry] = entries(pair_examples(pair_of(written), form='messages'), SftReport(), form='messages')
    assert entry == {
        'messages': [
            {'role': 'user', 'content': 'Q: 0+1=?'},
            {'role': 'assistant', 'content': 'one', 'weight': 0},
            {'role': 'user', 'content': 'Q'},
            {'role': 'assistant', 'content': 'A'},
        ]
    }
    [entry] = entries(
        pair_examples(pair_of(written), form='messages', aim=Aim(all_answers=True)), SftReport(), form='messages'
    )
    assert not any('weight' in message for message in entry['messages'])


LABELS = {
    'A': dict(round=[human('{question}'), bot('It is A.')]),
    'B': dict(round=[human('{question}'), bot('It is B.')]),
}


@in_one
@pytest.mark.parametrize(
    ('written', 'options', 'asked', 'words'),
    [
        (LABELS, {'meta': LM}, '<H>q</H><B>', 'It is B.</B>'),
        (LABELS, {'model': chat_model(CHATML)}, '<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n', 'It is B.<|im_end|>\n'),
        ({'A': '{question} possible', 'B': '{question} positive'}, {}, 'q ', 'positive'),
        ({'A': '{question}:a', 'B': '{question}:b'}, {}, 'q:', 'b'),
    ],
)  # fmt: skip
def test_of_prompts_by_label_the_one_of_the_rows_label_is_trained_on(
    written: Any, options: Any, asked: str, words: str
) -> None:
    rows = [{'question': 'q', 'answer': 'B'}]
    whole = config(rows, template(written), inferencer={'type': 'PPLInferencer'}, **options)
    [example] = examples(whole)
    assert (example.asked, trained(example)) == (asked, [words])
    weighed = {one.label: one.request for one in preview(whole)}
    assert example.text == weighed['B']


def test_labels_in_one_prompt_and_sep_tokens_say_where_the_answer_begins() -> None:
    rows = [{'question': 'q', 'answer': 1}]
    labels = {'type': 'PPLInferencer', 'labels': ['0', '1']}
    [example] = taught(rows, template('{question}? {answer}!'), inferencer=labels)
    assert (example.text, trained(example)) == ('q? 1!', ['1!'])
    [example] = taught(rows, template('{question}? <sep>So {answer}', sep_token='<sep>'), inferencer=labels)
    assert trained(example) == ['So 1']


def test_labels_through_an_api_are_what_the_assistant_says() -> None:
    rows = [{'question': 'q', 'answer': 'B'}]
    [example] = taught(rows, template(LABELS), api=True, inferencer={'type': 'PPLInferencer'}, form='messages')
    assert example == MessagesExample(
        ({'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': 'It is B.'}), frozenset({1})
    )


# What is refused.


STRIPS = Family(CHATML.source.replace("message['content']", "message['content'].split('</think>')[-1]"))
SHOUTS = Family(CHATML.source.replace("message['content']", "message['content'].upper()"))
FORGETS = Family('{{ messages[-1].content }}{% if add_generation_prompt %}|{% endif %}')
ASKS_TO_THINK = Family(CHATML.source.replace("{{- '<|im_start|>assistant\\n' -}}", "{{- '<|im_start|>assistant\\n<think>\\n' -}}"))  # fmt: skip
DROPS_THOUGHTS = Family(
    "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' and loop.last %}<think></think>{% endif %}{{ m.content }}\n"
    '{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}'
)


@in_one
@pytest.mark.parametrize(
    ('family', 'answer', 'reason'),
    [
        (STRIPS, 'so</think>A', 'the chat template changes it'),
        (SHOUTS, 'a', 'the chat template changes it'),
        (FORGETS, 'A', 'does not begin with what inference sends'),
        (ASKS_TO_THINK, 'A', r"at character \d+ it has '.*A', inference sends '.*<think>\\n'"),
    ],
)
def test_a_chat_template_that_rewrites_the_answer_is_refused(family: Family, answer: str, reason: str) -> None:
    with pytest.raises(UntrainableError, match=reason):
        taught([{'question': 'Q', 'answer': answer}], template(ASKED), model=chat_model(family))


def test_a_chat_template_that_rewrites_earlier_answers_is_refused_turn_by_turn() -> None:
    options: Any = {'inferencer': {'type': 'MultiTurnGenInferencer'}, 'model': chat_model(DROPS_THOUGHTS)}
    with pytest.raises(UntrainableError, match='does not begin with what inference sends'):
        taught(**TURNS, **options)
    shots = config([{'question': 'Q', 'answer': 'A'}], template(dict(begin=['</E>'], **ASKED), ice_token='</E>'), template(ASKED), SHOTS, model=options['model'])  # fmt: skip
    [example] = examples(shots)
    assert example.lead == '<think></think>'
    with pytest.raises(UntrainableError, match='begins earlier answers differently'):
        examples(shots, all_answers=True)


def test_thoughts_can_be_trained_on_where_the_chat_template_keeps_them() -> None:
    thought = '<think>\nwell\n</think>\n\nA'
    [example] = taught([{'question': 'Q', 'answer': thought}], template(ASKED), model=chat_model(QWEN_THINKING))
    assert trained(example) == [f'{thought}<|im_end|>\n']
    turns = {**TURNS, 'test': [{'question': ['a?', 'b?'], 'answer': [thought, thought]}]}
    with pytest.raises(UntrainableError, match='does not begin with what inference sends'):
        taught(**turns, inferencer={'type': 'MultiTurnGenInferencer'}, model=chat_model(QWEN_THINKING))


def test_words_that_a_chat_template_puts_before_the_answer_are_reported() -> None:
    report = SftReport()
    written = config(ROWS[:1], template(ASKED), model=chat_model(DROPS_THOUGHTS))
    [entry] = entries(pair_examples(pair_of(written), form='text'), report, form='text')
    assert entry['text'].endswith('[assistant]<think></think>2\n')
    assert "1 row: the model side puts '<think></think>' between request and answer" in next(report.remarks())


@in_one
@pytest.mark.parametrize(
    ('row', 'reason'),
    [
        ({'question': 'q'}, "the answer is missing: column 'answer' is empty"),
        ({'question': 'q', 'answer': None}, 'the answer is missing'),
        ({'question': 'q', 'answer': ' \n'}, 'the answer is missing'),
    ],
)
@pytest.mark.parametrize('options', [{'meta': LM}, {'api': True, 'form': 'messages'}], ids=['text', 'messages'])
def test_a_row_without_an_answer_is_refused(row: dict[str, Any], reason: str, options: Any) -> None:
    with pytest.raises(UntrainableError, match=reason):
        taught([row], template(ASKED), **options)


@in_one
@pytest.mark.parametrize(
    ('given', 'options', 'reason'),
    [
        (template('{question}: {answer}.'), {}, 'does not begin with what inference sends'),
        (template(LABELS), {'inferencer': {'type': 'PPLInferencer'}}, 'not one of the labels'),
        (template(ASKED), {'meta': {'round': [{'role': 'HUMAN', 'begin': [1]}, {'role': 'BOT', 'generate': True}]}}, 'token ids'),
        (
            {'type': 'MMPromptTemplate', 'template': dict(round=[{'role': 'HUMAN', 'prompt_mm': {'text': '{question}', 'image': 'file://{question}'}}])},
            {'model': chat_model(CHATML)},
            'images, audio or video',
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_a_text_as_inference_sends_it_is_refused(given: Any, options: Any, reason: str) -> None:
    with pytest.raises(UntrainableError, match=reason):
        taught([{'question': 'q', 'answer': 'a'}], given, **options)


def test_pictures_are_kept_in_messages() -> None:
    shown = {'type': 'MMPromptTemplate', 'template': dict(round=[{'role': 'HUMAN', 'prompt_mm': {'text': '{question}', 'image': 'file://{question}'}}])}  # fmt: skip
    [example] = taught([{'question': 'q', 'answer': 'a'}], shown, api=True, form='messages')
    assert example.messages[0]['content'][1]['type'] == 'image_url'
    assert example.messages[-1] == {'role': 'assistant', 'content': 'a'}


@in_one
@pytest.mark.parametrize(
    ('options', 'form', 'reason'),
    [
        ({'meta': LM}, 'messages', 'takes text, not messages'),
        ({'api': True, 'meta': API}, 'text', 'takes messages, and no chat template is available'),
        ({'meta': LM, 'inferencer': {'type': 'PPLOnlyInferencer'}}, 'text', 'scores whole texts'),
        ({'meta': LM, 'output': None}, 'text', 'output_column is missing'),
    ],
)
def test_a_form_that_a_model_cannot_have_is_an_error_of_the_config(options: Any, form: Form, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        taught(ROWS, template(ASKED), form=form, **options)


def test_rows_that_give_no_example_are_an_error_or_counted() -> None:
    rows = [{'question': 'q', 'answer': answer} for answer in ('a', '', 'b', None)]
    pair = pair_of(config(rows, template(ASKED), meta=LM))
    with pytest.raises(RenderError, match=r"demo, row 1: the answer is missing: column 'answer' is empty\."):
        list(entries(pair_examples(pair, form='text'), SftReport(), form='text'))
    report = SftReport()
    assert len(list(entries(pair_examples(pair, form='text'), report, form='text', skip=True))) == report.examples == 2
    assert list(report.remarks()) == [
        "2 rows left out: the answer is missing. The first: demo, row 1: the answer is missing: column 'answer' is empty."
    ]


def test_a_begun_answer_that_is_sent_is_not_trained_on() -> None:
    rows = [{'question': 'q', 'answer': 'a'}]
    prefill = {'type': 'GenInferencer', 'prefill': True}
    begun = template(dict(round=[human('{question}'), bot('So: {answer}')]))
    for options in ({'meta': LM}, {'model': chat_model(CHATML)}):
        written = config(rows, begun, inferencer=prefill, **options)
        [(sent, example)] = with_requests(written)
        assert sent.request.endswith('So: ')
        assert example.asked == sent.request
        assert trained(example)[0].startswith('a')
    [example] = taught(rows, begun, inferencer=prefill, api=True, form='messages')
    assert example.messages[-1]['content'] == 'So: a'


@in_one
@pytest.mark.parametrize('side', [{'meta': LM}, {'model': chat_model(CHATML)}], ids=['text', 'chat'])
def test_examples_that_vary_by_row_are_those_of_the_request(side: dict[str, Any]) -> None:
    prompt = template(dict(begin=['</E>'], **ASKED), ice_token='</E>')
    train = [{'question': f'{n}+1=?', 'answer': n + 1} for n in range(6)]
    picks = {'type': 'RandomRetriever', 'ice_num': 2}
    pair = pair_of(config(ROWS, prompt, template(ASKED), train, retriever=picks, **side))
    sent = [request for _, row, picked in pair.rows() for _, request in pair.step(row, picked).requests]
    made = [teach() for _, teach in pair_examples(pair, form='text')]
    assert [example.asked for example in made] == sent
    assert len(set(sent)) == len(ROWS)


def test_an_answer_that_inference_does_not_ask_for_first_is_not_trained_on() -> None:
    roles = [
        {'role': 'HUMAN', 'begin': '<H>', 'end': '</H>'},
        {'role': 'THOUGHTS', 'begin': '<T>', 'end': '</T>', 'generate': True},
        {'role': 'BOT', 'begin': '<B>', 'end': '</B>', 'generate': True},
    ]
    speeches = [
        {'role': name, 'prompt': f'{{{column}}}'}
        for name, column in zip(('HUMAN', 'THOUGHTS', 'BOT'), 'qta', strict=True)
    ]
    wording = Wording(PromptTemplate({'round': speeches}), output_column='a')
    with pytest.raises(UntrainableError, match='asks for something before the answer'):
        TrainingProgram(wording, TextRenderer(MetaTemplate.read({'round': roles})))({'q': 'Q', 't': 'Hm.', 'a': 'A'})
