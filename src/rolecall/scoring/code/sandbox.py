"""Confine a process: kernel-confined by sandlock, in bubblewrap's namespaces, or in a docker container.

A confined process reads only the interpreter, writes only an empty folder, has no network and a clean environment, and
cannot signal or see other processes. Before a sandbox is used it has to prove that: a probe tries to get out.
"""

from __future__ import annotations

import errno
import importlib
import marshal
import os
import re
import shutil
import stat
import subprocess
import sys
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol

_DRIVER = (Path(__file__).parent / 'driver.py').read_text('utf-8')
_LIBRARIES = (
    '/lib', '/lib64', '/usr/lib', '/usr/lib64', '/usr/local/lib', '/etc/ld.so.cache', '/usr/share/zoneinfo',
    '/etc/localtime',
)  # fmt: skip
_DEVICES = ('/dev/null', '/dev/urandom', '/dev/zero')
_FOLDER = '/rolecall-sandbox'
_MB = 1 << 20
_LONGEST_INFORMATION = 4096
MOST_FILES = 1000


class SandboxError(Exception):
    """Why a sandbox cannot be used."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one program may use. Times are in seconds, sizes in MB."""

    seconds: float = 3.0
    """Of computing or waiting, for each test."""
    memory: int = 1024
    disk: int = 64
    output: int = 4
    start_seconds: float = 30.0
    """For the interpreter to start, which is not counted as the program's time."""

    def as_rlimits(self, *, tests: int = 1) -> dict[str, int]:
        """The limits that the process sets on itself before it runs the program."""
        return {
            'RLIMIT_AS': self.memory * _MB,
            'RLIMIT_CPU': int(self.seconds * max(tests, 1)) + 2,
            'RLIMIT_FSIZE': self.disk * _MB,
            'RLIMIT_NOFILE': 128,
            'RLIMIT_CORE': 0,
        }


class Confined(Protocol):
    """A confined process that has been started."""

    @property
    def commands(self) -> IO[bytes]: ...

    @property
    def reports(self) -> IO[bytes]: ...

    @property
    def file_changes(self) -> bool:
        """Whether chmod and the like are harmless: nothing but the program's folder can be changed."""

    def usage(self) -> tuple[int, int]:
        """The bytes and the number of files that it has written; 0 where the sandbox itself bounds them."""

    def kill(self) -> None: ...

    def wait(self) -> int | None:
        """The signal that ended it; 0 if it ended by itself, None if the sandbox killed it."""


class Sandbox(Protocol):
    """Starts confined processes. Raises SandboxError where it cannot be used here."""

    @property
    def name(self) -> str: ...

    def start(self, folder: Path, limits: SandboxLimits) -> Confined: ...


@cache
def _interpreter() -> tuple[str, ...]:
    """The command that runs the driver: compiled, and without `site`, whose work at each start costs as much again."""
    packages = [path for path in sys.path if Path(path).name in ('site-packages', 'dist-packages')]
    code = marshal.dumps(compile(_DRIVER, '<driver>', 'exec', dont_inherit=True, optimize=2)).hex()
    start = f'import marshal, sys; sys.path += {packages!r}; exec(marshal.loads(bytes.fromhex({code!r})))'
    return sys.executable, '-I', '-S', '-B', '-c', start


def _readable() -> list[str]:
    """The interpreter, its libraries and installed packages, and nothing else."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    roots = {f'{prefix}/lib' if prefix == '/usr' else prefix for prefix in prefixes}
    roots |= {sys.executable, os.path.realpath(sys.executable), *_LIBRARIES}
    there = [root for root in roots if os.path.exists(root)]
    return sorted(root for root in there if not any(root.startswith(f'{other}/') for other in there))


def _environment(folder: str) -> dict[str, str]:
    single = dict.fromkeys(('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS'), '1')
    return {'PATH': '/usr/bin:/bin', 'HOME': folder, 'TMPDIR': folder, 'LANG': 'C.UTF-8', 'MPLBACKEND': 'Agg', **single}


@dataclass(slots=True)
class _Sandlocked:
    process: Any
    folder: Path
    file_changes: bool = False

    @property
    def commands(self) -> IO[bytes]:
        stream: IO[bytes] = self.process.stdin
        return stream

    @property
    def reports(self) -> IO[bytes]:
        stream: IO[bytes] = self.process.stderr
        return stream

    def usage(self) -> tuple[int, int]:
        size, files = _measure_folder(self.folder)
        return size + _size_of_deleted(self.process.pid), files

    def kill(self) -> None:
        self.process.kill()

    def wait(self) -> int | None:
        with self.process:
            result = self.process.wait(10)
        if result.reason is not None and result.reason.name == 'KILLED':
            return None
        return max(int(result.signal), 0)


def _measure_folder(folder: Path) -> tuple[int, int]:
    """The bytes and the number of files and folders in a folder, counted up to a bound."""
    size, count, pending = 0, 0, [str(folder)]
    while pending and count <= MOST_FILES:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in islice(entries, MOST_FILES + 1):
                    count += 1
                    size += entry.stat(follow_symlinks=False).st_size
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError as error:
            count += MOST_FILES * (error.errno == errno.ENAMETOOLONG)
    return size, count


def _size_of_deleted(process: int | None) -> int:
    """The bytes of the files that a process holds open though they have no name any more."""
    folder, size = f'/proc/{process}/fd', 0
    try:
        for name in os.listdir(folder):
            status = os.stat(f'{folder}/{name}')
            size += status.st_size * (stat.S_ISREG(status.st_mode) and not status.st_nlink)
    except OSError:
        return size
    return size


@dataclass(frozen=True, slots=True)
class SandlockSandbox:
    """Landlock and seccomp through the package `sandlock`: no root, no container, about 20 ms for each process."""

    name: str = 'sandlock'

    def start(self, folder: Path, limits: SandboxLimits) -> Confined:
        sandlock = self._module()
        policy = sandlock.Sandbox(
            fs_readable=[*_readable(), *(path for path in _DEVICES if os.path.exists(path))],
            fs_writable=[str(folder), '/dev/null'],
            cwd=str(folder),
            clean_env=True,
            env=_environment(str(folder)),
            max_memory=f'{limits.memory + 256}M',
            max_processes=1,
            no_coredump=True,
            **({'uid': 65534, 'gid': 65534} if os.geteuid() == 0 else {}),  # root could raise its limits again
        )
        # It warns that gid has no effect, although it is passed on together with uid.
        warnings.filterwarnings('ignore', message="Policy field 'gid'", category=UserWarning)
        piped, null = sandlock.StdioMode.PIPED, sandlock.StdioMode.NULL
        try:
            return _Sandlocked(policy.popen(_interpreter(), stdin=piped, stdout=null, stderr=piped), folder)
        except (RuntimeError, OSError, ValueError, sandlock.SandlockError) as error:
            raise SandboxError(f'sandlock cannot start a process: {error}') from error

    def _module(self) -> Any:
        try:
            sandlock = importlib.import_module('sandlock')
        except (ImportError, OSError) as error:
            raise SandboxError(f"sandlock is not installed (pip install 'rolecall[code]'): {error}") from error
        here, needed = sandlock.landlock_abi_version(), sandlock.min_landlock_abi()
        if here < needed:
            raise SandboxError(f'sandlock needs Landlock ABI {needed}, this kernel has {max(here, 0)}')
        return sandlock


@dataclass(slots=True)
class _Spawned:
    process: subprocess.Popen[bytes]
    stop: Callable[[], None]
    information: IO[bytes] | None = None
    """Where bubblewrap writes the number of the process inside."""
    file_changes: bool = True
    _inside: int = 0

    @property
    def commands(self) -> IO[bytes]:
        return _present(self.process.stdin)

    @property
    def reports(self) -> IO[bytes]:
        return _present(self.process.stderr)

    def usage(self) -> tuple[int, int]:
        if self.information is None:
            return 0, 0
        if not self._inside:
            number = re.search(rb'"child-pid": (\d+)', self.information.read(_LONGEST_INFORMATION) or b'')
            self._inside = int(number[1]) if number else 0
        try:
            status = os.statvfs(f'/proc/{self._inside}/root{_FOLDER}')
        except OSError:
            return 0, 0
        return (status.f_blocks - status.f_bfree) * status.f_frsize, status.f_files - status.f_ffree

    def kill(self) -> None:
        self.stop()
        self.process.kill()
        if self.information is not None:
            self.information.close()

    def wait(self) -> int | None:
        with self.process:
            code = self.process.wait(10)
        # Bubblewrap and docker say 128 + the signal; below 0 their own process was killed.
        return code - 128 if code > 128 else max(-code, 0)


def _present(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise SandboxError('the process has no pipe')
    return stream


def _spawn(
    command: Sequence[str], environment: Mapping[str, str], stop: Callable[[], None], pass_fds: Sequence[int] = ()
) -> _Spawned:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env=dict(environment),
            pass_fds=pass_fds,
        )
    except OSError as error:
        raise SandboxError(f'{command[0]} cannot be started: {error}') from error
    return _Spawned(process, stop)


@dataclass(frozen=True, slots=True)
class BubblewrapSandbox:
    """Linux namespaces through the program `bwrap` (package bubblewrap)."""

    name: str = 'bubblewrap'

    def start(self, folder: Path, limits: SandboxLimits) -> Confined:
        bwrap = shutil.which('bwrap')
        if bwrap is None:
            raise SandboxError('bubblewrap is not installed (the program bwrap)')
        libraries = [word for path in _readable() for word in ('--ro-bind', path, path)]
        devices = [word for path in _DEVICES for word in ('--dev-bind', path, path)]
        clean = [word for name, value in _environment(_FOLDER).items() for word in ('--setenv', name, value)]
        information, writer = os.pipe()
        command = [
            bwrap, '--info-fd', str(writer),
            '--unshare-all', '--unshare-user', '--uid', '65534', '--die-with-parent', '--new-session',
            '--cap-drop', 'ALL', '--clearenv', *clean, *libraries, *devices,
            '--size', str(limits.disk * _MB), '--tmpfs', _FOLDER, '--chdir', _FOLDER,
            '--remount-ro', '/', '--', *_interpreter(),
        ]  # fmt: skip
        os.set_blocking(information, False)
        stream = os.fdopen(information, 'rb', buffering=0)
        try:
            process = _spawn(command, {}, lambda: None, pass_fds=(writer,))
        except SandboxError:
            stream.close()
            raise
        finally:
            os.close(writer)
        return replace(process, information=stream)


@dataclass(frozen=True, slots=True)
class DockerSandbox:
    """A container of the image in ROLECALL_SANDBOX_IMAGE (python:3.11-slim unless set). Only used if asked for."""

    name: str = 'docker'

    def start(self, folder: Path, limits: SandboxLimits) -> Confined:
        docker = shutil.which('docker')
        if docker is None:
            raise SandboxError('docker is not installed')
        container = f'rolecall-{uuid.uuid4().hex}'
        image = os.environ.get('ROLECALL_SANDBOX_IMAGE', 'python:3.11-slim')
        clean = [word for name, value in _environment(_FOLDER).items() for word in ('--env', f'{name}={value}')]
        command = [
            docker, 'run', '--rm', '--interactive', '--name', container, '--network', 'none', '--read-only',
            '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges', '--user', '65534:65534',
            '--memory', f'{limits.memory + 256}m', '--memory-swap', f'{limits.memory + 256}m',
            '--pids-limit', '32', '--cpus', '1', *clean,
            '--tmpfs', f'{_FOLDER}:size={limits.disk}m,nr_inodes={MOST_FILES},mode=1777', '--workdir', _FOLDER,
            image, 'python', '-I', '-B', '-c', _DRIVER,
        ]  # fmt: skip

        def stop() -> None:
            subprocess.run([docker, 'rm', '--force', container], capture_output=True, check=False, timeout=30)

        return _spawn(command, {'PATH': os.environ.get('PATH', '')}, stop)


SANDBOXES: Mapping[str, Sandbox] = {
    sandbox.name: sandbox for sandbox in (SandlockSandbox(), BubblewrapSandbox(), DockerSandbox())
}
