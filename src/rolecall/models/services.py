"""Chat services by name: base URL, default model, and where the key is found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from rolecall.errors import ConfigError, Problem


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


SOURCES: Mapping[str, ChatSource] = {
    source.name: source
    for source in (
        ChatSource('openai', None, 'gpt-4o-mini', ('OPENAI_API_KEY',)),
        ChatSource('anthropic', None, 'claude-sonnet-4-5', ('ANTHROPIC_API_KEY', 'CLAUDE_API_KEY'), anthropic=True),
        ChatSource('deepseek', 'https://api.deepseek.com/v1', 'deepseek-chat', ('DEEPSEEK_API_KEY',)),
        ChatSource(
            'qwen',
            'https://dashscope.aliyuncs.com/compatible-mode/v1',
            'qwen-plus',
            ('DASHSCOPE_API_KEY', 'QWEN_API_KEY'),
        ),
        ChatSource(
            'glm',
            'https://open.bigmodel.cn/api/paas/v4',
            'glm-4-plus',
            ('ZHIPUAI_API_KEY', 'ZAI_API_KEY', 'GLM_API_KEY'),
        ),
        ChatSource('kimi', 'https://api.moonshot.cn/v1', 'moonshot-v1-8k', ('MOONSHOT_API_KEY', 'KIMI_API_KEY')),
        ChatSource(
            'doubao',
            'https://ark.cn-beijing.volces.com/api/v3',
            'doubao-1-5-pro-32k-250115',
            ('ARK_API_KEY', 'DOUBAO_API_KEY'),
        ),
        ChatSource(
            'siliconflow', 'https://api.siliconflow.cn/v1', 'Qwen/Qwen2.5-7B-Instruct', ('SILICONFLOW_API_KEY',)
        ),
        ChatSource('minimax', 'https://api.minimax.chat/v1', 'MiniMax-Text-01', ('MINIMAX_API_KEY',)),
        ChatSource('sensenova', 'https://api.sensenova.cn/compatible-mode/v1', 'SenseChat-5', ('SENSENOVA_API_KEY',)),
        ChatSource('ppio', 'https://api.ppinfra.com/v3/openai', 'deepseek/deepseek-v3', ('PPIO_API_KEY',)),
        ChatSource('aiping', 'https://aiping.cn/api/v1', 'DeepSeek-V3', ('AIPING_API_KEY',)),
        ChatSource('openrouter', 'https://openrouter.ai/api/v1', 'openai/gpt-4o-mini', ('OPENROUTER_API_KEY',)),
        ChatSource(
            'gemini',
            'https://generativelanguage.googleapis.com/v1beta/openai',
            'gemini-2.0-flash',
            ('GEMINI_API_KEY', 'GOOGLE_API_KEY'),
        ),
        ChatSource('mistral', 'https://api.mistral.ai/v1', 'mistral-small-latest', ('MISTRAL_API_KEY',)),
        ChatSource('groq', 'https://api.groq.com/openai/v1', 'llama-3.1-8b-instant', ('GROQ_API_KEY',)),
        ChatSource(
            'together', 'https://api.together.xyz/v1', 'meta-llama/Llama-3.3-70B-Instruct-Turbo', ('TOGETHER_API_KEY',)
        ),
        ChatSource('xai', 'https://api.x.ai/v1', 'grok-3-mini', ('XAI_API_KEY',)),
        ChatSource('azure', None, '', ('AZURE_OPENAI_API_KEY',)),
        ChatSource('ollama', 'http://localhost:11434/v1'),
        ChatSource('vllm', 'http://localhost:8000/v1'),
        ChatSource('sglang', 'http://localhost:30000/v1'),
        ChatSource('llamacpp', 'http://localhost:8080/v1'),
        ChatSource('lmstudio', 'http://localhost:1234/v1'),
    )
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


ALIASES: Mapping[str, str] = {
    'claude': 'anthropic',
    'dashscope': 'qwen',
    'zhipu': 'glm',
    'zhipuai': 'glm',
    'moonshot': 'kimi',
    'ark': 'doubao',
    'volcengine': 'doubao',
    'google': 'gemini',
    'llama.cpp': 'llamacpp',
}

MODEL_FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(('gpt-', 'chatgpt-', 'o1', 'o3', 'o4'), 'openai'),
    **dict.fromkeys(('mistral-', 'ministral-', 'codestral', 'magistral-', 'pixtral-'), 'mistral'),
    'claude-': 'anthropic',
    'deepseek-': 'deepseek',
    'gemini-': 'gemini',
    'grok-': 'xai',
    'glm-': 'glm',
    'qwen': 'qwen',
    'kimi-': 'kimi',
    'moonshot-': 'kimi',
    'doubao-': 'doubao',
    'llama3': 'ollama',
}
"""How the names of models begin, and the service that has them."""
