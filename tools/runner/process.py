"""One runner process: started, spoken to with a deadline, and killed with all it left."""

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

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.runner.protocol import CallFrame, Reply, ReplyFrame, StartFrame, decode_reply

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
    """A running runner. Use `start`; always `stop` it."""

    def __init__(self, process: "subprocess.Popen[bytes]", connection: socket.socket) -> None:
        self._process = process
        self._connection = connection

    @property
    def pid(self) -> int:
        """Its process id, and the id of its process group."""
        return self._process.pid

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
        if reply is not None and reply.is_last:
            return Ended(status=await self._kill(), last_words=reply, expired=False)
        return reply if reply is not None and _answers(reply, frame) else Babbled()

    async def stop(self) -> None:
        """Kill the process with its group, and let go of everything."""
        await self._kill()
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
        self._process.send_signal(signal.SIGALRM)
        packet = b""
        with contextlib.suppress(TimeoutError):
            packet = await self._receive(_LAST_WORDS_S)
        return Ended(status=await self._kill(), last_words=decode_reply(packet), expired=True)

    async def _kill(self) -> int:
        # The group may hold processes even when its leader is gone.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._process.poll() is None:
            await _wait(self._process.pid)
        return self._process.wait()

    def _has_packet(self) -> bool:
        try:
            return bool(self._connection.recv(1, socket.MSG_PEEK))
        except (BlockingIOError, ConnectionResetError):
            return False


def start(program: Path, libraries: Sequence[Path], arena: int, report: int) -> Runner:
    """Start `program` with its own group, socket and empty folder, and the two memory files.

    Nothing else of ours goes along: no environment, no other descriptor. Raises
    InfrastructureError where it cannot be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    descriptors = (theirs.fileno(), arena, report)
    try:
        process = _spawn([program, *map(str, (*descriptors, os.getpid())), *libraries], descriptors)
    except OSError as error:
        ours.close()
        raise InfrastructureError("runner", f"cannot be started: {error}") from error
    finally:
        theirs.close()
    ours.setblocking(False)
    return Runner(process, ours)


def _spawn(command: Sequence[str | Path], descriptors: Sequence[int]) -> "subprocess.Popen[bytes]":
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


async def _wait(pid: int) -> None:
    """Wait for a child of ours without blocking the loop; it stays to be reaped."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    descriptor = os.pidfd_open(pid)
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
