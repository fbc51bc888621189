"""Puts the row's own answer into its place in a prompt, for fine-tuning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rolecall.core.prompts.pieces import Field, Origin, Pieces, is_hidden
from rolecall.core.prompts.script import BareText, Item, Script, Turn, content_pieces, map_content
from rolecall.core.prompts.wording import Mode
from rolecall.core.render.chat_renderer import ChatLayout, ChatRenderer
from rolecall.core.render.meta import MetaTemplate
from rolecall.core.render.renderers import API_ROLES, ApiRenderer, Rendered, Renderer, TextRenderer


@dataclass(frozen=True, slots=True)
class MessagesRenderer:
    """Renders the messages that a chat template would receive, one step before the text."""

    renderer: Renderer

    def render(self, script: Script, mode: Mode, *, prefill: bool = False) -> Rendered:
        rendered = self.renderer.render(script, mode, prefill=prefill)
        layout = rendered.layout
        return Rendered(layout.messages, rendered.notes) if isinstance(layout, ChatLayout) else rendered


def roles_of(renderer: Renderer) -> MetaTemplate | None:
    """The roles of a renderer, if it has any."""
    inner = renderer.renderer if isinstance(renderer, MessagesRenderer) else renderer
    if isinstance(inner, (ApiRenderer, ChatRenderer)):
        return API_ROLES if inner.meta.round is None else inner.meta
    return inner.meta if isinstance(inner, TextRenderer) and inner.has_rounds else None


def show_answer(script: Script, column: str, renderer: Renderer) -> Script:
    """The prompt up to its answer, with the output column shown only there."""
    answer = Field(column, f'{{{column}}}', Origin('label', column))
    if script.plain and isinstance(renderer, TextRenderer):
        return replace(script, items=tuple(_with_answer_in_text(script.items, answer)))
    if script.plain:
        return Script((Turn('user', tuple(script.pieces())), Turn('assistant', (answer,))), raw=True)
    at = _answer_at(script, renderer)
    if at is None:
        name = 'assistant' if script.raw else _answer_role_name(renderer)
        section = script.items[-1].section if script.items else 'round'
        speech = Turn(name, (answer,), section='end' if section == 'end' else 'round')
        return replace(script, items=(*script.items, speech))
    return replace(script, items=(*script.items[:at], _with_answer(script.items[at], answer)))


def _with_answer_in_text(items: Sequence[Item], answer: Field) -> Iterator[Item]:
    """A string with the answer at the last hidden field, or at the end."""
    for item in items:
        if isinstance(item, BareText):
            hidden = [i for i, piece in enumerate(item.content) if is_hidden(piece)]
            at, after = (hidden[-1], hidden[-1] + 1) if hidden else (len(item.content), len(item.content))
            item = replace(item, content=(*item.content[:at], answer, *item.content[after:]))
        yield item


def _answer_at(script: Script, renderer: Renderer) -> int | None:
    """Which speech is the answer: the last that hides it, or else the final speech if the model generates it."""
    own = [i for i, item in enumerate(script.items) if isinstance(item, Turn) and _is_models(item, renderer)]
    hiding = [i for i in own if any(map(is_hidden, _pieces(script.items[i])))]
    if hiding:
        return hiding[-1]
    return own[-1] if own and own[-1] == len(script.items) - 1 and not script.raw else None


def _is_models(turn: Turn, renderer: Renderer) -> bool:
    meta = roles_of(renderer)
    if meta is None or turn.role == 'assistant':
        return turn.role in ('BOT', 'assistant')
    role = meta.roles.get(turn.role) or meta.roles.get(turn.fallback_role or '')
    return role is not None and role.generate


def _answer_role_name(renderer: Renderer) -> str:
    meta = roles_of(renderer)
    return next((role.name for role in meta.roles.values() if role.generate), 'BOT') if meta else 'BOT'


def _with_answer(item: Item, answer: Field) -> Item:
    if not isinstance(item, Turn):
        return item
    if any(map(is_hidden, _pieces(item))):
        return replace(item, content=map_content(item.content, lambda piece: answer if is_hidden(piece) else piece))
    if isinstance(item.content, tuple):
        return replace(item, content=(*item.content, answer), silent=False)
    return item


def _pieces(item: Item) -> Pieces:
    return tuple(content_pieces(item.content)) if isinstance(item, Turn) else ()
