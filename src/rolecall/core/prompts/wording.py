"""The dataset's part of a program: the prompt template, the example template and the hidden output column."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from rolecall.core.prompts.mixed import limit_stand_ins
from rolecall.core.prompts.pieces import Field, Origin, Piece, Row, Text, describe_value, text_of
from rolecall.core.prompts.script import Expand, Item, Joints, Script, check_place, insert_shots, place_text
from rolecall.core.prompts.template import Template
from rolecall.errors import ConfigError, Problem, TemplateError, did_you_mean

Mode = Literal['gen', 'ppl']
"""`gen` asks for an answer, `ppl` scores a complete prompt."""

_WRITE_A_TEMPLATE = "Write PromptTemplate('Q: {question}'), or one of the other templates."


@dataclass(frozen=True, slots=True)
class Wording:
    """The dataset's part of a program.

    Either template may be missing; an `ice_template` alone serves for both the examples and the prompt. The output
    column is hidden in the row being asked (`replacement` takes its place) and shown in examples.
    """

    prompt_template: Template | None = None
    ice_template: Template | None = None
    output_column: str | None = None
    replacement: str = ''
    joints: Joints = field(default_factory=Joints)
    input_columns: tuple[str, ...] = ()
    """The input columns, if the dataset names them."""

    def __post_init__(self) -> None:
        templates = {'prompt_template': self.prompt_template, 'ice_template': self.ice_template}
        problems = [
            Problem(name, f'expected a template, got {describe_value(template)}.', _WRITE_A_TEMPLATE)
            for name, template in templates.items()
            if template is not None and not isinstance(template, Template)
        ]
        if problems:
            raise TemplateError(problems)

    @property
    def prompt(self) -> Template:
        """The template of the row being asked."""
        chosen = self.prompt_template or self.ice_template
        if chosen is None:
            raise TemplateError(Problem('infer_cfg', 'prompt_template and ice_template are both missing.', 'Add one.'))
        return chosen

    def script(self, label: Hashable, mode: Mode) -> Script:
        """The parsed prompt, with the output column hidden or replaced by the label."""
        if mode == 'gen' and self.prompt.labels and label is None:
            what = 'the template has one prompt per label; generation needs a single prompt.'
            remedy = 'Use PPLInferencer, or a template that is a string or a dialogue.'
            raise TemplateError(Problem('prompt_template', what, remedy))
        script = self._limit(self.prompt.script(label)).map(self.hide(label, mode))
        if mode == 'ppl' or self.output_column is None or not script.depends_on_row:
            return script
        # What makes messages from a whole row sees the replacement in the output column.
        hidden = {self.output_column: self.replacement}
        return replace(script, items=tuple(_compose_with(item, hidden) for item in script.items))

    def _limit(self, script: Script) -> Script:
        return limit_stand_ins(script, self.input_columns, output=self.output_column)

    def hide(self, label: Hashable, mode: Mode) -> Callable[[Piece], Piece]:
        """A function that hides the output column, or replaces it with the label."""
        if mode not in get_args(Mode):
            raise ConfigError(Problem('mode', f'unknown mode {mode!r}.', did_you_mean(mode, get_args(Mode))))
        column = self.output_column
        if mode == 'gen':
            substitute = Text(self.replacement, Origin('masked', column or ''))
        elif label is not None:
            substitute = Text(text_of(label), Origin('label', column or ''))
        else:
            return lambda piece: piece
        return lambda piece: substitute if isinstance(piece, Field) and piece.column == column else piece

    def shot(self, row: Row, k: int) -> Script:
        """Example number k, with its answer."""
        template = self.ice_template
        if template is None:
            what = 'the retriever picks examples, but there is no ice_template.'
            raise TemplateError(Problem('infer_cfg', what, 'Add an ice_template, or use ZeroRetriever.'))
        if not template.labels:
            return self._limit(template.shot()).bind(row, shot=k)
        label = row.get(self.output_column) if self.output_column is not None else None
        if label not in template.labels:
            labels = ', '.join(map(repr, template.labels))
            what = f'an example has the label {label!r}; the template has prompts for {labels}.'
            remedy = 'Add a prompt for this label, or map the labels in the dataset.'
            raise TemplateError(Problem('ice_template', what, remedy))
        return self._limit(template.shot(label)).bind(row, shot=k)

    @property
    def shot_scripts(self) -> tuple[Script, ...]:
        """The parsed example templates: one, or one per label."""
        ice = self.ice_template
        return tuple(ice.shot(label) for label in ice.labels or (None,)) if ice else ()

    @property
    def shots_are_dialogues(self) -> bool:
        """Whether examples are speeches."""
        return self.ice_template is not None and self.ice_template.is_dialogue

    @property
    def shots_have_labels(self) -> bool:
        """Whether the label of an example chooses its prompt."""
        return self.ice_template is not None and bool(self.ice_template.labels)

    @property
    def shot_joints(self) -> Joints:
        """The joints between examples: none between dialogues, unless they are chosen by label."""
        return self.joints if self.shots_have_labels or not self.shots_are_dialogues else Joints('', '')

    def check_place(self, script: Script) -> None:
        """Raise unless the prompt has a place for examples."""
        check_place(script, dialogue_shots=self.shots_are_dialogues, ice_token=self.prompt.ice_token)

    def place_shots(self, script: Script, shots: Sequence[Row]) -> Script:
        """Insert the examples into the prompt."""
        if shots:
            self.check_place(script)
        if self.ice_template is None and not shots:
            return place_text(script, ())
        worded = [self.shot(row, k) for k, row in enumerate(shots)]
        return insert_shots(script, worded, self.shot_joints, labelled=self.shots_have_labels)


def _compose_with(item: Item, values: Mapping[Any, Any]) -> Item:
    compose = item.compose if isinstance(item, Expand) else None
    if not isinstance(item, Expand) or compose is None:
        return item
    return replace(item, compose=lambda row: compose({**row, **values}))
