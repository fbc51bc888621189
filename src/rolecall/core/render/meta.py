"""Meta templates: a model's roles and their markers, parsed and checked once; those of well-known families by name.

Each family is a plain dict in `meta_template` syntax, made of a line in `meta.tsv`. If a family's format begins with a
BOS token, the token is part of the text, so tokenize without adding special tokens. Generation starts right after the
marker; if a family puts a space before its answers, the model generates it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from rolecall.core.prompts.frozen import FrozenDict
from rolecall.core.prompts.pieces import Origin, Piece, Pieces, Text, Token
from rolecall.core.prompts.template_reader import ProblemCollector
from rolecall.errors import ConfigError, Problem, TemplateError
from rolecall.plain_files import read_table
from rolecall.registry import Registry
from rolecall.usercode import user_code

_META_KEYS = ('begin', 'end', 'round', 'reserved_roles', 'eos_token_id')
_ROLE_KEYS = ('role', 'api_role', 'begin', 'end', 'prompt', 'generate')
_API_ROLES = {
    'HUMAN': 'user',
    'BOT': 'assistant',
    'SYSTEM': 'system',
    **{role: role for role in ('user', 'assistant', 'system', 'developer', 'tool')},
}


@dataclass(frozen=True, slots=True)
class Role:
    """One role of the model: its markers, and its default prompt."""

    name: str
    begin: Pieces = ()
    end: Pieces = ()
    default: Pieces | None = None
    """Its default prompt. Empty for `generate=False`: the markers are written even if the dataset skips the role."""
    generate: bool = False
    api_role: str | None = None
    """The role in an API's messages (user, assistant, system …), None if it has none."""
    needs_prompt: bool = False
    """Whether the dataset must have a speech of it: no default, no `generate`, and not the system's."""


@dataclass(frozen=True, slots=True)
class MetaTemplate:
    """A model's prompt format.

    >>> meta = MetaTemplate.read(dict(round=[
    ...     dict(role='HUMAN', begin='<H>', end='</H>'),
    ...     dict(role='BOT', begin='<B>', end='</B>', generate=True)]))
    >>> [role.name for role in meta.roles.values()]
    ['HUMAN', 'BOT']
    """

    round: tuple[Role | Text, ...] | None = None
    """The roles of one round and the bare strings between them; None keeps the dataset's speeches as they are."""
    reserved: tuple[Role, ...] = ()
    begin: Pieces = ()
    end: Pieces = ()
    eos_token_id: int | tuple[int, ...] | None = None
    messages: tuple[FrozenDict, ...] = ()
    """Messages to add in front (a meta template given as a list of messages)."""
    roles: Mapping[str, Role] = field(init=False)

    def __post_init__(self) -> None:
        named = [item for item in self.round or () if isinstance(item, Role)]
        object.__setattr__(self, 'roles', {role.name: role for role in (*named, *self.reserved)})

    @classmethod
    def read(cls, source: Any) -> MetaTemplate:
        """Parse a meta template; all problems are reported at once."""
        problems = ProblemCollector()
        if isinstance(source, MetaTemplate):
            return source
        match source:
            case (Mapping() as alone,) if isinstance(source, tuple) and 'role' not in alone:
                source = alone  # a stray comma after `dict(…)`, as in the published examples
        if isinstance(source, Mapping):
            meta = _read_mapping(source, problems)
        elif isinstance(source, (list, tuple)):
            meta = cls(messages=_read_messages(source, problems))
        else:
            problems.add('', f'expected a mapping with a round, or a list of messages, got {source!r:.60}.')
            meta = cls()
        problems.raise_all()
        return meta

    @property
    def order(self) -> dict[str, int]:
        """The position of each role in the round."""
        return {item.name: i for i, item in enumerate(self.round or ()) if isinstance(item, Role)}


def _read_mapping(source: Mapping[str, Any], problems: ProblemCollector) -> MetaTemplate:
    problems.unknown_keys('', source, _META_KEYS)
    round_: tuple[Role | Text, ...] | None = None
    if source.get('round') is not None:
        round_ = tuple(_read_round(source['round'], problems, 'round'))
    reserved = _read_round(source.get('reserved_roles') or (), problems, 'reserved_roles')
    for i, item in enumerate(reserved):
        if isinstance(item, Text):
            problems.add(f'reserved_roles[{i}]', f'expected a role, got the string {item.text!r}.')
    names = [item.name for item in (*(round_ or ()), *reserved) if isinstance(item, Role)]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.add('round', f'the role {name!r} is defined twice.', 'Define each role once.')
    return MetaTemplate(
        round=round_,
        reserved=tuple(item for item in reserved if isinstance(item, Role)),
        begin=_read_affix(source.get('begin'), problems, 'begin', ''),
        end=_read_affix(source.get('end'), problems, 'end', ''),
        eos_token_id=_read_eos(source.get('eos_token_id'), problems),
    )


def _read_round(source: object, problems: ProblemCollector, where: str) -> list[Role | Text]:
    if isinstance(source, (str, Mapping)) or not isinstance(source, Sequence):
        problems.add(where, f'expected a list of roles, got {source!r:.60}.')
        return []
    items: list[Role | Text] = []
    for i, entry in enumerate(source):
        if isinstance(entry, str):
            items.append(Text(entry, Origin('marker', 'round')))
        elif isinstance(entry, Mapping):
            items.append(_read_role(entry, problems, f'{where}[{i}]'))
        else:
            problems.add(f'{where}[{i}]', f'expected a role or a string, got {entry!r:.60}.')
    return items


def _read_role(source: Mapping[str, Any], problems: ProblemCollector, where: str) -> Role:
    problems.unknown_keys(where, source, _ROLE_KEYS)
    name = problems.text(f'{where}.role', source.get('role'), remedy="Name the role, e.g. role='HUMAN'.")
    api_role = source.get('api_role', name)
    if not isinstance(api_role, str) or ('api_role' in source and api_role not in _API_ROLES):
        problems.add(f'{where}.api_role', f'unknown api_role {api_role!r}.', 'Use HUMAN, BOT or SYSTEM.')
    generate = source.get('generate', False)
    if not isinstance(generate, bool):
        problems.add(f'{where}.generate', f'expected True or False, got {generate!r}.')
    begin = _read_affix(source.get('begin'), problems, f'{where}.begin', name)
    end = _read_affix(source.get('end'), problems, f'{where}.end', name)
    default: Pieces | None = None
    if source.get('prompt') is not None:
        default = (Text(problems.text(f'{where}.prompt', source['prompt']), Origin('default', name, role=name)),)
    elif source.get('generate') is False and (begin or end):
        default = ()
    return Role(
        name,
        begin=begin,
        end=end,
        default=default,
        generate=bool(generate),
        api_role=_API_ROLES.get(api_role) if isinstance(api_role, str) else None,
        needs_prompt=source.get('prompt') is None and 'generate' not in source and name != 'SYSTEM',
    )


def _read_affix(source: object, problems: ProblemCollector, where: str, name: str) -> Pieces:
    """`begin` or `end`: a string, or a list of strings and token ids."""
    if source is None:
        return ()
    entries = [source] if isinstance(source, (str, int)) else source
    if isinstance(entries, Mapping) or not isinstance(entries, Sequence):
        problems.add(where, f'expected a string, or a list of strings and token ids, got {source!r:.60}.')
        return ()
    pieces: list[Piece] = []
    for i, entry in enumerate(entries):
        if isinstance(entry, str):
            pieces.append(Text(entry, Origin('marker', name)))
        elif isinstance(entry, int) and not isinstance(entry, bool) and entry >= 0:
            pieces.append(Token(entry, Origin('marker', name)))
        else:
            problems.add(f'{where}[{i}]', f'expected a string or a token id, got {entry!r:.60}.')
    return tuple(pieces)


def _read_eos(source: object, problems: ProblemCollector) -> int | tuple[int, ...] | None:
    if source is None or (isinstance(source, int) and not isinstance(source, bool)):
        return source
    if isinstance(source, (list, tuple)) and all(isinstance(token, int) for token in source):
        return tuple(source)
    problems.add('eos_token_id', f'expected a token id or a list of them, got {source!r:.60}.')
    return None


def _read_messages(source: Sequence[Any], problems: ProblemCollector) -> tuple[FrozenDict, ...]:
    messages = []
    for i, entry in enumerate(source):
        if isinstance(entry, Mapping) and isinstance(entry.get('role'), str) and isinstance(entry.get('content'), str):
            messages.append(FrozenDict(entry))
        else:
            problems.add(f'[{i}]', f'expected a message with role and content, got {entry!r:.60}.')
    return tuple(messages)


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
