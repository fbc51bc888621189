"""`rolecall.run`, also in notebooks: a config or rows, asked and scored; scores and rows of a run as tables."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from rolecall.errors import ConfigError, Problem, import_extra
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.loading import SourceLike
from rolecall.experiment.opening.source_options import Overrides, RowsOptions, SourceOptions, list_models
from rolecall.models.model_names import ModelName
from rolecall.runs import RunOptions, run_config
from rolecall.runs.listener import RunListener
from rolecall.runs.plan import RunPlan, RunSummary
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.versions import choose_version, describe_rows
from rolecall.scoring.scorecard import HEADLINE, Scorecard
from rolecall.strings import count_noun, printable
from rolecall.ui.views.run_progress import PairProgress, PlainProgress, progress_for, score_line

if TYPE_CHECKING:
    from rolecall.insight.calibration import Calibration
    from rolecall.insight.slices import Slice


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
    typed = locals()
    overrides = Overrides(**_pick(Overrides, typed, leave_out=('settings', 'silence')))
    options = SourceOptions(
        models=list_models(model),
        model_name=model_name,
        rows=RowsOptions(**_pick(RowsOptions, typed)),
        overrides=replace(
            overrides,
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
    run_options = RunOptions(**_pick(RunOptions, typed, leave_out=('data', 'model', 'out')))
    if out is None:
        out, note = choose_version(experiment, Path('runs'), rows=describe_rows(run_options))
        if note:
            progress.on_message(note)
    return FinishedRun(run_config(experiment, replace(run_options, out=out), progress=progress))


def _pick(options: type, typed: Mapping[str, Any], *, leave_out: Collection[str] = ()) -> dict[str, Any]:
    """The arguments that are options of a dataclass."""
    names = (option.name for option in fields(options) if option.name not in leave_out)
    return {name: typed[name] for name in names if name in typed}


_ROW_COLUMNS = ('dataset', 'model', 'row', 'outcome', 'reason', 'prediction', 'extracted', 'gold', 'score', 'correct')
_MORE_COLUMNS = ('input_tokens', 'output_tokens', 'seconds', 'fingerprint')
_HEADS = ('dataset', 'model', 'metric', 'score', '95 %', 'scored', 'other outcomes')
_PANDAS = {'extra': 'data', 'purpose': 'for to_pandas()'}


class ScoreTable(Sequence[Scorecard]):
    """The scores of a run: a sequence of scorecards that reads well when it is printed or shown.

    >>> table = ScoreTable([Scorecard('qa', 'm', 'accuracy', 50.0, 20.0, 80.0, scored=8, total=8)])
    >>> table
    qa × m: accuracy 50.00 [20.00, 80.00], 8 of 8 rows scored
    >>> table.value('qa', 'm')
    50.0
    """

    def __init__(self, cards: Sequence[Scorecard]) -> None:
        self._cards = tuple(cards)

    @overload
    def __getitem__(self, index: int) -> Scorecard: ...
    @overload
    def __getitem__(self, index: slice) -> ScoreTable: ...
    def __getitem__(self, index: int | slice) -> Scorecard | ScoreTable:
        return ScoreTable(self._cards[index]) if isinstance(index, slice) else self._cards[index]

    def __len__(self) -> int:
        return len(self._cards)

    def __repr__(self) -> str:
        return '\n'.join(map(score_line, self._cards)) or 'no scores'

    def value(self, dataset: str | None = None, model: str | None = None) -> float | None:
        """The one score of a dataset and a model; either may be left out where there is only one."""
        matches = [card for card in self._cards if dataset in (None, card.dataset) and model in (None, card.model)]
        if len(matches) != 1:
            wanted = ' × '.join(filter(None, (dataset, model))) or 'no dataset and no model'
            available = ', '.join(f'{card.dataset} × {card.model}' for card in self._cards)
            raise ConfigError(
                Problem('scores', f'{wanted}: {count_noun(len(matches), "score")}.', f'There are: {available}.')
            )
        return matches[0].value

    def to_pandas(self) -> Any:
        """The scores as a pandas frame, one row each."""
        records = [{name: getattr(card, name) for name in HEADLINE} for card in self._cards]
        return import_extra('pandas', **_PANDAS).DataFrame(records)

    def _repr_html_(self) -> str:
        return _table(_HEADS, map(_cells, self._cards))


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """What `rolecall.run` returns. Everything is read from the run's directory, `out`."""

    summary: RunSummary

    @property
    def out(self) -> Path:
        """The run directory."""
        return self.summary.out

    @property
    def scores(self) -> ScoreTable:
        """The score of every dataset × model, and of groups."""
        return ScoreTable(self.summary.scorecards)

    @property
    def ok(self) -> bool:
        """Whether every row has an answer."""
        return self.summary.exit_code == 0

    @property
    def reply_warnings(self) -> tuple[str, ...]:
        """Warnings about the replies as a whole."""
        return self.summary.reply_warnings

    def results(self, dataset: str | None = None, model: str | None = None) -> list[Result]:
        """Every row of this run, with its replies and its score."""
        with RunReader(self.out) as reader:
            return list(reader.results(dataset, model))

    def to_pandas(self, dataset: str | None = None, model: str | None = None) -> Any:
        """The rows as a pandas frame: outcome, prediction, gold answer, score, reply, tokens, the dataset's columns.

        A column of the dataset that is called like one of these has `row_` in front.
        """
        columns = dict.fromkeys((*_ROW_COLUMNS, 'reply', *_MORE_COLUMNS))
        records = []
        with RunReader(self.out) as reader:
            for result in reader.results(dataset, model):
                record = {name: getattr(result, name) for name in (*_ROW_COLUMNS, *_MORE_COLUMNS)}
                record['reply'] = '\n'.join(result.replies)
                for name, value in reader.fields(result.dataset, result.row).items():
                    record[f'row_{name}' if name in record else name] = value
                columns |= dict.fromkeys(record)
                records.append(record)
        return import_extra('pandas', **_PANDAS).DataFrame(records, columns=list(columns))

    def slices(self, *by: str) -> list[Slice]:
        """The scores by columns of the rows, by `length` or by `answer_position`."""
        from rolecall.insight.slices import slice_run

        with RunReader(self.out) as reader:
            return slice_run(reader, by)

    def label(self, labels: Any = None, **columns: Any) -> list[Calibration]:
        """Add people's labels (a frame, records, a file or a run) and give the scores corrected by all labels.

        `columns` are the options of `rolecall runs label`: `run.label(frame, label=['ann', 'bob'], scale=(1, 5))`.
        """
        from rolecall.insight.calibration import calibrate
        from rolecall.insight.label_files import LabelColumns, join_labels

        if labels is not None:
            joined = join_labels(self.out, labels, LabelColumns(**columns))
            if joined.problems:
                warnings.warn('\n'.join(joined.lines()), stacklevel=2)
        with RunReader(self.out) as reader:
            return calibrate(reader)

    def report(self, path: str | Path = 'report.html') -> Path:
        """Write the report as one HTML page."""
        from rolecall.runs.atomic import write_atomically
        from rolecall.ui.report import StoredRun, build_page

        with RunReader(self.out) as reader, write_atomically(path) as part, open(part, 'w', encoding='utf-8') as page:
            run = StoredRun(reader)
            page.writelines(build_page(run, prices=run.prices()).parts)
        return Path(path)

    def __repr__(self) -> str:
        return '\n'.join((repr(self.scores), *self._notes()))

    def _repr_html_(self) -> str:
        notes = ''.join(f'<div>{escape(note)}</div>' for note in self._notes())
        return f'{self.scores._repr_html_()}{notes}'

    def _notes(self) -> Iterator[str]:
        if self.summary.interrupted:
            yield 'Interrupted; run it again to resume.'
        yield from (f'{model} was unreachable: {why}' for model, why in self.summary.broken.items())
        if failed := self.summary.outcomes.get('failed'):
            yield f"{count_noun(failed, 'row')} failed; rerun='failed' asks again."
        yield from self.reply_warnings
        yield f'Results are in {self.out}.'


def _cells(card: Scorecard) -> Iterator[str]:
    yield from (card.dataset, card.model, card.metric)
    yield '–' if card.value is None else f'{card.value:.2f}'
    yield '' if card.low is None or card.high is None else f'{card.low:.2f} – {card.high:.2f}'
    yield f'{card.scored:,} of {card.total:,}'
    yield ', '.join(f'{count:,} {outcome}' for outcome, count in card.outcomes.items() if outcome != 'ok')


def open_run(directory: str | Path) -> FinishedRun:
    """A run that is on disk, as `rolecall.run` returns it."""
    with RunReader(directory) as reader:
        reader.refuse_if_nothing_is_whole()
        return FinishedRun(RunSummary(Path(directory), RunPlan(()), tuple(reader.scorecards())))


def _table(heads: Sequence[str], rows: Iterator[Iterator[str]]) -> str:
    head = ''.join(f'<th>{escape(title)}</th>' for title in heads)
    body = ''.join(f'<tr>{"".join(f"<td>{escape(cell)}</td>" for cell in row)}</tr>' for row in rows)
    return f'<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
