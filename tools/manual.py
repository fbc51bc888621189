"""What `make docs` adds to the pages of docs/: the reference, written from the code, and the texts of the project.

MkDocs calls the `on_…` functions. Pages outside docs/ (SECURITY.md, design/, …) become pages of the site, and links
between pages, which are written for a checkout, are turned into links of the site.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / 'src'), str(ROOT / 'tools')]

from reference import write_pages  # noqa: E402  # beside this file

DESIGN = sorted(path.name for path in (ROOT / 'design').glob('*.md'))
OUTSIDE = {
    'README.zh.md': 'readme.zh.md',
    'SECURITY.md': 'project/security.md',
    'CONTRIBUTING.md': 'project/contributing.md',
    'CHANGELOG.md': 'project/changelog.md',
    'benchmarks/README.md': 'project/benchmarks.md',
    **{f'design/{name}': f'project/design/{name}' for name in DESIGN},
}
"""Pages of the checkout, and their places in the site."""
PLACES = {
    **OUTSIDE,
    'README.md': 'index.md',
    'design/': 'project/design.md',
    'examples/': 'reference/examples.md',
}
_SHIM = 'https://unpkg.com/iframe-worker/shim'
_LINK = re.compile(r'(\]\(|(?:src|href)=")([^)\s"#]+)(#[^)\s"]*)?(?=[)"])')


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that do not lie in docs/."""
    made = {place: (ROOT / source).read_text(encoding='utf-8') for source, place in OUTSIDE.items()}
    made |= write_pages(ROOT)
    made['project/design.md'] = _list_design()
    for place, text in made.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links of the checkout into links of the site, outside code."""
    place = page.file.src_uri
    source = next((source for source, there in OUTSIDE.items() if there == place), f'docs/{place}')
    parts = re.split(r'(^```.*?^```$|`[^`\n]*`)', markdown, flags=re.MULTILINE | re.DOTALL)
    return ''.join(part if index % 2 else _relink(part, source, place) for index, part in enumerate(parts))


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Take the script that makes the search work from a file from the site itself, not from another server."""
    here = posixpath.dirname(page.file.dest_uri) or '.'
    return output.replace(_SHIM, posixpath.relpath('file-worker.js', here))


def on_post_template(output_content: str, **_: Any) -> str:
    """The same for the page of unknown addresses, which lies at the top."""
    return output_content.replace(_SHIM, 'file-worker.js')


def _relink(text: str, source: str, place: str) -> str:
    def replace(found: re.Match[str]) -> str:
        before, link, anchor = found[1], found[2], found[3] or ''
        if ':' in link:
            return found[0]
        return f'{before}{posixpath.relpath(_find_place(source, link), posixpath.dirname(place) or ".")}{anchor}'

    return _LINK.sub(replace, text)


def _find_place(source: str, link: str) -> str:
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    if target.startswith('examples'):
        return PLACES['examples/']
    if target == 'design':
        return PLACES['design/']
    return PLACES.get(target, target.removeprefix('docs/'))


def _list_design() -> str:
    titles = [(ROOT / 'design' / name).read_text(encoding='utf-8').partition('\n')[0].lstrip('# ') for name in DESIGN]
    lines = [f'- [{title}](design/{name})' for title, name in zip(titles, DESIGN, strict=True)]
    return '\n'.join(
        ['# Design notes', '', 'Hard decisions: the question, what was measured, the choice.', '', *lines, '']
    )
