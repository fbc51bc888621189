"""Build the playground: the web page with its Python in the browser, as a folder of static files.

    python tools/playground.py site/playground

The interpreter (Pyodide) comes from the npm registry into a temporary folder; our package and the pure parts of those
it imports come from this environment. They are byte-compiled by that very interpreter, so that the page starts
quickly. Without npm, one line says so and nothing is built.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from importlib.metadata import files
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / 'src'
PYODIDE = 'pyodide@314.0.7'
INTERPRETER = (
    'pyodide.mjs',
    'pyodide.asm.mjs',
    'pyodide.asm.wasm',
    'python_stdlib.zip',
    'pyodide-lock.json',
    'README.md',
)
PACKAGES = ('jinja2', 'markupsafe', 'pyyaml', 'rich')
DROPPED = ('.so', '.pyd', '.pyc', 'RECORD')
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; worker-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'"
)
FROM_A_FILE = (
    'Loading … Browsers load no modules from a file: serve this folder, for example with '
    '<code>python -m http.server</code>.'
)
COMPILE = """
import fs from 'node:fs';
import { loadPyodide } from './package/pyodide.mjs';
const python = await loadPyodide();
python.unpackArchive(new Uint8Array(fs.readFileSync('source.zip')), 'zip', { extractDir: '/packages' });
python.runPython(`
import compileall, pathlib, py_compile, shutil
unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
compileall.compile_dir('/packages', quiet=1, legacy=True, invalidation_mode=unchecked)
for path in pathlib.Path('/packages').rglob('*.py'):
    path.unlink()
shutil.make_archive('/rolecall', 'zip', '/packages')
`);
fs.writeFileSync('rolecall.zip', python.FS.readFile('/rolecall.zip'));
"""


def main() -> int:
    """Build the folder and print what a visitor transfers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('target', type=Path, help='the folder to write')
    target: Path = parser.parse_args().target
    if not (shutil.which('npm') and shutil.which('node')):
        print('The playground needs npm and node to be built; the manual is without it.')
        return 0
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), target)
    sizes = [len(gzip.compress(path.read_bytes())) for path in target.rglob('*') if path.is_file()]
    print(f'{target}: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB compressed')
    return 0


def build(folder: Path, target: Path) -> None:
    """Write everything that the page loads."""
    subprocess.run(['npm', 'pack', '--silent', PYODIDE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (archive,) = folder.glob('*.tgz')
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter='data')
    pack_source(folder / 'source.zip')
    (folder / 'compile.mjs').write_text(COMPILE, encoding='utf-8')
    subprocess.run(['node', 'compile.mjs'], cwd=folder, check=True)
    write_page(target)
    (target / 'pyodide').mkdir()
    for name in INTERPRETER:
        shutil.copy(folder / 'package' / name, target / 'pyodide' / name)
    shutil.copy(folder / 'rolecall.zip', target / 'rolecall.zip')


def pack_source(target: Path) -> None:
    """Our package and those it needs, with their licences and without compiled parts."""
    members = [(path, path.relative_to(SOURCE)) for path in (SOURCE / 'rolecall').rglob('*') if path.is_file()]
    for package in PACKAGES:
        members += [(Path(file.locate()), Path(file)) for file in files(package) or ()]
    with zipfile.ZipFile(target, 'w') as archive:
        for path, name in members:
            if not path.name.endswith(DROPPED) and '..' not in name.parts and 'vendor' not in name.parts:
                archive.write(path, str(name))


def write_page(target: Path) -> None:
    """The page's own files; its index asks a worker instead of a server."""
    from rolecall.ui.web.routes import read_assets

    for name, text in read_assets().items():
        file = target / ('index.html' if name == 'index.html' else f'assets/{name}')
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(as_playground(text) if name == 'index.html' else text, encoding='utf-8')


def as_playground(index: str) -> str:
    """The page's index with a policy of its own and the script that starts the worker."""
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
    worker = '<script type="module" src="assets/ask_worker.js"></script>\n'
    app, box = '<script type="module"', '<div id="app">'
    index = index.replace('<title>', f'{policy}<title>').replace(app, f'{worker}{app}')
    return index.replace(box, f'{box}<p class="note">{FROM_A_FILE}</p>')


if __name__ == '__main__':
    sys.exit(main())
