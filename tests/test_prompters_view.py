"""A prompter on the terminal, and from a file."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from rolecall import ChatPrompter
from rolecall.errors import PrompterError
from rolecall.views.prompter import load_prompter, plain_lines, show_prompter, sketched
from rolecall.views.terminal import console

FILE = """
from rolecall import AlpacaPrompter, ChatPrompter
add = AlpacaPrompter('Add {x}.')
chat = ChatPrompter('Talk.')
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / 'mine.py'
    path.write_text(FILE, encoding='utf-8')
    return path


def test_a_prompter_is_found_in_a_file(file: Path) -> None:
    assert load_prompter(f'{file}:add').slots == ('x',)
    with pytest.raises(PrompterError, match="Did you mean 'chat'"):
        load_prompter(f'{file}:chatt')
    with pytest.raises(PrompterError, match='no file'):
        load_prompter(f'{file}x:add')
    with pytest.raises(PrompterError, match="Known: 'add', 'chat'"):
        load_prompter(str(file))
    file.write_text('from rolecall import ChatPrompter\nonly = ChatPrompter("Hi")\n')
    assert load_prompter(str(file)).instruction == 'Hi'
    file.write_text('x = 1\n')
    with pytest.raises(PrompterError, match='no prompter'):
        load_prompter(f'{file}:x')


def shown(prompter: ChatPrompter, **options: object) -> str:
    out = io.StringIO()
    show_prompter(prompter, console(out, width=100), **options)  # type: ignore[arg-type]
    return out.getvalue()


def test_a_prompter_is_shown_with_its_slots_open_or_filled() -> None:
    prompter = ChatPrompter('From {context}.', tools=[{'type': 'function', 'function': {'name': 'look'}}])
    sketch = shown(prompter)
    assert 'From {context}.' in sketch
    assert '{input}' in sketch
    filled = shown(prompter, given={'context': 'a book', 'input': 'Who?'}, history=[['Hi', 'Ho']], format='anthropic')
    for words in ('system (beside the messages)', 'From a book.', 'assistant', 'Who?', '"name": "look"', 'history[0]'):
        assert words in filled
    calls = [{'role': 'assistant', 'content': '', 'tool_calls': [{'id': '1', 'function': {'name': 'look'}}]}]
    assert 'tool_use' in shown(prompter, given={'context': '', 'input': ''}, history=calls, format='anthropic')
    assert '"tool_calls"' in shown(prompter, given={'context': '', 'input': ''}, history=calls, return_dict=True)


def test_spans_can_be_listed_without_colours() -> None:
    lines = list(plain_lines(sketched(ChatPrompter('From {context}.', system=''), return_dict=True)))
    assert lines[:2] == ["[0] text instruction: 'From '", "[0] field context: '{context}'"]
    assert lines[-1] == "[1] field input: '{input}'"
