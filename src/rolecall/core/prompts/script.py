"""A parsed template: who says what, in which section, with fields still unfilled; and examples inserted into it.

A `Script` is the symbolic form of a prompt. Filling it with a row gives a `PromptList` (or a string) for people to
read. Renderers work on the script itself, so everything that does not depend on the row is done once.

What examples come to depends on both forms:

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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from rolecall.core.prompts.frozen import FrozenDict
from rolecall.core.prompts.pieces import SHOTS, Field, Origin, Piece, Pieces, Row, Shots, Text, bind, bind_piece, fold
from rolecall.errors import Problem, RenderError, TemplateError

Section = Literal['begin', 'shots', 'round', 'end']
Change = Callable[[Piece], Iterable[Piece]]
"""Maps a piece to its replacements: itself, nothing, or any number of pieces."""


@dataclass(frozen=True, slots=True)
class FilledPart:
    """One finished part: the value an API receives, and its labelled pieces."""

    part: FrozenDict
    pieces: tuple[Text, ...]


class Parts(Protocol):
    """Multimodal content (text, images, audio, video) whose parts depend on the row."""

    def spread(self, change: Change) -> Parts:
        """Replace each piece."""

    def bind(self, row: Row, *, shot: int | None = None) -> Parts:
        """Fill the fields from a row."""

    def write(self, row: Row) -> list[FilledPart]:
        """The parts for one row."""

    def pieces(self) -> Iterator[Piece]:
        """Every piece in the content."""


Content = Pieces | Parts


@dataclass(frozen=True, slots=True)
class Turn:
    """One speech: who says it, and what."""

    role: str
    content: Content
    fallback_role: str | None = None
    begin: Pieces | None = None
    end: Pieces | None = None
    section: Section = 'round'
    shot: int | None = None
    silent: bool = False
    """The dataset names the role but gives no prompt: the model's default prompt, if any, is used."""
    generate: bool | None = None
    """Whether the model generates this speech, if the dataset says so."""
    extra: Mapping[str, Any] = field(default_factory=FrozenDict)
    """Other keys of a raw message (name, tool_calls, …), passed through unchanged."""


@dataclass(frozen=True, slots=True)
class BareText:
    """Text outside any role: a bare string between speeches."""

    content: Pieces
    section: Section = 'begin'
    shot: int | None = None


@dataclass(frozen=True, slots=True)
class Expand:
    """A column holding a list of messages to insert unchanged. `parse` turns a message into a speech."""

    column: str
    parse: Callable[[Mapping[str, Any], Origin], Turn]
    section: Section = 'round'
    compose: Callable[[Row], Any] | None = None
    """Makes the messages from the whole row; `column` then names the maker. None: the column holds them."""


Item = Turn | BareText | Expand


@dataclass(frozen=True, slots=True)
class Script:
    """One prompt with its fields unfilled."""

    items: tuple[Item, ...]
    plain: bool = False
    """A string template: renderers leave its text as it is."""
    raw: bool = False
    """Messages to send as they are: neighbours of one role are not joined."""

    def map(self, change: Callable[[Piece], Piece]) -> Script:
        """Change every piece of the dataset."""
        return replace(self, items=tuple(spread_item(item, lambda piece: (change(piece),)) for item in self.items))

    def bind(self, row: Row, *, shot: int | None = None) -> Script:
        """Fill the fields from a row."""
        return replace(self, items=tuple(bound for item in self.items for bound in _bind_item(item, row, shot)))

    def fill(self, row: Row) -> str | PromptList:
        """The prompt before rendering, as people read it."""
        bound_items = self.bind(row).items
        if self.plain:
            return ''.join(fold(item.content) for item in bound_items if isinstance(item, BareText))
        return PromptList(entry for item in bound_items if (entry := prompt_entry(item, raw=self.raw)) != '')

    def pieces(self) -> Iterator[Piece]:
        """Every piece of the dataset, in order."""
        for item in self.items:
            yield from item_pieces(item)

    @property
    def columns(self) -> set[str]:
        """The columns named in the template."""
        named = {piece.column for piece in self.pieces() if isinstance(piece, Field)}
        return named | {item.column for item in self.items if isinstance(item, Expand) and item.compose is None}

    @property
    def needed_columns(self) -> set[str]:
        """The columns a row must have. (Media and their text may come from another, tagged column.)"""
        texts = [item for item in self.items if not isinstance(item, Expand) and isinstance(item.content, tuple)]
        return {piece.column for item in texts for piece in item_pieces(item) if isinstance(piece, Field)}

    @property
    def has_place_for_shots(self) -> bool:
        """Whether the template contains an example token."""
        return any(isinstance(piece, Shots) for piece in self.pieces())

    @property
    def depends_on_row(self) -> bool:
        """Whether the number of speeches depends on the row."""
        return any(isinstance(item, Expand) for item in self.items)


class PromptList(list[Any]):
    """A list of speeches (`{'role': …, 'prompt': …}`) and strings.

    It compares equal to a plain list of dicts, and prints one `ROLE: text` line per speech.

    >>> prompt = PromptList([dict(role='HUMAN', prompt='1+1=?'), dict(role='BOT', prompt='2')])
    >>> prompt == [{'role': 'HUMAN', 'prompt': '1+1=?'}, {'role': 'BOT', 'prompt': '2'}]
    True
    >>> print(prompt)
    HUMAN: 1+1=?
    BOT: 2
    """

    __slots__ = ()

    def __add__(self, other: Iterable[Any]) -> PromptList:
        return PromptList([*self, *_items(other)])

    def __radd__(self, other: Iterable[Any]) -> PromptList:
        return PromptList([*_items(other), *self])

    def __str__(self) -> str:
        return '\n'.join(_describe_entry(item) for item in self)

    def __repr__(self) -> str:
        return f'PromptList({super().__repr__()})'


def _items(other: Iterable[Any]) -> Iterable[Any]:
    return [other] if isinstance(other, str) and other else other


def _describe_entry(item: Any) -> str:
    return item if isinstance(item, str) else f'{item["role"]}: {item.get("prompt", item.get("content", ""))}'


def spread_content(content: Content, change: Change) -> Content:
    """Replace each piece of the content."""
    return _spread(content, change) if isinstance(content, tuple) else content.spread(change)


def map_content(content: Content, change: Callable[[Piece], Piece]) -> Content:
    return spread_content(content, lambda piece: (change(piece),))


def content_pieces(content: Content) -> Iterator[Piece]:
    """Every piece in a speech's content."""
    return iter(content) if isinstance(content, tuple) else content.pieces()


def item_pieces(item: Item) -> Iterator[Piece]:
    if isinstance(item, Expand):
        return
    if isinstance(item, Turn):
        yield from item.begin or ()
    yield from content_pieces(item.content)
    if isinstance(item, Turn):
        yield from item.end or ()


def spread_item(item: Item, change: Change) -> Item:
    """Replace each piece of the item."""
    if isinstance(item, Expand):
        return item
    if isinstance(item, BareText):
        return replace(item, content=_spread(item.content, change))
    return replace(
        item,
        content=spread_content(item.content, change),
        begin=None if item.begin is None else _spread(item.begin, change),
        end=None if item.end is None else _spread(item.end, change),
    )


def _spread(pieces: Pieces, change: Change) -> Pieces:
    return tuple(new for piece in pieces for new in change(piece))


def _bind_item(item: Item, row: Row, shot: int | None) -> Iterator[Item]:
    """The item with its fields filled; a column of messages gives one speech per message."""
    if isinstance(item, Expand):
        yield from _expand(item, row, shot)
    elif isinstance(item, Turn) and not isinstance(item.content, tuple):
        begin, end = (None if affix is None else bind(affix, row, shot=shot) for affix in (item.begin, item.end))
        yield replace(item, content=item.content.bind(row, shot=shot), begin=begin, end=end)
    else:
        yield spread_item(item, lambda piece: (bind_piece(piece, row, shot=shot),))


def _expand(item: Expand, row: Row, shot: int | None) -> Iterator[Turn | BareText]:
    """The messages in a row's column, or made from the row, as speeches. They are data: their text is never filled."""
    messages = row.get(item.column) if item.compose is None else item.compose(row)
    if not isinstance(messages, (list, tuple)):
        raise RenderError(f"expand_column '{item.column}' needs a list of messages; the row has {messages!r:.60}.")
    for message in messages:
        if isinstance(message, str) and item.compose is not None:
            yield BareText((Text(message, Origin('field', item.column, shot=shot)),), item.section, shot)
            continue
        if not isinstance(message, Mapping) or not isinstance(message.get('role'), str):
            raise RenderError(f"column '{item.column}': expected a message with a role, got {message!r:.60}.")
        origin = Origin('field', item.column, shot=shot)
        yield replace(item.parse(message, origin), section=item.section, shot=shot)


def prompt_entry(item: Item, *, raw: bool) -> str | FrozenDict:
    """The PromptList entry for an item whose fields are filled."""
    if isinstance(item, BareText):
        return fold(item.content)
    if isinstance(item, Expand):
        raise RenderError(f"column '{item.column}' was not expanded.")
    speech: dict[str, Any] = {'role': item.role}
    if item.fallback_role is not None:
        speech['fallback_role'] = item.fallback_role
    for key, affix in (('begin', item.begin), ('end', item.end)):
        if affix is not None:
            speech[key] = fold(affix)
    if item.generate is not None:
        speech['generate'] = item.generate
    if not item.silent:
        content = item.content
        speech['content' if raw else 'prompt'] = (
            fold(content) if isinstance(content, tuple) else [part.part for part in content.write({})]
        )
    return FrozenDict(speech | dict(item.extra))


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
