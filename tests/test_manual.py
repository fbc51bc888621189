"""The pages that lead a newcomer are executed: their files, commands and Python, with the output they show."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import rolecall
from pages import read_blocks, run_page
from rolecall.core.prompts.template import build_template
from rolecall.experiment.lint.entry_subjects import unknown_model_keys
from rolecall.experiment.opening.tasks import InferencerEntry
from rolecall.models.backends import MODELS
from rolecall.scoring.evaluate import build_scorer
from rolecall.scoring.evaluators import METRICS
from rolecall.sources.datasets import Reader
from rolecall.sources.datasets.dataset import DATASETS
from rolecall.sources.retrievers import build_retriever
from rolecall.ui.cli.main import _COMMANDS, build_parser

ROOT = Path(__file__).parent.parent
MIGRATION = ('from-opencompass', 'from-aisbench', 'from-lazyllm', 'from-lm-eval', 'from-promptfoo')
QUICK = (
    'own-data',
    'own-model',
    'few-shot',
    'self-consistency',
    'enough',
    'sweep',
    'judge',
    'labels',
    'scan',
    'multimodal',
    'resume',
    'ci',
    'explain',
    'reproduce',
    'serving',
    *MIGRATION,
)
WITH_A_MODEL = ('tutorial', 'perplexity', 'price')


def _check(name: str) -> None:
    ran = run_page((ROOT / 'docs' / f'{name}.md').read_text(encoding='utf-8'))
    assert ran
    for one in ran:
        assert one.holds, (
            f'$ {one.command}\nends with {one.code} and prints\n{one.printed}but the page says\n{one.expected}'
        )


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr('sys.argv', ['rolecall'])
    monkeypatch.setenv('COLUMNS', '100')


@pytest.mark.parametrize('name', QUICK)
def test_the_commands_of_a_page_print_what_it_shows(name: str) -> None:
    _check(name)


@pytest.mark.heavy
@pytest.mark.parametrize('name', WITH_A_MODEL)
def test_the_commands_of_a_page_with_the_embedded_model_print_what_it_shows(name: str) -> None:
    pytest.importorskip('xllamacpp')
    _check(name)


def test_a_page_that_shows_other_output_is_noticed() -> None:
    page = '```text title="rows.csv"\nq,a\n1,2\n```\n\n```console\n$ rolecall view rows.csv --template "{q}" --answer a\n{}\n```\n'
    [true] = run_page(page.replace('{}', '…'))
    [wrong] = run_page(page.replace('{}', '== rows · row 0 · gen\nfield x │1'))
    assert true.holds
    assert not wrong.holds


def test_the_chinese_tutorial_runs_what_the_english_one_runs() -> None:
    english, chinese = (
        [block.text for block in read_blocks((ROOT / 'docs' / name).read_text(encoding='utf-8')) if not block.why_not]
        for name in ('tutorial.md', 'tutorial.zh.md')
    )
    assert chinese == english


def _right_hand_sides(name: str) -> list[str]:
    """What stands in code on the right of a page's tables."""
    page = (ROOT / 'docs' / f'{name}.md').read_text(encoding='utf-8')
    cells = [line.strip().strip('|').split(' | ')[-1] for line in page.splitlines() if line.startswith('| ')]
    return [code for cell in cells for code in re.findall(r'`([^`]+)`', cell)]


@pytest.mark.parametrize('name', MIGRATION)
def test_the_right_hand_sides_of_a_migration_table_are_valid(name: str) -> None:
    checked = [_check_code(code) for code in _right_hand_sides(name)]
    assert sum(checked) >= 4


def _check_code(code: str) -> bool:
    """Whether a piece of code could be checked; it fails if it is wrong."""
    if code.startswith('rolecall '):
        build_parser([]).parse_args(shlex.split(code)[1:])
        return True
    if code.startswith('rolecall.'):
        return hasattr(rolecall, code.removeprefix('rolecall.').partition('(')[0]) or pytest.fail(code)
    if re.match(r'--\w', code):
        build_parser([]).parse_args(['run', 'x.py', *shlex.split(code)])
        return True
    if re.match(r'\w+=dict\(', code):
        key, _, value = code.partition('=')
        return _check_entry(key, eval(value, {'dict': dict}))
    if re.match(r'\w+: [\[{]', code) or code.startswith('{type'):
        read = yaml.safe_load(code)
        return all(_check_entry(key, value) for key, value in (read if 'type' not in read else {'': read}).items())
    return False


def _check_entry(key: str, value: Any) -> bool:
    """Give a fragment of a config to whatever reads it."""
    readers: dict[str, Callable[[Any], object]] = {
        'prompt_template': build_template,
        'reader_cfg': Reader.from_config,
        'retriever': build_retriever,
        'inferencer': lambda entry: InferencerEntry.read(
            entry['type'], {k: v for k, v in entry.items() if k != 'type'}
        ),
        'evaluator': lambda entry: True if '.' in entry['type'] or entry['type'] in METRICS else None,
        'pred_postprocessor': lambda entry: build_scorer({'evaluator': 'AccEvaluator', 'pred_postprocessor': entry}),
        'models': lambda names: [rolecall.resolve_model(name) for name in names if '.py' not in name],
        'test': lambda rows: rows,
        '': lambda entry: (entry['type'] in MODELS and not list(unknown_model_keys(entry))) or DATASETS[entry['type']],
    }
    return readers[key](value) is not None


def test_the_drawings_are_what_the_script_draws_now() -> None:
    spec = importlib.util.spec_from_file_location('drawings', ROOT / 'tools' / 'drawings.py')
    assert spec is not None
    assert spec.loader is not None
    drawings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawings)
    for name, draw in drawings.DRAWINGS.items():
        assert (ROOT / 'docs' / 'images' / name).read_text(encoding='utf-8') == draw(), 'python tools/drawings.py'


PAGES = sorted([ROOT / 'README.md', ROOT / 'README.zh.md', ROOT / 'SECURITY.md', *(ROOT / 'docs').glob('*.md')])


def _typed(page: str) -> list[str]:
    """The commands of ours in the console and shell blocks of a page, without what a shell does with them."""
    blocks = [block.text for block in read_blocks(page) if block.kind in ('console', 'bash')]
    lines = [line for text in blocks for line in text.replace('\\\n', ' ').splitlines()]
    commands = [
        found[0]
        for line in lines
        for found in [re.search(r'(?<![\w/(])rolecall (?!\[).*', line)]
        if found and line.startswith(('$ ', 'rolecall '))
    ]
    return [re.split(r' [|>]>? | # |  +# |&&', command)[0] for command in commands]


def _is_taken(parser: argparse.ArgumentParser, command: str) -> bool:
    here = re.sub(r'--data [^=\s]+(?= |$)', '--data .', command)  # a folder must exist
    try:
        parser.parse_args(shlex.split(here)[1:])
    except SystemExit as end:
        return end.code == 0  # --help
    return True


def test_commands_are_found_on_pages_and_wrong_ones_are_noticed() -> None:
    assert sum(len(_typed(page.read_text(encoding='utf-8'))) for page in PAGES) > 100
    [wrong] = _typed('```console\n$ rolecall view x.py --modle y | head\n```\n')
    assert not _is_taken(build_parser([]), wrong)


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.name)
def test_every_command_on_a_page_is_one_that_the_command_line_takes(page: Path) -> None:
    text = page.read_text(encoding='utf-8')
    parser = build_parser([])
    assert [command for command in _typed(text) if not _is_taken(parser, command)] == []
    for block in read_blocks(text):
        if block.kind == 'python' and '>>>' not in block.text:
            compile(block.text, page.name, 'exec', flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        elif block.kind == 'yaml':
            list(yaml.safe_load_all(block.text))
        elif block.kind == 'json':
            [json.loads(line) for line in block.text.splitlines()]


def test_the_citation_names_the_version_that_is_here() -> None:
    cited = yaml.safe_load((ROOT / 'CITATION.cff').read_text(encoding='utf-8'))
    assert cited['version'] == rolecall.__version__
    assert {'cff-version', 'message', 'title', 'authors'} <= set(cited)


def test_the_page_of_the_command_line_names_every_command() -> None:
    page = (ROOT / 'docs' / 'cli.md').read_text(encoding='utf-8')
    assert [name for name in _COMMANDS if f'`rolecall {name}' not in page] == []
