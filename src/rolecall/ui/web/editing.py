"""Editing a prompt: the parts of a dataset and a model that can be changed, and what a change gives.

Nothing of the config is executed again: edits are applied to a copy of its entries. An edit is a path and a value: a
text, an option as a Python literal, a name to choose, or `{'source': …}` for a whole part.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rolecall.checking import argument_problems
from rolecall.core.render.meta import META_TEMPLATES, find_meta_template
from rolecall.errors import ConfigError, Problem, RolecallError
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.lint.linter import lint_config
from rolecall.experiment.opening.sampling import sampling_of
from rolecall.experiment.opening.written_configs import format_saved
from rolecall.experiment.pairs.pair import Pair, Preview
from rolecall.insight.run_source import PairRows
from rolecall.models.prices import find_price
from rolecall.registry import Registry, part_name
from rolecall.sources.retrievers.build import RETRIEVERS
from rolecall.strings import count_noun
from rolecall.ui.web.documents import ConfigDocument, diff_as_json
from rolecall.ui.web.entry_values import ValuePath, format_source, parse_source, texts_of, write_path
from rolecall.ui.web.page_json import preview_as_json

_PARTS = {
    'prompt_template': ('dataset', 'infer_cfg', 'prompt_template'),
    'ice_template': ('dataset', 'infer_cfg', 'ice_template'),
    'retriever': ('dataset', 'infer_cfg', 'retriever'),
    'inferencer': ('dataset', 'infer_cfg', 'inferencer'),
    'meta_template': ('model', 'meta_template'),
}
_OPTIONS = {
    'retriever': ('fix_id_list', 'ice_num', 'ice_separator', 'ice_eos_token', 'seed'),
    'inferencer': (
        *('max_out_len', 'min_out_len', 'temperature', 'top_p', 'top_k', 'seed'),
        *('stopping_criteria', 'prefill', 'infer_mode'),
    ),
}
_CHOICES: dict[str, Registry[Any]] = {'retriever': RETRIEVERS, 'meta_template': META_TEMPLATES}
_ROLES = ('HUMAN', 'BOT', 'SYSTEM')
_LINT_ROWS = 5
_NAME = re.compile(r'[\w-]{1,80}\.\w{2,4}')

Edit = tuple[ValuePath, Any]


class _Edited:
    """The entries of a dataset and a model after some edits."""

    def __init__(self, document: ConfigDocument, dataset: str, model: str | None, edits: Sequence[Edit]) -> None:
        self._experiment = document.experiment
        self.task, self.model_entry = document.task(dataset), document.model_entry(model)
        entry = self.model_entry.entry if self.model_entry else {}
        self.entries: dict[str, Any] = {'dataset': _copy(self.task.entry), 'model': _copy(entry)}
        self.replaced: set[str] = set()
        """Parts that were replaced as a whole."""
        self._edits_model = any(path[:1] == ('model',) for path, _ in edits)
        for path, value in edits:
            self._apply(tuple(path), value)

    def build(self) -> Experiment:
        """The entries, understood. A model without edits keeps its tokenizer, and what else it has read."""
        model_entry = self.entries['model'] if self._edits_model else None
        return self._experiment.edit(
            self.task, self.model_entry, dataset_entry=self.entries['dataset'], model_entry=model_entry
        )

    def part(self, name: str) -> Any:
        """The current source of a part; None if there is none."""
        value: Any = self.entries
        for step in _PARTS[name]:
            value = value.get(step) if isinstance(value, Mapping) else None
        return value

    def _apply(self, path: ValuePath, value: Any) -> None:
        part = next((name for name, root in _PARTS.items() if path[: len(root)] == root), None)
        rest = path[len(_PARTS[part]) :] if part else ()
        try:
            if part is None or (path[0] == 'model' and self.model_entry is None):
                raise KeyError
            if isinstance(value, Mapping):
                if rest:
                    raise KeyError
                self._replace(part, parse_source(str(value['source']), self.part(part), where=part))
            elif not isinstance(value, str):
                raise KeyError
            elif not rest or rest == ('type',):
                self._choose(part, value)
            else:
                self._set(part, rest, value)
        except (KeyError, IndexError, TypeError) as error:
            raise ConfigError(Problem(_label(path), 'this cannot be edited.')) from error

    def _replace(self, name: str, value: Any) -> None:
        *outer, last = _PARTS[name]
        place = self.entries
        for step in outer:
            place = place[step]
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
        self.replaced.add(name)

    def _choose(self, name: str, value: str) -> None:
        """Take another retriever, or another meta template, by name."""
        if value and value not in _CHOICES[name]:
            raise ConfigError(Problem(name, f'unknown {_CHOICES[name].kind} {value!r:.60}.'))
        chosen: Any = value or None
        if name == 'retriever' and value:
            before = self.part(name)
            options = (
                {key: option for key, option in before.items() if key != 'type'} if isinstance(before, Mapping) else {}
            )
            unknown = {problem.where for problem in argument_problems(RETRIEVERS[value], options, name=value)}
            chosen = {'type': value, **{key: option for key, option in options.items() if key not in unknown}}
        self._replace(name, chosen)

    def _set(self, name: str, rest: ValuePath, value: str) -> None:
        if name == 'meta_template' and isinstance(self.part(name), str):
            self._replace(name, _copy(find_meta_template(self.part(name))))
        place = self.part(name)
        if place is None and name in _OPTIONS:
            self._replace(name, {'type': 'ZeroRetriever' if name == 'retriever' else 'GenInferencer'})
            place = self.part(name)
        if name in _OPTIONS and len(rest) == 1:
            _set_option(place, name, str(rest[0]), value)
            return
        for step in rest[:-1]:
            place = place[step]
        if not isinstance(place[rest[-1]], str):
            raise KeyError
        place[rest[-1]] = value


def _copy(value: Any) -> Any:
    """A copy that can be changed: of dicts and lists, not of what they hold otherwise."""
    if isinstance(value, Mapping):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list | tuple) else value


def _label(path: Sequence[str | int]) -> str:
    return write_path(path).removeprefix('.')


def _set_option(entry: Any, part: str, name: str, value: str) -> None:
    """Set an option from its Python literal; an empty text removes it."""
    if name not in _OPTIONS[part] and name not in entry:
        raise KeyError(name)
    if value == '':
        entry.pop(name, None)
        return
    try:
        entry[name] = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        what = f'expected a Python value such as 5, 0.7, [0, 1] or True, got {value!r:.60}.'
        raise ConfigError(Problem(f'{part}.{name}', what)) from error


def _fields(edited: _Edited, experiment: Experiment) -> Iterator[dict[str, Any]]:
    """What the form shows: texts, roles, options and names to choose."""
    for name, root in _PARTS.items():
        if name == 'meta_template' and edited.model_entry is None:
            continue
        value = edited.part(name)
        if name in _CHOICES:
            yield _choice(name, value)
        if name in _OPTIONS:
            yield from _option_fields(name, value, experiment)
        else:
            resolved = find_meta_template(value) if name == 'meta_template' else value
            yield from _template_fields(name, root, resolved)


def _choice(name: str, value: Any) -> dict[str, Any]:
    chosen = value.get('type') if isinstance(value, Mapping) else value
    chosen = part_name(chosen) if name == 'retriever' and chosen is not None else chosen
    is_own = isinstance(value, Mapping) and name == 'meta_template'
    return {
        'path': [*_PARTS[name], *(['type'] if name == 'retriever' else [])],
        'label': 'type' if name == 'retriever' else 'name',
        'group': name,
        'kind': 'choice',
        'value': '' if is_own or not isinstance(chosen, str) else chosen,
        'choices': list(_CHOICES[name]),
        'own': is_own,
    }


def _template_fields(name: str, root: ValuePath, value: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(value, Mapping):
        return
    for path, role, text in texts_of(value):
        speech: Any = value
        for step in path[:-1]:
            speech = speech[step]
        has_role = path[-1] == 'prompt' and isinstance(speech, Mapping) and isinstance(speech.get('role'), str)
        yield {
            'path': [*root, *path],
            'label': _label(path).removeprefix('template.') or name,
            'role': role,
            'group': name,
            'kind': 'text',
            'value': text,
            'rolePath': [*root, *path[:-1], 'role'] if has_role else None,
        }


def _option_fields(name: str, value: Any, experiment: Experiment) -> Iterator[dict[str, Any]]:
    options = value if isinstance(value, Mapping) else {}
    effective: Mapping[str, Any] = {}
    if name == 'inferencer':
        [task, *_], models = experiment.tasks, experiment.models
        effective = sampling_of(task.inferencer.options, models[0].entry if models else {}).as_dict()
        effective = {**effective, 'stopping_criteria': effective.get('stop')}
    others = [key for key in options if key not in ('type', *_OPTIONS[name]) and format_source(options[key])]
    for option in (*_OPTIONS[name], *others):
        yield {
            'path': [*_PARTS[name], option],
            'label': option,
            'group': name,
            'kind': 'option',
            'value': '' if options.get(option) is None else repr(options[option]),
            'effective': '' if effective.get(option) is None else repr(effective[option]),
        }


def _roles(experiment: Experiment) -> list[str]:
    """The roles that the model knows, for completion."""
    meta = experiment.models[0].meta if experiment.models else None
    return list(dict.fromkeys([*(meta.roles if meta else ()), *_ROLES]))


def edited_prompts(
    document: ConfigDocument,
    dataset: str,
    model: str | None,
    row: int,
    edits: Sequence[Edit],
    *,
    compare: int | None = None,
) -> dict[str, Any]:
    """The requests of one row after the edits, their size and price, what the linter finds, and the form.

    With `compare`, that request beside the one without edits.
    """
    edited = _Edited(document, dataset, model, edits)
    experiment = edited.build()
    pair, previews = _pair_of(experiment, row)
    model_entry = pair.model_entry
    counts = [
        model_entry.count(preview.request) if model_entry is not None and preview.request is not None else None
        for preview in previews
    ]
    findings = lint_config(experiment, limit=_LINT_ROWS)
    return {
        'prompts': [preview_as_json(pair, preview, document.config) for preview in previews],
        'tokens': counts,
        'costs': [_cost(pair, count) for count in counts],
        'findings': [asdict(finding) for finding in findings if finding.severity != 'info'],
        'fields': list(_fields(edited, experiment)),
        'sources': {name: format_source(edited.part(name)) or '' for name in _PARTS},
        'columns': document.columns(dataset),
        'roles': _roles(experiment),
        'changes': None if compare is None else _changes(document, dataset, model, row, compare, previews),
    }


def _changes(
    document: ConfigDocument, dataset: str, model: str | None, row: int, number: int, edited: Sequence[Preview]
) -> dict[str, Any] | None:
    """A request before the edits, beside the same one after them."""
    before = document.previews(dataset, model, row)
    if not 0 <= number < min(len(before), len(edited)):
        return None
    return diff_as_json(before[number], edited[number])


def edited_pair(
    document: ConfigDocument, dataset: str, model: str | None, row: int, edits: Sequence[Edit]
) -> tuple[Pair, list[Preview]]:
    """A dataset and a model after the edits, and the requests of one row."""
    return _pair_of(_Edited(document, dataset, model, edits).build(), row)


def _pair_of(experiment: Experiment, row: int) -> tuple[Pair, list[Preview]]:
    pair = experiment.pair(experiment.tasks[0], experiment.models[0] if experiment.models else None)
    return pair, PairRows(pair, row + 1).previews(row)


def _cost(pair: Pair, tokens: int | None) -> dict[str, float] | None:
    """US dollars for a request's input, and at most for its answer too."""
    entry = pair.model_entry.entry if pair.model_entry is not None else {}
    price = find_price(entry)
    if price is None or tokens is None:
        return None
    longest = 0 if pair.weighs else sampling_of(pair.task.inferencer.options, entry).max_out_len or 0
    return {'input': price.cost(tokens, 0), 'most': price.cost(tokens, longest)}


def edited_source(document: ConfigDocument, dataset: str, model: str | None, edits: Sequence[Edit]) -> str:
    """A config file that loads the original and makes the edits. YAML and JSON are written whole, as what they are."""
    edited = _Edited(document, dataset, model, edits)
    edited.build()
    if document.path.suffix != '.py':
        return _edited_data(document, edited, {str(path[0]) for path, _ in edits})
    places = {'dataset': edited.task.where, 'model': edited.model_entry.where if edited.model_entry else ''}
    touched = dict.fromkeys(places[str(path[0])] for path, _ in edits)
    wheres = [model.where for model in document.experiment.models] + [task.where for task in document.experiment.tasks]
    copies = [f'{place} = {_copy_call(document, place)}' for place in touched]
    names_model = any('resolve_model(' in line for line in copies)
    return '\n'.join(
        [
            f'"""{document.path.name}, with {count_noun(len(edits), "edit")}."""',
            '',
            'from copy import deepcopy',
            'from pathlib import Path',
            '',
            *(['from rolecall import resolve_model'] if names_model else []),
            'from rolecall import load_config',
            '',
            f'_base = load_config(Path(__file__).parent / {document.path.name!r})',
            *(f'{name} = _base[{name!r}]' for name in dict.fromkeys(where.partition('[')[0] for where in wheres)),
            *copies,
            '',
            *_assignments(edited, places, edits),
            '',
        ]
    )


def _edited_data(document: ConfigDocument, edited: _Edited, kinds: Collection[str]) -> str:
    """The whole config with the edited entries in their places."""
    config = dict(document.config)
    wheres = {'dataset': edited.task.where, 'model': edited.model_entry.where if edited.model_entry else ''}
    for kind in kinds:
        key, _, number = wheres[kind].removesuffix(']').partition('[')
        config[key] = [edited.entries[kind] if at == int(number) else entry for at, entry in enumerate(config[key])]
    experiment = document.experiment
    places = {*(task.where for task in experiment.tasks), *(model.where for model in experiment.models)}
    return format_saved(config, document.path, places=places)


def _assignments(edited: _Edited, places: Mapping[str, str], edits: Sequence[Edit]) -> Iterator[str]:
    """One line for each edited value; a part that was replaced is written as a whole."""
    for name in _PARTS:
        if name in edited.replaced:
            root, *steps = _PARTS[name]
            source = format_source(edited.part(name))
            if source is None:
                raise ConfigError(Problem(name, 'it holds objects that cannot be written down.'))
            yield f'{places[root]}{"".join(f"[{step!r}]" for step in steps)} = {source}'
    for path, value in edits:
        name = next(name for name, root in _PARTS.items() if path[: len(root)] == root)
        if name in edited.replaced:
            continue
        target = places[str(path[0])] + ''.join(f'[{step!r}]' for step in path[1:])
        is_option = name in _OPTIONS
        yield f'{target} = {value if is_option and value != "" else repr(value or None) if is_option else repr(value)}'


def _copy_call(document: ConfigDocument, place: str) -> str:
    """How a saved config makes an entry its own. A model given by name becomes its entry."""
    key, _, number = place.removesuffix(']').partition('[')
    is_name = key == 'models' and isinstance(document.config[key][int(number)], str)
    return f'resolve_model({place})' if is_name else f'deepcopy({place})'


def save_edited(document: ConfigDocument, source: str, name: str) -> Path:
    """Write the edited config beside the original, under a new name. A file that exists is never replaced."""
    suffix = document.path.suffix
    if not _NAME.fullmatch(name) or not name.endswith(suffix):
        raise ConfigError(Problem('name', f'expected a file name such as edited{suffix}, got {name!r:.60}.'))
    file = document.path.parent / name
    try:
        with open(file, 'x', encoding='utf-8') as stream:
            stream.write(source)
    except FileExistsError as error:
        raise ConfigError(Problem(str(file), 'this file exists; choose another name.')) from error
    except OSError as error:
        raise RolecallError(f'{file}: cannot be written: {error.strerror or error}.') from error
    return file
