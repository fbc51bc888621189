"""Chat services by name: base URL, default model, and where the key is found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from rolecall.errors import ConfigError, Problem
from rolecall.plain_files import read_table


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
    if not endpoint or not deployment:
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
