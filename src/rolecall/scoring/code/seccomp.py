"""A seccomp filter for judged programs, as a table of system calls: what namespaces and Landlock leave open.

Landlock does not look at limits, priorities, modes, times and attributes, and no limit on a process counts memory that
belongs to a descriptor. The filter is installed by the process itself, before it runs anything of others.
"""

from __future__ import annotations

import errno
import platform
import struct
from functools import cache

_ARCHITECTURES = {'x86_64': 0xC000003E, 'aarch64': 0xC00000B7}
_REFUSED = {
    'look into other processes': {
        'ptrace': (101, 117), 'process_vm_readv': (310, 270), 'process_vm_writev': (311, 271), 'kcmp': (312, 272),
        'perf_event_open': (298, 241), 'pidfd_open': 434, 'pidfd_getfd': 438,
    },
    'look around': {
        'inotify_init': (253, None), 'inotify_init1': (294, 26), 'statmount': 457, 'listmount': 458,
    },
    'act on other processes': {
        'pidfd_send_signal': 424, 'process_madvise': 440, 'process_mrelease': 448, 'setpriority': (141, 140),
        'ioprio_set': (251, 30), 'migrate_pages': (256, 238), 'move_pages': (279, 239), 'sync': (162, 81),
        'syncfs': (306, 267),
    },
    'make namespaces and mounts': {
        'unshare': (272, 97), 'setns': (308, 268), 'pivot_root': (155, 41), 'chroot': (161, 51), 'mount': (165, 40),
        'umount2': (166, 39), 'open_tree': 428, 'move_mount': 429, 'fsopen': 430, 'fsconfig': 431, 'fsmount': 432,
        'fspick': 433, 'mount_setattr': 442, 'open_tree_attr': 467,
    },
    'reach the kernel by its wider doors': {
        'add_key': (248, 217), 'request_key': (249, 218), 'keyctl': (250, 219), 'bpf': (321, 280),
        'userfaultfd': (323, 282), 'open_by_handle_at': (304, 265), 'fanotify_init': (300, 262),
        'io_uring_setup': 425, 'io_uring_enter': 426, 'io_uring_register': 427, 'io_setup': (206, 0),
    },
    'take memory that no limit counts': {
        'listen': (50, 201), 'seccomp': (317, 277), 'landlock_create_ruleset': 444, 'memfd_create': (319, 279),
        'memfd_secret': 447, 'shmget': (29, 194), 'msgget': (68, 186), 'semget': (64, 190), 'mq_open': (240, 180),
        'vmsplice': (278, 75), 'splice': (275, 76), 'tee': (276, 77), 'sendfile': (40, 71),
    },
}  # fmt: skip
_FILE_CHANGES = {
    'chmod': (90, None), 'fchmod': (91, 52), 'fchmodat': (268, 53), 'fchmodat2': 452, 'chown': (92, None),
    'fchown': (93, 55), 'lchown': (94, None), 'fchownat': (260, 54), 'utime': (132, None), 'utimes': (235, None),
    'futimesat': (261, None), 'utimensat': (280, 88), 'setxattr': (188, 5), 'lsetxattr': (189, 6),
    'fsetxattr': (190, 7), 'removexattr': (197, 14), 'lremovexattr': (198, 15), 'fremovexattr': (199, 16),
    'setxattrat': 463, 'removexattrat': 466, 'file_setattr': 469, 'fallocate': (285, 47),
}  # fmt: skip
"""Changes of a file's mode, owner, times, attributes and blocks beyond its end, which Landlock allows everywhere."""
_ITSELF_ONLY = {
    'prlimit64': (302, 261), 'sched_setparam': (142, 118), 'sched_setscheduler': (144, 119),
    'sched_setaffinity': (203, 122), 'sched_setattr': (314, 274),
}  # fmt: skip
"""Calls whose first argument is a process: 0, the caller, is the only one allowed."""
_SOCKETS, _FAMILIES = ((41, 198), (53, 199)), (1,)
"""Unix sockets only. Connections that nobody has accepted hold gigabytes, so none listens either."""
_SET_SOCKET, _BUFFERS = (54, 208), (7, 8, 32, 33, 60)
"""Options that let a socket hold megabytes, or pages of the process: each descriptor counts as nothing."""
_IOCTL, _SET_FLAGS = (16, 29), (0x40086602, 0x401C5820)
_FCNTL, _SET_LEASE = (72, 25), (1024,)
_PRCTL, _SET_FILTER = (157, 167), (22,)
_FORKS, _CLONE, _CLONE3, _CLONE_FILES, _CLONE_THREAD = ((57, None), (58, None)), (56, 220), 435, 0x400, 0x10000
_CLOSE_RANGE, _UNSHARE = 436, (2, 2 | 4)
"""Threads with descriptors of their own could hold gigabytes in them: the limit on descriptors counts one table."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM = _REFUSE | errno.EPERM
_Step = tuple[int, int, int, int]


@cache
def build_filter(*, namespaces: bool) -> bytes:
    """The filter for this machine (classic BPF), empty where its system calls are not in the table.

    The process can start threads, but no processes. `namespaces` allows chmod and the like: for sandboxes in which
    everything but the program's folder is read-only.
    """
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        return b''
    column = list(_ARCHITECTURES).index(machine)

    def number(entry: int | tuple[int | None, int | None]) -> int | None:
        return entry if isinstance(entry, int) else entry[column]

    refused = [
        call for group in (*_REFUSED.values(), *(() if namespaces else (_FILE_CHANGES,))) for call in group.values()
    ]
    program: list[_Step] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_ANSWER, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, 0x40000000),  # the calls of the x32 interface, which have other numbers
        (_ANSWER, 0, 0, _EPERM),
    ]
    for entry in (*refused, *_FORKS):
        program += _on_call(number(entry), [(_ANSWER, 0, 0, _REFUSE | errno.EAGAIN if entry in _FORKS else _EPERM)])
    for entry in _ITSELF_ONLY.values():
        program += _on_call(number(entry), _on_argument(0, (0,), _ALLOW, _EPERM))
    for entry in _SOCKETS:
        program += _on_call(number(entry), _on_argument(0, _FAMILIES, _ALLOW, _EPERM))
    program += _on_call(number(_SET_SOCKET), _on_argument(2, _BUFFERS, _EPERM, _ALLOW))
    program += _on_call(number(_IOCTL), _on_argument(1, _SET_FLAGS, _EPERM, _ALLOW))
    program += _on_call(number(_FCNTL), _on_argument(1, _SET_LEASE, _EPERM, _ALLOW))
    program += _on_call(number(_PRCTL), _on_argument(0, _SET_FILTER, _EPERM, _ALLOW))
    # The C library then uses clone, whose flags can be seen.
    program += _on_call(_CLONE3, [(_ANSWER, 0, 0, _REFUSE | errno.ENOSYS)])
    threads = [(_LOAD, 0, 0, 16), (_ANY_BIT, 0, 1, _CLONE_THREAD), (_ANY_BIT, 1, 0, _CLONE_FILES)]
    program += _on_call(number(_CLONE), [*threads, (_ANSWER, 0, 0, _REFUSE | errno.EAGAIN)])
    program += _on_call(_CLOSE_RANGE, _on_argument(2, _UNSHARE, _EPERM, _ALLOW))
    program.append((_ANSWER, 0, 0, _ALLOW))
    return b''.join(struct.pack('HBBI', *step) for step in program)


def _on_call(number: int | None, steps: list[_Step]) -> list[_Step]:
    return [] if number is None else [(_EQUAL, 0, len(steps), number), *steps]


def _on_argument(position: int, values: tuple[int, ...], answer: int, otherwise: int) -> list[_Step]:
    """Answer by the lower half of an argument: all of these are 32 bits wide."""
    compare = [step for value in values for step in ((_EQUAL, 0, 1, value), (_ANSWER, 0, 0, answer))]
    return [(_LOAD, 0, 0, 16 + 8 * position), *compare, (_ANSWER, 0, 0, otherwise)]
