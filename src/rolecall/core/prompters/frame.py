"""A prompter's constant text: its instruction, parsed, and the layouts compiled from it once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from rolecall.core.prompters.special_tokens import MARKERS, Tokens
from rolecall.core.prompters.tool_specs import Tools
from rolecall.core.prompters.vendors import Message
from rolecall.core.prompts.frozen import FrozenDict
from rolecall.core.prompts.pieces import Field, Origin, Piece, Pieces, Row, Text, parse
from rolecall.core.render.layout import TextLayout
from rolecall.errors import PrompterError, did_you_mean

_EXTRA_HEAD = 'Here are some extra messages you can referred to:\n\n'


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction with unfilled slots."""

    system: Pieces
    user: Pieces
    slots: tuple[str, ...]


def slots_in(text: str, origin: Origin) -> Pieces:
    """Parse text into pieces and slots. A slot is a name in single braces; all other braces are text.

    >>> [p.column for p in slots_in('{"a": {数}} {x y} {{no}} {b}', Origin('text')) if isinstance(p, Field)]
    ['数', 'b']
    """
    pieces = parse(text)
    slotted: list[Piece] = []
    words = ''
    for i, piece in enumerate(pieces):
        if isinstance(piece, Field) and piece.column.isidentifier() and not _in_double_braces(pieces, i):
            slotted += [Text(words, origin), piece] if words else [piece]
            words = ''
        else:
            words += piece.source if isinstance(piece, Field) else getattr(piece, 'text', '')
    return (*slotted, Text(words, origin)) if words else tuple(slotted)


def _in_double_braces(pieces: Pieces, at: int) -> bool:
    before, after = pieces[at - 1] if at else None, pieces[at + 1] if at + 1 < len(pieces) else None
    opened = isinstance(before, Text) and before.text.endswith('{')
    return opened and isinstance(after, Text) and after.text.startswith('}')


def read_instruction(source: Any, extra_keys: Any, template: str, *, user_level: bool) -> Instruction:
    """Parse an instruction and put it into the prompter's instruction template.

    A string, or a mapping with one level, is the instruction. With both levels, the system text ends as written and
    extra keys go to the user level. A prompter without a user level (`user_level=False`) uses a lone `user` as the
    instruction.
    """
    levels = _levels(source)
    keys = _extra_keys(extra_keys)
    alone = 'user' if set(levels) == {'user'} and not user_level else 'system'
    system = slots_in(levels.get(alone, ''), Origin('text', 'instruction'))
    user = slots_in(levels.get('user', ''), Origin('text', 'user')) if alone == 'system' else ()
    head, tail = _around_instruction(template)
    extra = tuple(_extra_pieces(keys))
    ending = [piece for part in tail for piece in (extra if isinstance(part, Field) else (part,))]
    if user:
        system = (*head, *system) if system else ()
        user = (*user, *ending) if extra else user
    elif system or extra:
        system = (*head, *system, *ending)
    slots = dict.fromkeys(piece.column for piece in (*system, *user) if isinstance(piece, Field))
    return Instruction(system, user, tuple(slots))


def _levels(source: Any) -> Mapping[str, str]:
    if source is None or isinstance(source, str):
        return {'system': source} if source else {}
    if not isinstance(source, Mapping):
        raise PrompterError(f'instruction must be a string or a mapping with system and user, got {source!r:.60}.')
    unknown = [str(key) for key in source if key not in ('system', 'user')]
    if unknown:
        raise PrompterError(f'instruction keys must be system and user, got {", ".join(unknown)}.')
    for key, text in source.items():
        if not isinstance(text, str):
            raise PrompterError(f'the {key} instruction must be a string, got {text!r:.60}.')
    return {key: text for key, text in source.items() if text}


def _extra_keys(source: Any) -> tuple[str, ...]:
    keys: Sequence[Any] = (source,) if isinstance(source, str) else source or ()
    if not isinstance(keys, (list, tuple)) or not all(isinstance(key, str) and key for key in keys):
        raise PrompterError(f'extra_keys must be a name or a list of names, got {source!r:.60}.')
    return tuple(dict.fromkeys(keys))


def _extra_pieces(keys: Sequence[str]) -> Iterator[Piece]:
    words = Origin('text', 'extra_keys')
    if keys:
        yield Text(_EXTRA_HEAD, words)
    for key in keys:
        yield from (Text(f'### {key}:\n', words), Field(key, f'{{{key}}}', Origin('field', key)), Text('\n\n', words))


def _around_instruction(template: str) -> tuple[Pieces, Pieces]:
    """The instruction template before and after its instruction."""
    pieces = slots_in(template, Origin('text', 'instruction_template'))
    names = [piece.column for piece in pieces if isinstance(piece, Field)]
    if names not in (['instruction', 'extra_keys'], ['instruction']):
        raise PrompterError(
            f'an instruction template needs {{instruction}}, then optionally {{extra_keys}}; found {names or "none"}.'
        )
    at = next(i for i, piece in enumerate(pieces) if isinstance(piece, Field))
    return pieces[:at], pieces[at + 1 :]


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
        'fill_user', 'opening', 'prefix_layout', 'system', 'system_layout', 'user', 'user_layout', 'user_pieces',
    )  # fmt: skip

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
