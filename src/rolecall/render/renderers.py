"""The model sides: text models with and without a meta template, APIs, and models with a chat template of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from rolecall.errors import Problem, RenderError, TemplateError
from rolecall.prompts.multimodal import JoinedParts, RawParts, SpokenParts
from rolecall.prompts.pieces import Origin, Piece, Pieces, Text, Token, fold, relabel
from rolecall.prompts.script import BareText, Content, Expand, Item, Script, Turn, content_pieces
from rolecall.prompts.wording import Mode
from rolecall.render.arrange import Arrangement, Note, Utterance, arrange
from rolecall.render.layout import Layout, MessageDraft, MessagesLayout, TextLayout, lines_layout, text_layout
from rolecall.render.meta import MetaTemplate, Role

__all__ = [
    'API_ROLES',
    'ApiRenderer',
    'DatasetRenderer',
    'Rendered',
    'Renderer',
    'TextRenderer',
    'has_words',
    'join_neighbours',
]

_JOINT = Text('\n', Origin('joint', 'speeches'))
_VALUES = ('field', 'unfilled', 'label', 'reply')
_CALLS = ('tool_calls', 'function_call')
_RAW_ROLES = {'user': ('HUMAN', None), 'assistant': ('BOT', None), 'system': ('SYSTEM', 'HUMAN')}

API_ROLES = MetaTemplate.read(
    {
        'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}],
        'reserved_roles': [{'role': 'SYSTEM', 'api_role': 'SYSTEM'}],
    }
)
"""How an API is addressed when its config says nothing else."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The compiled form of one prompt, and what happened to the dataset's words."""

    layout: Layout
    notes: tuple[Note, ...] = ()


class Renderer(Protocol):
    """A model side: turns a script into the layout of a request."""

    def render(self, script: Script, mode: Mode, *, prefill: bool = False) -> Rendered:
        """The request for this script. With `prefill`, the words the dataset begins the answer with are sent, too."""


@dataclass(frozen=True, slots=True)
class TextRenderer:
    """A text model: with a meta template, or without (then speeches are joined with line breaks)."""

    meta: MetaTemplate | None = None
    encode: Callable[[str], Sequence[int]] | None = None
    """The model's tokenizer, for meta templates that hold token ids."""

    def __post_init__(self) -> None:
        if self.meta is not None:
            object.__setattr__(self, 'meta', MetaTemplate.read(self.meta))

    @property
    def has_rounds(self) -> bool:
        """Whether speeches are wrapped by the model's roles (and not joined with line breaks)."""
        return self.meta is not None and self.meta.round is not None

    @property
    def writes_text(self) -> bool:
        """Whether what stands around speeches is text alone, without token ids."""
        roles = self.meta.roles.values() if self.has_rounds and self.meta else ()
        return not any(isinstance(piece, Token) for role in roles for piece in (*role.begin, *role.end))

    def stands_alone(self, items: Sequence[Item]) -> bool:
        """Whether the text of some speeches does not depend on those around them.

        It may where a round says something by itself, since neighbours may share a round; but not if the speeches fill
        theirs from its first role to its last.
        """
        if self.meta is None or self.meta.round is None:
            return True
        ends = (self.meta.round[0], self.meta.round[-1])
        if not any(isinstance(one, Text) or one.default is not None for one in self.meta.round):
            return True
        spoken = [item.role if isinstance(item, Turn) else None for item in (items[0], items[-1])]
        return spoken == [one.name if isinstance(one, Role) else '' for one in ends]

    def render_fragment(self, items: Sequence[Item]) -> str:
        """The text of some speeches on their own, without the words around the whole conversation.

        It is all there is of them only if the model side `writes_text`, and they can stand alone.
        """
        if self.meta is None or self.meta.round is None:
            return str(lines_layout([_line_of(item) for item in items]).fill({}))
        spoken = arrange(items, self.meta, 'ppl').utterances
        return ''.join(fold((*one.begin, *_text_content(one.content), *one.end)) for one in spoken)

    def render(self, script: Script, mode: Mode, *, prefill: bool = False) -> Rendered:
        if script.plain:
            return Rendered(TextLayout(_only_text(script)))
        script, notes = _as_texts(script)
        items = _named_roles(script)
        if self.meta is None or self.meta.round is None:
            begin, end = (self.meta.begin, self.meta.end) if self.meta else ((), ())
            if self.meta and self.meta.messages:
                items = (*_added_turns(self.meta), *items)
            return Rendered(lines_layout([_line_of(item) for item in items], begin, end, self.encode), notes)
        arranged = arrange(items, self.meta, mode)
        pieces = [*self.meta.begin]
        for utterance in _before_answer(arranged):
            pieces += [*utterance.begin, *_text_content(utterance.content), *utterance.end]
        notes += arranged.notes
        if arranged.answering:
            answer = arranged.utterances[-1]
            pieces += answer.begin
            if prefill:
                pieces += _text_content(answer.content)
            else:
                notes += _note_withheld(answer)
        else:
            pieces += self.meta.end
        return Rendered(text_layout(pieces, self.encode), notes)


@dataclass(frozen=True, slots=True)
class ApiRenderer:
    """A chat API: speeches become messages; neighbours of one role are joined; no words are lost."""

    meta: MetaTemplate = field(default=API_ROLES)

    def __post_init__(self) -> None:
        object.__setattr__(self, 'meta', MetaTemplate.read(self.meta))

    def render(self, script: Script, mode: Mode, *, prefill: bool = False) -> Rendered:
        drafts, notes = self.drafts(script, mode, prefill=prefill)
        return Rendered(MessagesLayout(drafts), notes)

    def drafts(
        self, script: Script, mode: Mode, *, prefill: bool = False
    ) -> tuple[list[MessageDraft], tuple[Note, ...]]:
        """The messages with their fields open."""
        if script.plain:
            return _with_added([MessageDraft('user', _only_text(script))], self.meta), ()
        if script.raw:
            return self._raw_drafts(script, mode, prefill=prefill)
        roles = API_ROLES if self.meta.round is None else self.meta
        arranged = arrange(script.items, roles, mode)
        utterances = list(_before_answer(arranged))
        notes = list(arranged.notes)
        if arranged.answering:
            answer = arranged.utterances[-1]
            if prefill and any(map(has_words, content_pieces(answer.content))):
                utterances.append(replace(answer, end=()))
            else:
                notes += _note_withheld(answer)
        if self.meta.begin:
            utterances.insert(0, Utterance(self.meta.begin, section='begin', from_dataset=False))
        if self.meta.end and not arranged.answering:
            utterances.append(Utterance(self.meta.end, section='end', from_dataset=False))
        drafts = join_neighbours(_as_messages(utterances, roles, notes), notes)
        return _with_added(drafts, self.meta), tuple(notes)

    def _raw_drafts(self, script: Script, mode: Mode, *, prefill: bool) -> tuple[list[MessageDraft], tuple[Note, ...]]:
        """Raw messages go as they are; only an answer that the dataset hides is not sent."""
        turns = [item for item in script.items if isinstance(item, Turn)]
        notes: tuple[Note, ...] = ()
        if mode == 'gen' and turns and turns[-1].role == 'assistant' and _hides_answer(turns[-1].content):
            answer = turns[-1].content
            if not (prefill and any(map(has_words, content_pieces(answer)))):
                notes = _note_withheld(Utterance(answer))
                turns = turns[:-1]
        stray = [item for item in script.items if isinstance(item, BareText) and any(map(has_words, item.content))]
        if stray:
            what = 'the examples are strings, and the messages have no speech to put them in.'
            raise TemplateError(Problem('ice_template', what, 'Use a RawPromptTemplate for the examples, too.'))
        drafts = [MessageDraft(turn.role, turn.content, turn.extra, turn.silent) for turn in turns]
        return _with_added(drafts, self.meta), notes


@dataclass(frozen=True, slots=True)
class DatasetRenderer:
    """No model at all: each speech as the dataset has it, bare strings as messages of nobody."""

    def render(self, script: Script, mode: Mode, *, prefill: bool = False) -> Rendered:
        if script.plain:
            return Rendered(TextLayout(_only_text(script)))
        drafts = [
            MessageDraft(item.role if isinstance(item, Turn) else '', item.content)
            for item in script.items
            if isinstance(item, (Turn, BareText))
        ]
        return Rendered(MessagesLayout(drafts))


def _only_text(script: Script) -> Pieces:
    return tuple(piece for item in script.items if isinstance(item, BareText) for piece in item.content)


def _before_answer(arranged: Arrangement) -> tuple[Utterance, ...]:
    """What is said before the answer."""
    return arranged.utterances[:-1] if arranged.answering else arranged.utterances


def _note_withheld(answer: Utterance) -> tuple[Note, ...]:
    """A note about the words that the dataset puts into the model's mouth, if it does."""
    text = ''.join(piece.text for piece in content_pieces(answer.content) if isinstance(piece, Text))
    if not text.strip():
        return ()
    return (Note('not_sent', 'the answer is left to the model, so its first words are not sent (see prefill).', text),)


def _named_roles(script: Script) -> tuple[Item, ...]:
    """Raw messages under the names that meta templates use."""
    if not script.raw:
        return script.items
    return tuple(
        replace(item, role=_RAW_ROLES[item.role][0], fallback_role=_RAW_ROLES[item.role][1])
        if isinstance(item, Turn) and item.role in _RAW_ROLES
        else item
        for item in script.items
    )


def _as_texts(script: Script) -> tuple[Script, tuple[Note, ...]]:
    """Raw messages as a text model can be told them, and a note about each key that it cannot be told."""
    texts: list[Item] = []
    notes: list[Note] = []
    for item in script.items:
        if isinstance(item, Turn):
            notes += _note_unsupported_keys(item)
            item = replace(item, content=_joined_texts(item.content))
        texts.append(item)
    return replace(script, items=tuple(texts)), tuple(notes)


def _note_unsupported_keys(turn: Turn) -> Iterator[Note]:
    """What a message has beside its words. One that calls tools says something else than its words: it is refused."""
    for key, value in turn.extra.items():
        if not value:
            continue
        if key in _CALLS:
            what = f'a message of {turn.role} has {key}, which this model cannot be told: it takes text only.'
            remedy = 'Use a model with a chat API or a chat template, or write the call into the content.'
            raise TemplateError(Problem('prompt_template', what, remedy))
        yield Note(
            'not_sent', f'a message of {turn.role} has {key}, which a model that takes text cannot be told.', key
        )


def _joined_texts(content: Content) -> Content:
    """The parts of a message as one text, each on a line of its own, if all of them are texts."""
    if not isinstance(content, RawParts) or not all(entry.is_text for entry in content.entries):
        return content
    lines = [entry.words for entry in content.entries]
    return tuple(piece for i, words in enumerate(lines) for piece in ((_JOINT, *words) if i else words))


def _text_content(content: Content) -> Pieces:
    if isinstance(content, tuple):
        return content
    raise TemplateError(
        Problem(
            'prompt_template',
            'the prompt has pictures, sound or film in it; this model takes text only.',
            'Use a model with a chat API that takes media.',
        )
    )


def _line_of(item: Item) -> Pieces:
    if isinstance(item, Expand):
        raise RenderError(f"column '{item.column}' was not expanded.")
    if isinstance(item, BareText):
        return item.content
    words = relabel(_text_content(item.content), lambda origin: replace(origin, role=item.role))
    return (*(item.begin or ()), *words, *(item.end or ()))


def has_words(piece: Piece) -> bool:
    """Whether a piece says anything. A value counts even where a row leaves it empty: all rows share a layout."""
    return not isinstance(piece, Text) or piece.origin.kind in _VALUES or bool(piece.text.strip())


def _hides_answer(content: Content) -> bool:
    return any(isinstance(piece, Text) and piece.origin.kind == 'masked' for piece in content_pieces(content))


def _as_messages(utterances: Sequence[Utterance], meta: MetaTemplate, notes: list[Note]) -> list[MessageDraft]:
    """Messages, with words that no role speaks put into a neighbour that is not the model's own."""
    drafts: list[MessageDraft] = []
    waiting: list[Pieces] = []
    for utterance in utterances:
        if utterance.role is None:
            words = _text_content(utterance.content)
            if any(map(has_words, words)):
                waiting.append(words)
            continue
        role = _api_role(utterance.role)
        content = _wrap_content(utterance)
        if waiting and role == 'assistant':
            _append_words(drafts, waiting, notes)
        elif waiting:
            content = _after(waiting, content)
            notes.append(_note_moved(waiting, role))
        waiting = []
        extra = utterance.turn.extra if utterance.turn else {}
        drafts.append(MessageDraft(role, content, extra))
    if waiting:
        _append_words(drafts, waiting, notes)
    return drafts


def _api_role(role: Role) -> str:
    if role.api_role is not None:
        return role.api_role
    what = f'the role {role.name} has no api_role, so an API cannot be told who speaks.'
    raise TemplateError(Problem('meta_template', what, "Give it one: api_role='HUMAN', 'BOT' or 'SYSTEM'."))


def _wrap_content(utterance: Utterance) -> Content:
    if not utterance.begin and not utterance.end:
        return utterance.content
    if any(isinstance(piece, Token) for piece in (*utterance.begin, *utterance.end)):
        what = 'begin or end of a role holds token ids; an API takes text.'
        raise TemplateError(Problem('meta_template', what, 'Write them as strings.'))
    if isinstance(utterance.content, tuple):
        return (*utterance.begin, *utterance.content, *utterance.end)
    return SpokenParts(utterance.content, begin=utterance.begin, end=utterance.end)


def _after(words: Sequence[Pieces], content: Content) -> Content:
    """Content with words put in front of it, each on a line of its own."""
    if not isinstance(content, tuple):
        return JoinedParts((*words, content))
    return (*[piece for line in words for piece in (*line, *_line_break(line))], *content)


def _line_break(line: Pieces) -> Pieces:
    """A line break after some words, unless the template itself ends them with one."""
    last = line[-1] if line else None
    ends = isinstance(last, Text) and last.origin.kind not in _VALUES and last.text.endswith('\n')
    return () if ends else (_JOINT,)


def _note_moved(words: Sequence[Pieces], role: str) -> Note:
    text = ''.join(str(getattr(piece, 'text', getattr(piece, 'written', ''))) for line in words for piece in line)
    return Note('moved', f'words that no role speaks were put into the {role} message next to them.', text)


def _append_words(drafts: list[MessageDraft], waiting: list[Pieces], notes: list[Note]) -> None:
    """Words with no message after them to carry them: into the one before, if that is not the model's."""
    words: Pieces = waiting[0]
    for line in waiting[1:]:
        words = (*words, _JOINT, *line)
    if drafts and drafts[-1].role != 'assistant' and isinstance(drafts[-1].content, tuple):
        drafts[-1] = replace(drafts[-1], content=(*drafts[-1].content, _JOINT, *words))
        notes.append(_note_moved(waiting, drafts[-1].role))
    else:
        drafts.append(MessageDraft('user', words))
        notes.append(Note('moved', 'words that no role speaks became a user message of their own.', ''))


def join_neighbours(drafts: Sequence[MessageDraft], notes: list[Note]) -> list[MessageDraft]:
    """Consecutive messages of one role become one, joined with a line break."""
    joined: list[MessageDraft] = []
    for draft in drafts:
        last = joined[-1] if joined else None
        if last is None or last.role != draft.role or last.extra or draft.extra:
            joined.append(draft)
            continue
        if isinstance(last.content, tuple) and isinstance(draft.content, tuple):
            content: Content = (*last.content, _JOINT, *draft.content)
        else:
            content = JoinedParts((last.content, draft.content))
        joined[-1] = replace(last, content=content)
        notes.append(Note('merged', f'two {draft.role} speeches in a row were joined with a line break.'))
    return joined


def _with_added(drafts: list[MessageDraft], meta: MetaTemplate) -> list[MessageDraft]:
    """The messages a meta template adds: in front of the first message of their role, or as messages of their own."""
    drafts = list(drafts)
    alone: list[MessageDraft] = []
    for message in meta.messages:
        words = (Text(message['content'], Origin('message', message['role'])),)
        at = next((i for i, draft in enumerate(drafts) if draft.role == message['role']), None)
        content = None if at is None else drafts[at].content
        if at is not None and isinstance(content, tuple):
            drafts[at] = replace(drafts[at], content=(*words, *content))
        else:
            alone.append(MessageDraft(message['role'], words))
    return [*alone, *drafts]


def _added_turns(meta: MetaTemplate) -> tuple[Turn, ...]:
    return tuple(
        Turn(m['role'], (Text(m['content'], Origin('message', m['role'])),), section='begin') for m in meta.messages
    )
