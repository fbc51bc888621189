"""A JSON schema of configs, for editors: the keys of entries with their types, and the names of parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rolecall.datasets.dataset import DATASETS
from rolecall.models.backends import MODELS
from rolecall.models.entry_keys import ANTHROPIC_KEYS, FUNCTION_KEYS, LLAMA_KEYS, OPENAI_KEYS, TRANSFORMERS_KEYS
from rolecall.models.model_names import FORMS
from rolecall.pairs.inferencer_entries import INFERENCER_OPTIONS, INFERENCERS
from rolecall.pairs.sampling import SAMPLING_OPTIONS
from rolecall.prompts.template import TEMPLATES
from rolecall.render.families import META_TEMPLATES
from rolecall.retrievers.build import RETRIEVERS
from rolecall.scoring.evaluators import METRICS
from rolecall.scoring.postprocessors import POSTPROCESSORS

__all__ = ['config_schema']

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
    'price': {'type': 'object', 'properties': {'input': _NUMBER, 'output': _NUMBER}},
    'chat_template': {'type': ['boolean', 'string']},
}


def config_schema() -> Schema:
    """The schema of YAML and JSON configs.

    >>> sorted(config_schema()['properties'])
    ['datasets', 'groups', 'lint', 'media_folders', 'models', 'work_dir']
    """
    return {
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        'title': 'rolecall config',
        'type': 'object',
        'properties': {
            'models': {'type': 'array', 'items': {'anyOf': [{'type': 'string', 'description': FORMS}, _model()]}},
            'datasets': {'type': 'array', 'items': _dataset(), 'minItems': 1},
            'groups': {'type': 'object', 'description': 'datasets that are averaged, by name'},
            'lint': {'type': 'object', 'properties': {'silence': _texts(), 'rules': _texts()}},
            'media_folders': {'anyOf': [_TEXT, _texts()]},
            'work_dir': _TEXT,
        },
        'patternProperties': {'_datasets$': {'type': 'array', 'items': _dataset()}},
        'required': ['datasets'],
    }


def _model() -> Schema:
    keys = {*OPENAI_KEYS, *ANTHROPIC_KEYS, *LLAMA_KEYS, *TRANSFORMERS_KEYS, *FUNCTION_KEYS, *SAMPLING_OPTIONS}
    schema = _entry(keys, MODELS)
    schema['properties']['meta_template'] = {'anyOf': [{'enum': sorted(META_TEMPLATES)}, {'type': 'object'}, _TEXT]}
    schema['required'] = ['type']
    return schema


def _dataset() -> Schema:
    keys = ('abbr', 'path', 'name', 'n', 'k', 'data_files', 'train', 'test', 'format', 'encoding', 'on_error', 'lint')
    schema = _entry(keys, DATASETS)
    schema['properties'] |= {
        'reader_cfg': {
            'type': 'object',
            'properties': {
                'input_columns': {'anyOf': [_TEXT, _texts()]},
                'output_column': {'type': ['string', 'null']},
                **dict.fromkeys(('train_split', 'test_split'), _TEXT),
                **{key: {'type': ['string', 'integer', 'null']} for key in ('train_range', 'test_range')},
            },
            'additionalProperties': False,
        },
        'infer_cfg': {
            'type': 'object',
            'properties': {
                **dict.fromkeys(('prompt_template', 'ice_template'), _part(('template', 'ice_token'), TEMPLATES)),
                'retriever': _part(('ice_num', 'fix_id_list', 'ice_separator', 'seed', 'k'), RETRIEVERS),
                'inferencer': _part(INFERENCER_OPTIONS, INFERENCERS),
            },
        },
        'eval_cfg': {
            'type': 'object',
            'properties': {
                'evaluator': _part(('pred_postprocessor', 'judge_cfg', 'prompt_template'), METRICS),
                **dict.fromkeys(('pred_postprocessor', 'dataset_postprocessor'), _part((), POSTPROCESSORS)),
                'cluster': _TEXT,
            },
        },
    }
    schema['required'] = ['infer_cfg']
    return schema


def _part(keys: Iterable[str], names: Iterable[str]) -> Schema:
    """A part by its name, or with options."""
    schema = _entry(keys, names)
    return {'anyOf': [schema['properties']['type'], schema]}


def _entry(keys: Iterable[str], names: Iterable[str]) -> Schema:
    properties = {key: _TYPES.get(key, {}) for key in sorted(keys)}
    return {'type': 'object', 'properties': {**properties, 'type': {'anyOf': [{'enum': sorted(names)}, _TEXT]}}}


def _texts() -> Schema:
    return {'type': 'array', 'items': _TEXT}
