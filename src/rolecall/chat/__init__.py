"""Chat modules: a prompter and a model behind one call, the same for services, servers and models on this machine."""

from rolecall.chat.chat_reply import Attempt, ChatReply
from rolecall.chat.events import Event, Retry, Spent, ToolFailure
from rolecall.chat.local import TrainableModule
from rolecall.chat.mcp_tools import McpTools
from rolecall.chat.module import ChatModule
from rolecall.chat.module_errors import (
    BadAnswerError,
    ModuleError,
    NoAnswerError,
    NotStartedError,
    ToolCallsError,
    ToolRoundsError,
    UnfinishedCallError,
)
from rolecall.chat.online import OnlineChatModule
from rolecall.chat.streaming import AsyncStream, Stream, StreamPiece
from rolecall.chat.tools import Tool, tool_schema
from rolecall.models.services import SOURCES, ChatSource

__all__ = [
    'SOURCES',
    'AsyncStream',
    'Attempt',
    'BadAnswerError',
    'ChatModule',
    'ChatReply',
    'ChatSource',
    'Event',
    'McpTools',
    'ModuleError',
    'NoAnswerError',
    'NotStartedError',
    'OnlineChatModule',
    'Retry',
    'Spent',
    'Stream',
    'StreamPiece',
    'Tool',
    'ToolCallsError',
    'ToolFailure',
    'ToolRoundsError',
    'TrainableModule',
    'UnfinishedCallError',
    'tool_schema',
]
