"""Messages between the orchestrator and a GPU host process, beside the works that it is sent. Both
ends are trusted."""

import asyncio
import pickle
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuda_llm.tools.device import Site

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, kw_only=True)
class OpenSite:
    """The first message to a GPU host process: which site it opens until it ends."""

    site: "Callable[..., AbstractAsyncContextManager[Site]]"
    """A module's function or class."""
    arguments: tuple[Any, ...] = ()
    known_answer: "Callable[[Site], None]"
    """Function that raises where the device computes a wrong result. Called before each work."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of the GPU host process beside our own."""


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """The event loop of the GPU host process turns: it is slow, not hung."""


@dataclass(frozen=True, kw_only=True)
class SiteReady:
    """Reply of the GPU host process: the site is open."""


@dataclass(frozen=True, kw_only=True)
class WorkDone:
    """Reply of the GPU host process: the result of the work."""

    result: Any


@dataclass(frozen=True, kw_only=True)
class WorkFailed:
    """Reply of the GPU host process: the error that the work raised. The device still computes its
    known answer."""

    error: Exception


@dataclass(frozen=True, kw_only=True)
class DeviceBroken:
    """The device is not to be trusted any more, at least not by this process."""

    reason: str
    was_healthy: bool
    """The known answer was right before the work: the work broke the device."""


async def send(connection: socket.socket, message: object) -> None:
    """Send one message. Raises what pickle raises, and OSError where the other end is closed."""
    packet = encode(message)
    await asyncio.get_running_loop().sock_sendall(connection, packet)


def encode(message: object) -> bytes:
    """Return length and pickle. Functions travel by module and name; others cannot be pickled."""
    payload = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(payload)) + payload


async def receive(connection: socket.socket) -> Any:
    """Return the next message, or None where the other end is gone."""
    head = await _receive_all(connection, _LENGTH.size)
    if head is None:
        return None
    payload = await _receive_all(connection, *_LENGTH.unpack(head))
    return None if payload is None else pickle.loads(payload)


async def _receive_all(connection: socket.socket, size: int) -> bytearray | None:
    loop = asyncio.get_running_loop()
    whole = bytearray(size)
    view = memoryview(whole)
    while view:
        try:
            count = await loop.sock_recv_into(connection, view)
        except ConnectionResetError:
            return None
        if count == 0:
            return None
        view = view[count:]
    return whole
