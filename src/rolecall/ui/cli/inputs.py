"""Inputs of commands besides a config: canned replies, a model, a prompter."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecall.errors import ConfigError, DataError, Problem, PrompterError, did_you_mean
from rolecall.sources.config.trouble import syntax_problem, user_problem
from rolecall.usercode import neighbours_of, printing_to_stderr

if TYPE_CHECKING:
    from rolecall.core.prompters import Prompter
    from rolecall.experiment.opening.model_entries import ModelEntry

_LIKE_JSON = re.compile(r'\s*(\{\s*"|\[\s*[\[{"])')


def read_replies(path: str) -> list[str]:
    """Canned replies from a file: a JSON list of strings, or one reply per line."""
    try:
        text = Path(path).read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f'{path}: cannot be read: {getattr(error, "strerror", None) or error}.') from error
    if not path.endswith('.json'):
        return text.splitlines()
    try:
        replies = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f'{path}:{error.lineno}: not valid JSON: {error.msg}.') from error
    if not isinstance(replies, list) or not all(isinstance(reply, str) for reply in replies):
        raise DataError(f'{path}: expected a JSON list of strings.')
    return replies


def read_json_or_text(text: str) -> Any:
    """A value from the command line: JSON if it is an object or a list, otherwise the text itself.

    >>> read_json_or_text('{"a": 1}'), read_json_or_text('{a}')
    ({'a': 1}, '{a}')
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        if _LIKE_JSON.match(text):
            raise DataError(f'{text:.60} begins like JSON and cannot be read as such: {error}.') from None
        return text
    return value if isinstance(value, (dict, list)) else text


def named_model_entry(name: str) -> ModelEntry:
    """The entry of a model by name (`smollm2`, a folder, a GGUF file, …), or of a config's model: 'CONFIG.py:ABBR'."""
    from rolecall.checking import Problems
    from rolecall.experiment.opening.loading import load_config
    from rolecall.experiment.opening.model_entries import build_model_entry, open_model_entry
    from rolecall.experiment.opening.tasks import collect
    from rolecall.models.model_names import resolve_model

    path, _, abbr = name.rpartition(':')
    if path.endswith('.py'):
        problems = Problems()
        entries = collect(load_config(path).get('models'), 'models', problems, build_model_entry)
        problems.raise_all()
        entry = next((candidate for candidate in entries if candidate.abbr == abbr), None)
        if entry is None:
            hint = did_you_mean(abbr, [candidate.abbr for candidate in entries]) if entries else ''
            raise ConfigError(Problem('model', f'{path} has no model {abbr!r}.', hint))
        return entry
    return open_model_entry(resolve_model(name))


def load_prompter(spec: str) -> Prompter:
    """The prompter that a Python file defines: 'FILE.py:NAME', or 'FILE.py' if it defines only one."""
    from rolecall.core.prompters import Prompter

    path, colon, name = spec.rpartition(':') if spec.rpartition(':')[0].endswith('.py') else (spec, '', '')
    if not Path(path).is_file():
        raise PrompterError(f'{spec}: no such file: {path}. Expected FILE.py:NAME.')
    prompters = {key: value for key, value in _execute(path).items() if isinstance(value, Prompter)}
    if not prompters:
        raise PrompterError(f'{path}: no prompter is defined in this file.')
    if not colon and len(prompters) == 1:
        return next(iter(prompters.values()))
    if name not in prompters:
        raise PrompterError(f'{spec}: no prompter named {name!r} in this file. {did_you_mean(name, prompters)}')
    return prompters[name]


def _execute(path: str) -> dict[str, Any]:
    try:
        with printing_to_stderr, neighbours_of(path):
            return runpy.run_path(path)
    except SyntaxError as error:
        raise ConfigError(syntax_problem(path, error)) from error
    except (Exception, SystemExit) as error:  # user code may raise anything
        raise ConfigError(user_problem(path, error, {})) from error
