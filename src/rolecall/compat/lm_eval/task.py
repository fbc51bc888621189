"""A task file with lm-eval's defaults, evaluated for a row: text, target and choices."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from rolecall.checking import expected, is_whole
from rolecall.compat.lm_eval.functions import call_function
from rolecall.compat.lm_eval.jinja import row_template
from rolecall.compat.lm_eval.task_file import Function, TaskFile
from rolecall.core.prompts.pieces import Origin, Text
from rolecall.errors import ConfigError, Problem, RenderError, did_you_mean

Row = Mapping[str, Any]
OUTPUT_TYPES = ('generate_until', 'multiple_choice', 'loglikelihood', 'loglikelihood_rolling')
_DEFAULTS: Mapping[str, Any] = {
    'output_type': 'generate_until',
    'description': '',
    'target_delimiter': ' ',
    'fewshot_delimiter': '\n\n',
    'repeats': 1,
}
_SHOT_KEYS = ('doc_to_text', 'doc_to_target', 'doc_to_choice', 'gen_prefix', 'target_delimiter', 'fewshot_delimiter')
_KNOWN = frozenset(
    {
        *('task', 'task_alias', 'tag', 'group', 'group_alias', 'task_list', 'custom_dataset', 'dataset_path'),
        *('dataset_name', 'dataset_kwargs', 'training_split', 'validation_split', 'test_split', 'fewshot_split'),
        *('process_docs', 'doc_to_text', 'doc_to_target', 'doc_to_image', 'doc_to_audio', 'unsafe_code'),
        *('doc_to_choice', 'process_results', 'use_prompt', 'description', 'target_delimiter', 'fewshot_delimiter'),
        *('fewshot_config', 'num_fewshot', 'metric_list', 'output_type', 'generation_kwargs', 'repeats'),
        *('filter_list', 'should_decontaminate', 'doc_to_decontamination_query', 'gen_prefix', 'metadata', 'include'),
        *('aggregate_metric_list', 'weight_by_size', 'version', 'class'),
    }
)


_TEXT, _MAPPING = (str, 'a text'), (Mapping, 'a mapping')
_KINDS: Mapping[str, tuple[type, str]] = {
    **dict.fromkeys(('training_split', 'validation_split', 'test_split', 'fewshot_split'), _TEXT),
    **dict.fromkeys(('target_delimiter', 'fewshot_delimiter', 'dataset_path'), _TEXT),
    **dict.fromkeys(('fewshot_config', 'generation_kwargs', 'dataset_kwargs'), _MAPPING),
}
_OWN_ROW = 'a row is never among its own examples'
_ORDER = f'examples are drawn for each row by itself, not by its place in the file, and {_OWN_ROW}'
_UNSUPPORTED = {
    'doc_to_audio': 'the task asks about sound',
    'use_prompt': 'the wording is in the package promptsource',
    'class': 'the task is a Python class of the package',
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """The user's options besides the task file, under lm-eval's names."""

    num_fewshot: int | None = None
    fewshot_seed: int = 1234
    fewshot_as_multiturn: bool = False
    system_instruction: str | None = None
    hub: bool = False
    """Whether rows may be loaded from the hub."""
    emulate: Literal['lm-eval'] | None = None
    """`lm-eval` reproduces its defects: shots that depend on the rows before, and may be the row itself."""


def read_options(values: Mapping[str, Any]) -> TaskOptions:
    """The options with their types checked; everything wrong with them is reported at once."""
    problems = []
    for name in ('num_fewshot', 'fewshot_seed'):
        if name in values and not is_whole(values[name], least=0):
            problems.append(expected(name, 'a whole number from 0', values[name]))
    if not isinstance(values.get('system_instruction', ''), str):
        problems.append(expected('system_instruction', 'a text', values['system_instruction']))
    if values.get('emulate') not in (None, 'lm-eval'):
        remedy = did_you_mean(values['emulate'], ['lm-eval'])
        problems.append(Problem('emulate', f'unknown system {values["emulate"]!r:.60}.', remedy))
    if problems:
        raise ConfigError(problems)
    return TaskOptions(**values)


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a field for a row; if it is a text, its `pieces` join to it."""

    value: Any
    pieces: tuple[Text, ...] = ()
    rendered: bool = False
    """Whether it comes from a template, not a column or a function: then it may be read as a number or a list."""


@dataclass(frozen=True)
class LmTask:
    """One task."""

    file: TaskFile
    options: TaskOptions = field(default_factory=TaskOptions)

    def __post_init__(self) -> None:
        problems = [
            Problem(f'{self.place(key)}: {key}', f'unknown key {key!r}.', did_you_mean(key, sorted(_KNOWN)))
            for key in self.file.values
            if key not in _KNOWN
        ]
        if self['output_type'] not in OUTPUT_TYPES:
            what = f'unknown output_type {self["output_type"]!r}.'
            remedy = did_you_mean(self['output_type'], OUTPUT_TYPES)
            problems.append(Problem(f'{self.place("output_type")}: output_type', what, remedy))
        for key, what in _UNSUPPORTED.items():
            if self.get(key):
                problems.append(Problem(f'{self.place(key)}: {key}', f'{key} is not supported here: {what}.'))
        for key in ('doc_to_text', 'doc_to_target', 'doc_to_choice', 'gen_prefix', 'description'):
            if not isinstance(self.get(key), str | int | list | dict | Function | None):
                what = f'expected a column, a template, a list or a number, got {self[key]!r:.60}.'
                problems.append(Problem(f'{self.place(key)}: {key}', what))
        problems += self._find_wrong_types()
        if problems:
            raise ConfigError(problems)

    def _find_wrong_types(self) -> Iterator[Problem]:
        """Keys with a type that lm-eval does not accept. Scoring keys are checked when scores are computed."""
        for key, (kind, what) in _KINDS.items():
            value = self.get(key)
            if value is not None and not isinstance(value, kind):
                yield expected(f'{self.place(key)}: {key}', what, value)
        if not is_whole(self['repeats'], least=1):
            yield expected(f'{self.place("repeats")}: repeats', 'a whole number from 1', self['repeats'])
        generation = self.get('generation_kwargs')
        until = generation.get('until') if isinstance(generation, Mapping) else None
        texts = until if isinstance(until, list) else [until]
        if until is not None and not all(isinstance(text, str) for text in texts):
            where = f'{self.place("generation_kwargs")}: generation_kwargs.until'
            yield expected(where, 'a text or a list of texts', until)

    @property
    def name(self) -> str:
        """The name that the file gives the task, or the file's own."""
        return str(self.get('task') or self.file.path.stem)

    @property
    def alias(self) -> str:
        """The name that lm-eval prints in its table; empty if it prints the task's own."""
        return str(self.get('task_alias') or '')

    def describe(self) -> dict[str, Any]:
        """The keys with their values, including lm-eval's defaults; functions as written."""
        declared = {key: value for key, value in self.file.values.items() if value is not None}
        computed = {'generation_kwargs': self.generation_kwargs} if self['output_type'] == 'generate_until' else {}
        return {key: _describe(value) for key, value in {**_DEFAULTS, **declared, **computed}.items()}

    def describe_keys(self, *keys: str) -> dict[str, Any]:
        """Some of the keys, as `describe` has them."""
        described = self.describe()
        return {key: described[key] for key in keys if key in described}

    @property
    def pipeline_names(self) -> list[str]:
        """The names of the task's filter pipelines."""
        declared = self.get('filter_list')
        pipelines = declared if isinstance(declared, list) else [{'name': 'none'}]
        return [str(pipeline.get('name')) for pipeline in pipelines if isinstance(pipeline, dict)]

    @property
    def note(self) -> str:
        """Where our default differs from lm-eval for this task; empty if it does not."""
        if self.options.emulate or not self.num_fewshot:
            return ''
        if self.fewshot_config['sampler'] == 'first_n':
            return '' if self.shot_split not in (self.eval_split, None) else _OWN_ROW
        return _ORDER

    def get(self, key: str) -> Any:
        """The value of a key, lm-eval's default, or None."""
        value = self.file.values.get(key)
        return _DEFAULTS.get(key) if value is None else value

    def __getitem__(self, key: str) -> Any:
        return self.get(key)

    def place(self, key: str) -> str:
        """Where a key is written, as `file:line`."""
        return self.file.places.get(key, str(self.file.path.name))

    @cached_property
    def fewshot_config(self) -> Mapping[str, Any]:
        """The settings of examples: `fewshot_config`, or else the task's own."""
        own = self.get('fewshot_config') or {}
        inherited = {key: self.get(key) for key in (*_SHOT_KEYS, 'process_docs')}
        return {**inherited, 'split': self.get('fewshot_split'), 'sampler': 'default', **own}

    @cached_property
    def num_fewshot(self) -> int:
        """How many examples each row gets. A file's 0 cannot be overridden."""
        declared = self.get('num_fewshot')
        if self.options.num_fewshot is None or declared == 0:
            return int(self._number('num_fewshot', int, declared or 0))
        return self.options.num_fewshot

    def _number(self, key: str, kind: type[int] | type[float], value: Any) -> float:
        """A number, also where YAML has read it as text (1e-5)."""
        try:
            return kind(value)
        except (TypeError, ValueError, OverflowError):
            what = f'expected a number, got {value!r:.60}.'
            raise ConfigError(Problem(f'{self.place(key)}: {key}', what)) from None

    @cached_property
    def generation_kwargs(self) -> Mapping[str, Any]:
        """Generation settings; by default greedy, up to the delimiter of examples."""
        declared = self.get('generation_kwargs')
        if declared is None:
            until = [self['fewshot_delimiter']]
            return {'temperature': 0.0, 'do_sample': False, 'max_gen_toks': 256, 'until': until}
        if not isinstance(declared, Mapping):
            what = f'expected a mapping, got {declared!r:.60}.'
            raise ConfigError(Problem(f'{self.place("generation_kwargs")}: generation_kwargs', what))
        kwargs = {**declared}
        if 'temperature' in kwargs:
            kwargs['temperature'] = self._number('generation_kwargs', float, kwargs['temperature'])
        if 'until' not in kwargs:
            kwargs['until'] = [self['fewshot_delimiter']]
        return kwargs

    @property
    def eval_split(self) -> str | None:
        """The test split."""
        split: str | None = self.get('test_split') or self.get('validation_split')
        return split

    @property
    def shot_split(self) -> str | None:
        """The split that examples come from; None if they are written in the file."""
        config = self.fewshot_config
        if config['split'] is not None:
            return str(config['split'])
        if config.get('samples') is not None:
            return None
        split: str | None = self.get('training_split') or self.get('validation_split') or self.get('test_split')
        return split

    @property
    def own_prefix(self) -> bool:
        """Whether a `gen_prefix` is written that does not end in whitespace."""
        prefix = self.get('gen_prefix')
        return isinstance(prefix, str) and bool(prefix) and not prefix[-1].isspace()

    def text(self, doc: Row, columns: Sequence[str], shot: int | None = None) -> Value:
        """`doc_to_text` for a row: a text, or the index of the choice that is the context."""
        value = self._evaluate('doc_to_text', doc, columns, shot)
        return _as_index(value) if self.get('doc_to_choice') is not None else value

    def target(self, doc: Row, columns: Sequence[str], shot: int | None = None) -> Value:
        """`doc_to_target` for a row: a text, the index of a choice, or a list of either."""
        value = self._evaluate('doc_to_target', doc, columns, shot)
        if not value.rendered:
            return value
        if self.get('doc_to_choice') is not None and value.value.isdigit():
            return _as_index(value)
        text = value.value
        if len(text) >= 2 and text[0] == '[' and text[-1] == ']':
            try:
                return Value(ast.literal_eval(text))
            except (SyntaxError, ValueError):
                return value
        return value

    def choices(self, doc: Row, columns: Sequence[str], shot: int | None = None) -> list[Any]:
        """`doc_to_choice` for a row."""
        spec = self._spec('doc_to_choice', shot)
        if isinstance(spec, dict):
            return list(spec.values())
        if isinstance(spec, list):
            return spec
        value = self._evaluate('doc_to_choice', doc, columns, shot)
        try:
            return list(ast.literal_eval(value.value) if value.rendered else value.value)
        except (SyntaxError, TypeError, ValueError, MemoryError, RecursionError) as error:
            what = f'doc_to_choice must evaluate to a list, got {value.value!r:.60}.'
            raise RenderError(f'{self._place("doc_to_choice", shot)}: {what}') from error

    def prefix(self, doc: Row, columns: Sequence[str], shot: int | None = None) -> Value | None:
        """`gen_prefix` for a row: how the answer begins."""
        if not self._spec('gen_prefix', shot):
            return None
        value = self._evaluate('gen_prefix', doc, tuple(doc), shot)
        return value if value.value else None

    def description(self, doc: Row) -> Value:
        """The text before everything else."""
        return self._evaluate('description', doc, tuple(doc), None) if self['description'] else Value('')

    def delimiter(self, key: Literal['target_delimiter', 'fewshot_delimiter'], shot: int | None = None) -> Text:
        """The delimiter between question and answer, or after an example."""
        return Text(str(self._spec(key, shot)), Origin('joint', key, shot, source=self._place(key, shot)))

    def _spec(self, key: str, shot: int | None) -> Any:
        return self.get(key) if shot is None else self.fewshot_config.get(key)

    def _place(self, key: str, shot: int | None) -> str:
        own = self.get('fewshot_config') or {}
        return self.place('fewshot_config' if shot is not None and key in own else key)

    def _evaluate(self, key: str, doc: Row, columns: Sequence[str], shot: int | None) -> Value:
        spec, place = self._spec(key, shot), self._place(key, shot)
        if isinstance(spec, Function):
            value = call_function(spec, doc)
            origin = Origin('field', f'{spec.name}()', shot, source=spec.place)
            return Value(value, (Text(value, origin),) if isinstance(value, str) and value else ())
        if not isinstance(spec, str):
            return Value(spec)
        if spec in columns:
            if spec not in doc:
                raise RenderError(f'{place}: {key} is the column {spec!r}, which this row does not have.')
            value = doc[spec]
            origin = Origin('field', spec, shot, source=place)
            return Value(value, (Text(value, origin),) if isinstance(value, str) and value else ())
        pieces = tuple(row_template(spec, place).pieces(doc))
        if shot is not None:
            pieces = text_pieces(pieces, shot=shot)
        return Value(''.join(piece.text for piece in pieces), pieces, rendered=True)


def _as_index(value: Value) -> Value:
    """A text of digits as an index, if there are choices for it."""
    if not value.rendered or not value.value.isdigit():
        return value
    try:
        return Value(ast.literal_eval(value.value))
    except (SyntaxError, ValueError) as error:
        raise RenderError(f'expected the index of a choice, got {value.value!r:.60}.') from error


def _describe(value: Any) -> Any:
    if isinstance(value, Function):
        return repr(value)
    if isinstance(value, Mapping):
        return {key: _describe(inner) for key, inner in value.items()}
    return [_describe(inner) for inner in value] if isinstance(value, list) else value


def text_pieces(pieces: Sequence[Text], *, shot: int | None) -> tuple[Text, ...]:
    """The pieces as part of an example."""
    return tuple(
        Text(piece.text, Origin(piece.origin.kind, piece.origin.name, shot, source=piece.origin.source))
        for piece in pieces
    )
