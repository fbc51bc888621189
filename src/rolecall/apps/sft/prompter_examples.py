"""Training examples of rows and a prompter: each starts with exactly the prompt that the model gets at inference.

A `PrompterSide` is the prompter as one model words it: bound by the code that binds it for a chat module or a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rolecall.apps.sft.examples import (
    MessagesExample,
    TextExample,
    TrainingExample,
    UntrainableError,
    as_text,
    messages_example,
    text_example,
)
from rolecall.apps.sft.training_file import Form, Given, takes_messages
from rolecall.apps.sft.training_programs import Aim, end_of_turn
from rolecall.core.program.answer_turn import MessagesRenderer
from rolecall.core.prompters import Prompter
from rolecall.core.prompters.call_inputs import Label, read_label
from rolecall.core.prompters.frame_renderer import ModelBinder, PromptArguments
from rolecall.core.prompters.tool_specs import read_tools
from rolecall.core.render.chat_renderer import ChatRenderer
from rolecall.core.render.renderers import ApiRenderer, TextRenderer
from rolecall.core.render.spans import Message, Span
from rolecall.errors import ConfigError, Problem, PrompterError, did_you_mean
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.models.local_engine import PromptEncoder
from rolecall.models.openai.wire import write_messages
from rolecall.models.pull import cached_path
from rolecall.models.tokenizers.tokenizer import Tokenizer, find_chat_template, model_folder
from rolecall.sources.datasets import Row, first


@dataclass(frozen=True, slots=True)
class Columns:
    """The roles of a row's columns. Slots of a prompter are filled from columns of the same name."""

    answer: str
    input: str | None = None
    """None: the column `input`. Empty: the user says nothing beyond the slots."""
    history: str | None = None
    """May be missing in a row, like `tools`. Empty: a column of that name is left out on purpose."""
    tools: str | None = None


class PrompterSide:
    """A prompter and the model it is trained for.

    `PrompterSide(prompter)` takes the prompter as it is bound, `PrompterSide.for_model(prompter, entry)` binds it to a
    model entry.
    """

    def __init__(self, prompter: Prompter, binder: ModelBinder | None = None, *, abbr: str = '') -> None:
        self.prompter = replace(prompter, show=False)
        self._binder = binder
        self._abbr = abbr
        self._messages_form = lru_cache(maxsize=8)(_bind_messages)

    @classmethod
    def for_model(cls, prompter: Prompter, entry: ModelEntry) -> PrompterSide:
        """The prompter as a chat module, or a run's entry with a meta template, words it for this model."""
        renderer = entry.renderer
        if isinstance(renderer, ApiRenderer):
            return cls(prompter, abbr=entry.abbr)
        if isinstance(renderer, TextRenderer) and renderer.meta is not None:
            return cls(prompter if prompter.model is not None else prompter.bind(renderer))
        template = renderer.template if isinstance(renderer, ChatRenderer) else None
        if template is None and prompter.model is None:
            _check_files(entry)
        return cls(prompter, ModelBinder(template))

    @property
    def is_chat(self) -> bool:
        """Whether the model is addressed with messages: by an API, or by its own chat template."""
        return self._bound.model is None or isinstance(self._bound.model, ChatRenderer)

    @property
    def words_by_default(self) -> bool:
        """Whether no model is known, so that strings have the default markers."""
        return self._bound.model is None

    def encoder(self, tokenizer: Tokenizer) -> PromptEncoder:
        """How the texts become token ids: with a BOS, unless a chat template writes that.

        A tokenizer with a chat template is refused if the prompter is not bound to it: inference would use it.
        """
        if self.words_by_default and find_chat_template(_model_files(tokenizer)) is not None:
            what = f'{tokenizer.name} has a chat template, and the prompter is not bound to it.'
            where = _model_files(tokenizer)
            remedy = f'Inference would word prompts with it: give --model {where} instead, or bind the prompter with '
            raise ConfigError(Problem('tokenizer', what, f"{remedy}prompter.bind(ChatTemplate.from_file('{where}'))."))
        return PromptEncoder(tokenizer, begins=not isinstance(self._bound.model, ChatRenderer))

    def example(self, arguments: PromptArguments, answer: Label, form: Form, aim: Aim) -> TrainingExample:
        bound, bound_arguments = self._address(arguments)
        if takes_messages(form, chat=self.is_chat):
            return self._messages(bound, bound_arguments, answer, aim)
        if self._abbr:
            what = f'{self._abbr} takes messages, and no chat template is available to render them as text.'
            raise ConfigError(Problem('model', what, 'Use --form messages, or a local model.'))
        return _text(bound, bound_arguments, answer, aim)

    @property
    def _bound(self) -> Prompter:
        return self._address((None, None, None))[0]

    def _address(self, arguments: PromptArguments) -> tuple[Prompter, PromptArguments]:
        return (self.prompter, arguments) if self._binder is None else self._binder.address(self.prompter, arguments)

    def _messages(self, bound: Prompter, arguments: PromptArguments, answer: Label, aim: Aim) -> MessagesExample:
        if isinstance(bound.model, ChatRenderer):
            side = self._messages_form(bound)
            request: Any = side.generate_prompt(*arguments)
            answered: Any = side.generate_prompt(*arguments, answer)
            offered = read_tools(arguments[2]) or read_tools(bound.tools)
            tools = offered.openai if offered and bound.model.template.supports_tools else ()
        else:
            body = bound.generate_prompt(*arguments, return_dict=True)
            answered_body = bound.generate_prompt(*arguments, answer, return_dict=True)
            request, answered = (write_messages(each['messages'], media=None) for each in (body, answered_body))
            tools = body.get('tools') or ()
        return messages_example([(request, answered)], all_answers=aim.all_answers, tools=tools)


def prompter_examples(
    prompter: Prompter | PrompterSide,
    rows: Iterable[Row],
    columns: Columns,
    *,
    form: Form,
    aim: Aim | None = None,
    limit: int | None = None,
) -> Iterator[Given]:
    """The examples of rows formatted by a prompter.

    >>> from rolecall import ChatPrompter
    >>> from rolecall.apps.sft.training_file import SftReport, entries
    >>> chat = ChatPrompter('Add.', system='').bind({'soh': '<u>', 'soa': '<a>', 'eoa': '</a>'}, system='')
    >>> rows = [{'input': '1+1', 'sum': 2}]
    >>> list(entries(prompter_examples(chat, rows, Columns(answer='sum'), form='text'), SftReport(), form='text'))
    [{'text': 'Add.\\n\\n\\n\\n\\n<u>\\n1+1\\n<a>\\n2</a>', 'spans': [[21, 26]]}]
    """
    side = prompter if isinstance(prompter, PrompterSide) else PrompterSide(prompter)
    present: set[str] = set()
    silent: int | None = None
    if columns.answer in side.prompter.slots or columns.answer == ('input' if columns.input is None else columns.input):
        raise PrompterError(f'the answer column {columns.answer!r} is an input of the prompter: it would be shown.')
    for number, row in enumerate(rows if limit is None else first(rows, limit)):
        present |= row.keys()
        if 'input' not in row and silent is None:
            silent = number
        yield f'row {number}', _prompter_example(side, row, columns, form, aim or Aim())
    if silent is not None and columns.input is None and 'input' in present and 'input' not in side.prompter.slots:
        raise PrompterError(
            f"row {silent} has no column 'input', which other rows have: it was taken for an empty one."
        )
    for name in (columns.history, columns.tools):  # may be missing in a row, but not in all
        if present and name and name not in present:
            raise PrompterError(f'no row has a column {name!r}. {did_you_mean(name, map(str, present))}')


def _prompter_example(
    side: PrompterSide, row: Row, columns: Columns, form: Form, aim: Aim
) -> Callable[[], TrainingExample]:
    def teach() -> TrainingExample:
        for name in (columns.answer, columns.input):
            if name and name not in row:
                raise PrompterError(f'the row has no column {name!r}. {did_you_mean(name, map(str, row))}')
        for name, column in (('history', columns.history), ('tools', columns.tools)):
            if column is None and row.get(name) and name not in side.prompter.slots:
                what = f'the row has a column {name!r}, which nothing uses. Name it: --{name}-column {name}'
                raise PrompterError(f"{what} (in Python {name}='{name}'); or --{name}-column '' to leave it out.")
        answer = read_label(row[columns.answer])
        if answer is None or (isinstance(answer, str) and not answer.strip()):
            raise UntrainableError('the answer is missing', f'column {columns.answer!r} is empty')
        history, tools = (row.get(name) if name else None for name in (columns.history, columns.tools))
        return side.example((_input(side.prompter, row, columns), history, tools), answer, form, aim)

    return teach


def _input(prompter: Prompter, row: Row, columns: Columns) -> Any:
    """The row as input of a prompter: its slots and the user's message; text alone is a string, as modules get it."""
    values = {slot: row[slot] for slot in prompter.slots if slot in row}
    spoken = 'input' if columns.input is None else columns.input
    takes_input = '{input}' in prompter.template or 'input' in prompter.slots
    if columns.input and not takes_input:
        raise PrompterError(f'the prompter has no input for the column {columns.input!r}; it only has slots.')
    if takes_input and spoken in row:
        values['input'] = row[spoken]
    elif takes_input and columns.input is None:
        _check_input_is_empty(prompter, row, columns)
    alone = values.get('input') if {*values, *prompter.slots} == {'input'} else None
    return alone if isinstance(alone, str) else values


def _check_input_is_empty(prompter: Prompter, row: Row, columns: Columns) -> None:
    """Raise if a row without the column `input` may have the user's message elsewhere: it would be trained as empty."""
    used = {*prompter.slots, columns.answer, columns.history, columns.tools}
    others = [str(name) for name in row if name not in used]
    if others or not prompter.slots:
        remedy = 'Name it: --input-column COLUMN (in Python input=…)'
        silent = "; or --input-column '' if the prompter's slots are all the user says" if prompter.slots else ''
        has = ', '.join(others or map(str, row))
        raise PrompterError(f"the row has no column 'input' for the user's message. It has: {has}. {remedy}{silent}.")


def _bind_messages(bound: Prompter) -> Prompter:
    renderer: Any = bound.model
    return bound.bind(MessagesRenderer(renderer))


def _text(prompter: Prompter, arguments: PromptArguments, answer: Label, aim: Aim) -> TextExample:
    request = as_text(prompter.generate_prompt(*arguments))
    whole = prompter.trace(*arguments, answer)
    text = as_text(whole.request)
    model: Any = prompter.model
    eos = end_of_turn(model)
    if isinstance(answer, str):
        stop = _end_of_label(whole.spans) or _end_of_words(answer, text, request)
    else:
        stop = _end_of_calls(answer, text, request, (prompter.closing, eos))
    earlier = (lambda span: span.origin.kind == 'reply') if aim.all_answers else None
    return text_example([(request, text[:stop])], whole, earlier=earlier, end=aim.end, eos=eos)


def _end_of_label(spans: Sequence[Span]) -> int:
    """Where the answer ends by its origin; 0 if unknown."""
    at = stop = 0
    for span in spans:
        at += len(span.text)
        if span.origin.kind == 'label' and span.text:
            stop = at
    return stop


def _end_of_words(answer: str, text: str, request: str) -> int:
    """Where the answer ends after the request, for chat templates that inspect contents and hide origins."""
    words = answer.strip()
    after = text.removeprefix(request).lstrip()
    if not text.startswith(request) or not after.startswith(words):
        raise UntrainableError('the answer cannot be located in the text of the chat template')
    return len(text) - len(after) + len(words)


def _end_of_calls(answer: Message, text: str, request: str, endings: Sequence[str]) -> int:
    """Where an answer with tool calls ends after the request: before what ends a turn, or with the text."""
    after = text.removeprefix(request)
    if not text.startswith(request):
        return len(text)  # reported with the first difference
    for call in answer.get('tool_calls') or ():
        if call['function']['name'] not in after:
            raise UntrainableError("the model's chat template leaves tool calls out")
    ending = next((ending for ending in endings if ending.strip() and ending in after), '')
    return len(request) + (after.rindex(ending) if ending else len(after))


def _check_files(entry: ModelEntry) -> None:
    """Raise if a model's files are elsewhere: nobody knows whether it has a chat template."""
    path = entry.entry.get('path')
    if isinstance(path, str) and cached_path(path) is None and model_folder(path) is None:
        what = f'{path} is not on this machine, so its chat template is not known.'
        remedy = 'Download it first, or bind the prompter: prompter.bind(ChatTemplate.from_file(…)).'
        raise ConfigError(Problem('model', what, remedy))


def _model_files(tokenizer: Tokenizer) -> Path:
    path = Path(tokenizer.name)
    return path if path.suffix == '.gguf' else path.parent
