"""What may stand beside a config or a file of rows, declared once for Python, the command line and its help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecall.checking import OptionReader, on_command_line
from rolecall.errors import ConfigError, Problem
from rolecall.redaction import mask_config

if TYPE_CHECKING:
    from rolecall.models.model_names import ModelName


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOptions:
    """How rows become prompts and scores."""

    template: str | None = field(
        default=None,
        metadata=on_command_line(
            r"prompt for each row: '{question}\n{answer}'; \n is a line break; given twice, both wordings are asked",
            'TEXT',
            action='append',
        ),
    )
    other_templates: tuple[str, ...] = ()
    """Further wordings; each is a dataset of its own."""
    answer: str | None = field(
        default=None,
        metadata=on_command_line(
            'column that holds the answer; hidden from the prompt', 'COLUMN', also=('--output-column',)
        ),
    )
    choices: Sequence[str] = field(default=(), metadata=on_command_line('the answers to choose from', 'A,B,…'))
    metric: str | Mapping[str, Any] | Callable[..., Any] | None = field(
        default=None,
        metadata=on_command_line('exact, contains, number, math, f1, rouge, bleu, … (default: exact)', 'NAME'),
    )
    extract: str | Mapping[str, Any] | Callable[..., Any] | None = field(
        default=None,
        metadata=on_command_line('how the answer is read from a reply (rolecall config list postprocessors)', 'NAME'),
    )
    judge: str | Mapping[str, Any] | None = field(
        default=None,
        metadata=on_command_line(
            'a model that judges answers (with --metric: those that it cannot read): correctness:openai/NAME '
            '(rolecall config list judges)',
            'RUBRIC:MODEL',
        ),
    )
    """A ready judge and its model, or an evaluator entry."""
    ask: str | None = field(
        default=None,
        metadata=on_command_line(
            'read the choice from a reply, or compare log-probabilities (default: compare, if every model gives them)',
            choices=('generate', 'perplexity'),
        ),
    )
    encoding: str | None = field(
        default=None, metadata=on_command_line('encoding of the file (default: utf-8)', 'NAME')
    )
    on_error: str | None = field(
        default=None,
        metadata=on_command_line('what a malformed row does (default: stop)', choices=('stop', 'skip')),
    )
    question: str | None = None
    """The column of the question, where its name does not tell."""
    name: str | None = None
    """What the dataset is called; otherwise as its file, or `rows`."""

    def __post_init__(self) -> None:
        choices = read_choices(self.choices) if isinstance(self.choices, str) else tuple(map(str, self.choices))
        object.__setattr__(self, 'choices', choices)

    @property
    def file(self) -> dict[str, Any]:
        """How the file is read, as keys of an entry."""
        options = {'encoding': self.encoding, 'on_error': self.on_error}
        return {key: value for key, value in options.items() if value is not None}

    @property
    def given(self) -> dict[str, Any]:
        """The options that are given, for the manifest of a run."""
        values = {option.name: getattr(self, option.name) for option in fields(RowsOptions) if option.metadata}
        given = {name: value for name, value in values.items() if value not in (None, ())}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}


@dataclass(frozen=True, slots=True)
class Task(RowsOptions):
    """Rows, how they are asked and how answers are scored: a dataset without a nested config.

    `rows` are dicts, a pandas frame or a file. `run`, `preview` and `lint` take a task as they take a config:

    >>> task = Task([{'q': '1+1=?', 'a': '2'}], template='Add: {q}', answer='a', metric='number')
    >>> import rolecall
    >>> next(rolecall.preview(task, model='openai/gpt-4o')).request
    [{'role': 'user', 'content': 'Add: 1+1=?'}]
    """

    rows: Any


def read_choices(text: str) -> tuple[str, ...]:
    """Choices separated by commas.

    >>> read_choices('A,B, C')
    ('A', 'B', 'C')
    """
    choices = tuple(choice.strip() for choice in text.split(','))
    if len(choices) < 2 or not all(choices):
        raise ConfigError(Problem('--choices', f'{text!r} is not a list of choices.', 'Write it like A,B,C,D.'))
    if len(set(choices)) < len(choices):
        raise ConfigError(Problem('--choices', f'{text!r} names a choice twice.'))
    return choices


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Changes to every dataset of a config. What is None stays as it is."""

    shots: int | None = field(default=None, metadata=on_command_line('examples for each row', 'N', least=0))
    retriever: str | None = field(
        default=None, metadata=on_command_line('how examples are chosen: fixk, random, bm25, topk, …', 'NAME')
    )
    system: str | None = field(default=None, metadata=on_command_line('a system message', 'TEXT'))
    temperature: float | None = field(default=None, metadata=on_command_line('sampling temperature', 'T', least=0))
    max_out_len: int | None = field(default=None, metadata=on_command_line('longest answer, in tokens', 'N'))
    seed: int | None = field(
        default=None, metadata=on_command_line('seed of sampling and of random examples', 'N', least=0)
    )
    n: int | None = field(default=None, metadata=on_command_line('answers for each row', 'N'))
    gold_patch: str | None = field(
        default=None,
        metadata=on_command_line('gold answers to use instead, for the rows that FILE names', 'FILE'),
    )
    read_as: str | None = field(
        default=None,
        metadata=on_command_line(
            'whose reading of replies makes the score (default: that of the system whose names the config uses)',
            choices=('own', 'opencompass', 'aisbench', 'lm_eval'),
        ),
    )
    settings: tuple[tuple[str, Any], ...] = ()
    """Values by their place (`--set PATH=VALUE`)."""
    silence: tuple[str, ...] = ()
    """Lint rules to leave out."""

    def __post_init__(self) -> None:
        if not self.as_dict():
            return
        reader = OptionReader({field.name: getattr(self, field.name) for field in fields(self)})
        reader.whole('shots', least=0)
        reader.whole('max_out_len')
        reader.whole('n', least=1)
        reader.whole('seed')
        reader.number('temperature', least=0)
        reader.text('system')
        reader.text('retriever')
        reader.text('gold_patch')
        reader.text('read_as')
        reader.raise_problems()

    def as_dict(self) -> dict[str, Any]:
        """What is changed, for the manifest; secrets are hidden."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != 'settings'}
        changes = {name: value for name, value in values.items() if value not in (None, ())}
        for path, value in self.settings:
            key = path.rpartition('.')[2]
            changes[path] = mask_config({key: value})[key]
        return changes


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Everything that may stand beside a config or a file of rows."""

    models: tuple[ModelName, ...] = ()
    """Models by name, or patterns of the config's models."""
    model_name: str | None = None
    rows: RowsOptions = field(default_factory=RowsOptions)
    overrides: Overrides = field(default_factory=Overrides)
    data: Mapping[str, Any] = field(default_factory=dict)
    """Files of rows by split, or for each dataset."""
    data_folder: str | Path | None = None
    """The folder with the rows of benchmarks that are given by name."""
    task: Mapping[str, Any] = field(default_factory=dict)
    """Options of `load_config` for task files of lm-evaluation-harness."""
    models_file: str | None = None
    """A config whose models are asked."""
    meta_template: str | None = None
    """A model family that prompts are shown for; it is never asked."""
    api: bool = False
    """Whether prompts are shown as messages of a chat API."""
    asks_models: bool = False
    """Whether models are asked: then the embedded one is the default."""
    collects_problems: bool = False
    """Whether entries with problems are left out, and what is wrong is kept for a consumer that finds more."""

    @property
    def shown(self) -> list[dict[str, Any]]:
        """Entries of models that are only shown a prompt, never asked."""
        models: list[dict[str, Any]] = []
        if self.meta_template is not None:
            text_model = {'type': 'HuggingFaceCausalLM', 'path': 'none', 'meta_template': self.meta_template}
            models.append({'abbr': self.meta_template, **text_model})
        if self.api:
            models.append({'abbr': 'api', 'type': 'OpenAI', 'path': 'model'})
        return models

    @property
    def train_only(self) -> bool:
        """Whether the only file given beside a source has rows for examples."""
        return set(self.data) == {'train'}


def list_models(model: Any) -> tuple[ModelName, ...]:
    """A model, several, or none, as they may be given in Python."""
    if model is None:
        return ()
    alone = isinstance(model, str | Mapping) or callable(model) or not isinstance(model, Iterable)
    return (model,) if alone else tuple(model)
