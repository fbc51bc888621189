"""Take the pictures of the docs with a real browser: the page's views and a report, in light and dark, wide and narrow.

python tools/screenshots.py [FOLDER]        default: docs/images
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / 'tests'), str(ROOT / 'src')]

from browser import open_browser  # noqa: E402
from report_runs import made_up_run  # noqa: E402
from rolecall.runs import run_config  # noqa: E402
from rolecall.ui.report import report_html  # noqa: E402
from web_pages import serve_page  # noqa: E402

RUN = """
import json
from pathlib import Path
from rolecall.experiment.opening.loading import load_config

examples = Path({examples!r})
datasets = load_config(examples / 'gsm8k.py')['datasets']
datasets[0]['path'] = str(examples / 'data/gsm8k')
datasets[0]['eval_cfg'] = dict(
    evaluator=dict(type='Gsm8kEvaluator'),
    pred_postprocessor=dict(type='gsm8k'),
    dataset_postprocessor=dict(type='gsm8k_dataset'),
)
known = {{}}
for line in (examples / 'data/gsm8k/test.jsonl').read_text().splitlines():
    row = json.loads(line)
    known[row['question'][:40]] = row['answer']

def solver(misses):
    def solve(request):
        text = request if isinstance(request, str) else request[-1]['content']
        for number, (question, answer) in enumerate(known.items()):
            if question in text.rsplit('Question:', 1)[-1]:
                if number in misses and {fails!r} and number == 6:
                    raise ValueError('HTTP 500: the server is overloaded')
                return answer if number not in misses else 'It should be about half.\\n#### 7'
        return 'I do not know.'
    return solve

models = [
    dict(abbr='careful-8b', type='Function', function=solver((6,)), meta_template='chatml'),
    dict(abbr='hasty-1b', type='Function', function=solver((1, 3, 4)), meta_template='llama2'),
]
"""
VIEWS = {
    'web-explore': ('#explore?row=1&fold=1', {}),
    'web-edit': ('#edit?row=1', {'dark': True}),
    'web-compare': ('#compare', {}),
    'web-runs': ('#runs', {'height': 480}),
    'web-start': ('#start', {'height': 360}),
    'web-row': ('#runs?run=0&model=hasty-1b&verdict=wrong&fold=1', {'height': 1000}),
    'web-label': ('#runs?run=0&show=label', {'height': 640}),
    'web-flips': ('#runs?run=0&show=compare&right_run=0', {'dark': True}),
    'web-narrow': ('#explore?row=1&fold=1', {'width': 390, 'height': 860}),
}
SPAN = (
    'document.querySelectorAll(".prompt .say span[role=button]").forEach('
    '(one) => { if (one.innerText.startsWith("A robe")) one.click() })'
)


def main() -> None:
    """Take every picture."""
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / 'docs/images'
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, open_browser(f'{made}/profile') as browser:
        os.chdir(made)  # so that pictures show paths as a person types them
        config = Path('gsm8k.py')
        for name, fails in (('first', True), ('second', False)):
            config.write_text(RUN.format(examples=str(ROOT / 'examples'), fails=fails), encoding='utf-8')
            run_config(config, out=f'runs/{name}')
            time.sleep(1)  # so that the second is the newer one
        with serve_page(config, 'runs') as (port, rules):
            browser.go(f'http://127.0.0.1:{port}/?token={rules.token}')
            for name, (address, look) in VIEWS.items():
                browser.look(**{'width': 1280, 'height': 860, 'dark': False, **look})
                browser.go(f'http://127.0.0.1:{port}/?lang=en{address}')
                time.sleep(1.5)
                browser.run(SPAN)
                if name == 'web-start':
                    browser.click('.start button')
                    time.sleep(1.5)
                browser.picture(folder / f'{name}.png', **look)
        take_report(browser, Path(made), folder)
        take_playground(browser, Path(made), folder)
    print(*sorted(folder.glob('*.png')), sep='\n')


def take_report(browser, made: Path, folder: Path) -> None:
    """The picture of a report."""
    run, previews = made_up_run(rows=120)
    page = made / 'report.html'
    page.write_text(report_html(run, previews=previews), encoding='utf-8')
    browser.go(page.as_uri())
    browser.picture(folder / 'report.png')


def take_playground(browser, made: Path, folder: Path) -> None:
    """The picture of the playground; built and served for it."""
    subprocess.run([sys.executable, ROOT / 'tools/playground.py', made / 'playground'], check=True)
    handler = functools.partial(SimpleHTTPRequestHandler, directory=made / 'playground')
    with ThreadingHTTPServer(('127.0.0.1', 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.go(f'http://127.0.0.1:{server.server_port}/?lang=en')
        while not browser.texts('.prompt .say'):
            time.sleep(0.5)
        browser.picture(folder / 'playground.png')
        server.shutdown()


if __name__ == '__main__':
    main()
