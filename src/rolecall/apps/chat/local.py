"""Chat with local models: GGUF files in the embedded engine, Hugging Face models in Transformers (or vLLM)."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal

from rolecall.apps.chat.adapters import TextAdapter, ThinkingPolicy, name_author
from rolecall.apps.chat.answerer import Connection, close_model
from rolecall.apps.chat.background import result_of
from rolecall.apps.chat.call_options import CallSettings, LocalSampling
from rolecall.apps.chat.module import ChatModule
from rolecall.apps.chat.module_errors import ModuleError, NotStartedError
from rolecall.checking import OptionReader, explain_arguments
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.errors import DataError, close_match
from rolecall.models.backends import build_model
from rolecall.models.llama.model import SAMPLING_PARAMETERS
from rolecall.models.model_names import ALIASES, SOURCES, find_service
from rolecall.models.prices import Price
from rolecall.models.protocol import Model, Sampling
from rolecall.models.pull import PACKAGED, model_path
from rolecall.models.tokenizers.tokenizer import find_chat_template, find_tokenizer
from rolecall.runs.client.retry import RetryPolicy

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rolecall.apps.chat.vendor_types import LocalModule
    from rolecall.apps.tuning.tune import TuneListener
else:
    LocalModule = ChatModule

Engine = Literal['llama', 'vllm', 'transformers']

_TYPES: Mapping[str, tuple[str, str]] = {
    'llama': ('LlamaCpp', 'LlamaCpp'),
    'vllm': ('VLLM', 'VLLMwithChatTemplate'),
    'transformers': ('HuggingFaceBaseModel', 'HuggingFacewithChatTemplate'),
}
"""The type of model entry for each engine: without a chat template, and with one."""


class LocalOptions(LocalSampling, total=False):
    """The options of a module: those of its model entry (docs/models-local.md), and parameters for every call."""

    max_seq_len: int | None
    n_threads: int | None
    parallel: int | None
    batch_size: int | None
    stop_words: Sequence[str] | None
    generation_kwargs: Mapping[str, Any] | None
    model_kwargs: Mapping[str, Any] | None
    tokenizer_path: str | None
    tokenizer_kwargs: Mapping[str, Any] | None
    device: str | None
    dtype: str | None
    trust_remote_code: bool


_ENTRY_OPTIONS = LocalOptions.__annotations__.keys() - LocalSampling.__annotations__.keys()
_NAME = 'TrainableModule'
_FREE = Price(0.0, 0.0)
_NO_RETRIES = RetryPolicy(seconds=None, retries=0, when_busy=0)
_HELLO = 'Hello'
_SERVED_ONLY = ('openai', 'anthropic', 'gemini', 'xai')
"""Services whose models have no public weights of the same name."""
_ORPHANS: list[Connection] = []
"""Engines of a parent process, kept so that they are never destroyed in a forked child."""


@explain_arguments(ModuleError)
class TrainableModule(LocalModule):
    """A local model: a `.gguf` file, `'smollm2'`, or the folder or name of a Hugging Face model.

    with TrainableModule('smollm2').prompt('You answer in one word.') as module:
        module('What is the capital of France?')

    Start it, then call it like an `OnlineChatModule`. Options of a model entry (`max_seq_len`, `n_threads`, …)
    configure the model; all others are sampling parameters (`temperature`, `max_tokens`, …).

    >>> TrainableModule('smollm2')('Hello')
    Traceback (most recent call last):
    rolecall.apps.chat.module_errors.NotStartedError: 'smollm2' is not started: call start(), or use `with module:`.
    """

    _served = False

    def __init__(self, model: str | Path, *, engine: Engine | None = None, **own: Unpack[LocalOptions]) -> None:
        options: dict[str, Any] = {**own}
        if not isinstance(model, (str, Path)) or not str(model):
            raise ModuleError(f"model must be a name, a file or a folder such as 'smollm2', got {model!r:.60}.")
        if engine is not None and engine not in _TYPES:
            raise ModuleError(f'engine must be one of {", ".join(_TYPES)}, got {engine!r:.60}.')
        reader = OptionReader(options, _NAME)
        reader.refuse_misspelt(tuple(LocalOptions.__annotations__))
        reader.raise_problems()
        entry = {name: value for name, value in options.items() if name in _ENTRY_OPTIONS}
        self.model = str(model).removeprefix('hf:')
        self._local = _LocalModel(self.model, engine or _engine_for(self.model), entry)
        self._set_up({name: value for name, value in options.items() if name not in _ENTRY_OPTIONS})

    @property
    def engine(self) -> Engine:
        """The engine that runs the model."""
        return self._local.engine

    @property
    def started(self) -> bool:
        """Whether the model is loaded in this process."""
        return self._local.connection is not None

    def _start(self) -> None:
        self._local.start()

    def _stop(self) -> None:
        self._local.stop()  # the module can be started again

    def tune(
        self,
        rows: str | Path | Iterable[Mapping[str, Any]],
        output: str | Path,
        *,
        answer: str = 'answer',
        input: str | None = None,  # noqa: A002  # named like the others: the column of the user's input
        history: str | None = None,
        tools: str | None = None,
        overwrite: bool = False,
        skip: bool = False,
        listener: TuneListener | None = None,
        **settings: Any,
    ) -> TrainableModule:
        """Fine-tune the model on rows worded by this module's prompter; the result is a module of the tuned model.

        module = TrainableModule('models/base').prompt(prompter).tune('rows.jsonl', 'tuned', answer='answer', lora=16)

        `answer`, `input`, `history` and `tools` name columns. `settings` are those of `TuneSettings`: `lora`, `epochs`,
        `batch_size`, `learning_rate`, `held_out`, `seed`, … The same call after an interruption resumes.
        """
        from rolecall.apps.sft.prompter_examples import Columns
        from rolecall.apps.tuning.tune import tune
        from rolecall.apps.tuning.tune_settings import TuneSettings

        if not isinstance(output, (str, Path)):
            raise ModuleError(f'output must be a folder, got {output!r:.60}.')
        result = tune(
            self._local.training_entry,
            rows,
            self.prompter,
            Columns(answer, input, history, tools),
            output,
            settings=TuneSettings.read(settings),
            skip=skip,
            overwrite=overwrite,
            listener=listener,
        )
        return self._with(model=str(result.folder), _local=self._local.at(str(result.folder)))

    def __repr__(self) -> str:
        return f'TrainableModule({self.model!r}, engine={self.engine!r}, started={self.started})'

    def _read_options(self, options: Mapping[str, Any]) -> CallSettings:
        call = super()._read_options(options)
        llama = self.engine == 'llama'
        hint = f' Known: {", ".join(SAMPLING_PARAMETERS)}.' if llama else ''
        parameters = SAMPLING_PARAMETERS if llama else LocalSampling.__annotations__
        for name in call.sampling.extra:
            if name not in parameters:
                raise ModuleError(f'{self.model} has no sampling parameter {name!r}.{hint}')
        return call

    @property
    def _name(self) -> str:
        return self.model

    def _connection(self) -> Connection:
        line = self._local.connection
        if line is not None:
            return line
        if self._local.line is not None:
            raise NotStartedError(
                f'{self.model!r} was started before this process was forked, and an engine does not survive that: call '
                'start() here too, or start processes with the method spawn.'
            )
        raise NotStartedError(f'{self.model!r} is not started: call start(), or use `with module:`.')


class _LocalModel:
    """A model in this process, shared by all modules derived from one."""

    def __init__(self, path: str, engine: Engine, options: Mapping[str, Any]) -> None:
        self.engine = engine
        self.line: Connection | None = None
        self._process = os.getpid()
        self._path = path
        self._options = options
        self._changing = RLock()
        self._on_exit: weakref.finalize[..., _LocalModel] | None = None

    def __reduce__(self) -> Any:
        """Pickled and deep-copied without the engine: the copy is not started."""
        return _LocalModel, (self._path, self.engine, self._options)

    @property
    def connection(self) -> Connection | None:
        """The connection to the loaded model; None in a process that was forked since, where its threads are gone."""
        return self.line if self._process == os.getpid() else None

    @property
    def training_entry(self) -> dict[str, Any]:
        """The model entry that says which weights to train."""
        trained_with = ('tokenizer_path', 'tokenizer_kwargs', 'model_kwargs', 'device', 'dtype', 'trust_remote_code')
        options = {name: value for name, value in self._options.items() if name in trained_with}
        kind = 'LlamaCpp' if self.engine == 'llama' else 'HuggingFaceCausalLM'
        return {'abbr': Path(self._path).name, **options, 'type': kind, 'path': self._path}

    def at(self, path: str) -> _LocalModel:
        """The same engine and options for other weights, not started."""
        return _LocalModel(path, self.engine, self._options)

    def start(self) -> None:
        self._forget_parent()
        with self._changing:
            if self.line is not None:
                return
            if self.engine == 'llama':
                if not (file := model_path(self._path)).is_file():
                    raise DataError(f'file not found: {file}.')
                self._begin(find_chat_template(file))
                return
            if (address := _address_online(self._path)) is not None and not os.path.exists(self._path):
                raise ModuleError(f'{self._path} is behind a server: use OnlineChatModule({address!r}).')
            if (meant := close_match(self._path, PACKAGED, cutoff=0.8)) and not os.path.exists(self._path):
                raise ModuleError(f"no model {self._path!r}. Did you mean '{meant}'?")
            if self._path.startswith(('/', '.', '~')) and not os.path.exists(os.path.expanduser(self._path)):
                raise DataError(f'folder not found: {self._path}.')
            template = _template_in_folder(self._folder())
            model = self._begin(template, guess=True)
            own_template = template or _template_in_folder(self._folder())  # a hub model is only downloaded now
            if own_template is not None:
                self.line = Connection(model, _adapter(model, own_template), _NO_RETRIES, _FREE)
            elif template is None:
                self.stop()
                self._begin(None)

    def _forget_parent(self) -> None:
        """In a forked child: let go of the parent's engine, without touching it."""
        if self._process == os.getpid():
            return
        if self.line is not None:
            _ORPHANS.append(self.line)  # destroying it would wait for threads that are not here
        if self._on_exit is not None:
            self._on_exit.detach()
        self.line, self._on_exit, self._changing, self._process = None, None, RLock(), os.getpid()

    def stop(self) -> None:
        self._forget_parent()
        with self._changing:
            line, self.line = self.line, None
            if line is not None:
                if self._on_exit is not None:
                    self._on_exit.detach()
                result_of(line.close())

    def _begin(self, template: ChatTemplate | None, *, guess: bool = False) -> Model:
        kind = _TYPES[self.engine][template is not None or (guess and self._folder() is None)]
        model = build_model({**self._options, 'type': kind, 'path': self._path}, name=_NAME)
        try:
            result_of(model.generate([_HELLO], Sampling(max_out_len=1)))
        except BaseException:
            result_of(model.close())
            raise
        self.line = Connection(model, _adapter(model, template), _NO_RETRIES, _FREE)
        self._on_exit = weakref.finalize(self, close_model, model)
        return model

    def _folder(self) -> Path | None:
        """The folder of a Hugging Face model, if it is local."""
        place = Path(os.path.expanduser(str(self._options.get('tokenizer_path') or self._path)))
        if place.is_dir():
            return place
        tokenizer = find_tokenizer({'path': str(place)})
        return None if tokenizer is None else Path(tokenizer.name).parent


def _adapter(model: Model, template: ChatTemplate | None) -> TextAdapter:
    thinking = ThinkingPolicy(name_author(model), 'openai')
    return TextAdapter(template, thinking=thinking, tokenizer=lambda: getattr(model, 'tokenizer', None))


def _engine_for(model: str) -> Engine:
    """Choose the engine by the model's name. vLLM is experimental, so it is used only where it is asked for.

    >>> _engine_for('smollm2'), _engine_for('weights/model.gguf'), _engine_for('some/model')
    ('llama', 'llama', 'transformers')
    """
    return 'llama' if model in PACKAGED or model.endswith('.gguf') else 'transformers'


def _address_online(name: str) -> str | None:
    """What names a model that runs behind a server only; None for one that may have weights to load.

    >>> _address_online('gpt-4o'), _address_online('openai/gpt-4o'), _address_online('openai/gpt-oss-20b')
    ('openai/gpt-4o', 'openai/gpt-4o', None)
    """
    if '://' in name or name in SOURCES:
        return name
    source, _, model = name.rpartition('/')
    service = find_service(model)
    has_weights = service not in _SERVED_ONLY or model.startswith('gpt-oss')
    return None if has_weights or ALIASES.get(source, source) not in ('', service) else f'{service}/{model}'


def _template_in_folder(folder: Path | None) -> ChatTemplate | None:
    return find_chat_template(folder) if folder else None
