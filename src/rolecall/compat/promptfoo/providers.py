"""Providers of promptfoo as models: services, servers, Python files, and an echo."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rolecall.core.prompts.pieces import text_of
from rolecall.errors import ConfigError, Problem
from rolecall.models.model_names import ALIASES, SOURCES, resolve_model
from rolecall.models.protocol import ModelError
from rolecall.plain_files import read_plain
from rolecall.usercode import neighbours_of, printing_to_stderr

_KINDS = ('chat', 'messages', 'completion', 'responses')
_SERVICES = {'google': 'gemini', 'vertex': 'gemini', 'anthropic': 'anthropic', 'azureopenai': 'azure'}
_OPTIONS = {'temperature': 'temperature', 'top_p': 'top_p', 'seed': 'seed', 'stop': 'stop', 'max_tokens': 'max_out_len'}


def read_provider(provider: Any, base: Path) -> dict[str, Any]:
    """A provider as a model entry."""
    options: Mapping[str, Any] = {}
    if isinstance(provider, Mapping):
        if 'id' not in provider and len(provider) == 1:
            [(name, options)] = provider.items()
            provider = {'id': name, **(options if isinstance(options, Mapping) else {})}
        options, provider = provider, provider.get('id')
    if not isinstance(provider, str):
        raise ConfigError(Problem('', f'expected a provider, got {provider!r:.60}.'))
    config = options.get('config') or {}
    if not isinstance(config, Mapping):
        raise ConfigError(Problem('config', f'expected options of {provider}, got {config!r:.60}.'))
    if options.get('transform'):
        raise ConfigError(Problem('transform', 'replies are not transformed.', 'Leave it out.'))
    entry = _find_model(provider, config, base)
    settings = {ours: config[theirs] for theirs, ours in _OPTIONS.items() if theirs in config}
    label = {'abbr': str(options['label'])} if options.get('label') else {}
    return {**entry, **settings, **label}


def _find_model(provider: str, config: Mapping[str, Any], base: Path) -> dict[str, Any]:
    if provider == 'echo':
        return {'type': 'Function', 'function': _echo, 'abbr': 'echo'}
    if provider.startswith(('file://', 'python:')):
        return _find_python(provider.removeprefix('file://').removeprefix('python:'), base)
    if provider.startswith(('http://', 'https://')):
        return resolve_model(provider)
    service, _, name = provider.partition(':')
    kind, _, rest = name.partition(':')
    name = rest if kind in _KINDS and rest else name
    service = _SERVICES.get(service, service)
    if service not in {*SOURCES, *ALIASES} or kind in ('image', 'embedding', 'realtime', 'transcription', 'video'):
        return {'type': UnknownProvider, 'abbr': provider, 'provider': provider}
    entry = resolve_model(f'{service}/{name}')
    url = config.get('apiBaseUrl') or config.get('apiHost')
    return {**entry, 'openai_api_base': url} if url and 'openai_api_base' in entry else entry


def _find_python(path: str, base: Path) -> dict[str, Any]:
    file, _, function = path.partition('.py:')
    file = f'{file}.py' if function else file
    if not file.endswith('.py'):
        raise ConfigError(refuse_program(path))
    return {
        'type': 'Function',
        'function': PythonProvider(base / file, function or 'call_api'),
        'abbr': Path(file).stem,
    }


def _echo(prompt: str) -> str:
    return prompt


class UnknownProvider:
    """A provider that has no model here. A run refuses it before anything is sent, unless `--model` names another."""

    def __init__(self, provider: str) -> None:
        self._provider = provider

    def check_ready(self) -> None:
        """Say that it cannot be asked."""
        what = f'the provider {self._provider!r} of promptfoo is not known here.'
        raise ModelError(f'{what} Name another model with --model, or a Python file (file://provider.py).')

    async def generate(self, requests: Sequence[Any], sampling: Any) -> list[Any]:
        """It has no answers."""
        self.check_ready()
        return []


class PythonProvider:
    """A provider in a Python file: `call_api(prompt, options, context)`, which returns a dict with `output`."""

    def __init__(self, path: Path, function: str) -> None:
        self._path = path
        self._function = function
        self._call: Callable[..., Any] | None = None
        self.__name__ = path.stem

    def __call__(self, prompt: str) -> str:
        with neighbours_of(self._path), printing_to_stderr:
            if self._call is None:
                names: dict[str, Any] = {'__name__': self._path.stem, '__file__': str(self._path)}
                exec(compile(read_plain(self._path), str(self._path), 'exec'), names)
                self._call = names[self._function]
            result = self._call(prompt, {'config': {}}, {'vars': {}})
        if isinstance(result, Mapping) and result.get('error'):
            raise RuntimeError(str(result['error']))
        return text_of(result.get('output') if isinstance(result, Mapping) else result)


def refuse_program(path: str) -> Problem:
    return Problem('', f'{path}: JavaScript and other programs are not run.', 'Write it in Python.')
