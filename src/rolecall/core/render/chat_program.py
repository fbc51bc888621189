"""A chat template as a program: compiled once, run in `jinja_sandbox` with metered work.

Chat templates are third-party code, so any failure inside one is a `RenderError` that quotes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from jinja2 import Template, meta
from jinja2.exceptions import TemplateError, TemplateSyntaxError, UndefinedError

from rolecall.core.render.jinja_sandbox import ENVIRONMENT, compile_template
from rolecall.core.render.metered_functions import TemplateRefusedError
from rolecall.core.render.metering import WorkExceededError, WorkMeter, spend
from rolecall.errors import RenderError

_MAX_FOLDED_CHARS = 1 << 20  # what constant expressions may make when a template is compiled

# Exceptions a template can cause in jinja2, in json and in methods of built-in values.
_TEMPLATE_FAULTS = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


class ChatProgram:
    """A compiled chat template. `max_steps` bounds the work of one run, `max_chars` what it makes."""

    __slots__ = ('_max_chars', '_max_steps', '_source', '_template')

    def __init__(self, source: str, *, now: Callable[[], datetime], max_steps: int, max_chars: int) -> None:
        self._source = source
        self._max_steps = max_steps
        self._max_chars = max_chars
        try:
            with WorkMeter(max_steps, min(max_chars, _MAX_FOLDED_CHARS)):
                code = compile_template(source)
        except _TEMPLATE_FAULTS as fault:
            raise RenderError(_describe_fault(fault)) from fault
        names = ENVIRONMENT.make_globals({'strftime_now': make_strftime(now)})
        self._template = Template.from_code(ENVIRONMENT, code, names)

    def run(self, variables: Mapping[str, Any]) -> str:
        """The text that the template prints, given these variables."""
        template = self._template
        try:
            with WorkMeter(self._max_steps, self._max_chars):
                return ''.join(template.root_render_func(template.new_context(dict(variables))))
        except _TEMPLATE_FAULTS as fault:
            raise RenderError(_describe_fault(fault)) from fault

    def undeclared_names(self) -> set[str]:
        """The variables that the template uses and does not set."""
        return meta.find_undeclared_variables(ENVIRONMENT.parse(self._source))


def make_strftime(now: Callable[[], datetime]) -> Callable[[str], str]:
    """The function `strftime_now` of templates: the current time, formatted."""

    def strftime_now(format: str) -> str:  # noqa: A002  # the name templates may use
        spend(256 * len(format))
        return now().strftime(format)

    return strftime_now


def _describe_fault(fault: BaseException) -> str:
    """Describe what went wrong inside a template, quoting its own message if it has one."""
    message = str(fault) or type(fault).__name__
    match fault:
        case TemplateRefusedError():
            return f'the chat template rejected these messages: {message}'
        case WorkExceededError():
            return f'the chat template was stopped: {message}.'
        case TemplateSyntaxError():
            return f'the chat template does not parse: line {fault.lineno}: {message}'
        case UndefinedError():
            return f'the chat template uses an undefined value: {message}'
        case RecursionError() | MemoryError():
            return 'the chat template was stopped: it recurses or nests too deeply.'
        case _:
            return f'the chat template failed: {message}'
