"""Prompters by themselves: the documents' examples, inputs, slots, history, tools, labels, forms, spans."""

from __future__ import annotations

import contextlib
import copy
import doctest
import importlib
import json
import pickle
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rolecall
from rolecall import AlpacaPrompter, ChatPrompter, EmptyPrompter, Prompter
from rolecall.core.prompters import PromptTrace, Tokens
from rolecall.core.render.spans import join_spans
from rolecall.errors import PrompterError, RenderError, RolecallError

SEEDS = Path(__file__).parent / 'data/seed_prompters.jsonl'
DOCUMENTED_SYSTEM = 'You are an AI-Agent developed by LazyLLM.'
"""The sentence that the documents' examples begin with; ours names no vendor."""
CASES = list(map(json.loads, SEEDS.read_text(encoding='utf-8').splitlines()))
TOOL = {'type': 'function', 'function': {'name': 'add', 'description': 'Adds.', 'parameters': {'type': 'object'}}}
CALL = {'id': 'c1', 'type': 'function', 'function': {'name': 'add', 'arguments': '{"x": 1}'}}
TALK: list[Any] = [
    {'role': 'system', 'content': 'Be kind.'},
    {'role': 'user', 'content': 'Add 1.'},
    {'role': 'assistant', 'content': None, 'tool_calls': [CALL, {**CALL, 'id': 'c2'}]},
    {'role': 'tool', 'tool_call_id': 'c1', 'content': '2'},
    {'role': 'tool', 'tool_call_id': 'c2', 'content': '3'},
    {'role': 'assistant', 'content': [{'type': 'text', 'text': 'Two.'}, {'type': 'text', 'text': 'Three.'}]},
]
PICTURE = [{'type': 'text', 'text': 'What?'}, {'type': 'image_url', 'image_url': {'url': 'data:image/png;base64,AAAA'}}]


def agreed(trace: PromptTrace) -> PromptTrace:
    assert join_spans(trace.spans) == trace.texts
    return trace


@pytest.mark.parametrize('case', CASES, ids=[case['id'] for case in CASES])
def test_the_documents_examples_come_out_as_printed(case: dict[str, Any]) -> None:
    kind = getattr(rolecall, f'{case["cls"]}Prompter')
    if 'expect_error' in case:
        with pytest.raises(PrompterError):
            kind(**case['init']).generate_prompt(**case['call'])
        return
    prompter = kind(**{'system': DOCUMENTED_SYSTEM, **case['init']})
    assert prompter.generate_prompt(**case['call']) == case['expect']
    assert agreed(prompter.trace(**case['call'])).body == case['expect']


REFUSED: list[tuple[str, Any, str]] = [
    ('two slots for one string', lambda: AlpacaPrompter('{a} {b}').generate_prompt('q'), 'two: a, b'),
    ('a missing slot', lambda: ChatPrompter('{a} {b}').generate_prompt({'a': 1}), 'one slot: b; it has a'),
    ('an unknown key', lambda: ChatPrompter('{a}').generate_prompt({'a': 1, 'inptu': 'q'}), "Did you mean 'input'"),
    ('an unknown key of Alpaca', lambda: AlpacaPrompter('{a}').generate_prompt({'a': 1, 'input': 2}), 'no slot input'),
    ('no slot', lambda: AlpacaPrompter('x').generate_prompt('q'), 'needs a slot'),
    ('no input', lambda: ChatPrompter('x').generate_prompt(None), 'got None'),
    ('a list of strings', lambda: ChatPrompter('x').generate_prompt(['q']), 'or messages'),
    ('messages for slots', lambda: ChatPrompter('{a}').generate_prompt(TALK), 'messages cannot fill slots'),
    ('tools twice', lambda: ChatPrompter(tools=[TOOL]).generate_prompt('q', tools=[TOOL]), 'cannot be passed again'),
    ('tools that are none', lambda: ChatPrompter(tools='add'), 'list of mappings'),
    ('a tool without a name', lambda: ChatPrompter(tools=[{'type': 'function', 'function': {}}]), 'has no name'),
    ('a tool that is no data', lambda: ChatPrompter(tools=[{**TOOL, 'x': {1}}]), 'JSON data'),
    ('messages in a string', lambda: ChatPrompter('x').generate_prompt('q', TALK), 'needs return_dict=True'),
    ('messages as input', lambda: ChatPrompter('x').generate_prompt(TALK[1:3]), 'need return_dict=True'),
    ('history for Alpaca', lambda: AlpacaPrompter('{x}').generate_prompt('q', [['a', 'b']]), 'keeps no history'),
    ('history in Alpaca', lambda: AlpacaPrompter('{x}', history=[['a', 'b']]), 'keeps no history'),
    ('history that is none', lambda: ChatPrompter().generate_prompt('q', {'a': 'b'}), 'list of pairs'),
    ('half a pair', lambda: ChatPrompter().generate_prompt('q', [['a']]), 'a pair'),
    ('a role nobody has', lambda: ChatPrompter(history=[{'role': 'bot', 'content': ''}]), 'the role of a message'),
    ('a message of nothing', lambda: ChatPrompter(history=[{'role': 'user'}]), 'content or tool_calls'),
    ('content of a number', lambda: ChatPrompter(history=[{'role': 'user', 'content': 1}]), 'a string or a list'),
    ('parts of strings', lambda: ChatPrompter(history=[{'role': 'user', 'content': ['x']}]), 'must be mappings'),
    (
        'a nameless call',
        lambda: ChatPrompter(history=[{'role': 'assistant', 'tool_calls': [{}]}]),
        'must name its function',
    ),
    ('an unknown instruction key', lambda: ChatPrompter({'assistant': 'x'}), 'got assistant'),
    ('an instruction of numbers', lambda: ChatPrompter({'system': 1}), 'must be a string'),
    ('an instruction of a list', lambda: ChatPrompter(['x']), 'a string or a mapping'),
    ('extra keys of numbers', lambda: ChatPrompter('x', extra_keys=[1]), 'list of names'),
    ('show of a word', lambda: ChatPrompter('x', show='yes'), 'True or False'),
    ('system of a number', lambda: ChatPrompter('x', system=1), 'system must be a string'),
    ('an unknown format', lambda: ChatPrompter('x').generate_prompt('q', format='gemini'), "'openai', 'anthropic'"),
    ('an instruction for nobody', lambda: EmptyPrompter('x'), 'does not support instruction'),
    ('tools in an empty string', lambda: EmptyPrompter(tools=[TOOL]).generate_prompt('q'), 'in a string'),
    ('history in an empty string', lambda: EmptyPrompter().generate_prompt('q', [['a', 'b']]), 'in a string'),
    ('no template', lambda: Prompter('x'), 'has no template'),
    ('a hook that forgets', lambda: ChatPrompter().pre_hook(lambda *given: given[0]).generate_prompt('q'), 'pre_hook'),
    ('an unknown token', lambda: ChatPrompter().bind({'tool_stat': ''}), "Did you mean 'tool_start'"),
    ('a token of a number', lambda: ChatPrompter().bind({'soh': 1}), 'token soh must be a string'),
    ('a model of a word', lambda: ChatPrompter().bind('qwen'), 'expected tokens'),
]


@pytest.mark.parametrize(('use', 'sentence'), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_cannot_be_worded_is_refused_with_a_sentence(use: Any, sentence: str) -> None:
    with pytest.raises(PrompterError) as caught:
        use()
    assert sentence in str(caught.value)


def test_a_value_without_a_text_form_is_refused() -> None:
    with pytest.raises(RenderError, match="column 'a'"):
        ChatPrompter('{a}').generate_prompt({'a': object()})


def user_text(prompter: Prompter, *given: Any, **options: Any) -> Any:
    return prompter.generate_prompt(*given, return_dict=True, **options)['messages'][-1]['content']


@pytest.mark.parametrize(
    ('input_', 'text'),
    [
        ('q', 'q'),
        (5, '5'),
        (0.5, '0.5'),
        (True, 'True'),
        ({'input': 'q'}, 'q'),
        ({'input': 7}, '7'),
        ({'role': 'user', 'content': 'q'}, 'q'),
        ([{'role': 'user', 'content': 'q'}], 'q'),
        ({'input': {'role': 'user', 'content': 'q'}}, 'q'),
        ([{'role': 'user', 'content': PICTURE}], PICTURE),
    ],
    ids=str,
)
def test_what_the_user_says_can_be_given_in_many_forms(input_: Any, text: Any) -> None:
    assert user_text(ChatPrompter('x'), input_) == text


def test_the_same_input_means_the_same_in_a_string_and_in_messages() -> None:
    prompter = ChatPrompter('{a}|{b}', system='')
    given = {'a': None, 'b': [1, 'ü'], 'input': 3}
    assert prompter.generate_prompt(given).startswith('<|start_system|>|[1, "ü"]\n')
    assert prompter.generate_prompt(given, return_dict=True)['messages'] == [
        {'role': 'system', 'content': '|[1, "ü"]\n\n'},
        {'role': 'user', 'content': '3'},
    ]


@pytest.mark.parametrize(
    ('instruction', 'slots'),
    [
        ('Answer as JSON: {"a": 1, "b": {"c": 2}} {x}', ('x',)),
        ('{{x}} and {{ y }} stay', ()),
        ('{"a": {x}}', ('x',)),
        ('{x.y} {x!r} {x:>3} {0} \\d{3} {} { z }', ()),
        ('{上下文} {问题}', ('上下文', '问题')),
        ('{x} {x}', ('x',)),
        ('\\frac{1}{2} {name_1}', ('name_1',)),
    ],
)
def test_only_names_in_single_braces_are_slots(instruction: str, slots: tuple[str, ...]) -> None:
    prompter = ChatPrompter(instruction)
    assert prompter.slots == slots
    sent = prompter.generate_prompt({slot: f'{{{slot}}}' for slot in slots}, return_dict=True)
    assert sent['messages'][0]['content'].endswith(f'\n{instruction}\n\n')


@pytest.mark.parametrize('kind', [AlpacaPrompter, ChatPrompter])
def test_a_lone_system_instruction_is_the_instruction(kind: type[Prompter]) -> None:
    for options in ({}, {'return_dict': True}):
        as_text, as_level = kind('Do {x}.'), kind({'system': 'Do {x}.'})
        assert as_text.generate_prompt('it', **options) == as_level.generate_prompt('it', **options)


def test_extra_keys_go_with_the_user_level_where_there_is_one() -> None:
    sent = ChatPrompter({'system': 'S', 'user': 'U'}, ['k'], system='').generate_prompt(
        {'k': 'K', 'input': 'q'}, return_dict=True
    )
    extra = 'Here are some extra messages you can referred to:\n\n### k:\nK\n\n'
    assert sent['messages'] == [{'role': 'system', 'content': 'S'}, {'role': 'user', 'content': f'U\n{extra}\nq'}]


def test_messages_as_input_carry_the_user_level_instruction_in_the_last_words_of_the_user() -> None:
    prompter = ChatPrompter({'user': 'In {language}: '}, system='')
    talk = [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}, {'role': 'user', 'content': 'c'}]
    cases: list[tuple[Any, Any]] = [
        (talk, [*talk[:2], {'role': 'user', 'content': 'In French: c'}]),
        ([{'role': 'user', 'content': PICTURE}], [{'role': 'user', 'content': [{'type': 'text', 'text': 'In French: '}, *PICTURE]}]),
        (talk[1:2], [{'role': 'user', 'content': 'In French: '}, talk[1]]),
    ]  # fmt: skip
    for messages, expected in cases:
        given = {'language': 'French', 'input': messages}
        for form in ('openai', 'anthropic'):
            trace = agreed(prompter.trace(given, format=form))
            assert trace.body == prompter.generate_prompt(given, format=form)
        assert prompter.generate_prompt(given, return_dict=True)['messages'] == expected


def test_history_turns_keep_their_order_and_their_halves() -> None:
    history: list[Any] = [['a', 'b'], ('c', None), {'role': 'assistant', 'content': 'd'}, [None, 5]]
    sent = ChatPrompter(history=[['x', 'y']], system='').generate_prompt('q', history, return_dict=True)
    said = [(message['role'][0], message['content']) for message in sent['messages']]
    assert said == [('u', 'x'), ('a', 'y'), ('u', 'a'), ('a', 'b'), ('u', 'c'), ('a', 'd'), ('a', '5'), ('u', 'q')]


def test_pairs_read_the_same_whatever_their_classes() -> None:
    tokens = Tokens(soh='<u>', eoh='</u>', soa='<a>', eoa='</a>')
    prompter = ChatPrompter('I').bind(tokens)
    lists = prompter.generate_prompt('q', [['a', 'b'], ['c', 'd']])
    assert '<u>a</u><a>b</a><u>c</u><a>d</a>' in lists
    assert prompter.generate_prompt('q', (('a', 'b'), ('c', 'd'))) == lists
    as_messages = [
        {'role': role, 'content': text} for role, text in zip(['user', 'assistant'] * 2, 'abcd', strict=True)
    ]
    assert prompter.generate_prompt('q', as_messages) == lists
    assert '<u>1</u><a>[2]</a>' in prompter.generate_prompt('q', [[1, [2]]])
    assert agreed(prompter.trace('q', [['a', 'b'], as_messages[0], (1, 2)])).request


def test_tool_calls_and_results_are_sent_in_openais_shape() -> None:
    sent = ChatPrompter('I', system='').generate_prompt('q', TALK, [TOOL], return_dict=True)
    assert sent['messages'] == [{'role': 'system', 'content': 'I\n\n'}, *TALK, {'role': 'user', 'content': 'q'}]
    assert sent['tools'] == [TOOL]


ANTHROPIC_TALK = [
    {'role': 'user', 'content': 'Add 1.'},
    {
        'role': 'assistant',
        'content': [{'type': 'tool_use', 'id': i, 'name': 'add', 'input': {'x': 1}} for i in ('c1', 'c2')],
    },
    {
        'role': 'user',
        'content': [
            {'type': 'tool_result', 'tool_use_id': i, 'content': text} for i, text in (('c1', '2'), ('c2', '3'))
        ],
    },
]


def test_tool_calls_and_results_are_sent_in_anthropics_shape() -> None:
    sent = ChatPrompter('I', system='').generate_prompt('q', TALK, [TOOL], format='anthropic')
    assert sent == {
        'system': 'I\n\n\nBe kind.',
        'messages': [*ANTHROPIC_TALK, TALK[-1], {'role': 'user', 'content': 'q'}],
        'tools': [{'name': 'add', 'description': 'Adds.', 'input_schema': {'type': 'object', 'properties': {}}}],
    }


def test_a_history_in_anthropics_shape_can_be_sent_in_either() -> None:
    prompter = ChatPrompter('I', system='')
    sent = prompter.generate_prompt('q', ANTHROPIC_TALK, format='anthropic')
    assert sent['messages'][:-1] == ANTHROPIC_TALK
    sent = prompter.generate_prompt('q', ANTHROPIC_TALK, format='openai')
    assert sent['messages'][1:-1] == TALK[1:5]
    mixed = [{'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 'c', 'content': [{'type': 'text', 'text': 'r'}]}, {'type': 'text', 'text': 'so?'}]}]  # fmt: skip
    assert prompter.generate_prompt('q', mixed, format='openai')['messages'][1:-1] == [
        {'role': 'tool', 'tool_call_id': 'c', 'content': 'r'},
        {'role': 'user', 'content': 'so?'},
    ]


def test_pictures_travel_between_the_shapes() -> None:
    base64 = {'type': 'image', 'source': {'type': 'base64', 'media_type': 'image/png', 'data': 'AAAA'}}
    by_url = {'type': 'image', 'source': {'type': 'url', 'url': 'https://x/y.png'}}
    prompter = EmptyPrompter()
    sent = prompter.generate_prompt([{'role': 'user', 'content': PICTURE}], format='anthropic')
    assert sent['messages'][0]['content'] == [PICTURE[0], base64]
    history = [{'role': 'user', 'content': [base64, by_url]}]
    sent = prompter.generate_prompt('q', history, format='openai')['messages'][0]['content']
    assert [part['image_url']['url'] for part in sent] == ['data:image/png;base64,AAAA', 'https://x/y.png']
    assert prompter.generate_prompt('q', history, format='anthropic')['messages'][0]['content'] == [base64, by_url]


def test_required_beside_the_parameters_moves_into_anthropics_schema() -> None:
    beside = {'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object'}, 'required': ['a']}}
    tools = EmptyPrompter(tools=[beside]).generate_prompt('q', format='anthropic')['tools']
    assert tools == [{'name': 'f', 'input_schema': {'type': 'object', 'properties': {}, 'required': ['a']}}]
    again = EmptyPrompter(tools=tools).generate_prompt('q', format='openai')['tools']
    assert again == [{'type': 'function', 'function': {'name': 'f', 'parameters': tools[0]['input_schema']}}]


def test_anthropic_gets_words_from_the_user_even_where_the_input_fills_a_slot() -> None:
    sent = AlpacaPrompter('Add {x}.').generate_prompt('1+1', format='anthropic')
    assert sent['system'] == 'You are a helpful assistant.'
    assert sent['messages'][0]['content'].endswith('### Instruction:\nAdd 1+1.\n\n')


@pytest.mark.parametrize('kind', [AlpacaPrompter, ChatPrompter])
def test_the_default_system_text_names_no_vendor(kind: type[rolecall.Prompter]) -> None:
    assert kind('Add {x}.').generate_prompt('1')[:60].count('You are a helpful assistant.') == 1


def test_without_a_system_role_the_instruction_is_said_by_the_user() -> None:
    prompter = ChatPrompter('Do.', tools=[TOOL], enable_system=False)
    assert prompter.generate_prompt('q', return_dict=True)['messages'] == [{'role': 'user', 'content': 'Do.\n\nq'}]
    text = prompter.generate_prompt('q')
    assert text.startswith('<|Human|>:\nDo.\n\n### Function-call Tools. \n\n[{"type"')
    assert text.endswith(']\n\nq\n<|Assistant|>:\n')
    assert agreed(prompter.trace('q', [['a', 'b']])).request


def test_a_label_ends_the_prompt_in_every_form() -> None:
    prompter = ChatPrompter('I').bind({'soa': '<a>', 'eoa': '</a>'})
    plain = prompter.generate_prompt('q')
    assert prompter.generate_prompt('q', label=4) == f'{plain}4</a>'
    for form in ('openai', 'anthropic'):
        plain = prompter.generate_prompt('q', format=form)['messages']
        labelled = prompter.generate_prompt('q', label=4, format=form)['messages']
        assert labelled == [*plain, {'role': 'assistant', 'content': '4'}]


def test_a_hook_changes_what_is_asked() -> None:
    prompter = ChatPrompter('I')
    hooked = prompter.pre_hook(lambda given, history, tools, label: (given.upper(), [['a', 'b']], [TOOL], None))
    twice = hooked.pre_hook(lambda given, history, tools, label: (f'{given}!', history, tools, label))
    assert user_text(prompter, 'q') == 'q'
    assert user_text(hooked, 'q') == 'Q'
    assert user_text(twice, 'q') == 'Q!'
    assert twice.generate_prompt('q', return_dict=True)['tools'] == [TOOL]


def test_show_prints_the_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    text = ChatPrompter('I', show=True).generate_prompt('q')
    assert capsys.readouterr().out == f'{text}\n'
    sent = ChatPrompter('I').generate_prompt('q', show=True, return_dict=True)
    assert json.loads(capsys.readouterr().out) == sent


def test_an_empty_prompter_adds_nothing() -> None:
    assert EmptyPrompter().generate_prompt('q') == 'q'
    sent = EmptyPrompter(tools=[TOOL]).generate_prompt('q', [['a', 'b']], return_dict=True)
    assert [message['content'] for message in sent['messages']] == ['a', 'b', 'q']
    assert sent['tools'] == [TOOL]


def test_ones_own_prompter_is_a_template() -> None:
    class Quiz(Prompter):
        template = '{instruction}{history}Q: {input}\nA:{soa}'
        instruction_template = 'Task: {instruction}\n'

    prompter = Quiz('Guess {what}.').bind(Tokens(soa=' '))
    assert prompter.generate_prompt({'what': 'it', 'input': 'x'}) == 'Task: Guess it.\nQ: x\nA: '
    assert prompter.generate_prompt({'what': 'it', 'input': 'x'}, return_dict=True) == {
        'messages': [{'role': 'system', 'content': 'Task: Guess it.\n'}, {'role': 'user', 'content': 'x'}]
    }
    with pytest.raises(PrompterError, match='does not support tools'):
        prompter.generate_prompt({'what': 'it', 'input': 'x'}, tools=[TOOL])


@pytest.mark.parametrize(
    ('wrong', 'sentence'),
    [('{inptu}', "Did you mean 'input'"), ('{input}{input}', 'occurs 2 times')],
)
def test_a_template_with_fields_that_mean_nothing_is_refused(wrong: str, sentence: str) -> None:
    kind = type('Own', (Prompter,), {'template': wrong})
    with pytest.raises(PrompterError, match=sentence):
        kind()


def test_an_instruction_template_needs_a_place_for_the_instruction() -> None:
    class Own(Prompter):
        template = '{instruction}{input}'
        instruction_template = 'nothing'

    with pytest.raises(PrompterError, match='needs {instruction}'):
        Own('x')


def test_a_prompter_survives_pickling_and_copying() -> None:
    prompter = ChatPrompter('I {x}', tools=[TOOL], history=[['a', 'b']]).bind(Tokens(soh='<u>'), system='S')
    for twin in (pickle.loads(pickle.dumps(prompter)), copy.deepcopy(prompter)):
        assert twin.generate_prompt('q') == prompter.generate_prompt('q')


SHORT = st.sampled_from(['', 'a', 'b', 'é'])
TURNS = st.one_of(
    st.lists(SHORT, min_size=2, max_size=2),
    st.tuples(SHORT, SHORT),
    st.lists(st.one_of(SHORT, st.none(), st.booleans(), st.integers(0, 1)), min_size=2, max_size=2),
    st.fixed_dictionaries({'role': st.sampled_from(['user', 'assistant', 'system']), 'content': SHORT}),
    st.fixed_dictionaries({'content': SHORT, 'role': st.sampled_from(['user', 'assistant'])}),
    st.sampled_from([*TALK, {'role': 'user', 'content': 'a', 'name': 'Ann'}]),
    st.sampled_from([None, 'ab', ['a'], ['a', 'b', 'c'], {'a': 'b', 'c': 'd'}, {'role': 'x', 'content': 'a'}]),
)
FORMS: list[dict[str, Any]] = [{}, {'format': 'openai'}, {'format': 'anthropic'}]
TOKENS = {'soh': '<u>', 'soa': '<a>', 'soe': '<e>', 'tool_start': '<t>'}


def outcome(prompter: Prompter, history: list[Any], form: dict[str, Any]) -> Any:
    try:
        return prompter.generate_prompt('q', history, **form)
    except PrompterError as error:
        return str(error)


@given(
    start=st.lists(TURNS, max_size=4),
    steps=st.lists(
        st.tuples(st.sampled_from(['add', 'cut', 'put', 'turn', 'same']), st.integers(0, 3), TURNS), max_size=6
    ),
    form=st.sampled_from(FORMS),
    own=st.lists(st.lists(SHORT, min_size=2, max_size=2), max_size=1),
)
def test_what_is_remembered_of_a_conversation_never_changes_a_prompt(
    start: list[Any], steps: list[tuple[str, int, Any]], form: dict[str, Any], own: list[Any]
) -> None:
    used, talk = ChatPrompter('I', history=own).bind(TOKENS), copy.deepcopy(start)
    for step, place, turn in [('same', 0, None), *steps]:
        if step == 'add':
            talk.append(copy.deepcopy(turn))
        elif step == 'cut':
            del talk[place:]
        elif step == 'put' and place < len(talk):
            talk[place] = copy.deepcopy(turn)
        elif step == 'turn':
            talk = [dict(reversed(turn.items())) if isinstance(turn, dict) else turn for turn in talk]
        fresh = ChatPrompter('I', history=own).bind(TOKENS)
        assert json.dumps(outcome(used, talk, form)) == json.dumps(outcome(fresh, copy.deepcopy(talk), form))


@pytest.mark.parametrize('form', FORMS)
def test_a_turn_that_is_changed_in_place_is_noticed(form: dict[str, Any]) -> None:
    prompter = ChatPrompter('I').bind(TOKENS)
    pairs = [['a', 'b'], ['c', 'd']]
    talk = [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]
    for history in (pairs, talk):
        prompter.generate_prompt('q', history, **form)
    pairs[0][1] = 'B!'
    talk[1]['content'] = 'B!'
    for history in (pairs, talk):
        assert 'B!' in json.dumps(prompter.generate_prompt('q', history, **form))
        assert 'B!' not in json.dumps(prompter.generate_prompt('q', [['x', 'y'], *history[1:1]], **form))


@pytest.mark.parametrize('turned_first', [True, False])
def test_messages_begin_with_the_role_whatever_was_read_before(turned_first: bool) -> None:
    prompter = ChatPrompter('I')
    talk = [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]
    turned = [dict(reversed(message.items())) for message in talk]
    for history in (turned, talk) if turned_first else (talk, turned):
        messages = prompter.generate_prompt('q', history, return_dict=True)['messages']
        assert [list(message) for message in messages] == [['role', 'content']] * 4


def test_messages_of_the_history_cannot_be_changed_since_calls_share_them() -> None:
    prompter = ChatPrompter('I')
    talk = [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]
    first = prompter.generate_prompt('q', talk, return_dict=True)
    for message in first['messages'][:3]:
        with pytest.raises(TypeError, match='change a copy'):
            message['content'] = 'changed'
    mine = copy.deepcopy(first)
    mine['messages'][1]['content'] = 'changed'
    first['messages'].clear()
    again = prompter.generate_prompt('q', talk, return_dict=True)
    assert again['messages'][1:3] == talk
    assert json.loads(json.dumps(again)) == again


def test_a_system_without_words_is_not_sent_to_anthropic() -> None:
    trace = agreed(EmptyPrompter().trace('q', [{'role': 'system', 'content': ''}], format='anthropic'))
    assert trace.body == {'messages': [{'role': 'user', 'content': 'q'}]}


def test_a_prompter_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ChatPrompter('I').system = 'x'  # type: ignore[misc]


def test_a_fingerprint_is_of_all_that_is_sent() -> None:
    prompter = ChatPrompter('I')
    plain, with_tools = (prompter.trace('q', tools=tools, return_dict=True) for tools in (None, [TOOL]))
    assert plain.request == with_tools.request
    assert plain.fingerprint != with_tools.fingerprint


words = st.text(alphabet='ab{}<|>:\n你"\\', max_size=12) | st.sampled_from(['{a}', '{b}', '<|Human|>:', '\0input'])
instructions = st.lists(words | st.sampled_from(['{a}', '{b}', '{"k": {a}}']), max_size=4).map(''.join)
turns = st.lists(
    st.tuples(words, words).map(list) | st.fixed_dictionaries({'role': st.sampled_from(['user', 'assistant', 'system', 'tool']), 'content': words}),
    max_size=3,
)  # fmt: skip


@given(
    levels=st.fixed_dictionaries({}, optional={'system': instructions, 'user': instructions}),
    values=st.fixed_dictionaries({'a': words, 'b': words | st.integers() | st.none(), 'input': words}),
    history=turns,
    label=st.none() | words,
    enable_system=st.booleans(),
    form=st.sampled_from([None, 'openai', 'anthropic']),
)
def test_spans_join_to_the_prompt_and_values_are_never_read_again(
    levels: Any, values: Any, history: Any, label: Any, enable_system: bool, form: Any
) -> None:
    tokens = Tokens(sos='<s>', eos='</s>', soh='<u>', eoh='</u>', soa='<a>', eoa='</a>', soe='<e>', eoe='</e>')
    prompter = ChatPrompter(levels, enable_system=enable_system).bind(tokens)
    given_ = {name: values.get(name, '') for name in ('input', *prompter.slots)}
    before = copy.deepcopy((given_, history))
    trace = agreed(prompter.trace(given_, history, [TOOL], label, format=form))
    assert trace.body == prompter.generate_prompt(given_, history, [TOOL], label, format=form)
    assert (given_, history) == before
    for span in trace.spans:
        if span.origin.kind == 'field' and span.origin.name in values:
            assert span.text == ('' if values[span.origin.name] is None else str(values[span.origin.name]))


@given(given_=st.recursive(st.none() | st.booleans() | st.integers() | words, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3)))  # fmt: skip
def test_whatever_is_given_there_is_a_prompt_or_an_error_of_ours(given_: Any) -> None:
    for prompter in (AlpacaPrompter('{a}'), ChatPrompter('I'), ChatPrompter('{a}{b}'), EmptyPrompter()):
        with contextlib.suppress(RolecallError):
            prompter.generate_prompt(given_, given_, given_, return_dict=True)


def test_a_prompt_does_not_begin_with_the_templates_line_breaks() -> None:
    class Own(Prompter):
        template = '{system}\n\nQ: {input}'

    assert Own(system='').generate_prompt('\nx') == 'Q: \nx'
    assert Own(system='S').generate_prompt('x') == 'S\n\nQ: x'


def test_tools_of_other_classes_are_read_like_plain_ones() -> None:
    tools = MappingProxyType(TOOL)
    assert ChatPrompter().generate_prompt('q', tools=[tools]) == ChatPrompter().generate_prompt('q', tools=(TOOL,))
    with pytest.raises(PrompterError, match='JSON data'):
        ChatPrompter().generate_prompt('q', tools=[MappingProxyType({**TOOL, 'x': object()})])
    with pytest.raises(PrompterError, match='must be a mapping'):
        ChatPrompter().generate_prompt('q', tools=['add'])


def test_arguments_of_calls_are_json_or_data() -> None:
    def sent(arguments: Any) -> Any:
        call = {'id': 'c', 'type': 'function', 'function': {'name': 'f', 'arguments': arguments}}
        history = [{'role': 'assistant', 'content': 'so', 'tool_calls': [call]}]
        return EmptyPrompter().generate_prompt('q', history, format='anthropic')['messages'][0]['content'][1]['input']

    assert sent('{"a": 1}') == sent({'a': 1}) == {'a': 1}
    assert sent('') == sent(None) == {}
    with pytest.raises(PrompterError, match='must be JSON'):
        sent('{"a": ')


@pytest.mark.parametrize(
    'name',
    [
        'base_prompter',
        'builtin',
        'frame',
        'history',
        'call_inputs',
        'special_tokens',
        'tool_specs',
        'messaging',
        'vendors',
    ],
)
def test_docstring_examples_hold(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f'rolecall.core.prompters.{name}'))
    assert results.attempted
    assert not results.failed


def test_the_examples_in_the_documentation_hold() -> None:
    results = doctest.testfile(str(Path(__file__).parents[1] / 'docs/prompters.md'), module_relative=False)
    assert results.attempted
    assert not results.failed


CONTENTS = (
    'hi',
    '',
    [{'type': 'text', 'text': 'x'}, PICTURE[1]],
    [{'type': 'text', 'text': ''}, {'type': 'text', 'text': 'q'}],
)
BLOCKS = [{'type': 'thinking', 'thinking': 't', 'signature': 's'}, {'type': 'text', 'text': 'four'}]
THOUGHTS = [
    {'by': 'm', 'vendor': vendor, 'fields': fields}
    for vendor in ('openai', 'anthropic')
    for fields in ({'reasoning_content': 'hm'}, {'content': BLOCKS})
]
MESSAGES = st.one_of(
    st.builds(lambda role, text: {'role': role, 'content': text}, st.sampled_from(('user', 'system')), st.sampled_from(CONTENTS)),
    st.sampled_from([{'role': 'assistant', 'content': text, 'thinking': kept} for text in ('four', 'five') for kept in THOUGHTS]),
    st.sampled_from([{'role': 'assistant', 'content': text, 'tool_calls': [CALL]} for text in (None, 'ok')]),
    st.sampled_from([{'role': 'tool', 'tool_call_id': 'c', 'content': text} for text in ('res', '')]),
)  # fmt: skip
INSTRUCTIONS = ('Be.', {'system': 'S', 'user': 'U: '}, {'user': 'U '}, '')


@given(
    st.sampled_from(INSTRUCTIONS), st.lists(MESSAGES, max_size=3), st.lists(MESSAGES, min_size=1, max_size=3),
    st.sampled_from((None, 'L')), st.sampled_from(('openai', 'anthropic')),
)  # fmt: skip
def test_spans_of_messages_join_to_what_is_sent_whatever_reasoning_it_holds(
    instruction: Any, history: list[Any], messages: list[Any], label: Any, form: Any
) -> None:
    trace = ChatPrompter(instruction).trace(messages, history, None, label, format=form)
    assert join_spans(trace.spans) == {place: text for place, text in trace.texts.items() if text}
    assert trace.body == ChatPrompter(instruction).generate_prompt(messages, history, None, label, format=form)


def test_an_instruction_beside_restored_reasoning_keeps_its_origin() -> None:
    thought = {'role': 'assistant', 'content': 'four', 'thinking': THOUGHTS[0]}
    trace = ChatPrompter({'user': 'U '}, system='').trace([thought], format='openai')
    spans = [(span.text, span.message, span.origin.name) for span in trace.spans]
    assert spans == [('U ', 0, 'user'), ('four', 1, 'input')]
