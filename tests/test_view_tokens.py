"""Tokens of a request: whose they are, and whether they fit."""

import io
import json
from pathlib import Path

import pytest

from rolecall.experiment.experiment import Experiment
from rolecall.experiment.previews.blocks import tokens_of
from rolecall.ui.cli.selection import PreviewQuery
from rolecall.ui.views.terminal import make_console, show_preview
from rolecall.ui.views.tokens import count_tokens

tokenizers = pytest.importorskip('tokenizers')

from rolecall.models.tokenizers.tokenizer import load_tokenizer  # noqa: E402  # it needs the package above


@pytest.fixture(scope='module')
def tokenizer(tmp_path_factory):
    """Byte-level, with one merge that joins a space to a letter, and a BOS it puts first."""
    folder = tmp_path_factory.mktemp('tokenizer')
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*alphabet, 'Ġ1', '<s>', '<|end|>'])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [('Ġ', '1')]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(['<s>', '<|end|>'])
    made.post_processor = tokenizers.processors.TemplateProcessing(single='<s> $A', special_tokens=[('<s>', 257)])
    made.save(str(folder / 'tokenizer.json'))
    (folder / 'tokenizer_config.json').write_text(json.dumps({'bos_token': '<s>'}))
    return load_tokenizer(folder)


def pair(model, *, shots=0, template='</E>Q: {q}'):
    config = {
        'models': [model],
        'datasets': [
            {
                'abbr': 'demo',
                'type': 'Rows',
                'train': [{'q': f'{n}' * 8, 'a': 'x'} for n in range(4)],
                'test': [{'q': '1é'}],
                'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
                'infer_cfg': {
                    'ice_template': {'type': 'PromptTemplate', 'template': '{q}'},
                    'prompt_template': {'type': 'PromptTemplate', 'ice_token': '</E>', 'template': template},
                    'retriever': {'type': 'FixKRetriever', 'fix_id_list': list(range(shots))}
                    if shots
                    else {'type': 'ZeroRetriever'},
                },
            }
        ],
    }
    experiment = Experiment.open(config)
    return experiment.pair(experiment.tasks[0], experiment.models[0])


def counted(of, tokenizer):
    (shown,) = PreviewQuery().previews(of)
    return shown, count_tokens(of, shown, tokenizer)


TEXT = {'abbr': 'text', 'type': 'HuggingFaceCausalLM', 'path': 'none'}
API = {'abbr': 'api', 'type': 'OpenAI', 'path': 'x'}


def test_each_token_belongs_to_the_origin_of_its_first_character(tokenizer):
    shown, count = counted(pair(TEXT), tokenizer)
    assert [(token.text, token.origin.kind, token.crosses) for token in count.tokens] == [
        ('<s>', 'marker', False),
        ('Q', 'text', False),
        (':', 'text', False),
        (' 1', 'text', True),
        ('é', 'field', False),
        ('', 'field', False),
    ]
    assert count.by_origin == {'text': 3, 'field': 2, 'marker': 1}
    assert ''.join(token.text for token in count.tokens[1:]) == shown.request


def test_messages_are_counted_without_the_words_around_them(tokenizer):
    _, count = counted(pair(API), tokenizer)
    assert count.contents_only
    assert count.total == 5
    assert dict(count.facts())['tokens'] == '5 in the contents of the messages (3 text, 2 field)'


def test_a_bos_that_is_there_is_not_put_twice(tokenizer):
    _, count = counted(pair(TEXT, template='<s>{q}</E>'), tokenizer)
    assert [token.piece for token in count.tokens].count('<s>') == 1


@pytest.mark.parametrize(
    ('max_seq_len', 'kept', 'words'),
    [
        (100, 4, '100 − 10 = 90 tokens: fits, 48 left'),
        (45, 3, '45 − 10 = 35 tokens: fits after 1 shot dropped, 2 left'),
        (26, 1, '26 − 10 = 16 tokens: fits after 3 shots dropped, 1 left'),
        (12, 0, '12 − 10 = 2 tokens: 5 too many after 4 shots dropped'),
    ],
)
def test_whole_shots_are_dropped_until_the_prompt_fits(tokenizer, max_seq_len, kept, words):
    own = {**TEXT, 'tokenizer_path': str(Path(tokenizer.name).parent), 'max_out_len': 10}
    shown, count = counted(pair({**own, 'max_seq_len': max_seq_len}, shots=4), tokenizer)
    assert count.counted == count.total
    assert (len(shown.shots), shown.shots_dropped) == (kept, 4 - kept)
    assert dict(count.facts())['budget'] == words


def test_without_the_models_own_tokenizer_it_is_not_known_what_fits(tokenizer):
    shown, count = counted(pair({**TEXT, 'max_seq_len': 26}, shots=4), tokenizer)
    assert len(shown.shots) == 4
    assert 'not known here' in dict(count.facts())['budget']
    assert [note.kind for note in shown.notes] == ['not_counted']


def test_token_ids_that_the_model_side_gives_are_tokens(tokenizer):
    meta = {'round': [{'role': 'HUMAN', 'begin': [258, 'U:']}, {'role': 'BOT', 'generate': True}]}
    dialogue = {'round': [{'role': 'HUMAN', 'prompt': '{q}'}], 'begin': ['</E>']}
    of = pair({**TEXT, 'meta_template': meta}, template=dialogue)
    shown, _ = counted(of, tokenizer)
    tokens = list(tokens_of(shown.spans, tokenizer, with_bos=False))
    assert [(token.id, token.text) for token in tokens][:2] == [(258, '<|end|>'), (tokens[1].id, 'U')]


def test_plain_lines_and_json_list_every_token(tokenizer):
    _, count = counted(pair(TEXT), tokenizer)
    lines = list(count.plain_lines())
    assert lines[0] == '-- tokens: 6 (3 text, 2 field, 1 marker)'
    assert lines[1] == "-- boundaries: 1 token across two origins: ' 1'"
    assert lines[-3].endswith('text      *│·1')
    shown = count.as_json()
    assert (shown['total'], shown['budget'], len(shown['tokens'])) == (6, None, 6)


def test_the_terminal_shows_ids_and_counts(tokenizer):
    shown, count = counted(pair(TEXT), tokenizer)
    out = io.StringIO()
    show_preview(shown, make_console(out, width=80), counted=count)
    assert 'token ids' in out.getvalue()
    assert '256\u00a0·1' in out.getvalue()
