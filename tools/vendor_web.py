"""Fetch the page's two libraries from the npm registry and write them under src/rolecall/ui/web/assets/vendor.

    python tools/vendor_web.py            fetch the pinned versions and write the files
    python tools/vendor_web.py --check    fetch them and fail if the files in the tree differ

The only change to the published files: imports of 'preact' become imports of the file beside them, so that the browser
finds it without a bundler, and references to source maps are dropped.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VENDOR = Path(__file__).resolve().parent.parent / 'src/rolecall/ui/web/assets/vendor'
PACKAGES = {
    'preact@11.2.0': {
        'dist/preact.mjs': 'preact.js',
        'hooks/dist/hooks.mjs': 'hooks.js',
        'LICENSE': 'preact.LICENSE',
    },
    'htm@3.1.1': {'dist/htm.module.js': 'htm.js', 'LICENSE': 'htm.LICENSE'},
}


def main() -> int:
    """Write the files, or check them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--check', action='store_true', help='compare instead of writing')
    check = parser.parse_args().check
    made = {name: content for package, files in PACKAGES.items() for name, content in fetch(package, files).items()}
    different = [name for name, content in made.items() if not is_same(VENDOR / name, content)]
    if check:
        print('differs: ' + ', '.join(different) if different else f'{len(made)} files are as published')
        return 1 if different else 0
    for name, content in made.items():
        (VENDOR / name).write_text(content, encoding='utf-8')
    print(f'wrote {", ".join(made)}')
    return 0


def fetch(package: str, files: dict[str, str]) -> dict[str, str]:
    """The files of one package, under the names they have here."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(['npm', 'pack', '--silent', package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob('*.tgz')
        with tarfile.open(archive) as tar:
            return {name: adapt(tar.extractfile(f'package/{path}').read().decode()) for path, name in files.items()}


def adapt(text: str) -> str:
    """A module that finds its neighbours by file name."""
    text = re.sub(r'(from\s*)(["\'])preact\2', r'\1\2./preact.js\2', text)
    return re.sub(r'\n?//# sourceMappingURL=.*', '', text).rstrip() + '\n'


def is_same(file: Path, content: str) -> bool:
    """Whether a file has this content."""
    return file.is_file() and file.read_text(encoding='utf-8') == content


if __name__ == '__main__':
    sys.exit(main())
