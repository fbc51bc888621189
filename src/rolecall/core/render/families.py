"""Built-in meta templates of well-known model families, by name.

Each is a plain dict in `meta_template` syntax. If a family's format begins with a BOS token, the token is part of the
text, so tokenize without adding special tokens. Generation starts right after the marker; if a family puts a space
before its answers, the model generates it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any

from rolecall.errors import ConfigError, Problem, TemplateError
from rolecall.registry import Registry
from rolecall.usercode import user_code

Markers = tuple[str, str]


def _dialogue(human: Markers, bot: Markers, system: Markers | None = None, *, begin: str = '') -> dict[str, Any]:
    """A meta template from the markers before and after each role's speech."""
    template: dict[str, Any] = {'begin': begin} if begin else {}
    template['round'] = [
        {'role': 'HUMAN', 'begin': human[0], 'end': human[1]},
        {'role': 'BOT', 'begin': bot[0], 'end': bot[1], 'generate': True},
    ]
    if system is not None:
        template['reserved_roles'] = [{'role': 'SYSTEM', 'begin': system[0], 'end': system[1]}]
    return template


def _tagged_dialogue(
    pattern: str, end: str, roles: tuple[str, str, str] = ('user', 'assistant', 'system'), begin: str = ''
) -> dict[str, Any]:
    """The same markers for every role, with the role's name filled in."""
    human, bot, system = ((pattern.format(role), end) for role in roles)
    return _dialogue(human, bot, system, begin=begin)


def _api(*reserved: str) -> dict[str, Any]:
    template: dict[str, Any] = {
        'round': [
            {'role': 'HUMAN', 'api_role': 'HUMAN'},
            {'role': 'BOT', 'api_role': 'BOT', 'generate': True},
        ]
    }
    if reserved:
        template['reserved_roles'] = [{'role': role, 'api_role': role} for role in reserved]
    return template


_CHATML = ('<|im_start|>{}\n', '<|im_end|>\n')
_OPENCHAT = _dialogue(
    ('GPT4 Correct User: ', '<|end_of_turn|>'),
    ('GPT4 Correct Assistant:', '<|end_of_turn|>'),
    ('', '<|end_of_turn|>'),
    begin='<s>',
)

_SHIPPED: dict[str, dict[str, Any]] = {
    'alpaca': _dialogue(
        ('### Instruction:\n', '\n\n'),
        ('### Response:', '</s>'),
        begin='Below is an instruction that describes a task. '
        'Write a response that appropriately completes the request.\n\n',
    ),
    'api': _api('SYSTEM'),
    'api-no-system': _api(),
    'baichuan2': _dialogue(('<reserved_106>', ''), ('<reserved_107>', ''), ('', '')),
    'chatml': _tagged_dialogue(*_CHATML),
    'command-r': _tagged_dialogue(
        '<|START_OF_TURN_TOKEN|><|{}_TOKEN|>',
        '<|END_OF_TURN_TOKEN|>',
        ('USER', 'CHATBOT', 'SYSTEM'),
        begin='<BOS_TOKEN>',
    ),
    'deepseek': _dialogue(
        ('<｜User｜>', ''),
        ('<｜Assistant｜>', '<｜end▁of▁sentence｜>'),
        ('', ''),
        begin='<｜begin▁of▁sentence｜>',
    ),
    'falcon': _dialogue(('User: ', '\n'), ('Falcon:', '\n'), ('System: ', '\n')),
    'gemma': _dialogue(
        ('<start_of_turn>user\n', '<end_of_turn>\n'),
        ('<start_of_turn>model\n', '<end_of_turn>\n'),
        begin='<bos>',
    ),
    'glm4': _tagged_dialogue('<|{}|>\n', '', begin='[gMASK]<sop>'),
    'internlm2': _tagged_dialogue(*_CHATML, begin='<s>'),
    'llama2': _dialogue(('<s>[INST] ', ' [/INST]'), ('', ' </s>')),
    'llama3': _tagged_dialogue('<|start_header_id|>{}<|end_header_id|>\n\n', '<|eot_id|>', begin='<|begin_of_text|>'),
    'mistral': _dialogue(('[INST] ', '[/INST]'), ('', '</s>'), begin='<s>'),
    'moss': _dialogue(('<|Human|>: ', '<eoh>\n'), ('<|MOSS|>:', '<eom>\n')),
    'openchat': _OPENCHAT,
    'phi3': _tagged_dialogue('<|{}|>\n', '<|end|>\n'),
    'phi4': _tagged_dialogue('<|im_start|>{}<|im_sep|>', '<|im_end|>'),
    'qwen': _tagged_dialogue(*_CHATML),
    'starling': _OPENCHAT,
    'tulu': _dialogue(('<|user|>\n', '\n'), ('<|assistant|>\n', '</s>\n'), ('<|system|>\n', '\n')),
    'tulu3': _dialogue(('<|user|>\n', '\n'), ('<|assistant|>\n', '<|end_of_text|>\n'), ('<|system|>\n', '\n')),
    'vicuna': _dialogue(
        ('USER: ', ' '),
        ('ASSISTANT:', '</s>'),
        begin='A chat between a curious user and an artificial intelligence assistant. '
        "The assistant gives helpful, detailed, and polite answers to the user's questions. ",
    ),
    'yi': _tagged_dialogue(*_CHATML),
    'zephyr': _tagged_dialogue('<|{}|>\n', '</s>\n'),
}

_templates: dict[str, Mapping[str, Any]] = dict(_SHIPPED)

META_TEMPLATES: Registry[Mapping[str, Any]] = Registry('meta template', _templates)
"""Every named meta template, built in or added."""

STOP_STRINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        'alpaca': ('</s>', '### Instruction:'),
        'baichuan2': ('</s>', '<reserved_106>'),
        'chatml': ('<|im_end|>',),
        'command-r': ('<|END_OF_TURN_TOKEN|>',),
        'deepseek': ('<｜end▁of▁sentence｜>',),
        'falcon': ('<|endoftext|>', '\nUser:'),
        'gemma': ('<end_of_turn>',),
        'glm4': ('<|endoftext|>', '<|user|>', '<|observation|>'),
        'internlm2': ('<|im_end|>',),
        'llama2': ('</s>',),
        'llama3': ('<|eot_id|>', '<|end_of_text|>'),
        'mistral': ('</s>',),
        'moss': ('<eom>',),
        'openchat': ('<|end_of_turn|>',),
        'phi3': ('<|end|>', '<|endoftext|>'),
        'phi4': ('<|im_end|>',),
        'qwen': ('<|im_end|>', '<|endoftext|>'),
        'starling': ('<|end_of_turn|>',),
        'tulu': ('</s>',),
        'tulu3': ('<|end_of_text|>',),
        'vicuna': ('</s>',),
        'yi': ('<|im_end|>',),
        'zephyr': ('</s>',),
    }
)
"""The stop strings of each family, which the meta template syntax has no key for."""


def find_meta_template(source: object) -> Any:
    """Resolve a config's `meta_template`: a mapping as written, or the one that a name or dotted path leads to."""
    if not isinstance(source, str):
        return source
    try:
        template = META_TEMPLATES.find(source, where='').value
        with user_code(f'the meta template {source!r}', where=''):
            return template() if callable(template) else template
    except ConfigError as error:
        raise TemplateError(error.problems) from error.__cause__


def meta_template(name: str) -> dict[str, Any]:
    """A copy of the meta template with this name.

    >>> meta_template('gemma')['round'][1]
    {'role': 'BOT', 'begin': '<start_of_turn>model\\n', 'end': '<end_of_turn>\\n', 'generate': True}
    """
    template = find_meta_template(name)
    if not isinstance(template, Mapping):
        raise TemplateError(Problem('', f'meta template {name!r}: expected a mapping, got {type(template).__name__}.'))
    return deepcopy(dict(template))


def stop_strings(name: str) -> tuple[str, ...]:
    """The stop strings of a family; empty if it has none.

    >>> stop_strings('chatml'), stop_strings('api')
    (('<|im_end|>',), ())
    """
    meta_template(name)
    return STOP_STRINGS.get(name, ())


def add_meta_template(name: str, template: Mapping[str, Any], *, replace: bool = False) -> None:
    """Register a meta template under a name. Replacing a built-in one needs `replace=True`.

    >>> add_meta_template('shouting', {'round': [{'role': 'HUMAN', 'begin': 'HEY: '}]})
    >>> meta_template('shouting')
    {'round': [{'role': 'HUMAN', 'begin': 'HEY: '}]}
    """
    if not isinstance(template, Mapping):
        raise TemplateError(
            Problem(
                f'meta template {name!r}',
                f'expected a mapping, got {type(template).__name__}.',
                "Write a dict with 'round', and 'begin', 'end' or 'reserved_roles' if needed.",
            )
        )
    if name in _SHIPPED and not replace:
        raise TemplateError(
            Problem(
                f'meta template {name!r}',
                'this name is taken by a built-in template.',
                'Choose another name, or pass replace=True.',
            )
        )
    _templates[name] = deepcopy(dict(template))
