"""The orchestrator's side of a GPU host process: started, asked with deadlines, ended."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cuda_llm.errors import DeviceLost, InfrastructureError, NoMemory
from cuda_llm.log import Log, level_for_children
from cuda_llm.log_setup import RecordPipe
from cuda_llm.redaction import names_a_secret
from cuda_llm.tools.cuda.messages import (
    DeviceBroken,
    Heartbeat,
    OpenSite,
    WorkDone,
    WorkFailed,
    encode,
    receive,
)
from cuda_llm.tools.device import T, Work
from cuda_llm.tools.device.child import end_tree

REAP_S = 10.0
"""A killed process that is not gone by then does not go: the driver holds on to it."""
CLOSE_S = 2.0
"""Seconds that a GPU host process may take to close its site when it is no longer needed."""
_STDERR_TAIL_BYTES = 4096
_EXIT_WAIT_S = 0.5
_log = Log(__name__)


@dataclass(frozen=True, kw_only=True)
class HostTimeouts:
    """Time limits of the orchestrator for a GPU host process, in seconds."""

    silence_s: float = 60.0
    """Longest time without a heartbeat: steps of the process, such as a reference at a large size,
    block its event loop for seconds."""
    start_s: float = 120.0
    """Longest time until the site is open: importing CuPy from a slow disk, the first context,
    self-tests."""
    work_s: float = 1800.0
    """Longest time of one work, however many heartbeats arrive."""


class HostBroken(Exception):
    """The GPU host process is no more; whether work or device is to blame is not known yet."""

    def __init__(self, reason: str, *, was_healthy: bool) -> None:
        super().__init__(reason)
        self.was_healthy = was_healthy
        """The device computed its known answer before the work began."""


class SiteNotOpened(HostBroken):
    """The GPU host process could not open its site; the message is the reason that it gave."""

    def __init__(self, error: InfrastructureError) -> None:
        super().__init__(error.detail, was_healthy=False)
        self.lacked_memory = isinstance(error, NoMemory)


@dataclass(frozen=True)
class HostProcess:
    """A running GPU host process, as its parent holds it."""

    process: "subprocess.Popen[bytes]"
    connection: socket.socket
    lifeline: int
    """Write end of a pipe: the process dies when this is closed."""
    stderr: int
    records: RecordPipe

    def describe_end(self) -> str:
        """Return how the process ended, and the last line it wrote."""
        size = os.fstat(self.stderr).st_size
        tail = os.pread(self.stderr, _STDERR_TAIL_BYTES, max(0, size - _STDERR_TAIL_BYTES))
        lines = tail.decode(errors="replace").strip().splitlines()
        try:
            # A process that dies closes its socket a moment before it is gone.
            ended = f"it ended with status {self.process.wait(_EXIT_WAIT_S)}"
        except subprocess.TimeoutExpired:
            ended = "it hung up"
        return f"{ended}: {lines[-1]}" if lines else ended

    def kill(self) -> tuple[int, ...]:
        """End it and everything below it; return the processes that outlive REAP_S."""
        left = end_tree(self.process.pid, REAP_S)
        _log.info("GPU host process is killed", pid=self.process.pid, left=list(left))
        self._release_all()
        return left

    def close(self) -> None:
        """Have it close its site and exit; kill it where it does not within CLOSE_S."""
        self.connection.close()
        try:
            self.process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            end_tree(self.process.pid, REAP_S)
        status = self.process.poll()
        _log.info("GPU host process has ended", pid=self.process.pid, status=status)
        self._release_all()

    def _release_all(self) -> None:
        self.connection.close()
        for descriptor in (self.lifeline, self.stderr):
            os.close(descriptor)
        try:
            self.process.wait(0.1)
        except subprocess.TimeoutExpired:
            # Popen warns of a process that is not reaped; init reaps it.
            self.process.returncode = -9
        self.records.join()


def start_host(opening: OpenSite) -> HostProcess:
    """Start a GPU host process that opens a site; it reports when it has.

    A session of its own keeps a Ctrl-C at the terminal from it. Raises InfrastructureError where it
    cannot be started.
    """
    ours, theirs = socket.socketpair()
    read_end, write_end = os.pipe()
    stderr = os.memfd_create("cuda-llm-gpu-host", os.MFD_CLOEXEC)
    records = RecordPipe()
    program = [sys.executable, "-P", "-m", "cuda_llm.tools.cuda.host"]
    descriptors = (theirs.fileno(), read_end, records.sink)
    try:
        process = subprocess.Popen(
            [*program, *map(str, (*descriptors, level_for_children()))],
            env={**without_secrets(os.environ), **opening.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            pass_fds=descriptors,
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        os.close(write_end)
        os.close(stderr)
        raise InfrastructureError("gpu_host", f"cannot be started: {error}") from error
    finally:
        theirs.close()
        os.close(read_end)
        records.begin()
    _log.info("GPU host process is started", pid=process.pid)
    ours.sendall(encode(opening))
    ours.setblocking(False)
    return HostProcess(process, ours, write_end, stderr, records)


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return all but what looks like a secret: runners live beside a GPU host process."""
    return {name: value for name, value in environment.items() if not names_a_secret(name)}


class HostClient:
    """One GPU host process, started when first needed, which does one work at a time, from one
    event loop."""

    def __init__(self, opening: OpenSite, timeouts: HostTimeouts) -> None:
        self._opening = opening
        self._timeouts = timeouts
        self._host: HostProcess | None = None
        self._ready = False
        self._at_exit: weakref.finalize[[], object] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the GPU host process; None while no process runs."""
        return self._host.process.pid if self._host else None

    def start(self) -> HostProcess:
        """Start the process, if none runs, without waiting for it. Raises InfrastructureError."""
        if self._host is None:
            self._host, self._ready = start_host(self._opening), False
            # Closed when this client is gone or Python ends, unless detached before.
            self._at_exit = weakref.finalize(self, self._host.close)
        return self._host

    async def ask(self, work: Work[T]) -> T:
        """Do `work` in the GPU host process. A cancelled or broken process is ended; the next call
        starts a fresh process.

        Raises what `work` raises or what the site raises when it is opened, HostBroken, and
        DeviceLost where a process of the host cannot be killed.
        """
        packet = encode(work)
        host = self.start()
        try:
            reply = await self._exchange(host, packet)
            if isinstance(reply, DeviceBroken):
                raise HostBroken(reply.reason, was_healthy=reply.was_healthy)
        except HostBroken as error:
            _log.warning("GPU host process is broken", reason=str(error), pid=self.pid)
            await self._kill_in_thread()
            raise
        except BaseException:
            # After a cancellation no process may be left running.
            self.kill()
            raise
        if isinstance(reply, WorkFailed):
            raise reply.error
        result: T = reply.result
        return result

    def kill(self) -> None:
        """End the process with all its runners. Raises DeviceLost where a process does not end."""
        host = self._detach()
        if host is not None:
            require_gone(host.kill())

    async def _kill_in_thread(self) -> None:
        """End the process as `kill` does, without blocking the event loop."""
        host = self._detach()
        if host is not None:
            require_gone(await asyncio.to_thread(host.kill))

    def close(self) -> None:
        """Have the process close its site and exit."""
        host = self._detach()
        if host is not None:
            host.close()

    def _detach(self) -> HostProcess | None:
        host, self._host = self._host, None
        if self._at_exit is not None:
            self._at_exit.detach()
        return host

    async def _exchange(
        self, host: HostProcess, packet: bytes
    ) -> WorkDone | WorkFailed | DeviceBroken:
        """Wait until the site is open, send one request and return its reply."""
        try:
            async with asyncio.timeout(self._timeouts.work_s):
                if not self._ready:
                    await self._wait_for_site(host)
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    await asyncio.get_running_loop().sock_sendall(host.connection, packet)
                reply: WorkDone | WorkFailed | DeviceBroken = await self._receive(
                    host, self._timeouts.silence_s, was_healthy=True
                )
        except TimeoutError:
            msg = f"not done after {self._timeouts.work_s:g} s"
            raise HostBroken(msg, was_healthy=True) from None
        return reply

    async def _wait_for_site(self, host: HostProcess) -> None:
        opened = await self._receive(host, self._timeouts.start_s, was_healthy=False)
        if isinstance(opened, WorkFailed):
            if isinstance(opened.error, InfrastructureError):
                raise SiteNotOpened(opened.error)
            raise opened.error
        self._ready = True

    async def _receive(self, host: HostProcess, silence_s: float, *, was_healthy: bool) -> Any:
        """Return the next message that is no heartbeat."""
        while True:
            try:
                async with asyncio.timeout(silence_s):
                    message = await receive(host.connection)
            except TimeoutError:
                msg = f"no sign of life for {silence_s:g} s"
                raise HostBroken(msg, was_healthy=was_healthy) from None
            if message is None:
                raise HostBroken(host.describe_end(), was_healthy=was_healthy)
            if not isinstance(message, Heartbeat):
                return message


def require_gone(left: tuple[int, ...]) -> None:
    """Raise DeviceLost where a process outlives being killed: only the driver can hold it."""
    if left:
        pids = ", ".join(map(str, left))
        raise DeviceLost("device", f"killed, process {pids} is still there")
