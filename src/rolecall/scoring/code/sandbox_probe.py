"""Which sandbox to trust: the first in which a program tries every known way out and none is open."""

from __future__ import annotations

import os
import socket
import tempfile
from functools import cache

from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.scoring.code.execution import CodeProgram, run_programs
from rolecall.scoring.code.sandbox import SANDBOXES, Sandbox, SandboxError, SandboxLimits

BY_DEFAULT = ('bubblewrap', 'sandlock')
_PROBES = {
    'read files': 'open(outside).read()',
    'write files': 'open(outside, "w").write("x")',
    'change the modes of files': 'os.chmod(outside, 0o600)',
    'change the modes of devices': 'os.chmod("/dev/null", 0o666)',
    'change the times of files': 'os.utime(outside)',
    'start processes': 'os.fork() or os._exit(0)',
    'change the limits of other processes': 'resource.prlimit(parent, resource.RLIMIT_CORE)',
    'signal other processes': 'os.kill(parent, 0)',
    'hold other processes': 'os.pidfd_open(parent)',
    'take memory outside its limit': 'os.memfd_create("x")',
    'connect to this machine': 'socket.create_connection(("127.0.0.1", port), 1)',
    'connect to it by another protocol': 'socket.socket(2, 1, 262).connect(("127.0.0.1", port))',
}
"""What a program must not be able to do, and an attempt at it."""
_PROBE = """
import os, resource, socket
parent = os.getppid() if os.getpid() > 2 else 'in no namespace of ours'
open_ways = []
for way, attempt in attempts.items():
    try:
        exec(attempt)
    except Exception:
        continue
    open_ways.append(way)
assert not open_ways, 'a program can ' + ', '.join(open_ways)
"""


def choose_sandbox(name: str | None = None, *, where: str = 'evaluator') -> Sandbox:
    """The sandbox of this name, or the first of bubblewrap and sandlock that holds here.

    ROLECALL_SANDBOX names one for all configs. Refuses, with the reasons, where none confines a process; nothing is
    ever run without one.
    """
    wanted = name or os.environ.get('ROLECALL_SANDBOX') or ''
    if wanted and wanted not in SANDBOXES:
        raise ConfigError(Problem(where, f'unknown sandbox {wanted!r}.', did_you_mean(wanted, SANDBOXES)))
    reasons = []
    for candidate in [wanted] if wanted else BY_DEFAULT:
        reason = probe_sandbox(candidate)
        if not reason:
            return SANDBOXES[candidate]
        reasons.append(reason)
    raise ConfigError(
        Problem(
            where,
            f'it runs code that a model wrote, and no sandbox works here: {"; ".join(reasons)}.',
            "Install one with pip install 'rolecall[code]' or apt install bubblewrap"
            + ('.' if wanted == 'docker' else ', or set ROLECALL_SANDBOX=docker.'),
        )
    )


@cache
def probe_sandbox(name: str) -> str:
    """Why this sandbox cannot be trusted here; nothing if a program runs in it and all its attempts to get out fail."""
    with (
        tempfile.NamedTemporaryFile(prefix='rolecall-secret-') as outside,
        socket.create_server(('127.0.0.1', 0)) as server,
    ):
        names = f'outside, port = {outside.name!r}, {server.getsockname()[1]}\n'
        probe = CodeProgram(f'{names}attempts = {_PROBES!r}\n{_PROBE}')
        try:
            (ended,) = run_programs([probe], sandbox=SANDBOXES[name], limits=SandboxLimits(seconds=60))
        except SandboxError as error:
            return str(error)
    if ended.detail.startswith('AssertionError: '):
        reason = ended.detail.removeprefix('AssertionError: ').partition(' (line')[0]
        return f'{name} does not confine programs here: {reason}'
    return '' if ended.passed else f'{name} cannot run a program: {ended.outcome} {ended.detail}'.rstrip()
