"""Small words for tests: speeches, meta templates, and one-line previews."""

from __future__ import annotations

from typing import Any

from rolecall.experiment.experiment import preview
from rolecall.experiment.pairs.pair import Preview


def human(prompt: str, **more: Any) -> dict[str, Any]:
    return {'role': 'HUMAN', 'prompt': prompt, **more}


def bot(prompt: str, **more: Any) -> dict[str, Any]:
    return {'role': 'BOT', 'prompt': prompt, **more}


def system(prompt: str, **more: Any) -> dict[str, Any]:
    return {'role': 'SYSTEM', 'fallback_role': 'HUMAN', 'prompt': prompt, **more}


LM: dict[str, Any] = {
    'round': [
        {'role': 'HUMAN', 'begin': '<H>', 'end': '</H>'},
        {'role': 'BOT', 'begin': '<B>', 'end': '</B>', 'generate': True},
    ]
}
API: dict[str, Any] = {
    'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}]
}


def sums_config(rows: list[dict[str, str]], model: Any) -> dict[str, Any]:
    """A function as the model, and a dataset of questions `q` with answers `a`, scored by equality."""
    dataset = {
        'abbr': 'ours',
        'test': rows,
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {'prompt_template': template('Brief.\n{q}')},
        'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}},
    }
    return {'models': [{'abbr': 'm', 'type': model}], 'datasets': [dataset]}


def template(written: Any, **options: Any) -> dict[str, Any]:
    return {'type': 'PromptTemplate', 'template': written, **options}


def config(
    test: list[dict[str, Any]],
    prompt: dict[str, Any] | None,
    ice: dict[str, Any] | None = None,
    train: list[dict[str, Any]] | None = None,
    *,
    meta: Any = None,
    api: bool = False,
    model: dict[str, Any] | None = None,
    columns: list[str] | None = None,
    output: str | None = 'answer',
    retriever: dict[str, Any] | None = None,
    inferencer: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A whole config around one dataset and one model."""
    infer: dict[str, Any] = {'inferencer': inferencer or {'type': 'GenInferencer'}}
    if prompt is not None:
        infer['prompt_template'] = prompt
    if ice is not None:
        infer['ice_template'] = ice
    if retriever is not None:
        infer['retriever'] = retriever
    elif train:
        infer['retriever'] = {'type': 'FixKRetriever', 'fix_id_list': list(range(len(train)))}
    entry = {
        'abbr': 'demo',
        'type': 'Rows',
        'train': train or [],
        'test': test,
        'reader_cfg': {'input_columns': columns or ['question'], 'output_column': output},
        'infer_cfg': infer,
    }
    side = model or {
        'abbr': 'm',
        'type': 'OpenAI' if api else 'HuggingFaceCausalLM',
        'path': 'none',
        'meta_template': meta,
    }
    return {'datasets': [entry], 'models': [side]}


def shown(*args: Any, **options: Any) -> list[Preview]:
    return list(preview(config(*args, **options)))


def requests(*args: Any, **options: Any) -> list[Any]:
    return [one.request for one in shown(*args, **options)]
