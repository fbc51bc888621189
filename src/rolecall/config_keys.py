"""Every key of a config, declared once, in `config_keys.tsv`: where it may stand, its type and bounds, what it means.

Readers of options, the JSON schema, `--set`, the report of unknown keys and the manual's reference take it from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rolecall.plain_files import read_table

MODEL_PLACES = {
    'OpenAI and servers': ('model', 'server', 'openai'),
    'Anthropic': ('model', 'server', 'anthropic'),
    'embedded': ('model', 'local', 'llama'),
    'Transformers, vLLM': ('model', 'local', 'transformers'),
    'functions': ('model', 'function'),
}
"""Each kind of model with the places whose keys its entries have, besides those of sampling."""

_TEXT = {'type': 'string'}
_SCHEMAS: Mapping[str, dict[str, Any]] = {
    'any': {},
    'dict': {'type': 'object'},
    'flag': {'type': 'boolean'},
    'list': {'type': 'array'},
    'number': {'type': 'number'},
    'text': _TEXT,
    'texts': {'anyOf': [_TEXT, {'type': 'array', 'items': _TEXT}]},
    'whole': {'type': 'integer'},
}


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a config."""

    name: str
    places: frozenset[str]
    """`config`, `dataset`, `reader` (reader_cfg), `inferencer`, `model`, `openai`, `foreign`, …"""
    kind: str
    """`whole`, `number`, `text`, `texts`, `flag`, `dict`, `list`, `words` or `any`."""
    meaning: str
    least: int | None = None
    most: int | None = None
    words: tuple[str, ...] = ()
    """The values that it takes, where they are few."""

    def schema(self) -> dict[str, Any]:
        """Its JSON schema.

        >>> KEYS['top_p'].schema()
        {'type': 'number', 'minimum': 0, 'maximum': 1}
        """
        if self.words:
            return {'enum': list(self.words)}
        bounds = {'minimum': self.least, 'maximum': self.most}
        return {**_SCHEMAS[self.kind], **{name: bound for name, bound in bounds.items() if bound is not None}}


def keys_of(*places: str) -> tuple[str, ...]:
    """The names of the keys that may stand at any of these places.

    >>> keys_of('infer')
    ('prompt_template', 'ice_template', 'retriever', 'inferencer')
    """
    return tuple(key.name for key in KEYS.values() if not key.places.isdisjoint(places))


def _read_keys() -> dict[str, Key]:
    """One line for each key. A type is a kind with its bounds (`whole 1`, `number 0 1`) or words (`left|right`)."""
    keys = {}
    for places, name, written_type, meaning in read_table(__file__):
        kind, *bounds = written_type.split()
        words = tuple(kind.split('|')) if '|' in kind else ()
        least, most = (*map(int, bounds), None, None)[:2]
        where = frozenset(places.split())
        keys[name] = Key(name, where, 'words' if words else kind, meaning, least, most, words)
    return keys


KEYS: Mapping[str, Key] = _read_keys()
