"""A benchmark as one HTML page: the table, curves by load, and a histogram of each measure."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rolecall.runs.serving.bench_files import StoredBench
from rolecall.runs.serving.serving_benchmark import MEASURES
from rolecall.ui.report.bench_text import BRACKETS, bench_notes, bench_rows, steady_or_all
from rolecall.ui.report.curves import CurvePoint, curve_plot
from rolecall.ui.report.page import make_environment, page_head
from rolecall.ui.report.plots import measure_plot

_CURVES = {
    'Throughput (tokens per second)': {'output': 'output_throughput', 'input': 'input_throughput'},
    'Requests per second': {'all': 'request_throughput', 'within the limits': 'request_goodput'},
    **{
        f'{title} (ms)': {'median': f'median_{measure}_ms', 'P99': f'p99_{measure}_ms'}
        for measure, title in MEASURES.items()
    },
}


def bench_html(stored: StoredBench) -> str:
    """The whole page."""
    names = [str(level['level']) for level in stored.levels]
    numbers = {
        title: {
            name: array('d', _milliseconds(requests, measure))
            for name, requests in zip(names, stored.requests, strict=True)
        }
        for measure, title in MEASURES.items()
    }
    template = make_environment().get_template('bench.html')
    return template.render(
        **page_head(f'{stored.settings["dataset"]} on {stored.settings["model_id"]}', str(stored.settings['date'])),
        levels=names,
        lines=list(bench_rows(stored.levels)),
        notes=[*bench_notes(stored), BRACKETS],
        curves=list(_curves([steady_or_all(level) for level in stored.levels])),
        measures=[
            measure_plot(f'{title} (ms)', by_level, names, unit='request')
            for title, by_level in numbers.items()
            if any(by_level.values())
        ],
    )


def _curves(levels: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Throughput and latencies by load."""
    by_rate = all(level['request_rate'] is not None for level in levels)
    labels = [f'{level["request_rate"]:g}' if by_rate else str(level['max_concurrency']) for level in levels]
    for name, keys in _CURVES.items():
        series = {
            title: [
                CurvePoint(place, level[key], f'{labels[place]}: {level[key]:,.2f}')
                for place, level in enumerate(levels)
                if level.get(key) is not None
            ]
            for title, key in keys.items()
        }
        if drawn := {title: points for title, points in series.items() if points}:
            x_name = 'conversations started per second' if by_rate else 'conversations at once'
            yield curve_plot(name, x_name, drawn, labels=labels)


def _milliseconds(requests: Sequence[Mapping[str, Any]], measure: str) -> Iterator[float]:
    for request in requests:
        values = request['itl'] if measure == 'itl' else [request['latency' if measure == 'e2el' else measure]]
        if request['outcome'] == 'ok':
            yield from (1e3 * value for value in values if value is not None)
