"""Axes of a sweep: what is varied about how a dataset is asked or read, each variant a changed entry of the dataset."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any

from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.experiment.opening.overrides import Overrides
from rolecall.experiment.opening.set_values import parse_value
from rolecall.experiment.opening.templates import unescape

Entry = Mapping[str, Any]
BASE = 'as written'
_FIELD = re.compile(r'(\{\w+\}|</[EX]>)')
_LABEL = re.compile(r'[^\W\d_][\w ]{0,30}(?=:)')
_OPTION = re.compile(r'\(?\b(?:Option )?([A-Z])[.):]\s*\{\1\}')
_SHORT = 30


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """One level of an axis: a dataset's entry, changed. The first level of all axes is the entry as it is written."""

    axis: str
    label: str
    entry: Entry

    @property
    def name(self) -> str:
        return BASE if not self.axis else f'{self.axis}={self.label}'


Change = Callable[[Entry], Entry]


def find_variants(entry: Entry, axes: Sequence[str]) -> list[Variant]:
    """The dataset as it is written, and each variant of each axis that changes it.

    >>> entry = {'infer_cfg': {'prompt_template': {'template': 'Question: {q} A. {A} B. {B}'}}}
    >>> [variant.name for variant in find_variants(entry, ['casing', 'order'])]
    ['as written', 'casing=upper', 'casing=lower', 'order=reversed']
    """
    variants = [Variant('', BASE, entry)]
    for text in axes:
        axis, _, values = text.partition('=')
        for label, change in _list_changes(axis, values):
            changed = change(entry)
            if all(changed != variant.entry for variant in variants):
                variants.append(_name_apart(Variant(axis.rpartition('.')[2], label, changed), variants))
    return variants


def _name_apart(variant: Variant, others: Sequence[Variant]) -> Variant:
    """The variant with a number after its label where shortening made it another's."""
    names, label = {other.name for other in others}, variant.label
    numbered = (replace(variant, label=f'{label} ({number})') for number in count(2))
    return next(each for each in chain([variant], numbered) if each.name not in names)


def _list_changes(axis: str, values: str) -> Iterator[tuple[str, Change]]:
    """The variants of an axis, by their labels."""
    given = [value for value in values.split('|' if '|' in values or axis in ('system', 'template') else ',') if value]
    if axis in _TEXTS:
        if given:
            raise ConfigError(Problem(f'--axis {axis}', 'its variants are fixed.', f'Write --axis {axis}.'))
        for label, edit in _TEXTS[axis].items():
            yield label, _Worded(edit)
    elif axis in _OPTIONS:
        for value in given or _OPTIONS[axis]:
            yield _shorten(value), _Overridden(axis, value)
    elif axis == 'template':
        for value in given:
            yield _shorten(value), _Reworded(unescape(value))
    elif axis == 'reader':
        for value in given:
            yield value, _with_reader(value)
    elif '.' in axis:
        for value in given:
            yield _shorten(value), _Set(axis, parse_value(value))
    else:
        known = (*_TEXTS, *_OPTIONS, 'template', 'reader')
        what = f'there is no axis {axis!r}.'
        remedy = did_you_mean(axis, known) or f'There are: {", ".join(known)}, and PATH=VALUE,VALUE as for --set.'
        raise ConfigError(Problem('--axis', what, remedy))
    if axis in ('template', 'reader') and not given:
        raise ConfigError(Problem(f'--axis {axis}', 'its variants are missing.', f'Write --axis {axis}=ONE|OTHER.'))


@dataclass(frozen=True, slots=True)
class _Worded:
    """Changes the words of every template of a dataset, those of its examples included; fields stay as they are."""

    edit: Callable[[str], str]

    def __call__(self, entry: Entry) -> Entry:
        infer = entry.get('infer_cfg') or {}
        templates = {key: self._walk(value) for key, value in infer.items() if key.endswith('_template')}
        return {**entry, 'infer_cfg': {**infer, **templates}}

    def _walk(self, value: Any, *, is_text: bool = False) -> Any:
        if isinstance(value, str):
            return self.edit(value) if is_text else value
        if isinstance(value, Mapping):
            labels = all(isinstance(inner, str) for inner in value.values()) and 'type' not in value and is_text
            return {
                key: self._walk(inner, is_text=labels or key in ('template', 'prompt')) for key, inner in value.items()
            }
        return [self._walk(inner) for inner in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class _Reworded:
    """Gives a dataset another template: the question of a dialogue, or the whole text."""

    words: str

    def __call__(self, entry: Entry) -> Entry:
        infer = entry.get('infer_cfg') or {}
        declared = infer.get('prompt_template') or {}
        template = declared.get('template') if isinstance(declared, Mapping) else declared
        if isinstance(template, Mapping) and isinstance(template.get('round'), list | tuple):
            turns = [
                {**turn, 'prompt': self.words} if turn.get('role') == 'HUMAN' else turn for turn in template['round']
            ]
            changed: Any = {**template, 'round': turns}
        elif isinstance(template, str):
            changed = self.words
        else:
            what = 'only a text or a dialogue can be given another wording.'
            raise ConfigError(Problem(f'--axis template, {entry.get("abbr")}', what))
        return {**entry, 'infer_cfg': {**infer, 'prompt_template': {**declared, 'template': changed}}}


@dataclass(frozen=True, slots=True)
class _Overridden:
    """Changes examples, the system message or the length of answers, as the options of a run do."""

    axis: str
    value: str

    def __call__(self, entry: Entry) -> Entry:
        number = int(self.value) if self.value.isdecimal() else None
        if self.axis != 'system' and number is None:
            raise ConfigError(Problem(f'--axis {self.axis}', f'expected whole numbers, got {self.value!r}.'))
        changes: dict[str, Any] = {'shots': {'shots': number}, 'length': {'max_out_len': number}}.get(self.axis, {})
        if self.axis == 'draw':
            changes = {'retriever': 'random', 'seed': number}
        elif self.axis == 'system':
            changes = {'system': self.value}
        [changed] = Overrides(**changes).apply({'datasets': [entry]})['datasets']
        return changed  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class _Set:
    """Changes any value of the dataset by its place."""

    path: str
    value: Any

    def __call__(self, entry: Entry) -> Entry:
        [changed] = Overrides(settings=((self.path, self.value),)).apply({'datasets': [entry]})['datasets']
        return changed  # type: ignore[no-any-return]


def _with_reader(name: str) -> Change:
    return lambda entry: {**entry, 'eval_cfg': {**(entry.get('eval_cfg') or {}), 'pred_postprocessor': {'type': name}}}


def _outside_fields(edit: Callable[[str], str]) -> Callable[[str], str]:
    """An edit of the words between fields."""
    return lambda text: ''.join(part if _FIELD.fullmatch(part) else edit(part) for part in _FIELD.split(text))


def _relabel(form: str) -> Callable[[str], str]:
    return lambda text: _OPTION.sub(lambda match: form.format(match[1]) + f' {{{match[1]}}}', text)


def _reverse_options(text: str) -> str:
    """The options in reverse order, each with its letter."""
    options = list(_OPTION.finditer(text))
    for place, other in zip(reversed(options), options, strict=True):
        text = text[: place.start()] + other[0] + text[place.end() :]
    return text


def _shorten(text: str) -> str:
    words = ' '.join(text.split())
    return words if len(words) <= _SHORT else f'{words[: _SHORT - 1]}…'


_TEXTS: Mapping[str, Mapping[str, Callable[[str], str]]] = {
    'separator': {
        'dash': _outside_fields(lambda text: re.sub(r':(?=\s|$)', ' -', text)),
        'line': _outside_fields(lambda text: re.sub(r':[ \t]*$', ':\n', text)),
        'none': _outside_fields(lambda text: re.sub(r':(?=\s|$)', '', text)),
    },
    'casing': {
        'upper': _outside_fields(lambda text: _LABEL.sub(lambda match: match[0].upper(), text)),
        'lower': _outside_fields(lambda text: _LABEL.sub(lambda match: match[0].lower(), text)),
    },
    'spacing': {
        'wide': _outside_fields(lambda text: re.sub(r'\n+', '\n\n', text)),
        'narrow': _outside_fields(lambda text: re.sub(r'\n+', ' ', text)),
    },
    'labels': {'(A)': _relabel('({})'), 'A)': _relabel('{})'), 'A:': _relabel('{}:'), 'A.': _relabel('{}.')},
    'order': {'reversed': _reverse_options},
}
"""Axes that change words: separators, casing and spacing as FormatSpread has them, option labels and order."""
_OPTIONS: Mapping[str, Sequence[str]] = {
    'shots': ('0', '1', '3', '5'),
    'draw': ('1', '2', '3'),
    'system': ('You are a helpful assistant.',),
    'length': ('16', '64', '256'),
}
"""Axes that are options of a run, with usual values."""
