"""A prompter's constant text, compiled once: its string layout, and its system and user messages."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

from rolecall.core.prompters.instruction import Instruction, slots_in
from rolecall.core.prompters.special_tokens import MARKERS, Tokens
from rolecall.core.prompters.tool_specs import Tools
from rolecall.core.prompters.vendors import Message
from rolecall.core.prompts.frozen import FrozenDict
from rolecall.core.prompts.pieces import Field, Origin, Piece, Pieces, Row, Text
from rolecall.core.render.layout import TextLayout
from rolecall.errors import PrompterError, did_you_mean

INPUT, HISTORY, TOOLS = '\0input', '\0history', '\0tools'
"""Columns of a call; the NUL keeps them apart from slots."""

TEMPLATE_FIELDS = ('system', 'instruction', 'tools', 'history', 'user', 'input', *MARKERS)

_INPUT = Field(INPUT, '', Origin('field', 'input'))
_HISTORY = Field(HISTORY, '', Origin('field', 'history'))
_TOOLS = Field(TOOLS, '', Origin('text', 'tools'))
_TEMPLATE = Origin('marker', 'template')
_JOINT = Text('\n', Origin('joint', 'speeches'))


def fields_of(template: str) -> tuple[str, ...]:
    """The fields a template uses, checked.

    >>> fields_of('{system}: {input}')
    ('system', 'input')
    """
    names = [piece.column for piece in slots_in(template, Origin('marker')) if isinstance(piece, Field)]
    for name in names:
        if name not in TEMPLATE_FIELDS:
            raise PrompterError(f'unknown template field {name!r}. {did_you_mean(name, TEMPLATE_FIELDS)}')
        if names.count(name) > 1 and name not in MARKERS:
            raise PrompterError(f'a template may use each field once; {name!r} occurs {names.count(name)} times.')
    return tuple(names)


def _calling(tokens: Tokens) -> str:
    """The instruction on how to call a tool, if the model has tokens for it."""
    if not tokens.tool_start:
        return ''
    call = tokens.call('tool-name', '{"argument": "value"}')
    return f'### Function-call Format. \n\n{call}\n\n'


class Levels:
    """The system-level and user-level text of a call, for messages.

    `opening` is the system message, if it is the same for every call.
    """

    __slots__ = (
        'fill_user',
        'opening',
        'prefix_layout',
        'system',
        'system_layout',
        'user',
        'user_layout',
        'user_pieces',
    )

    def __init__(self, system: Pieces, user: Pieces) -> None:
        self.system = system
        self.user = user
        self.user_pieces: Pieces = (*user, _INPUT)
        self.system_layout = TextLayout(system)
        self.user_layout = TextLayout(self.user_pieces)
        self.prefix_layout = TextLayout(user)
        self.opening = tuple(map(FrozenDict, self.write_system({}))) if self.system_layout.is_constant else ()
        self.fill_user: Callable[[Row], str] = self.user_layout.fill if user else itemgetter(INPUT)

    def write_system(self, row: Row) -> tuple[Message, ...]:
        """The system message of one call, if any."""
        return ({'role': 'system', 'content': self.system_layout.fill(row)},) if self.system else ()


class Frame:
    """Everything about a prompter that is the same for every call.

    `fill_text` writes the string form, `fill_first` that of a conversation without history.

    `has_system` is whether there is a system level at all.

    `plain` holds the text at its own level. `turned` moves the instruction to the user, for models that need a user
    message when the input only fills slots of the instruction.
    """

    __slots__ = ('_text_pieces', 'calling', 'fill_first', 'fill_text', 'has_system', 'plain', 'turned')

    def __init__(
        self,
        template: str,
        instruction: Instruction,
        *,
        tokens: Tokens,
        system: str,
        tools: Tools | None,
        enable_system: bool,
        before_user: str,
    ) -> None:
        self.calling = _calling(tokens)
        self.has_system = enable_system
        sentence = (Text(system, Origin('message', 'system')),) if system and '{system}' in template else ()
        joined = (*sentence, *([_JOINT] if sentence and instruction.system else []), *instruction.system)
        spoken = (*instruction.system, *instruction.user)
        self.plain = Levels(joined, instruction.user) if enable_system else Levels((), spoken)
        self.turned = Levels(sentence if enable_system else (), spoken)
        tool_words = (Text(tools.words + self.calling, Origin('text', 'tools')),) if tools else (_TOOLS,)
        places: dict[str, Pieces] = {name: (Text(getattr(tokens, name), Origin('marker', name)),) for name in MARKERS}
        places |= {'history': (_HISTORY,), 'input': (_INPUT,), 'tools': tool_words, 'user': instruction.user}
        if instruction.user:
            places['user'] = (Text(before_user, _TEMPLATE), *instruction.user)
        if enable_system:
            places |= {'system': sentence, 'instruction': instruction.system}
        else:
            places |= dict.fromkeys(('system', 'instruction', 'tools', 'sos', 'eos'), ())
            places['user'] = (*instruction.system, *tool_words, *places['user'])
        self._text_pieces = _without_leading_breaks(_fill_places(template, places))
        self.fill_text = TextLayout(self._text_pieces).fill
        self.fill_first = self.text_with(()).fill

    def text_with(self, history: Pieces) -> TextLayout:
        """The string form with the pieces of a history inserted."""
        pieces = [part for piece in self._text_pieces for part in (history if piece is _HISTORY else (piece,))]
        return TextLayout(pieces if history else _without_leading_breaks(pieces))


def _fill_places(template: str, places: dict[str, Pieces]) -> list[Piece]:
    pieces: list[Piece] = []
    for piece in slots_in(template, _TEMPLATE):
        pieces += places[piece.column] if isinstance(piece, Field) else (piece,)
    return pieces


def _without_leading_breaks(pieces: list[Piece]) -> Pieces:
    """Remove the template's line breaks from the start of a prompt."""
    for i, piece in enumerate(pieces):
        if isinstance(piece, Text) and piece.origin == _TEMPLATE and piece.text.strip('\n') == '':
            continue
        if isinstance(piece, Text) and not piece.text:
            continue
        if isinstance(piece, Text) and piece.origin == _TEMPLATE:
            piece = Text(piece.text.lstrip('\n'), _TEMPLATE)
        return (piece, *pieces[i + 1 :])
    return ()
