"""The files of the page, and its routes: functions from a workspace and a query (or a body) to an answer as JSON.

The server calls them on a thread; the playground calls them in a web worker.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from rolecall._version import __version__
from rolecall.errors import ConfigError, Problem
from rolecall.runs.store.labels import Kind
from rolecall.ui.report.page import read_asset
from rolecall.ui.report.palette import plot_sheet, style_sheet
from rolecall.ui.views.chinese import read_chinese, to_chinese
from rolecall.ui.views.looks import ALL_STYLES
from rolecall.ui.web.documents import ConfigDocument, Split, diff_as_json
from rolecall.ui.web.editing import Edit, edited_prompts, edited_source, save_edited
from rolecall.ui.web.page_json import LEGEND
from rolecall.ui.web.run_documents import RowFilter, RunDocument
from rolecall.ui.web.trying import keep_trial
from rolecall.ui.web.workspace import Workspace, control_run, plan_as_json

_INTEGER = re.compile(r'-?[0-9]{1,15}')
_LARGEST = 10**15
_SHAPE: Mapping[str, Any] = {
    'config': int,
    'dataset': str,
    'model': (str, type(None)),
    'row': int,
    'edits': list,
    'number': int,
    'compare': (int, type(None)),
    'name': (str, type(None)),
    'run': int,
    'options': dict,
}
_WORDED = dict.fromkeys(('plan', 'started', 'lint', 'run', 'run_slices', 'queue')) | {'edit': 'findings'}
_TEXTS = ('lines', 'line', 'remarks', 'note', 'notes', 'printed', 'message', 'remedy', 'damage', 'error')
"""Routes whose answers, or a part of them, hold sentences of ours, and where; everything else there is data."""
Answer = dict[str, Any]
Query = Mapping[str, str]
Body = Mapping[str, Any]


def _rows(workspace: Workspace, query: Query) -> Answer:
    split: Split = 'train' if query.get('split') == 'train' else 'test'
    after, text = read_number(query, 'after', -1), query.get('q', '')
    return _document(workspace, query).rows(query.get('dataset', ''), after=after, query=text, split=split)


def _prompts(workspace: Workspace, query: Query) -> Answer:
    row = read_number(query, 'row')
    return _document(workspace, query).prompts(query.get('dataset', ''), query.get('model') or None, row)


def _tokens(workspace: Workspace, query: Query) -> Answer:
    row, number = read_number(query, 'row'), read_number(query, 'number')
    return _document(workspace, query).tokens(query.get('dataset', ''), query.get('model') or None, row, number)


def _diff(workspace: Workspace, query: Query) -> Answer:
    left, right = (
        _document(workspace, query, f'{side}_config').find_preview(
            query.get(f'{side}_dataset', ''),
            query.get(f'{side}_model') or None,
            read_number(query, f'{side}_row'),
            read_number(query, f'{side}_number'),
        )[1]
        for side in ('left', 'right')
    )
    return diff_as_json(left, right)


def _run_rows(workspace: Workspace, query: Query) -> Answer:
    dataset, model, outcome, verdict, text = (
        query.get(name, '') for name in ('dataset', 'model', 'outcome', 'verdict', 'q')
    )
    against = None
    if query.get('against'):
        number, _, other = query['against'].partition(':')
        against = workspace.run(read_number({'against': number}, 'against')).counterpart(other)
    wanted = RowFilter(dataset, model, outcome, verdict, text, read_number(query, 'first'), against)
    return _run(workspace, query).rows(wanted, query.get('after', ''))


def _run_row(workspace: Workspace, query: Query) -> Answer:
    dataset, model = query.get('dataset', ''), query.get('model', '')
    config = workspace.config_for(dataset, model)
    return _run(workspace, query).row(dataset, model, read_number(query, 'row'), config)


def _edit(workspace: Workspace, body: Body) -> Answer:
    document, edits = workspace.document(body.get('config', 0)), read_edits(body)
    dataset, row, compare = body.get('dataset', ''), body.get('row', 0), body.get('compare')
    return edited_prompts(document, dataset, body.get('model'), row, edits, compare=compare)


def _save(workspace: Workspace, body: Body) -> Answer:
    document, name = workspace.document(body.get('config', 0)), body.get('name')
    source = edited_source(document, body.get('dataset', ''), body.get('model'), read_edits(body))
    return {'source': source, 'saved': str(save_edited(document, source, name)) if name else None}


def _keep(workspace: Workspace, body: Body) -> Answer:
    reply = body.get('reply')
    if not isinstance(reply, str):
        raise ConfigError(Problem('reply', 'expected a text.'))
    document, row = workspace.document(body.get('config', 0)), body.get('row', 0)
    return {'kept': str(keep_trial(document, body.get('dataset', ''), row, reply, body.get('request')))}


def _label(workspace: Workspace, body: Body) -> Answer:
    kind: Kind = 'answer' if 'answer' in body else 'label'
    value = body.get(kind, 0)
    names = [body.get('model'), body.get('by', ''), value if value is not None or kind == 'label' else '']
    if not all(isinstance(name, str) for name in names) or not isinstance(body.get('run', 0), int):
        raise ConfigError(Problem('request', 'expected run, dataset, model, row, and label or answer.'))
    run = workspace.run(body.get('run', 0))
    run.decide((body.get('dataset', ''), body['model'], body.get('row', 0)), kind, value, body.get('by', ''))
    return {'labelled': len(run.labels.by_row())}


GET_ROUTES: Mapping[str, Callable[[Workspace, Query], Answer]] = {
    'session': lambda workspace, query: {'version': __version__, 'legend': LEGEND, **workspace.overview()},
    'rows': _rows,
    'prompts': _prompts,
    'tokens': _tokens,
    'lint': lambda workspace, query: {
        'findings': _document(workspace, query).findings(query.get('dataset', ''), query.get('model', ''))
    },
    'diff': _diff,
    'runs': lambda workspace, query: {'runs': workspace.runs()},
    'run': lambda workspace, query: _run(workspace, query).overview(),
    'run_rows': _run_rows,
    'run_row': _run_row,
    'queue': lambda workspace, query: _run(workspace, query).queue.next_rows(
        query.get('task', ''), query.get('by', ''), max(0, read_number(query, 'skipped'))
    ),
    'run_slices': lambda workspace, query: _run(workspace, query).slices(query.get('by', '').split('\n')),
    'started': lambda workspace, query: workspace.started(read_number(query, 'number')),
}
POST_ROUTES: Mapping[str, Callable[[Workspace, Body], Answer]] = {
    'edit': _edit,
    'save': _save,
    'keep': _keep,
    'label': _label,
    'plan': lambda workspace, body: plan_as_json(workspace.reopen(body.get('config', 0)), body.get('options', {})),
    'start': lambda workspace, body: {'started': workspace.start(body.get('config', 0), body.get('options', {}))},
    'control': lambda workspace, body: control_run(workspace.run_path(body.get('run', 0)), body.get('options', {})),
    'note': lambda workspace, body: workspace.run(body.get('run', 0)).write_notes(body.get('options', {})),
}


def answer_route(workspace: Workspace, name: str, asked: Body, *, chinese: bool) -> Answer:
    """What a route answers to a query or a body, in the language of the page."""
    answer = (GET_ROUTES[name] if name in GET_ROUTES else POST_ROUTES[name])(workspace, asked)
    if not chinese or name not in _WORDED:
        return answer
    return {key: _in_chinese(value, key) if _WORDED[name] in (None, key) else value for key, value in answer.items()}


def _in_chinese(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return {name: _in_chinese(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_in_chinese(inner, key) for inner in value]
    return to_chinese(value) if isinstance(value, str) and key in _TEXTS else value


def _run(workspace: Workspace, query: Query) -> RunDocument:
    return workspace.run(read_number(query, 'run'))


def _document(workspace: Workspace, query: Query, key: str = 'config') -> ConfigDocument:
    return workspace.document(read_number(query, key))


def read_number(query: Query, key: str, default: int = 0) -> int:
    """A whole number of a query."""
    text = query.get(key, '')
    if text and not _INTEGER.fullmatch(text):
        raise ConfigError(Problem(key, f'expected an integer of at most 15 digits, got {text!r:.40}.'))
    return int(text) if text else default


def check_body(body: Any) -> Body:
    """The body of a request, if its values are of the kinds that routes expect."""
    if (
        not isinstance(body, dict)
        or any(key in body and not isinstance(body[key], kind) for key, kind in _SHAPE.items())
        or any(isinstance(value, int) and abs(value) > _LARGEST for value in body.values())
    ):
        raise ConfigError(Problem('request', 'expected config, dataset, model, row and edits.'))
    return body


def read_edits(body: Body) -> list[Edit]:
    """Pairs of a path and a value."""
    edits = body.get('edits', [])
    if not all(isinstance(edit, list) and len(edit) == 2 and isinstance(edit[0], list) for edit in edits):
        raise ConfigError(Problem('edits', 'expected pairs of a path and a value.'))
    return [(tuple(path), value) for path, value in edits]


def read_assets() -> dict[str, str]:
    """Every file the page loads, by name: its own, those it shares with the report, and generated styles."""
    folder = files(__package__).joinpath('assets')
    own = {entry.name: entry.read_text('utf-8') for entry in folder.iterdir() if entry.is_file()}
    vendor = folder.joinpath('vendor')
    own |= {f'vendor/{entry.name}': entry.read_text('utf-8') for entry in vendor.iterdir() if entry.is_file()}
    shared = {name: read_asset(name) for name in ('draw.js', 'report.css')}
    words = json.dumps(dict(read_chinese('page')), ensure_ascii=False)
    shared['chinese.js'] = f'export const CHINESE = {words};\n'
    return own | shared | {'origins.css': style_sheet(ALL_STYLES) + plot_sheet()}
