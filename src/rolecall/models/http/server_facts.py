"""What a server says about itself: which engine it is, the name, window and files of its model.

Inference engines that people run themselves answer this for nothing. What was found out is remembered for the address,
so that a linter that never connects knows it, too.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rolecall.checking import is_number, is_whole
from rolecall.models.http.connection import HttpClient
from rolecall.models.protocol import ModelError
from rolecall.models.pull import cache_directory

_ENGINES = {'vllm': 'vLLM', 'sglang': 'SGLang', 'llamacpp': 'llama.cpp', 'library': 'Ollama'}
"""Engines by what their list of models gives as the owner."""
_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What is known of a model's server. The second half is found by probes; None: not probed, or not decided."""

    engine: str = ''
    """Empty where the server does not say."""
    version: str = ''
    model: str = ''
    """What the server calls the model."""
    files: str = ''
    """Where the server has the model's files."""
    window: int | None = None
    """The context limit in tokens."""
    quantization: str = ''
    temperature: float | None = None
    """The temperature of requests that state none."""
    keeps_system: bool | None = None
    bos: int | None = None
    """How many BOS tokens a prompt begins with."""
    truncates: bool | None = None
    """Whether prompts beyond the window are cut and answered."""
    logprobs: bool | None = None
    seed: bool | None = None
    stop: bool | None = None
    probes: int = 0
    """Requests that were sent to find out; 0 if it was not probed."""

    def describe(self) -> str:
        """The facts in a line.

        >>> ServerFacts('vLLM', '0.32.0', window=512, keeps_system=False, bos=2).describe()
        'vLLM 0.32.0, window 512 tokens, drops the system message, 2 BOS tokens'
        """
        parts = [f'{self.engine} {self.version}'.strip(), self.quantization]
        parts.append(f'window {self.window:,} tokens' if self.window else '')
        parts += [phrase for name, phrase in _LACKING.items() if getattr(self, name) is False]
        parts.append('cuts longer prompts silently' if self.truncates else '')
        parts.append(f'{self.bos} BOS tokens' if self.bos is not None and self.bos > 1 else '')
        return ', '.join(filter(None, parts))


_LACKING = {
    'keeps_system': 'drops the system message',
    'logprobs': 'no log-probabilities',
    'seed': 'ignores seeds',
    'stop': 'ignores stop words',
}


def without_probes(facts: ServerFacts | None) -> ServerFacts | None:
    """What the server itself said."""
    probed: dict[str, Any] = dict.fromkeys(('keeps_system', 'bos', 'truncates', 'logprobs', 'seed', 'stop'))
    return facts and replace(facts, probes=0, **probed)


async def look_up(client: HttpClient, model: str) -> ServerFacts | None:
    """What the server says of a model, or of its only one; None if it cannot be reached or says nothing."""
    try:
        return await asyncio.wait_for(_look_up(client, model), _SECONDS)
    except (ModelError, asyncio.TimeoutError):
        return None


async def _look_up(client: HttpClient, model: str) -> ServerFacts | None:
    cards = _list_mappings(await client.get('models'), 'data')
    named = [card for card in cards if card.get('id') == model] or (cards if len(cards) == 1 else [])
    if not named:
        return None
    facts = read_card(named[0])
    with suppress(ModelError):
        facts = replace(facts, **{name: value for name, value in (await _fetch_more(client, facts)).items() if value})
    return facts


def read_card(card: Mapping[str, Any]) -> ServerFacts:
    """The facts in an entry of the list of models.

    >>> read_card({'id': 'tiny', 'owned_by': 'vllm', 'root': '/models/tiny', 'max_model_len': 512}).window
    512
    """
    meta = _as_mapping(card.get('meta'))
    name, root = _as_text(card.get('id')), _as_text(card.get('root'))
    return ServerFacts(
        _ENGINES.get(_as_text(card.get('owned_by')), ''),
        model=name,
        files=root or name,
        window=_as_window(card.get('max_model_len') or meta.get('n_ctx')),
        quantization=_as_text(meta.get('ftype')),
    )


async def _fetch_more(client: HttpClient, facts: ServerFacts) -> dict[str, Any]:
    """What an engine says at an address of its own."""
    if facts.engine == 'vLLM':
        return {'version': _as_text(_as_mapping(await client.get('/version')).get('version'))}
    if facts.engine == 'llama.cpp':
        props = _as_mapping(await client.get('/props'))
        usual = _as_mapping(props.get('default_generation_settings'))
        warmth = _as_mapping(usual.get('params')).get('temperature')
        return {
            'version': _as_text(props.get('build_info')),
            'files': _as_text(props.get('model_path')),
            'window': _as_window(usual.get('n_ctx')),
            'temperature': round(float(warmth), 4) if is_number(warmth) else None,
        }
    if facts.engine == 'Ollama':
        loaded = _list_mappings(await client.get('/api/ps'), 'models')
        own = next((entry for entry in loaded if entry.get('name') == facts.model), {})
        level = _as_mapping(own.get('details')).get('quantization_level')
        return {'window': _as_window(own.get('context_length')), 'quantization': _as_text(level)}
    return {}


def _as_window(value: Any) -> int | None:
    return value if is_whole(value, least=1, most=2**31) else None


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list_mappings(answer: Any, key: str) -> list[Mapping[str, Any]]:
    entries = _as_mapping(answer).get(key)
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _as_text(value: Any) -> str:
    return value[:400] if isinstance(value, str) else ''


def _file() -> Path:
    return cache_directory() / 'servers.json'


def _key(address: str, model: str) -> str:
    """The key of a model at an address, which may hold a secret."""
    return hashlib.sha256(f'{address} {model}'.encode()).hexdigest()[:32]


def _read_records() -> dict[str, Any]:
    try:
        return dict(json.loads(_file().read_text('utf-8')))
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


def recall_facts(address: str, model: str) -> ServerFacts | None:
    """What was found out before about a model at an address."""
    try:
        return ServerFacts(**_read_records()[_key(address, model)])
    except (KeyError, TypeError):
        return None


def remember_facts(address: str, model: str, facts: ServerFacts) -> None:
    """Remember what was found out; where that cannot be written, the next run finds out again."""
    file = _file()
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f'.{file.name}.{os.getpid()}')
        part.write_text(json.dumps({**_read_records(), _key(address, model): asdict(facts)}), encoding='utf-8')
        os.replace(part, file)
