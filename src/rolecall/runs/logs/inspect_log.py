"""A log of Inspect: `.eval` (a zip file of JSON, often packed with Zstandard) or `.json`."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from rolecall.errors import RunError, import_extra
from rolecall.plain_files import open_plain
from rolecall.runs.logs.log import (
    LARGEST_LOG,
    NOT_RECORDED,
    ImportedLog,
    ImportedRow,
    ImportedScore,
    read_json,
    reading,
)

_FINISHED, _UNFINISHED = 'header.json', '_journal/start.json'
"""What a .eval file says about itself; that of an evaluation that has not ended has no results."""
_ZSTANDARD = 93
_MOST = 1 << 30
_VALUES: Mapping[Any, float] = {'C': 1.0, 'I': 0.0, 'P': 0.5, 'N': 0.0, True: 1.0, False: 0.0}


def read_inspect(path: Path) -> list[ImportedLog]:
    """A log file, or every log in a folder."""
    files = sorted(log for log in path.rglob('*') if log.suffix in ('.eval', '.json')) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise RunError(f'{path}: no log of Inspect found. Give a .eval or .json file, or a folder with some.')
    logs = []
    for file in files:
        with reading(file, 'Inspect'):
            logs.append(_read_file(file))
    return logs


def _read_file(path: Path) -> ImportedLog:
    if path.suffix == '.json':
        log = read_json(path)
        header, samples = log, log.get('samples') or [] if isinstance(log, Mapping) else []
    else:
        with closing(_Members(path)) as members:
            samples = [members.read(name) for name in members.names if name.startswith('samples/')]
            header = members.read(_UNFINISHED if samples and _FINISHED not in members.names else _FINISHED)
    if not isinstance(header, Mapping) or not isinstance(header.get('eval'), Mapping):
        raise RunError(f'{path}: not a log of Inspect: there is no `eval`.')
    about = header['eval']
    task = str(about.get('task') or path.stem)
    order = {
        str(sample_id): number for number, sample_id in enumerate((about.get('dataset') or {}).get('sample_ids') or ())
    }
    epochs = max((row.get('epoch') or 1 for row in samples), default=1)
    rows = []
    for number, sample in enumerate(samples):
        place = order.get(str(sample.get('id')), number) * epochs + (sample.get('epoch') or 1) - 1
        rows.append(_read_sample(sample, task, place))
    return ImportedLog(
        harness='Inspect',
        version=str((about.get('packages') or {}).get('inspect_ai') or NOT_RECORDED),
        created=str(about.get('created') or NOT_RECORDED),
        model=str(about.get('model') or NOT_RECORDED),
        settings={
            task: {
                'solvers': [step.get('solver') for step in (header.get('plan') or {}).get('steps') or ()],
                'sampling': (header.get('plan') or {}).get('config') or NOT_RECORDED,
                'epochs': epochs,
            }
        },
        rows=sorted(rows, key=lambda row: row.row),
        scores=list(_read_scores(task, header.get('results') or {})),
    )


class _Members:
    """The files inside a .eval file. Python's zipfile cannot unpack Zstandard; pyarrow can."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = open_plain(path, largest=LARGEST_LOG)
        except OSError as error:
            raise RunError(f'{path}: cannot be read: {error.strerror or error}.') from error
        try:
            self._zip = zipfile.ZipFile(self._file)
        except (OSError, zipfile.BadZipFile) as error:
            self._file.close()
            raise RunError(f'{path}: not a .eval file: {error}.') from error
        self.names = self._zip.namelist()

    def close(self) -> None:
        self._file.close()

    def read(self, name: str) -> Any:
        if name not in self.names:
            raise RunError(f'{self._path}: {name} is missing, and there are no samples: the evaluation has not begun.')
        info = self._zip.getinfo(name)
        if info.file_size > _MOST:
            raise RunError(f'{self._path}: {name} has {info.file_size:,} bytes; at most {_MOST:,} are read.')
        if info.compress_type != _ZSTANDARD:
            return read_json(self._path, self._zip.read(name))
        arrow = import_extra('pyarrow', extra='data', purpose='to unpack .eval files')
        self._file.seek(info.header_offset + 26)
        skipped = int.from_bytes(self._file.read(2), 'little') + int.from_bytes(self._file.read(2), 'little')
        self._file.seek(skipped, 1)
        packed = self._file.read(info.compress_size)
        try:
            return read_json(self._path, arrow.input_stream(arrow.py_buffer(packed), compression='zstd').read(_MOST))
        except OSError as error:
            raise RunError(f'{self._path}: {name} cannot be unpacked: {error}.') from error


def _read_sample(sample: Mapping[str, Any], task: str, number: int) -> ImportedRow:
    attachments = sample.get('attachments') or {}
    output = sample.get('output') or {}
    messages: list[Mapping[str, Any]] = [
        {'role': str(message.get('role')), 'content': _text(message.get('content'), attachments)}
        for message in sample.get('messages') or ()
        if isinstance(message, Mapping)
    ]
    while messages and messages[-1]['role'] == 'assistant':
        messages.pop()
    scores = sample.get('scores') or ({'score': sample['score']} if sample.get('score') else {})
    first: Mapping[str, Any] = next(iter(scores.values()), {})
    usage: Mapping[str, Any] = next(iter((sample.get('model_usage') or {}).values()), {})
    error = sample.get('error')
    return ImportedRow(
        dataset=task,
        row=number,
        requests=[messages] if messages else [],
        replies=[_text(output.get('completion'), attachments)] if output.get('completion') is not None else [],
        extracted=first.get('answer'),
        gold=sample.get('target'),
        score=_score(first.get('value')),
        outcome='failed' if error else 'ok',
        reason=str(error.get('message') if isinstance(error, Mapping) else error) if error else '',
        fields={'id': sample.get('id'), 'input': sample.get('input'), **(sample.get('metadata') or {})},
        input_tokens=usage.get('input_tokens'),
        output_tokens=usage.get('output_tokens'),
        seconds=sample.get('total_time'),
    )


def _score(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return _VALUES.get(value) if isinstance(value, str | bool) else None


def _text(content: Any, attachments: Mapping[str, Any]) -> str:
    """The words of a message; long ones are kept apart, under a hash."""
    if isinstance(content, list):
        return '\n'.join(_text(part.get('text', ''), attachments) for part in content if isinstance(part, Mapping))
    text = '' if content is None else str(content)
    return str(attachments.get(text.removeprefix('attachment://'), text)) if text.startswith('attachment://') else text


def _read_scores(task: str, results: Mapping[str, Any]) -> Iterator[ImportedScore]:
    further: dict[str, float] = {}
    head: tuple[str, float] | None = None
    for score in results.get('scores') or ():
        for name, metric in (score.get('metrics') or {}).items():
            value = metric.get('value')
            if isinstance(value, int | float):
                if head is None:
                    head = (f'{score.get("name")} {name}', float(value))
                else:
                    further[f'{score.get("name")} {name}'] = float(value)
    if head is not None:
        yield ImportedScore(dataset=task, metric=head[0], value=head[1], further=further)
