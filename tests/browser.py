"""A real browser for tests, driven through chromedriver."""

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import tarfile
import time
import urllib.error
import urllib.request

import pytest

needs_browser = pytest.mark.skipif(
    not (shutil.which('chromium') and shutil.which('chromedriver')), reason='needs chromium and chromedriver'
)
ARGUMENTS = [
    '--headless=new',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--disable-dev-shm-usage',
]


class Browser:
    """The few words of WebDriver that are needed, spoken to chromedriver."""

    def __init__(self, address, profile):
        self._address = address
        options = {'args': [*ARGUMENTS, f'--user-data-dir={profile}']}
        wanted = {'browserName': 'chrome', 'goog:chromeOptions': options, 'goog:loggingPrefs': {'browser': 'ALL'}}
        session = self._call('POST', '/session', {'capabilities': {'alwaysMatch': wanted}})
        self._session = f'/session/{session["sessionId"]}'

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f'{self._address}{path}', data, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)['value']

    def tell(self, path, body):
        return self._call('POST', self._session + path, body)

    def go(self, url):
        self.tell('/url', {'url': 'about:blank'})
        self.tell('/url', {'url': url})

    def run(self, script):
        return self.tell('/execute/sync', {'script': script, 'args': []})

    def press(self, *keys):
        pressed = [{'type': kind, 'value': key} for key in keys for kind in ('keyDown', 'keyUp')]
        self.tell('/actions', {'actions': [{'type': 'key', 'id': 'keys', 'actions': pressed}]})

    def complaints(self):
        return [entry['message'] for entry in self.tell('/se/log', {'type': 'browser'})]

    def click(self, selector):
        self.run(f'document.querySelector({json.dumps(selector)}).click()')

    @contextlib.contextmanager
    def looking(self, *, width=1280, height=860, dark=False):
        """A window of another size, and another colour scheme."""
        self.look(width=width, height=height, dark=dark)
        yield
        self.tell('/goog/cdp/execute', {'cmd': 'Emulation.clearDeviceMetricsOverride', 'params': {}})
        self.tell('/goog/cdp/execute', {'cmd': 'Emulation.setEmulatedMedia', 'params': {'features': []}})

    def picture(self, path, *, width=1280, height=860, dark=False):
        """Save what the window shows."""
        self.look(width=width, height=height, dark=dark)
        time.sleep(0.3)
        path.write_bytes(base64.b64decode(self._call('GET', f'{self._session}/screenshot')))

    def look(self, *, width, height, dark):
        self.tell(
            '/goog/cdp/execute',
            {
                'cmd': 'Emulation.setDeviceMetricsOverride',
                'params': {'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': False},
            },
        )
        scheme = {'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}
        self.tell('/goog/cdp/execute', {'cmd': 'Emulation.setEmulatedMedia', 'params': {'features': [scheme]}})

    def quit(self):
        self._call('DELETE', self._session)

    def texts(self, selector):
        return self.run(f'return [...document.querySelectorAll({json.dumps(selector)})].map((one) => one.innerText)')

    def wait_for_long(self, script):
        """Wait for something that a process of its own brings about."""
        self.wait_for(script, tries=800)

    def wait_for(self, script, *, tries=300):
        for _ in range(tries):
            if self.run(script):
                return
            time.sleep(0.05)
        pytest.fail(f'this never became true: {script}')


@contextlib.contextmanager
def open_browser(profile):
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen(['chromedriver', f'--port={port}'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f'http://127.0.0.1:{port}'
        for _ in range(100):
            with contextlib.suppress(urllib.error.URLError):
                urllib.request.urlopen(f'{address}/status', timeout=5).close()
                break
            time.sleep(0.1)
        browser = Browser(address, profile)
        try:
            yield browser
        finally:
            browser.quit()
    finally:
        driver.terminate()
        driver.wait(timeout=20)


def type_into(browser, selector, text, *, at=None):
    """Write a text into a field, the cursor at its end or after a part of it."""
    cursor = len(text) if at is None else text.index(at) + len(at)
    browser.run(
        f'const node = document.querySelector({json.dumps(selector)}); node.focus(); node.value = {json.dumps(text)};'
        f'if (node.setSelectionRange) node.setSelectionRange({cursor}, {cursor});'
        'node.dispatchEvent(new Event("input", {bubbles: true}))'
    )


def fetch_axe(folder):
    """The source of axe, from the package registry."""
    if not shutil.which('npm'):
        pytest.skip('needs npm to fetch axe-core')
    done = subprocess.run(['npm', 'pack', '--silent', 'axe-core@4.14.0'], cwd=folder, capture_output=True, check=False)
    if done.returncode:
        pytest.skip('axe-core cannot be fetched')
    with tarfile.open(next(folder.glob('*.tgz'))) as tar:
        return tar.extractfile('package/axe.min.js').read().decode()


def serious_findings(browser, axe):
    """What axe calls serious or critical on the page as it is."""
    script = 'const done = arguments[arguments.length - 1]; axe.run().then((found) => done(found.violations.map((one) => [one.impact, one.id, one.nodes.slice(0, 3).map((node) => node.html)])));'
    found = browser.tell('/execute/async', {'script': f'{axe}; {script}', 'args': []})
    return [one for one in found if one[0] in ('serious', 'critical')]
