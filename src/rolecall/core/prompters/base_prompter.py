"""The base class of prompters: built from an instruction, bound to a model, called with an input.

Prompters are immutable, so one prompter can serve many models and threads at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, overload

from rolecall.checking import explain_arguments
from rolecall.core.prompters.call_inputs import Hook, InputReader, PromptCall, read_label, run_hooks
from rolecall.core.prompters.frame import Frame, Instruction, fields_of, read_instruction
from rolecall.core.prompters.history import HistoryReader, check_history
from rolecall.core.prompters.messaging import (
    Body,
    PromptTrace,
    anthropic_body,
    anthropic_spans,
    openai_body,
    openai_spans,
)
from rolecall.core.prompters.special_tokens import DEFAULT_SYSTEM, DEFAULT_TOKENS, TOKEN_NAMES, Tokens
from rolecall.core.prompters.string_layout import StringLayout
from rolecall.core.prompters.tool_specs import Tools, read_tools
from rolecall.core.prompts.frozen import freeze
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.meta import MetaTemplate
from rolecall.core.render.renderers import ApiRenderer, Renderer, TextRenderer
from rolecall.core.render.spans import Request
from rolecall.errors import PrompterError

if TYPE_CHECKING:
    from rolecall.core.prompters.frame_renderer import FrameRenderer

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


Prompt = Request | Body
Self = TypeVar('Self', bound='Prompter')


@explain_arguments(PrompterError, '__init__', 'generate_prompt', 'trace', 'pre_hook')
@dataclass(frozen=True, eq=False)
class Prompter:
    """The base of all prompters. A subclass sets a template, and an instruction template if it takes an instruction:

    >>> class Quiz(Prompter):
    ...     template = '{system}\\n{instruction}Q: {input}\\nA:'
    ...     instruction_template = '{instruction}\\n'
    >>> Quiz('Answer in {language}.').generate_prompt({'language': 'French', 'input': 'Hello?'})
    'You are a helpful assistant.\\nAnswer in French.\\nQ: Hello?\\nA:'

    Template fields: `system`, `instruction`, `tools`, `history`, `user` (the user-level instruction), `input`, and the
    model's tokens (`sos`, `eos`, `soh`, `eoh`, `soa`, `eoa`, …). Passing something that has no field is an error.
    """

    instruction: str | Mapping[str, str] | None = None
    extra_keys: str | Sequence[str] | None = None
    show: bool = False
    tools: Sequence[Mapping[str, Any]] | None = None
    history: Sequence[Any] | None = None
    enable_system: bool = field(default=True, kw_only=True)
    """False puts the instruction in the user message, for models without a system role."""
    system: str | None = field(default=None, kw_only=True)
    """The system sentence; by default the model's own."""
    model: BoundModel | None = field(default=None, kw_only=True)
    """The model it is bound to (see `bind`)."""
    hooks: tuple[Hook, ...] = field(default=(), kw_only=True)

    _places: frozenset[str] = field(init=False, repr=False)
    _uses: frozenset[str] = field(init=False, repr=False)
    _tools: Tools | None = field(init=False, repr=False)
    _tokens: Tokens = field(init=False, repr=False)
    _slots: tuple[str, ...] = field(init=False, repr=False)
    _reader: InputReader = field(init=False, repr=False)
    _history: HistoryReader = field(init=False, repr=False)
    _is_blank: bool = field(init=False, repr=False)
    _frame: Frame = field(init=False, repr=False)
    _strings: StringLayout | FrameRenderer = field(init=False, repr=False)

    template: ClassVar[str] = ''
    instruction_template: ClassVar[str] = '{instruction}'
    before_user: ClassVar[str] = ''
    """The text before a user-level instruction, if there is one."""
    messages_only: ClassVar[frozenset[str]] = frozenset()
    """Fields that exist in messages but not in the string."""

    def __post_init__(self) -> None:
        _check_switches(self)
        put = partial(object.__setattr__, self)
        put('_places', frozenset(fields_of(self.template)))
        put('_uses', self._places | self.messages_only)
        put('_tools', read_tools(self.tools))
        put('tools', self._tools.definitions if self._tools else None)
        put('instruction', freeze(self.instruction))
        put('extra_keys', freeze(self.extra_keys))
        put('model', None if self.model is None else read_model(self.model))
        put('_tokens', self.model if isinstance(self.model, Tokens) else DEFAULT_TOKENS)
        put('_history', HistoryReader(self._tokens, takes_messages=self.model is not None))
        put('history', self._own_history())
        put('_is_blank', 'history' in self._uses and not self.history)
        instruction = self._read_instruction()
        put('_slots', instruction.slots)
        put('_reader', InputReader(self._slots, takes_input='input' in self._uses, name=type(self).__name__))
        put(
            '_frame',
            Frame(
                self.template,
                instruction,
                tokens=self._tokens,
                system=self._sentence(),
                tools=self._tools,
                enable_system=self.enable_system,
                before_user=self.before_user,
            ),
        )
        put('_strings', self._choose_strings())

    def bind(self: Self, model: BoundModel | None = None, *, system: str | None = None) -> Self:
        """A copy bound to one model: its special tokens, meta template, or renderer.

        >>> from rolecall import ChatPrompter
        >>> prompter = ChatPrompter('Add.')
        >>> prompter.bind({'soh': '<user>', 'soa': '<model>'}, system='').generate_prompt('1+1')
        'Add.\\n\\n\\n\\n\\n<user>\\n1+1\\n<model>\\n'
        """
        changes: dict[str, Any] = {} if model is None else {'model': read_model(model)}
        if system is not None:
            changes['system'] = system
        return replace(self, **changes)

    def pre_hook(self: Self, hook: Hook) -> Self:
        """A copy with a function that changes (input, history, tools, label) before they are used."""
        if not callable(hook):
            raise PrompterError(f'a pre_hook must be a function of (input, history, tools, label), got {hook!r:.60}.')
        return replace(self, hooks=(*self.hooks, hook))

    @property
    def slots(self) -> tuple[str, ...]:
        """The names that the instruction leaves open.

        >>> from rolecall import AlpacaPrompter
        >>> AlpacaPrompter('Translate {text} to {language}.', extra_keys='hint').slots
        ('text', 'language', 'hint')
        """
        return self._slots

    @overload
    def generate_prompt(
        self,
        input: Any,
        history: Sequence[Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        label: Any = None,
        *,
        show: bool = False,
        return_dict: Literal[False] = False,
        format: None = None,
    ) -> str: ...

    @overload
    def generate_prompt(
        self,
        input: Any,
        history: Sequence[Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        label: Any = None,
        *,
        show: bool = False,
        return_dict: bool = False,
        format: Literal['openai', 'anthropic'],
    ) -> Body: ...

    @overload
    def generate_prompt(
        self,
        input: Any,
        history: Sequence[Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        label: Any = None,
        *,
        show: bool = False,
        return_dict: Literal[True],
        format: Literal['openai', 'anthropic'] | None = None,
    ) -> Body: ...

    @overload
    def generate_prompt(
        self,
        input: Any,
        history: Sequence[Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        label: Any = None,
        *,
        show: bool = False,
        return_dict: bool,
        format: Literal['openai', 'anthropic'] | None = None,
    ) -> str | Body: ...

    def generate_prompt(
        self,
        input: Any,  # noqa: A002  # the documents' name
        history: Sequence[Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        label: Any = None,
        *,
        show: bool = False,
        return_dict: bool = False,
        format: Literal['openai', 'anthropic'] | None = None,  # noqa: A002  # likewise
    ) -> Any:
        """The prompt: a string, or with `format` a dict of messages (`return_dict=True` means `format='openai'`).

        `input` is a string, a mapping of slots (with `input` for the user's text), or messages. `label` is the answer
        (its text, or an assistant message with tool calls), appended to the prompt for training. A prompter bound to a
        meta template with token ids gives a list of strings and ids instead of a string.
        """
        call = self._read_call(input, history, tools, label)
        prompt: Prompt
        if format is None and not return_dict:
            prompt = self._strings.fill(call)
        elif format == 'openai' or _check_format(format) == 'openai':
            prompt = openai_body(self._frame.plain, self._history, call)
        else:
            prompt = anthropic_body(self._frame, self._history, call)
        if show or self.show:
            print(prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False, indent=2))
        return prompt

    def trace(
        self,
        input: Any,  # noqa: A002  # the documents' name
        history: Sequence[Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        label: Any = None,
        *,
        show: bool = False,
        return_dict: bool = False,
        format: Literal['openai', 'anthropic'] | None = None,  # noqa: A002  # likewise
    ) -> PromptTrace:
        """The same prompt, with the origin of every character."""
        call = self._read_call(input, history, tools, label)
        if format is None and not return_dict:
            text = self._strings.fill(call)
            spans, notes = self._strings.trace(call)
            return PromptTrace(text, tuple(spans), notes, text)
        if _check_format(format) == 'openai':
            body = openai_body(self._frame.plain, self._history, call)
            spans = openai_spans(self._frame.plain, call)
        else:
            body = anthropic_body(self._frame, self._history, call)
            spans = anthropic_spans(self._frame, call)
        return PromptTrace(body['messages'], tuple(spans), (), body)

    def get_response(self, output: str, input: Any = None) -> str:  # noqa: A002  # the documents' name
        """The answer in a model's output: without a leading prompt and without the closing token.

        Markers inside the answer are kept.
        """
        if isinstance(input, str) and input and output.startswith(input):
            output = output[len(input) :]
        closing = self.closing
        if closing and output.endswith(closing):
            return output.removesuffix(closing)
        return output.removesuffix(closing.strip()) if closing.strip() else output

    @property
    def closing(self) -> str:
        """The text that ends an answer."""
        return self._strings.closing

    def __reduce__(self) -> Any:
        return partial(type(self), **self._arguments()), ()

    def __eq__(self, other: object) -> bool:
        """Equal prompters are of one class and were made with equal arguments."""
        if self is other:
            return True
        return isinstance(other, Prompter) and type(self) is type(other) and self._arguments() == other._arguments()

    def __hash__(self) -> int:
        words = self.instruction if isinstance(self.instruction, str) else None
        return hash((type(self), words, self.system, self.enable_system))

    def _arguments(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.init}

    def _read_instruction(self) -> Instruction:
        instruction = read_instruction(
            self.instruction, self.extra_keys, self.instruction_template, user_level='input' in self._uses
        )
        texts = {'instruction': instruction.system, 'user': instruction.user, 'tools': self._tools}
        for name, words in texts.items():
            if words and name not in self._uses:
                raise PrompterError(f'{type(self).__name__} does not support {name}.')
        return instruction

    def _choose_strings(self) -> StringLayout | FrameRenderer:
        """The writer of string prompts: the model's renderer, or else the prompter's own layout."""
        side: Any = self.model
        if side is not None and not isinstance(side, Tokens):
            return _make_frame_renderer(self._frame, side)
        return StringLayout(
            self._frame,
            self._history,
            tokens=self._tokens,
            places=self._places,
            tools=self._tools,
            takes_messages=side is not None,
            name=type(self).__name__,
        )

    def _sentence(self) -> str:
        if self.system is not None:
            return self.system
        return self.model.system if isinstance(self.model, Tokens) else DEFAULT_SYSTEM

    def _own_history(self) -> Sequence[Any]:
        if not self.history:
            return ()
        check_history(self.history)
        if 'history' not in self._uses:
            raise PrompterError(f'{type(self).__name__} keeps no history.')
        history: Sequence[Any] = freeze(self.history)
        self._history.messages(history)  # raises early if it is malformed
        return history

    def _read_call(self, user_input: Any, history: Any, tools: Any, label: Any) -> PromptCall:
        if self.hooks:
            user_input, history, tools, label = run_hooks(self.hooks, (user_input, history, tools, label))
        row, messages = self._reader.read(user_input)
        turns: Sequence[Any] = self.history or ()
        if history:
            turns = history if self._is_blank and history.__class__ is list else self._join_history(history)
        offered = self._read_call_tools(tools) if tools else self._tools
        return row, messages, turns, offered, None if label is None else read_label(label)

    def _join_history(self, history: Any) -> Sequence[Any]:
        """The prompter's own history followed by that of the call."""
        check_history(history)
        if 'history' not in self._uses:
            raise PrompterError(f'{type(self).__name__} keeps no history.')
        return [*self.history, *history] if self.history else history

    def _read_call_tools(self, tools: Any) -> Tools | None:
        if self._tools:
            raise PrompterError('tools were set when the prompter was built; they cannot be passed again.')
        if 'tools' not in self._uses:
            raise PrompterError(f'{type(self).__name__} does not support tools.')
        return read_tools(tools)


def _check_format(format_: str | None) -> Literal['openai', 'anthropic']:
    if format_ is None or format_ == 'openai':
        return 'openai'
    if format_ == 'anthropic':
        return 'anthropic'
    raise PrompterError(f"format must be 'openai', 'anthropic', or None for a string, got {format_!r:.60}.")


def _check_switches(prompter: Prompter) -> None:
    for name in ('show', 'enable_system'):
        if not isinstance(getattr(prompter, name), bool):
            raise PrompterError(f'{name} must be True or False, got {getattr(prompter, name)!r:.60}.')
    if prompter.system is not None and not isinstance(prompter.system, str):
        raise PrompterError(f'system must be a string, got {prompter.system!r:.60}.')
    if not prompter.template:
        raise PrompterError(f'{type(prompter).__name__} has no template. Define one in a subclass.')


def _make_frame_renderer(frame: Frame, renderer: Renderer) -> FrameRenderer:
    from rolecall.core.prompters.frame_renderer import FrameRenderer  # chat templates take a while to import

    return FrameRenderer(frame, renderer)
