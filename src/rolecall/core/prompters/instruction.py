"""Parses an instruction: its system-level text, its user-level text, and their slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rolecall.core.prompts.pieces import Field, Origin, Piece, Pieces, Text, parse
from rolecall.errors import PrompterError

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
