"""Chat modules: a prompter and a model behind one call, the same for services, servers and models on this machine."""

from rolecall.modules.chat import ChatModule
from rolecall.modules.errors import ModuleError, NoAnswerError, NotStartedError, ToolRoundsError
from rolecall.modules.local import TrainableModule
from rolecall.modules.online import OnlineChatModule
from rolecall.modules.replies import ChatReply
from rolecall.modules.sources import SOURCES, Source
from rolecall.modules.streams import AsyncStream, Stream
from rolecall.modules.tools import tool_schema

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
