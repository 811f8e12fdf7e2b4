"""Memory and a socket of packets that this process shares with a child process."""

import asyncio
import contextlib
import ctypes
import mmap
import os
import socket
import time

from cuda_llm.tools.device.protocol import ReplyFrame

_PACKET_BYTES = ctypes.sizeof(ReplyFrame) + 1
"""Bytes that are read of a packet: one more than a reply has, so that a longer packet is
noticed."""


class SharedMemory:
    """An anonymous memory file, mapped in this process and inherited by a runner as a
    descriptor."""

    def __init__(self, name: str, size: int) -> None:
        self.size = size
        self.descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, size)
        self.map = mmap.mmap(self.descriptor, size)

    def discard(self, begin: int, end: int) -> None:
        """Give the pages of a page-aligned range of bytes back; they read as zero from now on."""
        if end > begin:
            self.map.madvise(mmap.MADV_REMOVE, begin, end - begin)

    def close(self) -> None:
        """Give back all pages and the descriptor. Views of the memory stay valid and read zero."""
        self.discard(0, self.size)
        os.close(self.descriptor)


class RunnerSocket:
    """A connected SOCK_SEQPACKET socket. An empty packet says that the other end is closed."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection

    async def send(self, packet: bytes) -> None:
        """Send a packet; where the other end is closed, the next packet received is empty."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await asyncio.get_running_loop().sock_sendall(self._connection, packet)

    async def receive(self, limit_s: float) -> bytes:
        """Wait for a packet. Raises TimeoutError where none is there at the end.

        A packet that came in time is received even where this thread did other work until the time
        was over: a wait that is cancelled would lose the packet that it has read.
        """
        if not self.has_packet():
            await self._readable(limit_s)
        try:
            return self._connection.recv(_PACKET_BYTES)
        except BlockingIOError:
            raise TimeoutError from None
        except ConnectionResetError:
            return b""

    async def _readable(self, limit_s: float) -> None:
        """Wait until the socket can be read, `limit_s` seconds at most."""
        loop = asyncio.get_running_loop()
        readable = loop.create_future()

        def note() -> None:
            if not readable.done():
                readable.set_result(None)

        loop.add_reader(self._connection, note)
        try:
            await asyncio.wait({readable}, timeout=limit_s)
        finally:
            loop.remove_reader(self._connection)

    def receive_spinning(self, limit_s: float) -> bytes:
        """Wait for a packet without yielding the processor. Raises TimeoutError."""
        deadline = time.monotonic() + limit_s
        while True:
            try:
                return self._connection.recv(_PACKET_BYTES)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError from None
            except ConnectionResetError:
                return b""

    def has_packet(self) -> bool:
        """Return whether a packet waits to be received."""
        try:
            return bool(self._connection.recv(1, socket.MSG_PEEK))
        except (BlockingIOError, ConnectionResetError):
            return False

    def close(self) -> None:
        """Close the socket."""
        self._connection.close()
