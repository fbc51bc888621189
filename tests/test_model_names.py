"""Models by name: every form becomes a model entry, and a name that is not one says what was probably meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rolecall import ConfigError, OnlineChatModule
from rolecall.apps.chat import ModuleError
from rolecall.checking import Problems
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.model_entries import build_model_entry
from rolecall.models.model_names import SOURCES, resolve_model, resolve_models


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (name for source in SOURCES.values() for name in source.variables):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with weights, a Hugging Face folder and functions."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'tiny.gguf').touch()
    (tmp_path / 'llama').mkdir()
    (tmp_path / 'llama' / 'config.json').write_text('{}')
    (tmp_path / 'empty').mkdir()
    (tmp_path / 'mine.py').write_text('def shout(prompt): return prompt.upper()\n')
    (tmp_path / 'my-model.py').touch()
    return tmp_path


@pytest.mark.parametrize(
    ('name', 'entry'),
    [
        ('smollm2', {'abbr': 'smollm2', 'type': 'Embedded', 'path': 'smollm2'}),
        ('tiny.gguf', {'abbr': 'tiny', 'type': 'LlamaCpp', 'path': 'tiny.gguf'}),
        ('./tiny.gguf', {'abbr': 'tiny', 'type': 'LlamaCpp', 'path': 'tiny.gguf'}),
        ('hf:llama', {'abbr': 'llama', 'type': 'HuggingFaceCausalLM', 'path': 'llama'}),
        ('./llama', {'abbr': 'llama', 'type': 'HuggingFaceCausalLM', 'path': 'llama'}),
        ('hf:Qwen/Qwen3-8B', {'abbr': 'Qwen3-8B', 'type': 'HuggingFaceCausalLM', 'path': 'Qwen/Qwen3-8B'}),
        ('openai/gpt-4.1-mini', {'abbr': 'gpt-4.1-mini', 'type': 'OpenAI', 'path': 'gpt-4.1-mini'}),
        (' OpenAI/gpt-4o ', {'abbr': 'gpt-4o', 'type': 'OpenAI', 'path': 'gpt-4o'}),
        ('claude/claude-sonnet-4-5', {'type': 'Anthropic', 'path': 'claude-sonnet-4-5'}),
        ('anthropic/claude-sonnet-4-5', {'type': 'Anthropic', 'path': 'claude-sonnet-4-5'}),
        (
            'deepseek/deepseek-chat',
            {'type': 'OpenAI', 'openai_api_base': 'https://api.deepseek.com/v1', 'key': '$DEEPSEEK_API_KEY'},
        ),
        (
            'ollama/llama3.2:3b',
            {'abbr': 'llama3.2-3b', 'path': 'llama3.2:3b', 'openai_api_base': 'http://localhost:11434/v1', 'key': ''},
        ),
        ('openrouter/meta/llama', {'abbr': 'llama', 'path': 'meta/llama'}),
        ('https://api.mistral.ai/v1', {'type': 'VLLMCustomAPIChat', 'key': '$MISTRAL_API_KEY'}),
        ('http://h:80', {'abbr': 'h', 'type': 'VLLMCustomAPIChat', 'openai_api_base': 'http://h:80', 'key': ''}),
        ('mine:shout', {'abbr': 'shout', 'type': 'mine:shout'}),
        ('mine.py:shout', {'abbr': 'shout', 'type': 'mine:shout'}),
        ('acme.models:Loud.reply', {'abbr': 'reply', 'type': 'acme.models:Loud.reply'}),
        (str.upper, {'abbr': 'upper', 'type': str.upper}),
        ({'type': 'OpenAI', 'path': 'x'}, {'type': 'OpenAI', 'path': 'x'}),
    ],
)
def test_a_name_becomes_a_model_entry(name: Any, entry: dict[str, Any], folder: Path) -> None:
    found = resolve_model(name)
    assert {key: found.get(key) for key in entry} == entry


@pytest.mark.parametrize('name', ['openai/gpt-4.1-mini', 'ollama/llama3.2', 'mine.py:shout', 'mine:shout', str.upper])
def test_an_entry_by_name_is_understood_as_a_config_s_entry_is(name: Any, folder: Path) -> None:
    problems = Problems()
    entry = build_model_entry(resolve_model(name), 'models[0]', problems)
    problems.raise_all()
    assert entry is not None
    assert entry.model.name == entry.abbr


@pytest.mark.parametrize(
    ('name', 'message'),
    [
        ('smolm2', "unknown model 'smolm2'.\n  Did you mean 'smollm2'?"),
        ('gpt-4o', "unknown model 'gpt-4o'.\n  Did you mean 'openai/gpt-4o'?"),
        ('claude-sonnet-4-5', "unknown model 'claude-sonnet-4-5'.\n  Did you mean 'anthropic/claude-sonnet-4-5'?"),
        ('llama3.2:3b', "unknown model 'llama3.2:3b'.\n  Did you mean 'ollama/llama3.2:3b'?"),
        ('opnai/gpt-4o', "unknown model 'opnai/gpt-4o'.\n  Did you mean 'openai/gpt-4o'?"),
        ('openai', "unknown model 'openai'.\n  Name one of its models: 'openai/gpt-4o-mini'."),
        ('openai/', "'openai/' names no model.\n  Write 'openai/gpt-4o-mini', for example."),
        ('ollama/', "'ollama/' names no model.\n  Write 'ollama/llama3.2', for example."),
        ('localhost:8000', "unknown model 'localhost:8000'.\n  Did you mean 'http://localhost:8000/v1'?"),
        ('ftp://h/v1', "'ftp://h/v1' is not the URL of a server.\n  Write it like http://localhost:8000/v1."),
        ('http://', "'http://' is not the URL of a server.\n  Write it like http://localhost:8000/v1."),
        ('tinny.gguf', "no such file: tinny.gguf.\n  Did you mean 'tiny.gguf'?"),
        ('nowhere/x.gguf', 'no such file: nowhere/x.gguf.'),
        ('hf:./lama', "no such folder: lama.\n  Did you mean 'llama'?"),
        ('hf:/no/such', 'no such folder: /no/such.\n  Write hf:FOLDER, or hf:ORG/NAME for a model on the hub.'),
        (
            'hf:empty',
            'empty has no config.json: it is not the folder of a Hugging Face model.\n'
            '  Write hf:FOLDER, or hf:ORG/NAME for one on the hub.',
        ),
        ('./nowhere', "unknown model './nowhere'.\n  There is no such file or folder."),
        ('empty', "unknown model 'empty'.\n  The folder has no config.json: it is not a Hugging Face model."),
        ('mine.py', "unknown model 'mine.py'.\n  Name a function in it: 'mine.py:FUNCTION'."),
        ('mien.py:shout', "no such file: mien.py.\n  Did you mean 'mine.py'?"),
        ('mine.py:', "'' is not the name of a function.\n  Write FILE.py:FUNCTION."),
        (
            'my-model.py:shout',
            'my-model.py cannot be imported: its name is not a Python name.\n  Rename it, for example to my_model.py.',
        ),
    ],
)
def test_a_name_that_is_not_one_says_what_was_probably_meant(name: str, message: str, folder: Path) -> None:
    with pytest.raises(ConfigError) as error:
        resolve_model(name)
    assert str(error.value) == f'model\n  {message}'


@pytest.mark.parametrize('name', ['', 'xyz', 'a b', ':', 5, None])
def test_any_other_text_is_answered_with_the_forms_of_a_name(name: Any) -> None:
    with pytest.raises(ConfigError, match=r'Write smollm2, FILE\.gguf, hf:FOLDER, SERVICE/NAME'):
        resolve_model(name)


def test_a_model_on_the_hub_needs_its_prefix() -> None:
    with pytest.raises(ConfigError, match="For a model on the Hugging Face hub write 'hf:meta-llama/Llama-3.1-8B'"):
        resolve_model('meta-llama/Llama-3.1-8B')


def test_models_with_one_abbr_are_told_apart_by_their_whole_names() -> None:
    entries = resolve_models(['openai/gpt-4o', 'openrouter/openai/gpt-4o', 'smollm2'])
    assert [entry['abbr'] for entry in entries] == ['openai-gpt-4o', 'openrouter-openai-gpt-4o', 'smollm2']


def test_all_wrong_names_are_reported_together() -> None:
    with pytest.raises(ConfigError) as error:
        resolve_models(['gpt-4o', 'smollm2', 'smollm2', 'smolm2'], model_name='qwen')
    assert [problem.what for problem in error.value.problems] == [
        "'qwen' is for a model given by its URL, and none is.",
        "unknown model 'gpt-4o'.",
        "'smollm2' is given twice.",
        "unknown model 'smolm2'.",
    ]


def test_a_model_name_goes_to_the_model_given_by_its_url() -> None:
    entries = resolve_models(['smollm2', 'http://localhost:8000/v1'], model_name='org/qwen')
    assert [(entry['abbr'], entry['path']) for entry in entries] == [('smollm2', 'smollm2'), ('qwen', 'org/qwen')]


def test_a_chat_module_takes_a_service_with_a_model() -> None:
    module = OnlineChatModule('deepseek/deepseek-reasoner')
    assert (module.source, module.model) == ('deepseek', 'deepseek-reasoner')
    with pytest.raises(ModuleError, match='the model is given twice'):
        OnlineChatModule('openai/gpt-4o', model='gpt-4.1')


def test_a_config_may_name_its_models() -> None:
    rows = {'abbr': 'demo', 'type': 'Rows', 'test': [{'q': '1'}], 'infer_cfg': {'prompt_template': {'template': '{q}'}}}
    config: dict[str, Any] = {'datasets': [rows], 'models': ['openai/gpt-4o', {'type': 'OpenAI', 'path': 'x'}]}
    assert [entry.abbr for entry in Experiment.open(config).models] == ['gpt-4o', 'OpenAI_x']
    with pytest.raises(ConfigError) as error:
        Experiment.open({**config, 'models': ['openai/gpt-4o', 'smolm2']})
    assert str(error.value) == "models[1]\n  unknown model 'smolm2'.\n  Did you mean 'smollm2'?"
