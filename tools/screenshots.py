"""Take the pictures of the docs with a real browser: the page's views and a report, in light and dark.

python tools/screenshots.py [FOLDER]        default: docs/images
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / 'tests'), str(ROOT / 'src')]

from browser import open_browser  # noqa: E402
from report_runs import made_up_run  # noqa: E402
from rolecall.report import report_html  # noqa: E402
from rolecall.runs.store.writer import Store  # noqa: E402
from web_pages import serve_page  # noqa: E402

VIEWS = {
    'web-explore': '#explore?fold=1&row=1',
    'web-edit': '#edit',
    'web-compare': '#compare?only=1',
    'web-runs': '#runs',
}


def main() -> None:
    """Take every picture."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / 'docs/images'
    folder.mkdir(parents=True, exist_ok=True)
    run, previews = made_up_run(rows=120)
    with tempfile.TemporaryDirectory() as made, open_browser(f'{made}/profile') as browser:
        store = Store(f'{made}/sums')
        store.record_scores(run.cards, run.rows)
        store.close()
        with serve_page(ROOT / 'examples/gsm8k.py', f'{made}/sums') as (port, rules):
            browser.go(f'http://127.0.0.1:{port}/?token={rules.token}')
            for name, address in VIEWS.items():
                browser.go(f'http://127.0.0.1:{port}/{address}')
                time.sleep(1.5)
                browser.picture(folder / f'{name}.png', dark=name == 'web-edit')
        page = Path(made) / 'report.html'
        page.write_text(report_html(run, previews=previews), encoding='utf-8')
        browser.go(page.as_uri())
        browser.picture(folder / 'report.png')
    print(*sorted(folder.glob('*.png')), sep='\n')


if __name__ == '__main__':
    main()
