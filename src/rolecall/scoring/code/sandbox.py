"""Confine a process: kernel-confined by sandlock, in bubblewrap's namespaces, or in a docker container.

A confined process reads only the interpreter, writes only an empty folder, has no network and a clean environment, and
cannot signal or see other processes. Before a sandbox is used it has to prove that: a probe tries to get out.
"""

from __future__ import annotations

import atexit
import errno
import importlib
import marshal
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
_PROXIES = tuple(
    name for kind in ('http', 'https', 'ftp', 'all') for name in (f'{kind}_proxy', f'{kind}_proxy'.upper())
)
"""What docker's client passes on to containers, from its configuration, unless given."""
_FOLDER = '/rolecall-sandbox'
_MB = 1 << 20
_LONGEST_COMPLAINT = 500
_LONGEST_WAIT = 30.0
"""Seconds for an interpreter to start, or for a process to be killed and its memory to be freed."""
_MOST_FILES, _MOST_THREADS = 1000, 256
_EXITING = 4  # among the kernel's flags of a process
_STATUS, _CREDENTIALS = struct.Struct('i'), struct.Struct('iII')


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
            'RLIMIT_SIGPENDING': 256,
            'RLIMIT_CORE': 0,
        }


class Confined(Protocol):
    """A confined process that has been started."""

    @property
    def commands(self) -> IO[bytes]: ...

    @property
    def reports(self) -> IO[bytes]: ...

    @property
    def namespaces(self) -> bool:
        """Whether it has mounts and a network of its own, so that chmod and sockets are harmless."""

    def find_excess(self, limits: SandboxLimits) -> str:
        """Which of the limits that the sandbox does not keep by itself it has passed; nothing if none."""

    def end(self) -> int | None:
        """Kill and reap it. The signal that had ended it; 0 if it ended by itself, None if the sandbox killed it."""


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
    namespaces: bool = False

    @property
    def commands(self) -> IO[bytes]:
        stream: IO[bytes] = self.process.stdin
        return stream

    @property
    def reports(self) -> IO[bytes]:
        stream: IO[bytes] = self.process.stderr
        return stream

    def find_excess(self, limits: SandboxLimits) -> str:
        size, files = _measure_folder(self.folder)
        size += _size_of_deleted(self.process.pid)
        if size > limits.disk * _MB or files > _MOST_FILES:
            return f'wrote more than {limits.disk} MB or {_MOST_FILES} files'
        return _find_excess_of_threads(self.process.pid)

    def end(self) -> int | None:
        ended = _is_ending(self.process.pid)
        self.process.kill()
        with self.process:
            result = self.process.wait(10)
        if result.reason is not None and result.reason.name == 'KILLED':
            return None if ended else signal.SIGKILL
        return max(int(result.signal), 0)


def _is_ending(process: int | None) -> bool:
    """Whether a process has ended or is about to, whoever ended it."""
    try:
        state, *numbers = Path(f'/proc/{process}/stat').read_bytes().rpartition(b')')[2].split()
    except OSError:
        return True
    return state in (b'Z', b'X') or bool(int(numbers[5]) & _EXITING)


def _measure_folder(folder: Path) -> tuple[int, int]:
    """The bytes and the number of files and folders in a folder, counted up to a bound."""
    size, count, pending = 0, 0, [str(folder)]
    while pending and count <= _MOST_FILES:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in islice(entries, _MOST_FILES + 1):
                    count += 1
                    size += entry.stat(follow_symlinks=False).st_size
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError as error:
            count += _MOST_FILES * (error.errno == errno.ENAMETOOLONG)
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


def _find_excess_of_threads(process: int) -> str:
    """No other limit holds them: that on processes does not count those of root."""
    with suppress(OSError):
        if os.stat(f'/proc/{process}/task').st_nlink > _MOST_THREADS:
            return f'started more than {_MOST_THREADS} threads'
    return ''


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
    namespaces: bool = True

    @property
    def commands(self) -> IO[bytes]:
        return _present(self.process.stdin)

    @property
    def reports(self) -> IO[bytes]:
        return _present(self.process.stderr)

    def find_excess(self, limits: SandboxLimits) -> str:
        return ''

    def end(self) -> int | None:
        self.stop()
        self.process.kill()
        with self.process:
            return _read_signal(self.process.wait(10))


def _read_signal(code: int) -> int:
    """The signal in an exit code: 128 + it where a process passes on the end of another, below 0 for its own."""
    return code - 128 if code > 128 else max(-code, 0)


def _present(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise SandboxError('the process has no pipe')
    return stream


def _spawn(
    command: Sequence[str], environment: Mapping[str, str], stop: Callable[[], None], stdin: int = subprocess.PIPE
) -> _Spawned:
    try:
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env=dict(environment),
        )
    except OSError as error:
        raise SandboxError(f'{command[0]} cannot be started: {error}') from error
    return _Spawned(process, stop)


@dataclass(frozen=True, slots=True)
class _WarmInterpreter:
    """An interpreter in bubblewrap that forks a confined process for each program, one at a time."""

    bwrap: _Spawned
    control: socket.socket

    def end(self) -> str:
        """End it with all that runs in it; what bubblewrap complained about."""
        self.control.close()
        self.bwrap.process.kill()
        complaint = self.bwrap.reports.read(_LONGEST_COMPLAINT)
        self.bwrap.end()
        return complaint.decode('utf-8', 'replace').strip()


@dataclass(slots=True)
class _Forked:
    """A process of a warm interpreter, in namespaces of its own."""

    interpreter: _WarmInterpreter
    commands: IO[bytes]
    reports: IO[bytes]
    namespaces: bool = True
    number: int = 0
    """Of the process, once it has written."""

    def find_excess(self, limits: SandboxLimits) -> str:
        if not self.number:
            space = socket.CMSG_SPACE(_CREDENTIALS.size)
            with suppress(OSError):
                _, ancillary, _, _ = self.interpreter.control.recvmsg(1, space, socket.MSG_DONTWAIT)
                self.number, _, _ = _CREDENTIALS.unpack(ancillary[0][2])
        return _find_excess_of_threads(self.number) if self.number else ''

    def end(self) -> int | None:
        self.commands.close()
        self.reports.close()
        try:
            self.interpreter.control.send(b'end')
            while len(status := self.interpreter.control.recv(_STATUS.size)) == 1:
                continue  # that it had started
            (code,) = _STATUS.unpack(status)
        except (OSError, struct.error):
            self.interpreter.end()
            return signal.SIGKILL
        _IDLE.append(self.interpreter)
        return _read_signal(os.waitstatus_to_exitcode(code))


_IDLE: deque[_WarmInterpreter] = deque()


@atexit.register
def end_idle_interpreters() -> None:
    with suppress(IndexError):
        while True:
            _IDLE.pop().end()


@dataclass(frozen=True, slots=True)
class BubblewrapSandbox:
    """Linux namespaces through the program `bwrap` (package bubblewrap).

    Starting it and Python takes 35 ms of computing, so an interpreter stays in it and forks for each program. Each fork
    has namespaces of its own for processes and mounts, and no capabilities; the network it shares is an empty one.
    """

    name: str = 'bubblewrap'

    def start(self, folder: Path, limits: SandboxLimits) -> Confined:
        interpreter = _IDLE.pop() if _IDLE else self._start_interpreter()
        theirs, commands = os.pipe()
        reports, others = os.pipe()
        options = f'size={limits.disk * _MB},nr_inodes={_MOST_FILES},mode=700'
        try:
            socket.send_fds(interpreter.control, [options.encode()], [theirs, others])
        except OSError:
            pass  # it was ended from outside: nothing will be reported, and another one is started
        finally:
            os.close(theirs)
            os.close(others)
        return _Forked(interpreter, os.fdopen(commands, 'wb', 0), os.fdopen(reports, 'rb', 0))

    def _start_interpreter(self) -> _WarmInterpreter:
        bwrap = shutil.which('bwrap')
        if bwrap is None:
            raise SandboxError(
                "bubblewrap is not installed (apt install bubblewrap; it takes a fifth of sandlock's CPU time)"
            )
        libraries = [word for path in _readable() for word in ('--ro-bind', path, path)]
        devices = [word for path in _DEVICES for word in ('--dev-bind', path, path)]
        clean = [word for name, value in _environment(_FOLDER).items() for word in ('--setenv', name, value)]
        command = [
            bwrap, '--unshare-all', '--unshare-user', '--uid', '65534', '--new-session',
            '--cap-drop', 'ALL', '--cap-add', 'CAP_SYS_ADMIN', '--clearenv', *clean, *libraries, *devices,
            '--dir', _FOLDER, '--chdir', _FOLDER, '--remount-ro', '/', '--', *_interpreter(), 'warm',
        ]  # fmt: skip
        control, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.settimeout(_LONGEST_WAIT)
        control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with inside:
            interpreter = _WarmInterpreter(_spawn(command, {}, lambda: None, inside.fileno()), control)
        with suppress(OSError):
            if control.recv(1):
                return interpreter
        raise SandboxError(f'bubblewrap cannot start an interpreter: {interpreter.end() or "no answer"}')


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
        own = {**_environment(_FOLDER), **dict.fromkeys(_PROXIES, '')}
        del own['PATH']  # the image's own knows where its Python is
        clean = [word for name, value in own.items() for word in ('--env', f'{name}={value}')]
        writable = f'{_FOLDER}:size={limits.disk}m,nr_inodes={_MOST_FILES},uid=65534,gid=65534'
        command = [
            docker, 'run', '--rm', '--interactive', '--name', container, '--network', 'none', '--ipc', 'none',
            '--read-only', '--tmpfs', writable, '--workdir', _FOLDER, '--cap-drop', 'ALL',
            '--security-opt', 'no-new-privileges', '--user', '65534:65534',
            '--memory', f'{limits.memory + 256}m', '--memory-swap', f'{limits.memory + 256}m',
            '--pids-limit', '32', '--cpus', '1', *clean, image, 'python', '-I', '-B', '-c', _DRIVER,
        ]  # fmt: skip

        def stop() -> None:
            with suppress(subprocess.TimeoutExpired):
                subprocess.run([docker, 'rm', '--force', container], capture_output=True, check=False, timeout=30)

        return _spawn(command, os.environ, stop)


SANDBOXES: Mapping[str, Sandbox] = {
    sandbox.name: sandbox for sandbox in (SandlockSandbox(), BubblewrapSandbox(), DockerSandbox())
}
