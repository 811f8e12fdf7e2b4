"""Our end of the socket to a runner: packets out and in, with a deadline."""

import asyncio
import contextlib
import ctypes
import socket
import time

from cuda_llm.tools.runner.protocol import ReplyFrame

_PACKET_BYTES = ctypes.sizeof(ReplyFrame) + 1
"""One more than a reply, so that one that is too long shows."""


class Wire:
    """A connected SOCK_SEQPACKET socket. An empty packet means that the other end hung up."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection

    async def send(self, packet: bytes) -> None:
        """Send a packet; where nobody is left to get it, what is received next tells."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await asyncio.get_running_loop().sock_sendall(self._connection, packet)

    async def receive(self, limit_s: float) -> bytes:
        """Wait for a packet. Raises TimeoutError."""
        async with asyncio.timeout(limit_s):
            try:
                loop = asyncio.get_running_loop()
                return await loop.sock_recv(self._connection, _PACKET_BYTES)
            except ConnectionResetError:
                return b""

    def receive_spinning(self, limit_s: float) -> bytes:
        """Wait for a packet without letting go of the processor. Raises TimeoutError."""
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
        """Has something come that nobody asked for?"""
        try:
            return bool(self._connection.recv(1, socket.MSG_PEEK))
        except (BlockingIOError, ConnectionResetError):
            return False

    def close(self) -> None:
        """Close the socket."""
        self._connection.close()
