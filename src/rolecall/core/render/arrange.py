"""Arranges the dataset's speeches in the order of the model's roles.

A new round starts wherever a role does not come later in the model's round than the one before it. The model's bare
strings and default prompts are added to each round; a role that a round leaves out is skipped. Text models and APIs
share this arrangement and differ only in how they write it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from rolecall.core.prompts.multimodal import label_speaker
from rolecall.core.prompts.pieces import Pieces, Text, relabel
from rolecall.core.prompts.script import BareText, Content, Expand, Item, Section, Turn, content_pieces
from rolecall.core.prompts.wording import Mode
from rolecall.core.render.meta import MetaTemplate, Role
from rolecall.errors import Problem, TemplateError, did_you_mean


@dataclass(frozen=True, slots=True)
class Note:
    """A change to the dataset's text on the way to the model."""

    kind: Literal['fallback', 'not_sent', 'moved', 'merged', 'shots_dropped', 'truncated', 'too_long', 'not_counted']
    message: str
    text: str = ''


@dataclass(frozen=True, slots=True)
class Utterance:
    """One speech in its final place; without a role, bare text."""

    content: Content
    role: Role | None = None
    begin: Pieces = ()
    end: Pieces = ()
    section: Section = 'round'
    from_dataset: bool = True
    turn: Turn | None = None


@dataclass(frozen=True, slots=True)
class Arrangement:
    """All speeches in order. If `answering` is set, the last one is the model's to generate."""

    utterances: tuple[Utterance, ...]
    answering: bool = False
    notes: tuple[Note, ...] = ()


def arrange(items: Sequence[Item], meta: MetaTemplate, mode: Mode) -> Arrangement:
    """The dataset's items in the model's order; in mode `gen`, up to the speech the model generates.

    The first generating role of the last round gives that speech. It is in that round (or in the end section) if a
    generating role speaks there; otherwise it follows everything in the dataset.
    """
    notes: list[Note] = []
    blocks = [
        (section, shot, [_assign_role(item, meta, notes) for item in group])
        for (section, shot), group in groupby(items, key=lambda item: (item.section, getattr(item, 'shot', None)))
    ]
    last_round = max((i for i, (section, _, _) in enumerate(blocks) if section == 'round'), default=None)
    utterances: list[Utterance] = []
    answer_at: int | None = None
    answer_role = _answer_role((), meta) if mode == 'gen' else None
    reached = 0
    for i, (section, shot, block) in enumerate(blocks):
        rounds = _split_rounds(block, meta.order)
        if section == 'end' and mode == 'gen' and answer_at is None:
            answer_at = _answer_in_end(rounds, len(utterances), answer_role)
        if section in ('begin', 'end'):
            utterances += block
            continue
        for speeches in rounds[:-1]:
            utterances += _one_round(speeches, meta, shot=shot)
        if i != last_round or mode != 'gen':
            utterances += _one_round(rounds[-1], meta, shot=shot)
            continue
        answer_role = _answer_role(rounds[-1], meta)
        reached = _reach_of(rounds[-1], meta)
        start = len(utterances)
        utterances += _one_round(rounds[-1], meta, answer_role)
        if _has_answer(rounds[-1], meta, answer_role):
            answer_at = _answer_in(utterances, start, answer_role)
    if answer_at is None and answer_role is None:
        return Arrangement(tuple(utterances), notes=tuple(notes))
    if answer_at is None and answer_role is not None:
        place = meta.order.get(answer_role.name, 0)
        if reached == 0 or reached > place:
            utterances += _fill_gap(meta, 0, place)
        utterances.append(_empty_answer(answer_role))
    end = len(utterances) if answer_at is None else answer_at + 1
    notes += note_late_speeches(utterances[end:])
    return Arrangement(tuple(utterances[:end]), answering=True, notes=tuple(notes))


def note_late_speeches(utterances: Iterable[Utterance]) -> Iterator[Note]:
    """A note for each dataset speech that follows the answer."""
    for utterance in utterances:
        if utterance.from_dataset and _has_words(utterance):
            message = 'this text follows the answer in the dataset, so it is not sent.'
            yield Note('not_sent', message, _preview(utterance))


def resolve_role(turn: Turn, meta: MetaTemplate, notes: list[Note]) -> Role:
    """The model's role for a speech: the same role, or its fallback (noted)."""
    if turn.role in meta.roles:
        return meta.roles[turn.role]
    if turn.fallback_role in meta.roles:
        notes.append(
            Note('fallback', f'{turn.role} is sent as {turn.fallback_role}: the model has no role {turn.role}.')
        )
        return meta.roles[turn.fallback_role or '']
    fallback = (
        f', nor its fallback_role {turn.fallback_role}'
        if turn.fallback_role
        else ', and the speech has no fallback_role'
    )
    what = f'the dataset has a {turn.role} speech; the model has no role {turn.role}{fallback}.'
    remedy = (
        f'Add it to round or reserved_roles, or give the speech a fallback_role. {did_you_mean(turn.role, meta.roles)}'
    )
    raise TemplateError(Problem('meta_template', what, remedy))


def _assign_role(item: Item, meta: MetaTemplate, notes: list[Note]) -> Utterance:
    """One item of the dataset with its model role."""
    if isinstance(item, BareText):
        return Utterance(item.content, section=item.section)
    if isinstance(item, Expand):
        raise TypeError('expand_column must be bound to a row before the script is arranged')
    role = resolve_role(item, meta, notes)
    fallback = role.name if role.name != item.role else ''
    content: Content = item.content
    if item.silent and role.default is not None:
        content = _of_shot(role.default, item.shot)
    utterance = Utterance(
        label_speaker(content, item.role, fallback),
        role,
        begin=_of_shot(role.begin if item.begin is None else item.begin, item.shot),
        end=_of_shot(role.end if item.end is None else item.end, item.shot),
        section=item.section,
        turn=item,
    )
    if item.silent and role.default is None and not item.extra and not _is_answer(utterance):
        raise missing_prompt(item)
    return utterance


def missing_prompt(turn: Turn) -> TemplateError:
    """The error for a speech without a prompt, where the model has no default either."""
    what = f'the {turn.role} speech has no prompt, and the model has no default prompt for it.'
    remedy = "Add prompt=… to the speech, or to the role in the meta template; prompt='' sends the markers alone."
    return TemplateError(Problem('prompt_template', what, remedy))


def check_prompts(items: Sequence[Item], meta: MetaTemplate) -> None:
    """Raise for a role of the model's round that has a prompt neither there nor in the dataset's dialogue."""
    turns = [item for item in items if isinstance(item, Turn)]
    if not any(turn.section in ('round', 'shots') for turn in turns) or any(isinstance(item, Expand) for item in items):
        return
    spoken = {turn.role if turn.role in meta.roles else turn.fallback_role for turn in turns}
    for item in meta.round or ():
        if isinstance(item, Role) and item.needs_prompt and item.name not in spoken:
            what = f'the role {item.name} of the round has no prompt, and the dataset has no {item.name} speech.'
            remedy = (
                f'Add a {item.name} speech to the dataset, or give the role prompt=… in the meta template '
                "(prompt='' sends its markers alone), or generate=True if the model writes it."
            )
            raise TemplateError(Problem('meta_template', what, remedy))


def _of_shot(pieces: Pieces, shot: int | None) -> Pieces:
    """Label the markers around an example's speech as part of the example."""
    return pieces if shot is None else relabel(pieces, lambda origin: replace(origin, shot=shot))


def _is_answer(speech: Utterance) -> bool:
    """Whether the model generates this dataset speech: `generate` of the speech, or else of its role."""
    if speech.role is None or speech.turn is None:
        return False
    return speech.role.generate if speech.turn.generate is None else speech.turn.generate


def _answer_role(speeches: Sequence[Utterance], meta: MetaTemplate) -> Role | None:
    """The first generating role; `generate` in the speeches of the last round overrides the role's own."""
    answers = {speech.role.name: _is_answer(speech) for speech in speeches if speech.role}
    return next((role for role in meta.roles.values() if answers.get(role.name, role.generate)), None)


def _has_answer(speeches: Sequence[Utterance], meta: MetaTemplate, answer_role: Role | None) -> bool:
    """Whether the answer belongs inside these speeches: one is generated, or they go past the role asked."""
    if any(map(_is_answer, speeches)):
        return True
    answer = meta.order.get(answer_role.name) if answer_role else None
    places = [place for speech in speeches if (place := _place(speech, meta)) is not None]
    return answer is not None and bool(places) and min(places) < answer < max(places)


def _answer_in(utterances: Sequence[Utterance], start: int, answer_role: Role | None) -> int:
    """The position of the answer: at the role being asked, or else at the first generated speech."""
    names = [speech.role.name if speech.role else '' for speech in utterances[start:]]
    first = (name for name, speech in zip(names, utterances[start:], strict=True) if name and _is_answer(speech))
    name = answer_role.name if answer_role and answer_role.name in names else next(first)
    return start + max(i for i, own in enumerate(names) if own == name)


def _answer_in_end(rounds: Sequence[Sequence[Utterance]], start: int, answer_role: Role | None) -> int | None:
    """The position of the answer in the end section: in its last round that has a generated speech."""
    position = None
    for speeches in rounds:
        if any(map(_is_answer, speeches)):
            position = start + _answer_in(speeches, 0, answer_role)
        start += len(speeches)
    return position


def _one_round(
    speeches: Sequence[Utterance], meta: MetaTemplate, answer_role: Role | None = None, *, shot: int | None = None
) -> Iterator[Utterance]:
    """One round, with the model's bare strings and default prompts.

    The answer has a place in the round even if the dataset leaves it out; if the dataset has no generated speech at
    all, the round ends where the answer would begin.
    """
    if not _reach_of(speeches, meta):
        yield from speeches
        return
    answered = answer_role if _has_answer(speeches, meta, answer_role) else None
    at = 0
    for speech in speeches:
        place = _place(speech, meta)
        if place is not None:
            yield from _fill_gap(meta, at, place, answered, shot=shot)
            at = place + 1
        yield speech
    stop = len(meta.round or ())
    if answer_role and not answered and answer_role.name in meta.order and at <= meta.order[answer_role.name]:
        stop = meta.order[answer_role.name]
    yield from _fill_gap(meta, at, stop, answered, shot=shot)


def _place(speech: Utterance, meta: MetaTemplate) -> int | None:
    return meta.order.get(speech.role.name) if speech.role else None


def _reach_of(speeches: Sequence[Utterance], meta: MetaTemplate) -> int:
    """How far into the model's round the dataset's speeches reach."""
    return max((place + 1 for speech in speeches if (place := _place(speech, meta)) is not None), default=0)


def _split_rounds(block: Sequence[Utterance], order: dict[str, int]) -> list[list[Utterance]]:
    """Start a round where a role does not come later than the last. Reserved roles join the speech after them."""
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


def _fill_gap(
    meta: MetaTemplate, start: int, stop: int, answer_role: Role | None = None, *, shot: int | None = None
) -> Iterator[Utterance]:
    """The model's own items between two dataset speeches: bare strings, default prompts, the answer."""
    for item in (meta.round or ())[start:stop]:
        if isinstance(item, Text):
            yield Utterance(_of_shot((item,), shot), from_dataset=False)
        elif answer_role and item.name == answer_role.name:
            yield _empty_answer(item)
        elif item.default is not None:
            begin, words, end = (_of_shot(pieces, shot) for pieces in (item.begin, item.default, item.end))
            yield Utterance(words, item, begin, end, from_dataset=False)


def _empty_answer(role: Role) -> Utterance:
    """The place of an answer for which the dataset has no text."""
    return Utterance((), role, role.begin, role.end, from_dataset=False)


def _has_words(utterance: Utterance) -> bool:
    """Whether there is dataset text here, apart from a hidden answer."""
    return any(not isinstance(piece, Text) or piece.text for piece in content_pieces(utterance.content))


def _preview(utterance: Utterance) -> str:
    """The text of an utterance with its fields as written, for notes."""
    pieces = [*utterance.begin, *content_pieces(utterance.content), *utterance.end]
    return ''.join(str(getattr(piece, 'text', getattr(piece, 'written', ''))) for piece in pieces)
