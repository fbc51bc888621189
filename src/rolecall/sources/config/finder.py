"""Resolves what a config file imports: configs to files, relative to the importing file and never through sys.path;
names of other systems to ours; packages that it may name without having them to references."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache
from importlib.machinery import ModuleSpec

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
        'GenInferencer': 'rolecall.experiment.inferencers.inferencer:GenInferencer',
        'SCInferencer': 'rolecall.experiment.inferencers.inferencer:SCInferencer',
        'MultiTurnGenInferencer': 'rolecall.experiment.inferencers.inferencer:MultiTurnGenInferencer',
        'CLPInferencer': 'rolecall.experiment.inferencers.likelihood:CLPInferencer',
        'LLInferencer': 'rolecall.experiment.inferencers.likelihood:LLInferencer',
        'PPLInferencer': 'rolecall.experiment.inferencers.losses:PPLInferencer',
        'PPLOnlyInferencer': 'rolecall.experiment.inferencers.losses:PPLOnlyInferencer',
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


in_read_base: ContextVar[bool] = ContextVar('in_read_base', default=False)


class _ReadBase(AbstractContextManager[None]):
    def __enter__(self) -> None:
        self.token = in_read_base.set(True)

    def __exit__(self, *exc: object) -> None:
        in_read_base.reset(self.token)


def read_base() -> AbstractContextManager[None]:
    """Marks imports that bring in another config: `with read_base(): from .gsm8k import gsm8k_datasets`.

    Relative imports read config files without it too; inside it, absolute ones do as well.
    """
    return _ReadBase()


def find_relative(folder: str, parts: Sequence[str]) -> str | None:
    """The file of a module inside a folder, or the folder itself where it is a package without `__init__.py`."""
    base = os.path.join(folder, *parts)
    for candidate in (f'{base}.py', os.path.join(base, '__init__.py')):
        if parts and os.path.isfile(candidate):
            return candidate
    return base if os.path.isdir(base) else None


def config_package(module: str) -> tuple[str, tuple[str, ...]] | None:
    """The config package a module belongs to, and its path inside it.

    >>> config_package('opencompass.configs.datasets.gsm8k.gsm8k_gen')
    ('opencompass.configs', ('datasets', 'gsm8k', 'gsm8k_gen'))
    >>> config_package('opencompass.datasets') is None
    True
    """
    for package in CONFIG_PACKAGES:
        if module == package or module.startswith(f'{package}.'):
            return package, tuple(module[len(package) + 1 :].split('.')) if module != package else ()
    return None


def find_config_module(module: str, *, importer: str, roots: Sequence[str]) -> str | None:
    """The file behind an absolute import of a config, as seen from the file that imports it."""
    package_parts = config_package(module)
    package, inner = package_parts if package_parts else ('', ())
    if package_parts:
        for folder in _config_folders(package, importer=importer, roots=roots):
            if file := find_relative(folder, inner):
                return file
    parts = module.split('.')
    for folder in (*roots, *_find_installed(parts[0])):
        if file := find_relative(folder, parts):
            return file
    return None


def near_names(folder: str, parts: Sequence[str]) -> list[str]:
    """Similar names in the folder where a missing module was looked for, nearest first."""
    while parts[:-1] and not os.path.isdir(os.path.join(folder, *parts[:-1])):
        parts = parts[:-1]
    folder = os.path.join(folder, *parts[:-1])
    if not parts or not os.path.isdir(folder):
        return []
    names = sorted({name.removesuffix('.py') for name in os.listdir(folder) if not name.startswith(('_', '.'))})
    return difflib.get_close_matches(parts[-1], names, n=3)


def _config_folders(package: str, *, importer: str, roots: Sequence[str]) -> Iterator[str]:
    tail = package.replace('.', os.sep)
    for root in roots:
        yield root
        yield os.path.join(root, tail)
    folder = os.path.dirname(importer)
    while True:
        if os.path.basename(folder) == 'configs':
            yield folder
        yield os.path.join(folder, tail)
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent


def is_installed(package: str) -> bool:
    """Whether Python could import a package; it is not imported to find out."""
    return _spec(package) is not None


def _spec(package: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None


def _find_installed(package: str) -> list[str]:
    """The folders that hold an installed package."""
    spec = _spec(package)
    places = spec.submodule_search_locations if spec else None
    return [os.path.dirname(place) for place in places or ()]
