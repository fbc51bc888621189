"""Chat modules: a prompter and a model behind one call, the same for services, servers and models on this machine."""

from rolecall.chat.chat import ChatModule
from rolecall.chat.errors import ModuleError, NoAnswerError, NotStartedError, ToolRoundsError
from rolecall.chat.local import TrainableModule
from rolecall.chat.online import OnlineChatModule
from rolecall.chat.replies import ChatReply
from rolecall.chat.sources import SOURCES, Source
from rolecall.chat.streams import AsyncStream, Stream
from rolecall.chat.tools import tool_schema

__all__ = [
    'SOURCES',
    'AsyncStream',
    'ChatModule',
    'ChatReply',
    'ModuleError',
    'NoAnswerError',
    'NotStartedError',
    'OnlineChatModule',
    'Source',
    'Stream',
    'ToolRoundsError',
    'TrainableModule',
    'tool_schema',
]
