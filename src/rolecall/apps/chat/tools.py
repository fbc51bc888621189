"""Python functions as tools: their schemas, and the arguments of a call as the function takes them."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, TypeVar, get_args, get_origin

from rolecall.apps.chat.hints import BadValueError, hints_of, hoist_definitions, schema_of, value_of
from rolecall.apps.chat.module_errors import ModuleError
from rolecall.apps.chat.structured import check_value
from rolecall.checking import explain_arguments, is_number, is_whole

_NAME = re.compile(r'[A-Za-z_][\w-]{0,63}', re.ASCII)
_SECTION = re.compile(r'(?:Args|Arguments|Parameters|Params)\s*:?\s*', re.IGNORECASE)
_OTHER_SECTION = re.compile(r'(?:Returns?|Raises|Yields?|Examples?|Notes?)\s*:?\s*', re.IGNORECASE)
_FIELD = re.compile(r':param\s+(?:[^:]*\s)?(?P<name>\w+)\s*:\s*(?P<text>.*)|:\w+[^:]*:.*')
_ENTRY = re.compile(r'\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)')
_VAR = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def tool_schema(function: Callable[..., Any] | Tool) -> dict[str, Any]:
    """The tool schema of a function, from its name, docstring and type hints.

    >>> def weather(city: str, unit: str = 'C') -> str:
    ...     '''The weather of today.
    ...
    ...     Args:
    ...         city: Where.
    ...     '''
    >>> schema = tool_schema(weather)['function']
    >>> schema['name'], schema['description'], schema['parameters']['required']
    ('weather', 'The weather of today.', ['city'])
    >>> schema['parameters']['properties']
    {'city': {'type': 'string', 'description': 'Where.'}, 'unit': {'type': 'string', 'default': 'C'}}
    """
    return (function if isinstance(function, Tool) else Tool(function)).schema


D = TypeVar('D')


@dataclass(frozen=True, slots=True)
class ToolContext(Generic[D]):
    """The call that a tool runs in: for approval, and for tools with a parameter of this type. Models do not see it.

    >>> def refund(order: str, context: ToolContext[Database]) -> str:
    ...     context.deps.refund(order)

    `deps` is the object passed as `module(…, deps=…)`.
    """

    name: str
    arguments: Mapping[str, Any]
    call_id: str
    deps: D


Approve = Callable[[ToolContext[Any]], bool | str | Awaitable[bool | str]]
"""Whether a call may run. A string is a refusal with its reason, which the model reads."""


@explain_arguments(ModuleError, '__init__')
@dataclass(init=False, unsafe_hash=True)
class Tool:
    """One function as a tool. Its schema is read from the function, or given.

    >>> given = {'name': 'add', 'parameters': {'type': 'object', 'properties': {'x': {'type': 'integer'}}}}
    >>> Tool(lambda **numbers: sum(numbers.values()), schema=given).name
    'add'
    """

    function: Callable[..., Any]
    own_schema: Mapping[str, Any] | None
    approve: Approve | None
    retries: int
    timeout: float | None

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        schema: Mapping[str, Any] | None = None,
        approve: Approve | None = None,
        retries: int = 0,
        timeout: float | None = None,
    ) -> None:
        """`schema`: a function as APIs describe it, with `name`, `description` and `parameters` (a JSON Schema).

        `approve` and `timeout` take precedence over those of `with_tools`. `retries`: how often the function is called
        again if it raises; only for functions that may safely run twice. A timeout is never retried.
        """
        check_seconds(timeout)
        if not is_whole(retries, least=0):
            raise ModuleError(f'retries must be a whole number of at least 0, got {retries!r:.60}.')
        check_approve(approve)
        if not callable(function):
            raise ModuleError(f'a tool must be a Python function, got {function!r:.60}.')
        self.function = function
        self.own_schema = None if schema is None else _read_schema(schema)
        self.approve, self.retries, self.timeout = approve, retries, timeout
        if not _NAME.fullmatch(self.name):
            raise ModuleError(f'{self.name!r} is not a valid tool name. Give the function a proper name.')
        kinds = () if self.own_schema is not None else [parameter.kind for parameter in self._parameters.values()]
        if inspect.Parameter.POSITIONAL_ONLY in kinds:
            raise ModuleError(f'the tool {self.name} has positional-only parameters, which models cannot use.')

    def __reduce__(self) -> Any:
        options: dict[str, Any] = {'approve': self.approve, 'retries': self.retries, 'timeout': self.timeout}
        return partial(Tool, schema=self.own_schema, **options), (self.function,)

    @cached_property
    def name(self) -> str:
        if self.own_schema is not None:
            return str(self.own_schema['name'])
        inner, _ = self._unwrapped
        return getattr(inner, '__name__', None) or type(inner).__name__

    @cached_property
    def schema(self) -> dict[str, Any]:
        if self.own_schema is not None:
            return {'type': 'function', 'function': dict(self.own_schema)}
        about, described = _read_docstring(self._unwrapped[0])
        named = {name: parameter for name, parameter in self._parameters.items() if parameter.kind not in _VAR}
        properties = {name: self._property(parameter, described.get(name)) for name, parameter in named.items()}
        needed = [name for name, parameter in named.items() if parameter.default is parameter.empty]
        free = any(parameter.kind is parameter.VAR_KEYWORD for parameter in self._parameters.values())
        parameters: dict[str, Any] = {'type': 'object', 'properties': properties, 'required': needed}
        if free:
            parameters['additionalProperties'] = True
        function = {'name': self.name, 'description': about, 'parameters': hoist_definitions(parameters)}
        return {'type': 'function', 'function': {key: value for key, value in function.items() if value}}

    def arguments(self, values: Any) -> dict[str, Any]:
        """The arguments converted to the function's types; `BadValueError` if they do not fit."""
        if not isinstance(values, Mapping):
            raise BadValueError(f'the arguments must be a JSON object, got {values!r:.80}')
        if self.own_schema is not None:
            check_value(dict(values), self.own_schema['parameters'], 'the input')
            return dict(values)
        parameters = self._parameters
        free = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        unknown = [name for name in values if name not in parameters or parameters[name].kind in _VAR]
        refused = [name for name in unknown if name in self._bound or not free]
        if refused:
            raise BadValueError(f'unknown parameter {refused[0]!r:.60}; known: {", ".join(parameters) or "none"}')
        missing = [
            name
            for name, parameter in parameters.items()
            if parameter.kind not in _VAR and parameter.default is parameter.empty and name not in values
        ]
        if missing:
            raise BadValueError(f'the parameter {missing[0]!r} is missing')
        return {name: value_of(value, self._hints.get(name, Any), name) for name, value in values.items()}

    @cached_property
    def context_parameter(self) -> str | None:
        """The parameter that takes the `ToolContext`."""
        if self.own_schema is not None:
            return None
        names = [name for name, hint in self._hints.items() if ToolContext in (hint, get_origin(hint))]
        return next((name for name in names if name != 'return'), None)

    @cached_property
    def needs_deps(self) -> bool:
        """Whether the function wants dependencies of some type: `ToolContext[Database]`."""
        return self.context_parameter is not None and bool(get_args(self._hints[self.context_parameter]))

    @cached_property
    def _unwrapped(self) -> tuple[Callable[..., Any], frozenset[str]]:
        """The function inside of `functools.partial`, and the arguments bound there."""
        inner: Any = self.function
        names = frozenset[str]()
        while isinstance(inner, partial):
            inner, names = inner.func, names | inner.keywords.keys()
        return inner, names

    @property
    def _bound(self) -> frozenset[str]:
        """Arguments bound by `functools.partial`, and the context. The model never sees them."""
        return self._unwrapped[1] | ({self.context_parameter} if self.context_parameter else set())

    @cached_property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        try:
            parameters = inspect.signature(self.function).parameters
            return {name: parameter for name, parameter in parameters.items() if name not in self._bound}
        except (TypeError, ValueError):
            raise ModuleError(f'the tool {self.name} has no inspectable signature. Wrap it in a function.') from None

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return hints_of(self._unwrapped[0], self.name)

    def _property(self, parameter: inspect.Parameter, described: str | None) -> dict[str, Any]:
        schema = schema_of(self._hints.get(parameter.name, Any))
        if described and 'description' not in schema:
            schema['description'] = described
        if parameter.default is not parameter.empty and _is_json(parameter.default):
            schema['default'] = parameter.default
        return schema


def check_seconds(timeout: float | None) -> None:
    """Raise ModuleError unless this is a time limit."""
    if timeout is not None and not (is_number(timeout) and timeout > 0):
        raise ModuleError(f'timeout must be a number of seconds above 0, or None, got {timeout!r:.60}.')


def check_approve(approve: Approve | None) -> None:
    """Raise ModuleError unless this can approve a call."""
    if approve is not None and not callable(approve):
        raise ModuleError(f'approve must be a function of a ToolContext, got {approve!r:.60}.')


def _read_schema(schema: Any) -> dict[str, Any]:
    """A custom schema, checked: APIs refuse a whole request because of one tool."""
    function = schema.get('function', schema) if isinstance(schema, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get('name'), str):
        raise ModuleError(f'the schema of a tool must be a mapping with a name, got {schema!r:.60}.')
    parameters = function.get('parameters') or {'type': 'object', 'properties': {}}
    if not isinstance(parameters, Mapping) or parameters.get('type') != 'object':
        raise ModuleError(
            f"the parameters of the tool {function['name']!r:.60} must be a JSON Schema of type 'object', "
            f'got {parameters!r:.60}.'
        )
    return {**function, 'parameters': dict(parameters)}


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description of a function and its parameters (`Args:` with indented names, or `:param name:`)."""
    inner: Any = function
    if not inspect.isroutine(inner) and not isinstance(inner, type):
        inner = inner if type(inner).__doc__ and inner.__doc__ else type(inner).__call__
    about: list[str] = []
    described: dict[str, str] = {}
    section, last, depth = 'about', '', None
    for line in inspect.cleandoc(inner.__doc__ or '').splitlines():
        words = line.strip()
        indent = len(line) - len(line.lstrip())
        field = _FIELD.fullmatch(words)
        if indent == 0 and _SECTION.fullmatch(words):
            section, last, depth = 'parameters', '', None
        elif indent == 0 and _OTHER_SECTION.fullmatch(words):
            section = 'other'
        elif field is not None:
            section, last = 'field', field['name'] or ''
            if last:
                described[last] = field['text']
        elif section == 'parameters' and indent == 0 and words:
            section = 'about'
            about.append(words)
        elif section in ('parameters', 'field') and words:
            entry = _ENTRY.fullmatch(words) if section == 'parameters' and indent == (depth or indent) else None
            if entry is not None:
                depth, last = indent, entry['name']
                described[last] = entry['text']
            elif last:
                described[last] = f'{described[last]} {words}'.strip()
        elif section == 'about':
            about.append(words)
    return '\n'.join(about).strip(), {name: text for name, text in described.items() if text}
