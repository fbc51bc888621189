"""What the commands are given: a config file, or a file of rows with a template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecall.config.files import load_config
from rolecall.datasets.formats import FORMATS, is_data_file
from rolecall.errors import ConfigError, DataError, Problem
from rolecall.pairs.build import Plan, build

__all__ = ['Source', 'open_source', 'read_replies', 'worded_rows']


@dataclass(frozen=True, slots=True)
class Source:
    """A config that has been understood, and the folder its relative paths start from."""

    config: Mapping[str, Any]
    plan: Plan
    base: Path | None = None


def open_source(
    path: str,
    *,
    template: str | None = None,
    output_column: str | None = None,
    meta_template: str | None = None,
    api: bool = False,
) -> Source:
    """Understand a config file; or a file of rows, if a template says how they are worded."""
    file = Path(path)
    if is_data_file(file) and file.suffix != '.py':
        if template is None:
            what = 'this is a file of rows, not a config.'
            raise ConfigError(Problem(path, what, "Say how the rows are worded: --template 'Q: {question}\\nA:'"))
        config = worded_rows(file, template, output_column=output_column, meta_template=meta_template, api=api)
        return Source(config, build(config))
    options = {
        '--template': template is not None,
        '--output-column': output_column is not None,
        '--meta-template': meta_template is not None,
        '--api': api,
    }
    if said := [name for name, given in options.items() if given]:
        what, remedy = f'{said[0]} is for a file of rows; a config says such things itself.', ''
        if file.suffix != '.py':
            remedy = f'A file of rows is known by its name, which ends in {", ".join(sorted(FORMATS))}.'
        raise ConfigError(Problem(path, what, remedy))
    loaded = load_config(file)
    return Source(loaded, build(loaded), file.parent)


def worded_rows(
    file: Path,
    template: str,
    *,
    output_column: str | None = None,
    meta_template: str | None = None,
    api: bool = False,
) -> dict[str, Any]:
    """A config for a file of rows and a template. For a model that takes speeches, the human asks and the bot answers.

    >>> worded_rows(Path('qa.jsonl'), 'Q: {q}\\\\nA: {a}')['datasets'][0]['infer_cfg']['prompt_template']['template']
    'Q: {q}\\nA: {a}'
    """
    words = template.replace('\\n', '\n').replace('\\t', '\t')
    models = []
    if meta_template is not None:
        text_model = {'type': 'HuggingFaceCausalLM', 'path': 'none', 'meta_template': meta_template}
        models.append({'abbr': meta_template, **text_model})
    if api:
        models.append({'abbr': 'api', 'type': 'OpenAI', 'path': 'model'})
    worded = _as_speeches(words, output_column) if models else words
    dataset = {
        'abbr': file.name.split('.')[0],
        'type': 'File',
        'path': str(file.absolute()),
        'reader_cfg': {'input_columns': [], 'output_column': output_column},
        'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': worded}},
    }
    return {'models': models, 'datasets': [dataset]}


def _as_speeches(words: str, output_column: str | None) -> dict[str, Any]:
    answer = f'{{{output_column}}}' if output_column else ''
    asked = words.removesuffix(answer).rstrip() if answer else words
    said = [{'role': 'BOT', 'prompt': answer}] if answer else []
    return {'round': [{'role': 'HUMAN', 'prompt': asked}, *said]}


def read_replies(path: str) -> list[str]:
    """Canned replies from a file: a JSON list of strings, or one reply on each line."""
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
