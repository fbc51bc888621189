"""Requests as plain lines: the origin on the left, the text on the right. A stable format for pipes.

`│` begins a line of the prompt, `+` continues it, so nothing about the words is lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from rolecall.core.prompts.pieces import label_of
from rolecall.core.render.spans import Span
from rolecall.experiment.pairs.pair import Preview
from rolecall.experiment.previews.blocks import (
    Block,
    blocks_of,
    facts_of,
    is_messages,
    shorten_media,
    show_blanks,
    title_of,
)
from rolecall.strings import printable


def plain_lines(preview: Preview, *, whitespace: bool = False) -> Iterator[str]:
    """The lines that show one request.

    >>> from rolecall.experiment.experiment import preview
    >>> config = dict(
    ...     models=[dict(abbr='gpt', type='OpenAI')],
    ...     datasets=[dict(abbr='demo', type='Rows', test=[{'q': '1+1=?', 'a': '2'}],
    ...         reader_cfg=dict(input_columns=['q'], output_column='a'),
    ...         infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='Q:{q}\\nA:{a}')))])
    >>> print('\\n'.join(plain_lines(next(preview(config)))))  # doctest: +ELLIPSIS
    == demo × gpt · row 0 · gen
    -- user
    text    │Q:
    field q +1+1=?
    text    │A:
    -- hidden: a
    -- size: 10 characters in 1 message
    -- fingerprint: ...
    """
    yield f'== {printable(title_of(preview))}'
    blocks = blocks_of(preview)
    spans = [span for block in blocks for span in block.spans if span.text or span.token is not None]
    width = max((len(label_of(span.origin)) for span in spans), default=0)
    for block in blocks:
        if is_messages(preview):
            yield f'-- {printable(block.heading)}{f" {printable(block.extra)}" if block.extra else ""}'
        yield from _block_lines(block, width, whitespace=whitespace)
    for heading, words in facts_of(preview):
        yield f'-- {heading}: {printable(words)}'


def _block_lines(block: Block, width: int, *, whitespace: bool) -> Iterator[str]:
    begun = False
    label = ''
    for span in block.spans:
        if not span.text and span.token is None:
            continue
        label = label_of(span.origin).ljust(width)
        for number, line in enumerate(span_text(span, whitespace=whitespace).split('\n')):
            if number:
                if not begun:
                    yield f'{label} │'
                begun = False
            if line:
                yield f'{label} {"+" if begun else "│"}{line}'
                begun = True
    if label and not begun:
        yield f'{label} │'


def span_text(span: Span, *, whitespace: bool = False) -> str:
    """A span's text, safe to show."""
    if span.token is not None:
        return f'<{span.token}>'
    text = printable(shorten_media(str(span.text)) if span.origin.kind == 'media' else str(span.text))
    return show_blanks(text) if whitespace else text
