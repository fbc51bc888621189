"""Chat modules: a prompter and a model behind one call, the same for services, servers and models on this machine."""

from rolecall.apps.chat.call_options import BatchOptions, CallOptions
from rolecall.apps.chat.chat_reply import Attempt, ChatReply
from rolecall.apps.chat.events import CallLog, Event, Retry, Spent, ToolFailure
from rolecall.apps.chat.local import TrainableModule
from rolecall.apps.chat.mcp_tools import McpTools
from rolecall.apps.chat.module import ChatModule
from rolecall.apps.chat.module_errors import (
    BadAnswerError,
    BatchError,
    CostLimitError,
    ModuleError,
    NoAnswerError,
    NotStartedError,
    ToolCallsError,
    ToolRoundsError,
    UnfinishedCallError,
)
from rolecall.apps.chat.online import OnlineChatModule
from rolecall.apps.chat.streaming import AsyncStream, Stream, StreamPiece
from rolecall.apps.chat.tools import Tool, ToolContext, tool_schema
from rolecall.models.services import SOURCES, ChatSource

__all__ = [
    'SOURCES',
    'AsyncStream',
    'Attempt',
    'BadAnswerError',
    'BatchError',
    'BatchOptions',
    'CallLog',
    'CallOptions',
    'ChatModule',
    'ChatReply',
    'ChatSource',
    'CostLimitError',
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
    'ToolContext',
    'ToolFailure',
    'ToolRoundsError',
    'TrainableModule',
    'UnfinishedCallError',
    'tool_schema',
]
