"""The public names of the package, as a user's type checker sees them."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import rolecall
import rolecall.apps.chat
import rolecall.models

SOURCE = Path(rolecall.__file__).parent.parent


def test_every_public_name_is_listed_once_and_found() -> None:
    for path in sorted((SOURCE / 'rolecall').rglob('__init__.pyi')):
        package = importlib.import_module('.'.join(path.parent.relative_to(SOURCE).parts))
        assert sorted(set(package.__all__)) == package.__all__ == sorted(set(dir(package)))
        assert all(getattr(package, name) is not None for name in package.__all__), path
    assert len(rolecall.__all__) <= 36
    with pytest.raises(AttributeError, match="module 'rolecall' has no attribute 'nothing'"):
        _ = rolecall.nothing


def test_a_strict_type_checker_accepts_every_public_name(tmp_path: Path) -> None:
    names = ', '.join(name for name in rolecall.__all__ if name != '__version__')
    (tmp_path / 'user.py').write_text(f'from rolecall import {names}\n\nreply: Reply = Reply("four")\n')
    command = [sys.executable, '-m', 'mypy', '--strict', '--cache-dir', str(SOURCE.parent / '.mypy_cache'), 'user.py']
    checked = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, 'MYPYPATH': str(SOURCE)}, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout


def test_public_names_cover_errors_and_what_calls_return() -> None:
    assert {'RolecallError', 'ConfigError', 'Reply', 'Scorecard', 'Result', 'RunSummary'} <= set(rolecall.__all__)
    assert {'ModelError', 'Usage', 'Sampling'} <= set(rolecall.models.__all__)
    assert {'ModuleError', 'ChatReply', 'NoAnswerError'} <= set(rolecall.apps.chat.__all__)


USER = """
from typing import Any, assert_type

from rolecall import {names}
from rolecall.apps.chat import ChatReply, NoAnswerError
from rolecall.core import ChatTemplate
from rolecall.errors import PrompterError
from rolecall.models import ModelError

chat = ChatPrompter('Add.')
assert_type(chat.generate_prompt('1+1'), str)
assert_type(chat.generate_prompt('1+1', return_dict=True), dict[str, Any])
assert_type(chat.generate_prompt('1+1', format='anthropic'), dict[str, Any])
template: ChatTemplate = ChatTemplate.from_file('model')
bound: ChatPrompter = chat.bind(template)
module: TrainableModule = TrainableModule('smollm2').prompt(bound)
answer: str = module('1+1')
reply: ChatReply = module.reply('1+1')
tuned: TrainableModule = module.tune([{{'input': '1+1', 'answer': '2'}}], 'tuned', lora=16)
try:
    module('1+1')
except NoAnswerError as error:
    kept: Reply = error.reply
except (ModelError, PrompterError, RolecallError):
    pass
"""


@pytest.fixture(scope='module')
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the built wheel in it, and a user's file beside it."""
    home = tmp_path_factory.mktemp('user')
    wheel = [sys.executable, '-m', 'pip', 'wheel', '-q', '--no-deps', '--disable-pip-version-check', '-w', str(home)]
    built = subprocess.run([*wheel, str(SOURCE.parent)], capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f'the wheel cannot be built here: {built.stderr[-200:]}')
    subprocess.run([sys.executable, '-m', 'venv', '--without-pip', str(home / 'venv')], check=True)
    packages = next((home / 'venv').glob('lib/python*/site-packages'))
    with zipfile.ZipFile(next(home.glob('*.whl'))) as archive:
        archive.extractall(packages)
    names = ', '.join(sorted(name for name in rolecall.__all__ if name != '__version__'))
    (home / 'user.py').write_text(USER.format(names=names))
    return home


@pytest.mark.heavy
@pytest.mark.parametrize('checker', ['mypy', 'pyright'])
def test_type_checkers_accept_a_users_file_against_the_built_wheel(installed: Path, checker: str) -> None:
    pytest.importorskip(checker)
    python = str(installed / 'venv' / 'bin' / 'python')
    given = {'mypy': ['--strict', '--python-executable', python], 'pyright': ['--pythonpath', python]}
    command = [sys.executable, '-m', checker, *given[checker], 'user.py']
    surroundings = {name: value for name, value in os.environ.items() if name not in ('PYTHONPATH', 'MYPYPATH')}
    checked = subprocess.run(command, cwd=installed, env=surroundings, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
