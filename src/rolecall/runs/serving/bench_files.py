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
from rolecall.runs.atomic import write_atomically
from rolecall.runs.serving.serving_benchmark import BenchResult
from rolecall.runs.serving.serving_figures import MEASURES, gaps_of, request_times

RESULT = 'bench.json'
_REQUESTS = 'requests.jsonl'
_STATISTICS = ('Average', 'Min', 'Max', 'Median', 'P75', 'P90', 'P99')
_KEYS = ('mean', 'min', 'max', 'median', 'p75', 'p90', 'p99')


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
            result = json.loads((path / RESULT).read_text('utf-8'))
            return cls(path, result['settings'], result['levels'])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f'{path / RESULT}: not the result of a benchmark ({error}).') from error

    @cached_property
    def requests(self) -> Sequence[Sequence[Mapping[str, Any]]]:
        """The requests of each level, in the order in which they were sent."""
        by_level: list[list[Mapping[str, Any]]] = [[] for _ in self.levels]
        with (self.directory / _REQUESTS).open(encoding='utf-8') as lines:
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
        for line in _request_lines(result):
            lines.write(json.dumps(line, ensure_ascii=False) + '\n')
    _write_csv(directory / 'levels.csv', _level_rows(levels))
    _write_csv(directory / 'measures.csv', _measure_rows(levels))
    with write_atomically(directory / RESULT) as part:
        part.write_text(json.dumps({'settings': result.settings, 'levels': levels}, indent=1) + '\n', 'utf-8')
    return StoredBench(directory, result.settings, levels)


def _request_lines(result: BenchResult) -> Iterator[dict[str, Any]]:
    """Seconds, under the names of vLLM's timeline."""
    for number, level in enumerate(result.levels):
        begin = level.records[0].times.sent
        for record in level.records:
            times = request_times(record)
            yield {
                'level': number,
                'request': record.number,
                'turn': record.turn,
                'outcome': record.outcome,
                'reason': record.reason,
                'start_time': round(record.times.sent - begin, 6),
                **{
                    key: None if (value := times[name]) is None else round(value / 1e3, 6)
                    for key, name in (('ttft', 'ttft'), ('tpot', 'tpot'), ('latency', 'e2el'))
                },
                'itl': [round(gap / 1e3, 6) for gap in gaps_of(record)],
                'prompt_len': record.input_tokens,
                'output_tokens': record.output_tokens,
            }


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open('w', encoding='utf-8', newline='') as file:
        writer = csv.DictWriter(file, dict.fromkeys(key for row in rows for key in row))
        writer.writeheader()
        writer.writerows(rows)


def _level_rows(levels: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each level and stage, with the scalar figures under vLLM's names."""
    return [
        {
            'level': level['level'],
            'stage': stage,
            **{key: value for key, value in {**level, **figures}.items() if isinstance(value, (int, float))},
        }
        for level in levels
        for stage, figures in stages(level)
    ]


def _measure_rows(levels: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each measure, as AISBench writes them."""
    return [
        {
            'Level': level['level'],
            'Performance Parameters': name.upper(),
            'Stage': stage,
            **{title: f'{figures[f"{key}_{name}_ms"]:.4f} ms' for title, key in zip(_STATISTICS, _KEYS, strict=True)},
            'N': figures['completed'],
        }
        for level in levels
        for stage, figures in stages(level)
        for name in ('e2el', *(measure for measure in MEASURES if measure != 'e2el'))
        if f'mean_{name}_ms' in figures
    ]


def stages(level: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The figures of the whole level, and those of its steady state, if it has one."""
    return [('total', level), *([('stable', level['steady'])] if level['steady'] else [])]
