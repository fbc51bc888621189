"""What the commands are given: a config file, a file of rows with a template, canned replies, a prompter."""

from __future__ import annotations

import json
import runpy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecall.config.files import load_config
from rolecall.config.lm_eval import is_task_source
from rolecall.config.trouble import syntax_problem, user_problem
from rolecall.datasets.formats import FORMATS, is_data_file
from rolecall.errors import ConfigError, DataError, Problem, PrompterError, did_you_mean
from rolecall.pairs.entries import Entries, build_entries
from rolecall.usercode import neighbours_of, printing_to_stderr

if TYPE_CHECKING:
    from rolecall.prompters import Prompter

__all__ = [
    'OpenedConfig',
    'config_for_rows',
    'load_prompter',
    'open_config',
    'open_tasks',
    'read_json_or_text',
    'read_replies',
]


@dataclass(frozen=True, slots=True)
class OpenedConfig:
    """A config, the plan read from it, and the folder its relative paths start from."""

    config: Mapping[str, Any]
    plan: Entries
    base: Path | None = None


def open_config(
    path: str,
    *,
    template: str | None = None,
    output_column: str | None = None,
    meta_template: str | None = None,
    api: bool = False,
    models: str | None = None,
    task: Mapping[str, Any] | None = None,
) -> OpenedConfig:
    """Open a config file, a file of rows with a template for them, or a task file of lm-evaluation-harness."""
    file = Path(path)
    if is_task_source(path):
        config = open_tasks(path, task or {}, models=models, meta_template=meta_template, api=api)
        return OpenedConfig(config, build_entries(config), file.parent)
    _refuse_task_options(path, models, task or {})
    if is_data_file(file) and file.suffix != '.py':
        if template is None:
            what = 'this is a file of rows, not a config.'
            raise ConfigError(Problem(path, what, "Give a template for the rows: --template 'Q: {question}\\nA:'"))
        config = config_for_rows(file, template, output_column=output_column, meta_template=meta_template, api=api)
        return OpenedConfig(config, build_entries(config))
    options = {
        '--template': template is not None,
        '--output-column': output_column is not None,
        '--meta-template': meta_template is not None,
        '--api': api,
    }
    if given := [name for name, is_given in options.items() if is_given]:
        what, remedy = f'{given[0]} applies to a file of rows; a config defines its own.', ''
        if file.suffix != '.py':
            remedy = f'Files of rows end in {", ".join(sorted(FORMATS))}.'
        raise ConfigError(Problem(path, what, remedy))
    loaded = load_config(file)
    return OpenedConfig(loaded, build_entries(loaded), file.parent)


def open_tasks(
    path: str,
    options: Mapping[str, Any],
    *,
    models: str | None = None,
    meta_template: str | None = None,
    api: bool = False,
) -> dict[str, Any]:
    """A config for task files, with the models of another config, or one to show prompts for."""
    found: dict[str, Any] = {**load_config(path, **options)}
    asked = list(load_config(models).get('models', ())) if models is not None else []
    return {**found, 'models': [*asked, *_models_to_show(meta_template, api=api)]}


def _refuse_task_options(path: str, models: str | None, task: Mapping[str, Any]) -> None:
    given = [name for name, value in {'models': models, **task}.items() if value is not None and value is not False]
    if given:
        what = f'{given[0]} applies to task files of lm-evaluation-harness (.yaml); a config defines its own.'
        raise ConfigError(Problem(path, what))


def _models_to_show(meta_template: str | None, *, api: bool) -> list[dict[str, Any]]:
    models: list[dict[str, Any]] = []
    if meta_template is not None:
        text_model = {'type': 'HuggingFaceCausalLM', 'path': 'none', 'meta_template': meta_template}
        models.append({'abbr': meta_template, **text_model})
    if api:
        models.append({'abbr': 'api', 'type': 'OpenAI', 'path': 'model'})
    return models


def config_for_rows(
    file: Path,
    template: str,
    *,
    output_column: str | None = None,
    meta_template: str | None = None,
    api: bool = False,
) -> dict[str, Any]:
    """A config for a file of rows and a template. For a chat model, the human asks and the bot answers.

    >>> config = config_for_rows(Path('qa.jsonl'), 'Q: {q}\\\\nA: {a}')
    >>> config['datasets'][0]['infer_cfg']['prompt_template']['template']
    'Q: {q}\\nA: {a}'
    """
    text = template.replace('\\n', '\n').replace('\\t', '\t')
    models = _models_to_show(meta_template, api=api)
    dataset = {
        'abbr': file.name.split('.')[0],
        'type': 'File',
        'path': str(file.absolute()),
        'reader_cfg': {'input_columns': [], 'output_column': output_column},
        'infer_cfg': {
            'prompt_template': {
                'type': 'PromptTemplate',
                'template': _as_dialogue(text, output_column) if models else text,
            }
        },
    }
    return {'models': models, 'datasets': [dataset]}


def _as_dialogue(text: str, output_column: str | None) -> dict[str, Any]:
    answer = f'{{{output_column}}}' if output_column else ''
    question = text.removesuffix(answer).rstrip() if answer else text
    bot = [{'role': 'BOT', 'prompt': answer}] if answer else []
    return {'round': [{'role': 'HUMAN', 'prompt': question}, *bot]}


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


def load_prompter(spec: str) -> Prompter:
    """The prompter that a Python file defines: 'FILE.py:NAME', or 'FILE.py' if it defines only one."""
    from rolecall.prompters import Prompter

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
