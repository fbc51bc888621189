"""`rolecall list`: the parts that a config can name, built in and from installed packages."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rolecall.cli.options import declare_command, fail

if TYPE_CHECKING:
    from rolecall.registry import Registry

__all__ = ['add_list']

KINDS = {
    'templates': 'rolecall.prompts.template:TEMPLATES',
    'retrievers': 'rolecall.retrievers.build:RETRIEVERS',
    'models': 'rolecall.models.backends:MODELS',
    'inferencers': 'rolecall.pairs.inferencer_entries:INFERENCERS',
    'metrics': 'rolecall.scoring.evaluators:METRICS',
    'postprocessors': 'rolecall.scoring.postprocessors:POSTPROCESSORS',
    'datasets': 'rolecall.datasets.dataset:DATASETS',
    'lint_rules': 'rolecall.lint.rules:RULES',
    'meta_templates': 'rolecall.render.families:META_TEMPLATES',
}
"""Each kind of part with its registry."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One part, as it is shown."""

    kind: str
    name: str
    origin: str
    summary: str


def add_list(commands: Any) -> None:
    """Declare `rolecall list`."""
    parser = declare_command(
        commands,
        'list',
        'list the parts that a config can name',
        'List the parts that a config can name: built in, and from installed packages (see docs/plugins.md).',
        '  rolecall list\n  rolecall list retrievers\n  rolecall list meta_templates --json',
    )
    parser.set_defaults(run=_list)
    parser.add_argument('kind', metavar='KIND', nargs='?', help=', '.join(KINDS))
    parser.add_argument('--json', action='store_true', help='one JSON object per line')


def _list(arguments: argparse.Namespace) -> int:
    from rolecall.errors import did_you_mean
    from rolecall.strings import count_noun, printable

    given = (arguments.kind or '').replace('-', '_').replace(' ', '_')
    kinds = [kind for kind in KINDS if not given or kind in (given, f'{given}s')]
    if not kinds:
        return fail(f'unknown kind of part {arguments.kind!r}. {did_you_mean(given, KINDS)}')
    for kind in kinds:
        registry = _registry(kind)
        parts = list(list_parts(kind, registry))
        if arguments.json:
            import json

            print(*(json.dumps(asdict(part), ensure_ascii=False) for part in parts), sep='\n')
            continue
        print(f'{count_noun(len(parts), registry.kind)} (entry points: {registry.group})')
        width = max((len(part.name) for part in parts), default=0)
        for part in parts:
            origin = '' if part.origin == 'rolecall' else f' [{part.origin}]'
            print(printable(f'  {part.name.ljust(width)}  {part.summary}{origin}'))
    return 0


def list_parts(kind: str, registry: Registry[Any]) -> Iterator[Listed]:
    """The built-ins in their order, then the plugins by name."""
    for name in registry:
        yield Listed(kind, name, 'rolecall', _summarise(registry, name))
    for plugin in registry.plugins():
        hidden = f' Hidden by the built-in of that name; use {plugin.path!r}.' if plugin.name in registry else ''
        try:
            summary = _summary(plugin.load())
        except Exception as error:  # a plugin may raise anything: the list shows it
            summary = ' '.join(str(error).split())
        yield Listed(kind, plugin.name, plugin.origin, f'{summary}{hidden}')


def _summarise(registry: Registry[Any], name: str) -> str:
    try:
        return _summary(registry[name])
    except ImportError as missing:
        return f'{missing.name} is not installed.'


def _summary(part: Any) -> str:
    """The roles of a meta template, the description of a lint rule, else the first line of the docstring."""
    if isinstance(part, Mapping):
        return _roles(part)
    description = getattr(part, 'description', None)
    if isinstance(description, str):
        return description
    documented = part if callable(part) else type(part)
    import inspect

    return (inspect.getdoc(documented) or '').partition('\n')[0]


def _roles(template: Mapping[str, Any]) -> str:
    """Each role with what stands around its speeches, or its name in an API."""
    entries = [*(template.get('round') or ()), *(template.get('reserved_roles') or ())]
    shown = [
        f'{entry["role"]} → {entry["api_role"]}'
        if 'api_role' in entry
        else f'{entry["role"]} {entry.get("begin", "")}…{entry.get("end", "")}'
        for entry in entries
        if isinstance(entry, Mapping) and 'role' in entry
    ]
    return '  '.join(one.replace('\n', '⏎') for one in shown)


def _registry(kind: str) -> Registry[Any]:
    module, _, name = KINDS[kind].partition(':')
    registry: Registry[Any] = getattr(importlib.import_module(module), name)
    return registry
