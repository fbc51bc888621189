"""Run programs in a sandbox, several at once, each in a fresh process, and say how each ended."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

from rolecall.scoring.code.sandbox import (
    Confined,
    Sandbox,
    SandboxError,
    SandboxLimits,
    end_idle_interpreters,
)
from rolecall.scoring.code.seccomp import build_filter

Outcome = Literal['passed', 'failed', 'timeout', 'memory', 'denied']
Progress = Callable[[int, int], None]

_FAILURES = ('failed', 'memory', 'denied')
_TICK = 0.05
_LONGEST_REPORT, _LONGEST_DETAIL = 16 << 20, 1000
_MB = 1 << 20
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Case:
    """One input of a program, and whether what came back is right: printed text, or a returned value as JSON has it."""

    given: Any
    is_right: Callable[[Any], bool] = field(compare=False)


@dataclass(frozen=True, slots=True)
class CodeProgram:
    """Source to run, and how it is tested.

    `check`: `checks` are assertions about the source, which run in a process of their own; without them, the source
    holds its own assertions. `stdio`: it is a script that reads a test's text and prints. `call`: `function`, or the
    method of that name of the class Solution, is called with a test's arguments.
    """

    source: str
    kind: Literal['check', 'stdio', 'call'] = 'check'
    tests: tuple[Case, ...] = ()
    function: str = ''
    module: str = 'program'
    checks: str = ''
    setup: str = ''
    """What the checks need besides the solution, run before them."""
    names: tuple[str, ...] = ()
    """What the checks take from the solution; unless given, the names that they use and do not define."""


@dataclass(frozen=True, slots=True)
class Execution:
    """How a program ended."""

    outcome: Outcome
    detail: str = ''
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.outcome == 'passed'


def run_programs(
    programs: Sequence[CodeProgram],
    *,
    sandbox: Sandbox,
    limits: SandboxLimits | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Execution]:
    """Run all programs, `workers` at once, and report how many are done."""
    limits = limits or SandboxLimits()
    done: dict[int, Execution] = {}
    with ThreadPoolExecutor(workers or min(16, os.cpu_count() or 1), 'rolecall-code') as pool:
        waiting = {pool.submit(run_program, program, sandbox, limits): at for at, program in enumerate(programs)}
        try:
            for future in as_completed(waiting):
                done[waiting[future]] = future.result()
                if progress is not None:
                    progress(len(done), len(programs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            end_idle_interpreters()
    return [done[at] for at in range(len(programs))]


def run_program(program: CodeProgram, sandbox: Sandbox, limits: SandboxLimits) -> Execution:
    """Run one program in a fresh confined process with an empty folder, which is deleted afterwards."""
    started = time.monotonic()
    outcome: Outcome
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            _run_once(program, sandbox, limits)
            outcome, detail = 'passed', ''
        except SandboxError:  # nothing of the program has run: a start that failed says nothing about it
            if not attempts_left:
                raise
            continue
        except _EndedError as error:
            outcome, detail = error.outcome, error.detail
            if error.by_sandbox:  # rarely right: a program that takes too much memory is refused it long before
                continue
        break
    return Execution(outcome, detail, time.monotonic() - started)


def _run_once(program: CodeProgram, sandbox: Sandbox, limits: SandboxLimits) -> None:
    """Return if the program passes, raise how it ended otherwise."""
    with _open_session(sandbox, limits) as session:
        if not program.checks:
            session.run(program)
            return
        with _open_session(sandbox, limits) as checks:
            _run_checks(program, session, checks, limits.seconds)


@contextmanager
def _open_session(sandbox: Sandbox, limits: SandboxLimits) -> Iterator[_Session]:
    with _empty_folder() as folder:
        session = _Session(sandbox.start(folder, limits), folder, limits)
        try:
            yield session
        finally:
            session.end()


def _run_checks(program: CodeProgram, solution: _Session, checks: _Session, seconds: float) -> None:
    """Pass messages between a solution and its checks. Only the checks can say that it passed."""
    for session, kind, source in ((solution, 'solution', program.source), (checks, 'checks', program.checks)):
        session.start(replace(program, source=source), kind)
    deadline = time.monotonic() + seconds
    solution.exchange(None, seconds, deadline=deadline)
    message: Any = 'loaded'
    for session in cycle((checks, solution)):
        report = session.exchange(message, seconds, deadline=deadline)
        if session is checks and report['step'] == 'passed':
            return
        message = report.get('message')
        if report['step'] != 'said' or not isinstance(message, dict):
            raise _EndedError('failed', 'the solution does not answer the checks')


class _EndedError(Exception):
    """The process ended, or had to be ended, before it reported."""

    def __init__(self, outcome: Outcome, detail: str, *, by_sandbox: bool = False) -> None:
        self.outcome: Outcome = outcome
        self.detail = detail[:_LONGEST_DETAIL]
        self.by_sandbox = by_sandbox


class _Session:
    """The conversation with one confined process. Nothing that the process does can make it wait for ever."""

    def __init__(self, process: Confined, folder: Path, limits: SandboxLimits) -> None:
        self._process = process
        self._folder = folder
        self._limits = limits
        self._key = secrets.token_hex(16).encode()
        self._received = bytearray()
        self._noise = b''
        self._ended = False
        self._next_check = time.monotonic() + _TICK
        os.set_blocking(process.commands.fileno(), False)
        os.set_blocking(process.reports.fileno(), False)

    def run(self, program: CodeProgram) -> None:
        self.start(program, program.kind)
        if program.kind != 'stdio':
            self.exchange(None, self._limits.seconds)
        for number, test in enumerate(program.tests, start=1):
            report = self.exchange(test.given, self._limits.seconds)
            if reason := _describe_failure(program.kind, test, report):
                raise _EndedError('failed', f'test {number} of {len(program.tests)}: {reason}')

    def start(self, program: CodeProgram, kind: str) -> None:
        """Hand the program over, and wait until the interpreter is ready."""
        task = {
            'key': self._key.decode(),
            'kind': kind,
            'source': program.source,
            'setup': program.setup,
            'names': program.names,
            'module': program.module,
            'function': program.function,
            'output_limit': self._limits.output * _MB,
            'limits': self._limits.as_rlimits(tests=len(program.tests)),
            'filter': build_filter(namespaces=self._process.namespaces).hex(),
        }
        try:
            self.exchange(task, self._limits.start_seconds, starting=True)
        except _EndedError as error:
            raise SandboxError(f'the interpreter did not start: {error.detail}') from error

    def end(self) -> int | None:
        """Kill and reap the process; the signal that had ended it before, as `Confined.end` says it."""
        if self._ended:
            return 0
        self._ended = True
        return self._process.end()

    def exchange(
        self, command: object, seconds: float, *, deadline: float | None = None, starting: bool = False
    ) -> Mapping[str, Any]:
        """Send a command, if there is one, and wait for the next report: so many seconds, or until the deadline."""
        unsent = b'' if command is None else json.dumps(command).encode() + b'\n'
        deadline = time.monotonic() + seconds if deadline is None else deadline
        poll = select.poll()
        poll.register(self._process.reports.fileno(), select.POLLIN)
        if unsent:
            poll.register(self._process.commands.fileno(), select.POLLOUT)
        while True:
            report = self._next_report()
            if report is not None:
                return self._raise_if_ended(report)
            if time.monotonic() > deadline:
                raise _EndedError('timeout', f'no result within {seconds:g} s')
            ready = dict(poll.poll(_TICK * 1000))
            if self._process.commands.fileno() in ready:
                unsent = self._send(unsent)
                if not unsent:
                    poll.unregister(self._process.commands.fileno())
            if self._process.reports.fileno() in ready and not self._receive():
                raise self._describe_end(starting)
            if time.monotonic() > self._next_check:
                self._check_usage()

    def _send(self, unsent: bytes) -> bytes:
        try:
            return unsent[os.write(self._process.commands.fileno(), unsent[: 1 << 16]) :]
        except BlockingIOError:
            return unsent
        except OSError:
            return b''  # it is ending; the reports will say so

    def _receive(self) -> bool:
        """Take in what has arrived; False at the end of the stream."""
        try:
            block = os.read(self._process.reports.fileno(), 1 << 16)
        except BlockingIOError:
            return True
        self._received += block
        if len(self._received) > _LONGEST_REPORT:
            raise _EndedError('denied', 'wrote too much to its report')
        return bool(block)

    def _next_report(self) -> Mapping[str, Any] | None:
        while (end := self._received.find(b'\n')) >= 0:
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            if line.startswith(self._key):
                return _parse_report(line[len(self._key) :])
            self._noise = (self._noise + b' ' + line)[-500:]
        return None

    def _raise_if_ended(self, report: Mapping[str, Any]) -> Mapping[str, Any]:
        if report['step'] == 'raised':
            outcome = report.get('outcome')
            raise _EndedError(outcome if outcome in _FAILURES else 'failed', str(report.get('detail')))
        return report

    def _describe_end(self, starting: bool) -> _EndedError:
        output = (self._noise + b' ' + self._received[-500:]).decode('utf-8', 'replace').strip()
        number = self.end()
        if starting:
            how = 'killed by the sandbox' if number is None else f'signal {number}'
            raise SandboxError(f'the interpreter did not start: {output or how}')
        if number is None:
            return _EndedError('memory', f'killed: over {self._limits.memory} MB', by_sandbox=True)
        if number == signal.SIGXCPU:
            return _EndedError('timeout', 'used up its computing time')
        if number == signal.SIGSYS:
            return _EndedError('denied', 'killed by a forbidden system call')
        how = f'killed by signal {number}' if number and number != signal.SIGKILL else 'the process ended itself'
        return _EndedError('failed', f'{how} before the tests were done')

    def _check_usage(self) -> None:
        self._next_check = time.monotonic() + _TICK
        if excess := self._process.find_excess(self._limits):
            raise _EndedError('denied', excess)


def _parse_report(line: bytes) -> Mapping[str, Any]:
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        report = None
    if not isinstance(report, dict) or 'step' not in report:
        raise _EndedError('failed', 'wrote a report that cannot be read')
    return report


def _describe_failure(kind: str, test: Case, report: Mapping[str, Any]) -> str:
    """Why a test failed; nothing if it passed."""
    result = report.get('output') if kind == 'stdio' else report.get('value')
    if kind == 'stdio' and result is None:
        return 'printed too much'
    if test.is_right(result):
        return ''
    return f'{"printed" if kind == "stdio" else "returned"} {result!r:.120}'


@contextmanager
def _empty_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix='rolecall-code-'))
    try:
        yield folder
    finally:
        delete_tree(folder)


def delete_tree(folder: Path) -> None:
    """Delete a folder however deep it is, and whatever may not be listed in it.

    Nested folders are moved up beside each other first, so that depth costs neither a recursion nor a long path.
    """
    folders = [str(folder)]
    for place in folders:
        with suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                with suppress(OSError):
                    if not entry.is_dir(follow_symlinks=False):
                        os.unlink(entry.path)
                        continue
                    os.chmod(entry.path, 0o700)
                    os.rename(entry.path, target := f'{folder}.{len(folders)}')
                    folders.append(target)
    for place in reversed(folders):
        with suppress(OSError):
            os.rmdir(place)
