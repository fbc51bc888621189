"""The files of a benchmark: figures under the names of vLLM and AISBench, and a line for each request."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rolecall.errors import DataError
from rolecall.plain_files import open_plain, read_plain
from rolecall.runs.atomic import write_atomically
from rolecall.runs.serving.load_generator import RequestRecord
from rolecall.runs.serving.serving_benchmark import MEASURES, BenchResult, request_times

RESULT = 'bench.json'
_LARGEST_REQUESTS = 4 << 30
_REQUESTS, _LEVELS = 'requests.jsonl', 'levels.csv'
_STATISTICS = {'Average': 'mean', **{title: title.lower() for title in ('Min', 'Max', 'Median', 'P75', 'P90', 'P99')}}


@dataclass(frozen=True)
class StoredBench:
    """A benchmark in its directory."""

    directory: Path
    settings: Mapping[str, Any]
    levels: Sequence[Mapping[str, Any]]

    @classmethod
    def load(cls, directory: str | Path) -> StoredBench:
        """The result in a directory."""
        path = Path(directory)
        try:
            result = json.loads(read_plain(path / RESULT))
            return cls(path, result['settings'], result['levels'])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f'{path / RESULT}: not the result of a benchmark ({error}).') from error

    def read_csv(self) -> str:
        """A row for each level and stage."""
        return read_plain(self.directory / _LEVELS)

    @property
    def is_whole(self) -> bool:
        """Whether every planned level was run."""
        return len(self.levels) >= int(self.settings.get('planned_levels', 0))

    @cached_property
    def requests(self) -> Sequence[Sequence[Mapping[str, Any]]]:
        """The requests of each level, in the order in which they were sent."""
        by_level: list[list[Mapping[str, Any]]] = [[] for _ in self.levels]
        with open_plain(self.directory / _REQUESTS, largest=_LARGEST_REQUESTS) as lines:
            for line in map(json.loads, lines):
                by_level[line['level']].append(line)
        return by_level


def is_bench(directory: str | Path) -> bool:
    """Whether a directory holds the result of a benchmark."""
    return (Path(directory) / RESULT).is_file()


def save_result(result: BenchResult, directory: Path) -> StoredBench:
    """Write the result into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    levels = [level.figures for level in result.levels]
    with (directory / _REQUESTS).open('w', encoding='utf-8') as lines:
        for number, level in enumerate(result.levels):
            lines.writelines(json.dumps({'level': number, **line}) + '\n' for line in _request_lines(level.records))
    _write_csv(directory / _LEVELS, [row for level in levels for row in _level_rows(level)])
    _write_csv(directory / 'measures.csv', [row for level in levels for row in _measure_rows(level)])
    with write_atomically(directory / RESULT) as part:
        part.write_text(json.dumps({'settings': result.settings, 'levels': levels}, indent=1) + '\n', 'utf-8')
    return StoredBench(directory, result.settings, levels)


def _request_lines(records: Sequence[RequestRecord]) -> Iterator[dict[str, Any]]:
    """Seconds, under the names of vLLM's timeline."""
    for record in records:
        times = {name: [round(value / 1e3, 6) for value in values] for name, values in request_times(record).items()}
        yield {
            'request': record.number,
            'turn': record.turn,
            'outcome': record.outcome,
            'reason': record.reason,
            'start_time': round(record.times.sent - records[0].times.sent, 6),
            **{name: next(iter(times[name]), None) for name in ('ttft', 'tpot')},
            'latency': times['e2el'][0],
            'itl': times['itl'],
            'prompt_len': record.input_tokens,
            'output_tokens': record.output_tokens,
        }


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open('w', encoding='utf-8', newline='') as file:
        writer = csv.DictWriter(file, dict.fromkeys(key for row in rows for key in row))
        writer.writeheader()
        writer.writerows(rows)


def _list_stages(level: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [('total', level), *([('stable', level['steady'])] if level['steady'] else [])]


def _level_rows(level: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each stage, with the scalar figures under vLLM's names."""
    for stage, figures in _list_stages(level):
        numbers = {key: value for key, value in {**level, **figures}.items() if isinstance(value, (int, float))}
        yield {'level': level['level'], 'stage': stage, **numbers}


def _measure_rows(level: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each stage and measure, as AISBench writes them."""
    for stage, figures in _list_stages(level):
        for name in MEASURES:
            if f'mean_{name}_ms' in figures:
                numbers = {title: f'{figures[f"{key}_{name}_ms"]:.4f} ms' for title, key in _STATISTICS.items()}
                named = {'Level': level['level'], 'Performance Parameters': name.upper(), 'Stage': stage}
                yield {**named, **numbers, 'N': figures['completed']}
