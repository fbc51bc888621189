"""Write the exact prompt every model receives, and prove where each character came from.

Public names are imported when they are first used, so that `import rolecall` stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rolecall._version import __version__

if TYPE_CHECKING:
    from rolecall.chat.chat_reply import ChatReply
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
    )
    from rolecall.chat.online import OnlineChatModule
    from rolecall.chat.streaming import AsyncStream, Stream, StreamPiece
    from rolecall.chat.tools import Tool, tool_schema
    from rolecall.config.files import Config, load_config, read_base
    from rolecall.config.printing import format_config
    from rolecall.errors import (
        ConfigError,
        DataError,
        MissingExtraError,
        Problem,
        PrompterError,
        RenderError,
        RolecallError,
        RunError,
        TemplateError,
    )
    from rolecall.inferencers.generation import GenInferencer, MultiTurnGenInferencer, SCInferencer
    from rolecall.inferencers.likelihood import CLPInferencer, LLInferencer
    from rolecall.inferencers.perplexity import PPLInferencer, PPLOnlyInferencer
    from rolecall.lint.finding import Finding
    from rolecall.lint.linter import lint_config
    from rolecall.models.model_names import resolve_model
    from rolecall.models.protocol import Capabilities, Model, ModelError, Reply, Sampling, Scored, Usage
    from rolecall.notebook.finished_run import FinishedRun, ScoreTable
    from rolecall.notebook.quick_run import run
    from rolecall.pairs.pair import Preview, preview
    from rolecall.program import (
        DialogueProgram,
        Program,
        Trace,
        VaryingProgram,
        compile,
        compile_labels,
        fingerprint,
    )
    from rolecall.prompters.base_prompter import Prompter
    from rolecall.prompters.builtin import AlpacaPrompter, ChatPrompter, EmptyPrompter
    from rolecall.prompts.script import PromptList
    from rolecall.prompts.template import (
        MMPromptTemplate,
        MultiTurnPromptTemplate,
        PromptTemplate,
        RawPromptTemplate,
    )
    from rolecall.prompts.wording import Wording
    from rolecall.render.chat_renderer import ChatRenderer
    from rolecall.render.chat_template import ChatTemplate
    from rolecall.render.families import add_meta_template, meta_template
    from rolecall.render.meta import MetaTemplate
    from rolecall.render.renderers import ApiRenderer, TextRenderer
    from rolecall.render.spans import Span
    from rolecall.report.gate import gate
    from rolecall.retrievers import (
        BM25Retriever,
        DPPRetriever,
        FixKRetriever,
        MDLRetriever,
        RandomRetriever,
        SlidingWindowRetriever,
        TopkRetriever,
        VotekRetriever,
        ZeroRetriever,
    )
    from rolecall.runs import RunSummary, plan_run, run_config
    from rolecall.runs.result_files import export_results
    from rolecall.runs.store.results import Result
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.scoring.scorecard import Scorecard

_HOMES = {
    'rolecall.chat.chat_reply': ('ChatReply',),
    'rolecall.chat.events': (
        'Event',
        'Retry',
        'Spent',
        'ToolFailure',
    ),
    'rolecall.chat.mcp_tools': ('McpTools',),
    'rolecall.chat.module': ('ChatModule',),
    'rolecall.chat.module_errors': (
        'BadAnswerError',
        'ModuleError',
        'NoAnswerError',
        'NotStartedError',
        'ToolCallsError',
        'ToolRoundsError',
    ),
    'rolecall.chat.streaming': (
        'AsyncStream',
        'Stream',
        'StreamPiece',
    ),
    'rolecall.chat.tools': ('Tool', 'tool_schema'),
    'rolecall.models.protocol': (
        'Capabilities',
        'Model',
        'ModelError',
        'Reply',
        'Sampling',
        'Scored',
        'Usage',
    ),
    'rolecall.runs.store.results': ('Result',),
    'rolecall.scoring.scorecard': ('Scorecard',),
    'rolecall.lint.finding': ('Finding',),
    'rolecall.inferencers.generation': (
        'MultiTurnGenInferencer',
        'GenInferencer',
        'SCInferencer',
    ),
    'rolecall.inferencers.likelihood': (
        'CLPInferencer',
        'LLInferencer',
    ),
    'rolecall.inferencers.perplexity': (
        'PPLInferencer',
        'PPLOnlyInferencer',
    ),
    'rolecall.config.files': ('Config', 'load_config', 'read_base'),
    'rolecall.config.printing': ('format_config',),
    'rolecall.lint.linter': ('lint_config',),
    'rolecall.models.model_names': ('resolve_model',),
    'rolecall.chat.local': ('TrainableModule',),
    'rolecall.chat.online': ('OnlineChatModule',),
    'rolecall.notebook.finished_run': ('FinishedRun', 'ScoreTable'),
    'rolecall.notebook.quick_run': ('run',),
    'rolecall.pairs.pair': ('Preview', 'preview'),
    'rolecall.errors': (
        'ConfigError',
        'DataError',
        'MissingExtraError',
        'Problem',
        'PrompterError',
        'RenderError',
        'RolecallError',
        'RunError',
        'TemplateError',
    ),
    'rolecall.prompters.base_prompter': ('Prompter',),
    'rolecall.prompters.builtin': ('AlpacaPrompter', 'ChatPrompter', 'EmptyPrompter'),
    'rolecall.prompts.script': ('PromptList',),
    'rolecall.prompts.template': (
        'MMPromptTemplate',
        'MultiTurnPromptTemplate',
        'PromptTemplate',
        'RawPromptTemplate',
    ),
    'rolecall.prompts.wording': ('Wording',),
    'rolecall.render.chat_renderer': ('ChatRenderer',),
    'rolecall.render.chat_template': ('ChatTemplate',),
    'rolecall.render.families': ('add_meta_template', 'meta_template'),
    'rolecall.render.meta': ('MetaTemplate',),
    'rolecall.render.renderers': ('ApiRenderer', 'TextRenderer'),
    'rolecall.render.spans': ('Span',),
    'rolecall.runs': ('RunSummary', 'plan_run', 'run_config'),
    'rolecall.runs.store.run_reader': ('RunReader',),
    'rolecall.runs.result_files': ('export_results',),
    'rolecall.report.gate': ('gate',),
    'rolecall.retrievers': (
        'BM25Retriever',
        'DPPRetriever',
        'FixKRetriever',
        'MDLRetriever',
        'RandomRetriever',
        'SlidingWindowRetriever',
        'TopkRetriever',
        'VotekRetriever',
        'ZeroRetriever',
    ),
    'rolecall.program': (
        'DialogueProgram',
        'Program',
        'Trace',
        'VaryingProgram',
        'compile',
        'compile_labels',
        'fingerprint',
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    'AlpacaPrompter',
    'ApiRenderer',
    'AsyncStream',
    'BM25Retriever',
    'BadAnswerError',
    'CLPInferencer',
    'Capabilities',
    'ChatModule',
    'ChatPrompter',
    'ChatRenderer',
    'ChatReply',
    'ChatTemplate',
    'Config',
    'ConfigError',
    'DPPRetriever',
    'DataError',
    'DialogueProgram',
    'EmptyPrompter',
    'Event',
    'Finding',
    'FinishedRun',
    'FixKRetriever',
    'GenInferencer',
    'LLInferencer',
    'MDLRetriever',
    'MMPromptTemplate',
    'McpTools',
    'MetaTemplate',
    'MissingExtraError',
    'Model',
    'ModelError',
    'ModuleError',
    'MultiTurnGenInferencer',
    'MultiTurnPromptTemplate',
    'NoAnswerError',
    'NotStartedError',
    'OnlineChatModule',
    'PPLInferencer',
    'PPLOnlyInferencer',
    'Preview',
    'Problem',
    'Program',
    'PromptList',
    'PromptTemplate',
    'Prompter',
    'PrompterError',
    'RandomRetriever',
    'RawPromptTemplate',
    'RenderError',
    'Reply',
    'Result',
    'Retry',
    'RolecallError',
    'RunError',
    'RunReader',
    'RunSummary',
    'SCInferencer',
    'Sampling',
    'ScoreTable',
    'Scorecard',
    'Scored',
    'SlidingWindowRetriever',
    'Span',
    'Spent',
    'Stream',
    'StreamPiece',
    'TemplateError',
    'TextRenderer',
    'Tool',
    'ToolCallsError',
    'ToolFailure',
    'ToolRoundsError',
    'TopkRetriever',
    'Trace',
    'TrainableModule',
    'Usage',
    'VaryingProgram',
    'VotekRetriever',
    'Wording',
    'ZeroRetriever',
    '__version__',
    'add_meta_template',
    'compile',
    'compile_labels',
    'export_results',
    'fingerprint',
    'format_config',
    'gate',
    'lint_config',
    'load_config',
    'meta_template',
    'plan_run',
    'preview',
    'read_base',
    'resolve_model',
    'run',
    'run_config',
    'tool_schema',
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'rolecall' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
