"""`rolecall config list`: the parts that a config can name, built in and from installed packages."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rolecall.ui.cli.options import declare_command, fail

if TYPE_CHECKING:
    from rolecall.compat.benchmarks.records import Benchmark
    from rolecall.registry import Registry


KINDS = {
    'templates': 'rolecall.core.prompts.template:TEMPLATES',
    'retrievers': 'rolecall.sources.retrievers.build:RETRIEVERS',
    'models': 'rolecall.models.backends:MODELS',
    'inferencers': 'rolecall.experiment.opening.inferencer_entries:INFERENCERS',
    'metrics': 'rolecall.scoring.evaluators:METRICS',
    'postprocessors': 'rolecall.scoring.postprocessors:POSTPROCESSORS',
    'datasets': 'rolecall.sources.datasets.dataset:DATASETS',
    'lint_rules': 'rolecall.experiment.lint.rules:RULES',
    'meta_templates': 'rolecall.core.render.families:META_TEMPLATES',
}
"""Each kind of part with its registry."""


_BENCHMARKS = 'benchmarks'


@dataclass(frozen=True, slots=True)
class Listed:
    """One part, as it is shown."""

    kind: str
    name: str
    origin: str
    summary: str


def add_list(commands: Any) -> None:
    """Declare `rolecall config list`."""
    parser = declare_command(
        commands,
        'list',
        'list the parts that a config can name',
        'List the parts that a config can name: built in, and from installed packages (see docs/plugins.md).',
        '  rolecall config list\n'
        '  rolecall config list retrievers\n'
        '  rolecall config list benchmarks               what `rolecall run NAME` knows, and installed catalogues\n'
        '  rolecall config list benchmarks mmlu\n'
        '  rolecall config list meta_templates --json',
    )
    parser.set_defaults(run=_list)
    parser.add_argument('kind', metavar='KIND', nargs='?', help=', '.join((*KINDS, _BENCHMARKS)))
    parser.add_argument('word', metavar='WORD', nargs='?', help='only names and descriptions that contain this word')
    parser.add_argument('--json', action='store_true', help='one JSON object per line')


def _list(arguments: argparse.Namespace) -> int:
    from rolecall.errors import did_you_mean
    from rolecall.strings import count_noun, printable, wrap_for

    given = (arguments.kind or '').replace('-', '_').replace(' ', '_')
    if given in (_BENCHMARKS, _BENCHMARKS.rstrip('s')):
        return _list_benchmarks(arguments.word or '', as_json=arguments.json)
    kinds = [kind for kind in KINDS if not given or kind in (given, f'{given}s')]
    if not kinds:
        return fail(f'unknown kind of part {arguments.kind!r}. {did_you_mean(given, (*KINDS, _BENCHMARKS))}')
    for kind in kinds:
        registry = load_registry(kind)
        word = (arguments.word or '').lower()
        parts = [one for one in list_parts(kind, registry) if word in f'{one.name} {one.summary}'.lower()]
        if arguments.json:
            import json

            print(*(json.dumps(asdict(part), ensure_ascii=False) for part in parts), sep='\n')
            continue
        print(f'{count_noun(len(parts), registry.kind)} (entry points: {registry.group})')
        width = max((len(part.name) for part in parts), default=0)
        for part in parts:
            origin = '' if part.origin == 'rolecall' else f' [{part.origin}]'
            shown = f'  {part.name.ljust(width)}  {part.summary}{origin}'
            print(wrap_for(sys.stdout, printable(shown), hang=width + 2))
    return 0


def _list_benchmarks(word: str, *, as_json: bool) -> int:
    """The registry, then what installed catalogues have: their files with a word, otherwise how many they are."""
    import json

    from rolecall.compat.benchmarks.catalogues import list_installed
    from rolecall.compat.benchmarks.records import read_benchmarks
    from rolecall.strings import count_noun, printable

    wanted = word.lower()
    ours = [one for one in read_benchmarks() if wanted in f'{one.name} {one.title} {one.topic}'.lower()]
    installed = {
        name: [file for file in files if wanted in file.source.lower()] for name, files in list_installed().items()
    }
    if as_json:
        for one in ours:
            print(json.dumps(_describe_benchmark(one), ensure_ascii=False))
        for name, files in installed.items():
            for file in files:
                shown = {'kind': _BENCHMARKS, 'name': file.source, 'origin': name, 'file': str(file.path)}
                print(json.dumps(shown, ensure_ascii=False))
        return 0
    matching = f' with {word!r}' if word else ''
    remedy = (
        'run one with: rolecall run NAME --model MODEL' if ours else 'show all with: rolecall config list benchmarks'
    )
    print(f'{count_noun(len(ours), "benchmark")}{matching} ({remedy})')
    width = max((len(one.name) for one in ours), default=0)
    for one in ours:
        rows = f'{one.rows:,} rows' if one.rows else ''
        styles = ', '.join(one.wordings)
        print(printable(f'  {one.name.ljust(width)}  {rows:>11}  {one.title} [{one.topic}; {styles}]'))
    for name, files in installed.items():
        kind = 'name' if name == 'lm_eval' else 'file'  # tasks, groups and tags
        print(f'{count_noun(len(files), kind)} of {name}{matching}')
        if word:
            for file in files:
                print(printable(f'  {file.source}'))
    if installed and not word:
        print('Find one with: rolecall config list benchmarks WORD')
    return 0


def _describe_benchmark(one: Benchmark) -> dict[str, Any]:
    facts = {
        name: getattr(one, name) for name in ('title', 'topic', 'rows', 'licence', 'licence_from', 'citation', 'source')
    }
    wordings = {
        style: {'equals': wording.equals, 'metric': wording.metric, 'files': wording.files, 'differs': wording.differs}
        for style, wording in one.wordings.items()
    }
    return {'kind': _BENCHMARKS, 'name': one.name, 'origin': 'rolecall', **facts, 'wordings': wordings}


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


def load_registry(kind: str) -> Registry[Any]:
    """The registry of a kind of part."""
    module, _, name = KINDS[kind].partition(':')
    registry: Registry[Any] = getattr(importlib.import_module(module), name)
    return registry
