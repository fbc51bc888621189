"""`rolecall export sft`: training files from the command line."""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecall.errors import RolecallError
from rolecall.ui.cli.export.sft import declare, execute

CONFIG = """
models = [
    dict(abbr='text', type='HuggingFaceCausalLM', path='none', meta_template='chatml'),
    dict(abbr='gpt', type='OpenAI', path='gpt-x'),
]
datasets = [dict(abbr='demo', type='Rows', test=[dict(q='1+1=?', a=2), dict(q='2+2=?', a=4)], train=[dict(q='0+1=?', a=1)],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template=dict(
        round=[dict(role='HUMAN', prompt='{q}'), dict(role='BOT', prompt='{a}')]))))]
"""
APP = "from rolecall import ChatPrompter\nadder = ChatPrompter('Add {x} and {y}.', system='')\n"
Run = Callable[..., tuple[list[Any], str]]


def sft(*given: str) -> int:
    parser = argparse.ArgumentParser()
    declare(parser)
    return execute(parser.parse_args(given))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*given: Any) -> tuple[list[Any], str]:
        assert sft(*map(str, given)) == 0
        shown = capsys.readouterr()
        return [json.loads(line) for line in shown.out.splitlines()], shown.err

    return run


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / 'config.py'
    path.write_text(CONFIG)
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / 'rows.jsonl'
    given = [{'x': 1, 'y': 2, 'sum': 3}, {'x': 2, 'y': 2, 'sum': 4}, {'x': 2, 'y': 2, 'sum': ''}]
    path.write_text(''.join(json.dumps(row) + '\n' for row in given))
    return path


@pytest.fixture
def app(tmp_path: Path) -> str:
    (tmp_path / 'app.py').write_text(APP)
    return f'{tmp_path / "app.py"}:adder'


def test_a_dataset_and_a_chat_model_give_messages(run: Run, config: Path) -> None:
    lines, said = run(config, '--model', 'gpt')
    assert lines[0] == {'messages': [{'role': 'user', 'content': '1+1=?'}, {'role': 'assistant', 'content': '2'}]}
    assert len(lines) == 2
    assert said == '2 examples\n'


def test_a_dataset_and_a_text_model_give_texts_with_stretches(run: Run, config: Path) -> None:
    [line], _ = run(config, '--model', 'text', '--form', 'text', '--limit', '1')
    asked = '<|im_start|>user\n1+1=?<|im_end|>\n<|im_start|>assistant\n'
    assert line == {'text': f'{asked}2<|im_end|>\n', 'spans': [[len(asked), len(asked) + 12]]}


def test_the_training_split_can_be_exported(run: Run, config: Path) -> None:
    [line], _ = run(config, '--model', 'gpt', '--split', 'train')
    assert line['messages'][0]['content'] == '0+1=?'


def test_tokens_come_from_the_tokenizer_that_is_named(run: Run, config: Path, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip('tokenizers')
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    inner = tokenizers.Tokenizer(tokenizers.models.BPE({letter: n for n, letter in enumerate(alphabet)}, []))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.add_special_tokens(['<|im_end|>'])
    inner.save(str(tmp_path / 'tokenizer.json'))
    [line], _ = run(config, '--model', 'text', '--form', 'tokens', '--limit', 1, '--tokenizer', tmp_path)
    answer = [number for number in line['labels'] if number != -100]
    assert [inner.decode([number], skip_special_tokens=False) for number in answer] == ['2', '<|im_end|>', '\n']
    assert len(line['labels']) == len(line['input_ids'])


def test_rows_and_a_prompter_give_messages_or_texts(run: Run, rows: Path, app: str) -> None:
    given = (rows, '--prompter', app, '--answer-column', 'sum', '--skip')
    lines, said = run(*given)
    assert [line['messages'][-1]['content'] for line in lines] == ['3', '4']
    assert (
        "1 row left out: the answer is missing. The first: row 2: the answer is missing: column 'sum' is empty." in said
    )
    lines, _ = run(*given, '--form', 'text', '--meta-template', 'chatml', '--limit', 1)
    assert lines[0]['text'].endswith('<|im_start|>assistant\n3<|im_end|>\n')
    lines, said = run(*given, '--form', 'text', '--limit', 1)
    assert lines[0]['text'].endswith('<|Assistant|>:\n3')
    assert 'no end marker' in said
    lines, said = run(*given, '--form', 'text', '--limit', 1, '--end', r'</s>\n')
    assert lines[0]['text'].endswith('3</s>\n')
    assert said.endswith('\n1 example\n')
    assert 'the default markers are used: name one with --model' in said


def test_a_file_of_rows_and_a_template_need_no_config(run: Run, rows: Path) -> None:
    [line], _ = run(rows, '--template', '{x}+{y}={sum}', '--output-column', 'sum', '--api', '--limit', 1)
    assert [one['content'] for one in line['messages']] == ['1+2=', '3']


def test_a_file_may_be_compressed_and_appears_when_it_is_complete(run: Run, rows: Path, app: str) -> None:
    target = rows.parent / 'out' / 'sft.jsonl.gz'
    target.parent.mkdir()
    given = (rows, '--prompter', app, '--answer-column', 'sum', '-o', target)
    with pytest.raises(RolecallError, match='row 2: the answer is missing'):
        run(*given)
    assert list(target.parent.iterdir()) == []
    _, said = run(*given, '--skip')
    assert said.startswith(f'2 examples in {target}\n')
    with gzip.open(target, 'rt', encoding='utf-8') as lines:
        assert len(list(lines)) == 2


@pytest.mark.parametrize(
    ('given', 'reason'),
    [
        ([], 'several models match: text, gpt'),
        (['--model', 'text'], 'takes text, not messages'),
        (['--model', 'gpt', '--form', 'text'], 'no chat template is available'),
        (['--model', 'text', '--form', 'tokens'], '--form tokens needs the model.s tokenizer'),
        (['--model', 'text', '--form', 'tokens', '--tokenizer', 'none/such'], 'no tokenizer found'),
    ],
)
def test_what_cannot_be_exported_is_an_error(config: Path, given: list[str], reason: str) -> None:
    with pytest.raises(RolecallError, match=reason):
        sft(str(config), *given)


def test_a_prompter_needs_the_answers_column(rows: Path, app: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sft(str(rows), '--prompter', app) == 2
    assert '--prompter needs --answer-column' in capsys.readouterr().err


def test_a_config_without_models_trains_nobody(config: Path) -> None:
    config.write_text(CONFIG + 'models = []\n')
    with pytest.raises(RolecallError, match='the config has no models'):
        sft(str(config))


def test_many_rows_stream_through(tmp_path: Path, app: str, run: Run) -> None:
    rows = tmp_path / 'many.jsonl'
    rows.write_text(''.join(json.dumps({'x': n, 'y': n, 'sum': 2 * n}) + '\n' for n in range(2000)))
    target = tmp_path / 'sft.jsonl'
    _, said = run(rows, '--prompter', app, '--answer-column', 'sum', '-o', target)
    lines = target.read_text(encoding='utf-8').splitlines()
    assert len(lines) == 2000
    assert json.loads(lines[-1])['messages'][-1] == {'role': 'assistant', 'content': '3998'}
    assert said == f'2,000 examples in {target}\n'


def test_a_column_that_no_slot_uses_is_named_or_declared_silent(run: Run, tmp_path: Path) -> None:
    (tmp_path / 'app.py').write_text("from rolecall import ChatPrompter\n\nspeaker = ChatPrompter('In {language}.')\n")
    data = tmp_path / 'spoken.jsonl'
    data.write_text(json.dumps({'language': 'French', 'question': 'One and one?', 'answer': 'Deux.'}) + '\n')
    given = (data, '--prompter', f'{tmp_path / "app.py"}:speaker', '--answer-column', 'answer')
    with pytest.raises(RolecallError, match='It has: question. Name it: --input-column COLUMN'):
        sft(*map(str, given))
    [line], _ = run(*given, '--input-column', 'question')
    assert line['messages'][1]['content'] == 'One and one?'
    [line], _ = run(*given, '--input-column', '')
    assert line['messages'][1] == {'role': 'user', 'content': ''}
