"""What a prompter can be bound to: special tokens, a meta template, a chat template, or a renderer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rolecall.core.prompters.special_tokens import TOKEN_NAMES, Tokens
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.meta import MetaTemplate
from rolecall.core.render.renderers import ApiRenderer, Renderer, TextRenderer
from rolecall.errors import PrompterError

BoundModel = Tokens | Renderer | MetaTemplate | ChatTemplate | Mapping[str, Any]


def read_model(model: Any) -> Tokens | Renderer:
    """The tokens or the renderer that `Prompter.bind` names.

    >>> read_model({'soh': '<user>'}).soh
    '<user>'
    """
    if isinstance(model, Tokens):
        return model
    if isinstance(model, ApiRenderer):
        raise PrompterError("an API takes messages: use return_dict=True or format='anthropic' instead of bind.")
    if isinstance(model, MetaTemplate):
        return TextRenderer(model)
    if isinstance(model, ChatTemplate):
        from rolecall.core.render.chat_renderer import ChatRenderer  # chat templates take a while to import

        return ChatRenderer(model)
    if isinstance(model, Mapping):
        is_meta = any(key in ('round', 'reserved_roles', 'begin', 'end') for key in model)
        return TextRenderer(MetaTemplate.read(model)) if is_meta else Tokens.read(model)
    if hasattr(model, 'render'):
        side: Renderer = model
        return side
    raise PrompterError(
        f'expected tokens ({", ".join(TOKEN_NAMES[:3])}, …), a meta template, a chat template or a renderer, '
        f'got {model!r:.60}.'
    )
