"""The package in examples/plugin, installed into a folder of its own and used by the names that it gives its parts."""

from __future__ import annotations

import shutil
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from rolecall import RolecallError, lint_config, preview, run_config
from rolecall.ui.cli.config.list import KINDS
from rolecall.ui.cli.main import main

PLUGIN = Path(__file__).parents[1] / 'examples' / 'plugin'


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What an installer makes of the package: its module and its metadata."""
    project = pytest.importorskip('tomllib').loads((PLUGIN / 'pyproject.toml').read_text())['project']
    site = tmp_path / 'site'
    info = site / f'rolecall_example_parts-{project["version"]}.dist-info'
    info.mkdir(parents=True)
    (info / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: {project["name"]}\nVersion: {project["version"]}\n')
    groups = project['entry-points'].items()
    listed = [
        f'[{group}]\n' + '\n'.join(f'{name} = {path}' for name, path in points.items()) for group, points in groups
    ]
    (info / 'entry_points.txt').write_text('\n'.join(listed))
    shutil.copy(PLUGIN / 'example_parts.py', site)
    monkeypatch.syspath_prepend(site)
    return site


def config(**entry: Any) -> dict[str, Any]:
    ask = dict(round=[dict(role='HUMAN', prompt='Q: {question}'), dict(role='BOT', prompt='{answer}')])
    return dict(
        models=[dict(abbr='calculator', type='Calculator', meta_template='arrows', words='It is {}!')],
        datasets=[
            dict(
                abbr='sums',
                type='Sums',
                count=5,
                reader_cfg=dict(input_columns=['question'], output_column='answer'),
                infer_cfg=dict(
                    ice_template=dict(template=ask),
                    prompt_template=dict(template=dict(begin=['</E>'], **ask), ice_token='</E>'),
                    retriever=dict(type='LastRetriever', ice_num=2),
                    inferencer=dict(type='AskAgain', attempts=2),
                ),
                eval_cfg=dict(evaluator='distance', pred_postprocessor='last_word'),
                **entry,
            )
        ],
    )


@pytest.mark.usefixtures('installed')
def test_a_run_with_nothing_but_plugins(tmp_path: Path) -> None:
    first = next(preview(config()))
    assert first.shots == (1, 2)
    assert str(first.request).startswith('>> Q: ')
    assert str(first.request).endswith('<< ')
    summary = run_config(config(), out=tmp_path / 'run')
    assert summary.outcomes == {'ok': 5}
    assert [(card.metric, card.value) for card in summary.scorecards] == [('distance', 0.0)]


@pytest.mark.usefixtures('installed')
def test_a_template_of_a_plugin() -> None:
    row = {'question': 'Which?', 'A': '1', 'B': '2', 'answer': 'A'}
    entry = {
        'type': 'Rows',
        'test': [row],
        'reader_cfg': {'input_columns': ['question', 'A', 'B'], 'output_column': 'answer'},
        'infer_cfg': {'prompt_template': {'type': 'ChoicesTemplate', 'letters': 'AB'}},
    }
    assert next(preview({'datasets': [entry]})).prompt == 'Which?\nA. 1\nB. 2\nAnswer: '


@pytest.mark.usefixtures('installed')
def test_a_lint_rule_of_a_plugin_runs_and_can_be_silenced() -> None:
    entry = {
        'abbr': 'loud',
        'type': 'Rows',
        'test': [{'question': 'WHAT IS IT', 'answer': 'x'}],
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
        'infer_cfg': {'prompt_template': {'template': '{question} {answer}'}},
    }
    assert 'shouting' in [finding.rule for finding in lint_config({'datasets': [entry]})]
    assert 'shouting' not in [finding.rule for finding in lint_config({'datasets': [entry]}, silence=['shouting'])]


def test_a_lint_rule_beside_the_config_is_named_by_it_and_blamed_for_what_it_raises(tmp_path: Path) -> None:
    (tmp_path / 'myrules.py').write_text(
        'from rolecall.experiment.lint import Rule\n'
        "RAISES = Rule(name='raises', severity='info', description='d', remedy='r', levels=('dataset',),\n"
        '    each=lambda subject, asked: 1 / 0)\n'
    )
    (tmp_path / 'config.py').write_text(
        "lint = dict(rules=['myrules.RAISES'])\n"
        "datasets = [dict(abbr='d', type='Rows', test=[dict(q='x')],\n"
        "    infer_cfg=dict(prompt_template=dict(template='{q}')))]\n"
    )
    with pytest.raises(RolecallError, match=r"the lint rule 'raises' raised ZeroDivisionError.*myrules.py:3"):
        lint_config(tmp_path / 'config.py')


@pytest.mark.usefixtures('installed')
def test_every_part_is_listed_with_its_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['config', 'list']) == 0
    listed = [line for line in capsys.readouterr().out.splitlines() if '[rolecall-example-parts 1.0]' in line]
    groups = {f'rolecall.{kind}' for kind in KINDS}
    offered = [
        point for group in groups for point in entry_points(group=group) if point.value.startswith('example_parts')
    ]
    assert {point.group for point in offered} == groups
    assert len(listed) == len(offered)
    assert any('distance' in line and 'How far the predicted number is from the right one.' in line for line in listed)


def test_without_the_package_the_names_are_unknown() -> None:
    with pytest.raises(Exception, match="unknown retriever 'LastRetriever'"):
        next(preview(config()))
