"""Prompters for applications: an instruction, compiled once, that formats every input for every model."""

from rolecall.core.prompters.base_prompter import Prompter
from rolecall.core.prompters.builtin import AlpacaPrompter, ChatPrompter, EmptyPrompter
from rolecall.core.prompters.special_tokens import DEFAULT_TOKENS, Tokens
from rolecall.core.prompters.tracing import PromptTrace, encode_trace

__all__ = [
    'DEFAULT_TOKENS',
    'AlpacaPrompter',
    'ChatPrompter',
    'EmptyPrompter',
    'PromptTrace',
    'Prompter',
    'Tokens',
    'encode_trace',
]
