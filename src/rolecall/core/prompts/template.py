"""Dataset templates: string, dialogue, label → prompt, multi-turn, multimodal and raw messages.

A template is parsed and checked in full when it is constructed. `script(label)` is the parsed prompt, `shot(label)`
one parsed in-context example.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

from rolecall.core.prompts.multimodal import RawParts, find_content_problems, raw_turn
from rolecall.core.prompts.pieces import Field, Origin, Pieces, Row, Shots, Text, describe_value, parse
from rolecall.core.prompts.script import BareText, Expand, Item, Script, Turn, as_shot
from rolecall.core.prompts.template_reader import (
    DIALOGUE_KEYS,
    ProblemCollector,
    check_urls,
    is_dialogue,
    read_dialogue,
)
from rolecall.errors import Problem, RenderError, TemplateError, did_you_mean
from rolecall.registry import Registry, is_reference_class

_MESSAGE_ROLES = ('system', 'developer', 'user', 'assistant', 'tool', 'function', 'ipython', 'observation')
"""The roles of raw messages: those of the APIs, and those that chat templates use for tool results."""


@runtime_checkable
class Template(Protocol):
    """A dataset's template: one prompt, or one per label."""

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The labels, if each has its own prompt; otherwise empty."""

    @property
    def ice_token(self) -> str | None:
        """The token that marks the place of in-context examples."""

    @property
    def sep_token(self) -> str | None:
        """The token between the context and the answer."""

    @property
    def is_dialogue(self) -> bool:
        """Whether the prompt consists of speeches, rather than one string."""

    def script(self, label: Hashable = None) -> Script:
        """The wording of the prompt, for one label where there are labels."""

    def shot(self, label: Hashable = None) -> Script:
        """The wording of one in-context example."""


class PromptTemplate:
    """A prompt with fields: a string, a dialogue, or one of these for each label.

    >>> PromptTemplate('Q: {question}\\nA: {answer}').labels
    ()
    >>> dialogue = PromptTemplate(dict(round=[dict(role='HUMAN', prompt='{q}'), dict(role='BOT', prompt='{a}')]))
    >>> dialogue.script().fill({'q': '1+1=?', 'a': '2'})
    PromptList([{'role': 'HUMAN', 'prompt': '1+1=?'}, {'role': 'BOT', 'prompt': '2'}])
    >>> PromptTemplate({'yes': '{q} Yes.', 'no': '{q} No.'}).labels
    ('yes', 'no')

    `ice_token` marks the place of in-context examples, `sep_token` the end of the context and start of the answer.
    `column_token_map` gives columns tokens of their own (`{'input': '</input>'}`).
    """

    _takes_media = False
    labels: tuple[Hashable, ...] = ()
    """The labels of a label → prompt template in order; empty for other templates."""

    def __init__(
        self,
        template: str | Mapping[Any, Any],
        ice_token: str | None = None,
        sep_token: str | None = None,
        column_token_map: Mapping[str, str] | None = None,
    ) -> None:
        self.template = template
        self.ice_token = ice_token
        self.sep_token = sep_token
        problems = ProblemCollector()
        _check_tokens(ice_token, sep_token, column_token_map, problems)
        tokens = {token: column for column, token in (column_token_map or {}).items() if isinstance(token, str)}
        self._parse_text = partial(parse, ice_token=ice_token, sep_token=sep_token, column_tokens=tokens)
        self._scripts = self._read_all(template, problems)
        self.is_dialogue = not any(script.plain for script in self._scripts.values())
        problems.raise_all()

    def _read_all(self, template: object, problems: ProblemCollector) -> dict[Hashable, Script]:
        if isinstance(template, Mapping) and not is_dialogue(template):
            if not template:
                problems.add('template', 'the template is empty.', 'Write a string, or a dialogue with a round.')
            self.labels = tuple(template)
            scripts = {
                label: self._read_one(prompt, problems, f'template[{label!r}]') for label, prompt in template.items()
            }
            _check_forms(scripts, problems)
            return scripts
        return {None: self._read_one(template, problems, 'template')}

    def _read_one(self, prompt: object, problems: ProblemCollector, where: str) -> Script:
        if isinstance(prompt, str):
            return Script((BareText(self._parse_text(problems.text(where, prompt)), 'round'),), plain=True)
        if isinstance(prompt, (list, tuple)):
            prompt = {'round': prompt}
        if isinstance(prompt, Mapping) and is_dialogue(prompt):
            return Script(read_dialogue(prompt, self._parse_text, problems, where, media=self._takes_media))
        problems.add(
            where,
            f'expected a string or a dialogue, got {describe_value(prompt)}.',
            f'A dialogue is a dict with the keys {", ".join(DIALOGUE_KEYS)}.',
        )
        return Script(())

    def script(self, label: Hashable = None) -> Script:
        """The parsed prompt, for one label if there are labels."""
        if not self.labels:
            return self._scripts[None]
        if label in self.labels:
            return self._scripts[label]
        what = f'no prompt for the label {label!r}.' if label is not None else 'a label is needed.'
        raise TemplateError(Problem('template', what, did_you_mean(label, self.labels)))

    def shot(self, label: Hashable = None) -> Script:
        """One parsed in-context example: the round only, without a place for examples."""
        script = self.script(label)
        wanted = script.items if script.plain else [item for item in script.items if item.section == 'round']
        return replace(script, items=tuple(as_shot(item) for item in wanted))

    def __repr__(self) -> str:
        return f'{type(self).__name__}({self.template!r:.80})'


class MMPromptTemplate(PromptTemplate):
    """A dialogue whose speeches may carry `prompt_mm`: text, image, audio and video.

    >>> template = MMPromptTemplate(dict(round=[dict(role='HUMAN', prompt_mm={
    ...     'text': {'type': 'text', 'text': 'What is this? {hint}'},
    ...     'image': {'type': 'image_url', 'image_url': {'url': 'file://{image}'}}})]))
    >>> template.script().fill({'hint': 'An animal.', 'image': 'cat.jpg'})[0]['prompt'][1]
    {'type': 'image_url', 'image_url': {'url': 'file://cat.jpg'}}
    """

    _takes_media = True


class MultiTurnPromptTemplate(PromptTemplate):
    """A dialogue whose round repeats for each turn of a row; the row's columns are lists."""

    def __init__(
        self,
        template: Mapping[str, Any],
        ice_token: str | None = None,
        sep_token: str | None = None,
        column_token_map: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(template, ice_token, sep_token, column_token_map)
        if self.labels or not self.is_dialogue or not any(item.section == 'round' for item in self.script().items):
            what = f'expected a dialogue with a round, got {template!r:.60}.'
            raise TemplateError(Problem('template', what, "Write dict(round=[dict(role='HUMAN', prompt=…), …])."))


class RawPromptTemplate:
    """Messages as an API takes them, with fields in their contents.

    An entry is a message, `{'expand_column': 'history'}` for a column of messages, or the `ice_token`.

    >>> RawPromptTemplate([{'role': 'user', 'content': 'Q: {q}'}]).script().fill({'q': '1+1=?'})
    PromptList([{'role': 'user', 'content': 'Q: 1+1=?'}])
    """

    labels: tuple[Hashable, ...] = ()
    sep_token: str | None = None
    is_dialogue = True

    def __init__(self, messages: Sequence[Any], format_variables: bool = True, ice_token: str | None = '</E>') -> None:
        self.messages = messages
        self.ice_token = ice_token
        problems = ProblemCollector()
        _check_tokens(ice_token, None, None, problems)
        parse_text = partial(parse, ice_token=ice_token) if format_variables else _as_text
        if isinstance(messages, (str, Mapping)) or not isinstance(messages, Sequence) or not messages:
            problems.add('messages', f'expected a list of messages, got {messages!r:.60}.')
            messages = ()
        items = [self._read_entry(entry, parse_text, problems, f'messages[{i}]') for i, entry in enumerate(messages)]
        problems.raise_all()
        self._script = Script(tuple(item for item in items if item is not None), raw=True)

    def _read_entry(self, entry: object, parse_text: Any, problems: ProblemCollector, where: str) -> Item | None:
        if isinstance(entry, str):
            if entry == self.ice_token:
                return BareText((Shots(),), 'begin')
            problems.add(
                where,
                f'a bare string must be the ice_token {self.ice_token!r}, got {entry!r}.',
                "Write a message: {'role': 'user', 'content': …}.",
            )
            return None
        if isinstance(entry, Mapping) and 'expand_column' in entry:
            problems.unknown_keys(where, entry, ('expand_column',))
            return Expand(problems.text(f'{where}.expand_column', entry['expand_column']), _message_as_data)
        if not isinstance(entry, Mapping) or not isinstance(entry.get('role'), str):
            problems.add(where, f'expected a message with a role, got {entry!r:.60}.')
            return None
        if entry['role'] not in _MESSAGE_ROLES:
            what = f'unknown role {entry["role"]!r}.'
            problems.add(f'{where}.role', what, did_you_mean(entry['role'], _MESSAGE_ROLES))
        content = entry.get('content')
        troubles = () if content is None and 'tool_calls' in entry else tuple(find_content_problems(content))
        for place, what in troubles:
            problems.add(f'{where}.content{place}', what)
        if troubles:
            return None
        turn = raw_turn(entry, parse_text)
        if isinstance(turn.content, RawParts):
            check_urls(turn.content.entries, problems, f'{where}.content')
        return turn

    def script(self, label: Hashable = None) -> Script:
        """The parsed prompt. Raw messages are the same for every label."""
        return self._script

    def shot(self, label: Hashable = None) -> Script:
        """One parsed in-context example."""
        items = [item for item in self._script.items if not isinstance(item, BareText)]
        return replace(self._script, items=tuple(as_shot(item) for item in items))

    def __repr__(self) -> str:
        return f'RawPromptTemplate({self.messages!r:.80})'


_BUILT_IN = ('PromptTemplate', 'MMPromptTemplate', 'MultiTurnPromptTemplate', 'RawPromptTemplate')
"""Names that mean our templates even if another system's class is installed."""
TEMPLATES: Registry[type[Template]] = Registry(
    'template',
    {
        **{name: f'rolecall.core.prompts.template:{name}' for name in _BUILT_IN},
        'OlympiadBenchTemplate': 'rolecall.compat.opencompass.row_templates:OLYMPIAD',
        'OlympiadBenchRawTemplate': 'rolecall.compat.opencompass.row_templates:RAW_OLYMPIAD',
        'InverseIFEvalJudgePromptTemplate': 'rolecall.compat.opencompass.row_templates:INVERSE_IFEVAL',
    },
    is_ours=lambda name: name in _BUILT_IN,
)


def build_template(source: object) -> Template:
    """The template that a config describes: an object, or a `type` with its options.

    Without a type, it is a `PromptTemplate`.

    >>> build_template({'template': 'Q: {question}'})
    PromptTemplate('Q: {question}')
    """
    entry = {'type': 'PromptTemplate', **source} if isinstance(source, Mapping) else source
    kind = entry.get('type') if isinstance(entry, Mapping) else entry
    if is_reference_class(kind) and TEMPLATES.builtin_name(kind) is None:
        return PackageTemplate(TEMPLATES.build(entry, protocol=('generate_item',)))
    protocol = ('labels', 'ice_token', 'sep_token', 'is_dialogue', 'script', 'shot')
    template: Template = TEMPLATES.build(entry, protocol=protocol)
    return template


class WordingsTemplate:
    """A template whose field `column` is filled by several wordings in turn; their numbers, from 1, are its labels.

    >>> template = WordingsTemplate(PromptTemplate('{ask} {q}'), 'ask', ['Say:', 'Tell me:'])
    >>> template.labels, template.script(2).fill({'q': '1+1=?'})
    ((1, 2), 'Tell me: 1+1=?')

    `number` fixes the wording: then it is a template without labels.
    """

    def __init__(self, template: Template, column: str, wordings: Sequence[str], number: int | None = None) -> None:
        if template.labels:
            raise TemplateError(Problem('adv_key', 'the template has one prompt per label already.'))
        self._template = template
        self._column = column
        self._wordings = tuple(wordings)
        self._number = number
        self.labels: tuple[Hashable, ...] = tuple(range(1, len(self._wordings) + 1)) if number is None else ()
        self.ice_token, self.sep_token = template.ice_token, template.sep_token
        self.is_dialogue = template.is_dialogue

    def script(self, label: Hashable = None) -> Script:
        """The parsed prompt in the wording of this number."""
        return self._word(self._template.script(), label)

    def shot(self, label: Hashable = None) -> Script:
        """One parsed in-context example, in the same way."""
        return self._word(self._template.shot(), label)

    def _word(self, script: Script, label: Hashable) -> Script:
        number = label if self._number is None else self._number
        if not isinstance(number, int) or not 1 <= number <= len(self._wordings):
            raise TemplateError(Problem('template', f'no wording {number!r}.', did_you_mean(number, self.labels)))
        wording = Text(self._wordings[number - 1], Origin('label', self._column))
        return script.map(lambda piece: wording if isinstance(piece, Field) and piece.column == self._column else piece)

    def __repr__(self) -> str:
        return f'WordingsTemplate({self._template!r}, {len(self._wordings)} wordings)'


class PackageTemplate:
    """A template class of OpenCompass or AISBench, used as it is: its `generate_item(row)` words each prompt."""

    labels: tuple[Hashable, ...] = ()
    ice_token: str | None = None
    sep_token: str | None = None
    is_dialogue = True

    def __init__(self, template: Any) -> None:
        self.inner = template
        raw = getattr(template, 'prompt_type', None) == 'raw_messages' or hasattr(template, 'messages')
        parse_entry = _message_as_data if raw else _speech_as_data
        self._script = Script((Expand(type(template).__name__, parse_entry, compose=self._compose),), raw=raw)

    def _compose(self, row: Row) -> list[Any]:
        name = type(self.inner).__name__
        try:
            worded = self.inner.generate_item(dict(row))
        except Exception as error:  # the package's code may raise anything
            raise RenderError(f'{name} raised {type(error).__name__}: {error}') from error
        speeches = [worded] if isinstance(worded, str) else list(worded)
        return [speech for speech in speeches if isinstance(speech, str) or 'section' not in speech]

    def script(self, label: Hashable = None) -> Script:
        """The prompt, which the package's class words for each row."""
        return self._script

    def shot(self, label: Hashable = None) -> Script:
        """One in-context example, worded in the same way."""
        return self._script

    def __repr__(self) -> str:
        return f'PackageTemplate({type(self.inner).__name__})'


def _as_text(text: str) -> Pieces:
    return (Text(text, Origin('text')),)


def _message_as_data(message: Mapping[str, Any], origin: Origin) -> Turn:
    content = message.get('content')
    for place, what in () if content is None else find_content_problems(content):
        raise RenderError(f"column '{origin.name}': message content{place}: {what}")
    return raw_turn(message, lambda text: (Text(text, origin),))


def _speech_as_data(speech: Mapping[str, Any], origin: Origin) -> Turn:
    begin, end = (
        (Text(speech[key], origin),) if isinstance(speech.get(key), str) else None for key in ('begin', 'end')
    )
    content = (Text(str(speech.get('prompt', '')), origin),)
    return Turn(speech['role'], content, speech.get('fallback_role'), begin, end, generate=speech.get('generate'))


def _check_forms(scripts: Mapping[Hashable, Script], problems: ProblemCollector) -> None:
    """Report a mix of string and dialogue labels: all examples of a prompt must have one form."""
    strings = [label for label, script in scripts.items() if script.plain]
    dialogues = [label for label, script in scripts.items() if script.items and not script.plain]
    if strings and dialogues:
        problems.add(
            'template',
            f'label {strings[0]!r} has a string, label {dialogues[0]!r} a dialogue.',
            'Write the prompts of all labels in the same form.',
        )


def _check_tokens(ice_token: object, sep_token: object, column_token_map: object, problems: ProblemCollector) -> None:
    for name, token in (('ice_token', ice_token), ('sep_token', sep_token)):
        if token is None:
            continue
        if not isinstance(token, str):
            problems.add(name, f'expected a string, got {token!r}.')
        elif not token:
            problems.add(
                name,
                f'the {name} is empty.',
                "Write a token that occurs in the template, e.g. '</E>', or leave it out.",
            )
    if ice_token is not None and ice_token == sep_token:
        what = f'{sep_token!r} is already the ice_token.'
        problems.add('sep_token', what, 'Use different tokens.')
    if column_token_map is None:
        return
    if not isinstance(column_token_map, Mapping):
        problems.add('column_token_map', f'expected a mapping of column to token, got {column_token_map!r:.60}.')
        return
    taken: dict[object, str] = {ice_token: 'the ice_token', sep_token: 'the sep_token'}
    for column, token in column_token_map.items():
        if not isinstance(token, str) or not token:
            problems.add(f'column_token_map[{column!r}]', f"expected a token such as '</{column}>', got {token!r}.")
        elif token in taken:
            what = f'{token!r} is already {taken[token]}.'
            problems.add(f'column_token_map[{column!r}]', what, f"Use a different token, e.g. '</{column}>'.")
        else:
            taken[token] = f'the token of column {column!r}'
