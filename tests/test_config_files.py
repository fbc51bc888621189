"""Config files: their syntax, what foreign names become, isolation, errors, places and printing."""

from __future__ import annotations

import copy
import doctest
import importlib
import json
import pickle
import re
import subprocess
import sys
import textwrap
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolecall.core.prompts.template import PromptTemplate
from rolecall.errors import ConfigError
from rolecall.experiment.opening.loading import load_config
from rolecall.sources.config.files import Config
from rolecall.sources.config.printing import format_config
from rolecall.sources.config.reference import Call, Reference, dotted_name
from rolecall.sources.retrievers import FixKRetriever

MODULES = ['execute', 'files', 'finder', 'locate', 'printing', 'reference', 'trouble']


def write(folder: Path, files: dict[str, str]) -> Path:
    """Writes files and returns the first."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip('\n'), encoding='utf-8')
    return folder / next(iter(files))


def load(folder: Path, files: dict[str, str], **options: object) -> Config:
    return load_config(write(folder, files), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize('name', MODULES)
def test_docstring_examples_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f'rolecall.sources.config.{name}')).failed == 0


SYNTAX = {
    'plain Python': (
        {
            'main.py': """
            import copy, os, re, json, math
            from itertools import product
            def entry(name, *, n=1):
                return dict(abbr=f'{name}-{n}')
            class Local: pass
            datasets = [entry(name, n=n) for name, n in product('ab', (1, 2))]
            for _d in datasets:
                _d['half'] = math.floor(1.5)
            work_dir = os.path.join('out', 'x')
            both = copy.deepcopy(datasets[:1])
            """
        },
        {
            'datasets': [{'abbr': f'{name}-{n}', 'half': 1} for name in 'ab' for n in (1, 2)],
            'work_dir': 'out/x',
            'both': [{'abbr': 'a-1', 'half': 1}],
        },
    ),
    'read_base with a relative import': (
        {
            'main.py': 'from mmengine.config import read_base\nwith read_base():\n    from .base import a, b as c\n',
            'base.py': 'a = [1]\nb = 2\nunused = 3\n',
        },
        {'a': [1], 'c': 2},
    ),
    'read_base from mmengine itself, and from here': (
        {
            'main.py': """
            from mmengine import read_base
            with read_base():
                from .one import x
            from rolecall.sources.config.finder import read_base as ours
            with ours():
                from .one import y
            """,
            'one.py': 'x = 1\ny = 2\n',
        },
        {'x': 1, 'y': 2},
    ),
    'imports outside read_base': ({'main.py': 'from .base import a\n', 'base.py': 'a = 1\n'}, {'a': 1}),
    'star import leaves private names behind': (
        {'main.py': 'from .base import *\n', 'base.py': 'a = 1\n_b = 2\n'},
        {'a': 1},
    ),
    'a private name imported by name can be used': (
        {'main.py': 'from .base import _b\nb = _b + 1\n', 'base.py': '_b = 2\n'},
        {'b': 3},
    ),
    'two levels up, through packages': (
        {'a/b/main.py': 'from ...c.d.e import x\n', 'c/d/e.py': 'from ..f import x\n', 'c/f.py': 'x = 7\n'},
        {'x': 7},
    ),
    'a module of a package': (
        {'main.py': 'from . import lib\nfrom .pack import y, inner\nx = lib.x + inner.z\n',
         'lib.py': 'x = 1\n', 'pack/__init__.py': 'y = 2\n', 'pack/inner.py': 'z = 3\n'},
        {'x': 4, 'y': 2},
    ),
    'a helper file beside the config, by its plain name': (
        {'main.py': 'import my_tools\nfrom my_tools import double\nx = double(my_tools.two)\n',
         'my_tools.py': 'two = 2\ndef double(n):\n    return 2 * n\n'},
        {'x': 4},
    ),
    'helper functions of another config': (
        {'main.py': 'from .base import make\ndatasets = [make("x")]\n',
         'base.py': 'prefix = "p-"\ndef make(name):\n    return dict(abbr=prefix + name)\n'},
        {'datasets': [{'abbr': 'p-x'}]},
    ),
    'attributes and deepcopy on imported dicts': (
        {'main.py': """
            from .base import reader, entries
            later = reader.deepcopy()
            later.split = 'dev'
            seen = [entries[0].infer.n, reader.split, hasattr(reader, 'nothing')]
            """,
         'base.py': "reader = dict(split='test')\nentries = [{'infer': {'n': 5}}]\n"},
        {'reader': {'split': 'test'}, 'entries': [{'infer': {'n': 5}}], 'later': {'split': 'dev'},
         'seen': [5, 'test', False]},
    ),
    'the file knows where it lies': (
        {'main.py': 'import os\nwith open(os.path.join(os.path.dirname(__file__), "p.txt")) as f:\n    text = f.read()\n'
                    'del f\n',
         'p.txt': 'hello'},
        {'text': 'hello'},
    ),
    'locals() at the top': (
        {'main.py': "from .b import *\ndatasets = sum((v for k, v in locals().items() if k.endswith('_datasets')), [])\n",
         'b.py': 'a_datasets = [dict(n=1)]\nb_datasets = [dict(n=2)]\n'},
        {'a_datasets': [{'n': 1}], 'b_datasets': [{'n': 2}], 'datasets': [{'n': 1}, {'n': 2}]},
    ),
    'a config may catch a missing import': (
        {'main.py': 'try:\n    from .nothing import x\nexcept ImportError:\n    x = 0\n'},
        {'x': 0},
    ),
    '_base_ merges key by key': (
        {'main.py': "_base_ = ['./one.py', 'sub/two.py']\nmodel = dict(a=dict(x=9))\nother = dict(_delete_=True, z=1)\n",
         'one.py': 'model = dict(a=dict(x=1, y=2), b=3)\n', 'sub/two.py': 'other = dict(q=1)\nkept = [1]\n'},
        {'model': {'a': {'x': 9, 'y': 2}, 'b': 3}, 'other': {'z': 1}, 'kept': [1]},
    ),
    'a coding cookie and a byte order mark': ({'main.py': '\ufeff# -*- coding: utf-8 -*-\nx = "问题"\n'}, {'x': '问题'}),
}  # fmt: skip


@pytest.mark.parametrize(('files', 'expected'), SYNTAX.values(), ids=SYNTAX)
def test_config_syntax(tmp_path: Path, files: dict[str, str], expected: dict[str, object]) -> None:
    config = load(tmp_path, files)
    assert {name: value for name, value in config.items() if name not in ('name', 'n')} == expected


def test_tools_of_the_file_stand_apart_from_its_values(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        {'main.py': 'import os\nfrom os import environ\nimport torch\ndef f(): pass\nclass C: pass\nx = 1\n_y = 2\n'},
    )
    assert dict(config) == {'x': 1}
    assert set(config.helpers) == {'os', 'environ', 'torch', 'f', 'C'}


FOREIGN = """
    import torch
    import transformers.models.auto as auto
    from opencompass.openicl.icl_prompt_template import PromptTemplate
    from ais_bench.benchmark.openicl.icl_retriever import FixKRetriever
    from opencompass.datasets import MMLUDataset
    from opencompass.registry import TEXT_POSTPROCESSORS
    from nobody_has_this_package.sub import thing
    import opencompass.openicl.icl_prompt_template as templates

    @TEXT_POSTPROCESSORS.register_module('mine')
    def mine(text):
        return text

    class Mine(MMLUDataset):
        pass

    values = [torch.float16, auto.AutoModel, PromptTemplate, FixKRetriever, MMLUDataset, thing]
    called = MMLUDataset('x', n=1)
    same = templates.PromptTemplate is PromptTemplate
    name = f'{MMLUDataset}'
    known = {MMLUDataset: 1}
    cleaned = mine('a')
    made = type(Mine()).__name__
"""


def test_foreign_names_become_ours_or_inert_references(tmp_path: Path) -> None:
    config = load(tmp_path, {'main.py': FOREIGN})
    mmlu = Reference('opencompass.datasets.MMLUDataset')
    assert config['values'] == [
        Reference('torch.float16'),
        Reference('transformers.models.auto.AutoModel'),
        PromptTemplate,
        FixKRetriever,
        mmlu,
        Reference('nobody_has_this_package.sub.thing'),
    ]
    assert config['called'] == Call(mmlu, ('x',), {'n': 1})
    assert (config['same'], config['name'], config['known'], config['cleaned'], config['made']) == (
        True,
        'opencompass.datasets.MMLUDataset',
        {mmlu: 1},
        'a',
        'Mine',
    )


def test_a_star_import_from_a_package_that_is_not_there_gives_the_names_the_file_uses(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        {
            'main.py': 'from opencompass.datasets import *\nmine = 1\ndef f():\n    return B\nx = [A, f(), mine, len("a")]\n'
        },
    )
    assert config['x'] == [Reference('opencompass.datasets.A'), Reference('opencompass.datasets.B'), 1, 1]


def test_a_reference_is_a_value_like_any_other() -> None:
    one = Reference('a.b')
    assert one == Reference('a').b
    assert one != Reference('a.c')
    assert one != 'a.b'
    assert len({one, Reference('a.b')}) == 1
    assert bool(one)
    assert str(one) == 'a.b'
    assert copy.deepcopy([one]) == [one]
    assert pickle.loads(pickle.dumps(one(1, x=2))) == one(1, x=2)
    assert dotted_name(one) == 'a.b'
    assert str(one(1).c) == 'a.b(1).c'
    with pytest.raises(AttributeError):
        one.x = 1
    with pytest.raises(TypeError):
        iter(one)  # type: ignore[call-overload]


PACKAGE = {'lagent/__init__.py': '', 'lagent/agents.py': 'class ReAct: pass\nDEFAULTS = [1, 2]\n'}


def test_the_real_class_is_used_only_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / 'site', PACKAGE)
    monkeypatch.syspath_prepend(tmp_path / 'site')
    source = 'from lagent.agents import ReAct\nfrom torch_npu import gone\ntypes = [ReAct, gone]\n'
    assert load(tmp_path, {'main.py': source})['types'][0] == Reference('lagent.agents.ReAct')
    assert 'lagent' not in sys.modules
    try:
        real, missing = load(tmp_path, {'main.py': source}, foreign='real')['types']
        assert isinstance(real, type)
        assert missing == Reference('torch_npu.gone')
    finally:
        sys.modules.pop('lagent', None)
        sys.modules.pop('lagent.agents', None)


def test_an_installed_package_that_cannot_be_imported_is_an_error_not_a_silent_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / 'site', {'ais_bench/__init__.py': '', 'ais_bench/datasets.py': 'import inspect\ninspect.gone\n'})
    monkeypatch.syspath_prepend(tmp_path / 'site')
    source = {'main.py': 'x = 1\nfrom ais_bench.datasets import AccEvaluator\ntypes = [AccEvaluator]\n'}
    assert load(tmp_path, source)['types'] == [Reference('ais_bench.datasets.AccEvaluator')]
    try:
        with pytest.raises(ConfigError) as caught:
            load(tmp_path, source, foreign='real')
        absent = {'main.py': 'from ais_bench.gone import AccEvaluator\ntypes = [AccEvaluator]\n'}
        assert load(tmp_path, absent, foreign='real')['types'] == [Reference('ais_bench.gone.AccEvaluator')]
    finally:
        sys.modules.pop('ais_bench', None)
    said = str(caught.value)
    assert 'main.py:2' in said
    assert "ais_bench.datasets is installed, but importing it raised AttributeError: module 'inspect'" in said
    assert "Repair its installation, or load the config without foreign='real'" in said


@pytest.mark.parametrize(
    ('main', 'base'),
    [
        ('tree/configs/evals/main.py', 'tree/configs/datasets/m/m_gen.py'),
        ('tree/examples/main.py', 'tree/opencompass/configs/datasets/m/m_gen.py'),
        ('tree/opencompass/configs/main.py', 'tree/opencompass/configs/datasets/m/m_gen.py'),
    ],
)
def test_config_packages_are_found_near_the_file(tmp_path: Path, main: str, base: str) -> None:
    source = 'with read_base():\n    from opencompass.configs.datasets.m.m_gen import m_datasets\n'
    files = {main: f'from mmengine.config import read_base\n{source}', base: 'm_datasets = [dict(a=1)]\n'}
    assert load(tmp_path, files)['m_datasets'] == [{'a': 1}]


@pytest.mark.parametrize('root', ['elsewhere', 'elsewhere/opencompass/configs'])
def test_further_roots_for_config_packages_can_be_given(tmp_path: Path, root: str) -> None:
    write(tmp_path, {'elsewhere/opencompass/configs/datasets/m.py': 'x = 1\n'})
    files = {'here/main.py': 'import opencompass.configs.datasets.m as m\nx = m.x\n'}
    assert load(tmp_path, files, roots=[tmp_path / root])['x'] == 1


def test_loading_leaves_no_trace_in_the_process(tmp_path: Path) -> None:
    modules, path = set(sys.modules), list(sys.path)
    load(tmp_path, {'main.py': 'from .base import a\nimport base2\n', 'base.py': 'a = 1\n', 'base2.py': ''})
    assert set(sys.modules) == modules
    assert sys.path == path


def test_a_config_changes_its_own_copy_of_what_it_imports(tmp_path: Path) -> None:
    files = {
        'main.py': 'from .left import base as a\nfrom .right import base as b\n',
        'left.py': "from .base import base\nbase['side'] = 'left'\nbase['list'].append(1)\n",
        'right.py': 'from .base import base\n',
        'base.py': 'base = dict(list=[])\n',
    }
    expected = {'a': {'list': [1], 'side': 'left'}, 'b': {'list': []}}
    assert dict(load(tmp_path, files)) == expected
    assert dict(load_config(tmp_path / 'main.py')) == expected


def test_two_names_from_one_file_share_what_they_shared_there(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        {'main.py': 'from .base import a\nfrom .base import b\n', 'base.py': 'a = dict(x=[])\nb = [a]\n'},
    )
    assert config['b'][0] is config['a']


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    files = {'main.py': 'from .base import x\n', 'base.py': 'x = 1\n'}
    assert load(tmp_path, files)['x'] == 1
    write(tmp_path, {'base.py': 'x = 1000\n'})
    assert load_config(tmp_path / 'main.py')['x'] == 1000


def test_many_threads_may_load_at_once(tmp_path: Path) -> None:
    main = write(tmp_path, {'main.py': 'from .base import x\nx.append(2)\n', 'base.py': 'x = [1]\n'})
    with ThreadPoolExecutor(8) as pool:
        assert all(config['x'] == [1, 2] for config in pool.map(load_config, [main] * 64))


def test_loading_imports_no_heavy_package(tmp_path: Path) -> None:
    main = write(tmp_path, {'main.py': FOREIGN})
    code = (
        'import sys; from rolecall import load_config; '
        f'load_config({str(main)!r}).locate("values"); '
        "print({'torch', 'transformers', 'numpy', 'pyarrow', 'datasets', 'jinja2', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'set()'


ERRORS = {
    'syntax': ({'main.py': 'x = 1\nmodels = [\n'}, 'main.py:2', 'was never closed', 'does not parse'),
    'not text': ({'main.py': 'x = "\0"\n'}, '', 'null byte', ''),
    'missing base': (
        {'main.py': 'x = 1\nfrom .gsm8k_gen import d\n', 'gsm8k_gen_1d7fe4.py': ''},
        'main.py:2',
        "config file not found: '.gsm8k_gen'",
        "'gsm8k_gen_1d7fe4'",
    ),
    'missing base in a folder': (
        {'main.py': 'from .sub.gen import d\n', 'sub/gem.py': ''},
        'main.py:1',
        "'.sub.gen'",
        "Did you mean 'gem'?",
    ),
    'missing config package': (
        {'configs/main.py': 'from opencompass.configs.datasets.mmlu import d\n', 'configs/datasets/mmlu_gen.py': ''},
        'main.py:1',
        "'opencompass.configs.datasets.mmlu'",
        "Did you mean 'mmlu_gen'?",
    ),
    'missing name in a base': (
        {'main.py': 'from .base import dataset\n', 'base.py': 'datasets = []\n'},
        'main.py:1',
        "base.py has no 'dataset'",
        "Did you mean 'datasets'?",
    ),
    'circular': (
        {'main.py': 'from .a import x\n', 'a.py': 'from .main import y\n'},
        'main.py',
        'circular import',
        'a third file',
    ),
    'misspelt name': ({'main.py': 'reader = 1\nx = raeder\n'}, 'main.py:2', 'raeder', "Did you mean 'reader'?"),
    'error in a base': (
        {'main.py': '\nfrom .base import x\n', 'base.py': 'x = {}\ny = x["k"]\n'},
        'base.py:2',
        "KeyError: 'k'",
        'imported at',
    ),
    'error in a function of the config': (
        {'main.py': 'def f():\n    raise ValueError("no")\n\nx = f()\n'},
        'main.py:2',
        'ValueError: no',
        '',
    ),
    'exit': ({'main.py': 'raise SystemExit(3)\n'}, 'main.py:1', 'SystemExit: 3', ''),
    'iterating over a reference': (
        {'main.py': 'from opencompass.datasets import names\nx = [n for n in names]\n'},
        'main.py:2',
        'not iterable',
        "foreign='real'",
    ),
    'models is a dict': ({'main.py': 'x = 1\nmodels = dict(a=1)\n'}, 'main.py:2: models', 'found dict', 'models = ['),
    'datasets is a list of lists': (
        {'main.py': 'a = [dict()]\ndatasets = [a, a]\n'},
        'main.py:2: datasets[0]',
        'found a list',
        '[*a_datasets',
    ),
    'model for models': (
        {'main.py': 'x = 1\nmodel = [dict(abbr="m")]\n'},
        'main.py:2: model',
        "unknown name 'model'",
        "Did you mean 'models'?",
    ),
    'models in disorder': ({'main.py': 'modles = [{}]\n'}, 'main.py:1: modles', 'no models', "Did you mean 'models'?"),
    'dataset for datasets': (
        {'main.py': 'from .base import *\nmodels = []\n', 'base.py': 'dataset = [dict(abbr="d")]\n'},
        'base.py:1: dataset',
        'no datasets',
        "Did you mean 'datasets'?",
    ),
    'a stray comma': ({'main.py': 'models = [dict()],\n'}, 'main.py:1: models[0]', 'found a list', 'comma'),
    'a wrong _base_': ({'main.py': '_base_ = 3\n'}, 'main.py', '_base_ must be a path or a list of paths, got 3', ''),
}


@pytest.mark.parametrize(('files', 'where', 'what', 'remedy'), ERRORS.values(), ids=ERRORS)
def test_errors_say_where_what_and_what_to_do(
    tmp_path: Path, files: dict[str, str], where: str, what: str, remedy: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, files)
    problem = caught.value.problems[0]
    assert problem.where.endswith(where)
    assert what in problem.what
    assert remedy in problem.remedy


def test_a_missing_file_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    write(tmp_path, {'gsm8k.py': ''})
    with pytest.raises(ConfigError, match=r"Did you mean 'gsm8k\.py'"):
        load_config(tmp_path / 'gms8k.py')


def test_every_wrong_shape_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {'main.py': 'models = 1\ndatasets = [[], dict(), []]\n'})
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    'main',
    [
        'model = [dict(abbr="m")]\nmodels = [*model]\n',
        'dataset = [dict(abbr="d")]\ndatasets = dataset\n',
        'model = dict(abbr="m")\nmodels = []\n',
        'dataset = ["gsm8k", "mmlu"]\n',
        'dataset = []\n',
        'nq_datasets = [dict(abbr="nq")]\nmy_models = [dict(abbr="m")]\n',
        'summarizer = [dict(abbr="s")]\nmodules = [dict(abbr="t")]\n',
    ],
)
def test_names_of_the_users_own_are_left_alone(tmp_path: Path, main: str) -> None:
    assert load(tmp_path, {'main.py': main})


def test_the_traceback_of_the_users_code_is_kept(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {'main.py': 'def helper():\n    return 1 / 0\n\nx = helper()\n'})
    cause = caught.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    frames = [f for f in traceback.extract_tb(cause.__traceback__) if f.filename.endswith('main.py')]
    assert [(frame.lineno, frame.line) for frame in frames] == [(4, 'x = helper()'), (2, 'return 1 / 0')]


PLACES = {
    'main.py': """
        import copy
        from .base import infer_cfg, shared
        work_dir = 'out'
        twice = 1
        twice = 2
        datasets = []
        for name in ['a', 'b']:
            datasets.append(
                dict(
                    abbr=name,
                    n=3,
                    infer_cfg=infer_cfg,
                    other={'x y': 1, **shared},
                )
            )
        datasets[0]['n'] = 4
        copied = copy.deepcopy(infer_cfg)
        joined = datasets + [dict(z=1)]
        """,
    'base.py': """
        infer_cfg = dict(
            retriever=dict(type='Zero'),
            labels=['A',
                    'B'])
        shared = {'x y': 2}
        """,
}


@pytest.mark.parametrize(
    ('place', 'expected'),
    [
        ('work_dir', 'main.py:3'),
        ('twice', None),
        ('datasets', 'main.py:6'),
        ('datasets[1]', 'main.py:9'),
        ('datasets[1].abbr', 'main.py:10'),
        ('datasets[1].n', 'main.py:11'),
        ('datasets[0].n', None),
        ('datasets[0].infer_cfg', 'base.py:1'),
        ('datasets[0].infer_cfg.retriever', 'base.py:2'),
        ('datasets[0].infer_cfg.retriever.type', 'base.py:2'),
        ('datasets[0].infer_cfg.labels[1]', 'base.py:4'),
        ("datasets[0].other['x y']", None),
        ('copied.retriever', None),
        ('copied', 'main.py:17'),
        ('joined', 'main.py:18'),
        ('joined[2].z', 'main.py:18'),
        ('joined[0].abbr', 'main.py:10'),
        ('datasets[7]', None),
        ('nothing', None),
        ('datasets[', None),
        ('', None),
    ],
)
def test_values_can_be_located(tmp_path: Path, place: str, expected: str | None) -> None:
    found = load(tmp_path, PLACES).locate(place)
    assert found == (None if expected is None else f'{tmp_path / expected}')


@pytest.mark.parametrize(
    ('place', 'expected'),
    [
        ('datasets[0].infer_cfg.labels[9].x', 'base.py:3'),
        ('datasets[0].n', 'main.py:9'),
        ("datasets[0].other['x y']", 'main.py:13'),
        ('nothing[0].at.all', 'main.py'),
    ],
)
def test_the_nearest_known_place_is_found(tmp_path: Path, place: str, expected: str) -> None:
    assert load(tmp_path, PLACES).locate_nearest(place) == f'{tmp_path / expected}'


def test_a_value_that_differs_from_run_to_run_is_not_located(tmp_path: Path) -> None:
    config = load(tmp_path, {'main.py': 'import itertools, os\nx = [os.urandom(8)]\ny = [1]\n'})
    assert config.locate('x') is None
    assert config.locate('y') == f'{tmp_path / "main.py"}:3'


def test_locating_does_not_print_what_the_config_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = load(tmp_path, {'main.py': 'print("once")\nx = [1]\n'})
    assert config.locate('x')
    assert capsys.readouterr().err == 'once\n'


def test_a_config_is_a_frozen_mapping_that_can_be_pickled(tmp_path: Path) -> None:
    config = load(tmp_path, {'main.py': 'models = [dict(a=1)]\n'})
    with pytest.raises(TypeError):
        config['models'] = []  # type: ignore[index]
    again = pickle.loads(pickle.dumps(config))
    assert dict(again) == dict(config)
    assert again.locate('models') == config.locate('models')
    assert 'models' in repr(config)


KEYS = st.text('abc_', min_size=1, max_size=5) | st.sampled_from(['class', 'a b', '题', 'x.y'])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS | st.sampled_from([Reference('torch.float16'), Reference('a.b.C'), Reference('z.C')]),
    lambda inner: (
        st.lists(inner, max_size=8)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.sets(st.integers(), max_size=5)
        | inner.map(lambda value: Reference('a.b.make')(value, x=value))
    ),
    max_leaves=25,
)
NAMES = st.sampled_from(['models_of_mine', 'work_dir', 'C', 'x'])


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=150
)
@given(st.dictionaries(NAMES, VALUES, min_size=1))
def test_printing_as_python_loads_to_the_same_config(tmp_path: Path, names: dict[str, object]) -> None:
    file = tmp_path / 'printed.py'
    file.write_text(format_config(names), encoding='utf-8')
    loaded = load_config(file)
    assert {name: (loaded.helpers | dict(loaded))[name] for name in names} == names


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=60
)
@given(st.lists(st.dictionaries(st.text('ab', min_size=1, max_size=3), st.integers(), max_size=30), min_size=1))
def test_a_located_line_is_the_line_that_says_the_value(tmp_path: Path, entries: list[dict[str, int]]) -> None:
    file = tmp_path / 'printed.py'
    file.write_text(format_config({'entries': entries}), encoding='utf-8')
    config = load_config(file)
    lines = file.read_text(encoding='utf-8').splitlines()
    for index, entry in enumerate(entries):
        for key, value in entry.items():
            found = config.locate(f'entries[{index}].{key}')
            assert found
            assert f'{key}={value}' in lines[int(found.rpartition(':')[2]) - 1]


@given(st.dictionaries(st.text(), VALUES))
def test_printing_as_json_is_json(names: dict[str, object]) -> None:
    assert list(json.loads(format_config(names, style='json'))) == list(names)


def test_printing_is_readable(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        {
            'main.py': """
            from opencompass.datasets import MMLUDataset
            from elsewhere.datasets import MMLUDataset as Other
            def own(text): return text
            datasets = [dict(
                abbr='mmlu', type=MMLUDataset, other=Other, post=own, ids=list(range(40)),
                prompt='First line of the question, long enough to be folded.\\nSecond line.\\nAnswer: ',
                labels={'A': 1, 0: 'x'}, one=(1,))]
            """
        },
    )
    assert re.sub(r'# .*main', '# main', format_config(config)) == (
        '# main.py\n\n'
        'from elsewhere.datasets import MMLUDataset as MMLUDataset_2\n'
        'from opencompass.datasets import MMLUDataset\n\n'
        'datasets = [\n'
        '    dict(\n'
        "        abbr='mmlu',\n"
        '        type=MMLUDataset,\n'
        '        other=MMLUDataset_2,\n'
        '        post=own,\n'
        '        ids=[\n'
        '            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,\n'
        '            24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39,\n'
        '        ],\n'
        '        prompt=(\n'
        "            'First line of the question, long enough to be folded.\\n'\n"
        "            'Second line.\\n'\n"
        "            'Answer: '\n"
        '        ),\n'
        "        labels={'A': 1, 0: 'x'},\n"
        '        one=(1,),\n'
        '    ),\n'
        ']'
    )
    plain = json.loads(format_config(config, style='json'))['datasets'][0]
    assert plain['type'] == 'opencompass.datasets.MMLUDataset'
    assert plain['labels'] == {'A': 1, '0': 'x'}


def test_a_config_that_contains_itself_can_be_printed() -> None:
    entry: dict[str, object] = {}
    entry['self'] = entry
    assert format_config({'x': entry}) == 'x = dict(self=...)'
    assert json.loads(format_config({'x': entry}, style='json')) == {'x': {'self': '...'}}


def test_the_examples_of_the_documentation_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[1] / 'docs' / 'configs.md').read_text(encoding='utf-8')
    for block in re.findall(r'```python\n(# (\S+\.py)\n.*?)```', text, re.DOTALL):
        write(tmp_path, {block[1]: block[0]})
    monkeypatch.chdir(tmp_path)
    session = '\n'.join(re.findall(r'```pycon\n(.*?)```', text, re.DOTALL))
    test = doctest.DocTestParser().get_doctest(session, {}, 'docs/configs.md', None, None)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0
