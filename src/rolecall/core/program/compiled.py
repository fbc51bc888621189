"""A wording, its examples and a renderer, compiled once and run for each row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from json.encoder import encode_basestring as _quote
from typing import TYPE_CHECKING, Any

from rolecall.core.prompts.multimodal import MediaUrl
from rolecall.core.prompts.pieces import Row, Text, describe_value
from rolecall.core.prompts.script import PromptList, Script
from rolecall.core.prompts.template import PromptTemplate, Template
from rolecall.core.prompts.wording import Mode, Wording
from rolecall.core.render.arrange import Note, check_prompts
from rolecall.core.render.meta import MetaTemplate
from rolecall.core.render.renderers import Rendered, Renderer, TextRenderer
from rolecall.core.render.spans import Request, Span
from rolecall.errors import Problem, TemplateError
from rolecall.registry import load_object

WordingLike = Wording | Template | str | Mapping[Any, Any]
"""A wording, a prompt template, or the source of one."""
RendererLike = Renderer | MetaTemplate | Mapping[str, Any]
"""A renderer, or the meta template of a text model."""


def fingerprint(request: Request, **sent_with: Any) -> str:
    """A stable hash of a request and the options sent with it: the key of caches and resumed runs.

    >>> fingerprint('Hi') == fingerprint('Hi') != fingerprint('Hi', temperature=0.7)
    True
    """
    return Fingerprinter(**sent_with)(request)


class Fingerprinter:
    """Fingerprints of many requests that are sent with the same options.

    >>> Fingerprinter(temperature=0.7)('Hi') == fingerprint('Hi', temperature=0.7)
    True
    """

    __slots__ = ('options',)

    def __init__(self, **sent_with: Any) -> None:
        self.options = _CANONICAL.encode(sent_with)

    def __call__(self, request: Request) -> str:
        encoded = _quote(request) if type(request) is str else _CANONICAL.encode(request)
        body = f'[{encoded}, {self.options}]'
        return hashlib.sha256(body.encode('utf-8', 'surrogatepass')).hexdigest()[:32]


def _as_json(value: object) -> object:
    if isinstance(value, MediaUrl):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f'a request cannot contain {type(value).__name__}')


_CANONICAL = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=_as_json)


@dataclass(frozen=True, slots=True)
class Trace:
    """A request with the origin of every character, and notes on changes to the dataset's text."""

    request: Request
    spans: tuple[Span, ...]
    notes: tuple[Note, ...] = ()

    @property
    def fingerprint(self) -> str:
        """The hash of what is sent."""
        return fingerprint(self.request)

    def extend(self, pieces: Sequence[Text]) -> Trace:
        """The request with more text at its end; among messages, in the assistant's."""
        request = _append_text(self.request, ''.join(piece.text for piece in pieces))
        at = len(request) - 1 if not isinstance(request, str) and isinstance(request[-1], Mapping) else None
        return Trace(request, (*self.spans, *(Span(added.text, added.origin, at) for added in pieces)), self.notes)

    def _repr_html_(self) -> str:
        request_html = load_object('rolecall.ui.views.span_html:request_html')
        return str(request_html('', self.request, self.spans))


def _append_text(request: Any, text: str) -> Any:
    """A request with a text after it.

    >>> _append_text([{'role': 'user', 'content': '1+1='}], ' 2')
    [{'role': 'user', 'content': '1+1='}, {'role': 'assistant', 'content': ' 2'}]
    """
    if isinstance(request, str):
        return request + text
    last = request[-1] if request else {}
    if not isinstance(last, Mapping):
        return [*request, text]
    if last.get('role') != 'assistant':
        return [*request, {'role': 'assistant', 'content': text}]
    return [*request[:-1], {**last, 'content': last['content'] + text}]


def compile(
    wording: WordingLike,
    renderer: RendererLike | None = None,
    *,
    mode: Mode = 'gen',
    shots: Sequence[Row] = (),
    label: Hashable = None,
    prefill: bool = False,
) -> Program:
    """Compile a wording, fixed examples and a renderer into one program.

    >>> from rolecall import PromptTemplate
    >>> from rolecall.core import Wording
    >>> wording = Wording(
    ...     prompt_template=PromptTemplate('Solve.\\n</E>{q}\\n{a}', ice_token='</E>'),
    ...     ice_template=PromptTemplate('{q}\\n{a}'),
    ...     output_column='a')
    >>> program = compile(wording, shots=[{'q': '1+1=?', 'a': '2'}])
    >>> program({'q': '2+2=?', 'a': '4'})
    'Solve.\\n1+1=?\\n2\\n2+2=?\\n'
    >>> compile('Q: {q}')({'q': '2+2=?'})
    'Q: 2+2=?'
    """
    wording, renderer = as_wording(wording), as_renderer(renderer)
    script = wording.place_shots(wording.script(label, mode), shots)
    check_roles(wording, script, renderer)
    return Program(script, partial(renderer.render, mode=mode, prefill=prefill))


def check_roles(wording: Wording, script: Script, renderer: Renderer) -> None:
    """Raise for a role of the meta template that has a prompt neither there nor in the prompt or its examples."""
    meta = getattr(renderer, 'meta', None)
    if isinstance(meta, MetaTemplate) and not script.raw:
        check_prompts([item for part in (script, *wording.shot_scripts) for item in part.items], meta)


def compile_labels(
    wording: WordingLike,
    renderer: RendererLike | None = None,
    *,
    labels: Sequence[Hashable] = (),
    shots: Sequence[Row] = (),
) -> dict[Hashable, Program]:
    """One complete prompt per label, for comparing likelihoods."""
    wording = as_wording(wording)
    return {
        label: compile(wording, renderer, mode='ppl', shots=shots, label=label)
        for label in labels or wording.prompt.labels
    }


def as_wording(source: WordingLike) -> Wording:
    """Convert to a wording: a template is the prompt's; a string or dialogue is parsed as one."""
    if isinstance(source, Wording):
        return source
    if isinstance(source, (str, Mapping)):
        source = PromptTemplate(source)
    return Wording(prompt_template=source)


def as_renderer(source: RendererLike | None) -> Renderer:
    """Convert to a renderer: a meta template is a text model's; None is a text model without one."""
    if source is None:
        return TextRenderer()
    if isinstance(source, MetaTemplate):
        return TextRenderer(source)
    if isinstance(source, Mapping):
        meta = MetaTemplate.read(source)
        if any('api_role' in entry for entry in source.get('round') or ()):
            what = 'a meta template with api_role could be for an API or for a text model.'
            remedy = 'Write ApiRenderer(MetaTemplate.read(…)) or TextRenderer(MetaTemplate.read(…)).'
            raise TemplateError(Problem('renderer', what, remedy))
        return TextRenderer(meta)
    if isinstance(source, type) or not callable(getattr(source, 'render', None)):
        what = f'expected a renderer, got {describe_value(source)}.'
        remedy = 'Write TextRenderer(…), ApiRenderer(…) or ChatRenderer(…), or pass a meta template.'
        raise TemplateError(Problem('renderer', what, remedy))
    return source


Render = Callable[[Script], Rendered]


def render_with(renderer: RendererLike | None, mode: Mode, *, prefill: bool = False) -> Render:
    """A render function for one renderer and mode."""
    return partial(as_renderer(renderer).render, mode=mode, prefill=prefill)


class Program:
    """One prompt, compiled: call it with a row."""

    # __call__ is a slot holding the layout's fill function: a method call more would cost 50 % extra.
    __slots__ = ('__call__', '_render', '_rendered', 'script')

    if TYPE_CHECKING:

        def __call__(self, row: Row) -> Request:
            """The request for one row."""

    def __init__(self, script: Script, render: Render) -> None:
        self.script = script
        """The parsed prompt with its examples inserted and its fields unfilled."""
        self._render = render
        self._rendered = None if script.depends_on_row else render(script)
        object.__setattr__(self, '__call__', self._rendered.layout.fill if self._rendered else self._fill_anew)

    def trace(self, row: Row) -> Trace:
        """The request for one row, with the origin of every character."""
        rendered = self._rendered or self._render(self.script.bind(row))
        return Trace(rendered.layout.fill(row), tuple(rendered.layout.trace(row)), rendered.notes)

    def prompt(self, row: Row) -> str | PromptList:
        """The prompt before rendering."""
        return self.script.fill(row)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes that apply to every row."""
        return self._rendered.notes if self._rendered else ()

    def _fill_anew(self, row: Row) -> Request:
        return self._render(self.script.bind(row)).layout.fill(row)
