"""LazyLLM's prompt templates and prompt library, by its names: `from rolecall.compat.lazyllm import PromptTemplate`.

Templates have the syntax of `str.format`. They are pieces of the core, filled in a single pass: a value or an example
with braces stays data, and `trace` shows where each character comes from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from string import Formatter
from typing import Any, ClassVar, TypeVar

from rolecall.core.program.compiled import Trace
from rolecall.core.prompters.builtin import ChatPrompter
from rolecall.core.prompts.pieces import Field, Origin, Pieces, Text
from rolecall.core.render.spans import Span
from rolecall.errors import PrompterError, did_you_mean
from rolecall.plain_files import read_table

T = TypeVar('T', bound='_FilledTemplate')
_NEWLINE = Text('\n', Origin('joint'))


class VariableError(PrompterError, ValueError):
    """A template and its variables do not fit together."""


class MissingVariableError(PrompterError, KeyError):
    """A variable without a value, or of another template."""

    __str__ = Exception.__str__  # KeyError shows its message in quotes


class PartialVariableError(PrompterError, TypeError):
    """A function that gives the value of a variable raised."""


@dataclass(frozen=True)
class _FilledTemplate:
    """What both templates do: check their variables, fill themselves, and fix some of the values."""

    required_vars: Sequence[str] = field(default_factory=list, kw_only=True)
    partial_vars: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """Values, or functions that give one for each prompt."""

    def __post_init__(self) -> None:
        object.__setattr__(self, 'required_vars', list(self.required_vars))
        object.__setattr__(self, 'partial_vars', dict(self.partial_vars))
        variables, required, partial = self._variables(), set(self.required_vars), set(self.partial_vars)
        if unknown := partial - variables:
            raise VariableError(f'partial_vars contains variables not found in template: {_names(unknown)}.')
        if both := required & partial:
            raise VariableError(f'required_vars and partial_vars have overlap: {_names(both)}.')
        if missing := variables - required - partial:
            raise VariableError(f'Missing variables in required_vars or partial_vars: {_names(missing)}.')
        if extra := required - variables:
            raise VariableError(f'Extra variables not found in template: {_names(extra)}.')

    def _variables(self) -> set[str]:
        raise NotImplementedError

    def _texts(self, values: Mapping[str, Any]) -> Iterator[Text]:
        raise NotImplementedError

    def trace(self, **values: Any) -> Trace:
        """The text with the origin of each character. Values without a variable are ignored."""
        if missing := set(self.required_vars) - set(values):
            raise MissingVariableError(f'Missing required variables: {_names(missing)}. Got: {_names(values)}.')
        texts = tuple(self._texts({**values, **{name: self._partial_value(name) for name in self.partial_vars}}))
        spans = tuple(Span(text.text, text.origin) for text in texts)
        return Trace(''.join(text.text for text in texts), spans)

    def format(self, **values: Any) -> str:
        """The text, filled."""
        return str(self.trace(**values).request)

    def partial(self: T, **values: Any) -> T:
        """A copy in which these variables have their values, or functions that give them."""
        if unknown := set(values) - self._variables():
            raise MissingVariableError(f'Variables not found in template: {_names(unknown)}.')
        rest = [name for name in self.required_vars if name not in values]
        return replace(self, required_vars=rest, partial_vars={**self.partial_vars, **values})

    def _partial_value(self, name: str) -> Any:
        value = self.partial_vars[name]
        try:
            return value() if callable(value) else value
        except Exception as error:
            what = f'Error applying partial function for variable "{name}": {error}'
            raise PartialVariableError(what) from error


@dataclass(frozen=True)
class FormatTemplate(_FilledTemplate):
    """LazyLLM's `PromptTemplate`.

    >>> template = PromptTemplate.from_template('Translate {text} to {language}.').partial(language='French')
    >>> template.required_vars, template.format(text='{hello}')
    (['text'], 'Translate {hello} to French.')
    """

    template: str

    @classmethod
    def from_template(cls, template: str) -> FormatTemplate:
        """A template that requires all its variables."""
        return cls(template, required_vars=sorted(_variables_in(_parse(template))))

    def _variables(self) -> set[str]:
        return _variables_in(_parse(self.template))

    def _texts(self, values: Mapping[str, Any]) -> Iterator[Text]:
        return _fill(_parse(self.template), values)


PromptTemplate = FormatTemplate


@dataclass(frozen=True)
class FewShotPromptTemplate(_FilledTemplate):
    """A prefix, examples by a template of their own, and a suffix, each on lines of its own.

    >>> shot = PromptTemplate.from_template('{q} = {a}')
    >>> sums = FewShotPromptTemplate(prefix='Add.', suffix='{q} =', examples=[{'q': '1+1', 'a': 2}],
    ...                              egs_prompt_template=shot, required_vars=['q'])
    >>> sums.format(q='2+2')
    'Add.\\n1+1 = 2\\n2+2 ='
    """

    prefix: str
    suffix: str
    egs_prompt_template: FormatTemplate
    examples: Sequence[Mapping[str, Any]] = field(default_factory=list)
    separator_for_egs: str = '\n'

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, 'examples', [dict(example) for example in self.examples])
        for number, example in enumerate(self.examples):
            if missing := set(self.egs_prompt_template.required_vars) - set(example):
                raise VariableError(f'Example {number} missing required variables: {_names(missing)}.')

    def _variables(self) -> set[str]:
        return _variables_in((*_parse(self.prefix), *_parse(self.suffix)))

    def _texts(self, values: Mapping[str, Any]) -> Iterator[Text]:
        yield from (*_fill(_parse(self.prefix), values), _NEWLINE)
        for number, example in enumerate(self.examples):
            if number:
                yield Text(self.separator_for_egs, Origin('joint'))
            for span in self.egs_prompt_template.trace(**example).spans:
                yield Text(span.text, replace(span.origin, shot=number))
        yield from (_NEWLINE, *_fill(_parse(self.suffix), values))


def _parse(template: str) -> Pieces:
    """The pieces of a template in the syntax of `str.format`; a field keeps its conversion and format."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        what = f'Error getting template variables: {error} in {template!r:.60}. Write {{{{ and }}}} for braces.'
        raise VariableError(what) from None
    pieces: list[Text | Field] = []
    for text, name, layout, conversion in parts:
        if text:
            pieces.append(Text(text, Origin('text')))
        if name is not None:
            if not name.isidentifier():
                raise VariableError(f'Error getting template variables: {{{name}}} is not a name in {template!r:.60}.')
            how = f'{"!" + conversion if conversion else ""}{":" + layout if layout else ""}'
            pieces.append(Field(name, f'{{{name}{how}}}', Origin('field', name)))
    return tuple(pieces)


def _variables_in(pieces: Pieces) -> set[str]:
    return {piece.column for piece in pieces if isinstance(piece, Field)}


def _fill(pieces: Pieces, values: Mapping[str, Any]) -> Iterator[Text]:
    for piece in pieces:
        if isinstance(piece, Text):
            yield piece
        elif isinstance(piece, Field):
            try:
                yield Text(piece.source.format(**{piece.column: values[piece.column]}), piece.origin)
            except (ValueError, TypeError) as error:
                raise VariableError(
                    f'Error formatting template: {piece.source} of {values[piece.column]!r:.60}: {error}.'
                ) from None


def _names(names: Any) -> str:
    return ', '.join(sorted(map(str, names))) or 'nothing'


class PromptLibrary:
    """Prompts by key and language."""

    _prompts: ClassVar[dict[str, dict[str, Any]]] = {}

    def __init__(self, lang: str | None = None) -> None:
        self.lang = lang or 'zh'

    @property
    def supported_langs(self) -> list[str]:
        """The languages that there are prompts in."""
        return list(self._prompts)

    def get_prompt(self, key: str, lang: str | None = None) -> Any:
        """A prompt as it was added."""
        lang = lang or self.lang
        if lang not in self._prompts:
            raise VariableError(f'no prompts in {lang!r}. {did_you_mean(lang, self.supported_langs)}')
        if key not in self._prompts[lang]:
            raise VariableError(f'no prompt {key!r:.60} in {lang!r}. {did_you_mean(key, self._prompts[lang])}')
        return self._prompts[lang][key]

    def get_all_keys(self, lang: str | None = None) -> list[str]:
        """The keys of a language; empty for a language without prompts."""
        return list(self._prompts.get(lang or self.lang, {}))


class ActorPrompt(PromptLibrary):
    """Prompts that let a model play a part, from files of `{"act": …, "prompt": …}`.

    The 1,316 prompts that come with LazyLLM are read from there where it is installed; `add_file` adds others.
    """

    _prompts: ClassVar[dict[str, dict[str, Any]]] = {}
    _FILES: ClassVar = {'zh': 'awesome-chatgpt-prompts-zh.json', 'en': 'prompts.chat.json'}

    def __init__(self, lang: str | None = None) -> None:
        super().__init__(lang)
        package = None if self._prompts else find_spec('lazyllm')
        for folder in (package.submodule_search_locations or ()) if package is not None else ():
            for language, name in self._FILES.items():
                self.add_file(Path(folder, 'prompt_templates', 'prompts_actor', name), lang=language)

    @classmethod
    def add_file(cls, path: str | Path, *, lang: str) -> None:
        """Add the prompts of a JSON file: a list of objects with `act` and `prompt`."""
        try:
            entries = json.loads(Path(path).read_text('utf-8'))
            prompts = {str(entry['act']): str(entry['prompt']) for entry in entries}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise VariableError(
                f'{path}: expected a JSON list of objects with act and prompt ({error!r:.80}).'
            ) from None
        cls._prompts.setdefault(lang, {}).update(prompts)

    get_all_acts = PromptLibrary.get_all_keys

    def __call__(self, act: str, lang: str | None = None, return_raw: bool = False) -> Any:
        """A `ChatPrompter` with the prompt as its instruction, or the text itself. Names in braces are its slots."""
        if not self._prompts:
            raise VariableError("no prompts are packaged: ActorPrompt.add_file('prompts.chat.json', lang='en').")
        prompt = self.get_prompt(act, lang)
        return prompt if return_raw else ChatPrompter(prompt)


class DataPrompt(PromptLibrary):
    """Prompts for work on texts, with a system and a user level.

    >>> DataPrompt(lang='en')('field_extractor').slots
    ('persona', 'text', 'fields')
    """

    _prompts: ClassVar[dict[str, dict[str, Any]]] = {}

    @classmethod
    def add_prompt(
        cls,
        act: str,
        system_prompt: str | None = None,
        user_prompt: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        history: Sequence[Any] | None = None,
        extra_keys: Sequence[str] | None = None,
        lang: str = 'zh',
    ) -> None:
        """Add a prompt for the whole program, or replace it."""
        if not system_prompt and not user_prompt:
            raise VariableError(f'{act!r:.60}: system_prompt and user_prompt are both missing. Give at least one.')
        levels = {'system': system_prompt or '', 'user': user_prompt or ''}
        more = {'tools': tools, 'history': history, 'extra_keys': extra_keys}
        cls._prompts.setdefault(lang, {})[act] = {**levels, **more}

    def __call__(self, key: str, lang: str | None = None, return_raw: bool = False) -> Any:
        """A `ChatPrompter`, or what was added."""
        prompt = self.get_prompt(key, lang)
        if return_raw:
            return dict(prompt)
        options = {name: prompt[name] for name in ('tools', 'history', 'extra_keys') if prompt[name] is not None}
        return ChatPrompter({'system': prompt['system'], 'user': prompt['user']}, **options)


for _language, _key, *_levels in read_table(__file__):
    _system, _user = (text.replace('\\n', '\n') for text in _levels)
    DataPrompt.add_prompt(_key, _system, _user, lang=_language)
