"""Runs one program inside the sandbox. Started as `python -I -c <this file>`; imports nothing of rolecall.

Commands arrive as JSON lines on standard input: the program with its limits, then one line for each test. Reports leave
as JSON lines on standard error. The program sees neither: both descriptors are moved away first, and every report
starts with a random key, so that text printed by the program is never taken for a report.

A solution and its assertions run in two such processes (`solution` and `checks`), which talk through rolecall. What a
solution returns arrives as plain data, so that it can neither see the tests nor decide how its answers are compared.

Two processes start for every program, so nothing is imported before it is needed: that halves their CPU time. With the
argument `warm`, the interpreter starts once and forks such a process for each program.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import importlib
import json
import os
import resource
import struct
import sys
import types
from collections import deque

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than the interpreter's start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_DENIED = {
    errno.EPERM, errno.EACCES, errno.EROFS, errno.EFBIG, errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.ENETUNREACH,
    errno.EAFNOSUPPORT,
}  # fmt: skip
_FAILED = ('failed', 'memory', 'denied')
_ALIASES = {'np': 'numpy', 'pd': 'pandas'}
_CONTAINERS: dict[str, type[Any]] = {
    'list': list, 'tuple': tuple, 'set': set, 'frozenset': frozenset, 'deque': deque,
}  # fmt: skip
_MODULES = {
    'datetime': 'datetime',
    'date': 'datetime',
    'time': 'datetime',
    'Decimal': 'decimal',
    'Fraction': 'fractions',
}
"""Where types are that cross as text."""
_JSON_INT = 1 << 63
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER_MODE = 38, 22, 2
_CLONE = {'x86_64': 56, 'aarch64': 220}
_OWN_PROCESSES, _OWN_MOUNTS = 0x20000000, 0x00020000
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _SAME_MOUNT = 1, 2, 4, 0x1020
_MOUNT_FLAGS = 14  # set-uid, devices and programs: what a mount forbids already
_CAPABILITIES_VERSION = 0x20080522
_OFTEN_IMPORTED = ('ast', 'bisect', 'collections', 'functools', 'heapq', 'itertools', 'math', 're', 'string', 'typing')
"""What programs import most. Not `random`, whose state every program would share."""


def main() -> None:
    if sys.argv[1:] == ['warm']:
        fork_for_each_program()
    commands = os.fdopen(os.dup(0), 'rb')
    reports = os.dup(2)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    task = json.loads(commands.readline())
    key = task['key'].encode()

    def report(**fields: Any) -> None:
        line = key + json.dumps(fields).encode() + b'\n'
        while line:
            line = line[os.write(reports, line) :]

    for name in ('exit', 'quit'):  # of `site`, which is not imported
        setattr(builtins, name, sys.exit)
    kind = task['kind']
    peer = Peer(lambda message: report(step='said', message=message), lambda: json.loads(commands.readline()))
    try:
        for name, value in task['limits'].items():
            resource.setrlimit(getattr(resource, name), (value, value))
        filter_system_calls(bytes.fromhex(task['filter']))
        report(step='ready')
        code = compile(task['source'], '<program>', 'exec', dont_inherit=True)
        if kind == 'stdio':
            for line in commands:
                report(step='tested', output=run_with_stdin(code, json.loads(line), task['output_limit']))
        elif kind == 'checks':
            commands.readline()  # the solution is loaded
            run_checks(code, task, peer)
            report(step='passed')
        else:
            module = new_module(task['module'])
            exec(code, module.__dict__)
            report(step='loaded')
            if kind == 'solution':
                peer.serve(module.__dict__)
            for line in commands if kind == 'call' else ():
                report(step='tested', value=call(module, task['function'], json.loads(line)))
    except BaseException as error:
        outcome, detail = explain(error)
        report(step='raised', outcome=outcome, detail=detail)
    os._exit(0)


def fork_for_each_program() -> None:
    """Return in a confined process for each program that is announced on the socket at standard input.

    The announcement carries the descriptors of the program's pipes. The process says that it has started; the next
    message asks for its end, and is answered with its status. Each program has processes and a folder of its own, and
    none of this process's capabilities.
    """
    import gc
    import signal
    import socket

    for name in _OFTEN_IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    control, libc = socket.socket(fileno=os.dup(0)), ctypes.CDLL(None, use_errno=True)
    for name in os.listdir('/dev'):  # those of the machine, whose modes and times a program of root could change
        flags = _SAME_MOUNT | _READ_ONLY | os.statvfs(f'/dev/{name}').f_flag & _MOUNT_FLAGS
        if libc.mount(None, f'/dev/{name}'.encode(), None, flags, None):
            raise OSError(ctypes.get_errno(), f'/dev/{name} cannot be made read-only')
    control.send(b'w')
    while True:
        mount_options, pipes, _, _ = socket.recv_fds(control, 1024, 2)
        if not mount_options:
            os._exit(0)
        flags = _OWN_PROCESSES | _OWN_MOUNTS | signal.SIGCHLD
        process = libc.syscall(_CLONE[os.uname().machine], flags, 0, 0, 0, 0)
        if not process:
            os.dup2(pipes[0], 0)
            os.dup2(pipes[1], 2)
            confine(libc, mount_options)
            control.send(b's')
            os.closerange(3, 1 + max(control.detach(), *pipes))
            return
        for pipe in pipes:
            os.close(pipe)
        control.recv(1)
        if process > 0:
            os.kill(process, signal.SIGKILL)
        control.send(struct.pack('i', os.waitpid(process, 0)[1] if process > 0 else 0))


def confine(libc: ctypes.CDLL, mount_options: bytes) -> None:
    """Make an empty folder, give up all capabilities, and return in a second process: the first passes its end on."""
    folder = os.getcwd()
    mounted = libc.mount(b'tmpfs', folder.encode(), b'tmpfs', _NO_SETUID | _NO_DEVICES, mount_options)
    if mounted or libc.capset(struct.pack('Ii', _CAPABILITIES_VERSION, 0), bytes(24)):
        raise OSError(ctypes.get_errno(), 'a process cannot be given a folder of its own')
    os.chdir(folder)
    if process := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        os._exit(code if code >= 0 else 128 - code)


def filter_system_calls(program: bytes) -> None:
    """Install a seccomp filter, for good."""
    steps = ctypes.create_string_buffer(program, len(program))
    listing = struct.pack('HxxxxxxP', len(program) // 8, ctypes.addressof(steps))
    control = ctypes.CDLL(None).prctl
    if program and (control(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or control(_SECCOMP, _FILTER_MODE, listing, 0, 0)):
        raise OSError('this kernel installs no seccomp filter')


def new_module(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    sys.modules[name] = module
    return module


def run_with_stdin(code: types.CodeType, text: str, output_limit: int) -> str | None:
    """Run the program as a script on this input; return what it printed, None if that is too much."""
    with open('.stdin', 'w+b') as given, open('.stdout', 'w+b') as printed:
        given.write(text.encode('utf-8', 'surrogatepass'))
        given.seek(0)
        os.dup2(given.fileno(), 0)
        os.dup2(printed.fileno(), 1)
    sys.stdin = os.fdopen(0, encoding='utf-8', errors='surrogateescape', closefd=False)
    sys.stdout = os.fdopen(1, 'w', encoding='utf-8', errors='surrogateescape', closefd=False)
    try:  # noqa: SIM105  # contextlib takes as long to import as the rest
        exec(code, new_module('__main__').__dict__)
    except SystemExit:
        pass
    sys.stdout.flush()
    if os.fstat(1).st_size > output_limit:
        return None
    with open('.stdout', 'rb') as printed:
        return printed.read().decode('utf-8', 'replace')


def call(module: types.ModuleType, function: str, arguments: list[Any]) -> Any:
    """The function's return value as JSON has it; what JSON has no form for as its repr."""
    owner = module.Solution() if hasattr(module, 'Solution') and not hasattr(module, function) else module
    value = getattr(owner, function)(*arguments)
    return json.loads(json.dumps(value, default=repr))


def explain(error: BaseException) -> tuple[str, str]:
    """The outcome an exception stands for, and the exception in a line."""
    if isinstance(told := getattr(error, 'told_by_solution', None), tuple):
        return told
    place = ''
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == '<program>':
            place = f' (line {trace.tb_lineno})'
        trace = trace.tb_next
    detail = f'{type(error).__name__}: {error}'[:300] + place
    if isinstance(error, MemoryError):
        return 'memory', detail
    if isinstance(error, OSError) and error.errno in _DENIED:
        return 'denied', detail
    return 'failed', detail


def run_checks(code: types.CodeType, task: dict[str, Any], peer: Peer) -> None:
    """Run the tests' own set-up, put the solution's names in their places, and run the tests."""
    module = new_module('program')
    exec(compile(task['setup'], '<setup>', 'exec', dont_inherit=True), module.__dict__)
    names = task['names'] or find_needed_names(task['source'], module.__dict__)
    modules = {name: _ALIASES.get(name, name) for name in names}
    real = {name: importlib.import_module(path) for name, path in modules.items() if is_module(path)}
    module.__dict__.update(real)
    expected = [name for name in names if name not in real]
    answered = peer.ask({'op': 'names', 'names': expected})
    module.__dict__.update({name: answered[name] for name in expected if name in answered})
    exec(code, module.__dict__)


def find_needed_names(source: str, known: dict[str, Any]) -> list[str]:
    """The names that tests use and do not define: the solution's. Without any, the outermost builtin that they use."""
    import ast

    names = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
    set_by_tests = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | known.keys()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            set_by_tests.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            set_by_tests |= {(alias.asname or alias.name).split('.')[0] for alias in node.names}
        elif isinstance(node, ast.arg):
            set_by_tests.add(node.arg)
    used = list(dict.fromkeys(node.id for node in names if node.id not in set_by_tests))
    return [name for name in used if not hasattr(builtins, name)] or used[:1]


def is_module(path: str) -> bool:
    return path in sys.stdlib_module_names or path in _ALIASES.values()


class Handle:
    """An object that stays in the other process. It is equal to itself only."""

    def __init__(self, peer: Peer, number: int) -> None:
        self.__dict__.update(_peer=peer, _number=number)

    def _ask(self, op: str, *given: Any, **named: Any) -> Any:
        return self._peer.ask({'op': op, 'object': self._number}, given, named)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._ask('call', *given, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith('__'):
            raise AttributeError(name)
        return self._ask('getattr', name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._ask('setattr', name, value)

    def __getitem__(self, item: Any) -> Any:
        return self._ask('getitem', item)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._ask('list'))

    def __next__(self) -> Any:
        return self._ask('next')

    def __len__(self) -> int:
        return int(self._ask('len'))

    def __bool__(self) -> bool:
        return bool(self._ask('bool'))

    def __str__(self) -> str:
        return str(self._ask('str'))

    def __repr__(self) -> str:
        return str(self._ask('repr'))


_OPERATIONS: dict[str, Callable[..., Any]] = {
    'getattr': getattr, 'setattr': setattr, 'getitem': lambda one, item: one[item], 'list': list, 'next': next,
    'len': len, 'bool': bool, 'str': str, 'repr': repr, 'call': lambda one, *given, **named: one(*given, **named),
}  # fmt: skip


class Peer:
    """Objects and calls between two processes. One of them waits while the other works."""

    def __init__(self, send: Callable[[Any], None], receive: Callable[[], Any]) -> None:
        self._send, self._receive = send, receive
        self._objects: dict[int, Any] = {}
        self._handles: dict[int, Handle] = {}
        self._names: dict[str, Any] | None = None
        """What the other process may ask for by name; None in the process that runs the tests."""

    def serve(self, names: dict[str, Any]) -> None:
        """Answer questions until the process is ended."""
        self._names = names
        while True:
            self._send(self._answer(self._receive()))

    def ask(self, question: dict[str, Any], given: Any = (), named: Any = None) -> Any:
        """The answer to a question. What the other process changed in lists and dicts it was given is changed here."""
        arguments = [self.encode(one) for one in given]
        self._send({**question, 'given': arguments, 'named': self.encode(dict(named or {}))})
        while 'op' in (message := self._receive()):
            self._send(self._answer(message))
        for one, before, after in zip(given, arguments, message.get('given', ()), strict=False):
            if before != after:
                replace_content(one, self.decode(after))
        if 'raised' in message:
            error = self._remake(message['raised'])
            if question['op'] != 'next' and isinstance(error, StopIteration):  # would end `all(map(f, …))` early
                raise RuntimeError('the solution raised StopIteration') from error
            raise error
        return self.decode(message['value'])

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        given: list[Any] = []
        try:
            given = [self.decode(one) for one in question['given']]
            if question['op'] == 'names':
                names = self._names or {}
                value: Any = {name: names[name] for name in question['names'] if name in names}
            else:
                one = self._objects[question['object']]
                self._check(one, question['op'], given)
                value = _OPERATIONS[question['op']](one, *given, **self.decode(question['named']))
            return {'value': self.encode(value), 'given': [self.encode(one) for one in given]}
        except BaseException as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            texts = [one if isinstance(one, (str, int)) else str(one) for one in error.args]
            return {'raised': {'kinds': kinds, 'args': texts, 'told': explain(error)}}

    def _check(self, one: Any, operation: str, given: list[Any]) -> None:
        """The solution may call what tests hand to it, and read their own objects, but not look behind them."""
        if self._names is not None or operation in ('call', 'list', 'next', 'len'):
            return
        hidden = bool(given) and isinstance(given[0], str) and given[0].startswith('_')
        if type(one).__module__ != 'program' or hidden:
            raise PermissionError(errno.EPERM, f'{operation} of an object of the tests')

    def _remake(self, raised: dict[str, Any]) -> BaseException:
        known = (getattr(builtins, kind, None) for kind in raised['kinds'])
        kind = next(one for one in known if isinstance(one, type) and issubclass(one, BaseException))
        try:
            error = kind(*raised['args'])
        except Exception:
            error = Exception(*raised['args'])
        outcome, detail = raised['told']
        error.told_by_solution = (outcome if outcome in _FAILED else 'failed', str(detail))  # type: ignore[attr-defined]
        return error

    def encode(self, value: Any) -> Any:
        """A value as JSON: plain data with its type, anything else as a number that stands for it."""
        if value is None or isinstance(value, (bool, str)):
            return value if value is None or type(value) is bool else str.__str__(value)
        if isinstance(value, int):
            return int(value) if abs(value) < _JSON_INT else {'int': hex(value)}
        if isinstance(value, float):
            return {'float': float.__repr__(value)}
        if isinstance(value, Handle):
            return {'yours': value._number}
        return self._encode_data(value) or {'mine': self._keep(value)}

    def _encode_data(self, value: Any) -> Any:
        for name, kind in _CONTAINERS.items():
            if isinstance(value, kind):
                return {name: [self.encode(one) for one in value]}
        if isinstance(value, dict):
            return {'dict': [[self.encode(name), self.encode(one)] for name, one in value.items()]}
        if isinstance(value, (bytes, bytearray)):
            return {type(value).__name__ if type(value) is bytearray else 'bytes': value.hex()}
        if isinstance(value, complex):
            return {'complex': [repr(value.real), repr(value.imag)]}
        if isinstance(value, (range, slice)):
            return {type(value).__name__: [value.start, value.stop, value.step]}
        for name in ('Decimal', 'Fraction'):
            if (module := sys.modules.get(_MODULES[name])) is not None and isinstance(value, getattr(module, name)):
                return {name: str(value)}
        if type(value).__module__ == 'datetime' and type(value).__name__ in _MODULES:
            return {type(value).__name__: value.isoformat()}
        if type(value).__module__ == 'numpy' and hasattr(value, 'tolist'):
            plain = self.encode(value.tolist())
            return {'ndarray': [plain, str(value.dtype)]} if getattr(value, 'ndim', 0) else plain
        if isinstance(value, types.ModuleType) and is_module(value.__name__):
            return {'module': value.__name__}
        return None

    def _keep(self, value: Any) -> int:
        self._objects[id(value)] = value
        return id(value)

    def decode(self, encoded: Any) -> Any:
        """The value again; plain data is made of this process's own types."""
        if not isinstance(encoded, dict):
            return encoded
        [(kind, inner)] = encoded.items()
        if kind in _CONTAINERS:
            return _CONTAINERS[kind](self.decode(one) for one in inner)
        if kind == 'dict':
            return {self.decode(name): self.decode(one) for name, one in inner}
        if kind == 'mine':
            return self._handles.setdefault(inner, Handle(self, inner))
        if kind == 'yours':
            return self._objects[inner]
        if kind == 'module':
            return importlib.import_module(inner) if is_module(inner) else None
        if kind == 'ndarray':
            return importlib.import_module('numpy').array(self.decode(inner[0]), dtype=inner[1])
        return decode_scalar(kind, inner)


def decode_scalar(kind: str, inner: Any) -> Any:
    if kind in _MODULES:
        crossed = getattr(importlib.import_module(_MODULES[kind]), kind)
        return crossed.fromisoformat(inner) if _MODULES[kind] == 'datetime' else crossed(inner)
    if kind == 'complex':
        return complex(float(inner[0]), float(inner[1]))
    if kind in ('range', 'slice'):
        return (range if kind == 'range' else slice)(*inner)
    readers: dict[str, Callable[[Any], Any]] = {
        'int': lambda text: int(text, 16), 'float': float, 'bytes': bytes.fromhex, 'bytearray': bytearray.fromhex,
    }  # fmt: skip
    return readers[kind](inner)


def replace_content(value: Any, content: Any) -> None:
    """Make a list, dict or set hold what the other process put into it."""
    if isinstance(value, (list, bytearray)):
        value[:] = content
    elif isinstance(value, (dict, set)):
        value.clear()
        value.update(content)
    elif isinstance(value, deque):
        value.clear()
        value.extend(content)


if __name__ == '__main__':
    main()
