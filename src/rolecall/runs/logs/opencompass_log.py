"""A working directory of OpenCompass or AISBench: predictions/MODEL/DATASET.json(l), results/MODEL/DATASET.json.

The settings are in configs/*.py, which is read as data and never executed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isclose
from pathlib import Path
from typing import Any, Literal

from rolecall.core.render.spans import Request
from rolecall.errors import RunError
from rolecall.plain_files import open_plain
from rolecall.redaction import mask_config
from rolecall.runs.logs.log import (
    NOT_RECORDED,
    ImportedLog,
    ImportedRow,
    ImportedScore,
    read_json,
    read_json_lines,
    reading,
)

_PIECE = re.compile(r'_(\d+)$')
_ASKED_WITH = ('inferencer', 'retriever')
_READ_WITH = ('evaluator', 'pred_postprocessor', 'dataset_postprocessor')
_MODEL_SETTINGS = (
    'type', 'path', 'max_out_len', 'max_seq_len', 'temperature', 'generation_kwargs', 'mode', 'batch_size',
    'chat_template_kwargs', 'meta_template',
)  # fmt: skip
_LARGEST_CONFIG = 64 << 20
_ROUNDED = 0.01
_ROLES = {'HUMAN': 'user', 'BOT': 'assistant', 'SYSTEM': 'system'}


def read_opencompass(folder: Path, harness: Literal['OpenCompass', 'AISBench']) -> list[ImportedLog]:
    """One log for each model of the newest run in the folder."""
    root = _find_run(folder)
    configs = [_read_config(path) for path in sorted((root / 'configs').glob('*.py'))]
    logs = []
    folders = sorted((root / 'predictions').iterdir())
    for model in (folder for folder in folders if folder.is_dir() and not folder.is_symlink()):
        results = {path.stem: read_json(path) for path in sorted((root / 'results' / model.name).glob('*.json'))}
        rows: list[ImportedRow] = []
        scores: list[ImportedScore] = []
        files = sorted(path for path in model.iterdir() if path.suffix in ('.json', '.jsonl'))
        for dataset, parts in _by_dataset(files).items():
            result = results.get(dataset)
            details = result.get('details') if isinstance(result, Mapping) else None
            entries = [entry for path in parts for entry in _read_entries(path)]
            with reading(parts[0], harness):
                every = [_detail(details, number) for number in range(len(entries))]
                own = [_read_row(entry, dataset, *row) for entry, row in zip(entries, enumerate(every), strict=True)]
                rows += _mark_equal(own, every, result)
            if isinstance(result, Mapping):
                numbers = {str(key): float(value) for key, value in result.items() if isinstance(value, int | float)}
                if numbers:
                    metric, value = next(iter(numbers.items()))
                    further = {key: value for key, value in numbers.items() if key != metric}
                    scores.append(ImportedScore(dataset=dataset, metric=metric, value=value, further=further))
        settings = _read_settings(configs, model.name)
        logs.append(
            ImportedLog(
                harness=harness, created=root.name, model=model.name, settings=settings, rows=rows, scores=scores
            )
        )
    if not logs:
        raise RunError(f'{root / "predictions"}: no model has predictions.')
    return logs


def _find_run(folder: Path) -> Path:
    """The folder that holds `predictions`: this one, or the newest below it."""
    if (folder / 'predictions').is_dir():
        return folder
    roots = sorted(path.parent for path in folder.rglob('predictions') if path.is_dir()) if folder.is_dir() else []
    if not roots:
        raise RunError(f'{folder}: no folder `predictions` found. Give the working directory (outputs/default/TIME).')
    return roots[-1]


def _read_config(path: Path) -> dict[str, Any]:
    """The values that a config file assigns; empty if it is no Python or too large."""
    try:
        with open_plain(path, largest=_LARGEST_CONFIG) as file:
            lines = ast.parse(file.read()).body
        return {
            target.id: _read_literal(line.value)
            for line in lines
            if isinstance(line, ast.Assign)
            for target in line.targets
            if isinstance(target, ast.Name) and target.id in ('models', 'datasets')
        }
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}


def _read_literal(node: ast.expr) -> Any:
    """A value as it is written: literals and calls of `dict`; anything else stays source text.

    >>> _read_literal(ast.parse("[dict(a=-1, b=open('x'))]", mode='eval').body)
    [{'a': -1, 'b': "open('x')"}]
    """
    if isinstance(node, ast.List | ast.Tuple):
        return [_read_literal(element) for element in node.elts]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == 'dict' and not node.args:
        return {keyword.arg: _read_literal(keyword.value) for keyword in node.keywords if keyword.arg is not None}
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {str(_read_literal(key)): _read_literal(value) for key, value in pairs if key is not None}
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return ast.unparse(node)
    return value if isinstance(value, str | int | float | None) else ast.unparse(node)


def _read_settings(configs: Sequence[Mapping[str, Any]], model: str) -> dict[str, Any]:
    """How each dataset was asked and its replies were read, and how the model was set up; later configs win."""
    values: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for config in configs:
        for entry in _entries_of(config, 'models'):
            if entry.get('abbr') == model:
                own = mask_config({key: entry[key] for key in _MODEL_SETTINGS if key in entry})
        for entry in _entries_of(config, 'datasets'):
            parts = {
                key: _shorten_types(section[key])
                for name, keys in (('infer_cfg', _ASKED_WITH), ('eval_cfg', _READ_WITH))
                if isinstance(section := entry.get(name), Mapping)
                for key in keys
                if key in section
            }
            values[str(entry.get('abbr'))] = mask_config(parts)
    return {name: {**parts, 'model': own or NOT_RECORDED} for name, parts in values.items()}


def _entries_of(config: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    entries = config.get(name)
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _shorten_types(part: Any) -> Any:
    """A part of a config with the bare name of its type, without the package."""
    if not isinstance(part, Mapping):
        return part
    return {key: str(value).rpartition('.')[2] if key == 'type' else value for key, value in part.items()}


def _by_dataset(files: list[Path]) -> dict[str, list[Path]]:
    """The files by dataset. A dataset that was split has `NAME_0.json`, `NAME_1.json` …, in this order."""
    stems = {path.stem for path in files}
    by_name: dict[str, list[tuple[int, Path]]] = {}
    for path in files:
        piece = _PIECE.search(path.stem)
        whole = _PIECE.sub('', path.stem)
        split = piece is not None and f'{whole}_0' in stems
        by_name.setdefault(whole if split else path.stem, []).append((int(piece[1]) if piece and split else 0, path))
    return {name: [path for _, path in sorted(parts)] for name, parts in by_name.items()}


def _read_entries(path: Path) -> list[Mapping[str, Any]]:
    if path.suffix == '.jsonl':
        entries: Any = [entry for _, entry in read_json_lines(path)]
        if all(isinstance(entry, Mapping) and isinstance(entry.get('id'), int) for entry in entries):
            entries = sorted(entries, key=lambda entry: entry['id'])
    else:
        entries = read_json(path)
        entries = list(entries.values()) if isinstance(entries, Mapping) else entries
    if not isinstance(entries, list) or not entries:
        raise RunError(f'{path}: no predictions in it.')
    for number, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            raise RunError(f'{path}: expected a prediction for row {number}, found {type(entry).__name__}.')
    return entries


def _detail(details: Any, number: int) -> Mapping[str, Any]:
    """What the evaluator says about a row: details are a list, or a dict by the row's number."""
    detail = details.get(str(number)) if isinstance(details, Mapping) else None
    if isinstance(details, list) and number < len(details):
        detail = details[number]
    return detail if isinstance(detail, Mapping) else {}


def _read_row(entry: Mapping[str, Any], dataset: str, number: int, detail: Mapping[str, Any]) -> ImportedRow:
    prediction, prompt = entry.get('prediction'), entry.get('origin_prompt')
    replies = prediction if isinstance(prediction, list) else [] if prediction is None else [prediction]
    correct = detail.get('correct', detail.get('is_correct'))
    correct = correct[0] if isinstance(correct, list) and len(correct) == 1 else correct
    failed = entry.get('success') is False
    labels = [key for key, value in entry.items() if isinstance(value, Mapping) and 'PPL' in value]
    extracted = detail.get('pred', detail.get('predictions'))
    return ImportedRow(
        dataset=dataset,
        row=number,
        requests=[_request(prompt)]
        if prompt is not None
        else [_request(entry[key].get('testing input', '')) for key in labels],
        replies=[str(reply) for reply in replies],
        extracted=extracted[0] if isinstance(extracted, list) and len(extracted) == 1 else extracted,
        gold=entry.get('gold', detail.get('answer')),
        score=float(correct) if isinstance(correct, bool | int | float) else None,
        outcome='failed' if failed else 'ok',
        reason=str(entry.get('error_info') or NOT_RECORDED) if failed else '',
    )


def _mark_equal(rows: list[ImportedRow], details: Sequence[Mapping[str, Any]], result: Any) -> list[ImportedRow]:
    """Rows with marks, where the log has none and its accuracy is the share of answers that equal the gold ones."""
    accuracy = result.get('accuracy') if isinstance(result, Mapping) else None
    equal = [
        detail.get('predictions') == detail.get('references') if {'predictions', 'references'} <= {*detail} else None
        for detail in details
    ]
    if None in equal or any(row.score is not None for row in rows) or not isinstance(accuracy, int | float):
        return rows
    if not rows or not isclose(100 * sum(map(bool, equal)) / len(rows), accuracy, abs_tol=_ROUNDED):
        return rows
    return [replace(row, score=float(bool(same))) for row, same in zip(rows, equal, strict=True)]


def _request(prompt: Any) -> Request:
    """A prompt as it was sent: a text, or speeches with OpenCompass' roles as messages."""
    if isinstance(prompt, list) and all(isinstance(turn, Mapping) for turn in prompt):
        speeches: list[Mapping[str, Any]] = [
            {
                'role': _ROLES.get(str(turn.get('role')), str(turn.get('role'))),
                'content': str(turn.get('prompt', turn.get('content', ''))),
            }
            for turn in prompt
        ]
        return speeches
    return str(prompt)
