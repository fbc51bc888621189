"""Calls of modules as type checkers see them: right ones have the right type, wrong ones are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rolecall

SOURCE = Path(rolecall.__file__).parent.parent
APPS = SOURCE.parent / 'examples' / 'apps'
RIGHT = """
from dataclasses import dataclass
from typing import Any

from typing_extensions import assert_type

from rolecall import OnlineChatModule, TrainableModule
from rolecall.apps.chat import ChatReply, ToolContext


@dataclass
class Ticket:
    topic: str


def refund(order: str, context: ToolContext[Ticket]) -> str:
    return order + context.deps.topic


module = OnlineChatModule('openai', temperature=0, verify=True, price={'input': 1.0, 'output': 2.0})
claude = OnlineChatModule('anthropic', 'claude-sonnet-4-5', prompt_cache='1h', thinking={'type': 'disabled'})
assert_type(claude.prompt('Be brief.')('Hi', top_k=3, user='ada', headers={'a': 'b'}), str)
assert_type(OnlineChatModule('mistral').batch(['a'], seed=1, reasoning_effort='high', concurrency=2), list[str])
fallback: OnlineChatModule = claude.with_fallbacks(module)
local = TrainableModule('smollm2', max_seq_len=512, max_tokens=9)
assert_type(module('Hi', timeout=3, max_cost=0.1, history=[['a', 'b']]), str)
assert_type(module('Hi', returns=Ticket), Ticket)
assert_type(module('Hi', returns=list[int]), list[int])
assert_type(module.reply('Hi', returns=Ticket).value.topic, str)
assert_type(module.reply('Hi'), ChatReply[None])
assert_type(module.batch(['a'], concurrency=2, histories=[None]), list[str])
assert_type(module.batch(['a'], returns=Ticket), list[Ticket])
assert_type(module.batch_replies(['a'], returns=Ticket), list[ChatReply[Ticket]])
assert_type(local.with_tools([refund])('Hi', deps=Ticket('a')), str)
bare: ChatReply = module.reply('Hi')
assert_type(module.stream('Hi', returns=Ticket).reply.value, Ticket)
assert_type(local.stream('Hi').reply, ChatReply[None])


async def main() -> None:
    assert_type(await module.acall('Hi', returns=Ticket), Ticket)
    assert_type(await module.areply('Hi', returns=Ticket), ChatReply[Ticket])
    assert_type(await module.abatch(['a']), list[str])
    assert_type(await claude.abatch(['a'], returns=int), list[int])
    assert_type(await module.abatch_replies(['a']), list[ChatReply[None]])
    assert_type(await local.abatch_replies(['a'], returns=Ticket), list[ChatReply[Ticket]])
    schema: dict[str, Any] = {'type': 'object'}
    print(await module.acall('Hi', returns=schema))
"""
HEAD = """from rolecall import OnlineChatModule, TrainableModule
from rolecall.apps.chat import ChatReply
from rolecall.apps.chat.streaming import AsyncStream, Stream

module = OnlineChatModule('openai')
claude, mistral = OnlineChatModule('anthropic', 'claude-sonnet-4-5'), OnlineChatModule('mistral')
local = TrainableModule('smollm2')
"""
WRONG = (
    "module('Hi', temprature=1)",
    "module('Hi', temperature='hot')",
    "module('Hi', max_token=5)",
    "module('Hi', stream=True)",
    "module.reply('Hi', timeout='long')",
    "module.stream('Hi', temprature=1)",
    "module.stream('Hi', returns=int).reply.value.upper()",
    "claude.astream('Hi', returns=int).reply.value.upper()",
    "module.astream('Hi', heades={})",
    "module.batch(['a'], concurency=2)",
    "module.batch(['a'], returns=int)[0].upper()",
    "module('Hi', returns=int).upper()",
    "number: int = module('Hi')",
    "other: int = claude('Hi')",
    "numbers: list[int] = module.batch(['a'])",
    "reply: ChatReply[int] = module.reply('Hi')",
    "replies: list[ChatReply[int]] = module.batch_replies(['a'])",
    "stream: Stream[int] = module.stream('Hi')",
    "other_stream: AsyncStream[int] = module.astream('Hi')",
    "other_numbers: list[int] = claude.batch(['a'])",
    "other_reply: ChatReply[int] = local.reply('Hi')",
    "async def areply() -> ChatReply[int]: return await module.areply('Hi')",
    "async def abatch() -> list[int]: return await mistral.abatch(['a'])",
    "async def abatch_replies() -> list[ChatReply[int]]: return await module.abatch_replies(['a'])",
    "module.reply('Hi', returns=int).value.upper()",
    "module.with_fallbacks(module, when=['refusals'])",
    "OnlineChatModule('openai', temprature=0)",
    "OnlineChatModule('openai', timeout='long')",
    "TrainableModule('smollm2', max_seq=5)",
    "claude('Hi', temprature=1)",
    "claude('Hi', reasoning_effort='low')",
    "claude.prompt('Be brief.').reply('Hi', seed=1)",
    "claude.stream('Hi', logprobs=True)",
    "claude.batch(['a'], presence_penalty=1.0)",
    "claude('Hi', returns=int, response_format={})",
    "mistral('Hi', logit_bias={'1': 1.0})",
    "mistral.with_tools([len]).batch_replies(['a'], top_logprobs=3)",
    "local('Hi', tool_choice='required')",
    "local('Hi', headers={'a': 'b'})",
    "local.batch(['a'], reasoning_effort='low')",
    "TrainableModule('smollm2', logit_bias={'1': 1.0})",
)


def check(folder: Path, checker: str) -> str:
    """What a checker says about the files of a folder."""
    pytest.importorskip(checker)
    (folder / 'pyrightconfig.json').write_text(json.dumps({'extraPaths': [str(SOURCE)], 'typeCheckingMode': 'strict'}))
    strict = ['--strict', '--cache-dir', str(SOURCE.parent / '.mypy_cache')] if checker == 'mypy' else []
    command = [sys.executable, '-m', checker, *strict, *sorted(path.name for path in folder.glob('*.py'))]
    environment = {**os.environ, 'MYPYPATH': str(SOURCE)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True).stdout


@pytest.mark.parametrize('checker', ['mypy', 'pyright'])
def test_calls_have_the_types_they_say(tmp_path: Path, checker: str) -> None:
    (tmp_path / 'right.py').write_text(RIGHT)
    for app in APPS.glob('*.py'):
        (tmp_path / app.name).write_text(app.read_text('utf-8'))
    messages = check(tmp_path, checker)
    assert 'error' not in messages.replace('0 errors', ''), messages


@pytest.mark.parametrize('checker', ['mypy', 'pyright'])
def test_wrong_calls_are_refused(tmp_path: Path, checker: str) -> None:
    (tmp_path / 'wrong.py').write_text(HEAD + '\n'.join(WRONG) + '\n')
    messages = check(tmp_path, checker)
    first = HEAD.count('\n') + 1
    accepted = [call for line, call in enumerate(WRONG, first) if f'wrong.py:{line}:' not in messages]
    assert not accepted, messages


def test_the_types_of_vendors_are_those_of_the_calls() -> None:
    command = [sys.executable, 'tools/vendor_types.py', 'check']
    checked = subprocess.run(command, cwd=SOURCE.parent, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
