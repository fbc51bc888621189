"""Fine-tuning data as token ids: one tokenization, a label for each token, nothing trained on that inference sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_template_corpus import CHATML, LLAMA3
from helpers import LM, bot, config, human, template
from rolecall import ChatPrompter
from rolecall.apps.sft.pair_examples import entry_encoder, pair_examples
from rolecall.apps.sft.prompter_examples import Columns, PrompterSide, prompter_examples
from rolecall.apps.sft.training_file import SftReport, entries
from rolecall.apps.sft.training_programs import Aim
from rolecall.experiment.experiment import Experiment, preview
from rolecall.models.local_engine import PromptEncoder

tokenizers = pytest.importorskip('tokenizers')

from rolecall.models.tokenizers.huggingface import FastTokenizer  # noqa: E402  # it needs the package above
from rolecall.models.tokenizers.tokenizer import Tokenizer, load_tokenizer  # noqa: E402  # it needs the package above

SPECIAL = ['<s>', '<|im_start|>', '<|im_end|>', '<B>', '</B>']


def made(folder: Path) -> Tokenizer:
    """Byte-level, with merges over spaces and across words, and a BOS that it puts first."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    merges = [('Ġ', '4'), (':', 'Ġ'), ('4', '2')]
    vocabulary = {token: n for n, token in enumerate([*alphabet, *map(''.join, merges), *SPECIAL])}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.add_special_tokens(SPECIAL)
    number = vocabulary['<s>']
    inner.post_processor = tokenizers.processors.TemplateProcessing(single='<s> $A', special_tokens=[('<s>', number)])
    inner.save(str(folder / 'tokenizer.json'))
    (folder / 'tokenizer_config.json').write_text(json.dumps({'bos_token': '<s>'}))
    return load_tokenizer(folder)


@pytest.fixture(scope='module')
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return made(tmp_path_factory.mktemp('tokenizer'))


def exported(written: dict[str, Any], tokenizer: Tokenizer, **aim: Any) -> tuple[list[dict[str, Any]], SftReport]:
    experiment = Experiment.open(written)
    pair = experiment.pair(experiment.tasks[0], experiment.models[0])
    report = SftReport()
    given_rows = pair_examples(pair, form='tokens', aim=Aim(**aim))
    return list(
        entries(given_rows, report, form='tokens', encoder=entry_encoder(experiment.models[0], tokenizer))
    ), report


def labelled(entry: dict[str, Any], tokenizer: Tokenizer) -> str:
    assert all(label in (-100, number) for number, label in zip(entry['input_ids'], entry['labels'], strict=True))
    return tokenizer.decode([label for label in entry['labels'] if label != -100])


DIALOGUE = template(dict(round=[human('{question}'), bot('{answer}')]))


def test_the_answer_and_its_end_have_labels_and_nothing_else(tokenizer: Tokenizer) -> None:
    written = config([{'question': 'q é', 'answer': 'a 你'}], DIALOGUE, meta=LM)
    [entry], report = exported(written, tokenizer)
    assert tokenizer.decode(entry['input_ids']) == '<s><H>q é</H><B>a 你</B>'
    assert labelled(entry, tokenizer) == 'a 你</B>'
    assert (report.straddling, report.shifted, report.endless) == (0, 0, 0)


def test_the_ids_begin_with_those_that_inference_sends(tokenizer: Tokenizer) -> None:
    for side in ({'meta': LM}, {'meta': 'llama2'}, {'model': chat(CHATML)}, {'model': chat(LLAMA3)}):
        written = config([{'question': 'q', 'answer': '4'}], DIALOGUE, **side)
        [entry], _ = exported(written, tokenizer)
        [sent] = preview(written)
        begins = 'model' not in side
        ids = list(PromptEncoder(tokenizer, begins=begins).encode(sent.request or '').ids)
        assert entry['input_ids'][: len(ids)] == ids
        assert set(entry['labels'][: len(ids)]) == {-100}
        assert entry['labels'][len(ids)] == entry['input_ids'][len(ids)]


def chat(family: Any) -> dict[str, Any]:
    return {'abbr': 'c', 'type': 'HuggingFacewithChatTemplate', 'path': 'none', 'chat_template': family.source}


def test_there_is_one_bos_where_the_model_wants_one(tokenizer: Tokenizer) -> None:
    bos = tokenizer.bos_id
    for side, count in (({'meta': LM}, 1), ({'meta': 'mistral'}, 1), ({'model': chat(CHATML)}, 0)):
        [entry], _ = exported(config([{'question': 'q', 'answer': 'a'}], DIALOGUE, **side), tokenizer)
        assert entry['input_ids'].count(bos) == count
        assert entry['labels'][0] == -100


def test_a_token_over_the_boundary_is_not_trained_on_and_counted(tokenizer: Tokenizer) -> None:
    rows = [{'question': 'q', 'answer': answer} for answer in (' x', '42', 'x')]
    found, report = exported(config(rows, template('{question}:{answer}')), tokenizer)
    assert [labelled(entry, tokenizer) for entry in found] == ['x', '42', 'x']
    assert (report.straddling, report.shifted, report.endless) == (1, 1, 3)
    said = list(report.remarks())
    assert '1 token spanning the boundary of an answer: not trained on.' in said
    assert '1 row: the request tokenizes differently when the answer follows.' in said


def test_an_answer_without_a_token_of_its_own_is_refused(tokenizer: Tokenizer) -> None:
    written = config([{'question': 'q ', 'answer': '4'}], template('{question}{answer}'))
    with pytest.raises(Exception, match='demo, row 0: no token lies inside the answer'):
        exported(written, tokenizer)


def test_tokens_of_all_answers_have_labels_if_asked_for(tokenizer: Tokenizer) -> None:
    prompt = template(dict(begin=['</E>'], round=[human('{question}'), bot('{answer}')]), ice_token='</E>')
    written = config(
        [{'question': 'q', 'answer': 'a'}], prompt, DIALOGUE, [{'question': 'x', 'answer': '你y'}], meta=LM
    )
    [entry], _ = exported(written, tokenizer, all_answers=True)
    assert labelled(entry, tokenizer) == '你y</B>a</B>'
    [entry], _ = exported(written, tokenizer)
    assert labelled(entry, tokenizer) == 'a</B>'


@given(question=st.text(max_size=20), answer=st.text(min_size=1, max_size=20).filter(str.strip))
def test_every_token_of_any_answer_is_labelled_or_counted(tokenizer: Tokenizer, question: str, answer: str) -> None:
    written = config([{'question': question, 'answer': answer}], DIALOGUE, meta=LM)
    [entry], report = exported(written, tokenizer)
    ids, labels = entry['input_ids'], entry['labels']
    first = labels.index(next(label for label in labels if label != -100))
    assert report.straddling == 0
    assert labels[first:] == ids[first:]
    assert ids[first - 1] == tokenizer.special_tokens['<B>']


def test_a_prompters_tokens_follow_the_same_rules(tokenizer: Tokenizer) -> None:
    prompter = ChatPrompter('Add.', system='').bind({'soa': '<B>', 'eoa': '</B>'}, system='')
    given_rows = prompter_examples(prompter, [{'input': '1+1', 'sum': 2}], Columns('sum'), form='tokens')
    [entry] = entries(given_rows, SftReport(), form='tokens', encoder=PrompterSide(prompter).encoder(tokenizer))
    sent = prompter.generate_prompt('1+1')
    assert tokenizer.decode(entry['input_ids']) == f'<s>{sent}2</B>'
    assert labelled(entry, tokenizer) == '2</B>'


def test_the_space_that_sentencepiece_puts_first_goes_with_what_follows(tmp_path: Path) -> None:
    letters = {'<unk>': 0, '▁': 1, **{letter: n for n, letter in enumerate('abq:</B>', 2)}}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(letters, [], unk_token='<unk>'))
    inner.normalizer = tokenizers.normalizers.Sequence([tokenizers.normalizers.Prepend('▁'), tokenizers.normalizers.Replace(' ', '▁')])  # fmt: skip
    inner.decoder = tokenizers.decoders.Sequence([tokenizers.decoders.Replace('▁', ' ')])
    inner.add_special_tokens(['<B>', '</B>'])
    inner.save(str(tmp_path / 'tokenizer.json'))
    spaced = FastTokenizer.from_json(tmp_path / 'tokenizer.json')
    [entry], report = exported(config([{'question': 'q', 'answer': 'ab'}], DIALOGUE, meta={'round': [{'role': 'HUMAN'}, {'role': 'BOT', 'begin': '<B>', 'end': '</B>', 'generate': True}]}), spaced)  # fmt: skip
    pieces = [(spaced.pieces([number])[0], label != -100) for number, label in zip(entry['input_ids'], entry['labels'], strict=True)]  # fmt: skip
    assert pieces == [(' ', False), ('q', False), ('<B>', False), (' ', True), ('a', True), ('b', True), ('</B>', True)]
    assert report.shifted == 0
