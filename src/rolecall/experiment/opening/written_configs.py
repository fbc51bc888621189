"""Config files that commands write: `init`, a first one for a file of rows; `run --save-config`, what was run."""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, DataError, Problem
from rolecall.experiment.opening.entries import dataset_keys
from rolecall.experiment.opening.loading import load_config
from rolecall.experiment.opening.rows_config import (
    columns_of,
    dataset_for_rows,
    find_answer,
    find_letters,
    find_question,
    is_conversation,
    read_first_rows,
    single_columns,
)
from rolecall.experiment.opening.source_options import RowsOptions
from rolecall.experiment.opening.tasks import dataset_abbr
from rolecall.models.model_names import DEFAULT_MODEL
from rolecall.redaction import find_secrets
from rolecall.registry import LocalPath
from rolecall.scoring.readers.golds import kind_of_golds
from rolecall.sources.config.printing import format_config
from rolecall.sources.datasets.columns import flatten
from rolecall.strings import printable

_LOOKED_AT = 500
_MOST_CHOICES = 10
_REPEATED = 3
"""Answers that each occur this often are choices."""
_SHORT = 5


@dataclass(frozen=True, slots=True)
class Guess:
    """How rows are probably meant."""

    rows: tuple[Mapping[str, Any], ...]
    """The first rows, from which it is guessed."""
    columns: tuple[str, ...]
    question: str
    answer: str | None
    choices: tuple[str, ...] = ()
    metric: str = 'exact'
    encoding: str | None = None


def guess_columns(path: Path, encoding: str | None = None) -> Guess:
    """What the columns of a file of rows probably are."""
    rows = [flatten(row) for row in read_first_rows(path, RowsOptions(encoding=encoding), _LOOKED_AT)]
    values = columns_of(rows)
    columns = single_columns(values)
    if not columns:
        raise DataError(f'{path}: the file has no rows.')
    answer = find_answer(columns)
    others = [name for name in columns if name != answer]
    talk = next((name for name in others if is_conversation(values[name])), None)
    question = talk or find_question(others) or _longest(rows, others) or columns[0]
    answer = answer if answer != question else None
    return guess_answers(Guess(tuple(rows), columns, question, answer, encoding=encoding))


def guess_answers(guess: Guess) -> Guess:
    """The guess with choices and a metric that suit the answers."""
    if guess.answer is None:
        return guess
    answers = [row[guess.answer] for row in guess.rows if row.get(guess.answer) not in (None, '')]
    if choices := find_letters(guess.rows, guess.answer) or _find_repeated_answers([*map(str, answers)]):
        return replace(guess, choices=choices, metric='accuracy')
    return replace(guess, choices=(), metric=kind_of_golds(answers).metric)


def _find_repeated_answers(golds: Sequence[str]) -> tuple[str, ...]:
    distinct = sorted(set(golds))
    few = 2 <= len(distinct) <= _MOST_CHOICES and len(golds) >= _REPEATED * len(distinct)
    return tuple(distinct) if few and _are_words(distinct) else ()


def _are_words(answers: Sequence[str]) -> bool:
    return all(len(answer.split()) <= _SHORT and ',' not in answer for answer in answers)


def _longest(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str | None:
    lengths = {name: sum(len(str(row.get(name, ''))) for row in rows) for name in columns}
    return max(lengths, key=lambda name: lengths[name], default=None)


def _in_comment(text: str) -> str:
    """A name on one line, with nothing in it that could end a comment or a docstring."""
    return printable(' '.join(text.split())).replace('\\', '/').replace('"', "'")


def _as_call(value: Any) -> str:
    """A value as configs write it.

    >>> _as_call({'type': 'AccEvaluator', 'labels': ['a', {'b': 1}]})
    "dict(type='AccEvaluator', labels=['a', dict(b=1)])"
    """
    if isinstance(value, Mapping):
        return f'dict({", ".join(f"{key}={_as_call(inner)}" for key, inner in value.items())})'
    if isinstance(value, list):
        return f'[{", ".join(map(_as_call, value))}]'
    return repr(value)


def write_config(path: Path, guess: Guess, *, model: str = DEFAULT_MODEL, target: Path, notes: list[str]) -> str:
    """A commented Python config for a file of rows, to be saved as `target`. What it leaves out is added to `notes`."""
    usual = not guess.choices and guess.metric == guess_answers(guess).metric  # what a run takes without --metric
    options = RowsOptions(
        question=guess.question,
        answer=guess.answer,
        choices=guess.choices,
        metric=guess.metric if guess.answer and not usual else None,
        encoding=guess.encoding,
    )
    entry = dataset_for_rows(path, options, dialogue=True, perplexity=False, notes=notes)
    asking, scoring = entry['infer_cfg'], entry.get('eval_cfg', {})
    (_, kind), (key, wording) = asking['prompt_template'].items()
    read_as = ''.join(
        f'        {key}={entry[key]!r},\n' for key in ('encoding', 'flatten', 'choices_from') if key in entry
    )
    scored = ''
    if scoring:
        extract = scoring.get('pred_postprocessor')
        reading = f'            pred_postprocessor={_as_call(extract)},  # how the answer is read from a reply\n'
        scored = (
            '        eval_cfg=dict(\n'
            f'            evaluator={_as_call(scoring["evaluator"])},  # others: rolecall config list metrics\n'
            f'{reading if extract is not None else ""}'
            '        ),\n'
        )
    columns, name = _in_comment(', '.join(guess.columns)), _in_comment(str(target))
    return f'''"""An evaluation of {_in_comment(path.name)}.

    rolecall view {name}     what each model will receive
    rolecall run {name}      ask, score, report; started again, it resumes
"""

models = [
    {model!r},  # also 'openai/gpt-4.1-mini', 'ollama/llama3.2', 'hf:FOLDER', 'http://localhost:8000/v1', …
]

datasets = [
    dict(
        abbr={entry['abbr']!r},
        type='File',
        path={os.path.relpath(path, target.parent)!r},
{read_as}        reader_cfg=dict(
            input_columns={entry['reader_cfg']['input_columns']!r},  # columns of the file: {columns}
            output_column={guess.answer!r},  # hidden from the row that is asked about, shown in examples
        ),
        infer_cfg=dict(
            # Columns stand in braces. The BOT's turn is where the model answers.
            prompt_template=dict(
                type={kind!r},
                {key}={_as_call(wording)},
            ),
            # Five examples for each row: rolecall run {name} --shots 5 --retriever bm25
            inferencer={_as_call(asking['inferencer'])},
        ),
{scored}    ),
]
'''


_SUFFIXES = ('.py', '.yaml', '.yml', '.json')


def save_config(config: Mapping[str, Any], target: Path, *, places: Collection[str], limit: int | None = None) -> None:
    """Write the datasets and models at these places of a config to a file.

    What would not read back the same is refused.
    """
    if target.exists():
        raise ConfigError(Problem(f'--save-config {target}', 'the file exists.', 'Give another name.'))
    text = format_saved(config, target, places=places, limit=limit)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix='.saving-') as folder:
        part = Path(folder, target.name)
        part.write_text(text, encoding='utf-8')
        os.replace(part, target)


def format_saved(config: Mapping[str, Any], target: Path, *, places: Collection[str], limit: int | None = None) -> str:
    """The text of a config file with these datasets and models, in the format of the target's suffix."""
    selected = dict(config)
    for key in (*dataset_keys(config), 'models'):
        selected[key] = [entry for i, entry in enumerate(config.get(key) or ()) if f'{key}[{i}]' in places]
    for key in dataset_keys(config):
        selected[key] = [_with_relative_path(_limit(entry, limit), target.parent) for entry in selected[key]]
    if problem := next(_find_obstacles(selected, target), None):
        raise ConfigError(problem)
    text = _format(selected, target.suffix)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix='.saving-') as folder:
        part = Path(folder, target.name)
        part.write_text(text, encoding='utf-8')
        if _as_data(load_config(part)) != _as_data(selected):
            what = 'the config holds objects that cannot be written to a file.'
            raise ConfigError(Problem(f'--save-config {target}', what, 'Change the original config instead.'))
    return text


def _limit(entry: Mapping[str, Any], limit: int | None) -> Mapping[str, Any]:
    """A dataset of which only the first rows are asked about."""
    if limit is None:
        return entry
    reader = entry.get('reader_cfg') or {}
    before = reader.get('test_range') or ''
    if not isinstance(before, str):
        what = f'--limit {limit} and the test_range {before!r} of {dataset_abbr(entry)} cannot be written as one.'
        raise ConfigError(Problem('--save-config', what, 'Leave --limit out.'))
    return {**entry, 'reader_cfg': {**reader, 'test_range': f'{before}[:{limit}]'}}


def _with_relative_path(entry: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """A dataset whose file stands below the config's folder, named from there."""
    path = entry.get('path')
    if not isinstance(path, str) or not Path(path).is_relative_to(folder.absolute()):
        return entry
    return {**entry, 'path': str(Path(path).relative_to(folder.absolute()))}


def _find_obstacles(config: Mapping[str, Any], target: Path) -> Iterator[Problem]:
    where = f'--save-config {target}'
    if target.suffix not in _SUFFIXES:
        yield Problem(where, f'the name must end in {", ".join(_SUFFIXES)}.')
    if find_secrets(config):
        yield Problem(where, 'the config holds a key.', "Set it in the environment, and write key='ENV'.")
    for entry in config['models']:
        kind = entry.get('type') if isinstance(entry, Mapping) else None
        if isinstance(kind, LocalPath) and kind.folder.resolve() != target.parent.resolve():
            yield Problem(where, f'{kind} is found from {kind.folder} alone.', f'Save to {kind.folder / target.name}.')
    if any(type(entry.get('type')).__module__.startswith('rolecall.compat') for entry in config.get('datasets') or ()):
        yield Problem(where, 'the datasets are a benchmark.', 'Write them with: rolecall config show NAME > FILE.py')


def _format(config: Mapping[str, Any], suffix: str) -> str:
    if suffix == '.py':
        return f'{format_config(config)}\n'
    data = _as_data(config)
    if suffix == '.json':
        return f'{json.dumps(data, ensure_ascii=False, indent=2)}\n'
    yaml = importlib.import_module('yaml')
    dumper: Any = type('_Dumper', (yaml.SafeDumper,), {})
    dumper.add_representer(str, _write_text)
    return str(yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, width=110))


def _write_text(dumper: Any, text: str) -> Any:
    """Texts of several lines, such as templates, keep their lines."""
    return dumper.represent_scalar('tag:yaml.org,2002:str', text, style='|' if '\n' in text else None)


def _as_data(config: Mapping[str, Any]) -> Any:
    return json.loads(format_config(dict(config), style='json'))
