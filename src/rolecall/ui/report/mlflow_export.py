"""A run in MLflow: for each model its scores as metrics, its entry as parameters, its rows as a table, the report."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rolecall._version import __version__
from rolecall.errors import RolecallError, import_extra
from rolecall.redaction import Redactor, environment_secrets, find_secrets, is_secret_name
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.report import StoredRun, build_page

_UNNAMEABLE = re.compile(r'[^\w\-. :/]+')
_COLUMNS = ('dataset', 'row', 'prediction', 'extracted', 'gold', 'correct', 'score', 'outcome', 'reason')
_TABLE, _TABLES = 'results.json', 'mlflow.loggedArtifacts'
_LONGEST_PARAMETER = 500


def export_mlflow(
    run: str | Path,
    *,
    tracking_uri: str | None = None,
    experiment: str | None = None,
    on_damage: Callable[[str], None] | None = None,
) -> list[str]:
    """Log a run to MLflow and return the ids of its runs there. Logging it again updates them.

    Without a `tracking_uri`, MLflow's own setting decides where (`MLFLOW_TRACKING_URI`).
    """
    mlflow = import_extra('mlflow', extra='mlflow', purpose='to log a run to MLflow')
    with RunReader(run) as reader, tempfile.TemporaryDirectory() as folder:
        reader.refuse_if_nothing_is_whole()
        report = Path(folder, 'report.html')
        page = _redactor({}).redact(''.join(build_page(StoredRun(reader)).parts))
        report.write_text(page, 'utf-8', 'backslashreplace')
        try:
            client = mlflow.MlflowClient(tracking_uri)
            name = experiment or reader.title
            known = client.get_experiment_by_name(name)
            place = str(client.create_experiment(name) if known is None else known.experiment_id)
            models = dict.fromkeys(model for _, model in reader.pairs())
            ids = [_log_model(client, place, reader, model, report) for model in models]
        except mlflow.exceptions.MlflowException as error:
            raise RolecallError(f'MLflow: {_redactor({}).redact(str(error))}') from error
        if reader.damage and on_damage is not None:
            on_damage(str(reader.damage))
    return ids


def _log_model(client: Any, experiment: str, reader: RunReader, model: str, report: Path) -> str:
    identity = f'{reader.title}/{reader.created}/{model}'
    earlier = client.search_runs([experiment], f'tags.`rolecall.id` = "{identity}"')
    tags = {'rolecall.id': identity, 'rolecall.version': __version__}
    logged = earlier[0] if earlier else client.create_run(experiment, run_name=model, tags=tags)
    run_id = str(logged.info.run_id)
    for name, value in _list_parameters(reader, model):
        client.log_param(run_id, name, value)
    for card in reader.scorecards():
        for name, score in _list_metrics(card) if card.model == model else ():
            client.log_metric(run_id, name, score)
    client.log_artifact(run_id, str(report))
    rows = [[getattr(result, name, None) for name in _COLUMNS] for result in reader.results(model=model)]
    table = {'columns': _COLUMNS, 'data': rows}
    text = _redactor({}).redact(json.dumps(table, ensure_ascii=False, default=str))
    client.log_text(run_id, text, _TABLE)
    client.set_tag(run_id, _TABLES, json.dumps([{'path': _TABLE, 'type': 'table'}]))
    client.set_terminated(run_id)
    return run_id


def _list_parameters(reader: RunReader, model: str) -> Iterator[tuple[str, str]]:
    """The model's entry, without its keys."""
    entries = reader.config().get('models') or ()
    entry = next((entry for entry in entries if isinstance(entry, Mapping) and entry.get('abbr') == model), {})
    redactor = _redactor(entry)
    for name, value in entry.items():
        if not is_secret_name(str(name)) and name not in ('key', 'api_key', 'headers'):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            yield _name(str(name)), redactor.redact(text)[:_LONGEST_PARAMETER]


def _redactor(entry: Mapping[str, Any]) -> Redactor:
    return Redactor({*environment_secrets(), *find_secrets(entry)})


def _list_metrics(card: Scorecard) -> Iterator[tuple[str, float]]:
    """A score with the ends of its interval and its denominator, and how the rows ended."""
    name = _name(f'{card.dataset}/{card.metric}')
    ends = {name: card.value, f'{name}.low': card.low, f'{name}.high': card.high, f'{name}.rows': card.scored}
    yield from ((key, float(value)) for key, value in ends.items() if value is not None)
    for outcome, count in card.outcomes.items():
        yield _name(f'{card.dataset}/rows.{outcome}'), float(count)


def _name(text: str) -> str:
    return _UNNAMEABLE.sub('_', text)
