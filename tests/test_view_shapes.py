"""One request as plain lines, on a terminal, and as JSON: nothing is lost, nothing acts on the terminal."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from rolecall.core.render.spans import join_spans
from rolecall.experiment.experiment import preview
from rolecall.experiment.previews.blocks import as_json, blocks_of, json_line
from rolecall.strings import printable
from rolecall.ui.views.looks import LOOKS
from rolecall.ui.views.plain import plain_lines
from rolecall.ui.views.terminal import make_console, show_preview

CHATML = {
    'abbr': 'chatml',
    'type': 'HuggingFaceCausalLM',
    'path': 'none',
    'meta_template': {
        'round': [
            {'role': 'HUMAN', 'begin': '<|im_start|>user\n', 'end': '<|im_end|>\n'},
            {'role': 'BOT', 'begin': '<|im_start|>assistant\n', 'end': '<|im_end|>\n', 'generate': True},
        ]
    },
}
API = {'abbr': 'gpt', 'type': 'OpenAI'}
ROUND = [{'role': 'HUMAN', 'prompt': 'Q: {q} {nope}'}, {'role': 'BOT', 'prompt': 'Answer: {a}'}]
SYSTEM = {'role': 'SYSTEM', 'fallback_role': 'HUMAN', 'prompt': 'Be good.'}


def config(*models, question='1+1=?', template=None, shots=(0, 1)):
    return {
        'models': list(models),
        'datasets': [
            {
                'abbr': 'demo',
                'type': 'Rows',
                'train': [{'q': '你好', 'a': '4'}, {'q': '3+3=?', 'a': '6'}],
                'test': [{'q': question, 'a': '2'}],
                'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
                'infer_cfg': {
                    'ice_template': {
                        'type': 'PromptTemplate',
                        'template': {'round': [{'role': 'HUMAN', 'prompt': '{q}'}, {'role': 'BOT', 'prompt': '{a}'}]},
                    },
                    'prompt_template': {
                        'type': 'PromptTemplate',
                        'ice_token': '</E>',
                        'template': template or {'begin': [SYSTEM, '</E>'], 'round': ROUND},
                    },
                    'retriever': {'type': 'FixKRetriever', 'fix_id_list': list(shots)},
                },
            }
        ],
    }


def only(config):
    (found,) = preview(config)
    return found


def on_terminal(shown, width=80, **options):
    out = io.StringIO()
    show_preview(shown, make_console(out, width=width), **options)
    return out.getvalue()


def words_of(lines):
    """The prompt, put together again from plain lines."""
    text = None
    for line in lines:
        if line.startswith(('==', '-- ')):
            continue
        at = min(place for place in (line.find('│'), line.find(' +') + 1) if place > 0)
        glue, words = line[at], line[at + 1 :]
        text = words if text is None else text + ('\n' if glue == '│' else '') + words
    return text


def test_plain_lines_name_the_origin_of_every_stretch():
    assert list(plain_lines(only(config(CHATML)))) == [
        '== demo × chatml · row 0 · gen',
        'marker HUMAN         │<|im_start|>user',
        'text SYSTEM as HUMAN │Be good.',
        'marker HUMAN         +<|im_end|>',
        'shot 1 marker HUMAN  │<|im_start|>user',
        'shot 1 field q       │你好',
        'shot 1 marker HUMAN  +<|im_end|>',
        'shot 1 marker BOT    │<|im_start|>assistant',
        'shot 1 field a       │4',
        'shot 1 marker BOT    +<|im_end|>',
        'shot 2 marker HUMAN  │<|im_start|>user',
        'shot 2 field q       │3+3=?',
        'shot 2 marker HUMAN  +<|im_end|>',
        'shot 2 marker BOT    │<|im_start|>assistant',
        'shot 2 field a       │6',
        'shot 2 marker BOT    +<|im_end|>',
        'marker HUMAN         │<|im_start|>user',
        'text                 │Q: ',
        'field q              +1+1=?',
        'text                 + ',
        'unfilled nope        +{nope}',
        'marker HUMAN         +<|im_end|>',
        'marker BOT           │<|im_start|>assistant',
        'marker BOT           │',
        '-- fell back: SYSTEM is sent as HUMAN: the model has no role SYSTEM.',
        "-- not sent: the model writes the whole answer, so this beginning of it is not sent (see prefill). 'Answer: '",
        '-- shots: 2: training rows 0, 1',
        f'-- size: {len(only(config(CHATML)).request)} characters',
        f'-- fingerprint: {as_json(only(config(CHATML)))["fingerprint"]}',
    ]


@given(st.text(alphabet=st.sampled_from('ab+│ \n\t{}你\x1b\u202e'), max_size=30))
def test_plain_lines_join_to_the_request(question):
    shown = only(config(question=question, template='{q}\n{q}|', shots=()))
    assert words_of(plain_lines(shown)) == printable(''.join(join_spans(shown.spans).values()))


def test_messages_stand_under_their_roles():
    lines = list(plain_lines(only(config(API))))
    assert [line for line in lines if line.startswith('-- ') and ':' not in line] == [
        '-- system',
        '-- user',
        '-- assistant',
        '-- user',
        '-- assistant',
        '-- user',
    ]


def test_without_models_the_speeches_of_the_dataset_are_shown():
    shown = only(config())
    assert [block.heading for block in blocks_of(shown)][:2] == ['SYSTEM', 'HUMAN']
    assert next(plain_lines(shown)) == '== demo × no model · row 0 · gen'
    assert '-- hidden: a' in list(plain_lines(shown))


def test_a_value_cannot_act_on_the_terminal():
    shown = only(config(API, question='\x1b[31mred\x07\r\u202eflipped\x9b'))
    for text in ('\n'.join(plain_lines(shown)), on_terminal(shown)):
        assert not set('\x1b\x07\r\u202e\x9b') & set(text)
        assert '␛[31mred␇␍' in text


@pytest.mark.parametrize('width', [40, 80, 120])
def test_frames_are_straight_around_wide_characters(width):
    shown = only(config(API, question='中文和 English 混排，还有 emoji 🎉 和全角。' * 5))
    lines = [line for line in on_terminal(shown, width).splitlines() if line.startswith(('│', '╭', '╰'))]
    assert lines
    assert {cell_len(line) for line in lines} == {width}


def test_the_terminal_has_a_legend_of_what_occurs_and_no_more():
    shown = on_terminal(only(config(CHATML)), 200)
    assert 'field of the row (q)  in-context example  model format (HUMAN, BOT)  sent under a fallback role' in shown
    assert 'chat template' not in shown


def test_no_entry_of_the_legend_is_broken():
    legend = on_terminal(only(config(CHATML)), 40).split('╭')[0].splitlines()[1:]
    assert legend == [
        'dataset text  field of the row (q)',
        'in-context example',
        'model format (HUMAN, BOT)',
        'sent under a fallback role',
        'field without a value (nope)',
    ]


def test_blanks_and_special_tokens_are_visible_on_demand():
    shown = only(config(CHATML, question='a\tb c'))
    assert 'field q              +a⇥\tb·c' in list(plain_lines(shown, whitespace=True))
    out = io.StringIO()
    show_preview(shown, make_console(out, force=True, width=80), whitespace=True)
    assert 'user⏎' in out.getvalue()


def test_colours_disappear_with_no_color_but_underlines_stay(monkeypatch):
    monkeypatch.setenv('NO_COLOR', '1')
    out = io.StringIO()
    show_preview(only(config(CHATML)), make_console(out, force=True, width=80))
    assert '\x1b[4m1+1=?' in out.getvalue()
    assert '\x1b[38' not in out.getvalue()


def test_json_carries_the_request_and_spans_that_join_to_it():
    shown = json.loads(json_line(as_json(only(config(CHATML)))))
    assert ''.join(span['text'] for span in shown['spans']) == shown['request']
    assert shown['spans'][1] == {
        'text': 'Be good.',
        'kind': 'text',
        'name': '',
        'shot': None,
        'role': 'SYSTEM',
        'fallback': 'HUMAN',
        'message': None,
        'part': None,
        'token': None,
    }
    assert (shown['shots'], shown['mode'], shown['row']) == ([0, 1], 'gen', 0)
    assert [note['kind'] for note in shown['notes']] == ['fallback', 'not_sent']


def test_media_are_shortened_for_people_and_whole_for_programs():
    picture = 'A' * 10_000
    shown = only(
        {
            'models': [API],
            'datasets': [
                {
                    'abbr': 'mm',
                    'type': 'Rows',
                    'test': [{'q': 'What?', 'image': picture}],
                    'reader_cfg': {'input_columns': ['q', 'image'], 'output_column': None},
                    'infer_cfg': {
                        'prompt_template': {
                            'type': 'MMPromptTemplate',
                            'template': {
                                'round': [
                                    {
                                        'role': 'HUMAN',
                                        'prompt_mm': {
                                            'text': {'type': 'text', 'text': '{q}'},
                                            'image': {
                                                'type': 'image_url',
                                                'image_url': {'url': 'data:image/png;base64,{image}'},
                                            },
                                        },
                                    }
                                ]
                            },
                        }
                    },
                }
            ],
        }
    )
    assert max(map(len, plain_lines(shown))) < 200
    assert [block.heading for block in blocks_of(shown)] == ['user · text', 'user · image_url']
    assert picture in json_line(as_json(shown))


def test_sixteen_colours_tell_fields_from_examples(monkeypatch):
    monkeypatch.delenv('NO_COLOR', raising=False)
    monkeypatch.delenv('COLORTERM', raising=False)
    monkeypatch.setenv('TERM', 'xterm-16color')
    console = make_console(io.StringIO(), force=True)
    assert console.color_system == 'standard'
    hues = {look.style.split()[-1] for look in LOOKS.values() if '#' in look.style}
    drawn = {hue: console.get_style(hue).color.name for hue in hues}
    assert len(set(drawn.values())) == len(hues), drawn
    assert not any(name.startswith('#') for name in drawn.values())
