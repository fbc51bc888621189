"""Write the exact prompt every model receives, and prove where each character came from.

Public names are imported when they are first used, so that `import rolecall` stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rolecall._version import __version__

if TYPE_CHECKING:
    from rolecall.apps.chat.chat_reply import Attempt, ChatReply
    from rolecall.apps.chat.events import Event, Retry, Spent, ToolFailure
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
    from rolecall.core.program import (
        DialogueProgram,
        Program,
        Trace,
        VaryingProgram,
        compile,
        compile_labels,
        fingerprint,
    )
    from rolecall.core.prompters.base_prompter import Prompter
    from rolecall.core.prompters.builtin import AlpacaPrompter, ChatPrompter, EmptyPrompter
    from rolecall.core.prompts.script import PromptList
    from rolecall.core.prompts.template import (
        MMPromptTemplate,
        MultiTurnPromptTemplate,
        PromptTemplate,
        RawPromptTemplate,
    )
    from rolecall.core.prompts.wording import Wording
    from rolecall.core.render.chat_renderer import ChatRenderer
    from rolecall.core.render.chat_template import ChatTemplate
    from rolecall.core.render.families import add_meta_template, meta_template
    from rolecall.core.render.meta import MetaTemplate
    from rolecall.core.render.renderers import ApiRenderer, TextRenderer
    from rolecall.core.render.spans import Span
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
    from rolecall.experiment.experiment import Experiment, preview
    from rolecall.experiment.inferencers.generation import GenInferencer, MultiTurnGenInferencer, SCInferencer
    from rolecall.experiment.inferencers.likelihood import CLPInferencer, LLInferencer
    from rolecall.experiment.inferencers.perplexity import PPLInferencer, PPLOnlyInferencer
    from rolecall.experiment.lint.finding import Finding
    from rolecall.experiment.lint.linter import lint_config
    from rolecall.experiment.opening.loading import load_config
    from rolecall.experiment.opening.rows_config import Task
    from rolecall.experiment.pairs.pair import Preview
    from rolecall.insight.gate import gate
    from rolecall.models.model_names import resolve_model
    from rolecall.models.protocol import Capabilities, Model, ModelError, Reply, Sampling, Scored, Usage
    from rolecall.runs import RunSummary, plan_run, run_config
    from rolecall.runs.result_files import export_results
    from rolecall.runs.store.results import Result
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.scoring.scorecard import Scorecard
    from rolecall.sources.config.files import Config
    from rolecall.sources.config.finder import read_base
    from rolecall.sources.config.printing import format_config
    from rolecall.sources.retrievers import (
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
    from rolecall.ui.notebook.finished_run import FinishedRun, ScoreTable
    from rolecall.ui.notebook.quick_run import run

_HOMES = {
    'rolecall.apps.chat.chat_reply': ('Attempt', 'ChatReply'),
    'rolecall.apps.chat.events': (
        'Event',
        'Retry',
        'Spent',
        'ToolFailure',
    ),
    'rolecall.apps.chat.mcp_tools': ('McpTools',),
    'rolecall.apps.chat.module': ('ChatModule',),
    'rolecall.apps.chat.module_errors': (
        'BadAnswerError',
        'BatchError',
        'CostLimitError',
        'ModuleError',
        'NoAnswerError',
        'NotStartedError',
        'ToolCallsError',
        'ToolRoundsError',
        'UnfinishedCallError',
    ),
    'rolecall.apps.chat.streaming': (
        'AsyncStream',
        'Stream',
        'StreamPiece',
    ),
    'rolecall.apps.chat.tools': ('Tool', 'ToolContext', 'tool_schema'),
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
    'rolecall.experiment.lint.finding': ('Finding',),
    'rolecall.experiment.inferencers.generation': (
        'MultiTurnGenInferencer',
        'GenInferencer',
        'SCInferencer',
    ),
    'rolecall.experiment.inferencers.likelihood': (
        'CLPInferencer',
        'LLInferencer',
    ),
    'rolecall.experiment.inferencers.perplexity': (
        'PPLInferencer',
        'PPLOnlyInferencer',
    ),
    'rolecall.experiment.opening.loading': ('load_config',),
    'rolecall.sources.config.finder': ('read_base',),
    'rolecall.sources.config.files': ('Config',),
    'rolecall.sources.config.printing': ('format_config',),
    'rolecall.experiment.lint.linter': ('lint_config',),
    'rolecall.models.model_names': ('resolve_model',),
    'rolecall.apps.chat.local': ('TrainableModule',),
    'rolecall.apps.chat.online': ('OnlineChatModule',),
    'rolecall.ui.notebook.finished_run': ('FinishedRun', 'ScoreTable'),
    'rolecall.ui.notebook.quick_run': ('run',),
    'rolecall.experiment.experiment': ('Experiment', 'preview'),
    'rolecall.experiment.opening.rows_config': ('Task',),
    'rolecall.experiment.pairs.pair': ('Preview',),
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
    'rolecall.core.prompters.base_prompter': ('Prompter',),
    'rolecall.core.prompters.builtin': ('AlpacaPrompter', 'ChatPrompter', 'EmptyPrompter'),
    'rolecall.core.prompts.script': ('PromptList',),
    'rolecall.core.prompts.template': (
        'MMPromptTemplate',
        'MultiTurnPromptTemplate',
        'PromptTemplate',
        'RawPromptTemplate',
    ),
    'rolecall.core.prompts.wording': ('Wording',),
    'rolecall.core.render.chat_renderer': ('ChatRenderer',),
    'rolecall.core.render.chat_template': ('ChatTemplate',),
    'rolecall.core.render.families': ('add_meta_template', 'meta_template'),
    'rolecall.core.render.meta': ('MetaTemplate',),
    'rolecall.core.render.renderers': ('ApiRenderer', 'TextRenderer'),
    'rolecall.core.render.spans': ('Span',),
    'rolecall.runs': ('RunSummary', 'plan_run', 'run_config'),
    'rolecall.runs.store.run_reader': ('RunReader',),
    'rolecall.runs.result_files': ('export_results',),
    'rolecall.insight.gate': ('gate',),
    'rolecall.sources.retrievers': (
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
    'rolecall.core.program': (
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
    'Attempt',
    'BM25Retriever',
    'BadAnswerError',
    'BatchError',
    'CLPInferencer',
    'Capabilities',
    'ChatModule',
    'ChatPrompter',
    'ChatRenderer',
    'ChatReply',
    'ChatTemplate',
    'Config',
    'ConfigError',
    'CostLimitError',
    'DPPRetriever',
    'DataError',
    'DialogueProgram',
    'EmptyPrompter',
    'Event',
    'Experiment',
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
    'Task',
    'TemplateError',
    'TextRenderer',
    'Tool',
    'ToolCallsError',
    'ToolContext',
    'ToolFailure',
    'ToolRoundsError',
    'TopkRetriever',
    'Trace',
    'TrainableModule',
    'UnfinishedCallError',
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
