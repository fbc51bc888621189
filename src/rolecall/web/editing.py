"""Editing a prompt: the texts and options of a dataset and a model that can be changed, and what the change gives.

Nothing of the config is executed again: edits are applied to a copy of its entries, and only values that are already
there, or options by name, can be set.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rolecall.datasets import Dataset
from rolecall.errors import ConfigError, Problem, RolecallError
from rolecall.lint.linter import lint_plan
from rolecall.pairs.entries import Entries, build_entries
from rolecall.pairs.pair import Pair, Preview
from rolecall.report.run_source import PairRows
from rolecall.strings import count_noun
from rolecall.web.documents import ConfigDocument
from rolecall.web.prompts_json import preview_as_json

__all__ = ['Edit', 'editable_fields', 'edited_pair', 'edited_prompts', 'edited_source', 'save_edited']

_TEXTS = ('template', 'prompt', 'content', 'begin', 'end', 'ice_separator', 'ice_eos_token')
_OPTIONS = {
    'retriever': ('fix_id_list', 'ice_num', 'ice_separator', 'ice_eos_token'),
    'inferencer': ('max_out_len', 'min_out_len', 'temperature', 'top_p', 'top_k', 'seed', 'prefill', 'infer_mode'),
}
_LINT_ROWS = 5
_NAME = re.compile(r'[\w-]{1,80}\.py')

Path_ = tuple[str | int, ...]
Edit = tuple[Path_, Any]


def editable_fields(document: ConfigDocument, dataset: str, model: str | None) -> list[dict[str, Any]]:
    """The texts of the templates, the options of retriever and inferencer, and the texts of the meta template."""
    task, entry = document.task(dataset), document.model_entry(model)
    infer = task.entry['infer_cfg']
    fields: list[dict[str, Any]] = []
    for part in ('prompt_template', 'ice_template'):
        fields += _text_fields(infer.get(part), ('dataset', 'infer_cfg', part), part)
    for part, options in _OPTIONS.items():
        written = infer.get(part) or {}
        for option in options:
            path: Path_ = ('dataset', 'infer_cfg', part, option)
            value = written.get(option) if isinstance(written, Mapping) else None
            fields.append({'path': path, 'label': option, 'group': part, 'kind': 'option', 'value': _literal(value)})
    meta = entry.entry.get('meta_template') if entry is not None else None
    return [*fields, *_text_fields(meta, ('model', 'meta_template'), 'meta_template')]


def _text_fields(value: Any, root: Path_, group: str) -> Iterator[dict[str, Any]]:
    if not isinstance(value, Mapping):
        return
    for path, role, text in _texts(value):
        label = _join_path((group, *path))
        named = f'{role} · {label}' if role else label
        yield {'path': (*root, *path), 'label': named, 'group': group, 'kind': 'text', 'value': text}


def _texts(value: Any, path: Path_ = (), role: str = '') -> Iterator[tuple[Path_, str, str]]:
    """Every text that a template sends: where it is, the role that speaks it, and the text."""
    if isinstance(value, str):
        if path and (path[-1] in _TEXTS or isinstance(path[-1], int)):
            yield path, role, value
    elif isinstance(value, Mapping):
        speaker = str(value.get('role', role) or role)
        for key, inner in value.items():
            if key not in ('type', 'role', 'api_role', 'fallback_role', 'ice_token', 'sep_token'):
                is_label = path and path[-1] == 'template' and isinstance(inner, str) and key not in _TEXTS
                yield from ([((*path, key), speaker, inner)] if is_label else _texts(inner, (*path, key), speaker))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _texts(inner, (*path, number), role)


def _join_path(path: Sequence[str | int]) -> str:
    """A path as a config has it: template.round[0].prompt."""
    return ''.join(f'[{step}]' if isinstance(step, int) else f'.{step}' for step in path).removeprefix('.')


def _literal(value: Any) -> str:
    return '' if value is None else repr(value)


def edited_prompts(
    document: ConfigDocument, dataset: str, model: str | None, row: int, edits: Sequence[Edit]
) -> dict[str, Any]:
    """The requests of one row after the edits, their size, and what the linter finds."""
    entries = _edited_entries(document, dataset, model, edits)
    data = document.dataset(dataset)
    pair, previews = _pair_of(entries, data, row)
    model_entry = pair.model_entry
    counts = [
        model_entry.count(preview.request) if model_entry is not None and preview.request is not None else None
        for preview in previews
    ]
    found = lint_plan(document.config, entries, entries, open_task=lambda _: data, limit=_LINT_ROWS)
    return {
        'prompts': [preview_as_json(pair, preview, document.config) for preview in previews],
        'tokens': counts,
        'prices': [_price(model_entry.entry if model_entry else {}, count) for count in counts],
        'findings': [asdict(finding) for finding in found if finding.severity != 'info'],
    }


def edited_pair(
    document: ConfigDocument, dataset: str, model: str | None, row: int, edits: Sequence[Edit]
) -> tuple[Pair, list[Preview]]:
    """A dataset and a model after the edits, and the requests of one row."""
    return _pair_of(_edited_entries(document, dataset, model, edits), document.dataset(dataset), row)


def _pair_of(entries: Entries, data: Dataset, row: int) -> tuple[Pair, list[Preview]]:
    model_entry = entries.model_entries[0] if entries.model_entries else None
    pair = Pair(entries.tasks[0], model_entry, data)
    return pair, PairRows(pair, row + 1).previews(row)


def _price(entry: Mapping[str, Any], tokens: int | None) -> float | None:
    price = entry.get('price')
    if tokens is None or not isinstance(price, Mapping):
        return None
    return tokens * float(price.get('input', 0)) / 1e6


def _edited_entries(document: ConfigDocument, dataset: str, model: str | None, edits: Sequence[Edit]) -> Entries:
    task, entry = document.task(dataset), document.model_entry(model)
    changed = {'dataset': _copy(task.entry), 'model': _copy(entry.entry) if entry else {}}
    for path, value in edits:
        _apply(changed, path, value)
    return build_entries({'datasets': [changed['dataset']], 'models': [changed['model']] if entry else []})


def _copy(value: Any) -> Any:
    """A copy that can be changed: of dicts and lists, not of what they hold otherwise."""
    if isinstance(value, Mapping):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list | tuple) else value


def _apply(changed: Any, path: Path_, value: Any) -> None:
    allowed = path[:2] == ('dataset', 'infer_cfg') or path[:2] == ('model', 'meta_template')
    try:
        if not allowed or len(path) < 3:
            raise KeyError
        for step in path[:-1]:
            changed = changed[step]
        if path[2] in _OPTIONS and len(path) == 4:
            _set_option(changed, path, value)
        elif isinstance(changed[path[-1]], str) and isinstance(value, str):
            changed[path[-1]] = value
        else:
            raise KeyError
    except (KeyError, IndexError, TypeError) as error:
        raise ConfigError(Problem(_join_path(path), 'this cannot be edited.')) from error


def _set_option(entry: Any, path: Path_, value: Any) -> None:
    """Set an option from its Python literal; an empty text removes it."""
    name = str(path[-1])
    if name not in _OPTIONS[str(path[2])]:
        raise KeyError(name)
    if value in ('', None):
        entry.pop(name, None)
        return
    try:
        entry[name] = ast.literal_eval(str(value))
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        what = f'expected a Python value such as 5, 0.7, [0, 1] or True, got {value!r:.60}.'
        raise ConfigError(Problem(_join_path(path), what)) from error


def edited_source(document: ConfigDocument, dataset: str, model: str | None, edits: Sequence[Edit]) -> str:
    """A config file that loads the original and makes the edits."""
    _edited_entries(document, dataset, model, edits)
    task, entry = document.task(dataset), document.model_entry(model)
    places = {'dataset': task.where, 'model': entry.where if entry else ''}
    lines = [
        f'"""{document.path.name}, with {count_noun(len(edits), "edit")}."""',
        '',
        'from pathlib import Path',
        '',
        'from rolecall.config.files import load_config',
        '',
        f'_base = load_config(Path(__file__).parent / {document.path.name!r})',
        *(f'{name} = _base[{name!r}]' for name in _list_names(document)),
        '',
    ]
    for path, value in edits:
        root, *steps = path
        target = places[str(root)] + ''.join(f'[{step!r}]' for step in steps)
        is_option = len(path) == 4 and path[2] in _OPTIONS
        lines.append(f'{target} = {value if is_option and value != "" else repr(value or None)}')
    return '\n'.join(lines) + '\n'


def _list_names(document: ConfigDocument) -> list[str]:
    """The names of the lists of datasets and models in the config."""
    plan = document.plan
    places = [*(entry.where for entry in plan.model_entries), *(task.where for task in plan.tasks)]
    return list(dict.fromkeys(place.partition('[')[0] for place in places))


def save_edited(document: ConfigDocument, source: str, name: str) -> Path:
    """Write the edited config beside the original, under a new name. A file that exists is never replaced."""
    if not _NAME.fullmatch(name):
        raise ConfigError(Problem('name', f'expected a file name such as edited.py, got {name!r:.60}.'))
    file = document.path.parent / name
    try:
        with open(file, 'x', encoding='utf-8') as stream:
            stream.write(source)
    except FileExistsError as error:
        raise ConfigError(Problem(str(file), 'this file exists; choose another name.')) from error
    except OSError as error:
        raise RolecallError(f'{file}: cannot be written: {error.strerror or error}.') from error
    return file
