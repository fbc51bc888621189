"""A working directory of OpenCompass or AISBench: predictions/MODEL/DATASET.json(l), results/MODEL/DATASET.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from rolecall.errors import RunError
from rolecall.imports.log import NOT_RECORDED, ImportedLog, ImportedRow, ImportedScore, read_json, reading
from rolecall.render.spans import Request

__all__ = ['read_opencompass']

_PIECE = re.compile(r'_(\d+)$')
_ROLES = {'HUMAN': 'user', 'BOT': 'assistant', 'SYSTEM': 'system'}


def read_opencompass(folder: Path, harness: Literal['OpenCompass', 'AISBench']) -> list[ImportedLog]:
    """One log for each model of the newest run in the folder."""
    root = _find_run(folder)
    logs = []
    for model in sorted(one for one in (root / 'predictions').iterdir() if one.is_dir()):
        results = {path.stem: read_json(path) for path in sorted((root / 'results' / model.name).glob('*.json'))}
        rows: list[ImportedRow] = []
        scores: list[ImportedScore] = []
        files = sorted(path for path in model.iterdir() if path.suffix in ('.json', '.jsonl'))
        for dataset, parts in _by_dataset(files).items():
            told = results.get(dataset)
            details = told.get('details') if isinstance(told, Mapping) else None
            listed = [entry for path in parts for entry in _read_entries(path)]
            with reading(parts[0], harness):
                rows += [_read_row(one, dataset, number, _detail(details, number)) for number, one in enumerate(listed)]
            if isinstance(told, Mapping):
                numbers = {str(key): float(one) for key, one in told.items() if isinstance(one, int | float)}
                if numbers:
                    metric, value = next(iter(numbers.items()))
                    further = {key: one for key, one in numbers.items() if key != metric}
                    scores.append(ImportedScore(dataset=dataset, metric=metric, value=value, further=further))
        logs.append(ImportedLog(harness=harness, created=root.name, model=model.name, rows=rows, scores=scores))
    if not logs:
        raise RunError(f'{root / "predictions"}: no model has predictions.')
    return logs


def _find_run(folder: Path) -> Path:
    """The folder that holds `predictions`: this one, or the newest below it."""
    if (folder / 'predictions').is_dir():
        return folder
    found = sorted(path.parent for path in folder.rglob('predictions') if path.is_dir()) if folder.is_dir() else []
    if not found:
        raise RunError(f'{folder}: no folder `predictions` found. Give the working directory (outputs/default/TIME).')
    return found[-1]


def _by_dataset(files: list[Path]) -> dict[str, list[Path]]:
    """The files by dataset. A dataset that was split has `NAME_0.json`, `NAME_1.json` …, in this order."""
    stems = {path.stem for path in files}
    found: dict[str, list[tuple[int, Path]]] = {}
    for path in files:
        piece = _PIECE.search(path.stem)
        whole = _PIECE.sub('', path.stem)
        split = piece is not None and f'{whole}_0' in stems
        found.setdefault(whole if split else path.stem, []).append((int(piece[1]) if piece and split else 0, path))
    return {name: [path for _, path in sorted(parts)] for name, parts in found.items()}


def _read_entries(path: Path) -> list[Mapping[str, Any]]:
    if path.suffix == '.jsonl':
        told: Any = [read_json(path, line) for line in path.read_text(encoding='utf-8').splitlines() if line.strip()]
        if all(isinstance(one, Mapping) and isinstance(one.get('id'), int) for one in told):
            told = sorted(told, key=lambda one: one['id'])
    else:
        told = read_json(path)
        told = list(told.values()) if isinstance(told, Mapping) else told
    entries = [one for one in told if isinstance(one, Mapping)] if isinstance(told, list) else []
    if not entries:
        raise RunError(f'{path}: no predictions in it.')
    return entries


def _detail(details: Any, number: int) -> Mapping[str, Any]:
    """What the evaluator says about a row: details are a list, or a dict by the row's number."""
    found = details.get(str(number)) if isinstance(details, Mapping) else None
    if isinstance(details, list) and number < len(details):
        found = details[number]
    return found if isinstance(found, Mapping) else {}


def _read_row(entry: Mapping[str, Any], dataset: str, number: int, detail: Mapping[str, Any]) -> ImportedRow:
    prediction, asked = entry.get('prediction'), entry.get('origin_prompt')
    replies = prediction if isinstance(prediction, list) else [] if prediction is None else [prediction]
    correct = detail.get('correct', detail.get('is_correct'))
    correct = correct[0] if isinstance(correct, list) and len(correct) == 1 else correct
    failed = entry.get('success') is False
    labels = [key for key, one in entry.items() if isinstance(one, Mapping) and 'PPL' in one]
    extracted = detail.get('pred')
    return ImportedRow(
        dataset=dataset,
        row=number,
        requests=[_request(asked)]
        if asked is not None
        else [_request(entry[key].get('testing input', '')) for key in labels],
        replies=[str(one) for one in replies],
        extracted=extracted[0] if isinstance(extracted, list) and len(extracted) == 1 else extracted,
        gold=entry.get('gold', detail.get('answer')),
        score=float(correct) if isinstance(correct, bool | int | float) else None,
        outcome='failed' if failed else 'ok',
        reason=str(entry.get('error_info') or NOT_RECORDED) if failed else '',
    )


def _request(asked: Any) -> Request:
    """A prompt as it was sent: a text, or speeches with OpenCompass' roles as messages."""
    if isinstance(asked, list) and all(isinstance(one, Mapping) for one in asked):
        speeches: list[Mapping[str, Any]] = [
            {
                'role': _ROLES.get(str(one.get('role')), str(one.get('role'))),
                'content': str(one.get('prompt', one.get('content', ''))),
            }
            for one in asked
        ]
        return speeches
    return str(asked)
