"""`eval.yaml`: the tasks that a dataset on a hub brings, as Inspect and lighteval read them."""

from __future__ import annotations

import os
import re
from pathlib import Path

_FILE, _HUB = 'eval.yaml', 'hf:'


def find_hub_tasks(source: str | Path) -> Path | None:
    """The `eval.yaml` that a file, a folder or the name of a downloaded dataset (`hf:ORG/NAME`) means, if any."""
    text = str(source)
    if text.startswith(_HUB):
        home = os.environ.get('HF_HUB_CACHE') or Path(os.environ.get('HF_HOME', '~/.cache/huggingface'), 'hub')
        name = f'datasets--{text.removeprefix(_HUB).replace("/", "--")}'
        files = Path(home).expanduser().glob(f'{name}/snapshots/*/{_FILE}')
        return max(files, key=lambda file: file.lstat().st_mtime, default=None)
    file = Path(text, _FILE) if Path(text).is_dir() else Path(text)
    if file.name != _FILE or not file.is_file():
        return None
    return file if re.search(r'^\s*(?:- *)?field_spec\s*:', file.read_text('utf-8', 'replace'), re.MULTILINE) else None
