"""List the parts that a config can name.

List the parts that a config can name: built in, and from installed packages (see docs/plugins.md).

  rolecall config list
  rolecall config list retrievers
  rolecall config list benchmarks               what `rolecall run NAME` knows, and installed catalogues
  rolecall config list benchmarks mmlu
  rolecall config list meta_templates --json
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rolecall.ui.cli.options import add_options
from rolecall.ui.cli.output import fail, print_json, print_lines

if TYPE_CHECKING:
    from rolecall.compat.benchmarks.records import Benchmark
    from rolecall.registry import Registry


KINDS = {
    'templates': 'rolecall.core.prompts.template:TEMPLATES',
    'retrievers': 'rolecall.sources.retrievers.build:RETRIEVERS',
    'models': 'rolecall.models.backends:MODELS',
    'inferencers': 'rolecall.experiment.opening.tasks:INFERENCERS',
    'metrics': 'rolecall.scoring.evaluators:METRICS',
    'postprocessors': 'rolecall.scoring.postprocessors:POSTPROCESSORS',
    'datasets': 'rolecall.sources.datasets.dataset:DATASETS',
    'lint_rules': 'rolecall.experiment.lint.rules:RULES',
    'judges': 'rolecall.experiment.opening.judge_config:RUBRICS',
    'meta_templates': 'rolecall.core.render.meta:META_TEMPLATES',
}
"""Each kind of part with its registry."""


_BENCHMARKS = 'benchmarks'


@dataclass(frozen=True, slots=True)
class ListedPart:
    """One line of the list."""

    kind: str
    name: str
    origin: str
    summary: str


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('kind', metavar='KIND', nargs='?', help=', '.join((*KINDS, _BENCHMARKS)))
    add_options(parser, 'config list')


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.errors import did_you_mean
    from rolecall.strings import count_noun
    from rolecall.ui.views.chinese import translate_message

    wanted = (arguments.kind or '').replace('-', '_').replace(' ', '_')
    if wanted in (_BENCHMARKS, _BENCHMARKS.rstrip('s')):
        return _list_benchmarks(arguments.word or '', as_json=arguments.json)
    kinds = [kind for kind in KINDS if not wanted or kind in (wanted, f'{wanted}s')]
    if not kinds:
        return fail(f'unknown kind of part {arguments.kind!r}. {did_you_mean(wanted, (*KINDS, _BENCHMARKS))}')
    for kind in kinds:
        registry = load_registry(kind)
        word = (arguments.word or '').lower()
        parts = [entry for entry in list_parts(kind, registry) if word in f'{entry.name} {entry.summary}'.lower()]
        if arguments.json:
            print_json(*parts)
            continue
        print_lines([f'{count_noun(len(parts), registry.kind)} (entry points: {registry.group})'])
        width = max((len(part.name) for part in parts), default=0)
        for part in parts:
            origin = '' if part.origin == 'rolecall' else f' [{part.origin}]'
            print_lines([f'  {part.name.ljust(width)}  {translate_message(part.summary)}{origin}'], hang=width + 2)
    return 0


def _list_benchmarks(word: str, *, as_json: bool) -> int:
    """The registry, then installed catalogues: their files that match the word, or their number without one."""
    from rolecall.compat.benchmarks.catalogues import list_installed
    from rolecall.compat.benchmarks.records import read_benchmarks
    from rolecall.strings import count_noun
    from rolecall.ui.views.chinese import translate_message

    wanted = word.lower()
    ours = [
        benchmark
        for benchmark in read_benchmarks()
        if wanted in f'{benchmark.name} {benchmark.title} {benchmark.topic}'.lower()
    ]
    installed = {
        name: [file for file in files if wanted in file.source.lower()] for name, files in list_installed().items()
    }
    if as_json:
        print_json(*map(_describe_benchmark, ours))
        for name, files in installed.items():
            print_json(
                *({'kind': _BENCHMARKS, 'name': file.source, 'origin': name, 'file': str(file.path)} for file in files)
            )
        return 0
    matching = f' with {word!r}' if word else ''
    remedy = (
        'run one with: rolecall run NAME --model MODEL' if ours else 'show all with: rolecall config list benchmarks'
    )
    print_lines([f'{count_noun(len(ours), "benchmark")}{matching} ({remedy})'])
    width = max((len(benchmark.name) for benchmark in ours), default=0)
    for benchmark in ours:
        rows = f'{benchmark.rows:,} rows' if benchmark.rows else ''
        about = f'{translate_message(benchmark.title)} [{benchmark.topic}; {", ".join(benchmark.wordings)}]'
        print_lines([f'  {benchmark.name.ljust(width)}  {rows:>11}  {about}'])
    for name, files in installed.items():
        kind = 'name' if name == 'lm_eval' else 'file'  # tasks, groups and tags
        print(f'{count_noun(len(files), kind)} of {name}{matching}')
        print_lines(f'  {file.source}' for file in files if word)
    if installed and not word:
        print_lines(['Find one with: rolecall config list benchmarks WORD'])
    return 0


def _describe_benchmark(benchmark: Benchmark) -> dict[str, Any]:
    facts = {
        name: getattr(benchmark, name)
        for name in ('title', 'topic', 'rows', 'licence', 'licence_from', 'citation', 'source')
    }
    wordings = {
        style: {'equals': wording.equals, 'metric': wording.metric, 'files': wording.files, 'differs': wording.differs}
        for style, wording in benchmark.wordings.items()
    }
    return {'kind': _BENCHMARKS, 'name': benchmark.name, 'origin': 'rolecall', **facts, 'wordings': wordings}


def list_parts(kind: str, registry: Registry[Any]) -> Iterator[ListedPart]:
    """The built-ins in their order, then the plugins by name."""
    for name in registry:
        yield ListedPart(kind, name, 'rolecall', _summarise(registry, name))
    for plugin in registry.plugins():
        hidden = f' Hidden by the built-in of that name; use {plugin.path!r}.' if plugin.name in registry else ''
        try:
            summary = _summary(plugin.load())
        except Exception as error:  # a plugin may raise anything: the list shows it
            summary = ' '.join(str(error).split())
        yield ListedPart(kind, plugin.name, plugin.origin, f'{summary}{hidden}')


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

    return (inspect.getdoc(getattr(documented, 'func', documented)) or '').partition('\n')[0]


def _roles(template: Mapping[str, Any]) -> str:
    """Each role with the markers around its speeches, or its API name."""
    entries = [*(template.get('round') or ()), *(template.get('reserved_roles') or ())]
    texts = [
        f'{entry["role"]} → {entry["api_role"]}'
        if 'api_role' in entry
        else f'{entry["role"]} {entry.get("begin", "")}…{entry.get("end", "")}'
        for entry in entries
        if isinstance(entry, Mapping) and 'role' in entry
    ]
    return '  '.join(text.replace('\n', '⏎') for text in texts)


def load_registry(kind: str) -> Registry[Any]:
    """The registry of a kind of part."""
    module, _, name = KINDS[kind].partition(':')
    registry: Registry[Any] = getattr(importlib.import_module(module), name)
    return registry
