"""A dataset's entry in a config, understood: its wording, its retriever, and how it is asked."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, get_args

from rolecall.checking import Problems
from rolecall.config_keys import keys_of
from rolecall.core.program import InferMode
from rolecall.core.prompts.pieces import describe_value
from rolecall.core.prompts.script import Joints
from rolecall.core.prompts.template import Template, WordingsTemplate, build_template
from rolecall.core.prompts.wording import Mode, Wording
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.plain_files import read_table
from rolecall.registry import Registry, bare_name, part_name
from rolecall.sources.datasets import Reader
from rolecall.sources.retrievers import Retriever, ZeroRetriever, build_retriever

Kind = Literal['gen', 'wordings', 'choices', 'label', 'whole', 'dialogue']
"""How rows are asked: generate, once or for each wording; weigh choices, labels or the whole text; or turn by turn."""

_TYPES = read_table(__file__, 'inferencers.tsv')
INFERENCER_KINDS: dict[str, Kind] = {name: kind for name, kind, _ in _TYPES}  # type: ignore[misc]
"""How each known inferencer asks. Those that are not in `INFERENCERS` can be previewed, but not run."""

INFERENCERS: Registry[Any] = Registry(
    'inferencer', {name: f'rolecall.experiment.inferencers.{path}' for name, _, path in _TYPES if path}
)
INFERENCER_OPTIONS = keys_of('inferencer', 'sampling')
"""What an inferencer's entry may say and is acted on. (Other systems have further options, which are left alone.)"""

_DEFAULT_INFER_MODE: dict[str, InferMode] = {'MultiTurnGenInferencer': 'every'}
_INFER_MODES: tuple[InferMode, ...] = ('every', 'every_with_gt', 'last')


@dataclass(frozen=True, slots=True)
class InferencerEntry:
    """How a dataset is asked: what matters for its prompts, and the other options as they were given."""

    name: str
    kind: Kind
    labels: tuple[Hashable, ...] = ()
    replacement: str = ''
    infer_mode: InferMode = 'last'
    prefill: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    own: Any = None
    """A class or object of the user's own that asks; None for a built-in."""

    @property
    def asks_last_turn(self) -> bool:
        """Whether only the last turn of a dialogue is asked for."""
        return self.kind == 'dialogue' and self.infer_mode == 'last'

    @property
    def asks_every_turn(self) -> bool:
        """Whether every turn of a dialogue is asked for, and has a prediction of its own."""
        return self.kind == 'dialogue' and self.infer_mode != 'last'

    @classmethod
    def read(cls, type_: object, options: Mapping[str, Any]) -> InferencerEntry:
        """Understand an inferencer's type and options."""
        problems: list[Problem] = []
        name, kind, own = _find(type_)
        labels = options.get('labels') or ()
        if isinstance(labels, str) or not isinstance(labels, (list, tuple)):
            problems.append(Problem('labels', f'expected a list of labels, got {labels!r:.60}.'))
            labels = ()
        replacement = options.get('gen_field_replace_token', '')
        if not isinstance(replacement, str):
            problems.append(Problem('gen_field_replace_token', f'expected a string, got {replacement!r:.60}.'))
            replacement = ''
        infer_mode = options.get('infer_mode', _DEFAULT_INFER_MODE.get(name, 'last'))
        if infer_mode not in _INFER_MODES:
            what = f'unknown infer_mode {infer_mode!r}.'
            problems.append(Problem('infer_mode', what, did_you_mean(infer_mode, _INFER_MODES)))
        prefill = options.get('prefill', False)
        if not isinstance(prefill, bool):
            problems.append(Problem('prefill', f'expected True or False, got {prefill!r}.'))
        if kind == 'wordings':
            problems += _check_wordings(options)
        if problems:
            raise ConfigError(problems)
        if name == 'AgentInferencer' and infer_mode != 'last':
            kind = 'dialogue'
        return cls(name, kind, tuple(labels), replacement, infer_mode, prefill, dict(options), own)


def _check_wordings(options: Mapping[str, Any]) -> Iterator[Problem]:
    wordings, column = options.get('original_prompt_list'), options.get('adv_key')
    if (
        not isinstance(wordings, (list, tuple))
        or not wordings
        or not all(isinstance(wording, str) for wording in wordings)
    ):
        yield Problem('original_prompt_list', f'expected a list of wordings, got {wordings!r:.60}.')
    if not isinstance(column, str):
        remedy = "Name the field that they fill in the template: 'adv_prompt' for {adv_prompt}."
        yield Problem('adv_key', f'expected the name of a field, got {column!r:.60}.', remedy)


def _find(type_: object) -> tuple[str, Kind, Any]:
    """The name of an inferencer, how it asks, and the user's own class or object where it is one."""
    ours = isinstance(type_, type) and type_.__module__.startswith('rolecall.')
    name = part_name(type_) if ours else bare_name(type_)
    if name in INFERENCER_KINDS:
        return name, INFERENCER_KINDS[name], None
    part = INFERENCERS.find(type_)
    if not hasattr(part.value, 'infer'):
        what = f'{part.name} is not an inferencer: it has no infer().'
        raise ConfigError(Problem('type', what, 'docs/plugins.md shows what an inferencer must have.'))
    kind: Any = getattr(part.value, 'kind', 'gen')
    if kind not in get_args(Kind):
        what = f'{part.name}.kind: unknown way of asking {kind!r}.'
        raise ConfigError(Problem('type', what, did_you_mean(kind, get_args(Kind))))
    return part.name, kind, part.value


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
