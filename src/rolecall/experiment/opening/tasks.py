"""A dataset's entry in a config, understood: its wording, its retriever, and how it is asked."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from rolecall.checking import Problems
from rolecall.config_keys import keys_of
from rolecall.core.prompts.shots import Joints
from rolecall.core.prompts.template import Template, WordingsTemplate, build_template
from rolecall.core.prompts.values import describe_value
from rolecall.core.prompts.wording import Mode, Wording
from rolecall.errors import ConfigError, did_you_mean
from rolecall.experiment.opening.inferencer_entries import INFERENCER_OPTIONS, InferencerEntry
from rolecall.registry import part_name
from rolecall.sources.datasets import Reader
from rolecall.sources.retrievers import Retriever, ZeroRetriever, build_retriever

_INFER_KEYS = keys_of('infer')
MISPLACED_OPTIONS = tuple(option for option in INFERENCER_OPTIONS if option != 'type')
"""Options of an inferencer. Published configs have some of them beside it, where they have no effect: a warning."""
T = TypeVar('T')


@contextmanager
def locate_problems(where: str) -> Iterator[None]:
    """Put a place in front of the problems that come up inside."""
    try:
        yield
    except ConfigError as error:
        raise type(error)(problem.inside(where) for problem in error.problems) from None


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """One dataset of a config, ready to be compiled for a model."""

    abbr: str
    entry: Mapping[str, Any]
    where: str
    reader: Reader
    wording: Wording
    retriever: Retriever
    inferencer: InferencerEntry

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The labels that are weighed against each other."""
        return self.inferencer.labels or self.wording.prompt.labels

    def wording_of(self, label: Hashable) -> Wording:
        """The wording of a label's prompt: where a row is asked in several wordings, examples are in the same one."""
        ice = self.wording.ice_template
        if self.inferencer.kind != 'wordings' or ice is None or not isinstance(label, int):
            return self.wording
        options = self.inferencer.options
        worded = WordingsTemplate(ice, options['adv_key'], options['original_prompt_list'], label)
        return replace(self.wording, ice_template=worded)

    @property
    def picks_shots(self) -> bool:
        """Whether examples are shown."""
        fixed: Any = getattr(self.retriever, 'fix_id_list', None)
        return bool(fixed) if fixed is not None else self.retriever.ice_num > 0

    @property
    def mode(self) -> Mode:
        """`ppl` where complete prompts are scored, `gen` where an answer follows."""
        return 'ppl' if self.inferencer.kind in ('label', 'whole') else 'gen'

    @property
    def prompt_labels(self) -> tuple[Hashable, ...]:
        """The labels that have a prompt each: those weighed against each other, or the one of a whole text."""
        if self.inferencer.kind == 'label':
            return self.labels
        if self.inferencer.kind == 'wordings':
            return self.wording.prompt.labels
        labels = self.wording.prompt.labels
        return labels if self.inferencer.kind == 'whole' and len(labels) == 1 else (None,)


def build_task(entry: Mapping[str, Any], where: str, problems: Problems) -> TaskEntry | None:
    """Understand one dataset entry; None if it has problems (which are taken down)."""
    before = len(problems.items)
    problems.misspelt_keys(where, entry, ('reader_cfg', 'infer_cfg', 'eval_cfg'))
    reader = Reader()
    if 'reader_cfg' in entry:
        with problems.inside(f'{where}.reader_cfg'):
            reader = Reader.from_config(problems.mapping(f'{where}.reader_cfg', entry['reader_cfg']))
    if 'infer_cfg' not in entry:
        problems.add(where, 'infer_cfg is missing.', 'It defines the prompt template, retriever and inferencer.')
        return None
    infer = problems.mapping(f'{where}.infer_cfg', entry['infer_cfg'])
    problems.unknown_keys(f'{where}.infer_cfg', infer, (*_INFER_KEYS, *MISPLACED_OPTIONS))
    at = f'{where}.infer_cfg'
    ice: Template | None = None
    prompt: Template | None = None
    if infer.get('ice_template'):
        with problems.inside(f'{at}.ice_template'):
            ice = build_template(infer['ice_template'])
    if infer.get('prompt_template'):
        with problems.inside(f'{at}.prompt_template'):
            prompt = build_template(infer['prompt_template'])
    elif not infer.get('ice_template'):
        problems.add(at, 'prompt_template and ice_template are both missing.', 'Add at least one of them.')
    retriever: Retriever = ZeroRetriever()
    if 'retriever' in infer:
        with problems.inside(f'{at}.retriever'):
            retriever = build_retriever(infer['retriever'])
    asks = infer.get('inferencer', {})
    options = dict(asks) if isinstance(asks, Mapping) else {'type': asks}
    problems.misspelt_keys(f'{at}.inferencer', options, INFERENCER_OPTIONS)
    inferencer = None
    with problems.inside(f'{at}.inferencer'):
        inferencer = InferencerEntry.read(options.pop('type', 'GenInferencer'), options)
    if len(problems.items) > before or inferencer is None:
        return None
    if inferencer.kind == 'wordings':
        prompt = _build_wordings(inferencer, prompt or ice, at, problems)
        if prompt is None:
            return None
    joints = Joints(retriever.ice_separator, retriever.ice_eos_token)
    wording = Wording(prompt, ice, reader.output_column, inferencer.replacement, joints, reader.input_columns)
    task = TaskEntry(dataset_abbr(entry), entry, where, reader, wording, retriever, inferencer)
    _check_task(task, at, problems)
    return task if len(problems.items) == before else None


def _build_wordings(asks: InferencerEntry, template: Template | None, at: str, problems: Problems) -> Template | None:
    """The template in all wordings of an inferencer; None if it has no field for them."""
    column, wordings = asks.options['adv_key'], asks.options['original_prompt_list']
    columns = template.script().columns if template is not None and not template.labels else ()
    if template is None or column not in columns:
        what = f'the template has no field {{{column}}} for the wordings.'
        problems.add(f'{at}.inferencer.adv_key', what, did_you_mean(column, sorted(columns)))
        return None
    return WordingsTemplate(template, column, wordings)


def dataset_abbr(entry: Mapping[str, Any]) -> str:
    """What a dataset is called: its `abbr`, or its path and name."""
    if entry.get('abbr'):
        return str(entry['abbr'])
    name = '_'.join(str(entry[key]) for key in ('path', 'name') if isinstance(entry.get(key), str))
    return name.strip('./').replace('/', '_') or part_name(entry.get('type', 'dataset'))


def _check_task(task: TaskEntry, at: str, problems: Problems) -> None:
    """What can be said about a dataset before a model is known."""
    asks = task.inferencer
    template = task.wording.prompt
    if asks.kind == 'label' and not task.labels:
        what = f'{asks.name} compares labels, but none are given.'
        problems.add(at, what, f'Give a template for each label, or inferencer=dict(type={asks.name}, labels=[…]).')
        return
    if asks.kind == 'label' and template.labels:
        for label in asks.labels:
            if label not in template.labels:
                remedy = did_you_mean(label, template.labels)
                problems.add(f'{at}.inferencer.labels', f'no prompt for the label {label!r}.', remedy)
    if template.labels and task.prompt_labels == (None,):
        what = f'the template has one prompt per label, but {asks.name} sends a single prompt.'
        problems.add(f'{at}.prompt_template', what, 'Use PPLInferencer, or give one string or dialogue.')
        return
    if not task.picks_shots:
        return
    if task.wording.ice_template is None:
        what = 'the retriever picks examples, but there is no ice_template to render them.'
        problems.add(at, what, 'Add an ice_template, or use ZeroRetriever.')
        return
    with problems.inside(at):
        for label in task.prompt_labels:
            task.wording.check_place(template.script(label))


def collect(
    entries: object,
    where: str,
    problems: Problems,
    build: Callable[[Mapping[str, Any], str, Problems], T | None],
    *,
    resolve: Callable[[str], Mapping[str, Any]] | None = None,
) -> list[T]:
    """Understand each entry of a list of dicts; with `resolve`, names stand for entries."""
    if entries is None:
        return []
    if isinstance(entries, (str, Mapping)) or not isinstance(entries, (list, tuple)):
        problems.add(where, f'expected a list of dicts, got {type(entries).__name__}.')
        return []
    built = []
    for i, entry in enumerate(entries):
        if isinstance(entry, str) and resolve is not None:
            with problems.inside(f'{where}[{i}]'):
                built.append(build(resolve(entry), f'{where}[{i}]', problems))
        elif isinstance(entry, Mapping):
            built.append(build(entry, f'{where}[{i}]', problems))
        else:
            problems.add(f'{where}[{i}]', f'expected a dict, got {describe_value(entry)}.')
    return [item for item in built if item is not None]
