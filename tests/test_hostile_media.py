"""Paths in a dataset that lead where they should not: nothing is read or sent, and nothing hangs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecall.models.http.media import MediaReader
from rolecall.models.protocol import ModelError
from rolecall.runs.run import run_config
from rolecall.runs.store.run_reader import RunReader
from servers import serve

PNG = b'\x89PNG\r\n\x1a\n' + bytes(20)
SECRET = b'root:secret'


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """A dataset's folder with a picture, and a file beside it that is none of its business."""
    (tmp_path / 'data' / 'images').mkdir(parents=True)
    (tmp_path / 'data' / 'images' / 'cat.png').write_bytes(PNG)
    (tmp_path / 'data-private').mkdir()
    (tmp_path / 'data-private' / 'passwd').write_bytes(SECRET)
    return tmp_path


def link(target: str) -> Callable[[Path], str]:
    def make(places: Path) -> str:
        (places / 'data' / 'link').symlink_to(target.format(places))
        return str(places / 'data' / 'link')

    return make


def linked_folder(places: Path) -> str:
    (places / 'data' / 'folder').symlink_to(places / 'data-private')
    return str(places / 'data' / 'folder' / 'passwd')


def pipe(places: Path) -> str:
    os.mkfifo(places / 'data' / 'pipe')
    return str(places / 'data' / 'pipe')


HOSTILE: dict[str, str | Callable[[Path], str]] = {
    'absolute': '{}/data-private/passwd',
    'system': '/etc/passwd',
    'upwards': '{}/data/../data-private/passwd',
    'upwards, relative': '../data-private/passwd',
    'percent-encoded': 'file://{}/data/%2e%2e/data-private/passwd',
    'file URL': 'file:///etc/passwd',
    'file URL with a host': 'file://localhost/etc/passwd',
    'environment': '/proc/self/environ',
    'endless device': '/dev/zero',
    'null': '/dev/null',
    'terminal': '/dev/tty',
    'folder': '{}/data/images',
    'link out': link('{}/data-private/passwd'),
    'link to a device': link('/dev/zero'),
    'link to itself': link('{}/data/link'),
    'linked folder': linked_folder,
    'pipe': pipe,
    'null byte': '{}/data/images/cat.png\0',
    'nothing': '',
    'very long': 'x' * 100_000,
}


@pytest.mark.parametrize('case', HOSTILE)
@pytest.mark.parametrize('inside', [True, False], ids=['folders', 'anywhere'])
def test_only_regular_files_inside_the_folders_are_read(places: Path, case: str, inside: bool) -> None:
    given = HOSTILE[case]
    url = given(places) if callable(given) else given.format(places)
    reader = MediaReader((places / 'data',)) if inside else MediaReader()
    ordinary = case in ('absolute', 'system', 'upwards', 'percent-encoded', 'file URL', 'file URL with a host')
    started = time.monotonic()
    if not inside and (ordinary or case in ('link out', 'linked folder')):
        assert reader.read(url)[1]  # a program that names its own files is trusted with any regular one
        return
    with pytest.raises(ModelError) as raised:
        reader.read(url)
    assert time.monotonic() - started < 60
    assert len(str(raised.value)) < 500
    assert SECRET.decode() not in str(raised.value)


@pytest.mark.parametrize(
    'url', ['{}/data/images/cat.png', 'file://{}/data/images/cat.png', 'images/cat.png', '{}/data/in']
)
def test_what_is_inside_is_read_however_it_is_named(places: Path, url: str) -> None:
    (places / 'data' / 'in').symlink_to(places / 'data' / 'images' / 'cat.png')
    assert MediaReader((places / 'data',)).read(url.format(places)) == ('image/png', PNG)


def test_a_file_larger_than_the_bound_is_refused_without_reading_it_all(places: Path) -> None:
    large = places / 'data' / 'large.bin'
    with large.open('wb') as file:
        file.truncate(1 << 40)
    with pytest.raises(ModelError, match=r'larger than 1,000 bytes \(max_media_bytes\)'):
        MediaReader((places / 'data',), limit=1000).read(str(large))


def run_with(places: Path, url: str, **config: Any) -> tuple[str, str, list[Any]]:
    """The outcome and reason of one row that names a picture, and what the server got."""
    rows = places / 'data' / 'rows.jsonl'
    rows.write_text(f'{{"image": "{url}", "answer": "x"}}\n')
    part = {'type': 'image_url', 'image_url': {'url': '{image}'}}
    template = {'type': 'MMPromptTemplate', 'template': {'round': [{'role': 'HUMAN', 'prompt_mm': {'image': part}}]}}
    dataset = {
        'abbr': 'd',
        'type': 'File',
        'path': str(rows),
        'reader_cfg': {'input_columns': ['image'], 'output_column': 'answer'},
        'infer_cfg': {'prompt_template': template, 'inferencer': {'type': 'GenInferencer'}},
    }
    with serve() as server:
        model = {'abbr': 'm', 'type': 'OpenAI', 'path': 'toy', 'url': server.url, 'key': 'k', 'inline_files': True}
        run_config({'models': [model], 'datasets': [dataset], **config}, out=places / 'run')
        bodies = list(server.bodies)
    with RunReader(places / 'run') as archive:
        [result] = archive.results()
    return result.outcome, result.reason, bodies


def test_a_run_reads_pictures_in_the_datasets_folder_and_no_others(places: Path) -> None:
    outcome, reason, bodies = run_with(places, f'{places}/data-private/passwd')
    assert outcome == 'failed'
    assert "outside the dataset's folder" in reason
    assert bodies == []


def test_the_config_can_allow_further_folders(places: Path) -> None:
    (places / 'data-private' / 'cat.png').write_bytes(PNG)
    allowed = [str(places / 'data-private')]
    outcome, _, bodies = run_with(places, f'{places}/data-private/cat.png', media_folders=allowed)
    assert outcome == 'ok'
    assert 'data:image/png;base64,' in str(bodies)
