"""Training files of a prompter for a named model: worded as inference words it, in every form a trainer reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chat_template_corpus import CHATML, LLAMA31, MISTRAL, QWEN_TOOLS, Family
from rolecall import ChatPrompter, RolecallError
from rolecall.apps.chat.adapters import ModuleCall, TextAdapter
from rolecall.apps.sft.examples import TextExample
from rolecall.apps.sft.prompter_examples import Columns, PrompterSide, prompter_examples
from rolecall.apps.sft.training_file import FORMS, Form, SftReport, entries
from rolecall.core import ChatTemplate
from rolecall.core.prompters.frame_renderer import ModelBinder
from rolecall.errors import PrompterError
from rolecall.ui.cli.main import main
from small_gguf import make_gguf
from small_models import make_tokenizer

APP = """
from rolecall import AlpacaPrompter, ChatPrompter
ADD = {'type': 'function', 'function': {'name': 'add', 'parameters': {'type': 'object'}}}
alpaca = AlpacaPrompter('Add {input}.')
chat = ChatPrompter('Add.', history=[['0+0', '0']])
tools = ChatPrompter('Add.', tools=[ADD])
bound = ChatPrompter('Add.').bind({'soh': '<u>', 'soa': '<a>', 'eoa': '</a>'})
"""
CALL = {'id': 'c1', 'type': 'function', 'function': {'name': 'add', 'arguments': {'x': 1}}}
ANSWER = {'role': 'assistant', 'content': None, 'tool_calls': [CALL]}
TOOL = {'type': 'function', 'function': {'name': 'add', 'parameters': {'type': 'object'}}}
Export = Callable[..., tuple[list[Any], str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder: a tokenizer with a chat template, and a config."""
    made = tmp_path / 'model'
    made.mkdir()
    make_tokenizer(made, bos=True)
    (made / 'chat_template.jinja').write_text(CHATML.source)
    (made / 'config.json').write_text('{"model_type": "llama"}')
    (tmp_path / 'app.py').write_text(APP)
    (tmp_path / 'rows.jsonl').write_text('{"input": "1+1", "answer": 2}\n')
    return made


@pytest.fixture
def export(folder: Path, capsys: pytest.CaptureFixture[str]) -> Export:
    home = folder.parent

    def export(prompter: str, *given: Any) -> tuple[list[Any], str]:
        source = ('export', 'sft', str(home / 'rows.jsonl'), '--prompter', f'{home / "app.py"}:{prompter}')
        code = main([*source, '--answer-column', 'answer', *map(str, given)])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        return [json.loads(line) for line in shown.out.splitlines()], shown.err

    return export


def prompt_of(folder: Path, prompter: str) -> str:
    """What `TrainableModule` sends to this model."""
    space: dict[str, Any] = {}
    exec(APP, space)
    adapter = TextAdapter(ChatTemplate.from_file(folder))
    return str(adapter.word(space[prompter], ModuleCall({'input': '1+1'}), ()).request)


@pytest.mark.parametrize('prompter', ['alpaca', 'chat', 'tools', 'bound'])
@pytest.mark.parametrize('kind', ['folder', 'gguf', 'config'])
def test_training_text_begins_with_what_the_module_sends(
    export: Export, folder: Path, prompter: str, kind: str
) -> None:
    if kind == 'gguf':
        make_gguf(folder.parent / 'model.gguf', **{'tokenizer.chat_template': CHATML.source})
    entry = {'abbr': 'mine', 'type': 'HuggingFaceCausalLM', 'path': str(folder)}
    (folder.parent / 'config.py').write_text(f'models = [{entry!r}]\n')
    places = {'folder': folder, 'gguf': folder.parent / 'model.gguf', 'config': f'{folder.parent / "config.py"}:mine'}
    prompt = prompt_of(folder, prompter)
    [line], said = export(prompter, '--model', places[kind], '--form', 'text')
    [[start, stop]] = line['spans']
    assert line['text'][:start] == prompt
    answer = '2</a>' if prompter == 'bound' else '2<|im_end|>' if kind == 'gguf' else '2<|im_end|>\n'  # the file's EOS
    assert line['text'][start:stop] == answer
    assert 'default markers' not in said
    [line], _ = export(prompter, '--model', places[kind], '--form', 'alpaca')
    begins = '<s>' if prompter == 'bound' and kind != 'gguf' else ''  # what a chat template writes itself
    assert line == {'instruction': begins + prompt, 'input': '', 'output': answer}


@pytest.mark.parametrize('prompter', ['alpaca', 'chat', 'tools'])
def test_messages_are_what_the_chat_template_gets_at_inference(export: Export, folder: Path, prompter: str) -> None:
    template = ChatTemplate.from_file(folder)
    [line], _ = export(prompter, '--model', folder)
    assert 'tools' not in line  # this template cannot print them, so they are in the system message
    assert line['messages'][-1] == {'role': 'assistant', 'content': '2'}
    assert template.render(line['messages'][:-1]) == prompt_of(folder, prompter)
    [line], _ = export(prompter, '--model', folder, '--form', 'prompt-completion')
    assert template.render(line['prompt']) == prompt_of(folder, prompter)
    assert line['completion'] == [{'role': 'assistant', 'content': '2'}]


def test_tokens_carry_an_attention_mask(export: Export, folder: Path) -> None:
    [line], _ = export('chat', '--model', folder, '--form', 'tokens')
    assert set(line) == {'input_ids', 'attention_mask', 'labels'}
    assert line['attention_mask'] == [1] * len(line['input_ids'])


def test_a_tokenizer_with_a_chat_template_beside_an_unbound_prompter_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = folder.parent
    for name, refused in (('chat', True), ('bound', False)):
        given = ['export', 'sft', str(home / 'rows.jsonl'), '--prompter', f'{home / "app.py"}:{name}']
        given += ['--answer-column', 'answer', '--form', 'tokens', '--tokenizer', str(folder)]
        assert main(given) == (2 if refused else 0)
        said = capsys.readouterr().err
        assert ('has a chat template, and the prompter is not bound to it' in said) is refused
        assert (f'give --model {folder} instead' in said) is refused


@pytest.mark.parametrize('form', FORMS)
def test_a_special_token_in_a_row_is_refused_in_every_form(export: Export, folder: Path, form: Form) -> None:
    """Inference sends its characters; a trainer would read the token."""
    rows = [{'input': 'What is <|im_end|>?', 'answer': 'a'}, {'input': '1+1', 'answer': '2'}]
    (folder.parent / 'rows.jsonl').write_text(''.join(f'{json.dumps(row)}\n' for row in rows))
    lines, said = export('chat', '--model', folder, '--form', form, '--skip')
    assert len(lines) == 1
    assert '1 row left out: the row contains a special token. The first: row 0: ' in said


def test_llama_factory_finds_the_file_in_its_dataset_info(export: Export, folder: Path) -> None:
    out = folder.parent / 'mine.jsonl'
    (folder.parent / 'dataset_info.json').write_text('{"other": {"file_name": "other.json"}}')
    _, said = export('tools', '--model', folder, '--form', 'sharegpt', '-o', out)
    assert 'dataset mine for LLaMA-Factory' in said
    info = json.loads((folder.parent / 'dataset_info.json').read_text())
    columns = {'messages': 'conversations', 'tools': 'tools'}
    assert info['mine'] == {'file_name': 'mine.jsonl', 'formatting': 'sharegpt', 'columns': columns}
    assert set(info) == {'mine', 'other'}
    [line] = [json.loads(one) for one in out.read_text().splitlines()]
    assert [turn['from'] for turn in line['conversations']] == ['system', 'human', 'gpt']


@pytest.mark.parametrize(
    ('given', 'reason'),
    [
        (['--model', 'openai/gpt-4o', '--form', 'text'], 'gpt-4o takes messages, and no chat template'),
        (['--model', 'nowhere.gguf'], 'no such file: nowhere.gguf'),
        (['--model', 'smolm2'], "Did you mean 'smollm2'"),
        (['--model', 'hf:nobody/nothing'], 'nobody/nothing is not on this machine, so its chat template is not known'),
        (['--form', 'sharegpt', '-o', 'x.jsonl.gz'], 'LLaMA-Factory reads no .gz files'),
    ],
)
def test_a_model_or_form_that_does_not_fit_is_an_error(
    folder: Path, given: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    home = folder.parent
    source = ['export', 'sft', str(home / 'rows.jsonl'), '--prompter', f'{home / "app.py"}:chat']
    assert main([*source, '--answer-column', 'answer', *given]) == 2
    assert reason in capsys.readouterr().err


def test_an_unknown_model_of_a_config_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder.parent / 'config.py').write_text("models = [dict(abbr='mine', type='OpenAI', path='x')]\n")
    source = ['export', 'sft', str(folder.parent / 'rows.jsonl'), '--prompter', f'{folder.parent / "app.py"}:chat']
    assert main([*source, '--answer-column', 'answer', '--model', f'{folder.parent / "config.py"}:mien']) == 2
    assert "has no model 'mien'" in capsys.readouterr().err


def test_a_hub_model_in_the_cache_is_worded_with_its_template(
    export: Export, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = folder.parent / 'hub' / 'models--org--name'
    (model / 'refs').mkdir(parents=True)
    (model / 'refs' / 'main').write_text('abc')
    (model / 'snapshots').mkdir()
    folder.rename(model / 'snapshots' / 'abc')
    monkeypatch.setenv('HF_HUB_CACHE', str(folder.parent / 'hub'))
    [line], _ = export('chat', '--model', 'hf:org/name', '--form', 'text')
    assert line['text'].startswith('<|im_start|>system')


# Answers with tool calls.


def lines(prompter: Any, rows: list[Any], form: Form) -> list[Any]:
    given = prompter_examples(prompter, rows, Columns('answer', tools='tools'), form=form)
    return list(entries(given, SftReport(), form=form))


def chat_template(family: Family) -> ChatTemplate:
    return ChatTemplate(family.source, bos_token=family.bos, eos_token=family.eos)


CALLED = {
    'qwen': (QWEN_TOOLS, '<tool_call>\n{"name": "add", "arguments": {"x": 1}}\n</tool_call><|im_end|>\n'),
    'llama 3.1': (LLAMA31, None),
    'mistral': (MISTRAL, None),
}


@pytest.mark.parametrize('name', CALLED)
def test_an_answer_with_a_tool_call_is_trained_as_the_template_words_it(name: str) -> None:
    family, said = CALLED[name]
    template = chat_template(family)
    call = {**CALL, 'id': 'abcdefghi'}  # as one of the templates wants it
    row = {'input': 'q', 'tools': [TOOL], 'answer': {'role': 'assistant', 'content': '', 'tool_calls': [call]}}
    side = PrompterSide(ChatPrompter('Add.'), ModelBinder(template))
    [line] = lines(side, [row], 'prompt-completion')
    asked = template.render(line['prompt'], tools=line['tools'])
    whole = template.render(line['prompt'] + line['completion'], tools=line['tools'], add_generation_prompt=False)
    assert whole.startswith(asked)
    [text] = lines(side, [row], 'text')
    [[start, stop]] = text['spans']
    assert text['text'][:start] == asked
    assert text['text'][start:stop].strip() == whole[len(asked) :].strip()
    assert '"x": 1' in text['text'][start:stop]
    assert said is None or text['text'][start:stop] == said
    [line] = lines(side, [row], 'messages')
    assert line['messages'][-1]['tool_calls'][0]['function']['arguments'] == {'x': 1}  # templates take data
    [line] = lines(side, [row], 'sharegpt')
    assert line['conversations'][-1] == {'from': 'function_call', 'value': '[{"name": "add", "arguments": {"x": 1}}]'}
    assert json.loads(line['tools']) == [TOOL]


def test_messages_for_an_api_have_arguments_as_openai_takes_them() -> None:
    row = {'input': 'q', 'tools': [TOOL], 'answer': ANSWER}
    [line] = lines(ChatPrompter('Add.'), [row], 'messages')
    assert line['messages'][-1]['tool_calls'][0]['function']['arguments'] == '{"x": 1}'
    assert line['tools'] == [TOOL]


def test_a_tool_call_that_the_model_cannot_write_is_refused() -> None:
    side = PrompterSide(ChatPrompter('Add.'), ModelBinder(chat_template(CHATML)))
    row = {'input': 'q', 'tools': [TOOL], 'answer': ANSWER}
    for form in ('text', 'messages', 'prompt-completion', 'sharegpt', 'alpaca'):
        with pytest.raises(RolecallError, match='the answer has a tool call, and this model has no form for one'):
            lines(side, [row], form)  # type: ignore[arg-type]  # a literal of the tuple


def test_arguments_that_are_not_json_are_an_error() -> None:
    broken = {**CALL, 'function': {'name': 'add', 'arguments': '{'}}
    row = {'input': 'q', 'tools': [TOOL], 'answer': {**ANSWER, 'tool_calls': [broken]}}
    with pytest.raises(RolecallError, match='tool call arguments must be JSON'):
        lines(ChatPrompter('Add.'), [row], 'sharegpt')


def test_several_trained_answers_give_a_line_each_where_a_line_holds_one() -> None:
    from rolecall.apps.sft.training_programs import Aim

    prompter = ChatPrompter('Add.', system='', history=[['1+1', '2']]).bind({'soh': '<u>', 'soa': '<a>', 'eoa': '</a>'})
    given = prompter_examples(
        prompter, [{'input': '2+2', 'a': 4}], Columns('a'), form='prompt-completion', aim=Aim(all_answers=True)
    )
    made = list(entries(given, SftReport(), form='prompt-completion'))
    assert [line['completion'] for line in made] == ['2</a>', '4</a>']
    assert made[1]['prompt'].startswith(made[0]['prompt'] + '2</a>')


@pytest.mark.parametrize(
    ('history', 'reason'),
    [
        ([{'role': 'user', 'content': 'a'}, {'role': 'user', 'content': 'b'}], 'do not alternate'),
        ([['a', 'b'], {'role': 'assistant', 'content': 'c'}], 'do not alternate'),
    ],
)
def test_turns_that_llama_factory_would_drop_are_refused(history: list[Any], reason: str) -> None:
    with pytest.raises(RolecallError, match=reason):
        lines(ChatPrompter('Add.', history=history), [{'input': 'q', 'answer': 1, 'tools': None}], 'sharegpt')


def test_an_example_of_a_prompter_is_made_once_for_all_forms() -> None:
    side = PrompterSide(ChatPrompter('Add.'), ModelBinder(chat_template(QWEN_TOOLS)))
    [(_, teach)] = prompter_examples(side, [{'input': 'q', 'answer': 'x'}], Columns('answer'), form='text')
    example = teach()
    assert isinstance(example, TextExample)
    with pytest.raises(PrompterError, match='is an input of the prompter'):
        list(prompter_examples(side, [], Columns('input'), form='text'))
