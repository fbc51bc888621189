"""Renderers for text models, with or without a meta template, and for chat APIs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from rolecall.core.prompts.multimodal import JoinedParts, RawParts, SpokenParts
from rolecall.core.prompts.pieces import Origin, Piece, Pieces, Text, Token, fold, is_hidden, relabel
from rolecall.core.prompts.script import BareText, Content, Expand, Item, Script, Turn, content_pieces
from rolecall.core.prompts.wording import Mode
from rolecall.core.render.arrange import Arrangement, Note, Utterance, arrange, missing_prompt
from rolecall.core.render.layout import Layout, MessageDraft, MessagesLayout, TextLayout, lines_layout, text_layout
from rolecall.core.render.meta import MetaTemplate, Role
from rolecall.errors import Problem, RenderError, TemplateError

_JOINT = Text('\n', Origin('joint', 'speeches'))
_VALUES = ('field', 'unfilled', 'label', 'reply')
_CALLS = ('tool_calls', 'function_call')
_RAW_ROLES = {'user': ('HUMAN', None), 'assistant': ('BOT', None), 'system': ('SYSTEM', 'HUMAN')}

API_ROLES = MetaTemplate.read(
    {
        'round': [
            {'role': 'HUMAN', 'api_role': 'HUMAN', 'generate': False},
            {'role': 'BOT', 'api_role': 'BOT', 'generate': True},
        ],
        'reserved_roles': [{'role': 'SYSTEM', 'api_role': 'SYSTEM'}],
    }
)
"""The roles of an API whose config defines none."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """One compiled prompt, and notes on changes to the dataset's text."""

    layout: Layout
    notes: tuple[Note, ...] = ()


class Renderer(Protocol):
    """Turns a script into the layout of a request for one model."""

    def render(self, script: Script, mode: Mode, *, prefill: bool = False) -> Rendered:
        """The request for this script. `prefill` also sends the text that begins the answer in the dataset."""


@dataclass(frozen=True, slots=True)
class TextRenderer:
    """A text model. Without a meta template, speeches are joined with line breaks."""

    meta: MetaTemplate | None = None
    encode: Callable[[str], Sequence[int]] | None = None
    """The model's tokenizer, for meta templates that hold token ids."""

    def __post_init__(self) -> None:
        if self.meta is not None:
            object.__setattr__(self, 'meta', MetaTemplate.read(self.meta))

    @property
    def has_rounds(self) -> bool:
        """Whether speeches are wrapped in the model's role markers, rather than joined with line breaks."""
        return self.meta is not None and self.meta.round is not None

    @property
    def writes_text(self) -> bool:
        """Whether the role markers are text, without token ids."""
        roles = self.meta.roles.values() if self.has_rounds and self.meta else ()
        return not any(isinstance(piece, Token) for role in roles for piece in (*role.begin, *role.end))

    def stands_alone(self, items: Sequence[Item]) -> bool:
        """Whether the text of these speeches is independent of their neighbours.

        Neighbours can share a round, which matters if the round has text of its own; speeches that fill a round from
        its first role to its last do not share it.
        """
        if self.meta is None or self.meta.round is None:
            return True
        ends = (self.meta.round[0], self.meta.round[-1])
        if not any(isinstance(role, Text) or role.default is not None for role in self.meta.round):
            return True
        spoken = [item.role if isinstance(item, Turn) else None for item in (items[0], items[-1])]
        return spoken == [role.name if isinstance(role, Role) else '' for role in ends]

    def render_fragment(self, items: Sequence[Item]) -> str:
        """The text of these speeches alone, without the `begin` and `end` of the conversation.

        It is complete only if the renderer `writes_text` and the speeches stand alone.
        """
        if self.meta is None or self.meta.round is None:
            return str(lines_layout([_line_of(item) for item in items]).fill({}))
        spoken = arrange(items, self.meta, 'ppl').utterances
        return ''.join(
            fold((*utterance.begin, *_text_content(utterance.content), *utterance.end)) for utterance in spoken
        )

    def render(self, script: Script, mode: Mode, *, prefill: bool = False) -> Rendered:
        if script.plain:
            return Rendered(TextLayout(tuple(script.pieces())))
        script, notes = _as_texts(script)
        items = _named_roles(script)
        if self.meta is None or self.meta.round is None:
            begin, end = (self.meta.begin, self.meta.end) if self.meta else ((), ())
            for item in items[:-1]:
                if isinstance(item, Turn) and item.silent and not (item.begin or item.end or item.extra):
                    raise missing_prompt(item)
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
    """A chat API: speeches become messages, neighbours of one role are joined, and no text is lost."""

    meta: MetaTemplate = field(default=API_ROLES)

    def __post_init__(self) -> None:
        object.__setattr__(self, 'meta', MetaTemplate.read(self.meta))

    def render(self, script: Script, mode: Mode, *, prefill: bool = False) -> Rendered:
        drafts, notes = self.drafts(script, mode, prefill=prefill)
        return Rendered(MessagesLayout(drafts), notes)

    def drafts(
        self, script: Script, mode: Mode, *, prefill: bool = False
    ) -> tuple[list[MessageDraft], tuple[Note, ...]]:
        """The messages with unfilled fields."""
        if script.plain:
            return _with_added([MessageDraft('user', tuple(script.pieces()))], self.meta), ()
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
        """Send raw messages unchanged, except for a hidden answer at the end."""
        turns = [item for item in script.items if isinstance(item, Turn)]
        notes: tuple[Note, ...] = ()
        if (
            mode == 'gen'
            and turns
            and turns[-1].role == 'assistant'
            and any(map(is_hidden, content_pieces(turns[-1].content)))
        ):
            answer = turns[-1].content
            if not (prefill and any(map(has_words, content_pieces(answer)))):
                notes = _note_withheld(Utterance(answer))
                turns = turns[:-1]
        stray = [item for item in script.items if isinstance(item, BareText) and any(map(has_words, item.content))]
        if stray:
            what = 'the examples are strings, but the ice_token is not inside a message.'
            raise TemplateError(Problem('ice_template', what, 'Use a RawPromptTemplate for the examples as well.'))
        drafts = [MessageDraft(turn.role, turn.content, turn.extra, turn.silent) for turn in turns]
        return _with_added(drafts, self.meta), notes


@dataclass(frozen=True, slots=True)
class DatasetRenderer:
    """No model: each speech as the dataset has it, bare text as messages without a role."""

    def render(self, script: Script, mode: Mode, *, prefill: bool = False) -> Rendered:
        if script.plain:
            return Rendered(TextLayout(tuple(script.pieces())))
        drafts = [
            MessageDraft(item.role if isinstance(item, Turn) else '', item.content)
            for item in script.items
            if isinstance(item, (Turn, BareText))
        ]
        return Rendered(MessagesLayout(drafts))


def _before_answer(arranged: Arrangement) -> tuple[Utterance, ...]:
    return arranged.utterances[:-1] if arranged.answering else arranged.utterances


def _note_withheld(answer: Utterance) -> tuple[Note, ...]:
    """A note on dataset text at the start of the answer, if any."""
    text = ''.join(piece.text for piece in content_pieces(answer.content) if isinstance(piece, Text))
    if not text.strip():
        return ()
    return (
        Note('not_sent', 'the model writes the whole answer, so this beginning of it is not sent (see prefill).', text),
    )


def _named_roles(script: Script) -> tuple[Item, ...]:
    """Raw messages under the role names of meta templates."""
    if not script.raw:
        return script.items
    return tuple(
        replace(item, role=_RAW_ROLES[item.role][0], fallback_role=_RAW_ROLES[item.role][1])
        if isinstance(item, Turn) and item.role in _RAW_ROLES
        else item
        for item in script.items
    )


def _as_texts(script: Script) -> tuple[Script, tuple[Note, ...]]:
    """Raw messages as text, and a note for each key that a text model cannot take."""
    texts: list[Item] = []
    notes: list[Note] = []
    for item in script.items:
        if isinstance(item, Turn):
            notes += _note_unsupported_keys(item)
            item = replace(item, content=_joined_texts(item.content))
        texts.append(item)
    return replace(script, items=tuple(texts)), tuple(notes)


def _note_unsupported_keys(turn: Turn) -> Iterator[Note]:
    """Note message keys besides the content. Tool calls are an error: dropping them would change the message."""
    for key, value in turn.extra.items():
        if not value:
            continue
        if key in _CALLS:
            what = f'the {turn.role} message has {key}, but this model only takes text.'
            remedy = 'Use a model with a chat API or a chat template, or write the call in the content.'
            raise TemplateError(Problem('prompt_template', what, remedy))
        yield Note('not_sent', f'the {turn.role} message has {key}, which a text model cannot take.', key)


def _joined_texts(content: Content) -> Content:
    """The parts of a message as one text, one line each, if they are all text."""
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
            'the prompt has images, audio or video; this model only takes text.',
            'Use a model with a chat API that accepts media.',
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
    """Whether a piece has text. Fields count even if a row leaves them empty: all rows share a layout."""
    return not isinstance(piece, Text) or piece.origin.kind in _VALUES or bool(piece.text.strip())


def _as_messages(utterances: Sequence[Utterance], meta: MetaTemplate, notes: list[Note]) -> list[MessageDraft]:
    """Messages, with bare text moved into a neighbouring message that is not the assistant's."""
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
    what = f'role {role.name} has no api_role.'
    raise TemplateError(Problem('meta_template', what, "Set api_role='HUMAN', 'BOT' or 'SYSTEM'."))


def _wrap_content(utterance: Utterance) -> Content:
    if not utterance.begin and not utterance.end:
        return utterance.content
    if any(isinstance(piece, Token) for piece in (*utterance.begin, *utterance.end)):
        what = 'begin or end of a role has token ids; an API takes text.'
        raise TemplateError(Problem('meta_template', what, 'Write them as strings.'))
    if isinstance(utterance.content, tuple):
        return (*utterance.begin, *utterance.content, *utterance.end)
    return SpokenParts(utterance.content, begin=utterance.begin, end=utterance.end)


def _after(words: Sequence[Pieces], content: Content) -> Content:
    """Put lines of text in front of content."""
    if not isinstance(content, tuple):
        return JoinedParts((*words, content))
    return (*[piece for line in words for piece in (*line, *_line_break(line))], *content)


def _line_break(line: Pieces) -> Pieces:
    """A line break, unless the template text already ends with one."""
    last = line[-1] if line else None
    ends = isinstance(last, Text) and last.origin.kind not in _VALUES and last.text.endswith('\n')
    return () if ends else (_JOINT,)


def _note_moved(words: Sequence[Pieces], role: str) -> Note:
    text = ''.join(str(getattr(piece, 'text', getattr(piece, 'written', ''))) for line in words for piece in line)
    return Note('moved', f'text outside any role was moved into the {role} message next to it.', text)


def _append_words(drafts: list[MessageDraft], waiting: list[Pieces], notes: list[Note]) -> None:
    """Append bare text with no message after it to the message before, unless that is the assistant's."""
    words: Pieces = waiting[0]
    for line in waiting[1:]:
        words = (*words, _JOINT, *line)
    if drafts and drafts[-1].role != 'assistant' and isinstance(drafts[-1].content, tuple):
        drafts[-1] = replace(drafts[-1], content=(*drafts[-1].content, _JOINT, *words))
        notes.append(_note_moved(waiting, drafts[-1].role))
    else:
        drafts.append(MessageDraft('user', words))
        notes.append(Note('moved', 'text outside any role became a user message.', ''))


def join_neighbours(drafts: Sequence[MessageDraft], notes: list[Note]) -> list[MessageDraft]:
    """Join consecutive messages of one role with a line break."""
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
        notes.append(Note('merged', f'two consecutive {draft.role} speeches were joined with a line break.'))
    return joined


def _with_added(drafts: list[MessageDraft], meta: MetaTemplate) -> list[MessageDraft]:
    """Add the meta template's messages: to the first message of their role, or as new messages in front."""
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
