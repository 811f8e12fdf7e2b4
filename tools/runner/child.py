"""A process of ours: started with nothing of ours but what it is handed, ended, and reaped."""

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from cuda_llm.errors import DeviceLost
from cuda_llm.log import Log

_log = Log(__name__)

Process: TypeAlias = "subprocess.Popen[bytes]"

REAP_LIMIT_S = 10.0
"""A process that is not gone this long after being killed hangs in the kernel: in a driver, say."""


@dataclass(frozen=True)
class Child:
    """A running process and how to end it."""

    process: Process
    sweeps: bool = False
    """It ends what it runs when it is told to end (SIGTERM), and goes last."""

    @property
    def pid(self) -> int:
        """Process id; it leads a process group."""
        return self.process.pid

    async def end(self) -> int:
        """Kill it with its group and reap it, also when cancelled meanwhile; its status.

        Raises DeviceLost where it is not gone within REAP_LIMIT_S.
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
        # What was killed is gone in a moment, so that waiting here holds nobody up.
        try:
            return self.process.wait(timeout=REAP_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            os.killpg(self.pid, signal.SIGKILL)
            _log.error("killed process is not gone", pid=self.pid, waited_s=REAP_LIMIT_S)
            raise DeviceLost(
                "device", f"a killed runner is not gone after {REAP_LIMIT_S:g} s"
            ) from error

    async def wait(self) -> None:
        """Wait for its end without blocking the loop; it stays to be reaped."""
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
