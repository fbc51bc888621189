"""Modules and prompters as values: equal, copied, pickled, and used in a forked process."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from rolecall import AlpacaPrompter, ChatPrompter, OnlineChatModule, TrainableModule
from rolecall.apps.chat import ModuleError, Tool
from rolecall.models.protocol import ModelError
from servers import serve
from small_gguf import make_gguf

TOOL = {'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object', 'properties': {}}}}
KEY = 'sk-very-secret-0123456789'


def hook(*given: Any) -> Any:
    return given


def add(x: int, y: int) -> int:
    """Add."""
    return x + y


MAKERS = {
    'text': lambda: ChatPrompter('Be brief.'),
    'levels': lambda: ChatPrompter({'system': 'a {x}', 'user': 'b'}),
    'tools': lambda: ChatPrompter('a', tools=[TOOL]),
    'history': lambda: ChatPrompter('a', history=[['q', 'a'], {'role': 'user', 'content': 'x'}]),
    'bound': lambda: ChatPrompter('a').bind({'soh': '<u>', 'soa': '<a>'}),
    'hooked': lambda: AlpacaPrompter('a').pre_hook(hook),
    'keys': lambda: AlpacaPrompter('a', extra_keys=['hint']),
    'system': lambda: ChatPrompter('a', system='You are A.'),
    'alpaca': lambda: AlpacaPrompter('a'),
}


@pytest.mark.parametrize('name', MAKERS)
def test_equal_prompters_are_equal_and_no_others(name: str) -> None:
    one, other = MAKERS[name](), MAKERS[name]()
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)
    assert one != 'text'
    assert [key for key, make in MAKERS.items() if make() == one] == [name]


def test_a_pickled_module_has_no_connection_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(key=KEY) as server:
        module = OnlineChatModule(
            'deepseek', 'toy', server.url, api_key=KEY, retries=0, temperature=0, headers={'X-Api-Key': KEY, 'X-A': 'b'}
        )
        module = module.prompt(ChatPrompter('Be brief.')).with_tools([add]).with_token_budget(500, count=len)
        assert module('Hi') == 'Answer to Hi'
        written = pickle.dumps(module)
        assert KEY.encode() not in written
        loaded = pickle.loads(written)
        assert repr(loaded) == repr(module)
        assert loaded.prompter == module.prompter
        with pytest.raises((ModelError, ModuleError)):
            loaded('Hi')  # the key has to come from somewhere
        monkeypatch.setenv('DEEPSEEK_API_KEY', KEY)
        assert pickle.loads(written)('Hi') == 'Answer to Hi'
        assert server.bodies[-1] == server.bodies[0]
        assert server.calls[-1].headers['X-A'] == 'b'
        extra = {'auth': {'token': 'another-53cr3t', 'level': 2}, 'copies': [KEY, 'plain']}
        written = pickle.dumps(OnlineChatModule('deepseek', 'toy', server.url, api_key=KEY, extra_body=extra))
        assert not any(secret.encode() in written for secret in (KEY, 'another-53cr3t'))
        assert pickle.loads(written)('Hi') == 'Answer to Hi'
        assert server.bodies[-1]['copies'] == ['plain']


@pytest.mark.parametrize(
    ('options', 'kept'),
    [
        ({'base_url': 'https://me:pa55-w0rd@host:81/v1'}, 'https://host:81/v1'),
        ({'base_url': 'https://host/v1?code=pa55-w0rd-0123&api-version=1'}, 'https://host/v1?api-version=1'),
        ({'source': 'http://:pa55-w0rd@host/v1'}, 'http://host/v1'),
        ({'base_url': 'http://host', 'proxy': 'http://me:pa55-w0rd@proxy:3128'}, 'http://proxy:3128'),
    ],
)
def test_a_pickled_module_has_no_password_of_a_url(options: dict[str, str], kept: str) -> None:
    module = OnlineChatModule(model='toy', api_key='$TOY_KEY', **options)
    written = pickle.dumps(module)
    assert b'pa55-w0rd' not in written
    assert kept in pickle.loads(written)._made_with.values()
    assert 'pa55-w0rd' in str(copy.deepcopy(module)._made_with)


@pytest.mark.parametrize('copies', [copy.copy, copy.deepcopy], ids=['copy', 'deepcopy'])
def test_copies_answer_and_a_deep_one_has_a_connection_of_its_own(copies: Any) -> None:
    with serve(key=KEY) as server:
        module = OnlineChatModule('openai', 'toy', server.url, api_key=KEY).prompt('Be brief.')
        copied = copies(module)
        assert copied('Hi') == module('Hi') == 'Answer to Hi'
        assert (copied._connection() is module._connection()) == (copies is copy.copy)


def test_a_local_module_is_copied_without_its_model() -> None:
    module = TrainableModule('smollm2', max_seq_len=512, temperature=0).prompt('Be brief.')
    for copied in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert repr(copied) == repr(module)
        assert copied.prompter == module.prompter
    assert pickle.loads(pickle.dumps(Tool(add))) == Tool(add)


FORKED = """
import os, signal, sys
from rolecall import TrainableModule, OnlineChatModule
from rolecall.apps.chat import NotStartedError
online = OnlineChatModule(base_url=sys.argv[2], model='toy')
local = TrainableModule(sys.argv[1], max_seq_len=64, max_tokens=3, temperature=0)
local.start()
said = local('Hi')
assert online('Hi') == 'Answer to Hi'
child = os.fork()
if child == 0:
    signal.alarm(120)
    assert online('Hi') == 'Answer to Hi'
    assert not local.started
    try:
        local('Hi')
    except NotStartedError as error:
        print(error, flush=True)
    local.stop()
    local.start()
    assert local('Hi') == said
    local.stop()
    print('child done', flush=True)
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert local('Hi') == said
local.stop()
print('status', status)
"""


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='needs fork')
def test_a_forked_child_does_not_hang(tmp_path: Path) -> None:
    pytest.importorskip('xllamacpp')
    make_gguf(tmp_path / 'm.gguf')
    with serve() as server:
        ran = subprocess.run(
            [sys.executable, '-c', textwrap.dedent(FORKED), str(tmp_path / 'm.gguf'), server.url],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    assert 'was started before this process was forked' in ran.stdout
    assert 'call start() here too' in ran.stdout
    assert ran.stdout.splitlines()[-2:] == ['child done', 'status 0']
    assert signal.Signals.SIGALRM.name not in ran.stderr
