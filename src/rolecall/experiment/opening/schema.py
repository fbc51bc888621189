"""A JSON schema of configs, for editors: the keys of entries with their types, and the names of parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rolecall.core.prompts.template import TEMPLATES
from rolecall.core.render.families import META_TEMPLATES
from rolecall.experiment.opening.inferencer_entries import INFERENCER_OPTIONS, INFERENCERS
from rolecall.experiment.opening.key_texts import KEY_TEXTS
from rolecall.experiment.opening.sampling import SAMPLING_OPTIONS
from rolecall.experiment.opening.unknown_keys import DATASET_KEYS
from rolecall.models.backends import MODELS
from rolecall.models.entry_keys import ANTHROPIC_KEYS, FUNCTION_KEYS, LLAMA_KEYS, OPENAI_KEYS, TRANSFORMERS_KEYS
from rolecall.models.model_names import FORMS
from rolecall.scoring.evaluate import EVAL_KEYS
from rolecall.scoring.evaluators import METRICS
from rolecall.scoring.postprocessors import POSTPROCESSORS
from rolecall.sources.datasets.dataset import DATASETS
from rolecall.sources.retrievers.build import RETRIEVERS

Schema = dict[str, Any]

_WHOLE = {'type': 'integer', 'minimum': 1}
_TEXT = {'type': 'string'}
_FLAG = {'type': 'boolean'}
_NUMBER = {'type': 'number', 'minimum': 0}
_TYPES: dict[str, Schema] = {
    **dict.fromkeys(
        ('max_out_len', 'max_seq_len', 'max_new_tokens', 'max_tokens', 'batch_size', 'max_workers'), _WHOLE
    ),
    **dict.fromkeys(('n', 'k', 'ice_num', 'sc_size', 'num_return_sequences', 'n_threads', 'parallel'), _WHOLE),
    **dict.fromkeys(('abbr', 'path', 'model', 'key', 'name', 'openai_api_base', 'base_url', 'url', 'device'), _TEXT),
    **dict.fromkeys(('stream', 'prefill', 'trust_remote_code', 'do_sample', 'enable_ssl', 'media', 'chat'), _FLAG),
    **dict.fromkeys(('temperature', 'query_per_second', 'request_rate', 'timeout', 'retry'), _NUMBER),
    **{key: {'type': 'number', 'minimum': 0, 'maximum': 1} for key in ('top_p', 'min_p')},
    **{key: {'type': 'object'} for key in ('generation_kwargs', 'model_kwargs', 'extra_body', 'headers')},
    **{key: {'type': 'integer'} for key in ('seed', 'top_k', 'min_out_len')},
    **{
        key: {'anyOf': [_TEXT, {'type': 'array', 'items': _TEXT}]}
        for key in ('stop', 'stop_words', 'stopping_criteria')
    },
    'labels': {'type': 'array'},
    'chat_template': {'type': ['boolean', 'string']},
}


MODEL_KINDS: dict[str, tuple[str, ...]] = {
    'OpenAI and servers': OPENAI_KEYS,
    'Anthropic': ANTHROPIC_KEYS,
    'embedded': LLAMA_KEYS,
    'Transformers, vLLM': TRANSFORMERS_KEYS,
    'functions': FUNCTION_KEYS,
}
"""Each kind of model with the keys that its entries have besides those of sampling."""


def config_schema() -> Schema:
    """The schema of YAML and JSON configs; every key says what it means.

    >>> sorted(config_schema()['properties'])
    ['datasets', 'groups', 'judge_models', 'lint', 'media_folders', 'models', 'work_dir']
    """
    model = {'anyOf': [{'type': 'string', 'description': FORMS}, _model()]}
    return {
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        'title': 'rolecall config',
        'type': 'object',
        'properties': _describe(
            {
                'models': {'type': 'array', 'items': model},
                'judge_models': {'type': 'array', 'items': model},
                'datasets': {'type': 'array', 'items': _dataset(), 'minItems': 1},
                'groups': {'type': 'object'},
                'lint': {'type': 'object', 'properties': _describe({'silence': _texts(), 'rules': _texts()})},
                'media_folders': {'anyOf': [_TEXT, _texts()]},
                'work_dir': _TEXT,
            }
        ),
        'patternProperties': {'_datasets$': {'type': 'array', 'items': _dataset()}},
        'required': ['datasets'],
    }


def _model() -> Schema:
    keys = {*SAMPLING_OPTIONS, *(key for keys in MODEL_KINDS.values() for key in keys)}
    families = {'anyOf': [{'enum': sorted(META_TEMPLATES)}, {'type': 'object'}, _TEXT]}
    price = {'type': 'object', 'properties': _describe({'input': _NUMBER, 'output': _NUMBER})}
    return {**_entry(keys, MODELS, meta_template=families, price=price), 'required': ['type']}


def _dataset() -> Schema:
    template = _part(('template', 'ice_token'), TEMPLATES)
    postprocessor = _part((), POSTPROCESSORS)
    reader: dict[str, Schema] = {
        'input_columns': {'anyOf': [_TEXT, _texts()]},
        'output_column': {'type': ['string', 'null']},
        **dict.fromkeys(('train_split', 'test_split', 'input_template', 'output_template'), _TEXT),
        **{key: {'type': ['string', 'number', 'null']} for key in ('train_range', 'test_range')},
    }
    asking = {
        'prompt_template': template,
        'ice_template': template,
        'retriever': _part(('ice_num', 'fix_id_list', 'ice_separator', 'ice_eos_token', 'seed', 'k'), RETRIEVERS),
        'inferencer': _part(INFERENCER_OPTIONS, INFERENCERS),
    }
    judging = (
        *('pred_postprocessor', 'judge_cfg', 'prompt_template', 'dict_postprocessor', 'dataset_cfg'),
        *('against', 'order', 'pack_all_predictions'),
    )
    scoring: dict[str, Schema] = {
        **{key: _TYPES.get(key, {}) for key in (*EVAL_KEYS, 'cluster')},
        'evaluator': _part(judging, METRICS),
        'pred_postprocessor': postprocessor,
        'dataset_postprocessor': postprocessor,
        **{key: {'enum': ['exclude', 'wrong']} for key in ('failures', 'unparsed')},
        'cluster': _TEXT,
    }
    made = _entry(
        DATASET_KEYS,
        DATASETS,
        reader_cfg={'type': 'object', 'properties': _describe(reader), 'additionalProperties': False},
        infer_cfg={'type': 'object', 'properties': _describe(asking)},
        eval_cfg={'type': 'object', 'properties': _describe(scoring)},
    )
    return {**made, 'required': ['infer_cfg']}


def _part(keys: Iterable[str], names: Iterable[str]) -> Schema:
    """A part by its name, or with options."""
    schema = _entry(keys, names)
    return {'anyOf': [schema['properties']['type'], schema]}


def _entry(keys: Iterable[str], names: Iterable[str], **known: Schema) -> Schema:
    """An entry with a type and the given keys, the type first."""
    kinds = {'anyOf': [{'enum': sorted(names)}, _TEXT]}
    properties = {key: _TYPES.get(key, {}) for key in sorted(keys)}
    return {'type': 'object', 'properties': _describe({'type': kinds, **(properties | known | {'type': kinds})})}


def _describe(properties: dict[str, Schema]) -> dict[str, Schema]:
    return {key: {'description': KEY_TEXTS[key], **schema} for key, schema in properties.items()}


def _texts() -> Schema:
    return {'type': 'array', 'items': _TEXT}
