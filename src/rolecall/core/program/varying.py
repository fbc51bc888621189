"""Prompts whose examples vary by row. Each training row is rendered once and reused."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from rolecall.core.program.compiled import (
    Program,
    Render,
    RendererLike,
    Trace,
    WordingLike,
    as_renderer,
    as_wording,
    compile,
    render_with,
)
from rolecall.core.prompts.frozen import FrozenDict
from rolecall.core.prompts.pieces import SHOTS, Field, Origin, Row, Text
from rolecall.core.prompts.script import (
    BareText,
    Expand,
    Item,
    Joints,
    PromptList,
    Script,
    Turn,
    insert_shots,
    place_text,
)
from rolecall.core.prompts.wording import Mode, Wording
from rolecall.core.render.layout import MessagesLayout
from rolecall.core.render.meta import MetaTemplate
from rolecall.core.render.renderers import ApiRenderer, Renderer, TextRenderer, has_words
from rolecall.core.render.spans import Message, Request

_COLUMN = '\0shots'
_FIELD = Field(_COLUMN, '', Origin('field', 'shots'))
_SPEECHES = Script((BareText((_FIELD,), 'shots'),))
_PLACE = BareText((SHOTS,))
_Worded = TypeVar('_Worded')


class Indexed(Protocol):
    """Training rows by number."""

    def __getitem__(self, index: int, /) -> Row: ...


class VaryingProgram:
    """A prompt whose examples vary by row.

    >>> from rolecall import PromptTemplate
    >>> from rolecall.core import Wording
    >>> wording = Wording(PromptTemplate('</E>{q}', ice_token='</E>'), PromptTemplate('{q}={a}'), output_column='a')
    >>> program = VaryingProgram(wording, train=[{'q': '1', 'a': 'one'}, {'q': '2', 'a': 'two'}])
    >>> program({'q': '3'}, [1, 0])
    '2=two\\n1=one\\n3'
    """

    def __init__(
        self,
        wording: WordingLike,
        renderer: RendererLike | None = None,
        *,
        train: Indexed,
        mode: Mode = 'gen',
        label: Hashable = None,
        prefill: bool = False,
    ) -> None:
        wording, renderer = as_wording(wording), as_renderer(renderer)
        script = wording.script(label, mode)
        wording.check_place(script)
        self._train = train
        self._fixed = partial(compile, wording, renderer, mode=mode, label=label, prefill=prefill)
        self._fill = self._quick_fill(wording, renderer, script, mode, prefill)

    def _quick_fill(
        self, wording: Wording, renderer: Renderer, script: Script, mode: Mode, prefill: bool
    ) -> Callable[[Row, Sequence[int]], Request | None] | None:
        """A fill function that renders each training row once; None where its output could differ from `with_shots`."""
        shots = wording.shot_scripts
        if not all(map(_is_text, (script, *shots))):
            return None
        joints = wording.shot_joints
        in_text = partial(_TextShots, render_with(renderer, mode, prefill=prefill), self._train)
        if not wording.shots_are_dialogues:
            if not all(shot.plain and any(map(has_words, shot.pieces())) for shot in shots):
                return None
            placed = place_text(script, (_FIELD, Text(joints.end, Origin('joint', 'shots'))))
            return in_text(placed, lambda row: str(wording.shot(row, 0).fill({})), joints.separator.join)
        if script.raw or not all(shot.items and not shot.raw for shot in shots):
            return None
        if (
            isinstance(renderer, TextRenderer)
            and renderer.writes_text
            and all(renderer.stands_alone(shot.items) for shot in shots)
        ):
            last = joints.end if wording.shots_have_labels else ''
            join = ''.join if renderer.has_rounds else _join_lines
            placed = insert_shots(script, [_SPEECHES], Joints('', ''))
            return in_text(placed, _dialogue_words(wording, renderer), lambda texts: join([*texts, last]))
        if isinstance(renderer, ApiRenderer) and _stand_alone(script, shots, joints, renderer.meta):
            return _MessageShots(
                script,
                mode,
                self._train,
                wording,
                lambda part, mode: MessagesLayout(renderer.drafts(part, mode, prefill=prefill)[0]),
            )
        return None

    def __call__(self, row: Row, shots: Sequence[int]) -> Request:
        """The request for one row with these training rows as examples."""
        request = self._fill(row, shots) if self._fill and shots else None
        return self.with_shots(shots)(row) if request is None else request

    def trace(self, row: Row, shots: Sequence[int]) -> Trace:
        """The same request, with the origin of every character."""
        return self.with_shots(shots).trace(row)

    def prompt(self, row: Row, shots: Sequence[int]) -> str | PromptList:
        """The prompt before rendering."""
        return self.with_shots(shots).prompt(row)

    def with_shots(self, shots: Sequence[int]) -> Program:
        """The program with these examples for every row."""
        return self._fixed(shots=[self._train[i] for i in shots])


class _Once(dict[int, _Worded]):
    """What is made of each training row when it is first needed, by its number."""

    def __init__(self, make: Callable[[int], _Worded]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, i: int) -> _Worded:
        self[i] = worded = self._make(i)
        return worded


class _TextShots:
    """Examples that end up as text and fill a field of their own. Examples without any text go through `with_shots`."""

    def __init__(
        self,
        render: Render,
        train: Indexed,
        placed: Script,
        words: Callable[[Row], str],
        join: Callable[[Iterable[str]], str],
    ) -> None:
        self._program = Program(placed, render)
        self._word = _Once(lambda i: words(train[i])).__getitem__
        self._join = join

    def __call__(self, row: Row, shots: Sequence[int]) -> Request | None:
        text = self._join(map(self._word, shots))
        return self._program({**row, _COLUMN: text}) if text else None


def _join_lines(texts: Iterable[str]) -> str:
    return '\n'.join(filter(None, texts))


def _dialogue_words(wording: Wording, renderer: TextRenderer) -> Callable[[Row], str]:
    joint = BareText((Text(wording.shot_joints.separator, Origin('joint', 'shots')),), 'shots')

    def words(row: Row) -> str:
        items: tuple[Item, ...] = wording.shot(row, 0).items
        return renderer.render_fragment((*items, joint) if wording.shots_have_labels else items)

    return words


_Layout = Callable[[Script, Mode], MessagesLayout]


class _MessageShots:
    """Examples that end up as messages between the messages before and after them."""

    def __init__(self, script: Script, mode: Mode, train: Indexed, wording: Wording, layout: _Layout) -> None:
        at = script.items.index(_PLACE)
        self._before = layout(replace(script, items=script.items[:at]), 'ppl')
        self._after = layout(replace(script, items=script.items[at + 1 :]), mode)
        self._word = _Once(lambda i: layout(Script(wording.shot(train[i], 0).items), 'ppl').fill({})).__getitem__

    def __call__(self, row: Row, shots: Sequence[int]) -> list[Message]:
        return _join_groups([self._before.fill(row), *map(self._word, shots), self._after.fill(row)])


def _is_text(script: Script) -> bool:
    """Whether the script has only text: no images, audio or video."""
    return all(isinstance(item, Expand) or isinstance(item.content, tuple) for item in script.items)


def _stand_alone(script: Script, shots: Sequence[Script], joints: Joints, meta: MetaTemplate) -> bool:
    """Whether examples go between whole messages, so that only the roles of their neighbours matter."""
    around = [item for item in script.items if item != _PLACE]
    turns = all(isinstance(item, Turn) for part in (script, *shots) for item in part.items if item != _PLACE)
    strays = meta.begin or meta.end or meta.messages or any(isinstance(item, Text) for item in meta.round or ())
    return turns and len(around) == len(script.items) - 1 and not (strays or (joints.separator + joints.end).strip())


def _join_groups(groups: Sequence[list[Message]]) -> list[Message]:
    """Concatenate groups of messages, joining neighbours of one role where two groups meet."""
    messages: list[Message] = []
    for group in groups:
        if messages and group and messages[-1]['role'] == group[0]['role']:
            content = f'{messages[-1]["content"]}\n{group[0]["content"]}'
            messages[-1] = FrozenDict(role=group[0]['role'], content=content)
            messages += group[1:]
        else:
            messages += group
    return messages
