"""A task's rows as requests for one model, with the origin of every character."""

from __future__ import annotations

import base64
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from rolecall.compat.lm_eval.contexts import Continuation, Message, Wordings, as_one_turn, join_text
from rolecall.compat.lm_eval.functions import call_function
from rolecall.compat.lm_eval.task import LmTask, Row
from rolecall.compat.lm_eval.task_file import Function
from rolecall.core.program import Trace
from rolecall.core.prompts.pieces import SHOTS, Origin, Text
from rolecall.core.prompts.script import BareText, Script, Turn
from rolecall.core.render.renderers import DatasetRenderer, Renderer, TextRenderer
from rolecall.core.render.spans import Request, Span
from rolecall.errors import RenderError
from rolecall.sources.datasets import Dataset

_SEP = Text('', Origin('sep'))
_NO_TURNS = (None,)
_WORDING = (
    *('description', 'doc_to_text', 'doc_to_target', 'doc_to_choice', 'doc_to_image', 'gen_prefix', 'output_type'),
    *('target_delimiter', 'fewshot_delimiter'),
)


class LmTemplate:
    """A task as a template with its own program, because its wording depends on the row."""

    labels: tuple[Hashable, ...] = ()
    is_dialogue = False
    ice_token: str | None = None

    def __init__(self, task: LmTask) -> None:
        self.task = task

    @property
    def sep_token(self) -> str | None:
        """Where a continuation begins is marked in the spans."""
        return None if self.task['output_type'] == 'generate_until' else 'continuation'

    @property
    def needs_media(self) -> bool:
        """Whether the model must accept images; a text-only model would not see what the question is about."""
        return bool(self.task.get('doc_to_image'))

    def script(self, label: Hashable = None) -> Script:
        """A place for the examples, and the name of the task that words the row."""
        words = Text('', Origin('text', source=self.task.place('doc_to_text')))
        return Script((BareText((SHOTS, words), 'round'),), plain=True)

    shot = script

    def build_program(self, renderer: Renderer, data: Dataset) -> LmProgram:
        """The task for a model."""
        return LmProgram(self.task, renderer, data)

    def describe_part(self) -> dict[str, Any]:
        """What the wording depends on, for its digest."""
        task, options = self.task, self.task.options
        own = {'system': options.system_instruction, 'multiturn': options.fewshot_as_multiturn}
        return {**task.describe_keys(*_WORDING), **own}

    def __repr__(self) -> str:
        return f'LmTemplate({self.task.name!r})'


class LmProgram:
    """Words the requests of a row, as `rolecall.experiment.pairs.programs.RowProgram` asks."""

    waits = False
    complete = True

    def __init__(self, task: LmTask, renderer: Renderer, data: Dataset) -> None:
        self.weighs = task['output_type'] != 'generate_until'
        self._task = task
        self._renderer = renderer
        self._data = data
        self._wordings: Wordings | None = None
        bare = isinstance(renderer, TextRenderer) and renderer.meta is None
        self._chat = not bare and not isinstance(renderer, DatasetRenderer)

    def turns(self, row: Row) -> Sequence[int | None]:
        return _NO_TURNS

    def requests(
        self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]
    ) -> list[tuple[Hashable, Request]]:
        return [(label, trace.request) for label, trace, _ in self.traces(row, shots, turn, replies)]

    def traces(
        self, row: Row, shots: tuple[int, ...], turn: int | None, replies: Sequence[str]
    ) -> Iterator[tuple[Hashable, Trace, str]]:
        for continuation in self.continuations(row, shots):
            prompt = ''.join(piece.text for piece in (*join_text(continuation.messages), *(continuation.target or ())))
            trace = self._trace(continuation)
            if self._task.get('doc_to_image') and isinstance(trace.request, list):
                trace = attach_images(trace, images_of(self._task, row), self._task.place('doc_to_image'))
            yield continuation.label, trace, prompt

    def continuations(self, row: Row, shots: tuple[int, ...] = ()) -> list[Continuation]:
        """The requests of a row before the model's format is applied."""
        if self._wordings is None:
            first = next(iter(self._data.test), None)
            self._wordings = Wordings.of(self._task, first)
        return self._wordings.requests(row, [self._data.train[i] for i in shots], chat=self._chat)

    def _trace(self, continuation: Continuation) -> Trace:
        if not self._chat or not continuation.messages:
            context = Trace('', ()).extend(join_text(continuation.messages))
        else:
            context = self._render(continuation.messages)
        return context if continuation.target is None else context.extend((_SEP, *continuation.target))

    def _render(self, messages: Sequence[Message]) -> Trace:
        spoken = messages if self._task.options.fewshot_as_multiturn else as_one_turn(messages)
        turns = tuple(Turn(message.role, message.pieces) for message in spoken)
        continues = spoken[-1].role == 'assistant'
        rendered = self._renderer.render(Script(turns, raw=True), 'gen', prefill=continues)
        return Trace(rendered.layout.fill({}), tuple(rendered.layout.trace({})), rendered.notes)


_PLACEHOLDER = '<image>'
_SCHEMES = ('http:', 'https:', 'file:', 'data:')


def images_of(task: LmTask, doc: Row) -> list[str]:
    """The urls of a row's images, from `doc_to_image`."""
    spec, place = task.get('doc_to_image'), task.place('doc_to_image')
    if isinstance(spec, Function):
        images = call_function(spec, doc)
    else:
        names = spec if isinstance(spec, list) else [spec]
        missing = [name for name in names if name not in doc]
        if missing:
            raise RenderError(f'{place}: doc_to_image is the column {missing[0]!r}, which this row does not have.')
        images = [doc[name] for name in names]
    return [
        _url(image, place) for image in (images if isinstance(images, list | tuple) else [images]) if image is not None
    ]


def _url(image: Any, place: str) -> str:
    """An image as a url, from a path, a url or base64."""
    if isinstance(image, Mapping):
        image = image.get('bytes') or image.get('path')
    if isinstance(image, bytes):
        return f'data:image/{_kind(image)};base64,{base64.b64encode(image).decode()}'
    if not isinstance(image, str) or not image:
        raise RenderError(f'{place}: expected the path, url or bytes of an image, got {image!r:.60}.')
    return image if image.startswith(_SCHEMES) else f'file://{image}'


def _kind(image: bytes) -> str:
    return 'jpeg' if image[:2] == b'\xff\xd8' else 'png'


def attach_images(context: Trace, images: Sequence[str], source: str) -> Trace:
    """The context with images in its last user message: one for each `<image>`, the others before the text."""
    messages: list[Any] = list(context.request)
    users = [i for i, message in enumerate(messages) if isinstance(message, Mapping) and message.get('role') == 'user']
    if not images or not users:
        return context
    at = users[-1]
    own = [span for span in context.spans if span.message == at]
    rest = [span for span in context.spans if span.message != at]
    parts, spans = _split(own, list(images), at, source)
    messages[at] = {**messages[at], 'content': parts}
    return Trace(messages, tuple(sorted([*rest, *spans], key=lambda span: span.message or 0)), context.notes)


def _split(spans: Sequence[Span], images: list[str], at: int, source: str) -> tuple[list[Any], list[Span]]:
    text = ''.join(span.text for span in spans)
    early = max(0, len(images) - text.count(_PLACEHOLDER))
    parts: list[Any] = []
    cut_spans: list[Span] = []

    def put_image() -> None:
        url = images.pop(0)
        cut_spans.append(Span(url, Origin('field', 'doc_to_image', source=source), at, len(parts)))
        parts.append({'type': 'image_url', 'image_url': {'url': url}})

    for _ in range(early):
        put_image()
    begin = 0
    while begin < len(text):
        end = text.find(_PLACEHOLDER, begin) if images else -1
        end = len(text) if end < 0 else end
        if end > begin:
            cut_spans += _cut(spans, begin, end, at, len(parts))
            parts.append({'type': 'text', 'text': text[begin:end]})
        if end < len(text):
            put_image()
        begin = end + len(_PLACEHOLDER) if end < len(text) else end
    return parts, cut_spans


def _cut(spans: Sequence[Span], begin: int, end: int, at: int, part: int) -> Iterator[Span]:
    """The spans of one stretch of text, as spans of a part."""
    start = 0
    for span in spans:
        stop = start + len(span.text)
        text = span.text[max(begin - start, 0) : max(end - start, 0)]
        if text:
            yield Span(text, span.origin, at, part)
        start = stop
