"""The dataset side as a whole: how a row is asked about, how an example is shown, and what is hidden."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from rolecall.errors import ConfigError, Problem, TemplateError, did_you_mean
from rolecall.prompts.mixed import limit_stand_ins
from rolecall.prompts.pieces import Field, Origin, Piece, Row, Text
from rolecall.prompts.script import Script
from rolecall.prompts.shots import Joints, check_place, insert_shots, without_shots
from rolecall.prompts.template import Template
from rolecall.prompts.values import text_of

__all__ = ['Mode', 'Wording']

Mode = Literal['gen', 'ppl']
"""`gen` asks for an answer, `ppl` weighs a complete prompt."""

_WRITE_A_TEMPLATE = "Write PromptTemplate('Q: {question}'), or one of the other templates."


@dataclass(frozen=True, slots=True)
class Wording:
    """The dataset side of a program.

    Either template may be missing; an `ice_template` alone words both the examples and the prompt. The output column is
    hidden from the row being asked about (`replacement` stands in its place) and shown in examples.
    """

    prompt_template: Template | None = None
    ice_template: Template | None = None
    output_column: str | None = None
    replacement: str = ''
    joints: Joints = field(default_factory=Joints)
    input_columns: tuple[str, ...] = ()
    """The columns that may be asked about, where the dataset says so."""

    def __post_init__(self) -> None:
        given = {'prompt_template': self.prompt_template, 'ice_template': self.ice_template}
        problems = [
            Problem(name, f'expected a template, got {type(template).__name__} {template!r:.60}.', _WRITE_A_TEMPLATE)
            for name, template in given.items()
            if template is not None and not isinstance(template, Template)
        ]
        if problems:
            raise TemplateError(problems)

    @property
    def prompt(self) -> Template:
        """The template of the row being asked about."""
        chosen = self.prompt_template or self.ice_template
        if chosen is None:
            raise TemplateError(Problem('infer_cfg', 'there is no prompt_template and no ice_template.', 'Give one.'))
        return chosen

    def script(self, label: Hashable, mode: Mode) -> Script:
        """The prompt's wording with the output column hidden, or with the label in its place."""
        if mode == 'gen' and self.prompt.labels and label is None:
            what = 'the template has a prompt for each label; generation needs one prompt without a label.'
            remedy = 'Use PPLInferencer, or a template that is a string or a dialogue.'
            raise TemplateError(Problem('prompt_template', what, remedy))
        return self._limit(self.prompt.script(label)).map(self.hide(label, mode))

    def _limit(self, script: Script) -> Script:
        return limit_stand_ins(script, self.input_columns, output=self.output_column)

    def hide(self, label: Hashable, mode: Mode) -> Callable[[Piece], Piece]:
        """What happens to the output column of the row being asked about."""
        if mode not in get_args(Mode):
            raise ConfigError(Problem('mode', f'unknown mode {mode!r}.', did_you_mean(mode, get_args(Mode))))
        column = self.output_column
        if mode == 'gen':
            shown = Text(self.replacement, Origin('masked', column or ''))
        elif label is not None:
            shown = Text(text_of(label), Origin('label', column or ''))
        else:
            return lambda piece: piece
        return lambda piece: shown if isinstance(piece, Field) and piece.column == column else piece

    def shot(self, row: Row, k: int) -> Script:
        """Example number k, its answer shown."""
        template = self.ice_template
        if template is None:
            what = 'the retriever picks examples, but there is no ice_template to word them.'
            raise TemplateError(Problem('infer_cfg', what, 'Add an ice_template, or use ZeroRetriever.'))
        if not template.labels:
            return self._limit(template.shot()).bind(row, shot=k)
        label = row.get(self.output_column) if self.output_column is not None else None
        if label not in template.labels:
            what = f'an example has the label {label!r}; there are prompts for {_listed(template.labels)}.'
            remedy = 'Add a prompt for it, or map the labels in the dataset.'
            raise TemplateError(Problem('ice_template', what, remedy))
        return self._limit(template.shot(label)).bind(row, shot=k)

    @property
    def shots_are_dialogues(self) -> bool:
        """Whether examples are speeches."""
        return self.ice_template is not None and self.ice_template.is_dialogue

    @property
    def shots_have_labels(self) -> bool:
        """Whether an example is worded by its label."""
        return self.ice_template is not None and bool(self.ice_template.labels)

    @property
    def shot_joints(self) -> Joints:
        """Nothing stands between dialogues, unless they are worded by label."""
        return self.joints if self.shots_have_labels or not self.shots_are_dialogues else Joints('', '')

    def check_place(self, script: Script) -> None:
        """Refuse a prompt that cannot carry examples."""
        check_place(script, dialogue_shots=self.shots_are_dialogues, ice_token=self.prompt.ice_token)

    def place_shots(self, script: Script, shots: Sequence[Row]) -> Script:
        """The prompt with its examples in place."""
        if shots:
            self.check_place(script)
        if self.ice_template is None and not shots:
            return without_shots(script)
        worded = [self.shot(row, k) for k, row in enumerate(shots)]
        return insert_shots(script, worded, self.shot_joints, labelled=self.shots_have_labels)


def _listed(labels: Sequence[Hashable]) -> str:
    return ', '.join(map(repr, labels))
