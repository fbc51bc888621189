"""Rules about what happens to the dataset's words on the way to a model, and about settings that matter then."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rolecall.core.render.arrange import Note
from rolecall.experiment.lint.finding import Rule, Violation, excerpt
from rolecall.experiment.lint.subject import CheckedRow, Subject


def _report_notes(fits: Callable[[Note], bool]) -> Callable[[Subject, CheckedRow], Iterator[Violation]]:
    """A rule that reports certain notes of the renderer."""

    def check(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
        for prompt in row.sent:
            for note in prompt.notes:
                if fits(note):
                    yield Violation(note.message, about=note.message, example=excerpt(note.text))

    return check


def _is_answer_start(note: Note) -> bool:
    return note.kind == 'not_sent' and 'prefill' in note.message


def dated_templates(subject: Subject) -> Iterator[Violation]:
    """Chat templates whose text changes with the calendar."""
    if subject.chat_template and subject.chat_template.prints_date:
        yield Violation("the model's chat template prints the date: prompts and cached results change at midnight.")


def missing_length(subject: Subject) -> Iterator[Violation]:
    """Generation without a limit."""
    if subject.asks in ('gen', 'wordings', 'dialogue') and subject.max_out_len is None:
        yield Violation('neither the inferencer nor the model says how long a reply may be.')


def alike_samples(subject: Subject) -> Iterator[Violation]:
    """Several answers to one prompt, drawn without a temperature."""
    if subject.alike_samples:
        yield Violation('several answers are drawn to each prompt without a temperature: they may all be the same.')


def unknown_models(subject: Subject) -> Iterator[Violation]:
    """Models that a run cannot build."""
    for problem in subject.type_problems:
        yield Violation(f'{problem.where}: {problem.what}', remedy=problem.remedy)


def wrong_sampling(subject: Subject) -> Iterator[Violation]:
    """Sampling parameters that a run refuses."""
    for problem in subject.sampling_problems:
        yield Violation(f'{problem.where}: {problem.what}', about=problem.where, remedy=problem.remedy)


def misplaced_options(subject: Subject) -> Iterator[Violation]:
    """Options of the inferencer written one level too high."""
    for option in subject.misplaced_options:
        yield Violation(f'infer_cfg.{option} has no effect: it is an option of the inferencer.', about=option)


def shared_abbr(subject: Subject) -> Iterator[Violation]:
    """Entries that go by the same name."""
    if subject.namesakes:
        yield Violation(f'the same abbr is used at {", ".join(subject.namesakes)}: results would be mixed up.')


SENDING_RULES = (
    Rule(
        name='role-fell-back',
        severity='info',
        description='The model has no such role, so a speech is given to its fallback role.',
        remedy='Add the role to the meta template (reserved_roles), if the model knows it.',
        levels=('pair',),
        each=_report_notes(lambda note: note.kind == 'fallback'),
    ),
    Rule(
        name='text-not-sent',
        severity='warning',
        description='Words of the dataset do not reach the model.',
        remedy='Put them before the place where the model answers.',
        levels=('pair',),
        each=_report_notes(lambda note: note.kind == 'not_sent' and not _is_answer_start(note)),
    ),
    Rule(
        name='answer-start-not-sent',
        severity='info',
        description='The dataset begins the answer for the model ("Answer: "), and these words are not sent.',
        remedy='Set prefill=True on the inferencer if the model can go on from there, or move the words up.',
        levels=('pair',),
        each=_report_notes(_is_answer_start),
    ),
    Rule(
        name='text-moved',
        severity='warning',
        description='Words that no role speaks are put into the message of a neighbour, because messages need a role.',
        remedy="Give them a role: dict(role='SYSTEM', fallback_role='HUMAN', prompt=…).",
        levels=('pair',),
        each=_report_notes(lambda note: note.kind == 'moved'),
    ),
    Rule(
        name='speeches-merged',
        severity='info',
        description='Neighbouring speeches of one role are joined into one message.',
        remedy='Let the roles alternate, if the model should see them apart.',
        levels=('pair',),
        each=_report_notes(lambda note: note.kind == 'merged'),
    ),
    Rule(
        name='dated-chat-template',
        severity='warning',
        description="The model's chat template prints the date, so the same config gives another prompt tomorrow.",
        remedy='Give the date as a fixed variable of the chat template.',
        levels=('model',),
        once=dated_templates,
    ),
    Rule(
        name='no-max-out-len',
        severity='warning',
        description='A reply may be as long as the server or library likes, because max_out_len is given nowhere.',
        remedy='Set max_out_len on the model or on the inferencer.',
        levels=('pair',),
        once=missing_length,
    ),
    Rule(
        name='samples-without-temperature',
        severity='warning',
        description='Self-consistency and pass@k need answers that differ, but no temperature is set.',
        remedy='Set temperature on the model or in generation_kwargs, for example temperature=0.7.',
        levels=('pair',),
        once=alike_samples,
    ),
    Rule(
        name='unknown-model',
        severity='error',
        description="There is no model of the entry's type.",
        remedy='`rolecall config list models` shows them.',
        levels=('model',),
        once=unknown_models,
    ),
    Rule(
        name='wrong-sampling',
        severity='error',
        description='A sampling parameter is misspelt, or its value cannot be used.',
        remedy='A run refuses it before the first request.',
        levels=('pair',),
        once=wrong_sampling,
    ),
    Rule(
        name='misplaced-option',
        severity='warning',
        description='An option of the inferencer is written beside it, where it has no effect.',
        remedy='Move it into infer_cfg.inferencer.',
        levels=('dataset',),
        once=misplaced_options,
    ),
    Rule(
        name='duplicate-abbr',
        severity='error',
        description='Two datasets, or two models, have the same abbr.',
        remedy='Give each an abbr of its own.',
        levels=('dataset', 'model'),
        once=shared_abbr,
    ),
)
