"""Programs in the sandbox: how they end, and that none gets out."""

from __future__ import annotations

import os
import platform
import resource
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rolecall.errors import ConfigError
from rolecall.scoring.code.execution import (
    Case,
    CodeProgram,
    Execution,
    run_program,
    run_programs,
)
from rolecall.scoring.code.sandbox import (
    _IDLE,
    SANDBOXES,
    Confined,
    SandboxError,
    SandboxLimits,
    _Spawned,
    end_idle_interpreters,
)
from rolecall.scoring.code.sandbox_probe import choose_sandbox, probe_sandbox

pytestmark = pytest.mark.skipif(sys.platform != 'linux', reason='sandboxes need Linux')

DOCKER = ('docker',) if os.environ.get('ROLECALL_SANDBOX') == 'docker' else ()
USABLE = [name for name in ('sandlock', 'bubblewrap', *DOCKER) if sys.platform == 'linux' and not probe_sandbox(name)]


def test_a_sandbox_works_here() -> None:
    assert 'sandlock' in USABLE, probe_sandbox('sandlock')


@pytest.fixture(params=USABLE)
def sandbox(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(source: str, sandbox: str = 'sandlock', **options: object) -> Execution:
    limits = SandboxLimits(**{'seconds': 2.0, **options})  # type: ignore[arg-type]
    return run_program(CodeProgram(source), SANDBOXES[sandbox], limits)


ENDINGS = [
    ('assert 1 + 1 == 2', 'passed', ''),
    ('assert 1 + 1 == 3', 'failed', 'AssertionError:  (line 1)'),
    ('x = 1\nx.y', 'failed', "AttributeError: 'int' object has no attribute 'y' (line 2)"),
    ('def f(:', 'failed', 'SyntaxError: invalid syntax (<program>, line 1)'),
    ('raise SystemExit(0)', 'failed', 'SystemExit: 0 (line 1)'),
    ('import os; os._exit(0)', 'failed', 'the process ended itself before the tests were done'),
    ('import os, signal; os.kill(os.getpid(), signal.SIGSEGV)', 'failed', 'killed by signal 11'),
    ('f = lambda: f()\nf()', 'failed', 'RecursionError'),
    ('while True: pass', 'timeout', 'no result within 2 s'),
    ('import time; time.sleep(60)', 'timeout', 'no result within 2 s'),
    ('try:\n    while True: pass\nexcept BaseException: pass', 'timeout', ''),
    ('import threading; threading.Thread(target=print).start()', 'passed', ''),
    ('import asyncio; asyncio.run(asyncio.sleep(0))', 'passed', ''),
    ('import numpy, json, decimal; numpy.ones(3).sum()', 'passed', ''),
    ('open("mine", "w").write("x"); assert open("mine").read() == "x"', 'passed', ''),
    ('import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: "int" = 1\nA()', 'passed', ''),
    ('print("x" * 10**6, flush=True)', 'passed', ''),
    ('import os, time; os.closerange(0, 99); time.sleep(60)', 'failed', 'the process ended itself before'),
    ('error = OSError()\nerror.told_by_solution = "failed", "x" * 10**6\nraise error', 'failed', 'x' * 1000),
]


@pytest.mark.parametrize(('source', 'outcome', 'detail'), ENDINGS)
def test_how_a_program_ends(source: str, outcome: str, detail: str) -> None:
    ended = run(source) if outcome == 'timeout' else run(source, seconds=60.0)
    assert (ended.outcome, detail in ended.detail) == (outcome, True), ended
    assert len(ended.detail) <= 1000


def test_the_limits_end_a_program_that_uses_too_much(sandbox: str) -> None:
    assert run('while True: pass', sandbox).outcome == 'timeout'
    for source, outcome in (
        ('x = bytearray(2 << 30)', 'memory'),
        ('x = []\nwhile True: x.append(bytearray(1 << 24))', 'memory'),
        ('f = open("big", "wb")\nwhile True: f.write(b"x" * (1 << 20))', 'denied'),
        ('import os\nfor _ in range(50): os.fork()', 'denied'),
    ):
        assert run(source, sandbox, seconds=60.0).outcome == outcome


SMALL_THREADS = """
import ctypes, time
library, thread, settings = ctypes.CDLL(None), ctypes.c_ulong(), ctypes.create_string_buffer(64)
library.pthread_attr_init(settings)
library.pthread_attr_setstacksize(settings, ctypes.c_size_t(16384))
for _ in range(3000):
    assert library.pthread_create(ctypes.byref(thread), settings, ctypes.cast(library.pause, ctypes.c_void_p), None) == 0
time.sleep(60)
"""


def test_the_process_numbers_of_the_machine_are_not_used_up_with_threads(sandbox: str) -> None:
    ended = run(SMALL_THREADS, sandbox, seconds=60.0)
    assert ended.detail in ('started more than 256 threads', 'AssertionError:  (line 7)' * (sandbox == 'docker'))


def test_a_disk_is_not_filled_with_many_files() -> None:
    source = 'n = 0\nwhile True:\n    n += 1\n    open(str(n), "wb").write(b"x" * (1 << 19))'
    assert run(source, seconds=120.0).outcome == 'denied'


@pytest.mark.parametrize('hold', ['files.append(file)', 'maps.append(mmap.mmap(file.fileno(), 1 << 24))'])
def test_a_disk_is_not_filled_with_files_that_were_deleted(hold: str, sandbox: str) -> None:
    source = (
        'import mmap, os\nfiles, maps = [], []\nwhile True:\n    file = open("x", "w+b", 0)\n    os.remove("x")\n'
        f'    for _ in range(16): file.write(b"x" * (1 << 20))\n    {hold}'
    )
    free = os.statvfs(tempfile.gettempdir())
    assert run(source, sandbox, seconds=120.0, memory=256).outcome in ('denied', 'memory')
    after = os.statvfs(tempfile.gettempdir())
    assert (after.f_bfree - free.f_bfree) * free.f_frsize > -(1 << 28)


DEEP = 'import os\nfor _ in range(5000):\n    os.mkdir("{name}")\n    os.chdir("{name}")\nopen("file", "w")'
WIDE = 'import os\nfor number in range(200_000): os.mkdir(str(number), 0)'


@pytest.mark.parametrize(
    'source', [DEEP.format(name='d'), DEEP.format(name='d' * 250), WIDE], ids=['deep', 'long', 'wide']
)
def test_folders_without_end_cost_one_row_and_are_deleted(
    source: str, sandbox: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('tempfile.tempdir', str(tmp_path))
    programs = [CodeProgram(f'{source}\nimport time; time.sleep(60)'), CodeProgram('assert True')]
    ended = run_programs(programs, sandbox=SANDBOXES[sandbox], limits=SandboxLimits(seconds=30.0))
    assert [execution.outcome for execution in ended] == ['denied', 'passed']
    assert list(tmp_path.iterdir()) == []


def test_a_disk_is_watched_while_a_program_keeps_talking(sandbox: str) -> None:
    source = 'n = 0\ndef f():\n    global n\n    n += 1\n    open(str(n), "w")\n    return n'
    program = CodeProgram(source, checks='while True: f()', names=('f',))
    assert run_program(program, SANDBOXES[sandbox], SandboxLimits(seconds=60.0)).outcome == 'denied'


@pytest.fixture(autouse=True)
def _end_interpreters() -> Iterator[None]:
    """Tests that find no bubblewrap must not be handed the interpreter of a test before them."""
    yield
    end_idle_interpreters()


@pytest.fixture
def secret(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / 'secret.txt'
    path.write_text('a secret')
    before = standing(path)
    yield path
    assert path.read_text() == 'a secret'
    assert standing(path) == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ['secret.txt']


def standing(path: Path) -> tuple[object, ...]:
    """What a program must not change: a file's mode, owner and time, and the limits and priority of this process."""
    status, limit = path.stat(), resource.getrlimit(resource.RLIMIT_CPU)
    return status.st_mode, status.st_uid, status.st_mtime_ns, limit, os.getpriority(os.PRIO_PROCESS, 0)


_NUMBERS = {'x86_64': (272, 250, 321, 310, 206), 'aarch64': (97, 219, 280, 270, 0)}.get(platform.machine(), (0,) * 5)
_CALL = (
    'import ctypes; UNSHARE, KEYCTL, BPF, VM_READ, SETUP = {}, {}, {}, {}, {}; '.format(*_NUMBERS)
    + 'call, space = ctypes.CDLL(None).syscall, ctypes.create_string_buffer(256)'
)
_FILTER = (
    'import ctypes, struct; steps = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))\n'
    'listing = struct.pack("HxxxxxxP", 1, ctypes.addressof(steps))\n'
)
ESCAPES = {
    'read a file': 'open({secret!r}).read()',
    'read through a link': 'import os; os.symlink({secret!r}, "link"); open("link").read()',
    'read through a relative path': 'import os; open(os.path.relpath({secret!r})).read()',
    'write a file': 'open({secret!r}, "w").write("gone")',
    'make a file beside it': 'open({secret!r} + ".new", "w")',
    'delete a file': 'import os; os.remove({secret!r})',
    'move a file': 'import os; os.rename({secret!r}, "mine")',
    'list a folder': 'import os; assert not os.path.exists({secret!r}); os.listdir(os.path.dirname({secret!r}))',
    'read the password file': 'open("/etc/passwd").read()',
    'read /proc': 'import os; os.listdir("/proc")',
    'read the environment of others': 'open("/proc/1/environ", "rb").read()',
    'read its own environment': 'open("/proc/self/environ", "rb").read()',
    'read memory': 'open("/dev/mem", "rb").read(1)',
    'write to shared memory': 'open("/dev/shm/x", "w")',
    'write to /tmp': 'open("/tmp/rolecall-escaped", "w")',
    'run a command': 'import subprocess; subprocess.run(["/bin/ls"], check=True)',
    'run a shell': 'import posix; assert posix.system("touch /tmp/rolecall-escaped") == 0',
    'load a file as a library': 'import ctypes; ctypes.CDLL({secret!r})',
    'trace another process': 'import ctypes; assert ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0',
    'use io_uring': f'{_CALL}; assert call(425, 8, space) >= 0',
    'make a user namespace': f'{_CALL}; assert call(UNSHARE, 0x10000000) == 0',
    'read a keyring': f'{_CALL}; assert call(KEYCTL, 0, -3, 1) > 0',
    'load a kernel program': f'{_CALL}; assert call(BPF, 0, space, 128) >= 0',
    "read another's memory": f'{_CALL}; assert call(VM_READ, {{parent}}, space, 1, space, 1, 0) >= 0',
    'connect to an abstract socket': 'import socket; socket.socket(socket.AF_UNIX).connect({abstract!r})',
    'write its own memory': 'open("/proc/self/mem", "r+b")',
    'mount': 'import ctypes; assert ctypes.CDLL(None).mount(b"/", b".", b"none", 4096, 0) == 0',
    'change the root': 'import os; os.chroot("/"); open({secret!r}).read()',
    'raise a limit': 'import resource as r; r.setrlimit(r.RLIMIT_AS, (1 << 40, 1 << 40))',
    'signal the parent': 'import os; os.kill({parent}, 0)',
    'connect to a server': 'import socket; socket.create_connection(("127.0.0.1", {port}), 1)',
    'connect to a local socket': 'import socket; socket.socket(socket.AF_UNIX).connect({unix!r})',
    'lower a limit of the parent': 'import resource as r; r.prlimit({parent}, r.RLIMIT_CPU, (1, 1))',
    'lower a limit of its starter': 'import os, resource as r; r.prlimit(os.getppid(), r.RLIMIT_CPU, (1, 1))',
    'hold the parent': 'import os; os.pidfd_open({parent})',
    'hold itself': 'import os; os.pidfd_open(os.getpid())',
    'slow the parent down': 'import os; os.setpriority(os.PRIO_PROCESS, {parent}, 19)',
    'slow the user down': 'import os; os.setpriority(os.PRIO_USER, 0, 19)',
    'pin the parent': 'import os; os.sched_setaffinity({parent}, [0])',
    'make the parent idle': 'import os; os.sched_setscheduler({parent}, os.SCHED_IDLE, os.sched_param(0))',
    'change a mode': 'import os; os.chmod({secret!r}, 0o777)',
    'change the mode of a device': 'import os; os.chmod("/dev/null", 0o666)',
    'change the time of a device': 'import os; os.utime("/dev/zero")',
    'change an owner': 'import os; os.chown({secret!r}, os.getuid(), os.getgid())',
    'change a time': 'import os; os.utime({secret!r}, (0, 0))',
    'set an attribute': 'import os; os.setxattr({secret!r}, "user.x", b"x")',
    'set flags of a file': 'import fcntl, os; fcntl.ioctl(open(os.__file__), 0x40086602, bytes([128, 0, 0, 0]))',
    'lease a file': 'import fcntl, os; fcntl.fcntl(open(os.__file__), 1024, 0)',
    'take memory outside every limit': 'import os; os.memfd_create("x")',
    'take shared memory': 'import ctypes; assert ctypes.CDLL(None).shmget(0, 4096, 0o1600) >= 0',
    'hold pages in a pipe': 'import ctypes, os; assert ctypes.CDLL(None).vmsplice(os.pipe()[1], None, 0, 0) == 0',
    'hold pages of files': 'import os; os.sendfile(os.pipe()[1], os.open(os.__file__, os.O_RDONLY), 0, 1)',
    'widen a socket': 'import socket as s; s.socketpair()[0].setsockopt(s.SOL_SOCKET, s.SO_SNDBUF, 1 << 22)',
    'watch a folder': 'import ctypes; assert ctypes.CDLL(None).inotify_init() >= 0',
    'connect by multipath TCP': 'import socket as s; s.socket(s.AF_INET, s.SOCK_STREAM, 262).connect(("127.0.0.1", {port}))',
    'connect by sending': 'import socket as s; s.socket().sendto(b"x", s.MSG_FASTOPEN, ("127.0.0.1", {port}))',
    'have descriptors of its own in a thread': 'import ctypes; assert ctypes.CDLL(None).syscall(436, 9999, 9999, 2) == 0',
    'start a thread with its own descriptors': (
        'import ctypes; library, stack = ctypes.CDLL(None), ctypes.create_string_buffer(1 << 16)\n'
        'top = ctypes.c_void_p(ctypes.addressof(stack) + 65520)\n'
        'assert library.clone(ctypes.cast(library.pause, ctypes.c_void_p), top, 0x10B00, None) > 0'
    ),
    'hold memory in connections that nobody accepts': 'import socket; s = socket.socket(socket.AF_UNIX); s.bind("\\0x"); s.listen()',
    'hold memory in filters': f'{_FILTER}assert ctypes.CDLL(None).prctl(22, 2, listing, 0, 0) == 0',
    'hold memory in rules of Landlock': f'{_CALL}; assert call(444, (ctypes.c_ulonglong * 2)(1, 0), 16, 0) >= 0',
    "use up the machine's asynchronous I/O": f'{_CALL}; assert call(SETUP, 9, space) == 0',
    'take blocks beyond the end of a file': (
        'import ctypes; f = open("x", "w"); far = ctypes.c_long(1 << 28)\n'
        'assert ctypes.CDLL(None).fallocate(f.fileno(), 1, far, far) == 0'
    ),
    'make a pair of other sockets': 'import socket; socket.socketpair(30, socket.SOCK_STREAM)',
    'call the host of a virtual machine': 'import socket; socket.socket(socket.AF_VSOCK)',
    'reach a name': 'import socket; socket.getaddrinfo("localhost", 80); socket.create_connection(("localhost", {port}))',
}

HARMLESS_IN_A_CONTAINER = {
    ESCAPES[name]
    for name in (
        'read the password file', 'read /proc', 'read the environment of others', 'read its own environment',
        'write its own memory', 'lower a limit of its starter', 'change the time of a device',
    )
}  # fmt: skip
"""What a container has of its own: files, devices and processes. Its starter is seen as process 0, the caller itself."""


@pytest.mark.parametrize('attempt', ESCAPES.values(), ids=ESCAPES)
def test_no_program_gets_out(
    attempt: str, sandbox: str, secret: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if sandbox == 'docker' and attempt in HARMLESS_IN_A_CONTAINER:
        pytest.skip('a container has this of its own')
    unix = str(tmp_path_factory.mktemp('s') / 'socket')
    abstract = f'\0rolecall-{os.getpid()}'
    with (
        socket.create_server(('127.0.0.1', 0)) as server,
        socket.socket(socket.AF_UNIX) as local,
        socket.socket(socket.AF_UNIX) as named,
    ):
        local.bind(unix)
        named.bind(abstract)
        for one in (local, named):
            one.listen()
        for one in (server, local, named):
            one.setblocking(False)
        given = {'secret': str(secret), 'parent': os.getpid(), 'port': server.getsockname()[1], 'unix': unix}
        given['abstract'] = abstract
        ended = run(attempt.format(**given), sandbox)
        assert ended.outcome in ('denied', 'failed'), ended
        for listening in (server, local, named):
            with pytest.raises(BlockingIOError):
                listening.accept()
    assert not Path('/tmp/rolecall-escaped').exists()


def test_nobody_can_connect_to_a_program(sandbox: str) -> None:
    """Landlock allows to listen without a port of one's choice."""
    assert run('import socket; socket.socket().listen()', sandbox).outcome == 'denied'


def test_no_program_runs_without_the_filter(sandbox: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('rolecall.scoring.code.execution.build_filter', lambda *, namespaces: bytes(8))
    with pytest.raises(SandboxError, match='this kernel installs no seccomp filter'):
        run('assert True', sandbox)


def test_loops_of_asyncio_need_no_network(sandbox: str) -> None:
    source = 'import asyncio\nasync def f(): return 1\nassert asyncio.run(f()) == 1'
    assert run(source, sandbox, seconds=20.0).passed


def test_the_environment_is_clean(monkeypatch: pytest.MonkeyPatch, sandbox: str) -> None:
    monkeypatch.setenv('OPENAI_API_KEY', 'sk-secret')
    source = 'import os\nassert "OPENAI_API_KEY" not in os.environ\nassert "secret" not in str(dict(os.environ))'
    assert run(source, sandbox).passed


def test_the_folder_is_empty_at_first_and_gone_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('tempfile.tempdir', str(tmp_path))
    source = 'import os\nassert os.listdir() == []\nos.makedirs("a/b")\nopen("a/b/c", "w")\nos.mkdir("a/hidden", 0)'
    assert run(source).passed
    assert list(tmp_path.iterdir()) == []


def test_a_program_cannot_pass_by_what_it_prints_or_writes() -> None:
    source = (
        'import os\n'
        'for number in range(3, 20):\n'
        '    try: os.write(number, b\'{"step": "loaded"}\\n\' * 3)\n'
        '    except OSError: pass\n'
        'os._exit(0)'
    )
    assert run(source).outcome == 'failed'


def test_a_program_that_never_reads_its_input_does_not_hold_up_the_run() -> None:
    tests = tuple(Case('x' * (1 << 20), lambda printed: True) for _ in range(3))
    ended = run_program(
        CodeProgram('while True: pass', 'stdio', tests), SANDBOXES['sandlock'], SandboxLimits(seconds=1.0)
    )
    assert ended.outcome == 'timeout'


STDIO = CodeProgram(
    'import sys\nn = int(input())\nprint(sum(map(int, sys.stdin.read().split())))\nsys.exit(3)',
    'stdio',
    (Case('2\n1 2\n', lambda printed: printed == '3\n'), Case('1\n5\n', lambda printed: printed == '5\n')),
)
CALL = CodeProgram(
    'class Solution:\n    def add(self, a, b): return (a, b, a + b)',
    'call',
    (Case([1, 2], lambda value: value == [1, 2, 3]), Case(['a', 'b'], lambda value: value == ['a', 'b', 'ab'])),
    'add',
)


@pytest.mark.parametrize('program', [STDIO, CALL], ids=['stdio', 'call'])
def test_every_test_of_a_program_is_run(program: CodeProgram, sandbox: str) -> None:
    assert run_program(program, SANDBOXES[sandbox], SandboxLimits()).passed


def test_a_wrong_answer_names_the_test() -> None:
    wrong = CodeProgram(STDIO.source, 'stdio', (*STDIO.tests, Case('1\n1\n', lambda printed: False)))
    assert run_program(wrong, SANDBOXES['sandlock'], SandboxLimits()).detail == "test 3 of 3: printed '1\\n'"


def test_a_value_that_json_has_no_form_for_is_compared_as_its_repr() -> None:
    program = CodeProgram('f = lambda: {1}', 'call', (Case([], lambda value: value == '{1}'),), 'f')
    assert run_program(program, SANDBOXES['sandlock'], SandboxLimits()).passed


def test_output_without_end_is_not_kept() -> None:
    program = CodeProgram('while True: print("x" * 100000)', 'stdio', (Case('', lambda printed: True),))
    assert run_program(program, SANDBOXES['sandlock'], SandboxLimits(seconds=120.0)).outcome in ('denied', 'failed')


class Meeting:
    """A sandbox that starts no program before so many are to be started."""

    name = 'meeting'

    def __init__(self, programs: int) -> None:
        self._expected = programs
        self._there = 0
        self._arrival = threading.Condition()

    def start(self, folder: Path, limits: SandboxLimits) -> Confined:
        with self._arrival:
            self._there += 1
            self._arrival.notify_all()
            assert self._arrival.wait_for(lambda: self._there >= self._expected, timeout=60)
        return SANDBOXES['sandlock'].start(folder, limits)


def test_programs_run_side_by_side_and_report_progress() -> None:
    seen: list[tuple[int, int]] = []
    programs = [CodeProgram(f'assert {number} % 2') for number in range(8)]
    ended = run_programs(
        programs, sandbox=Meeting(8), workers=8, progress=lambda done, total: seen.append((done, total))
    )
    assert [one.passed for one in ended] == [False, True] * 4
    assert seen == [(done, 8) for done in range(1, 9)]


class Unreliable:
    """A sandbox whose first processes end before they have the program, or are killed while they run it."""

    name = 'unreliable'

    def __init__(self, faults: int, *, kills: bool) -> None:
        self.faults = faults
        self.kills = kills
        self.starts = 0

    def start(self, folder: Path, limits: SandboxLimits) -> Confined:
        self.starts += 1
        if self.starts > self.faults:
            return SANDBOXES['sandlock'].start(folder, limits)
        driver = 'import sys; sys.stdin.readline()'
        if self.kills:
            driver = (
                'import json, sys; key = json.loads(sys.stdin.readline())["key"];'
                'print(key + json.dumps({"step": "ready"}), file=sys.stderr)'
            )
        pipes = subprocess.PIPE
        process = subprocess.Popen([sys.executable, '-c', driver], stdin=pipes, stderr=pipes, bufsize=0)
        return Killed(process, lambda: None)


class Killed(_Spawned):
    def end(self) -> int | None:
        super().end()
        return None


@pytest.mark.parametrize('kills', [False, True], ids=['at the start', 'later'])
def test_a_process_that_the_sandbox_ends_is_started_again(kills: bool) -> None:
    sandbox = Unreliable(2, kills=kills)
    ended = run_program(CodeProgram('assert 1'), sandbox, SandboxLimits())
    assert (ended.outcome, sandbox.starts) == ('passed', 3)


def test_a_sandbox_that_always_ends_its_processes_is_an_error_at_the_start_and_over_memory_later() -> None:
    with pytest.raises(SandboxError, match='the interpreter did not start: killed by the sandbox'):
        run_program(CodeProgram('assert 1'), Unreliable(9, kills=False), SandboxLimits())
    ended = run_program(CodeProgram('assert 1'), Unreliable(9, kills=True), SandboxLimits())
    assert (ended.outcome, ended.detail) == ('memory', 'killed: over 1024 MB')


STAIN = """
import builtins, ctypes, os, signal, socket
builtins.stain = os.stain = 1
os.environ['STAIN'] = '1'
open('stain', 'w')
socket.socket(socket.AF_UNIX).bind(chr(0) + 'stain')
signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""
LOOK_FOR_STAINS = """
import builtins, ctypes, os, signal, socket
assert not hasattr(builtins, 'stain') and not hasattr(os, 'stain') and 'STAIN' not in os.environ
assert os.listdir() == [] and os.getpid() == 2
socket.socket(socket.AF_UNIX).bind(chr(0) + 'stain')
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
for number in range(6, 64):
    try: os.fstat(number)
    except OSError: continue
    raise AssertionError(f'descriptor {number} is open')
mine = (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capget((ctypes.c_uint32 * 2)(0x20080522, 0), mine) == 0 and not any(mine), list(mine)
"""


@pytest.mark.skipif('bubblewrap' not in USABLE, reason='needs bubblewrap')
def test_programs_that_are_forked_from_one_interpreter_leave_nothing_to_each_other() -> None:
    for source in (STAIN, LOOK_FOR_STAINS, 'import os; os.kill(1, 2); os.kill(1, 9)', LOOK_FOR_STAINS):
        ended = run(source, 'bubblewrap')
        assert ended.passed or source.startswith('import os; os.kill'), ended
    assert len(_IDLE) == 1


@pytest.mark.skipif('bubblewrap' not in USABLE, reason='needs bubblewrap')
def test_an_interpreter_that_was_ended_from_outside_is_replaced() -> None:
    assert run('assert True', 'bubblewrap').passed
    _IDLE[-1].bwrap.process.kill()
    _IDLE[-1].bwrap.process.wait(60)
    assert run('assert True', 'bubblewrap').passed


@pytest.mark.skipif('bubblewrap' not in USABLE, reason='needs bubblewrap')
def test_no_interpreter_stays_when_all_programs_have_run() -> None:
    run_programs([CodeProgram('assert True')] * 5, sandbox=SANDBOXES['bubblewrap'], workers=2)
    assert not _IDLE


def test_an_interpreter_that_is_slow_to_start_is_not_the_program_s_fault() -> None:
    class Silent:
        name = 'silent'

        def start(self, folder: Path, limits: SandboxLimits) -> Confined:
            pipes = subprocess.PIPE
            process = subprocess.Popen(['sleep', '60'], stdin=pipes, stderr=pipes, bufsize=0)
            return _Spawned(process, lambda: None)

    with pytest.raises(SandboxError, match=r'the interpreter did not start: no result within 0.1 s'):
        run_program(CodeProgram('assert 1'), Silent(), SandboxLimits(start_seconds=0.1))


def test_without_a_sandbox_code_is_refused_with_the_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, 'sandlock', None)
    monkeypatch.setenv('PATH', '/nowhere')
    probe_sandbox.cache_clear()
    try:
        with pytest.raises(ConfigError) as raised:
            choose_sandbox()
        with pytest.raises(ConfigError, match=r'(?s)docker is not installed.*apt install bubblewrap\.$'):
            choose_sandbox('docker')
    finally:
        probe_sandbox.cache_clear()
    said = str(raised.value)
    assert 'sandlock is not installed' in said
    assert 'bubblewrap is not installed' in said
    assert "pip install 'rolecall[code]'" in said


def test_a_bubblewrap_that_can_make_no_namespaces_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bwrap = tmp_path / 'bwrap'
    bwrap.write_text('#!/bin/sh\necho "bwrap: No permissions to create new namespace" >&2\nsleep 0.2\nexit 1\n')
    bwrap.chmod(0o755)
    monkeypatch.setenv('PATH', f'{tmp_path}:{os.environ["PATH"]}')
    probe_sandbox.cache_clear()
    try:
        assert 'No permissions to create new namespace' in probe_sandbox('bubblewrap')
        assert choose_sandbox().name == 'sandlock'
    finally:
        probe_sandbox.cache_clear()


def test_docker_finds_its_daemon_and_a_container_its_python_but_no_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / 'seen'
    docker = tmp_path / 'docker'
    docker.write_text(f'#!/bin/sh\necho "daemon $DOCKER_HOST" "$@" >> {seen}\n')
    docker.chmod(0o755)
    monkeypatch.setenv('PATH', f'{tmp_path}:{os.environ["PATH"]}')
    monkeypatch.setenv('DOCKER_HOST', 'unix:///here')
    with pytest.raises(SandboxError, match='the interpreter did not start'):
        run_program(CodeProgram('assert 1'), SANDBOXES['docker'], SandboxLimits())
    started = seen.read_text()
    assert 'daemon unix:///here run' in started
    assert '--env http_proxy= ' in started
    assert '--env PATH' not in started


def test_a_sandbox_that_confines_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from rolecall.scoring.code import sandbox as module

    class Bare:
        name = 'bare'

        def start(self, folder: Path, limits: SandboxLimits) -> module.Confined:
            return module._spawn([sys.executable, '-I', '-c', module._DRIVER], os.environ, lambda: None)

    monkeypatch.setattr('rolecall.scoring.code.sandbox_probe.SANDBOXES', {'bare': Bare()})
    with pytest.raises(ConfigError, match='bare does not confine programs here'):
        choose_sandbox('bare')
    assert subprocess  # the bare process is what other harnesses start


def test_an_unknown_sandbox_is_an_error_with_a_suggestion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('ROLECALL_SANDBOX', 'dokcer')
    with pytest.raises(ConfigError, match="Did you mean 'docker'"):
        choose_sandbox()
