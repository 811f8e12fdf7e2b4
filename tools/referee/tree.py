"""End a process with everything below it, in whatever sessions and groups that is."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path


def end_tree(pid: int, limit_s: float) -> tuple[int, ...]:
    """Kill a child of ours and all its descendants; those that are not gone after `limit_s`.

    The child is stopped first, so that it starts nothing more while its descendants are looked up.
    It stays to be reaped.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    with contextlib.ExitStack() as stack:
        ending: dict[int, int] = {}
        for one in (*descendants(pid), pid):
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(one)
                stack.callback(os.close, descriptor)
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                ending[descriptor] = one
        return tuple(_outlast(ending, limit_s))


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, parents first."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found, unseen = [], [pid]
    while unseen:
        below = children.get(unseen.pop(), [])
        found += below
        unseen += below
    return found


def _parents() -> Iterator[tuple[int, int]]:
    """Every process and its parent."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                # The name before the last bracket may itself hold brackets and spaces.
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                yield int(folder.name), int(fields[1])


def _outlast(ending: dict[int, int], limit_s: float) -> Iterator[int]:
    """Wait until the processes are gone: a descriptor of one that has ended can be read."""
    deadline = time.monotonic() + limit_s
    waiting = select.poll()
    for descriptor in ending:
        waiting.register(descriptor, select.POLLIN)
    remaining = set(ending)
    while remaining and (left_s := deadline - time.monotonic()) > 0:
        for descriptor, _ in waiting.poll(left_s * 1e3):
            waiting.unregister(descriptor)
            remaining.discard(descriptor)
    return (ending[descriptor] for descriptor in remaining)
