"""`rolecall.run`: a config, a file of rows or rows themselves, asked and scored."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, Literal

from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.loading import SourceLike
from rolecall.experiment.opening.source_options import Overrides, RowsOptions, SourceOptions, list_models
from rolecall.models.model_names import ModelName
from rolecall.runs import RunOptions, run_config
from rolecall.runs.listener import RunListener
from rolecall.runs.versions import choose_version, describe_rows
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import printable
from rolecall.ui.notebook.finished_run import FinishedRun
from rolecall.ui.views.run_progress import PairProgress, PlainProgress, progress_for, score_line

_EVERY = 0.5
Show = Callable[[str], object]
"""Shows HTML in the place of what it showed before."""


def choose_progress(*, quiet: bool) -> RunListener:
    """The display that suits the place: redrawn HTML in a notebook, bars on a terminal, lines elsewhere."""
    if quiet or not _in_notebook():
        return progress_for(quiet=quiet)
    return NotebookProgress(_display())


def _in_notebook() -> bool:
    ipython = sys.modules.get('IPython')
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ in ('ZMQInteractiveShell', 'Shell')


def _display() -> Show:
    from importlib import import_module

    display: Any = import_module('IPython.display')
    handle = display.display(display.HTML(''), display_id=True)
    return lambda html: handle.update(display.HTML(html))


class NotebookProgress(PlainProgress):
    """Bars in HTML, with the messages and scores below them."""

    def __init__(self, show: Show, *, every: float = _EVERY) -> None:
        super().__init__(io.StringIO(), every=every)
        self._show_html = show
        self._lines: list[str] = []

    def on_scores(self, dataset: str, model: str, cards: Sequence[Scorecard]) -> None:
        """A dataset × model is finished and scored."""
        self._pairs.pop((dataset, model), None)
        for card in cards:
            self._print(printable(score_line(card)))

    def on_end(self) -> None:
        """The run is over."""
        super().on_end()
        self._redraw()

    def _print(self, line: str) -> None:
        self._lines.append(line)
        self._redraw()

    def _show(self, key: tuple[str, str], pair: PairProgress) -> None:
        self._redraw()

    def _redraw(self) -> None:
        bars = ''.join(map(_bar, self._pairs.copy().values()))
        lines = ''.join(f'<div>{escape(line)}</div>' for line in self._lines)
        self._show_html(f'<div style="font-family:monospace">{lines}{bars}</div>')


def _bar(pair: PairProgress) -> str:
    share = f' value="{pair.done}" max="{pair.total}"' if pair.total else ''
    return f'<div><progress{share}></progress> {escape(printable(pair.line()))}</div>'


def run(
    source: Experiment | SourceLike,
    *,
    model: ModelName | Sequence[ModelName] = (),
    model_name: str | None = None,
    template: str | None = None,
    answer: str | None = None,
    choices: str | Sequence[str] = (),
    metric: str | Mapping[str, Any] | Callable[..., Any] | None = None,
    extract: str | Mapping[str, Any] | Callable[..., Any] | None = None,
    ask: Literal['generate', 'perplexity'] | None = None,
    encoding: str | None = None,
    on_error: Literal['stop', 'skip'] | None = None,
    shots: int | None = None,
    retriever: str | None = None,
    system: str | None = None,
    temperature: float | None = None,
    max_out_len: int | None = None,
    seed: int | None = None,
    n: int | None = None,
    settings: Mapping[str, Any] | None = None,
    silence: str | Sequence[str] = (),
    data: Mapping[str, str] | str | Path | None = None,
    emulate: Literal['lm-eval', 'opencompass'] | None = None,
    download: bool = False,
    dataset: str | None = None,
    limit: int | None = None,
    sample: int | None = None,
    sample_seed: int = 0,
    until: str | None = None,
    max_cost: float | None = None,
    max_total_tokens: int | None = None,
    max_minutes: float | None = None,
    out: str | Path | None = None,
    rerun: str | Sequence[str] = (),
    force: bool = False,
    keep_going: bool = False,
    quiet: bool = False,
) -> FinishedRun:
    """Run models on rows and score the answers, with the options of `rolecall run`.

    `source` is a config (a file or a dict), a file of rows, a list of rows, a pandas frame or a `Task`; `model` a name
    (`'smollm2'`, `'openai/gpt-4.1-mini'`), a model entry, a function, or several of these. `settings` changes any value
    of a config by its place: `{'datasets.*.infer_cfg.inferencer.max_out_len': 64}`; `silence` names lint rules to leave
    out. Started again with the same `out`
    (default: `runs/NAME`), it resumes.

    `source` may also be the name of a benchmark (`'gsm8k'`): `emulate` chooses whose wording, `data` is the folder with
    its rows, and `download` lets them come from the hub.

    >>> import tempfile
    >>> rows = [{'question': 'What is 1+1?', 'answer': '2'}, {'question': 'What is 2+2?', 'answer': '4'}]
    >>> done = run(rows, model=lambda prompt: '2', answer='answer', out=tempfile.mkdtemp(), quiet=True)
    >>> done.scores.value()
    50.0
    """
    options = SourceOptions(
        models=list_models(model),
        model_name=model_name,
        rows=RowsOptions(
            template=template,
            answer=answer,
            choices=choices,
            metric=metric,
            extract=extract,
            ask=ask,
            encoding=encoding,
            on_error=on_error,
        ),
        overrides=Overrides(
            shots=shots,
            retriever=retriever,
            system=system,
            temperature=temperature,
            max_out_len=max_out_len,
            seed=seed,
            n=n,
            settings=tuple((settings or {}).items()),
            silence=(silence,) if isinstance(silence, str) else tuple(silence),
        ),
        data=data if isinstance(data, Mapping) else {},
        data_folder=data if isinstance(data, str | Path) else None,
        task={'emulate': emulate, 'hub': download},
        asks_models=True,
        collects_problems=True,
    )
    experiment = Experiment.open(source, options)
    progress = choose_progress(quiet=quiet)
    for note in experiment.notes:
        progress.on_message(note)
    run_options = RunOptions(
        limit=limit,
        sample=sample,
        sample_seed=sample_seed,
        until=until,
        max_cost=max_cost,
        max_total_tokens=max_total_tokens,
        max_minutes=max_minutes,
        dataset=dataset,
        rerun=rerun,
        keep_going=keep_going,
        force=force,
    )
    if out is None:
        out, note = choose_version(experiment, Path('runs'), rows=describe_rows(run_options))
        if note:
            progress.on_message(note)
    return FinishedRun(run_config(experiment, replace(run_options, out=out), progress=progress))
