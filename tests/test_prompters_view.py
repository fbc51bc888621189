"""A prompter on the terminal, and from a file."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from rolecall import ChatPrompter
from rolecall.errors import ConfigError, PrompterError
from rolecall.ui.cli.inputs import load_prompter
from rolecall.ui.cli.main import main
from rolecall.ui.views.prompter_trace import show_trace, trace_lines, trace_open_slots
from rolecall.ui.views.terminal import make_console

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
    with pytest.raises(PrompterError, match='no such file'):
        load_prompter(f'{file}x:add')
    with pytest.raises(PrompterError, match="Known: 'add', 'chat'"):
        load_prompter(str(file))
    file.write_text('from rolecall import ChatPrompter\nonly = ChatPrompter("Hi")\n')
    assert load_prompter(str(file)).instruction == 'Hi'
    file.write_text('x = 1\n')
    with pytest.raises(PrompterError, match='no prompter'):
        load_prompter(f'{file}:x')


@pytest.mark.parametrize(
    ('content', 'said'),
    [
        ('x = (', r'file\.py:1: .*never closed'),
        ("\nraise RuntimeError('no')", r'file\.py:2: RuntimeError: no'),
        ('import no_such_thing', r"file\.py:1: ModuleNotFoundError: No module named 'no_such_thing'"),
        ('import sys\nsys.exit(3)', r'file\.py:2: SystemExit: 3'),
        ('from rolecall import ChatPrompter\nchat = ChatPrompter(3)', r'file\.py:2: PrompterError: '),
    ],
)
def test_a_file_that_does_not_run_is_an_error_at_its_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / 'file.py'
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_prompter(f'{path}:chat')
    assert re.search(said, str(caught.value).replace('\n  ', ': '))


def test_a_file_may_import_what_lies_beside_it_and_print(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / 'beside_it.py').write_text("WORDS = 'Be brief.'")
    (tmp_path / 'app.py').write_text(
        "from beside_it import WORDS\nfrom rolecall import ChatPrompter\nprint('hello')\nchat = ChatPrompter(WORDS)"
    )
    assert main(['config', 'prompter', f'{tmp_path / "app.py"}:chat', '--json']) == 0
    shown = capsys.readouterr()
    assert 'Be brief.' in json.loads(shown.out)['prompt']
    assert shown.err == 'hello\n'


def test_the_command_shows_a_prompter_in_every_form(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk = ['--history', '[["Hi", "Ho"]]', '--input', 'Bye', '--label', 'Ciao']
    assert main(['config', 'prompter', f'{file}:chat', *talk, '--meta-template', 'chatml', '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    assert ''.join(span['text'] for span in found['spans']) == found['prompt']
    assert found['prompt'].endswith('<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\nCiao<|im_end|>\n')
    assert main(['config', 'prompter', f'{file}:chat', *talk, '--format', 'anthropic', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['prompt']['messages'][-1] == {'role': 'assistant', 'content': 'Ciao'}
    assert main(['config', 'prompter', f'{file}:chat', *talk]) == 0
    assert "label: 'Ciao'" in capsys.readouterr().out
    assert main(['config', 'prompter', f'{file}:chat', '--history', 'Hi']) == 2
    assert 'history must be a list' in capsys.readouterr().err
    assert main(['config', 'prompter', f'{file}:chat', '--input', '{"x": 1']) == 2
    assert '{"x": 1 begins like JSON and cannot be read as such' in capsys.readouterr().err
    assert main(['config', 'prompter', f'{file}:chat', '--meta-template', 'chatmll']) == 2
    assert capsys.readouterr().err.startswith("rolecall: unknown meta template 'chatmll'.")


def shown(prompter: ChatPrompter, given: object = None, **options: object) -> str:
    out = io.StringIO()
    trace = trace_open_slots(prompter, **options) if given is None else prompter.trace(given, **options)  # type: ignore[arg-type]
    show_trace(trace, make_console(out, width=100))
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
    lines = list(trace_lines(trace_open_slots(ChatPrompter('From {context}.', system=''), return_dict=True)))
    assert lines[:2] == ["[0 system] text instruction: 'From '", "[0 system] field context: '{context}'"]
    assert lines[-1] == "[1 user] field input: '{input}'"
    tool = {'type': 'function', 'function': {'name': 'look'}}
    assert list(trace_lines(trace_open_slots(ChatPrompter(tools=[tool]), return_dict=True)))[-1].startswith(
        'tools: [{"type"'
    )
