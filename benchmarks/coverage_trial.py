"""One trial: a dataset entry prepared and run on made-up rows, with Python functions as the model and the judge."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from coverage_rows import JUDGE, JUDGEMENTS, REPLIES, REPLY, made_rows, part_names
from rolecall.errors import RolecallError
from rolecall.models.protocol import Scored
from rolecall.registry import part_name
from rolecall.runs.run import run_config

__all__ = ['JUDGES', 'try_entry']

JUDGES = ('LMEvaluator', 'GenericLLMEvaluator')
DENSE = ('TopkRetriever', 'VotekRetriever', 'DPPRetriever', 'MDLRetriever')
API = {
    'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}],
    'reserved_roles': [{'role': 'SYSTEM', 'api_role': 'SYSTEM'}],
}


def try_entry(entry: Mapping[str, Any]) -> str:
    """Why an entry has no score; nothing if it has one."""
    try:
        config = build_config(entry)
    except (TypeError, AttributeError, ValueError) as error:
        return f'entry of another form: {error}'
    if not entry.get('eval_cfg'):
        return 'no eval_cfg'
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said), tempfile.TemporaryDirectory() as out:
            card = run_config(config, out=Path(out) / 'run', lint=False).scorecards[0]
    except RolecallError as error:
        return ' '.join(str(error).split())
    except Exception as error:  # a traceback is a defect
        return f'TRACEBACK {type(error).__name__}: {error}'
    if card.error:
        return ' '.join(card.error.split())
    return '' if card.value is not None else f'no value: {dict(card.outcomes)} {card.details.get("excluded")}'


def build_config(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A config of this entry alone, with rows, a model and a judge at hand."""
    train, test = made_rows(entry)
    given = {name: entry[name] for name in ('reader_cfg', 'infer_cfg', 'eval_cfg') if name in entry}
    reader = {
        key: value for key, value in (given.get('reader_cfg') or {}).items() if not key.endswith(('split', 'range'))
    }
    dataset = {**given, 'abbr': 'd', 'type': 'Rows', 'train': train, 'test': test, 'reader_cfg': reader}
    parts = part_names(given.get('eval_cfg'))
    said = next((JUDGEMENTS[name] for name in parts if name in JUDGEMENTS), JUDGE)
    put_judge(dataset, lambda prompt: said)
    retriever = given['infer_cfg'].get('retriever')
    if isinstance(retriever, Mapping) and part_name(retriever.get('type')) in DENSE:
        weigh = {'score': weigh_labels} if part_name(retriever.get('type')) == 'MDLRetriever' else {}
        dataset['infer_cfg'] = {**given['infer_cfg'], 'retriever': {**retriever, 'encoder': encode, **weigh}}
    reply = next((REPLIES[name] for name in parts if name in REPLIES), REPLY)
    model = {
        'abbr': 'm',
        'type': lambda prompt: reply,
        'score': score,
        **({'meta_template': API} if takes_media(given) else {}),
    }
    return {'datasets': [dataset], 'models': [model]}


def put_judge(value: Any, judge: Callable[[Any], str]) -> None:
    """Let every judge of an entry be a function."""
    if isinstance(value, dict):
        if 'judge_cfg' in value or (value.get('type') is not None and part_name(value['type']) in JUDGES):
            value['judge_cfg'] = {'abbr': 'judge', 'type': judge}
        for inner in value.values():
            put_judge(inner, judge)
    elif isinstance(value, list):
        for inner in value:
            put_judge(inner, judge)


def takes_media(entry: Mapping[str, Any]) -> bool:
    written = entry['infer_cfg'].get('prompt_template') or {}
    return isinstance(written, Mapping) and part_name(written.get('type') or '') in (
        'MMPromptTemplate',
        'RawPromptTemplate',
    )


def weigh_labels(row: Any, shots: Any, labels: Any) -> list[float]:
    return [1.0, 2.0]


def encode(prompts: Any) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in prompts]


def score(prompts: Any) -> list[Scored]:
    return [Scored(tuple(range(len(str(text)))), (None, *[-1.0] * (len(str(text)) - 1))) for text in prompts]
