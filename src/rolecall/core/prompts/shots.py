"""Inserts in-context examples into a prompt. The result depends on both forms:

| examples | the example token is in     | result                                                     |
|----------|-----------------------------|------------------------------------------------------------|
| string   | a string prompt             | the examples' text, in place                               |
| string   | a speech of a dialogue      | the examples' text, inside that speech: in its words, its  |
|          |                             | begin or end, a text part of a prompt_mm or raw message    |
| string   | a bare string of a dialogue | the examples' text, outside any role                       |
| dialogue | a bare string of a dialogue | the examples' speeches, between the speeches of the prompt |
| dialogue | a string, or a speech       | an error: speeches cannot go there                         |
| any      | nowhere                     | an error if there are examples                             |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rolecall.core.prompts.pieces import SHOTS, Origin, Piece, Pieces, Shots, Text
from rolecall.core.prompts.script import BareText, Expand, Item, Script, content_pieces, item_pieces, spread_item
from rolecall.errors import Problem, TemplateError


@dataclass(frozen=True, slots=True)
class Joints:
    """The text between examples, and after the last one."""

    separator: str = '\n'
    end: str = '\n'


def check_place(script: Script, *, dialogue_shots: bool, ice_token: str | None) -> None:
    """Raise unless the prompt has a place for its examples."""
    if not script.has_place_for_shots:
        if ice_token is None:
            what = 'the template has no ice_token, so the examples the retriever picks have no place.'
            remedy = "Put a token such as '</E>' where they belong, and set ice_token='</E>'."
        else:
            what = f'ice_token {ice_token!r} does not occur in the template, so the examples would be lost.'
            remedy = f'Put {ice_token!r} where they belong.'
        raise TemplateError(Problem('prompt_template', what, remedy))
    if not dialogue_shots:
        return
    if script.plain:
        what = 'the examples are dialogues, but the prompt is a string.'
        remedy = 'Make the prompt template a dialogue, or the ice_template a string.'
        raise TemplateError(Problem('prompt_template', what, remedy))
    for item in script.items:
        if not isinstance(item, (BareText, Expand)) and SHOTS in item_pieces(item):
            what = f'the examples are dialogues, but the ice_token is inside a {item.role} speech.'
            remedy = "Put it between speeches, e.g. begin=['</E>'], or make the ice_template a string."
            raise TemplateError(Problem('prompt_template', what, remedy))


def insert_shots(script: Script, shots: Sequence[Script], joints: Joints, *, labelled: bool = False) -> Script:
    """Insert the examples. Dialogues chosen by label keep their joints, as bare text."""
    if not shots or shots[0].plain:
        return place_text(script, _joined_text(shots, joints))
    return _with_speeches(script, tuple(_joined_speeches(shots, joints, labelled)))


def _joined_text(shots: Sequence[Script], joints: Joints) -> Pieces:
    pieces: list[Piece] = []
    for k, shot in enumerate(shots):
        if k:
            pieces.append(Text(joints.separator, Origin('joint', 'shots')))
        for item in shot.items:
            pieces += content_pieces(item.content) if isinstance(item, BareText) else ()
    pieces.append(Text(joints.end, Origin('joint', 'shots')))
    return tuple(pieces)


def _joined_speeches(shots: Sequence[Script], joints: Joints, labelled: bool) -> Iterator[Item]:
    for k, shot in enumerate(shots):
        for item in shot.items:
            yield item if isinstance(item, Expand) else replace(item, shot=k)
        if labelled:
            yield BareText((Text(joints.separator, Origin('joint', 'shots')),), 'shots', k)
    if labelled:
        yield BareText((Text(joints.end, Origin('joint', 'shots')),), 'shots')


def place_text(script: Script, text: Pieces) -> Script:
    """Insert text in place of the example token."""
    items = [
        spread_item(item, lambda piece: text if isinstance(piece, Shots) else (piece,))
        if SHOTS in item_pieces(item)
        else item
        for item in script.items
    ]
    return replace(script, items=tuple(item for item in items if script.plain or not _is_empty(item)))


def as_shot(item: Item) -> Item:
    """The item as part of an example: without example tokens and sep_token."""
    return replace(spread_item(item, _without_places), section='shots')


def _without_places(piece: Piece) -> Pieces:
    if isinstance(piece, Shots) or (isinstance(piece, Text) and piece.origin.kind == 'sep'):
        return ()
    return (piece,)


def _with_speeches(script: Script, speeches: tuple[Item, ...]) -> Script:
    items: list[Item] = []
    for item in script.items:
        if not isinstance(item, BareText) or SHOTS not in item.content:
            items.append(item)
            continue
        at = item.content.index(SHOTS)
        before, after = replace(item, content=item.content[:at]), replace(item, content=item.content[at + 1 :])
        items += [text for text in (before,) if not _is_empty(text)]
        items += speeches
        items += _with_speeches(Script((after,)), speeches).items if after.content else ()
    return replace(script, items=tuple(items))


def _is_empty(item: Item) -> bool:
    return isinstance(item, BareText) and not any(not isinstance(piece, Text) or piece.text for piece in item.content)
