"""Training files read by the trainers themselves: the tokens with a loss are exactly the answer's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('torch')
trl = pytest.importorskip('trl')

from datasets import load_dataset  # noqa: E402  # the packages above bring it

from chat_template_corpus import CHATML, QWEN_TOOLS  # noqa: E402
from rolecall.core import ChatTemplate  # noqa: E402
from rolecall.ui.cli.main import main  # noqa: E402
from small_models import make_model  # noqa: E402

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.filterwarnings('ignore'),  # those of other packages about one another
]

APP = """
from rolecall import AlpacaPrompter, ChatPrompter
ADD = {'type': 'function', 'function': {'name': 'add', 'parameters': {'type': 'object', 'properties': {}}}}
alpaca = AlpacaPrompter('Add {input}.')
chat = ChatPrompter('Add.', history=[['0+0', '0']])
tools = ChatPrompter('Add.', tools=[ADD])
bound = ChatPrompter('Add.').bind({'soh': '<u>', 'soa': '<a>', 'eoa': '</a>'})
"""
CALL = {'type': 'function', 'function': {'name': 'add', 'arguments': {'x': 1}}}
ROWS = [{'input': '1+1', 'answer': 'two'}, {'input': '2+2', 'answer': 'four'}]
CALLING = [*ROWS, {'input': '3+3', 'answer': {'role': 'assistant', 'content': '', 'tool_calls': [CALL]}}]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / 'model'
    folder.mkdir()
    make_model(folder, 'llama', spread=0.05)
    settings = json.loads((folder / 'tokenizer_config.json').read_text())
    (folder / 'tokenizer_config.json').write_text(json.dumps({**settings, 'eos_token': '<|im_end|>'}))
    (tmp_path / 'app.py').write_text(APP)
    return folder


def export(model: Path, prompter: str, form: str, rows: list[Any]) -> Path:
    home = model.parent
    (home / 'rows.jsonl').write_text(''.join(f'{json.dumps(row)}\n' for row in rows))
    out = home / f'{prompter}-{form}.jsonl'
    given = ['export', 'sft', str(home / 'rows.jsonl'), '--prompter', f'{home / "app.py"}:{prompter}']
    given += ['--answer-column', 'answer', '--model', str(model), '--form', form, '-o', str(out)]
    assert main(given) == 0
    return out


def trained_by_trl(model: Path, file: Path) -> list[tuple[str, str]]:
    """What TRL's trainer gives the model for each row: the text before the loss, and the text with a loss."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    config = trl.SFTConfig(
        output_dir=str(model.parent / 'out'),
        report_to=[],
        use_cpu=True,
        bf16=False,
        max_steps=1,
        per_device_train_batch_size=1,
    )
    data = load_dataset('json', data_files=str(file), split='train', cache_dir=str(model.parent / 'cache'))
    trainer = trl.SFTTrainer(model=str(model), args=config, train_dataset=data, processing_class=tokenizer)
    shown = []
    for row in trainer.train_dataset:
        labelled = [at for at, label in enumerate(row['labels']) if label != -100]
        assert labelled == list(range(labelled[0], labelled[-1] + 1))
        ids = row['input_ids']
        shown.append((tokenizer.decode(ids[: labelled[0]]), tokenizer.decode(ids[labelled[0] : labelled[-1] + 1])))
    trainer.train()
    return shown


@pytest.mark.parametrize('form', ['prompt-completion', 'tokens'])
@pytest.mark.parametrize('prompter', ['alpaca', 'chat', 'bound'])
def test_trl_trains_exactly_on_the_answer(model: Path, prompter: str, form: str) -> None:
    (model / 'chat_template.jinja').write_text(CHATML.source)
    made = trained_by_trl(model, export(model, prompter, form, ROWS))
    texts = [json.loads(line) for line in export(model, prompter, 'text', ROWS).read_text().splitlines()]
    for (asked, trained), text in zip(made, texts, strict=True):
        [[start, stop]] = text['spans']
        bos = '<s>' if prompter == 'bound' else ''  # text models begin with one
        assert asked == bos + text['text'][:start]
        end = (
            '<|im_end|>' if prompter == 'bound' and form == 'prompt-completion' else ''
        )  # TRL adds its end of sequence
        assert trained.strip() == (text['text'][start:stop] + end).strip()


@pytest.mark.parametrize('form', ['prompt-completion', 'tokens'])
def test_trl_trains_on_the_tool_call_as_the_template_words_it(model: Path, form: str) -> None:
    (model / 'chat_template.jinja').write_text(QWEN_TOOLS.source)
    made = trained_by_trl(model, export(model, 'tools', form, CALLING))
    assert [trained.strip() for _, trained in made] == [
        'two<|im_end|>',
        'four<|im_end|>',
        '<tool_call>\n{"name": "add", "arguments": {"x": 1}}\n</tool_call><|im_end|>',
    ]
    template = ChatTemplate.from_file(model)
    lines = [json.loads(line) for line in export(model, 'tools', 'messages', CALLING).read_text().splitlines()]
    for (asked, _), line in zip(made, lines, strict=True):
        assert asked == template.render(line['messages'][:-1], tools=line['tools'])


# Trainers with narrow requirements run in a Python of their own, named by an environment variable.

SCRIPTS = Path(__file__).parent / 'trainers'


def read_labels(variable: str, script: str, *given: object) -> list[list[Any]]:
    """What a trainer's own loader makes of a file: the text before the loss, the text with a loss, no gap in it."""
    python = os.environ.get(variable)
    if python is None:
        pytest.skip(f'{variable} names no Python with this trainer')
    command = [python, str(SCRIPTS / script), *map(str, given)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith('LABELS ')]
    found: list[list[Any]] = json.loads(line.removeprefix('LABELS '))
    return found


def check_labels(made: list[list[Any]], model: Path, prompter: str) -> None:
    texts = [json.loads(line) for line in export(model, prompter, 'text', ROWS).read_text().splitlines()]
    for (asked, trained, whole), text in zip(made, texts, strict=True):
        [[start, stop]] = text['spans']
        assert asked == text['text'][:start]
        assert trained.strip() == text['text'][start:stop].strip()
        assert whole


@pytest.mark.parametrize('prompter', ['alpaca', 'chat'])
@pytest.mark.parametrize(('form', 'template'), [('alpaca', 'empty'), ('sharegpt', 'chatml')])
def test_llama_factory_trains_exactly_on_the_answer(model: Path, prompter: str, form: str, template: str) -> None:
    (model / 'chat_template.jinja').write_text(CHATML.source)
    file = export(model, prompter, form, ROWS)
    given = (model, file.parent, file.stem, template)
    check_labels(read_labels('LLAMA_FACTORY_PYTHON', 'llama_factory_labels.py', *given), model, prompter)


@pytest.mark.parametrize('prompter', ['alpaca', 'chat'])
def test_axolotl_trains_exactly_on_the_answer(model: Path, prompter: str) -> None:
    (model / 'chat_template.jinja').write_text(CHATML.source)
    file = export(model, prompter, 'messages', ROWS)
    check_labels(read_labels('AXOLOTL_PYTHON', 'axolotl_labels.py', model, file), model, prompter)


CALLED = '<tool_call>\n{"name": "add", "arguments": {"x": 1}}\n</tool_call><|im_end|>'


def test_tool_calls_are_trained_on_by_the_others_too(model: Path) -> None:
    (model / 'chat_template.jinja').write_text(QWEN_TOOLS.source)
    files = {form: export(model, 'tools', form, CALLING) for form in ('alpaca', 'messages')}
    given = (model, model.parent, files['alpaca'].stem, 'empty')
    made = read_labels('LLAMA_FACTORY_PYTHON', 'llama_factory_labels.py', *given)
    assert [trained.strip() for _, trained, _ in made] == ['two<|im_end|>', 'four<|im_end|>', CALLED]
    made = read_labels('AXOLOTL_PYTHON', 'axolotl_labels.py', model, files['messages'])
    assert [trained.strip() for _, trained, _ in made] == ['two<|im_end|>', 'four<|im_end|>', CALLED]
