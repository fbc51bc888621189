"""Rules about what happens to the dataset's words on the way to a model, and about settings that matter then."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rolecall.checking import is_whole
from rolecall.core.render.arrange import Note
from rolecall.experiment.lint.subject import CheckedRow, Subject, Violation, excerpt


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


fallback_roles = _report_notes(lambda note: note.kind == 'fallback')
moved_text = _report_notes(lambda note: note.kind == 'moved')
merged_speeches = _report_notes(lambda note: note.kind == 'merged')
unsent_answer_starts = _report_notes(_is_answer_start)
unsent_text = _report_notes(lambda note: note.kind == 'not_sent' and not _is_answer_start(note))


def dated_templates(subject: Subject) -> Iterator[Violation]:
    """Chat templates whose text changes with the calendar."""
    if subject.chat_template and subject.chat_template.prints_date:
        yield Violation("the model's chat template prints the date: prompts and cached results change at midnight.")


def missing_length(subject: Subject) -> Iterator[Violation]:
    """Generation without a limit."""
    if subject.asks in ('gen', 'wordings', 'dialogue') and subject.max_out_len is None:
        yield Violation('neither the inferencer nor the model says how long a reply may be.')


def limiting_servers(subject: Subject) -> Iterator[Violation]:
    """Servers that change prompts, or read less of them than the entry says, as they showed when they were asked."""
    server = subject.server
    if server is None:
        return
    if server.window and is_whole(subject.max_seq_len, least=server.window + 1):
        yield Violation(f'max_seq_len is {subject.max_seq_len:,}, but the server reads {server.window:,} tokens.')
    for is_so, what in (
        (server.keeps_system is False, 'the server drops system messages'),
        (server.truncates, 'the server cuts prompts that are longer than its window and answers all the same'),
        ((server.bos or 0) > 1, f'the server puts {server.bos} BOS tokens before a prompt'),
    ):
        if is_so:
            yield Violation(f'{what}, as a probe showed.')


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
