"""Configs as YAML or JSON: the same names as in a Python config, as data. Types are names, and nothing is run."""

from __future__ import annotations

import importlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.plain_files import open_plain

_YAML = ('.yaml', '.yml')
_KEY_START = r'^(?:\{[ \t]*)?["\']?'
"""Where a key at the top begins, also in a mapping in braces."""
_OURS = _KEY_START + r'(?:\w+_)?(?:datasets|models)["\']?[ \t]*:'
_TASK = _KEY_START + r'(?:task|group)["\']?[ \t]*:'
_LM_EVAL = (
    _KEY_START + r'(?:task|group|include|tag|dataset_(?:path|name|kwargs)|doc_to_\w+|output_type|\w+_split'
    r'|metric_list|metadata|num_fewshot|process_\w+|generation_kwargs|description|fewshot_\w+)["\']?[ \t]*:'
)
"""Keys at the top of task files."""
_PROMPTFOO = _KEY_START + r'(?:prompts|providers|targets)["\']?[ \t]*:'
_MOST_BYTES = 64 << 20
_MOST_VALUES = 1_000_000
_FIRST = 4096
_DEEPEST = 500
_MOST_PLACES = 200_000
_TRUE_OR_FALSE = 'true|True|TRUE|false|False|FALSE'
_FLOAT = r'[-+]?(?:\d[\d_]*)(?:\.[\d_]*)?(?:[eE][-+]?\d+)|[-+]?(?:\d[\d_]*)?\.\d[\d_]*|[-+]?\.(?:inf|Inf|INF)|\.nan'


_SUITE = re.compile(r'\s*\{(?=.*"prompts"\s*:)(?=.*"(?:providers|targets)"\s*:)', re.DOTALL)
"""A config of promptfoo as JSON."""


def is_plain_config(path: str | Path) -> bool:
    """Whether a YAML or JSON file is a config of ours: not a task file of lm-evaluation-harness, and not rows.

    >>> is_plain_config('config.py'), is_plain_config('no/such/file.yaml')
    (False, False)
    """
    file = Path(path)
    if file.suffix not in (*_YAML, '.json'):
        return False
    try:
        if not file.is_file() or file.stat().st_size > _MOST_BYTES:
            return False
        with file.open(encoding='utf-8', errors='replace') as opened:
            begin = opened.read(_FIRST)
            if file.suffix == '.json' and not begin.lstrip('\ufeff \t\r\n').startswith('{'):
                return False
            text = begin + opened.read()
    except OSError:
        return False
    if file.suffix == '.json':
        return '"infer_cfg"' in text or _SUITE.match(text.lstrip('\ufeff')) is not None
    if re.search(_OURS, text, re.MULTILINE):
        return re.search(_TASK, text, re.MULTILINE) is None
    foreign = re.search(_PROMPTFOO, text, re.MULTILINE) is None and re.search(_LM_EVAL, text, re.MULTILINE)
    return bool(text.strip()) and not foreign


def parse_plain(path: str | Path) -> Any:
    """What a YAML or JSON file says."""
    file = Path(path)
    try:
        with open_plain(file, largest=_MOST_BYTES, links=True) as opened:
            text = opened.read().decode('utf-8-sig')
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, 'strerror', None) or error
        raise ConfigError(Problem(str(path), f'cannot be read: {why}.')) from error
    return _parse_json(text, str(path)) if file.suffix == '.json' else _parse_yaml(text, str(path))


def read_plain_config(path: str | Path) -> dict[str, Any]:
    """The names in a YAML or JSON config."""
    values = parse_plain(path)
    if not isinstance(values, dict):
        what = f'expected names and values, found {type(values).__name__}.'
        raise ConfigError(Problem(str(path), what, 'Write models: […] and datasets: […].'))
    wrong = [key for key in values if not isinstance(key, str)]
    if wrong:
        raise ConfigError(Problem(str(path), f'expected names, found {wrong[0]!r:.60}.'))
    return values


def _parse_json(text: str, path: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _refuse_twice(pairs, path))
    except (json.JSONDecodeError, RecursionError) as error:
        where = f'{path}:{error.lineno}' if isinstance(error, json.JSONDecodeError) else path
        raise ConfigError(Problem(where, f'is not JSON: {getattr(error, "msg", "nested too deeply")}.')) from error


def _refuse_twice(pairs: list[tuple[str, Any]], path: str) -> dict[str, Any]:
    if twice := _find_twice([name for name, _ in pairs]):
        raise ConfigError(Problem(path, f'the key {twice!r} occurs twice in one object.', 'Remove one of them.'))
    return dict(pairs)


def _find_twice(names: list[Any]) -> Any:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _parse_yaml(text: str, path: str) -> Any:
    yaml = importlib.import_module('yaml')
    try:
        check_depth(yaml, text)
        return yaml.load(text, Loader=_loader())
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, 'problem_mark', None)
        where = f'{path}:{mark.line + 1}' if mark else path
        tabs = mark is not None and '\t' in ''.join(text.splitlines()[mark.line : mark.line + 1])
        remedy = 'Indent with spaces: YAML allows no tabs there.' if tabs else ''
        what = f'is not YAML: {getattr(error, "problem", None) or error}.'
        raise ConfigError(Problem(where, what, remedy)) from error


def check_depth(yaml: Any, text: str | bytes) -> None:
    """Raise a YAMLError for text that nests so deeply that libyaml's binding would overflow the stack.

    So are aliases of values that contain themselves, or that are too many when they are written out, as with nine
    lists that each refer nine times to the one before.
    """
    signs = '[{-?:&' if isinstance(text, str) else (b'[', b'{', b'-', b'?', b':', b'&')
    *levels, anchors = map(text.count, signs)  # type: ignore[arg-type]  # as the text, so its marks
    if sum(levels) <= _DEEPEST and not anchors:
        return
    sizes: dict[str, float] = {}
    opened, values, problem = [], 0.0, ''
    for event in yaml.parse(text, Loader=getattr(yaml, 'CSafeLoader', yaml.SafeLoader)):
        values += 1
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, values))
            sizes[event.anchor] = math.inf
            problem = 'nested too deeply' if len(opened) > _DEEPEST else ''
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes[anchor] = values - before
        elif isinstance(event, yaml.AliasEvent) and (values := values + sizes.get(event.anchor, 0)) > _MOST_VALUES:
            endless = 'an alias refers to a value that contains it'
            problem = endless if math.isinf(values) else f'aliases stand for more than {_MOST_VALUES:,} values'
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


@lru_cache(maxsize=1)
def _loader() -> Any:
    """A YAML loader that reads `No` as a string and `1e-5` as a number, as YAML 1.2 does. Duplicate keys are errors."""
    yaml = importlib.import_module('yaml')
    base = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)

    def construct_mapping(self: Any, node: Any, deep: bool = False) -> Any:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if twice := _find_twice(keys):
            again = [key for key, _ in node.value if key.value == twice][1]
            raise yaml.constructor.ConstructorError(
                problem=f'the key {twice!r} occurs twice', problem_mark=again.start_mark
            )
        return base.construct_mapping(self, node, deep=deep)

    loader: Any = type('ConfigLoader', (base,), {'construct_mapping': construct_mapping})
    dropped = ('tag:yaml.org,2002:bool', 'tag:yaml.org,2002:float', 'tag:yaml.org,2002:timestamp')
    loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in dropped]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    loader.add_implicit_resolver('tag:yaml.org,2002:bool', re.compile(rf'(?:{_TRUE_OR_FALSE})\Z'), list('tTfF'))
    loader.add_implicit_resolver('tag:yaml.org,2002:float', re.compile(rf'(?:{_FLOAT})\Z'), list('-+.0123456789'))
    return loader


@dataclass(frozen=True, slots=True)
class PlainTrace:
    """The line of every value in a YAML or JSON config, found when it is first asked for."""

    path: str

    def __call__(self) -> PlainTrace:
        return self

    def find(self, place: str, config: Mapping[str, Any]) -> tuple[str, int] | None:
        """The file and line of a place (`datasets[0].infer_cfg`)."""
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        line = _lines(os.path.abspath(self.path), status.st_mtime_ns, status.st_size).get(place)
        return None if line is None else (self.path, line)


@lru_cache(maxsize=8)
def _lines(path: str, changed: int, size: int) -> dict[str, int]:
    """The line of each place in a file, kept until the file changes."""
    yaml = importlib.import_module('yaml')
    lines: dict[str, int] = {}
    try:
        root = yaml.compose(Path(path).read_text(encoding='utf-8-sig'), Loader=_loader())
    except (yaml.YAMLError, OSError, RecursionError):
        return lines
    waiting = [('', root)]
    while waiting and len(lines) < _MOST_PLACES:
        place, node = waiting.pop()
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = f'{place}.{key.value}' if place else str(key.value)
                if inner not in lines:
                    lines[inner] = key.start_mark.line + 1
                    waiting.append((inner, value))
        elif isinstance(node, yaml.SequenceNode):
            for i, value in enumerate(node.value):
                if f'{place}[{i}]' not in lines:
                    lines[f'{place}[{i}]'] = value.start_mark.line + 1
                    waiting.append((f'{place}[{i}]', value))
    return lines
