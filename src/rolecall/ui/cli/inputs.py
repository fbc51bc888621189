"""What the commands are given: a config file, a file of rows with a template, canned replies, a prompter."""

from __future__ import annotations

import json
import runpy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecall.compat.benchmarks import is_benchmark_name
from rolecall.compat.lm_eval import is_task_source
from rolecall.errors import ConfigError, DataError, Problem, PrompterError, did_you_mean
from rolecall.experiment.opening.entries import Entries
from rolecall.experiment.opening.source import Assembled, SourceOptions, assemble
from rolecall.sources.config.plain_configs import is_plain_config
from rolecall.sources.config.trouble import syntax_problem, user_problem
from rolecall.sources.datasets.formats import is_data_file
from rolecall.usercode import neighbours_of, printing_to_stderr

if TYPE_CHECKING:
    from rolecall.core.prompters import Prompter
    from rolecall.experiment.opening.model_entries import ModelEntry


@dataclass(frozen=True, slots=True)
class OpenedConfig:
    """A config, the plan read from it, what is selected in it, and the folder its relative paths start from."""

    config: Mapping[str, Any]
    plan: Entries
    base: Path | None = None
    model: tuple[str, ...] | None = None
    data: Mapping[str, str] | None = None


def assemble_source(
    path: str, options: SourceOptions, *, meta_template: str | None = None, api: bool = False
) -> Assembled:
    """The config of a config file, a file of rows, or a task file of lm-evaluation-harness."""
    for_prompts_only = {'--meta-template': meta_template is not None, '--api': api}
    given = [name for name, is_given in for_prompts_only.items() if is_given]
    by_name = is_task_source(path) or is_benchmark_name(path)
    if given and not by_name and (not is_data_file(Path(path)) or is_plain_config(path)):
        raise ConfigError(Problem(path, f'{given[0]} applies to a file of rows; a config defines its own.'))
    made = assemble(path, replace(options, shown=tuple(_models_to_show(meta_template, api=api))))
    return replace(made, base=Path(path).parent) if is_task_source(path) else made


def _models_to_show(meta_template: str | None, *, api: bool) -> list[dict[str, Any]]:
    models: list[dict[str, Any]] = []
    if meta_template is not None:
        text_model = {'type': 'HuggingFaceCausalLM', 'path': 'none', 'meta_template': meta_template}
        models.append({'abbr': meta_template, **text_model})
    if api:
        models.append({'abbr': 'api', 'type': 'OpenAI', 'path': 'model'})
    return models


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
        given = json.loads(text)
    except ValueError:
        return text
    return given if isinstance(given, (dict, list)) else text


def named_model_entry(name: str) -> ModelEntry:
    """The entry of a model by name (`smollm2`, a folder, a GGUF file, …), or of a config's model: 'CONFIG.py:ABBR'."""
    from rolecall.checking import Problems
    from rolecall.experiment.opening.loading import load_config
    from rolecall.experiment.opening.model_entries import build_model_entry
    from rolecall.experiment.opening.tasks import collect
    from rolecall.models.model_names import resolve_model

    path, _, abbr = name.rpartition(':')
    problems = Problems()
    if path.endswith('.py'):
        found = collect(load_config(path).get('models'), 'models', problems, build_model_entry)
        problems.raise_all()
        entry = next((one for one in found if one.abbr == abbr), None)
        if entry is None:
            hint = did_you_mean(abbr, [one.abbr for one in found]) if found else ''
            raise ConfigError(Problem('model', f'{path} has no model {abbr!r}.', hint))
        return entry
    entry = build_model_entry(resolve_model(name), 'model', problems)
    problems.raise_all()
    if entry is None:
        raise ConfigError(Problem('model', f'unknown model {name!r}.'))
    return entry


def load_prompter(spec: str) -> Prompter:
    """The prompter that a Python file defines: 'FILE.py:NAME', or 'FILE.py' if it defines only one."""
    from rolecall.core.prompters import Prompter

    path, colon, name = spec.rpartition(':') if spec.rpartition(':')[0].endswith('.py') else (spec, '', '')
    if not Path(path).is_file():
        raise PrompterError(f'{spec}: no such file: {path}. Expected FILE.py:NAME.')
    found = {key: value for key, value in _execute(path).items() if isinstance(value, Prompter)}
    if not found:
        raise PrompterError(f'{path}: no prompter is defined in this file.')
    if not colon and len(found) == 1:
        return next(iter(found.values()))
    if name not in found:
        raise PrompterError(f'{spec}: no prompter named {name!r} in this file. {did_you_mean(name, found)}')
    return found[name]


def _execute(path: str) -> dict[str, Any]:
    try:
        with printing_to_stderr, neighbours_of(path):
            return runpy.run_path(path)
    except SyntaxError as error:
        raise ConfigError(syntax_problem(path, error)) from error
    except (Exception, SystemExit) as error:  # user code may raise anything
        raise ConfigError(user_problem(path, error, {})) from error
