"""One runner: its two processes started, spoken to with a deadline, killed with all they left."""

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.runner.protocol import CallFrame, Reply, ReplyFrame, StartFrame, decode_reply

Process: TypeAlias = "subprocess.Popen[bytes]"

_LAST_WORDS_S = 0.5
"""How long a runner that is out of time may take to say where it is."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The runner is no more."""

    status: int
    """As `subprocess` gives it: negative for a signal."""
    last_words: ReplyFrame | None
    """Its account of a crash, if it could give one."""
    expired: bool
    """True when it was ended for being out of time."""


@dataclass(frozen=True, kw_only=True)
class Babbled:
    """The runner said something that is no reply to what it was asked."""


class Runner:
    """A running runner: device part and host part. Use `start`; always `stop` it."""

    def __init__(self, device: Process, host: Process, connection: socket.socket) -> None:
        self._device = device
        self._host = host
        self._connection = connection

    @property
    def pids(self) -> tuple[int, int]:
        """Process ids of device part and host part; each leads a process group."""
        return self._device.pid, self._host.pid

    async def exchange(
        self, frame: StartFrame | CallFrame, limit_s: float
    ) -> ReplyFrame | Ended | Babbled:
        """Send one frame and wait for the one reply; a runner that takes longer is ended."""
        loop = asyncio.get_running_loop()
        if self._has_packet():
            return Babbled()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await loop.sock_sendall(self._connection, bytes(frame))
        try:
            packet = await self._receive(limit_s)
        except TimeoutError:
            return await self._expire()
        if not packet:
            return Ended(status=await self._kill(), last_words=None, expired=False)
        reply = decode_reply(packet)
        if reply is None or reply.reply == Reply.FORGED:
            return Babbled()
        if reply.reply == Reply.VANISHED:
            return Ended(status=await self._last_of_host(), last_words=None, expired=False)
        if reply.is_last:
            return Ended(status=await self._kill(), last_words=reply, expired=False)
        return reply if _answers(reply, frame) else Babbled()

    async def stop(self) -> None:
        """Kill both processes with their groups, and let go of everything."""
        try:
            await self._kill()
        finally:
            self._connection.close()

    async def _receive(self, limit_s: float) -> bytes:
        loop = asyncio.get_running_loop()
        size = ctypes.sizeof(ReplyFrame) + 1
        async with asyncio.timeout(limit_s):
            try:
                return await loop.sock_recv(self._connection, size)
            except ConnectionResetError:
                return b""

    async def _expire(self) -> Ended:
        """Ask a kernel that runs to stop where it is, then end the process."""
        self._device.send_signal(signal.SIGALRM)
        packet = b""
        with contextlib.suppress(TimeoutError):
            packet = await self._receive(_LAST_WORDS_S)
        return Ended(status=await self._kill(), last_words=decode_reply(packet), expired=True)

    async def _kill(self) -> int:
        """End both; the device part's status."""
        try:
            await _end(self._host)
        finally:
            status = await _end(self._device)
        return status

    async def _last_of_host(self) -> int:
        """The host part hung up: its status, or that of being killed where it still ran."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await _wait(self._host)
        status = await _end(self._host)
        await _end(self._device)
        return status

    def _has_packet(self) -> bool:
        try:
            return bool(self._connection.recv(1, socket.MSG_PEEK))
        except (BlockingIOError, ConnectionResetError):
            return False


@dataclass(frozen=True, kw_only=True)
class Libraries:
    """What the two parts load, in this order each."""

    emulator: Path
    kernels: Path
    cudart: Path
    candidate: Path


def start(program: Path, libraries: Libraries, arena: int, report: int) -> Runner:
    """Start both parts of a runner, each with its own group and empty folder, and a link between.

    The memory files and our socket go to the device part alone. No environment and no other
    descriptor of ours goes along. Raises InfrastructureError where one cannot be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link, far_link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    with theirs, link, far_link:
        device = (theirs.fileno(), link.fileno(), parent, arena, report)
        host = (far_link.fileno(), parent)
        try:
            first = _spawn(
                [program, "device", *map(str, device), libraries.emulator, libraries.kernels],
                (theirs.fileno(), link.fileno(), arena, report),
            )
            try:
                second = _spawn(
                    [program, "host", *map(str, host), libraries.cudart, libraries.candidate],
                    (far_link.fileno(),),
                )
            except BaseException:
                first.kill()
                first.wait()
                raise
        except OSError as error:
            ours.close()
            raise InfrastructureError("runner", f"cannot be started: {error}") from error
    ours.setblocking(False)
    return Runner(first, second, ours)


def _spawn(command: Sequence[str | Path], descriptors: Sequence[int]) -> Process:
    folder = tempfile.mkdtemp(prefix="cuda-llm-runner-")
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=descriptors,
            start_new_session=True,
        )
    finally:
        # The process keeps it as a nameless folder in which nothing can be made.
        os.rmdir(folder)


def _answers(reply: ReplyFrame, frame: StartFrame | CallFrame) -> bool:
    """True for the reply that `frame` asks for: a candidate can write to the socket, too."""
    if isinstance(frame, StartFrame):
        return reply.reply in {Reply.READY, Reply.REFUSED}
    return bool(reply.reply == Reply.DONE and reply.sequence == frame.sequence)


async def _end(process: Process) -> int:
    """Kill a process with its group, and reap it, also when cancelled meanwhile."""
    # The group may hold processes even when its leader is gone.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        await _wait(process)
    finally:
        # What was killed is gone in a moment, so that waiting here holds nobody up.
        status = process.wait()
    return status


async def _wait(process: Process) -> None:
    """Wait for a child of ours without blocking the loop; it stays to be reaped."""
    if process.poll() is not None:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    descriptor = os.pidfd_open(process.pid)
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
