"""End a process with everything below it, in whatever sessions and groups that is."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator


def end_tree(pid: int, limit_s: float) -> tuple[int, ...]:
    """Kill a child of ours and all its descendants; those that are not gone after `limit_s`.

    The child is stopped first, so that it starts nothing more while its descendants are looked up.
    It stays to be reaped.
    """
    import psutil

    with contextlib.ExitStack() as stack:
        ending: dict[int, int] = {}
        with contextlib.suppress(psutil.NoSuchProcess):
            top = psutil.Process(pid)
            top.suspend()
            for one in (*top.children(recursive=True), top):
                with contextlib.suppress(ProcessLookupError):
                    # Not psutil's own wait: a zombie that nobody reaps counts as gone here, and
                    # our child's status is left to who started it.
                    descriptor = os.pidfd_open(one.pid)
                    stack.callback(os.close, descriptor)
                    if one.is_running():
                        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                        ending[descriptor] = one.pid
        return tuple(_outlast(ending, limit_s))


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
