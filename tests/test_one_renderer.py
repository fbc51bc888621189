"""Only the core and the pair decide what a prompt says; whatever else writes a message is listed, with the reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import rolecall

SOURCE = Path(rolecall.__file__).parent
PAGE = Path(__file__).parent.parent / 'design/one-renderer.md'
CORE = ('core', 'experiment/pairs', 'experiment/opening')


def writes_in(source: str) -> Iterator[str]:
    """The messages that a module writes, the traces and spans it makes, and its calls of a renderer or chat template."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            if {'role', 'content'} <= keys:
                yield 'message'
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, 'id', '')
            if name in ('Span', 'Trace', 'apply_chat_template') or (name == 'render' and node.args):
                yield name


def test_whatever_writes_messages_outside_the_core_is_on_the_page_with_its_reason() -> None:
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob('*.py')
        if not str(path.relative_to(SOURCE)).startswith(CORE) and set(writes_in(path.read_text('utf-8')))
    }
    listed = set(re.findall(r'^\| `(\S+\.py)` \|', PAGE.read_text('utf-8'), re.MULTILINE))
    assert found == listed


def test_the_search_finds_what_writes_a_message() -> None:
    source = "send([{'role': 'user', 'content': x}]); Span('a', b); chat.render(messages); page.render(); {'role': 1}"
    assert sorted(writes_in(source)) == ['Span', 'message', 'render']


def test_the_proofs_that_the_page_names_exist() -> None:
    named = re.findall(r'`(tests/test_\w+\.py)(?:::(test_\w+))?`', PAGE.read_text('utf-8'))
    assert len(named) > 10
    for file, test in named:
        text = (PAGE.parent.parent / file).read_text('utf-8')
        assert f'def {test}(' in text if test else text, (file, test)
