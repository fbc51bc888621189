"""Chat modules: a prompter and a model behind one call, the same for services, servers and models on this machine."""

from rolecall.chat.chat_reply import ChatReply
from rolecall.chat.conversation import Event
from rolecall.chat.local import TrainableModule
from rolecall.chat.module import ChatModule
from rolecall.chat.module_errors import (
    BadAnswerError,
    ModuleError,
    NoAnswerError,
    NotStartedError,
    ToolCallsError,
    ToolRoundsError,
)
from rolecall.chat.online import OnlineChatModule
from rolecall.chat.streaming import AsyncStream, Stream
from rolecall.chat.tools import tool_schema
from rolecall.models.services import SOURCES, ChatSource

__all__ = [
    'SOURCES',
    'AsyncStream',
    'BadAnswerError',
    'ChatModule',
    'ChatReply',
    'ChatSource',
    'Event',
    'ModuleError',
    'NoAnswerError',
    'NotStartedError',
    'OnlineChatModule',
    'Stream',
    'ToolCallsError',
    'ToolRoundsError',
    'TrainableModule',
    'tool_schema',
]
