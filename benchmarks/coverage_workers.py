"""Work through many trials in child processes: bounded in time, without a network, resumable.

A child is a fork of this process, so that what took long to import is there already. It works through the list and
reports each result; a trial that takes too long ends with its child and everything the child started, and a new child
does the rest.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

__all__ = ['forbid_network', 'run_trials']

MEMORY = '/dev/shm' if os.path.isdir('/dev/shm') else None
"""Where run stores and what the packages write go: on a disk, thousands of small files would be what is timed."""

T = TypeVar('T')
NEW_NETWORK = 0x40000000
PER_CHILD = 150
"""Trials of one child, so that what the packages leak stays small."""
BLOCKED = 'the network is blocked while coverage is measured'


def forbid_network() -> None:
    """Let every connection but those to this machine fail at once, in this process and its children."""
    closed = dict.fromkeys(
        ('http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'), 'http://127.0.0.1:9'
    )
    offline = dict.fromkeys(
        ('HF_HUB_OFFLINE', 'HF_DATASETS_OFFLINE', 'HF_EVALUATE_OFFLINE', 'TRANSFORMERS_OFFLINE'), '1'
    )
    os.environ.update(closed | offline)
    with suppress(OSError, AttributeError):  # where permitted, the kernel takes the network away as well
        ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK)
    connect, resolve = socket.socket.connect, socket.getaddrinfo

    def connect_here(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not is_here(address[0]):
            raise OSError(f'{BLOCKED}: {address[0]}')
        connect(self, address)

    def resolve_here(host: Any, *others: Any, **options: Any) -> Any:
        if host is not None and not is_here(host):
            raise socket.gaierror(socket.EAI_FAIL, f'{BLOCKED}: {host!r}')
        return resolve(host, *others, **options)

    socket.socket.connect = connect_here  # type: ignore[method-assign, assignment]
    socket.getaddrinfo = resolve_here


def is_here(host: Any) -> bool:
    name = host.decode() if isinstance(host, bytes) else str(host)
    return name in ('localhost', '::1', '') or name.startswith('127.')


def run_trials(
    items: Mapping[str, T], work: Callable[[T], str], *, limit_s: float, known: Path | None, label: str
) -> dict[str, str]:
    """The result of every item by key. Results in the file `known` are not worked out again; new ones are added."""
    results = read_results(known)
    waiting = [key for key in items if key not in results]
    began = shown = time.monotonic()
    folder = tempfile.TemporaryDirectory(prefix='coverage-', dir=MEMORY)
    while waiting:
        child, pipe = start_child(waiting[:PER_CHILD], items, work, folder.name)
        current = 0
        for key, result in read_child(child, pipe, waiting[:PER_CHILD], limit_s):
            results[key] = result
            current += 1
            if known:
                with known.open('a') as stream:
                    stream.write(json.dumps([key, result]) + '\n')
            if time.monotonic() - shown > 5:
                shown = time.monotonic()
                left = len(waiting) - current
                print(
                    f'  {label}: {len(items) - left:,} of {len(items):,} entries, {shown - began:.0f} s',
                    file=sys.stderr,
                    flush=True,
                )
        waiting = waiting[current:]
    folder.cleanup()
    return {key: results[key] for key in items}


def read_results(known: Path | None) -> dict[str, str]:
    if known is None or not known.is_file():
        return {}
    return dict(json.loads(line) for line in known.read_text().splitlines() if line.endswith(']'))


def start_child(keys: list[str], items: Mapping[str, T], work: Callable[[T], str], folder: str) -> tuple[int, int]:
    ours, theirs = os.pipe()
    child = os.fork()
    if child:
        os.close(theirs)
        return child, ours
    os.setsid()  # a process group of its own: it ends with everything it started
    os.chdir(folder)  # what the packages write lands here
    tempfile.tempdir = folder
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    try:
        for key in keys:
            os.write(theirs, json.dumps([key, work(items[key])]).encode() + b'\n')
    finally:
        os._exit(0)


def read_child(child: int, pipe: int, keys: list[str], limit_s: float) -> Any:
    """Pairs of key and result. The trial that a child dies of, or that takes too long, is reported and the last."""
    buffer, done = b'', 0
    deadline = time.monotonic() + limit_s
    why = 'the process ended'
    try:
        while done < len(keys):
            ready, _, _ = select.select([pipe], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                why = f'took longer than {limit_s:.0f} s'
                break
            read = os.read(pipe, 65536)
            if not read:
                break
            buffer += read
            *lines, buffer = buffer.split(b'\n')
            for line in lines:
                done += 1
                deadline = time.monotonic() + limit_s
                yield json.loads(line)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(pipe)
    if done < len(keys):
        yield keys[done], why
