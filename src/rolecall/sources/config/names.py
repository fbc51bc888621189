"""Maps other systems' names to ours, and lists the packages a config may name without having them installed."""

from __future__ import annotations

import importlib
import sys
from functools import cache

from rolecall.registry import REFERENCE_SYSTEMS
from rolecall.sources.config.trouble import BrokenPackageError

CONFIG_PACKAGES = ('opencompass.configs', 'ais_bench.benchmark.configs')
"""Packages of config files. They are read as files wherever they lie, and never imported."""

FOREIGN = REFERENCE_SYSTEMS | {
    'accelerate', 'anthropic', 'datasets', 'deepspeed', 'evalplus', 'evaluate', 'faiss', 'jax', 'lagent', 'lazyllm',
    'lmdeploy', 'modelscope', 'openai', 'peft', 'ray', 'sentence_transformers', 'sglang', 'tensorflow', 'torch',
    'torch_npu', 'torchvision', 'transformers', 'vllm', 'xtuner',
}  # fmt: skip
"""Packages a config may name that are imported only on request: they are slow to import, or not installed."""


def is_foreign(module: str) -> bool:
    """Whether a module belongs to a package that stays a reference.

    >>> is_foreign('torch.nn'), is_foreign('json')
    (True, False)
    """
    return module.partition('.')[0] in FOREIGN


def is_standard(module: str) -> bool:
    """Whether a module comes with Python."""
    return module.partition('.')[0] in sys.stdlib_module_names


def resolve(dotted: str, /) -> object | None:
    """Our object for a name of OpenCompass, AISBench or mmengine, or None.

    >>> resolve('opencompass.openicl.icl_prompt_template.PromptTemplate').__name__
    'PromptTemplate'
    >>> resolve('opencompass.datasets.MMLUDataset') is None
    True
    """
    package, _, rest = dotted.partition('.')
    ours = _find_ours().get(rest.rpartition('.')[2]) if package in REFERENCE_SYSTEMS else None
    if ours is None:
        return None
    module, _, name = ours.partition(':')
    value: object = getattr(importlib.import_module(module), name)
    return value


@cache
def _find_ours() -> dict[str, str]:
    """The last part of a foreign dotted name -> the path of our object, imported only when a config names it."""
    from rolecall.core.prompts.template import TEMPLATES
    from rolecall.sources.retrievers.build import RETRIEVERS

    return {
        'read_base': 'rolecall.sources.config.finder:read_base',
        'GenInferencer': 'rolecall.experiment.inferencers.generation:GenInferencer',
        'SCInferencer': 'rolecall.experiment.inferencers.generation:SCInferencer',
        'MultiTurnGenInferencer': 'rolecall.experiment.inferencers.generation:MultiTurnGenInferencer',
        'CLPInferencer': 'rolecall.experiment.inferencers.likelihood:CLPInferencer',
        'LLInferencer': 'rolecall.experiment.inferencers.likelihood:LLInferencer',
        'PPLInferencer': 'rolecall.experiment.inferencers.perplexity:PPLInferencer',
        'PPLOnlyInferencer': 'rolecall.experiment.inferencers.perplexity:PPLOnlyInferencer',
        **{name: str(TEMPLATES.declared(name)) for name in TEMPLATES},
        **{name: str(RETRIEVERS.declared(name)) for name in RETRIEVERS},
    }


def resolve_real(dotted: str, /) -> object | None:
    """Ours for templates, retrievers and inferencers, else the real object of an installed package, else None.

    Imports the package, whatever that costs.
    """
    ours = resolve(dotted)
    if ours is not None:
        return ours
    module, _, name = dotted.rpartition('.')
    try:
        owner: object = importlib.import_module(module)
        if not hasattr(owner, name):
            return importlib.import_module(dotted)
    except Exception as error:  # a package may fail to import in any way
        if _is_absent(dotted, error) or dotted.partition('.')[0] not in REFERENCE_SYSTEMS:
            return None  # the name stays a reference
        raise BrokenPackageError(module, error) from error
    value: object = getattr(owner, name)
    return value


def _is_absent(dotted: str, error: Exception) -> bool:
    """Whether the package is not installed, or has no such module."""
    return isinstance(error, ModuleNotFoundError) and f'{dotted}.'.startswith(f'{error.name}.')


_REGISTERED = {
    'evaluator': 'ICL_EVALUATORS',
    'pred_postprocessor': 'TEXT_POSTPROCESSORS',
    'dataset_postprocessor': 'TEXT_POSTPROCESSORS',
    'model_postprocessor': 'TEXT_POSTPROCESSORS',
    'dict_postprocessor': 'DICT_POSTPROCESSORS',
    'prompt_template': 'ICL_PROMPT_TEMPLATES',
    'ice_template': 'ICL_PROMPT_TEMPLATES',
}


def resolve_registered(key: str, name: str) -> object | None:
    """What OpenCompass or AISBench registers under a bare name, for an entry under this key of a config."""
    registry = _REGISTERED.get(key)
    for module in ('opencompass.registry', 'ais_bench.benchmark.registry') if registry else ():
        try:
            part: object = getattr(importlib.import_module(module), str(registry)).get(name)
        except Exception:  # not installed, or not importable here
            continue
        if part is not None:
            return part
    return None
