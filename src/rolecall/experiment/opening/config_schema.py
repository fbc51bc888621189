"""A JSON schema of configs, for editors: the keys of entries with their types, and the names of parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rolecall.config_keys import KEYS, MODEL_PLACES, keys_of
from rolecall.core.prompts.template import TEMPLATES
from rolecall.core.render.meta import META_TEMPLATES
from rolecall.experiment.opening.tasks import INFERENCERS
from rolecall.models.backends import MODELS
from rolecall.models.model_names import FORMS
from rolecall.scoring.evaluators import METRICS
from rolecall.scoring.postprocessors import POSTPROCESSORS
from rolecall.sources.datasets.dataset import DATASETS
from rolecall.sources.retrievers.build import RETRIEVERS

Schema = dict[str, Any]

_TEXT = {'type': 'string'}


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
            keys_of('config'),
            models={'type': 'array', 'items': model},
            judge_models={'type': 'array', 'items': model},
            datasets={'type': 'array', 'items': _dataset(), 'minItems': 1},
            lint={'type': 'object', 'properties': _describe(keys_of('lint'), silence=_texts(), rules=_texts())},
            media_folders={'anyOf': [_TEXT, _texts()]},
        ),
        'patternProperties': {'_datasets$': {'type': 'array', 'items': _dataset()}},
        'required': ['datasets'],
    }


def _model() -> Schema:
    keys = keys_of('sampling', *(place for places in MODEL_PLACES.values() for place in places))
    families = {'anyOf': [{'enum': sorted(META_TEMPLATES)}, {'type': 'object'}, _TEXT]}
    price = {'type': 'object', 'properties': _describe(keys_of('price'))}
    return {**_entry(keys, MODELS, meta_template=families, price=price), 'required': ['type']}


def _dataset() -> Schema:
    template = _part('template', TEMPLATES)
    postprocessor = _part('', POSTPROCESSORS)
    reader = _describe(
        keys_of('reader'),
        input_columns={'anyOf': [_TEXT, _texts()]},
        output_column={'type': ['string', 'null']},
        **{key: {'type': ['string', 'number', 'null']} for key in ('train_range', 'test_range')},
    )
    asking = _describe(
        keys_of('infer'),
        prompt_template=template,
        ice_template=template,
        retriever=_part('retriever', RETRIEVERS),
        inferencer={'anyOf': [_type_of(INFERENCERS), _entry(keys_of('inferencer', 'sampling'), INFERENCERS)]},
    )
    scoring = _describe(
        keys_of('eval'),
        evaluator=_part('evaluator', METRICS),
        pred_postprocessor=postprocessor,
        dataset_postprocessor=postprocessor,
    )
    entry = _entry(
        keys_of('dataset'),
        DATASETS,
        reader_cfg={'type': 'object', 'properties': reader, 'additionalProperties': False},
        infer_cfg={'type': 'object', 'properties': asking},
        eval_cfg={'type': 'object', 'properties': scoring},
    )
    return {**entry, 'required': ['infer_cfg']}


def _part(place: str, names: Iterable[str]) -> Schema:
    """A part by its name, or with options."""
    return {'anyOf': [_type_of(names), _entry(keys_of(place), names)]}


def _type_of(names: Iterable[str]) -> Schema:
    return {'description': KEYS['type'].meaning, 'anyOf': [{'enum': sorted(names)}, _TEXT]}


def _entry(keys: Iterable[str], names: Iterable[str], **schemas: Schema) -> Schema:
    """An entry with a type and the given keys, the type first."""
    properties = _describe(sorted(set(keys) - {'type'}), **schemas)
    return {'type': 'object', 'properties': {'type': _type_of(names), **properties}}


def _describe(keys: Iterable[str], **schemas: Schema) -> dict[str, Schema]:
    """The schema of each key, with what it means; `schemas` say more than its declaration."""
    return {key: {'description': KEYS[key].meaning, **schemas.get(key, KEYS[key].schema())} for key in keys}


def _texts() -> Schema:
    return {'type': 'array', 'items': _TEXT}
