"""`doc_to_image`: the images of a row, put into the messages of a model that takes them, where `<image>` stands."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rolecall.compat.lm_eval.functions import call_function
from rolecall.compat.lm_eval.task import LmTask, Row
from rolecall.compat.lm_eval.task_file import Function
from rolecall.core.program import Trace
from rolecall.core.prompts.pieces import Origin
from rolecall.core.render.spans import Span
from rolecall.errors import RenderError

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
