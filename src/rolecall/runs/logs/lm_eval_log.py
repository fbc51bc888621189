"""A folder that `lm_eval --log_samples --output_path` wrote: `results_*.json` and `samples_TASK_*.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rolecall.core.render.spans import Request
from rolecall.errors import RunError
from rolecall.runs.logs.log import (
    NOT_RECORDED,
    ImportedLog,
    ImportedRow,
    ImportedScore,
    read_json,
    read_json_lines,
    reading,
)

_SETTINGS = (
    *('num_fewshot', 'generation_kwargs', 'output_type', 'description', 'target_delimiter', 'fewshot_delimiter'),
    *('filter_list', 'metric_list', 'process_results', 'doc_to_text', 'doc_to_target', 'doc_to_choice', 'repeats'),
)
_SENT_WITH = ('chat_template', 'system_instruction')
_RUN_SETTINGS = ('model_args', 'gen_kwargs', 'limit', 'batch_size', 'random_seed', 'fewshot_seed')


def read_lm_eval(folder: Path) -> list[ImportedLog]:
    """One log for each `results_*.json` in the folder (or that file alone), with its samples."""
    files = [folder] if folder.is_file() else sorted(folder.rglob('results_*.json'))
    if not files:
        raise RunError(
            f'{folder}: no results_*.json found. Give the folder of --output_path; rows need --log_samples as well.'
        )
    logs = []
    for path in files:
        with reading(path, 'lm-eval'):
            logs.append(_read_log(path))
    return logs


def _read_log(path: Path) -> ImportedLog:
    log = read_json(path)
    if not isinstance(log, Mapping) or not isinstance(log.get('results'), Mapping):
        raise RunError(f'{path}: not results of lm-eval: there is no `results`.')
    stamp = path.stem.removeprefix('results_')
    configs = log.get('configs') if isinstance(log.get('configs'), Mapping) else {}
    rows: list[ImportedRow] = []
    scores: list[ImportedScore] = []
    for task, numbers in log['results'].items():
        samples = path.parent / f'samples_{task}_{stamp}.jsonl'
        by_filter = _read_samples(samples, str(task)) if samples.is_file() else {}
        rows += [row for filtered in by_filter.values() for row in filtered]
        scores += list(_read_scores(str(task), numbers, list(by_filter)))
    date = log.get('date')
    config = log.get('config') if isinstance(log.get('config'), Mapping) else {}
    return ImportedLog(
        harness='lm-eval',
        version=str(log.get('lm_eval_version') or NOT_RECORDED),
        created=datetime.fromtimestamp(date, timezone.utc).isoformat(timespec='seconds')
        if isinstance(date, int | float)
        else NOT_RECORDED,
        model=str(log.get('model_name') or (config or {}).get('model') or NOT_RECORDED),
        settings={
            **{key: (log[key] or 'none') if key in log else NOT_RECORDED for key in _SENT_WITH},
            'run': {key: value for key, value in (config or {}).items() if key in _RUN_SETTINGS and value is not None},
            **{
                str(task): {key: settings[key] for key in _SETTINGS if key in settings}
                for task, settings in (configs or {}).items()
                if isinstance(settings, Mapping)
            },
        },
        rows=rows,
        scores=scores,
    )


def _read_samples(path: Path, task: str) -> dict[str, list[ImportedRow]]:
    """The rows by filter pipeline. The first has the task's name, the others theirs after a comma."""
    rows: dict[str, list[ImportedRow]] = {}
    for place, sample in read_json_lines(path):
        if not isinstance(sample, Mapping):
            raise RunError(f'{place}: expected a sample, found {type(sample).__name__}.')
        name = str(sample.get('filter', 'none'))
        dataset = task if not rows or name in list(rows)[:1] else f'{task},{name}'
        with reading(place, 'lm-eval'):
            rows.setdefault(name, []).append(_read_sample(sample, dataset, len(rows.get(name, ()))))
    return rows


def _read_sample(sample: Mapping[str, Any], dataset: str, number: int) -> ImportedRow:
    arguments = sample.get('arguments')
    sent = list(arguments.values()) if isinstance(arguments, Mapping) else list(arguments or ())
    responses = [
        response for group in sample.get('resps') or () for response in (group if isinstance(group, list) else [group])
    ]
    filtered = sample.get('filtered_resps') or []
    metrics = [name for name in sample.get('metrics') or () if isinstance(sample.get(name), int | float)]
    weighed = bool(responses) and all(isinstance(response, list) for response in responses)
    doc = sample.get('doc')
    doc_id = sample.get('doc_id')
    return ImportedRow(
        dataset=dataset,
        row=doc_id if isinstance(doc_id, int) else number,
        requests=[_request(request) for request in sent],
        replies=[] if weighed else [str(response) for response in responses],
        prediction=[_number_pair(response) for response in responses] if weighed else None,
        extracted=None if weighed else (filtered[0] if filtered else None),
        gold=sample.get('target'),
        score=float(sample[metrics[0]]) if metrics else None,
        fields=doc if isinstance(doc, Mapping) else {},
    )


def _request(sent: Any) -> Request:
    """What was sent: messages, or the context with the continuation that was weighed after it."""
    parts = list(sent.values()) if isinstance(sent, Mapping) else list(sent) if isinstance(sent, list) else [sent]
    if parts and isinstance(parts[0], list):  # a chat: its messages, as JSON in a list of one
        [text] = parts[0]
        messages: list[Mapping[str, Any]] = [
            {'role': message['role'], 'content': message['content']} for message in json.loads(text)
        ]
        return messages
    return ''.join(part for part in parts[:2] if isinstance(part, str))


def _number_pair(response: Sequence[Any]) -> list[Any]:
    first, *rest = response
    return [float(first), str(rest[0]) == 'True' if rest else None]


def _read_scores(task: str, numbers: Mapping[str, Any], filters: Sequence[str]) -> Iterator[ImportedScore]:
    by_filter: dict[str, dict[str, float]] = {}
    for key, value in numbers.items():
        metric, comma, name = str(key).partition(',')
        if comma and isinstance(value, int | float):
            by_filter.setdefault(name, {})[metric] = float(value)
    for name, scores in by_filter.items():
        metrics = [metric for metric in scores if not metric.endswith('_stderr')]
        if metrics:
            further = {key: value for key, value in scores.items() if key != metrics[0]}
            first = name == (filters or list(by_filter))[0]
            yield ImportedScore(
                dataset=task if first else f'{task},{name}',
                metric=metrics[0],
                value=scores[metrics[0]],
                further=further,
            )
