"""Runs one program inside the sandbox. Started as `python -I -c <this file>`; imports nothing of rolecall.

Commands arrive as JSON lines on standard input: the program with its limits, then one line for each test. Reports leave
as JSON lines on standard error. The program sees neither: both descriptors are moved away first, and every report
starts with a random key, so that text printed by the program is never taken for a report.
"""

import errno
import json
import os
import resource
import sys
import types
from contextlib import suppress
from typing import Any

_DENIED = {
    errno.EPERM, errno.EACCES, errno.EROFS, errno.EFBIG, errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.ENETUNREACH,
    errno.EAFNOSUPPORT,
}  # fmt: skip


def main() -> None:
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

    for name, value in task['limits'].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    report(step='ready')
    kind, source = task['kind'], task['source']
    try:
        code = compile(source, '<program>', 'exec', dont_inherit=True)
        if kind == 'stdio':
            for line in commands:
                report(step='tested', output=run_with_stdin(code, json.loads(line), task['output_limit']))
        else:
            module = new_module(task['module'])
            exec(code, module.__dict__)
            report(step='loaded')
            for line in commands if kind == 'call' else ():
                report(step='tested', value=call(module, task['function'], json.loads(line)))
    except BaseException as error:
        outcome, detail = explain(error)
        report(step='raised', outcome=outcome, detail=detail)
    os._exit(0)


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
    with suppress(SystemExit):
        exec(code, new_module('__main__').__dict__)
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


if __name__ == '__main__':
    main()
