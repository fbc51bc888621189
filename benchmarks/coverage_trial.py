"""One trial: a dataset entry prepared and run on made-up rows, with Python functions as the model and the judge."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from coverage_rows import JUDGE, JUDGEMENTS, REPLIES, REPLY, made_rows, part_names, texts
from coverage_standins import put_stand_ins, write_data
from rolecall.errors import RolecallError
from rolecall.models.protocol import Reply, Scored
from rolecall.registry import part_name
from rolecall.runs.run import run_config

__all__ = ['JUDGES', 'try_entry']

JUDGES = ('LMEvaluator', 'GenericLLMEvaluator')
DENSE = ('TopkRetriever', 'VotekRetriever', 'DPPRetriever', 'MDLRetriever')
CALL = {'function': {'name': 'PythonInterpreter', 'arguments': {'text': '1'}}, 'result': {'text': '1'}}
"""What an agent did before it answered."""
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
    put_stand_ins()
    write_data(Path.cwd())
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said), tempfile.TemporaryDirectory() as out:
            cards = run_config(config, out=Path(out) / 'run', lint=False).scorecards
            card = next(card for card in cards if card.model == 'm')
    except RolecallError as error:
        return ' '.join(str(error).split())
    except Exception as error:  # a traceback is a defect
        return f'TRACEBACK {type(error).__name__}: {error}'
    if card.error:
        return ' '.join(card.error.split())
    return '' if card.value is not None else f'no value: {dict(card.outcomes)} {card.excluded}'


def build_config(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A config of this entry alone, with rows, a model and a judge at hand."""
    train, test = made_rows(entry)
    given = {name: entry[name] for name in ('reader_cfg', 'infer_cfg', 'eval_cfg') if name in entry}
    reader = {
        key: value for key, value in (given.get('reader_cfg') or {}).items() if not key.endswith(('split', 'range'))
    }
    paired = {name: entry[name] for name in ('mode', 'infer_order', 'base_models') if name in entry}
    dataset = {**given, **paired, 'abbr': 'd', 'type': 'Rows', 'train': train, 'test': test, 'reader_cfg': reader}
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
        'type': (lambda prompt: Reply(reply, tool_calls=(CALL,))) if is_agent(given) else lambda prompt: reply,
        'score': score,
        **({'meta_template': API} if takes_media(given) else {}),
    }
    baselines = name_baselines(entry) or (['rival'] if compares_models(given) else [])
    return {'datasets': [dataset], 'models': [model, *({**model, 'abbr': name} for name in baselines)]}


def name_baselines(entry: Mapping[str, Any]) -> list[str]:
    """The models that an entry compares answers with; their answers are made up, too."""
    written = entry.get('base_models') or ()
    return [one['abbr'] for one in ([written] if isinstance(written, Mapping) else written)]


def put_judge(value: Any, judge: Callable[[Any], str]) -> None:
    """Let every judge of an entry be a function."""
    if isinstance(value, dict):
        if (isinstance(value.get('judge_cfg'), dict) and 'judgers' not in value['judge_cfg']) or (
            value.get('type') is not None and part_name(value['type']) in JUDGES
        ):
            value['judge_cfg'] = {'abbr': 'judge', 'type': judge}
        if value.get('url') == []:  # left for the user to fill in
            value['url'] = ['http://localhost:9']
        if part_name(value.get('type') or '') == 'FakeAlignmentJudgeEvaluator':  # likewise
            value['judge_model_cfg'] = {'type': 'OpenAISDK', 'path': 'judge', 'key': 'made-up'}
        for inner in value.values():
            put_judge(inner, judge)
    elif isinstance(value, list):
        for inner in value:
            put_judge(inner, judge)


def compares_models(entry: Mapping[str, Any]) -> bool:
    """Whether a judge sees the answers of two models."""
    scoring = entry.get('eval_cfg') or {}
    words = (*texts(scoring), *part_names(scoring))
    return any(mark in word for word in words for mark in ('{prediction2}', 'pairwise', 'bradleyterry', 'wildbench'))


def is_agent(entry: Mapping[str, Any]) -> bool:
    inferencer = entry['infer_cfg'].get('inferencer')
    return part_name((inferencer or {}).get('type') or '') == 'AgentInferencer'


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
    return [score_characters(str(text)) for text in prompts]


def score_characters(text: str) -> Scored:
    places = tuple((place, place + 1) for place in range(len(text)))
    return Scored(tuple(range(len(text))), (None, *[-1.0] * (len(text) - 1)), places)
