"""`make docs`: the site builds without a warning, needs nothing from elsewhere, and its search works from a file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from browser import Browser, needs_browser, open_browser

pytest.importorskip('material')
pytestmark = pytest.mark.heavy
ROOT = Path(__file__).parent.parent
RESOURCE = re.compile(
    r'<(?:script|img|source|iframe|audio|video)[^>]+src="(?:https?:)?//|<link[^>]+href="(?:https?:)?//'
)


@pytest.fixture(scope='module')
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('site')
    command = [sys.executable, '-m', 'mkdocs', 'build', '--strict', '--quiet', '--site-dir', str(folder)]
    environment = {**os.environ, 'PYTHONPATH': str(ROOT / 'src'), 'NO_MKDOCS_2_WARNING': '1'}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


def test_no_page_takes_anything_from_another_server(site: Path) -> None:
    pages = [*site.rglob('*.html')]
    assert len(pages) > 60
    assert [page.name for page in pages if RESOURCE.search(page.read_text(encoding='utf-8'))] == []
    styles = ''.join(style.read_text(encoding='utf-8') for style in site.rglob('*.css'))
    assert not re.search(r'url\(["\']?https?:|@import', styles)


def test_the_reference_has_every_command_key_and_name(site: Path) -> None:
    from rolecall.config_keys import KEYS
    from rolecall.ui.cli.config.list import KINDS, list_parts, load_registry
    from rolecall.ui.cli.main import _COMMANDS

    pages = {page.stem: page.read_text(encoding='utf-8') for page in (site / 'reference').glob('*.html')}
    assert [name for name in _COMMANDS if f'>rolecall {name}' not in pages['commands']] == []
    assert [
        name
        for name, key in KEYS.items()
        if key.places != {'foreign'} and f'<code>{name}</code>' not in pages['config-keys']
    ] == [
        'silence',
        'rules',
        'input',
        'output',
    ]
    names = [part.name for kind in KINDS for part in list_parts(kind, load_registry(kind)) if part.origin == 'rolecall']
    assert [name for name in names if f'<code>{name}</code>' not in pages['names']] == []


@pytest.fixture(scope='module')
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp('profile')) as opened:
        opened.tell('/goog/cdp/execute', {'cmd': 'Network.enable', 'params': {}})
        yield opened


@needs_browser
@pytest.mark.parametrize(
    ('asked', 'found'), [('non-inferiority', 'ci.html'), ('FixKRetriever', 'retrievers.html'), ('困惑度', 'zh.html')]
)
def test_the_search_finds_pages_from_a_file(site: Path, browser: Browser, asked: str, found: str) -> None:
    browser.go(f'file://{site}/index.html?q={quote(asked)}')
    browser.wait_for(
        f'return [...document.querySelectorAll(".md-search-result__link")].some((one) => one.href.includes({found!r}))'
    )


@needs_browser
@pytest.mark.parametrize(
    'page', ['index.html', 'tutorial.html', 'concepts.html', 'reference/config-keys.html', 'tutorial.zh.html']
)
@pytest.mark.parametrize('width', [1280, 390])
def test_a_page_opens_from_a_file_without_a_complaint_and_fits_the_screen(
    site: Path, browser: Browser, page: str, width: int
) -> None:
    browser.complaints()
    with browser.looking(width=width):
        browser.go(f'file://{site}/{page}')
        browser.wait_for('return document.readyState === "complete"')
        assert browser.run('return document.documentElement.scrollWidth') <= width
        assert browser.run('return [...document.images].filter((one) => !one.naturalWidth).length') == 0
    assert browser.complaints() == []
