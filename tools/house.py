"""The figures and the guards of the house: how many concepts a reader has to carry, and what keeps them few.

python tools/house.py          print the figures
python tools/house.py write    draw docs/images/rooms.svg and write the figures into design/house.md
python tools/house.py check    exit code 1 if those two are stale, a name stands for two things, code is dead, …

`make check` calls the last, `make format` the one before.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import rooms

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / 'src' / 'rolecall'
PAGE = ROOT / 'design' / 'house.md'
START, END = '<!-- figures: written by tools/house.py -->', '<!-- end of figures -->'

EMPTY_NAMES = {
    *('one', 'found', 'given', 'told', 'said', 'asked', 'known', 'written', 'read'),
    *('shown', 'kept', 'made', 'listed', 'seen', 'held', 'came', 'heard', 'took'),
}
"""Names of variables that say that something was looped over or found, never what."""
MOST_EMPTY = 0.5
"""The share of bindings, in percent, that may have such a name."""
PARALLEL = ('models/', 'ui/cli/')
"""Folders whose files are namesakes on purpose: the same part of each kind of model, and the command you type."""
NAMESAKES = frozenset({'build.py'})
MOST_FOLDERS = 10
CALLED_BY_NAME = re.compile(
    r'ui/cli/.*\.py function (?:declare|execute)|ui/web/server\.py method \w+_|compat/lm_eval/stand_ins\.py method \w+'
)
"""Commands, routes of the page, and the stand-ins for packages that task files import."""
CALLED_BY_LIBRARIES = frozenset(
    {'__dir__', '_split_lines', 'call_binop', 'generate_from_template', 'readinto', 'redirect_request'}
)


@dataclass
class House:
    """The parsed source, and what is counted in it."""

    files: dict[str, ast.Module] = field(default_factory=dict)
    lines: int = 0

    @classmethod
    def read(cls) -> House:
        house = cls()
        for path in sorted(SOURCE.rglob('*.py')):
            text = path.read_text('utf-8')
            house.files[path.relative_to(SOURCE).as_posix()] = ast.parse(text)
            house.lines += len(text.splitlines())
        return house

    @cached_property
    def nodes(self) -> list[tuple[str, ast.AST]]:
        return [(file, node) for file, tree in self.files.items() for node in ast.walk(tree)]

    def empty_share(self) -> float:
        """The percentage of bindings called `one`, `found`, …"""
        names = [node.id for _, node in self.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        names += [node.arg for _, node in self.nodes if isinstance(node, ast.arg)]
        return 100 * sum(name.strip('_') in EMPTY_NAMES for name in names) / len(names)

    def classes(self) -> dict[str, list[str]]:
        """Where each public class is defined."""
        places = defaultdict(list)
        for file, node in self.nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith('_'):
                places[node.name].append(file)
        return places

    def modules(self) -> dict[str, list[str]]:
        """Where each module name stands, without the folders in which namesakes are wanted."""
        places = defaultdict(list)
        for file in self.files:
            name = file.rpartition('/')[2]
            if name not in ('__init__.py', *NAMESAKES) and not file.startswith(PARALLEL):
                places[name].append(file)
        return places

    def folders(self) -> list[str]:
        return sorted({file.partition('/')[0] for file in self.files if '/' in file})

    def calls_of(self, name: str) -> int:
        calls = (node.func for _, node in self.nodes if isinstance(node, ast.Call))
        return sum(isinstance(function, ast.Name) and function.id == name for function in calls)

    def figures(self) -> dict[str, str]:
        sys.path.insert(0, str(SOURCE.parent))
        import rolecall

        classes = sum(isinstance(node, ast.ClassDef) for _, node in self.nodes)
        return {
            'files': f'{len(self.files):,}',
            'lines': f'{self.lines:,}',
            'classes': f'{classes:,}',
            'folders at the top': f'{len(self.folders())}',
            'public names of `rolecall`': f'{len(rolecall.__all__)}',
            'options of `rolecall run`': f'{count_run_options()}',
            'sites that construct `Pair(`': f'{self.calls_of("Pair")}',
            'bindings with empty names': f'{self.empty_share():.1f} %',
        }


def count_run_options() -> int:
    from rolecall.ui.cli.main import build_parser

    parser = build_parser(['run'])
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return sum(bool(action.option_strings) for action in actions[0].choices['run']._actions)


def write_table(house: House) -> str:
    rows = [f'| {name} | {value} |' for name, value in house.figures().items()]
    sizes = defaultdict(lambda: [0, 0])
    for path in SOURCE.rglob('*.py'):
        parts = path.relative_to(SOURCE).parts
        size = sizes[parts[0] if len(parts) > 1 else 'files at the top']
        size[0] += 1
        size[1] += len(path.read_text('utf-8').splitlines())
    rows += [f'| {room} | {count} files, {lines:,} lines |' for room, (count, lines) in sorted(sizes.items())]
    return '\n'.join(['| | now |', '|---|---|', *rows])


def page_with(table: str) -> str:
    before, _, rest = PAGE.read_text('utf-8').partition(START)
    return f'{before}{START}\n{table}\n{END}{rest.partition(END)[2]}'


def problems_of(house: House) -> Iterator[str]:
    for kind, places in (('module', house.modules()), ('class', house.classes())):
        for name, files in sorted(places.items()):
            if len(files) > 1:
                yield f'the {kind} name {name} stands {len(files)} times: {", ".join(files)}.'
    if house.empty_share() > MOST_EMPTY:
        yield f'{house.empty_share():.1f} % of variables are called one, found, given, …; at most {MOST_EMPTY} % may.'
    if len(house.folders()) > MOST_FOLDERS:
        yield f'{len(house.folders())} folders at the top of the package; at most {MOST_FOLDERS}.'
    for file, tree in house.files.items():
        if file.endswith('__init__.py') and not ast.get_docstring(tree):
            yield f'{file} does not say what the folder holds.'
    for item in unused_code():
        yield f'unused: {item}.'
    if rooms.PICTURE.read_text('utf-8') != rooms.draw():
        yield f'{rooms.PICTURE.relative_to(ROOT)} is stale: run tools/house.py write.'
    if PAGE.read_text('utf-8') != page_with(write_table(house)):
        yield f'{PAGE.relative_to(ROOT)} is stale: run tools/house.py write.'


def unused_code() -> list[str]:
    """Functions and classes whose name stands nowhere but where they are defined."""
    from vulture import Vulture  # type: ignore[import-untyped]

    finder = Vulture()
    finder.scavenge([str(SOURCE)])
    texts = [path.read_text('utf-8') for folder in ('docs', 'examples') for path in (ROOT / folder).rglob('*.[mp][dy]')]
    texts += [path.read_text('utf-8') for kind in ('*.py', '*.html', '*.tsv') for path in SOURCE.rglob(kind)]
    words = defaultdict(int)
    for text in texts:
        for word in re.findall(r'\w+', text):
            words[word] += 1
    kinds = ('function', 'method', 'class', 'property')
    unused = [item for item in finder.get_unused_code() if item.typ in kinds and words[item.name] == 1]
    places = {f'{Path(item.filename).relative_to(SOURCE)} {item.typ} {item.name}': item for item in unused}
    return [
        f'{place}, line {item.first_lineno}'
        for place, item in places.items()
        if item.name not in CALLED_BY_LIBRARIES and not CALLED_BY_NAME.fullmatch(place)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description='Figures and guards of the house.')
    parser.add_argument('what', nargs='?', default='show', choices=('show', 'write', 'check'))
    what = parser.parse_args().what
    house = House.read()
    if what == 'write':
        rooms.PICTURE.write_text(rooms.draw(), 'utf-8')
        PAGE.write_text(page_with(write_table(house)), 'utf-8')
    elif what == 'check':
        problems = list(problems_of(house))
        print(*problems, sep='\n')
        return 1 if problems else 0
    else:
        print(*(f'{name}: {value}' for name, value in house.figures().items()), sep='\n')
    return 0


if __name__ == '__main__':
    sys.exit(main())
