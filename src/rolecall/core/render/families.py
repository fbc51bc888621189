"""Built-in meta templates of well-known model families, by name.

Each is a plain dict in `meta_template` syntax, made of a line in `families.tsv`. If a family's format begins with a
BOS token, the token is part of the text, so tokenize without adding special tokens. Generation starts right after the
marker; if a family puts a space before its answers, the model generates it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from rolecall.errors import ConfigError, Problem, TemplateError
from rolecall.plain_files import read_table
from rolecall.registry import Registry
from rolecall.usercode import user_code


def _read_shipped() -> dict[str, dict[str, Any]]:
    """One line for each family: what begins a prompt, and the markers before and after each role's speech, as JSON."""
    templates = {}
    for name, begin, *markers in read_table(__file__):
        human, bot, system = (json.loads(cell or '[]') for cell in markers)
        templates[name] = {
            **({'begin': json.loads(begin)} if begin else {}),
            'round': [
                {'role': 'HUMAN', 'begin': human[0], 'end': human[1]},
                {'role': 'BOT', 'begin': bot[0], 'end': bot[1], 'generate': True},
            ],
            **({'reserved_roles': [{'role': 'SYSTEM', 'begin': system[0], 'end': system[1]}]} if system else {}),
        }
    return templates


_API_ROUND = [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}]
_SHIPPED: dict[str, dict[str, Any]] = {
    'api': {'round': _API_ROUND, 'reserved_roles': [{'role': 'SYSTEM', 'api_role': 'SYSTEM'}]},
    'api-no-system': {'round': _API_ROUND},
    **_read_shipped(),
}

_templates: dict[str, Mapping[str, Any]] = dict(sorted(_SHIPPED.items()))

META_TEMPLATES: Registry[Mapping[str, Any]] = Registry('meta template', _templates)
"""Every named meta template, built in or added."""


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
