from rolecall.core.prompters.base_prompter import Prompter as Prompter
from rolecall.core.prompters.builtin import AlpacaPrompter as AlpacaPrompter
from rolecall.core.prompters.builtin import ChatPrompter as ChatPrompter
from rolecall.core.prompters.builtin import EmptyPrompter as EmptyPrompter
from rolecall.core.prompters.messaging import PromptTrace as PromptTrace
from rolecall.core.prompters.messaging import encode_trace as encode_trace
from rolecall.core.prompters.special_tokens import DEFAULT_TOKENS as DEFAULT_TOKENS
from rolecall.core.prompters.special_tokens import Tokens as Tokens
