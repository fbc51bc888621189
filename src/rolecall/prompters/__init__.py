"""The application side: an instruction, compiled once, that words every input for every model."""

from rolecall.prompters.base import Prompter
from rolecall.prompters.builtin import AlpacaPrompter, ChatPrompter, EmptyPrompter
from rolecall.prompters.encoding import encoded
from rolecall.prompters.tokens import DEFAULT_TOKENS, Tokens
from rolecall.prompters.tracing import PromptTrace

__all__ = [
    'DEFAULT_TOKENS',
    'AlpacaPrompter',
    'ChatPrompter',
    'EmptyPrompter',
    'PromptTrace',
    'Prompter',
    'Tokens',
    'encoded',
]
