"""The typed edits that lead from one dataset × model to another: each replaces the settings of one cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rolecall.core.render.families import find_meta_template
from rolecall.runs.parts import CAUSES, Path, as_data, split_causes

Entries = tuple[Mapping[str, Any], Mapping[str, Any]]
"""The entry of a dataset, and that of a model."""
SCORING = ('reader', 'metric', 'aggregation', 'denominator')
"""Causes that stored replies are enough for."""
_FIELD = re.compile(r'\{\w+\}')
_BOS = re.compile(r'^(?:<s>|<bos>|<\|startoftext\|>|<\|begin_of_(?:text|sentence)\|>|\[BOS\])')
_SECTIONS = ('begin', 'round', 'end')
_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class Edit:
    """The settings of one cause that differ, by their paths."""

    cause: str
    paths: tuple[Path, ...]

    @property
    def is_sent(self) -> bool:
        """Whether a model has to be asked to see what it does."""
        return self.cause not in (*SCORING, 'rows')


def find_edits(left: Entries, right: Entries) -> list[Edit]:
    """What differs between two dataset × model, cause by cause.

    >>> dataset = {'infer_cfg': {'prompt_template': {'template': 'A. {A}\\\\nB. {B}'}}}
    >>> other = {'infer_cfg': {'prompt_template': {'template': 'A. {B}\\\\nB. {A}'}}}
    >>> [edit.cause for edit in find_edits((dataset, {'max_out_len': 8}), (other, {'max_out_len': 9}))]
    ['option order', 'length']
    """
    sides = [split_settings(entries) for entries in _open_families(left, right)]
    edits = []
    for cause in CAUSES:
        ours, theirs = (side.get(cause, {}) for side in sides)
        paths = sorted(
            path for path in {**ours, **theirs} if _differ(ours.get(path, _MISSING), theirs.get(path, _MISSING))
        )
        if paths:
            edits.append(_name_exactly(Edit(cause, tuple(paths)), ours, theirs))
    return edits


def _differ(left: Any, right: Any) -> bool:
    return left is not right and (left is _MISSING or right is _MISSING or as_data(left) != as_data(right))


def split_settings(entries: Entries) -> dict[str, dict[Path, Any]]:
    """The settings by cause; dialogues and meta templates by section, so that a system text is a setting of its own."""
    causes: dict[str, dict[Path, Any]] = {}
    for cause, settings in split_causes(*entries).items():
        for path, value in settings.items():
            inner = value.get('template') if isinstance(value, Mapping) and path[-1] == 'prompt_template' else value
            if not isinstance(inner, Mapping) or not {*inner} & {*_SECTIONS} or cause not in ('wording', 'format'):
                causes.setdefault(cause, {})[path] = value
                continue
            place = (*path, 'template') if inner is not value else path
            for section, content in inner.items():
                own = 'system text' if cause == 'wording' and section == 'begin' else cause
                causes.setdefault(own, {}).update({(*place, section): content})
            if inner is not value:
                causes[cause] |= {(*path, key): rest for key, rest in value.items() if key != 'template'}
    return causes


def _open_families(left: Entries, right: Entries) -> list[Entries]:
    """Both sides with meta templates spelt out."""
    return [
        (dataset, {**model, 'meta_template': find_meta_template(model['meta_template'])})
        if isinstance(model.get('meta_template'), str)
        else (dataset, model)
        for dataset, model in (left, right)
    ]


def _name_exactly(edit: Edit, left: Mapping[Path, Any], right: Mapping[Path, Any]) -> Edit:
    """The edit under the name of the one thing that it changes: the order of options, a BOS token."""
    pairs = [(str(left.get(path, '')), str(right.get(path, ''))) for path in edit.paths]
    if edit.cause == 'wording' and all(
        _FIELD.sub('', before) == _FIELD.sub('', after)
        and sorted(_FIELD.findall(before)) == sorted(_FIELD.findall(after))
        for before, after in pairs
    ):
        return replace(edit, cause='option order')
    if edit.cause == 'format' and all(
        path[-1] == 'begin' and _BOS.sub('', before) == _BOS.sub('', after)
        for path, (before, after) in zip(edit.paths, pairs, strict=True)
    ):
        return replace(edit, cause='BOS')
    return edit


def apply_edits(left: Entries, right: Entries, edits: Iterable[Edit]) -> Entries:
    """The left side with the settings of these edits as the right one has them."""
    sides = _open_families(left, right)
    settings = [{path: value for own in split_settings(side).values() for path, value in own.items()} for side in sides]
    dataset, model = sides[0]
    for edit in edits:
        for path in edit.paths:
            value = settings[1].get(path, _MISSING)
            if path[0] == 'dataset':
                dataset = _put(dataset, path[1:], value)
            else:
                model = _put(model, path[1:], value)
    return dataset, model


def _put(entry: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """An entry with a value at a path, or without it."""
    key, *rest = path
    others = {name: inner for name, inner in entry.items() if name != key}
    if not rest:
        return others if value is _MISSING else {**entry, key: value}
    inner = entry.get(key)
    return {**entry, key: _put(inner if isinstance(inner, Mapping) else {}, rest, value)}
