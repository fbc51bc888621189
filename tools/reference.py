"""The reference pages, written from the code: every command with its options, every config key, every name of a part.

python tools/reference.py FOLDER        write them as files, to look at
"""

from __future__ import annotations

import argparse
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ['write_pages']

Row = tuple[str, ...]


def write_pages(root: Path) -> dict[str, str]:
    """The pages by their place in the site."""
    return {
        'reference/commands.md': _join(_commands()),
        'reference/config-keys.md': _join(_config_keys()),
        'reference/names.md': _join(_names()),
        'reference/examples.md': _join(_examples(root)),
    }


def _join(blocks: Iterator[str]) -> str:
    return '\n\n'.join(blocks) + '\n'


# Commands


def _commands() -> Iterator[str]:
    from rolecall.ui.cli.main import build_parser

    parser = build_parser([])
    yield '# Commands'
    yield 'Every command and option, as `rolecall COMMAND --help` prints them (`rolecall --lang zh` in Chinese).'
    yield _fence(parser.epilog or '')
    yield from _command(parser, 'rolecall')


def _command(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    children = next((one for one in parser._actions if isinstance(one, argparse._SubParsersAction)), None)
    if name != 'rolecall':
        yield f'## `{name}`'
        yield parser.description or ''
        if children is None:
            parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=110)
            yield _fence(parser.format_usage().removeprefix('usage: '))
    for group in parser._action_groups:
        rows = [_option(action) for action in group._group_actions if action is not children]
        if rows:
            shown = group.title not in ('options', 'positional arguments')
            yield (f'**{group.title}**\n\n' if shown else '') + _table(('argument', 'meaning'), rows)
    if children is None:
        yield _fence(textwrap.dedent((parser.epilog or '').removeprefix('examples:\n')))
        return
    for child, sub in children.choices.items():
        yield from _command(sub, f'{name} {child}')


def _option(action: argparse.Action) -> Row:
    if not action.option_strings:
        return f'`{action.metavar or action.dest}`', _expand(action)
    value = '' if action.nargs == 0 else f' {action.metavar or _choices(action) or action.dest.upper()}'
    return ', '.join(f'`{one}{value}`' for one in action.option_strings), _expand(action)


def _choices(action: argparse.Action) -> str:
    return '{' + ','.join(map(str, action.choices)) + '}' if action.choices else ''


def _expand(action: argparse.Action) -> str:
    return (action.help or '').replace('%%', '%')


# Config keys


def _config_keys() -> Iterator[str]:
    from rolecall.config_keys import KEYS, MODEL_PLACES
    from rolecall.experiment.opening.config_schema import config_schema

    schema = config_schema()['properties']
    dataset = schema['datasets']['items']['properties']
    model = schema['models']['items']['anyOf'][1]['properties']
    yield '# Config keys'
    yield (
        'Every key that a config can have, with its type and meaning. `rolecall config schema` prints the same for '
        'editors. '
        'Loaders, retrievers, metrics and classes of your own take further options; [Names](names.md) lists those of '
        'the built-in parts. A key that nothing reads is reported with what was probably meant.'
    )
    yield '## The config'
    yield _keys(schema)
    yield '## A dataset: `datasets[…]`'
    yield _keys(dataset)
    for part in ('reader_cfg', 'infer_cfg', 'eval_cfg'):
        yield f'### `{part}`'
        yield _keys(dataset[part]['properties'])
        for name, inner in dataset[part]['properties'].items():
            options = next((one['properties'] for one in inner.get('anyOf', ()) if 'properties' in one), {})
            if set(options) - {'type'}:
                yield f'#### `{part}.{name}`'
                yield _keys(options)
    yield '## A model: `models[…]`'
    yield (
        'A model is a name (`smollm2`, `openai/gpt-4.1-mini`, a URL; [Without a config file](../without-a-config.md)) '
        "or an entry with these keys. Parameters of sampling may stand in a dataset's `inferencer`, too, which wins."
    )
    rows = []
    for key, value in model.items():
        kinds = [kind for kind, places in MODEL_PLACES.items() if not KEYS[key].places.isdisjoint(places)]
        rows.append(
            (f'`{key}`', _type(value), 'all' if len(kinds) == len(MODEL_PLACES) else ', '.join(kinds), _said(value))
        )
    yield _table(('key', 'type', 'models', 'meaning'), rows)


def _keys(properties: Mapping[str, Any]) -> str:
    return _table(
        ('key', 'type', 'meaning'), [(f'`{key}`', _type(value), _said(value)) for key, value in properties.items()]
    )


def _said(schema: Mapping[str, Any]) -> str:
    return str(schema.get('description', ''))


def _type(schema: Mapping[str, Any]) -> str:
    if 'anyOf' in schema:
        return ' or '.join(dict.fromkeys(_type(one) for one in schema['anyOf']))
    if 'enum' in schema:
        return 'a name'
    types = schema.get('type', 'any value')
    words = [types] if isinstance(types, str) else list(types)
    shown = ' or '.join(
        {'array': 'list', 'object': 'dict', 'integer': 'whole number', 'null': 'None'}.get(one, one) for one in words
    )
    if 'minimum' not in schema:
        return shown
    return (
        f'{shown}, {schema["minimum"]} to {schema["maximum"]}'
        if 'maximum' in schema
        else f'{shown} ≥ {schema["minimum"]}'
    )


# Names


def _names() -> Iterator[str]:
    from rolecall.ui.cli.config.list import KINDS, list_parts, load_registry

    yield '# Names'
    yield (
        'Every name that a config can use for a part, as `rolecall config list` prints them, with the options it '
        'takes. '
        'Packages can add names: [Parts of your own](../plugins.md).'
    )
    for kind in KINDS:
        registry = load_registry(kind)
        parts = [part for part in list_parts(kind, registry) if part.origin == 'rolecall']
        yield f'## {kind.replace("_", " ").capitalize()}'
        yield f'{len(parts)} names; entry points: `{registry.group}`.'
        options = [_options(registry[part.name]) if kind in _WITH_OPTIONS else '' for part in parts]
        if any(options):
            rows = [(f'`{part.name}`', part.summary, taken) for part, taken in zip(parts, options, strict=True)]
            yield _table(('name', 'meaning', 'options'), rows)
        else:
            mark = '`' if kind == 'meta_templates' else ''
            yield _table(('name', 'meaning'), [(f'`{part.name}`', f'{mark}{part.summary}{mark}') for part in parts])


_WITH_OPTIONS = ('templates', 'retrievers', 'metrics', 'postprocessors')


def _options(part: Any) -> str:
    try:
        parameters = inspect.signature(part).parameters.values()
    except (TypeError, ValueError):
        return ''
    shown = [
        one.name if one.default is one.empty or callable(one.default) else f'{one.name}={one.default!r}'
        for one in parameters
        if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD) and not one.name.startswith('_')
    ]
    return ', '.join(f'`{one}`' for one in shown)


# Examples


def _examples(root: Path) -> Iterator[str]:
    yield '# Examples'
    yield 'The files of `examples/` in a checkout.'
    for path in sorted((root / 'examples').rglob('*')):
        if path.suffix in ('.py', '.toml', '.yaml') and '__pycache__' not in path.parts:
            kind = {'.py': 'python', '.toml': 'toml', '.yaml': 'yaml'}[path.suffix]
            yield f'## `{path.relative_to(root)}`'
            yield f'```{kind}\n{path.read_text(encoding="utf-8").strip()}\n```'


# Markdown


def _fence(text: str) -> str:
    return f'```text\n{text.strip()}\n```'


def _table(head: Row, rows: list[Row]) -> str:
    lines = [head, ('---',) * len(head), *rows]
    return '\n'.join('| ' + ' | '.join(_escape(cell) for cell in line) + ' |' for line in lines)


def _escape(cell: str) -> str:
    return (
        cell.replace('\n', ' ').replace('|', '\\|').replace('<', '&lt;')
        if '`' not in cell
        else cell.replace('|', '\\|')
    )


if __name__ == '__main__':
    for place, text in write_pages(Path(__file__).resolve().parent.parent).items():
        file = Path(sys.argv[1], place)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding='utf-8')
