"""Examples in README, docs and docstrings are executed."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

import rolecall

SOURCE = Path(rolecall.__file__).parent
ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / 'README.md', ROOT / 'README.zh.md', *(ROOT / 'docs').glob('*.md')])
EXECUTED_WITH_THEIR_FILES = ('configs.md',)  # by tests/test_config_files.py
MODULES = sorted(
    '.'.join(file.relative_to(SOURCE.parent).with_suffix('').parts).removesuffix('.__init__')
    for file in SOURCE.rglob('*.py')
    if '>>> ' in file.read_text(encoding='utf-8')
)


@pytest.mark.parametrize(
    'page', [p for p in PAGES if p.name not in EXECUTED_WITH_THEIR_FILES], ids=lambda page: page.name
)
def test_the_examples_of_a_page_hold(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


@pytest.mark.parametrize('name', MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


@pytest.mark.parametrize('name', sorted(rolecall.__all__))
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(rolecall, name) is not None


def test_links_between_pages_lead_somewhere() -> None:
    written = {ROOT / 'docs' / f'reference/{name}.md' for name in ('commands', 'config-keys', 'names', 'examples')}
    for page in [*PAGES, *(ROOT / 'design').glob('*.md'), ROOT / 'CONTRIBUTING.md']:
        for target in re.findall(r'\]\(([^)#:]+)\)', page.read_text(encoding='utf-8')):
            there = page.parent / target
            assert there.exists() or there in written, f'{page.name} links to {target}'
