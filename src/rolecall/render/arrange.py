"""Who says what in which order, once the dataset's speeches have met the model's roles.

The dataset's speeches are cut into rounds wherever a role comes that stands no later in the model's round than the one
before. In each round the model's bare strings and default speeches take their places; a role without words is silent.
Text models and APIs share this arrangement and differ only in how they write it down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from rolecall.errors import Problem, TemplateError, did_you_mean
from rolecall.prompts.pieces import Pieces, Text, relabel
from rolecall.prompts.script import Aside, Content, Expand, Item, Section, Turn, content_pieces
from rolecall.prompts.wording import Mode
from rolecall.render.meta import MetaTemplate, Role

__all__ = ['Arrangement', 'Note', 'Utterance', 'arrange', 'settle_role']


@dataclass(frozen=True, slots=True)
class Note:
    """Something that happened to the dataset's words on the way to the model."""

    kind: Literal['fallback', 'not_sent', 'moved', 'merged', 'shots_dropped', 'truncated']
    message: str
    text: str = ''


@dataclass(frozen=True, slots=True)
class Utterance:
    """One speech in its final place; without a role, words that nobody speaks."""

    content: Content
    role: Role | None = None
    begin: Pieces = ()
    end: Pieces = ()
    section: Section = 'round'
    from_dataset: bool = True
    turn: Turn | None = None


@dataclass(frozen=True, slots=True)
class Arrangement:
    """All speeches in order. If `answering` is set, the last one is what the model is asked to say."""

    utterances: tuple[Utterance, ...]
    answering: bool = False
    notes: tuple[Note, ...] = ()


def arrange(items: Sequence[Item], meta: MetaTemplate, mode: Mode) -> Arrangement:
    """The dataset's items in the model's order; in mode `gen` up to the speech that the model is to give.

    That speech stands where the dataset lets the generating role speak in its last round (or in its end section). If
    the dataset leaves it out, it comes after everything the dataset says.
    """
    notes: list[Note] = []
    blocks = [
        (section, [_cast(item, meta, notes) for item in group])
        for (section, _shot), group in groupby(items, key=lambda item: (item.section, getattr(item, 'shot', None)))
    ]
    asked = _generating(meta) if mode == 'gen' else None
    last_round = max((i for i, (section, _) in enumerate(blocks) if section == 'round'), default=None)
    said: list[Utterance] = []
    answer_at: int | None = None
    reached = 0
    for i, (section, block) in enumerate(blocks):
        start = len(said)
        if section in ('begin', 'end'):
            said += block
        else:
            rounds = _split_rounds(block, meta.order)
            for speeches in rounds[:-1]:
                said += _one_round(speeches, meta, None)
            start = len(said)
            open_for = asked if i == last_round else None
            said += _one_round(rounds[-1], meta, open_for)
            reached = _reached(rounds[-1], meta) if open_for else reached
        if asked and answer_at is None and (i == last_round or section == 'end'):
            answer_at = _last_answer(said, start)
    if asked is None:
        return Arrangement(tuple(said), notes=tuple(notes))
    if answer_at is None:
        place = meta.order.get(asked.name, 0)
        if reached == 0 or reached > place:
            said += _unsaid(meta, 0, place)
        said.append(Utterance((), asked, asked.begin, asked.end, from_dataset=False))
        answer_at = len(said) - 1
    for utterance in said[answer_at + 1 :]:
        if utterance.from_dataset and (text := _preview(utterance)):
            notes.append(Note('not_sent', 'the dataset says this after the answer, so it is not sent.', text))
    return Arrangement(tuple(said[: answer_at + 1]), answering=True, notes=tuple(notes))


def settle_role(turn: Turn, meta: MetaTemplate, notes: list[Note]) -> Role:
    """The model's role for a speech: its own, or the fallback (which is noted)."""
    if turn.role in meta.roles:
        return meta.roles[turn.role]
    if turn.fallback_role in meta.roles:
        notes.append(
            Note('fallback', f'{turn.role} speaks as {turn.fallback_role}: the model has no role {turn.role}.')
        )
        return meta.roles[turn.fallback_role or '']
    fallback = (
        f' nor a role {turn.fallback_role} to fall back on' if turn.fallback_role else ' and no fallback_role is given'
    )
    what = f'the dataset has a speech of {turn.role}; the model has no such role{fallback}.'
    remedy = (
        f'Add it to round or reserved_roles, or give the speech a fallback_role. {did_you_mean(turn.role, meta.roles)}'
    )
    raise TemplateError(Problem('meta_template', what, remedy))


def _cast(item: Item, meta: MetaTemplate, notes: list[Note]) -> Utterance:
    """One item of the dataset with the model's role for it."""
    if isinstance(item, Aside):
        return Utterance(item.content, section=item.section)
    if isinstance(item, Expand):
        raise TypeError('a script must be bound to a row before it is arranged')
    role = settle_role(item, meta, notes)
    fallback = role.name if role.name != item.role else ''
    content: Content = item.content
    if item.silent and role.default is not None:
        content = role.default
    if isinstance(content, tuple):
        content = relabel(content, lambda origin: replace(origin, role=item.role, fallback=fallback))
    return Utterance(
        content,
        role,
        begin=_of_shot(role.begin if item.begin is None else item.begin, item.shot),
        end=_of_shot(role.end if item.end is None else item.end, item.shot),
        section=item.section,
        turn=item,
    )


def _of_shot(pieces: Pieces, shot: int | None) -> Pieces:
    """The words around an example's speech belong to the example."""
    return pieces if shot is None else relabel(pieces, lambda origin: replace(origin, shot=shot))


def _generating(meta: MetaTemplate) -> Role | None:
    """The role the model plays: the first that generates."""
    return next((role for role in meta.roles.values() if role.generate), None)


def _one_round(speeches: Sequence[Utterance], meta: MetaTemplate, open_for: Role | None) -> Iterator[Utterance]:
    """One round with the model's strings and defaults. A round left open for an answer ends where that would begin."""
    if not _reached(speeches, meta):
        yield from speeches
        return
    at = 0
    for speech in speeches:
        place = _place(speech, meta)
        if place is not None:
            yield from _unsaid(meta, at, place)
            at = place + 1
        yield speech
    stop = len(meta.round or ())
    if open_for and open_for.name in meta.order and at <= meta.order[open_for.name]:
        stop = meta.order[open_for.name]
    yield from _unsaid(meta, at, stop)


def _place(speech: Utterance, meta: MetaTemplate) -> int | None:
    return meta.order.get(speech.role.name) if speech.role else None


def _reached(speeches: Sequence[Utterance], meta: MetaTemplate) -> int:
    """How far in the model's round the dataset's speeches go."""
    return max((place + 1 for speech in speeches if (place := _place(speech, meta)) is not None), default=0)


def _split_rounds(block: Sequence[Utterance], order: dict[str, int]) -> list[list[Utterance]]:
    """Cut where a role does not come later than the one before. Speeches outside the round go with what follows."""
    rounds: list[list[Utterance]] = [[]]
    waiting: list[Utterance] = []
    last = -1
    for speech in block:
        place = order.get(speech.role.name) if speech.role else None
        if place is None:
            waiting.append(speech)
            continue
        if place <= last:
            rounds.append([])
        rounds[-1] += [*waiting, speech]
        waiting = []
        last = place
    rounds[-1] += waiting
    return rounds


def _unsaid(meta: MetaTemplate, start: int, stop: int) -> Iterator[Utterance]:
    """What the model's round has between two speeches of the dataset: bare strings and default speeches."""
    for item in (meta.round or ())[start:stop]:
        if isinstance(item, Text):
            yield Utterance((item,), from_dataset=False)
        elif item.default is not None:
            yield Utterance(item.default, item, item.begin, item.end, from_dataset=False)


def _last_answer(said: Sequence[Utterance], start: int) -> int | None:
    """Where the dataset itself lets the generating role speak, at or after `start`."""
    found = [i for i in range(start, len(said)) if (role := said[i].role) and role.generate and said[i].from_dataset]
    return found[-1] if found else None


def _preview(utterance: Utterance) -> str:
    """The words of an utterance with its fields as written, to tell people what was meant."""
    pieces = [*utterance.begin, *content_pieces(utterance.content), *utterance.end]
    return ''.join(str(getattr(piece, 'text', getattr(piece, 'written', ''))) for piece in pieces)
