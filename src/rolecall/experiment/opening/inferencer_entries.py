"""The names that configs use, and what they stand for here: inferencers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from rolecall.config_keys import keys_of
from rolecall.core.program import InferMode
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.plain_files import read_table
from rolecall.registry import Registry, bare_name, is_reference_class, part_name

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
        solves = is_reference_class(type_) and hasattr(type_, 'tot_solve')
        return name, INFERENCER_KINDS[name], type_ if solves else None
    part = INFERENCERS.find(type_)
    if not hasattr(part.value, 'infer'):
        what = f'{part.name} is not an inferencer: it has no infer().'
        raise ConfigError(Problem('type', what, 'docs/plugins.md shows what an inferencer must have.'))
    kind: Any = getattr(part.value, 'kind', 'gen')
    if kind not in get_args(Kind):
        what = f'{part.name}.kind: unknown way of asking {kind!r}.'
        raise ConfigError(Problem('type', what, did_you_mean(kind, get_args(Kind))))
    return part.name, kind, part.value
