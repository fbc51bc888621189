"""Models by name, as people write them on a command line or in Python: each becomes a model entry as configs have it.

| name | model |
|---|---|
| `smollm2` | the embedded model |
| `PATH.gguf` | a GGUF file, in the embedded engine |
| `hf:FOLDER`, `hf:ORG/NAME` | a Hugging Face model, by folder or by its name on the hub |
| `openai/NAME`, `anthropic/NAME`, `deepseek/NAME`, `ollama/NAME`, … | a model of a service (`model_names.tsv`) |
| `http://localhost:8000/v1` | an OpenAI-compatible server |
| `module:function`, `file.py:function` | a Python function |

Nothing is imported or read here: a name is only understood. A server is asked what it calls its model.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from rolecall.checking import Problems
from rolecall.errors import ConfigError, Problem, close_match
from rolecall.models.pull import PACKAGED
from rolecall.plain_files import read_table
from rolecall.registry import LocalPath, part_name


@dataclass(frozen=True, slots=True)
class ChatSource:
    """One chat service."""

    name: str
    base_url: str | None
    """None: the vendor's environment variable, or its default URL."""
    model: str = ''
    """Empty: the only model the server offers."""
    keys: tuple[str, ...] = ()
    """Environment variables that may hold the key, in order. Empty: no key is needed."""
    anthropic: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        """All environment variables checked for the key."""
        return (*self.keys, f'LAZYLLM_{self.name.upper()}_API_KEY') if self.keys else ()

    @property
    def key(self) -> str | None:
        """The `key` of a model entry: a variable's name, '' to send no key, or None to leave it to the backend."""
        if not self.keys:
            return ''
        if self.variable is None and self.base_url is None:
            return None  # the backend finds it at the first call, and knows whether the server needs one
        return f'${self.variable or self.keys[0]}'

    @property
    def variable(self) -> str | None:
        """The first variable that is set."""
        return next((name for name in self.variables if os.environ.get(name)), None)


_SERVICES = read_table(__file__)
SOURCES: Mapping[str, ChatSource] = {
    name: ChatSource(name, url or None, model, tuple(keys.split()), anthropic=name == 'anthropic')
    for name, url, model, keys, _, _ in _SERVICES
}
"""Every service. Without a source, the first with a key in the environment is used."""


def azure_url(deployment: str) -> str:
    """The address of an Azure deployment, by the variables that OpenAI's own package reads.

    Without an API version it is Azure's `v1` API, which takes the deployment as the model.
    """
    endpoint = os.environ.get('AZURE_OPENAI_ENDPOINT', '').rstrip('/')
    if '://' not in endpoint or not deployment:
        remedy = "set AZURE_OPENAI_ENDPOINT (https://NAME.openai.azure.com) and name the deployment: 'azure/my-gpt-4o'."
        raise ConfigError(Problem('azure', 'no endpoint or no deployment is given.', f'To use Azure, {remedy}'))
    version = os.environ.get('OPENAI_API_VERSION') or os.environ.get('AZURE_OPENAI_API_VERSION')
    if not version:
        return f'{endpoint}/openai/v1'
    return f'{endpoint}/openai/deployments/{quote(deployment)}?api-version={quote(version)}'


ALIASES: Mapping[str, str] = {alias: name for name, *_, aliases, _ in _SERVICES for alias in aliases.split()}
_FAMILIES: Mapping[str, str] = {start: name for name, *_, starts in _SERVICES for start in starts.split()}
"""How the names of models begin, and the service that has them."""


def find_service(model: str) -> str | None:
    """A service that offers a model of this name; None if its name tells none.

    >>> find_service('gpt-4o'), find_service('my-model')
    ('openai', None)
    """
    return next((service for start, service in _FAMILIES.items() if model.lower().startswith(start)), None)


ModelName = str | Mapping[str, Any] | Callable[..., Any]
"""A model by name, as an entry, or as a function."""

DEFAULT_MODEL = 'smollm2'
"""The model of a run that names none."""

FORMS = 'smollm2, FILE.gguf, hf:FOLDER, SERVICE/NAME (openai/gpt-4.1-mini, ollama/llama3.2, …), a URL, module:function'
"""The forms of a name, for help texts and errors."""

_LOCAL_EXAMPLE = 'llama3.2'
_FUNCTION = re.compile(r'[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*')
_HUB_NAME = re.compile(r'[\w.-]+(?:/[\w.-]+)?')
_HOST_AND_PORT = re.compile(r'[\w.-]+:\d+(?:/.*)?')


def resolve_models(
    models: ModelName | Iterable[ModelName], *, model_name: str | None = None, where: str = 'model'
) -> list[dict[str, Any]]:
    """The entries of one or several models, each with an `abbr` of its own. All problems are raised together.

    `model_name` is what the server at a URL calls its model.

    >>> [entry['abbr'] for entry in resolve_models(['smollm2', 'openai/gpt-4.1-mini'])]
    ['smollm2', 'gpt-4.1-mini']
    """
    names = [models] if isinstance(models, str | Mapping) or callable(models) else list(models)
    problems = Problems()
    if model_name is not None and not any(map(_is_url, names)):
        problems.add(
            f'{where}{"-" if where.startswith("--") else "_"}name',
            f'{model_name!r} is for a model given by its URL, and none is.',
        )
    entries: list[dict[str, Any]] = []
    distinct: list[ModelName] = []
    for name in names:
        with problems.inside(''):
            if name in distinct:
                raise ConfigError(Problem(where, f'{name!r} is given twice.'))
            distinct.append(name)
            entries.append(resolve_model(name, model_name=model_name if _is_url(name) else None, where=where))
    problems.raise_all()
    _make_abbrs_distinct(entries, distinct)
    return entries


def resolve_model(model: ModelName, *, model_name: str | None = None, where: str = 'model') -> dict[str, Any]:
    """The entry of one model. A mapping is an entry already, and a function is the model itself.

    >>> resolve_model('deepseek/deepseek-chat')['openai_api_base']
    'https://api.deepseek.com/v1'
    >>> resolve_model('http://localhost:8000/v1', model_name='qwen')
    {'abbr': 'qwen', 'type': 'OpenAI', 'path': 'qwen', 'openai_api_base': 'http://localhost:8000/v1', 'key': ''}
    >>> resolve_model('gpt-4o')
    Traceback (most recent call last):
    rolecall.errors.ConfigError: model
      unknown model 'gpt-4o'.
      Did you mean 'openai/gpt-4o'?
    """
    if isinstance(model, Mapping):
        return dict(model)
    if not isinstance(model, str):
        if callable(model):
            return {'abbr': part_name(model).strip('<>'), 'type': model}
        raise ConfigError(Problem(where, f'expected the name of a model, got {model!r:.60}.', f'Write {FORMS}.'))
    name = model.strip()
    for resolve in (_resolve_packaged, _at_url, _gguf_file, _hugging_face, _of_service, _function):
        entry = resolve(name, model_name, where)
        if entry is not None:
            return entry
    raise ConfigError(Problem(where, f'unknown model {model!r}.' if name else 'no model is named.', _suggest(name)))


Entry = dict[str, Any]


def _resolve_packaged(name: str, model_name: str | None, where: str) -> Entry | None:
    return {'abbr': name, 'type': 'Embedded', 'path': name} if name in PACKAGED else None


def _is_url(model: object) -> bool:
    return isinstance(model, str) and '://' in model


def _at_url(name: str, model_name: str | None, where: str) -> Entry | None:
    if not _is_url(name):
        return None
    try:
        host = urlsplit(name).hostname
    except ValueError:
        host = None
    if not host or not name.startswith(('http://', 'https://')):
        what = f'{name!r} is not the URL of a server.'
        raise ConfigError(Problem(where, what, 'Write it like http://localhost:8000/v1.'))
    service = next(
        (source for source in SOURCES.values() if source.base_url and urlsplit(source.base_url).hostname == host), None
    )
    entry = {'openai_api_base': name, **_key(service if service is not None and service.keys else None)}
    if model_name is None and (service is None or not service.keys):
        from rolecall.models.endpoint_check import name_served_model

        model_name = name_served_model(name)
    if model_name is None:  # the backend asks again, and says which models the server offers
        return {'abbr': host, 'type': 'VLLMCustomAPIChat', **entry}
    return {'abbr': _last(model_name).removesuffix('.gguf'), 'type': 'OpenAI', 'path': model_name, **entry}


def _key(service: ChatSource | None) -> Entry:
    """The key of a service; no key for a server that is not one. An official API finds its own."""
    key = '' if service is None else service.key
    return {} if key is None else {'key': key}


def _gguf_file(name: str, model_name: str | None, where: str) -> Entry | None:
    if not name.lower().endswith('.gguf'):
        return None
    path = Path(os.path.expanduser(name.removeprefix('hf:')))
    if not path.is_file():
        raise ConfigError(Problem(where, f'no such file: {path}.', _suggest_neighbour(path, '*.gguf')))
    return {'abbr': path.name[: -len('.gguf')], 'type': 'LlamaCpp', 'path': str(path)}


def _hugging_face(name: str, model_name: str | None, where: str) -> Entry | None:
    path = Path(os.path.expanduser(name.removeprefix('hf:')))
    if not name.startswith('hf:') and not os.path.isfile(path / 'config.json'):
        return None
    if path.is_dir():
        if not (path / 'config.json').is_file():
            what = f'{path} has no config.json: it is not the folder of a Hugging Face model.'
            weights = next(iter(sorted(path.glob('*.gguf'))), None)
            remedy = (
                f'Did you mean {str(weights)!r}?' if weights else 'Write hf:FOLDER, or hf:ORG/NAME for one on the hub.'
            )
            raise ConfigError(Problem(where, what, remedy))
        return {'abbr': path.resolve().name, 'type': 'HuggingFaceCausalLM', 'path': str(path)}
    hub_name = name.removeprefix('hf:')
    if not _HUB_NAME.fullmatch(hub_name) or hub_name.startswith('.'):
        remedy = _suggest_neighbour(path, '*/') or 'Write hf:FOLDER, or hf:ORG/NAME for a model on the hub.'
        raise ConfigError(Problem(where, f'no such folder: {path}.', remedy))
    return {'abbr': _last(hub_name), 'type': 'HuggingFaceCausalLM', 'path': hub_name}


def _of_service(name: str, model_name: str | None, where: str) -> Entry | None:
    word, slash, model = name.partition('/')
    service = SOURCES.get(ALIASES.get(word.lower(), word.lower()))
    if service is None or not slash:
        return None
    if not model:
        example = f'{word}/{service.model or _LOCAL_EXAMPLE}'
        raise ConfigError(Problem(where, f'{name!r} names no model.', f'Write {example!r}, for example.'))
    address = {} if service.base_url is None else {'openai_api_base': service.base_url}
    kind = 'Anthropic' if service.anthropic else 'OpenAI'
    return {'abbr': _last(model), 'type': kind, 'path': model, **address, **_key(service)}


def _function(name: str, model_name: str | None, where: str) -> Entry | None:
    file, _, function = name.rpartition(':')
    if file.endswith('.py'):
        return _function_in_file(Path(os.path.expanduser(file)), function, where)
    if not _FUNCTION.fullmatch(name):
        return None
    abbr = function.rpartition('.')[2]
    package, here = name.replace(':', '.').partition('.')[0], Path.cwd()
    if (here / f'{package}.py').is_file() or (here / package).is_dir():
        return {'abbr': abbr, 'type': LocalPath(name, here)}
    return {'abbr': abbr, 'type': name}


def _function_in_file(path: Path, function: str, where: str) -> Entry:
    if not path.is_file():
        raise ConfigError(Problem(where, f'no such file: {path}.', _suggest_neighbour(path, '*.py')))
    if not path.stem.isidentifier():
        what = f'{path.name} cannot be imported: its name is not a Python name.'
        importable = re.sub(r'\W', '_', path.stem)
        raise ConfigError(Problem(where, what, f'Rename it, for example to {importable}.py.'))
    if not function.isidentifier():
        raise ConfigError(Problem(where, f'{function!r} is not the name of a function.', 'Write FILE.py:FUNCTION.'))
    return {'abbr': function, 'type': LocalPath(f'{path.stem}:{function}', path.absolute().parent)}


def _last(name: str) -> str:
    """The last part of a model's name, without characters that do not belong in the name of a file."""
    return re.sub(r'[^\w.+-]', '-', name.rstrip('/').rpartition('/')[2])


def _make_abbrs_distinct(entries: list[Entry], names: list[ModelName]) -> None:
    """Where two models share an abbr, use their full names instead."""
    abbrs = [entry.get('abbr') for entry in entries]
    for entry, name in zip(entries, names, strict=True):
        if isinstance(name, str) and abbrs.count(entry.get('abbr')) > 1:
            entry['abbr'] = re.sub(r'[^\w.+-]+', '-', name).strip('-')


def _suggest(name: str) -> str:
    """Suggest the name that was probably meant."""
    word, slash, model = name.partition('/')
    if packaged := close_match(name, PACKAGED, cutoff=0.75):
        return f"Did you mean '{packaged}'?"
    if _HOST_AND_PORT.fullmatch(name):
        return f"Did you mean 'http://{name}{'' if slash else '/v1'}'?"
    if slash and (service := close_match(word.lower(), [*SOURCES, *ALIASES], cutoff=0.75)):
        return f"Did you mean '{service}/{model}'?"
    if name in SOURCES:
        return f"Name one of its models: '{name}/{SOURCES[name].model or _LOCAL_EXAMPLE}'."
    if name.endswith('.py'):
        return f"Name a function in it: '{name}:FUNCTION'."
    if os.path.isdir(name):
        return 'The folder has no config.json: it is not a Hugging Face model.'
    if name.startswith(('./', '../', '/', '~')):
        return 'There is no such file or folder.'
    if slash and _HUB_NAME.fullmatch(name):
        return f"For a model on the Hugging Face hub write 'hf:{name}'. Services: {', '.join(SOURCES)}."
    if (family := find_service(name)) is not None:
        return f"Did you mean '{family}/{name}'?"
    return f'Write {FORMS}.'


def _suggest_neighbour(path: Path, pattern: str) -> str:
    """A file or folder beside a missing one with nearly its name."""
    names = [file.name for file in path.parent.glob(pattern)] if path.parent.is_dir() else []
    close = close_match(path.name, names)
    return f"Did you mean '{path.parent / close}'?" if close else ''
