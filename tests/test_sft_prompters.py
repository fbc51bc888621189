"""Fine-tuning data of prompters: training and inference are worded by one instruction, and agree byte for byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_template_corpus import CHATML, DEEPSEEK, LLAMA2, LLAMA3, MISTRAL, QWEN_THINKING, QWEN_TOOLS, ZEPHYR, Family
from rolecall import AlpacaPrompter, ChatPrompter, EmptyPrompter, Prompter
from rolecall.apps.sft.examples import TextExample, UntrainableError
from rolecall.apps.sft.prompter_examples import Columns, prompter_examples
from rolecall.apps.sft.training_file import Form, SftReport, entries
from rolecall.apps.sft.training_programs import Aim
from rolecall.core.prompters import Tokens
from rolecall.core.render.chat_renderer import ChatRenderer
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.meta import META_TEMPLATES, meta_template
from rolecall.errors import PrompterError
from tables import in_one


class Quiz(Prompter):
    """A layout of one's own."""

    template = '{system}\n{instruction}{history}Q: {input}\nA:'
    instruction_template = '{instruction}\n\n'


TOOL = {'type': 'function', 'function': {'name': 'add', 'description': 'Adds.', 'parameters': {'type': 'object'}}}
PROMPTERS: dict[str, Prompter] = {
    'alpaca': AlpacaPrompter('Add {x}.'),
    'alpaca with levels': AlpacaPrompter({'system': 'You add.', 'user': 'Add {x}.'}, extra_keys='hint'),
    'alpaca with tools': AlpacaPrompter('Add {x}.', tools=[TOOL]),
    'chat': ChatPrompter('Add.'),
    'chat with a slot': ChatPrompter('Add {x}.'),
    'chat with levels': ChatPrompter({'system': 'You add.', 'user': 'Add {x}: '}, extra_keys=['hint']),
    'chat with a history': ChatPrompter('Add.', history=[['0+1', '1'], ['0+2', '2']]),
    'chat with tools': ChatPrompter('Add.', tools=[TOOL]),
    'chat without system': ChatPrompter('Add.', enable_system=False),
    'empty': EmptyPrompter(),
    'own': Quiz('Guess.'),
}
TOKENS = Tokens(sos='<s>', eos='</s>', soh='<u>', eoh='</u>', soa='<a>', eoa='</a>', system='S')
CHATS = {'chatml': CHATML, 'deepseek': DEEPSEEK, 'llama2': LLAMA2, 'llama3': LLAMA3, 'mistral': MISTRAL,
         'thinking': QWEN_THINKING, 'qwen': QWEN_TOOLS, 'zephyr': ZEPHYR}  # fmt: skip
FAMILIES = [name for name in META_TEMPLATES if not name.startswith('api') and name != 'shouting']
ROW = {'input': '1+1 </u> {label}', 'x': ['1', 1], 'hint': 'two', 'label': '<a> 2\n{input} é'}
GIVEN = {
    'alpaca': {'x': ROW['x']},
    'alpaca with levels': {'x': ROW['x'], 'hint': 'two'},
    'alpaca with tools': {'x': ROW['x']},
    'chat with a slot': {'x': ROW['x'], 'input': ROW['input']},
    'chat with levels': {'x': ROW['x'], 'hint': 'two', 'input': ROW['input']},
}


def chat(family: Family) -> ChatRenderer:
    return ChatRenderer(ChatTemplate(family.source, bos_token=family.bos, eos_token=family.eos))


def taught(
    prompter: Prompter, row: dict[str, Any], form: Form = 'text', *, aim: Aim | None = None, **columns: str
) -> Any:
    [(_, teach)] = prompter_examples(prompter, [row], Columns(**{'answer': 'label', **columns}), form=form, aim=aim)
    return teach()


def trained(example: TextExample) -> list[str]:
    return [example.text[start:stop] for start, stop in example.stretches]


def asked(name: str) -> Any:
    return GIVEN.get(name, {'input': ROW['input']})


@in_one
@pytest.mark.parametrize('name', PROMPTERS)
@pytest.mark.parametrize('tokens', [None, TOKENS], ids=['default tokens', 'own tokens'])
def test_a_prompters_own_layout_is_trained_with_what_it_asks(name: str, tokens: Tokens | None) -> None:
    prompter = PROMPTERS[name].bind(tokens) if tokens else PROMPTERS[name]
    example = taught(prompter, ROW)
    sent = prompter.generate_prompt(asked(name))
    assert example.asked == sent
    assert example.text == f'{sent}{ROW["label"]}{tokens.eoa if tokens else ""}'
    assert example.stretches == ((len(sent), len(example.text)),)


@in_one
@pytest.mark.parametrize('name', PROMPTERS)
@pytest.mark.parametrize('family', FAMILIES)
def test_every_prompter_bound_to_every_meta_template_is_trained_with_what_it_asks(name: str, family: str) -> None:
    prompter = PROMPTERS[name].bind(meta_template(family))
    example = taught(prompter, ROW)
    sent = prompter.generate_prompt(asked(name))
    end = next(role['end'] for role in meta_template(family)['round'] if role.get('generate'))
    assert example.text == f'{sent}{ROW["label"]}{end}'
    assert trained(example) == [f'{ROW["label"]}{end}']


@in_one
@pytest.mark.parametrize('name', PROMPTERS)
@pytest.mark.parametrize('family', CHATS)
def test_every_prompter_bound_to_a_chat_template_is_trained_with_what_it_asks(name: str, family: str) -> None:
    prompter = PROMPTERS[name].bind(chat(CHATS[family]))
    example = taught(prompter, ROW)
    sent = prompter.generate_prompt(asked(name))
    [(start, stop)] = example.stretches
    assert example.text.startswith(sent)
    assert start == len(sent)
    assert str(ROW['label']).strip() in example.text[start:stop]
    assert example.text[start:stop].endswith(example.ending)
    assert example.ending


@in_one
@pytest.mark.parametrize('name', PROMPTERS)
def test_the_messages_before_the_answer_are_the_request(name: str) -> None:
    prompter = PROMPTERS[name]
    example = taught(prompter, ROW, 'messages')
    sent = prompter.generate_prompt(asked(name), return_dict=True)
    assert list(example.messages) == [*sent['messages'], {'role': 'assistant', 'content': ROW['label']}]
    assert list(example.tools) == list(sent.get('tools', []))
    [entry] = entries(
        prompter_examples(prompter, [ROW], Columns('label'), form='messages'), SftReport(), form='messages'
    )
    assert entry.get('tools') == sent.get('tools')


@given(st.text(), st.text().filter(str.strip))
def test_whatever_the_words_are_the_request_comes_first(question: str, answer: str) -> None:
    for prompter in (PROMPTERS['chat'], PROMPTERS['chat'].bind(meta_template('chatml'))):
        example = taught(prompter, {'input': question, 'label': answer})
        sent = prompter.generate_prompt(question)
        assert example.text.startswith(sent + answer)


@in_one
@pytest.mark.parametrize(
    'model', [TOKENS, meta_template('chatml'), meta_template('llama2'), chat(CHATML), chat(LLAMA2)]
)
def test_answers_of_the_history_are_trained_on_if_asked_for(model: Any) -> None:
    prompter = ChatPrompter('Add.').bind(model)
    row = {'input': '1+1', 'label': '2', 'before': [['0+1', 'one'], {'role': 'user', 'content': '?'}, {'role': 'assistant', 'content': 'well'}]}  # fmt: skip
    alone = taught(prompter, row, history='before')
    example = taught(prompter, row, history='before', aim=Aim(all_answers=True))
    assert example.text == alone.text
    assert alone.stretches == example.stretches[-1:]
    assert [words.removesuffix(example.ending).strip() for words in trained(example)] == ['one', 'well', '2']
    assert all(words.endswith(example.ending) for words in trained(example))


def test_the_history_in_messages_has_weight_only_if_asked_for() -> None:
    row = {'input': '1+1', 'label': '2', 'before': [['0+1', 'one']], 'offered': [TOOL]}
    columns = Columns('label', history='before', tools='offered')
    prompter = ChatPrompter('Add.')
    for all_answers, weights in ((False, [0, None]), (True, [None, None])):
        given_rows = prompter_examples(prompter, [row], columns, form='messages', aim=Aim(all_answers=all_answers))
        [entry] = entries(given_rows, SftReport(), form='messages')
        assert [one.get('weight') for one in entry['messages'] if one['role'] == 'assistant'] == weights
        assert entry['tools'] == [TOOL]


def test_a_prompter_that_shows_its_prompts_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    taught(ChatPrompter('Add.', show=True), ROW)
    assert capsys.readouterr().out == ''


def test_hooks_are_part_of_what_is_trained_on() -> None:
    prompter = ChatPrompter('Add.').pre_hook(lambda given, history, tools, label: (given, history, tools, label and f'={label}'))  # fmt: skip
    assert trained(taught(prompter, ROW)) == [f'={ROW["label"]}']


def test_a_hook_gets_the_input_as_modules_pass_it_and_what_it_raises_is_an_error() -> None:
    loud = ChatPrompter('Add.', system='').pre_hook(lambda given, *rest: (given.upper(), *rest))
    assert 'A+B' in taught(loud, {'input': 'a+b', 'label': 'c'}).text
    with pytest.raises(PrompterError, match=r'the pre_hook .* raised AttributeError: .*upper'):
        taught(loud, {'input': ['a', 'b'], 'label': 'c'})


def test_thoughts_that_a_chat_template_writes_as_they_are_can_be_trained_on() -> None:
    prompter = ChatPrompter('Add.', system='').bind(chat(QWEN_THINKING))
    thought = '<think>\none and one\n</think>\n\n2'
    example = taught(prompter, {'input': '1+1', 'label': thought})
    assert trained(example) == [f'{thought}<|im_end|>\n']
    assert example.asked == prompter.generate_prompt('1+1')
    with pytest.raises(UntrainableError, match='the answer cannot be located'):
        taught(prompter, {'input': '1+1', 'label': '<think>one and one</think>2'})


@in_one
@pytest.mark.parametrize(
    ('prompter', 'row', 'columns', 'error', 'reason'),
    [
        (PROMPTERS['chat'], {'input': 'q', 'label': ''}, {}, UntrainableError, "column 'label' is empty"),
        (PROMPTERS['chat'], {'input': 'q', 'lable': 'a'}, {}, PrompterError, "no column 'label'. Did you mean 'lable'"),
        (PROMPTERS['chat'], {'input': 'q', 'label': 'a'}, {'history': 'hist'}, PrompterError, "no row has a column 'hist'"),
        (PROMPTERS['chat'], {'input': 'q', 'label': 'a'}, {'tools': 'tols'}, PrompterError, "no row has a column 'tols'"),
        (PROMPTERS['chat'], {'question': 'q', 'label': 'a'}, {'input': 'questoin'}, PrompterError, "no column 'questoin'"),
        (PROMPTERS['alpaca'], {'x': 'q', 'y': 'q', 'label': 'a'}, {'input': 'y'}, PrompterError, "no input for the column"),
        (PROMPTERS['chat'], {'q': 'q', 'label': 'a'}, {}, PrompterError, "no column 'input'"),
        (PROMPTERS['alpaca'], {'label': 'a'}, {}, PrompterError, 'no value for one slot: x'),
        (PROMPTERS['alpaca'], {'x': 'a'}, {'answer': 'x'}, PrompterError, 'it would be shown'),
        (PROMPTERS['chat'], {'input': 'a'}, {'answer': 'input'}, PrompterError, 'it would be shown'),
        (PROMPTERS['empty'], {**ROW, 'before': [['a', 'b']]}, {'history': 'before'}, PrompterError, 'does not support history'),
        (
            PROMPTERS['chat'].bind(chat(Family(CHATML.source.replace("message['content']", "message['content'].upper()")))),
            ROW, {}, UntrainableError, 'the answer cannot be located',
        ),
        (
            PROMPTERS['chat'].bind(chat(Family("{% for m in messages %}{{ m.content }}|{% endfor %}{{ '>' if add_generation_prompt }}"))),
            ROW, {}, UntrainableError, 'does not begin with what inference sends',
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_on_is_refused(
    prompter: Prompter, row: Any, columns: Any, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        taught(prompter, row, **columns)


IN_A_LANGUAGE = ChatPrompter('Answer in {language}.', system='').bind(
    {'soh': '<u>', 'soa': '<a>', 'eoa': '</a>'}, system=''
)
SPOKEN = {'language': 'French', 'question': 'One and one?', 'label': 'Deux.'}


@pytest.mark.parametrize(('name', 'value'), [('history', [['Hi', 'Hello']]), ('tools', [TOOL])])
def test_a_column_of_history_or_tools_is_not_left_out_silently(name: str, value: Any) -> None:
    row = {'input': 'q', 'label': 'a', name: value}
    with pytest.raises(PrompterError, match=f"a column '{name}', which nothing uses. Name it: --{name}-column {name}"):
        taught(PROMPTERS['chat'], row)
    assert taught(PROMPTERS['chat'], {**row, name: []}) == taught(PROMPTERS['chat'], row, **{name: ''})


def test_a_question_in_a_column_that_is_not_named_is_not_trained_as_an_empty_one() -> None:
    with pytest.raises(
        PrompterError, match=r"no column 'input' .* It has: question\. Name it: --input-column"
    ) as caught:
        taught(IN_A_LANGUAGE, SPOKEN)
    assert "--input-column ''" in str(caught.value)
    assert 'One and one?' in taught(IN_A_LANGUAGE, SPOKEN, input='question').text
    assert 'One and one?' not in taught(IN_A_LANGUAGE, SPOKEN, input='').text
    silent = {'language': 'French', 'label': 'Deux.'}  # the slots are all there is
    assert taught(IN_A_LANGUAGE, silent).asked == IN_A_LANGUAGE.generate_prompt({'language': 'French'})


def test_a_message_does_not_take_the_place_of_a_slot_that_is_misspelt() -> None:
    with pytest.raises(PrompterError, match='no value for one slot: language; it has input'):
        taught(IN_A_LANGUAGE, {'langauge': 'French', 'input': 'One and one?', 'label': 'Deux.'})


def test_a_history_may_be_missing_in_some_rows_and_an_input_may_not() -> None:
    prompter, columns = PROMPTERS['chat'], Columns('label', history='before')
    rows = [{**ROW, 'before': [['a', 'b']]}, ROW]
    report = SftReport()
    lines = list(entries(prompter_examples(prompter, rows, columns, form='messages'), report, form='messages'))
    assert [len(line['messages']) for line in lines] == [5, 3]
    mixed = [{'language': 'French', 'label': 'x'}, {'language': 'French', 'input': 'q', 'label': 'x'}]
    with pytest.raises(PrompterError, match="row 0 has no column 'input', which other rows have"):
        list(prompter_examples(IN_A_LANGUAGE, mixed, Columns('label'), form='text'))
