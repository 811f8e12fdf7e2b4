"""Child processes: started with the descriptors and variables that they are given, and ended."""

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from cuda_llm.errors import DeviceLost
from cuda_llm.log import Log

_log = Log(__name__)

ChildProcess: TypeAlias = "subprocess.Popen[bytes]"

REAP_LIMIT_S = 10.0
"""Longest seconds until a killed process is gone: one that is not hangs in the kernel, in a driver
say."""


@dataclass(frozen=True)
class Child:
    """A running child process, the leader of a process group."""

    process: ChildProcess
    sweeps: bool = False
    """On SIGTERM the process ends the processes that it has started, then itself."""

    @property
    def pid(self) -> int:
        """Id of the process and of its group."""
        return self.process.pid

    async def end(self) -> int:
        """Kill the process with its group and reap it, also when cancelled meanwhile; return its
        status.

        Raises DeviceLost where the process is not gone within REAP_LIMIT_S.
        """
        # The group may hold processes even when its leader is gone.
        with contextlib.suppress(ProcessLookupError):
            if self.sweeps and self.process.poll() is None:
                self.process.terminate()
            else:
                os.killpg(self.pid, signal.SIGKILL)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REAP_LIMIT_S):
                    await self.wait()
        finally:
            status = self._reap()
        _log.debug("process has ended", pid=self.pid, status=status)
        return status

    def _reap(self) -> int:
        # What was killed is gone in a moment: this hardly blocks.
        try:
            return self.process.wait(timeout=REAP_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            os.killpg(self.pid, signal.SIGKILL)
            _log.error("killed process is not gone", pid=self.pid, waited_s=REAP_LIMIT_S)
            raise DeviceLost(
                "device", f"a killed runner is not gone after {REAP_LIMIT_S:g} s"
            ) from error

    async def wait(self) -> None:
        """Wait for the end of the process without blocking the event loop; the process is not
        reaped."""
        if self.process.poll() is not None:
            return
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        descriptor = os.pidfd_open(self.pid)
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)


def spawn(
    command: Sequence[str | Path],
    descriptors: Sequence[int],
    environment: Mapping[str, str] | None = None,
    *,
    sweeps: bool = False,
) -> Child:
    """Start a process with its own group and empty folder, and with these descriptors alone."""
    folder = tempfile.mkdtemp(prefix="cuda-llm-runner-")
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=descriptors,
            start_new_session=True,
        )
    finally:
        # The process keeps it as a nameless folder in which nothing can be made.
        os.rmdir(folder)
    _log.debug("process is started", program=Path(command[0]).name, pid=process.pid)
    return Child(process, sweeps=sweeps)


def end_tree(pid: int, limit_s: float) -> tuple[int, ...]:
    """Kill a child process and all its descendants; return the ids of those that outlive `limit_s`.

    The child is stopped first, so that it starts no process while its descendants are looked up.
    The child is not reaped.
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
    """Return the ids of processes that outlive `limit_s`; `ending` has ids by pidfd, which can be
    read when its process has ended."""
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
