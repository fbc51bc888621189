"""A benchmark as one HTML page: the table, curves by load, and a histogram of each measure."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping

from rolecall.runs.serving.bench_files import StoredBench
from rolecall.runs.serving.serving_figures import MEASURES
from rolecall.ui.report.bench_text import BRACKETS, bench_notes, bench_rows, steady_or_all
from rolecall.ui.report.curves import CurvePlot, CurvePoint, curve_plot
from rolecall.ui.report.page import make_environment, page_head
from rolecall.ui.report.plots import Measure, measure_plot

_KEYS = {'ttft': 'ttft', 'tpot': 'tpot', 'e2el': 'latency'}


def bench_html(stored: StoredBench) -> str:
    """The whole page."""
    names = [str(level['level']) for level in stored.levels]
    return (
        make_environment()
        .get_template('bench.html')
        .render(
            **page_head(f'{stored.settings["dataset"]} on {stored.settings["model_id"]}', str(stored.settings['date'])),
            levels=names,
            lines=list(bench_rows(stored.levels)),
            notes=[*bench_notes(stored), BRACKETS],
            curves=list(_curves(stored)),
            measures=list(_histograms(stored, names)),
        )
    )


def _curves(stored: StoredBench) -> Iterator[CurvePlot]:
    """Throughput and latencies by load."""
    levels = [steady_or_all(level) for level in stored.levels]
    by_rate = all(level['request_rate'] is not None for level in levels)
    labels = [f'{level["request_rate"]:g}' if by_rate else str(level['max_concurrency']) for level in levels]
    x_name = 'conversations started per second' if by_rate else 'conversations at once'
    figures = {
        'Throughput (tokens per second)': {'output': 'output_throughput', 'input': 'input_throughput'},
        'Requests per second': {'all': 'request_throughput', 'within the limits': 'request_goodput'},
        **{
            f'{title} (ms)': {name: f'{key}_{measure}_ms' for name, key in (('median', 'median'), ('P99', 'p99'))}
            for measure, title in MEASURES.items()
        },
    }
    for name, keys in figures.items():
        series = {
            title: [
                CurvePoint(place, level[key], f'{labels[place]}: {level[key]:,.2f}')
                for place, level in enumerate(levels)
                if level.get(key) is not None
            ]
            for title, key in keys.items()
        }
        if any(series.values()):
            yield curve_plot(name, x_name, {title: points for title, points in series.items() if points}, labels=labels)


def _histograms(stored: StoredBench, names: list[str]) -> Iterator[Measure]:
    for measure, title in MEASURES.items():
        numbers: Mapping[str, array[float]] = {
            name: array('d', _milliseconds(requests, measure))
            for name, requests in zip(names, stored.requests, strict=True)
        }
        if any(numbers.values()):
            yield measure_plot(f'{title} (ms)', numbers, names, unit='request')


def _milliseconds(requests: object, measure: str) -> Iterator[float]:
    for request in requests:  # type: ignore[attr-defined]
        if request['outcome'] == 'ok':
            values = request['itl'] if measure == 'itl' else [request[_KEYS[measure]]]
            yield from (1e3 * value for value in values if value is not None)
