"""Modules with Hugging Face models: small random ones, with a chat template and without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rolecall import ChatPrompter, TrainableModule
from rolecall.core import ChatTemplate
from rolecall.core.prompters.special_tokens import DEFAULT_TOKENS
from rolecall.core.render.chat_renderer import ChatRenderer

TEMPLATE = '<s>{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}<|im_start|>'


def test_the_engine_is_chosen_by_the_model_and_vllm_only_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('importlib.util.find_spec', lambda _name: object())  # as if everything were installed
    assert [TrainableModule(model).engine for model in ('Qwen/Qwen2.5-0.5B-Instruct', 'smollm2')] == [
        'transformers',
        'llama',
    ]
    assert TrainableModule('Qwen/Qwen2.5-0.5B-Instruct', engine='vllm').engine == 'vllm'


@pytest.mark.heavy
@pytest.mark.parametrize('template', [TEMPLATE, None])
def test_a_folder_is_served_by_transformers(tmp_path: Path, template: str | None) -> None:
    pytest.importorskip('transformers')
    from small_models import make_model

    folder = make_model(tmp_path, 'llama')
    if template is not None:
        file = folder / 'tokenizer_config.json'
        file.write_text(json.dumps({**json.loads(file.read_text()), 'chat_template': template}))
    prompter = ChatPrompter('Be brief.')
    side = DEFAULT_TOKENS if template is None else ChatRenderer(ChatTemplate(template))
    with TrainableModule(folder, engine='transformers', device='cpu', max_tokens=6) as module:
        reply = module.prompt(prompter).reply('Hi', history=[['How are you?', 'Fine.']])
        assert reply.prompt == prompter.bind(side).generate_prompt('Hi', history=[['How are you?', 'Fine.']])
        stream = module.prompt(prompter).stream('Hi', history=[['How are you?', 'Fine.']])
        assert ''.join(stream) == reply.text
    with module:
        assert module.prompt(prompter)('Hi', history=[['How are you?', 'Fine.']]) == reply.text
