"""A chat template as a program: compiled once, run in a sandboxed Jinja environment with metered work.

Chat templates are third-party code, so any failure inside one is a `RenderError` that quotes it. jinja2's sandbox keeps
a template away from the machine, but does not bound its time and memory; `metering` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from types import BuiltinMethodType
from typing import Any, cast

from jinja2 import Template, meta, nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError, UndefinedError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEscapeFormatter, SandboxedFormatter
from markupsafe import Markup

from rolecall.core.render.metered_functions import (
    FILTERS,
    GLOBALS,
    LETTERS_OF_AN_ESCAPE,
    TESTS,
    TemplateRefusedError,
    charge_result,
    meter_filter,
    meter_test,
    run_operator,
)
from rolecall.core.render.metering import (
    METER,
    NODE_CHARS,
    STEPS_PER_CALL,
    WorkExceededError,
    WorkMeter,
    check_number,
    everything_in,
    materialize,
    put_charges_in,
    size_of,
    spend,
)
from rolecall.core.render.pricing import charge_method, width_in
from rolecall.errors import RenderError

MAX_SOURCE = 1 << 17
MAX_NODES = 20_000
MAX_DEPTH = 250
"""Of expressions and blocks; Python cannot compile the code of a deeper one."""


class GenerationBlock(Extension):
    """`{% generation %} … {% endgeneration %}` marks the model's text for training; here it only prints its body."""

    tags = {'generation'}  # noqa: RUF012  # as jinja2 declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(('name:endgeneration',), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Formatter(SandboxedFormatter):
    """`str.format` that charges each field before it is written."""

    growth = 1

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion is not None:
            spend(LETTERS_OF_AN_ESCAPE * size_of(value))
        return super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        spend(self.growth * size_of(value) + width_in(format_spec), STEPS_PER_CALL)
        return cast('str', super().format_field(value, format_spec))


class _EscapeFormatter(_Formatter, SandboxedEscapeFormatter):
    """The same for text that is marked safe, in which values are escaped."""

    growth = LETTERS_OF_AN_ESCAPE


class MeteredEnvironment(ImmutableSandboxedEnvironment):
    """jinja2's immutable sandbox, in which operators, calls and formats are charged before they run."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return run_operator(operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        if type(__obj) is Macro:
            METER.get().spend(NODE_CHARS * (len(args) + len(kwargs)), STEPS_PER_CALL)
            return __context.call(__obj, *args, **kwargs)
        owner = getattr(__obj, '__self__', None)
        before = METER.get().chars
        if isinstance(owner, LoopContext):
            spend(sum(map(size_of, args)))
        elif isinstance(__obj, BuiltinMethodType) or isinstance(owner, str):
            args = tuple(map(materialize, args))
            if __obj.__name__ not in ('format', 'format_map') or not isinstance(owner, str):
                charge_method(owner, __obj.__name__, args, _own_arguments(kwargs))
        else:
            spend(NODE_CHARS * (len(args) + len(kwargs)), STEPS_PER_CALL)
        return charge_result(super().call(__context, __obj, *args, **kwargs), before)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        if super().wrap_str_format(value) is None:
            return None
        pattern: str = value.__self__
        escape = getattr(pattern, 'escape', None)
        formatter = _EscapeFormatter(self, escape=escape) if isinstance(pattern, Markup) else _Formatter(self)

        def write(*args: Any, **kwargs: Any) -> str:
            spend(len(pattern), STEPS_PER_CALL)
            if value.__name__ == 'format':
                return type(pattern)(formatter.vformat(pattern, args, kwargs))
            (values,) = args
            return type(pattern)(formatter.vformat(pattern, (), values))

        return write


def _own_arguments(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Without the arguments that jinja2 adds to a call inside a loop or block."""
    return {name: value for name, value in kwargs.items() if name not in ('_loop_vars', '_block_vars')}


def make_environment(**options: Any) -> MeteredEnvironment:
    """A sandbox in which all work is metered. `options` are jinja2's."""
    env = MeteredEnvironment(**options)
    env.filters = {name: meter_filter(name, original) for name, original in env.filters.items()}
    env.filters |= FILTERS
    tests = cast('dict[str, Callable[..., Any]]', env.tests)
    env.tests = {name: meter_test(name, original) for name, original in tests.items()}
    env.tests |= TESTS
    env.globals |= GLOBALS
    return env


ENVIRONMENT = make_environment(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols])


def parse_template(source: str, environment: MeteredEnvironment) -> nodes.Template:
    """Parse a template and put charges into its tree."""
    if len(source) > MAX_SOURCE:
        raise WorkExceededError(f'it is longer than {MAX_SOURCE:,} characters')
    tree = environment.parse(source)
    every = list(everything_in([tree]))
    too_large = f'it has more than {MAX_NODES:,} expressions' if len(every) > MAX_NODES else ''
    if too_large or _is_deep(tree):
        for node in every:
            vars(node).clear()  # to delete a deep tree at once would take a deep stack
        raise WorkExceededError(too_large or f'it nests more than {MAX_DEPTH} deep')
    for constant in tree.find_all(nodes.Const):
        check_number(constant.value)
    put_charges_in(tree)
    return tree


def _is_deep(tree: nodes.Template) -> bool:
    level: list[nodes.Node] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in node.iter_child_nodes()]
    return bool(level)


_MAX_FOLDED_CHARS = 1 << 20  # what constant expressions may make when a template is compiled

# Exceptions a template can cause in jinja2, in json and in methods of built-in values.
TEMPLATE_FAULTS = (
    *(TemplateError, ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, SyntaxError),
    *(TypeError, ValueError),
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
                code = ENVIRONMENT.compile(parse_template(source, ENVIRONMENT))  # folds constants
        except TEMPLATE_FAULTS as fault:
            raise RenderError(_describe_fault(fault)) from fault
        names = ENVIRONMENT.make_globals({'strftime_now': make_strftime(now)})
        self._template = Template.from_code(ENVIRONMENT, code, names)

    def run(self, variables: Mapping[str, Any]) -> str:
        """The text that the template prints, given these variables."""
        template = self._template
        try:
            with WorkMeter(self._max_steps, self._max_chars):
                return ''.join(template.root_render_func(template.new_context(dict(variables))))
        except TEMPLATE_FAULTS as fault:
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
