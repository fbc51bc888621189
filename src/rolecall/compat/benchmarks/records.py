"""The registry: one YAML file for each benchmark, with its wordings as the entries of a config or as tasks.

A wording has `datasets` (entries in the syntax of our configs) or `tasks` (in the words of lm-evaluation-harness), and
`equals` names the file of OpenCompass or lm-eval that asks the same. `each` repeats an entry for records of values,
which stand in it as `${subject}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rolecall.compat.benchmarks import WORDINGS, benchmark_names
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.sources.config.plain_configs import read_plain_config

_VALUE = re.compile(r'\$\{(\w+)\}')


@dataclass(frozen=True, slots=True)
class BenchmarkWording:
    """One way to ask a benchmark's rows."""

    style: str
    """`opencompass`, `lm-eval`, or `rolecall` if neither words it this way."""
    equals: str
    """The file of that catalogue whose requests are the same; empty if there is none."""
    entries: tuple[Mapping[str, Any], ...]
    files: tuple[str, ...] = ()
    """Files below the data folder; if empty, the layout of the hub."""
    columns: tuple[str, ...] = ()
    group: Mapping[str, Any] | None = None
    differs: str = ''
    """Where scores are not computed as that file computes them."""
    archive: str = ''
    """Where the files are in this layout, if the authors publish them in another."""
    wheel: str = ''
    """`package/path` of a file with the rows in an installed package."""
    hub: Mapping[str, str] | None = None
    sha256: Mapping[str, str] | None = None
    """Checksums of published files, where they are known for certain."""

    @property
    def is_task(self) -> bool:
        """Whether it is asked as lm-evaluation-harness asks."""
        return self.style == 'lm-eval'

    @property
    def metric(self) -> str:
        """How answers are scored, as the entry names it."""
        first = self.entries[0]
        if self.is_task:
            return ', '.join(str(entry['metric']) for entry in first.get('metric_list', ()))
        evaluator = first.get('eval_cfg', {}).get('evaluator', {})
        return str(evaluator.get('type', 'none'))


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark's facts and wordings. The first wording is the default."""

    name: str
    title: str
    topic: str
    licence: str
    citation: str
    source: str
    wordings: Mapping[str, BenchmarkWording]
    licence_from: str = ''
    """Where the licence is stated; empty if unknown."""
    rows: int | None = None
    """The number of test rows in the whole benchmark, if known."""

    def wording(self, style: str | None) -> BenchmarkWording:
        """The wording of a style; the first if none is asked for."""
        if style is None:
            return next(iter(self.wordings.values()))
        if style not in self.wordings:
            there = ' or '.join(map(repr, self.wordings))
            what = f'{self.name} has no wording of {style}; there is {there}.'
            raise ConfigError(Problem('--as', what, 'Leave --as out, or choose one that is there.'))
        return self.wordings[style]


def read_benchmarks() -> list[Benchmark]:
    """Every benchmark of the registry."""
    return [read_benchmark(name) for name in benchmark_names()]


@lru_cache(maxsize=128)
def read_benchmark(name: str) -> Benchmark:
    """A benchmark by its name; the error of an unknown one suggests others.

    >>> read_benchmark('gsm8k').wording('lm-eval').equals
    'gsm8k/gsm8k.yaml'
    """
    names = benchmark_names()
    if name not in names:
        what = f'{name!r} is not a file, and no benchmark has this name.'
        remedy = f'{did_you_mean(name.lower(), names)} `rolecall config list benchmarks` shows all.'
        raise ConfigError(Problem(name, what, remedy))
    record = read_plain_config(WORDINGS / f'{name}.yaml')
    wordings = {style: _read_wording(style, values) for style, values in record.pop('wordings').items()}
    return Benchmark(name=name, wordings=wordings, **record)


def _read_wording(style: str, source: Mapping[str, Any]) -> BenchmarkWording:
    values = dict(source)
    entries = values.pop('datasets' if 'datasets' in values else 'tasks')
    files, columns = (tuple(values.pop(key, ())) for key in ('files', 'columns'))
    return BenchmarkWording(style=style, entries=tuple(_repeat(entries)), files=files, columns=columns, **values)


def _repeat(entries: list[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The entries, those with `each` once for each of its records; the record stays as `each`."""
    for entry in entries:
        template = {key: value for key, value in entry.items() if key != 'each'}
        for record in entry.get('each', ({},)):
            yield {**fill_values(template, record), 'each': record}


def fill_values(value: Any, record: Mapping[str, str]) -> Any:
    """A value with `${name}` replaced from a record; other dollars are text.

    >>> fill_values({'path': ['${subject}.csv', '$x$ ${other}']}, {'subject': 'law'})
    {'path': ['law.csv', '$x$ ${other}']}
    """
    if isinstance(value, dict):
        return {key: fill_values(inner, record) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill_values(inner, record) for inner in value]
    if isinstance(value, str):
        return _VALUE.sub(lambda match: record.get(match[1], match[0]), value)
    return value
