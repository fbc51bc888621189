"""Axes of a sweep: what is varied about how a dataset is asked or read, and how a model is addressed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, product
from typing import Any

from rolecall.core.render.meta import find_meta_template
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.experiment.opening.model_entries import model_abbr
from rolecall.experiment.opening.overrides import apply_overrides, parse_value
from rolecall.experiment.opening.source_options import Overrides
from rolecall.experiment.opening.tasks import dataset_abbr
from rolecall.experiment.opening.templates import unescape

Entry = Mapping[str, Any]
BASE = 'as written'
_FIELD = re.compile(r'(\{\w+\}|</[EX]>)')
_LABEL = re.compile(r'[^\W\d_][\w ]{0,30}(?=:)')
_OPTION = re.compile(r'\(?\b(?:Option )?([A-Z])[.):]\s*\{\1\}')
_SHORT = 30
_OF_EXAMPLES = ('draw', 'retriever')
"""Axes that say nothing where there are no examples."""


@dataclass(frozen=True, slots=True)
class Entries:
    """A dataset with the models that are asked, as a config has them."""

    dataset: Entry
    models: tuple[Entry, ...] = ()


Change = Callable[[Entries], Entries]


@dataclass(frozen=True, slots=True)
class AxisLevel:
    """One way that an axis can be."""

    axis: str
    label: str
    change: Change
    of_models: bool = False
    """Whether it changes how models are set up, not the dataset."""

    @property
    def name(self) -> str:
        return f'{self.axis}={self.label}'


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A dataset and its models with some levels; without any, they are as they are written."""

    entries: Entries
    levels: tuple[AxisLevel, ...] = ()
    folder: str = ''
    """Where its answers are kept, if not among the others': what is asked for noise must be asked again."""

    @property
    def name(self) -> str:
        return ', '.join(level.name for level in self.levels) or BASE

    @property
    def axis(self) -> str:
        return ' × '.join(level.axis for level in self.levels)

    def label(self, axis: str) -> str:
        """Its level on an axis; empty where that is as it is written."""
        return next((level.label for level in self.levels if level.axis == axis), '')

    def abbr(self, abbr: str, *, of_model: bool = False) -> str:
        """What its dataset, or one of its models, is called in a run."""
        names = ', '.join(level.name for level in self.levels if level.of_models == of_model and not self.folder)
        return f'{abbr} [{names}]' if names else abbr

    @property
    def renamed(self) -> Entries:
        """Its entries under the names that they have in a run."""
        models = [{**model, 'abbr': self.abbr(model_abbr(model), of_model=True)} for model in self.entries.models]
        dataset = self.entries.dataset
        return Entries({**dataset, 'abbr': self.abbr(dataset_abbr(dataset))}, tuple(models))


def find_variants(
    entries: Entries, axes: Sequence[str], *, noise: Sequence[str] = (), repeats: int = 0, full: bool = False
) -> list[Variant]:
    """What is written, then each level of each axis that changes it (`full`: every mix of levels), then the noise: the
    same asked again, and levels of axes that should not matter.

    >>> dataset = {'infer_cfg': {'prompt_template': {'template': 'Question: {q} A. {A} B. {B}'}}}
    >>> [variant.name for variant in find_variants(Entries(dataset), ['casing', 'order'])]
    ['as written', 'casing=upper', 'casing=lower', 'order=reversed']
    >>> [variant.name for variant in find_variants(Entries(dataset), ['casing', 'order'], full=True)][-1]
    'casing=lower, order=reversed'
    """
    variants = [Variant(entries)]
    shown = full and any(text.partition('=')[0] == 'shots' for text in axes)
    for text in axes:
        variants += _vary(variants, text, with_examples=shown and text.partition('=')[0] in _OF_EXAMPLES)
    if full:
        single = [variant.levels for variant in variants[1:]]
        choices = [
            [(), *(levels for levels in single if levels[0].axis == axis)]
            for axis in dict.fromkeys(levels[0].axis for levels in single)
        ]
        variants = [_combine(entries, tuple(chain(*levels))) for levels in product(*choices)]
    again = [Variant(entries, folder=f'again-{number}') for number in range(1, repeats + 1)]
    others = [variant for text in noise for variant in _vary([Variant(entries)], text)]
    return variants + again + [replace(variant, folder=f'noise-{at}') for at, variant in enumerate(others, 1)]


def _vary(variants: Sequence[Variant], text: str, *, with_examples: bool = False) -> Iterator[Variant]:
    """The levels of an axis that change something, each alone; `with_examples` that another axis brings."""
    known, entries = list(variants), variants[0].entries
    if with_examples:
        entries = _override(entries, shots=1)
        known.append(Variant(entries))
    axis, _, values = text.partition('=')
    for label, change in _list_changes(axis, values):
        changed = change(entries)
        if all(changed != variant.entries for variant in known):
            level = AxisLevel(axis.rpartition('.')[2], label, change, changed.dataset == entries.dataset)
            known.append(Variant(changed, (_name_apart(level, known),)))
            yield known[-1]


def _name_apart(level: AxisLevel, others: Sequence[Variant]) -> AxisLevel:
    """The level with a number after its label where shortening made it another's."""
    names = {other.name for other in others}
    numbered = (replace(level, label=f'{level.label} ({number})') for number in count(2))
    return next(each for each in chain([level], numbered) if each.name not in names)


def _combine(entries: Entries, levels: tuple[AxisLevel, ...]) -> Variant:
    """A mix of levels. Other draws of no examples change nothing: then it is asked as the mix without them is."""
    for level in sorted(levels, key=lambda level: level.axis in _OF_EXAMPLES):
        try:
            entries = level.change(entries)
        except ConfigError:
            if level.axis not in _OF_EXAMPLES:
                raise
    return Variant(entries, levels)


def _list_changes(axis: str, values: str) -> Iterator[tuple[str, Change]]:
    """The levels of an axis, by their labels."""
    given = [value for value in values.split('|' if '|' in values or axis in ('system', 'template') else ',') if value]
    if axis in _TEXTS:
        if given:
            raise ConfigError(Problem(f'--axis {axis}', 'its variants are fixed.', f'Write --axis {axis}.'))
        for label, edit in _TEXTS[axis].items():
            yield label, partial(_reword, edit)
        return
    if axis not in _VALUES and '.' not in axis:
        known = (*_TEXTS, *_VALUES)
        what = f'there is no axis {axis!r}.'
        remedy = did_you_mean(axis, known) or f'There are: {", ".join(known)}, and PATH=VALUE,VALUE as for --set.'
        raise ConfigError(Problem('--axis', what, remedy))
    usual, change = _VALUES.get(axis, ((), partial(_set, axis)))
    if not given and not usual:
        raise ConfigError(Problem(f'--axis {axis}', 'its variants are missing.', f'Write --axis {axis}=ONE|OTHER.'))
    for value in given or usual:
        yield _shorten(value), partial(change, value)


def _number(axis: str, value: str) -> int:
    if not value.isdecimal():
        raise ConfigError(
            Problem(f'--axis {axis}', f'expected whole numbers, got {value!r}.', f'Write --axis {axis}=1,2.')
        )
    return int(value)


def _override(entries: Entries, **changes: Any) -> Entries:
    """Changes that the options of a run can make, too."""
    config = apply_overrides({'datasets': [entries.dataset], 'models': list(entries.models)}, Overrides(**changes))
    return Entries(config['datasets'][0], tuple(config['models']))


def _show(value: str, entries: Entries) -> Entries:
    """So many examples; a dataset without any stays as it is with 0."""
    retriever = (entries.dataset.get('infer_cfg') or {}).get('retriever')
    count = _number('shots', value)
    return entries if count == 0 and not retriever else _override(entries, shots=count)


def _set(path: str, value: str, entries: Entries) -> Entries:
    """Any value of the dataset or of the models, by its place."""
    return _override(entries, settings=((path, parse_value(value)),))


def _address(form: str, entries: Entries) -> Entries:
    """Models addressed by their own chat template, by a meta template of ours, or with bare text."""
    stated: Entry = {'meta_template': form, 'chat_template': False}
    if form in ('chat', 'plain'):
        stated = {'chat_template': form == 'chat'}
    else:
        try:
            find_meta_template(form)
        except ConfigError as error:
            raise ConfigError(problem.inside('--axis format') for problem in error.problems) from error
    rest = [
        {key: value for key, value in model.items() if key not in ('meta_template', 'chat_template')}
        for model in entries.models
    ]
    return replace(entries, models=tuple({**model, **stated} for model in rest))


def _ask_by(way: str, entries: Entries) -> Entries:
    """Labels weighed by their perplexity (`ppl`), or an answer generated and read (`gen`)."""
    infer = entries.dataset.get('infer_cfg') or {}
    inferencer = infer.get('inferencer') or {}
    declared = infer.get('prompt_template') or {}
    template = declared.get('template') if isinstance(declared, Mapping) else declared
    labels = list(inferencer.get('labels') or _OPTION.findall(str(template)))
    if way not in ('gen', 'ppl'):
        raise ConfigError(
            Problem('--axis asking', f'expected gen or ppl, got {way!r}.', 'Write --axis asking=gen,ppl.')
        )
    if not isinstance(template, str):
        what = (
            f'{dataset_abbr(entries.dataset)}: its template is not one text, so generation and perplexity stay apart.'
        )
        raise ConfigError(Problem('--axis asking', what, "Give one text: --template 'Question: {q} A. {A} B. {B}'."))
    if not labels:
        what = f'{dataset_abbr(entries.dataset)}: its template names no options, so there are no labels to weigh.'
        remedy = "Name them as 'A. {A} B. {B}', or list the labels of its PPLInferencer."
        raise ConfigError(Problem('--axis asking', what, remedy))
    if way == 'ppl':
        asked: Entry = {'type': 'PPLInferencer', 'labels': labels}
        return replace(entries, dataset={**entries.dataset, 'infer_cfg': {**infer, 'inferencer': asked}})
    asked = {'type': 'GenInferencer', 'max_out_len': _SHORT}
    scoring = {'pred_postprocessor': {'type': 'first_capital_postprocess'}, **(entries.dataset.get('eval_cfg') or {})}
    dataset = {**entries.dataset, 'infer_cfg': {**infer, 'inferencer': asked}, 'eval_cfg': scoring}
    return replace(entries, dataset=dataset if inferencer.get('type') != 'GenInferencer' else entries.dataset)


def _reword(edit: Callable[[str], str], entries: Entries) -> Entries:
    """Other words in every template of a dataset, those of its examples included; fields stay as they are."""
    infer = entries.dataset.get('infer_cfg') or {}
    templates = {key: _walk(edit, value) for key, value in infer.items() if key.endswith('_template')}
    return replace(entries, dataset={**entries.dataset, 'infer_cfg': {**infer, **templates}})


def _walk(edit: Callable[[str], str], value: Any, *, is_text: bool = False) -> Any:
    if isinstance(value, str):
        return edit(value) if is_text else value
    if isinstance(value, Mapping):
        labels = all(isinstance(inner, str) for inner in value.values()) and 'type' not in value and is_text
        return {
            key: _walk(edit, inner, is_text=labels or key in ('template', 'prompt')) for key, inner in value.items()
        }
    return [_walk(edit, inner) for inner in value] if isinstance(value, list | tuple) else value


def _put_template(words: str, entry: Entry) -> Entry:
    """Another template: the question of a dialogue, or the whole text."""
    infer = entry.get('infer_cfg') or {}
    declared = infer.get('prompt_template') or {}
    template = declared.get('template') if isinstance(declared, Mapping) else declared
    if isinstance(template, Mapping) and isinstance(template.get('round'), list | tuple):
        turns = [{**turn, 'prompt': words} if turn.get('role') == 'HUMAN' else turn for turn in template['round']]
        changed: Any = {**template, 'round': turns}
    elif isinstance(template, str):
        changed = words
    else:
        what = 'only a text or a dialogue can be given another wording.'
        raise ConfigError(Problem(f'--axis template, {entry.get("abbr")}', what))
    rest = declared if isinstance(declared, Mapping) else {'type': 'PromptTemplate'}
    return {**entry, 'infer_cfg': {**infer, 'prompt_template': {**rest, 'template': changed}}}


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
_VALUES: Mapping[str, tuple[Sequence[str], Callable[[str, Entries], Entries]]] = {
    'shots': (('0', '1', '3', '5'), _show),
    'draw': (
        ('1', '2', '3'),
        lambda value, entries: _override(entries, retriever='random', seed=_number('draw', value)),
    ),
    'length': (('16', '64', '256'), lambda value, entries: _override(entries, max_out_len=_number('length', value))),
    'system': (('You are a helpful assistant.',), lambda value, entries: _override(entries, system=value)),
    'template': ((), lambda value, entries: replace(entries, dataset=_put_template(unescape(value), entries.dataset))),
    'reader': ((), partial(_set, 'datasets.*.eval_cfg.pred_postprocessor')),
    'retriever': ((), lambda value, entries: _override(entries, retriever=value)),
    'format': ((), _address),
    'asking': (('gen', 'ppl'), _ask_by),
}
"""Axes with values: the usual ones, and the change that a value makes."""
