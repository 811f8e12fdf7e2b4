"""The orchestrator's side: ask the host process of a GPU, and never wait for one that does not
come back.
"""

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Concatenate

from cuda_llm.errors import DeviceLost, InfrastructureError
from cuda_llm.log import Log, bound_fields
from cuda_llm.tools.cuda.host_process import HostProcess, close_at_exit, start_host
from cuda_llm.tools.cuda.messages import (
    DeviceBroken,
    Heartbeat,
    OpenSite,
    WorkDone,
    WorkFailed,
    WorkRequest,
    encode,
    receive,
)
from cuda_llm.tools.device import P, Site, T

_log = Log(__name__)


@dataclass(frozen=True, kw_only=True)
class HostTimeouts:
    """How long the orchestrator waits for a referee."""

    silence_s: float = 60.0
    """Without a sign of life: the referee's own steps, one reference at a large size say, block
    its event loop for seconds."""
    start_s: float = 120.0
    """Until its site is open: importing CuPy from a slow disk, the first context, self-tests."""
    whole_s: float = 1800.0
    """For one work with all its signs of life."""


class HostBroken(Exception):
    """The referee is no more; whether work or device is to blame is not known yet."""

    def __init__(self, reason: str, *, proven: bool) -> None:
        super().__init__(reason)
        self.proven = proven
        """The device knew its known answer before the work: without it, it never came so far."""


class SiteNotOpened(HostBroken):
    """The site could not be opened, and said why."""


class HostClient:
    """One referee, started when it is first needed. One ask at a time, from one event loop."""

    def __init__(self, opening: OpenSite, patience: HostTimeouts) -> None:
        self._opening = opening
        self._patience = patience
        self._held: HostProcess | None = None
        self._ready = False
        self._at_exit: weakref.finalize[[], object] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the referee, where one runs."""
        return self._held.process.pid if self._held else None

    def warm(self) -> None:
        """Start the referee without waiting for it. Raises InfrastructureError."""
        if self._held is None:
            self._held, self._ready = start_host(self._opening), False
            self._at_exit = close_at_exit(self, self._held)

    async def ask(
        self,
        work: Callable[Concatenate[Site, P], Awaitable[T]],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Have `work` carried out. Cancelled or broken, the referee is ended; the next ask starts
        a fresh one.

        Raises what `work` raises or what the site raises when it is opened, RefereeBroken, and
        DeviceLost where something of it cannot be killed.
        """
        packet = encode(
            WorkRequest(work=work, arguments=arguments, named=named, bound=bound_fields())
        )
        self.warm()
        assert self._held is not None
        try:
            reply = await self._exchange(self._held, packet)
            if isinstance(reply, DeviceBroken):
                raise HostBroken(reply.reason, proven=reply.proven)
        except HostBroken as error:
            _log.warning("referee is broken", reason=str(error), pid=self.pid)
            await self._end()
            raise
        except BaseException:
            # Cancelled: whoever waits for that must find nothing running afterwards.
            self.kill()
            raise
        if isinstance(reply, WorkFailed):
            raise reply.error
        result: T = reply.result
        return result

    def kill(self) -> None:
        """End the referee with all its runners. Raises DeviceLost where one does not go."""
        held = self._release()
        if held is not None:
            require_gone(held.kill())

    async def _end(self) -> None:
        """As `kill`, while the loop turns."""
        held = self._release()
        if held is not None:
            require_gone(await asyncio.to_thread(held.kill))

    def close(self) -> None:
        """Let the referee close its site and go."""
        held = self._release()
        if held is not None:
            held.close()

    def _release(self) -> HostProcess | None:
        held, self._held = self._held, None
        if self._at_exit is not None:
            self._at_exit.detach()
        return held

    async def _exchange(
        self, held: HostProcess, packet: bytes
    ) -> WorkDone | WorkFailed | DeviceBroken:
        """One ask and its answer, once the site is open."""
        try:
            async with asyncio.timeout(self._patience.whole_s):
                if not self._ready:
                    await self._opened(held)
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    await asyncio.get_running_loop().sock_sendall(held.connection, packet)
                reply: WorkDone | WorkFailed | DeviceBroken = await self._answer(
                    held, self._patience.silence_s, proven=True
                )
        except TimeoutError:
            msg = f"not done after {self._patience.whole_s:g} s"
            raise HostBroken(msg, proven=True) from None
        return reply

    async def _opened(self, held: HostProcess) -> None:
        opened = await self._answer(held, self._patience.start_s, proven=False)
        if isinstance(opened, WorkFailed):
            if isinstance(opened.error, InfrastructureError):
                raise SiteNotOpened(opened.error.detail, proven=False)
            raise opened.error
        self._ready = True

    async def _answer(self, held: HostProcess, silence_s: float, *, proven: bool) -> Any:
        """The next message that is no sign of life."""
        while True:
            try:
                async with asyncio.timeout(silence_s):
                    message = await receive(held.connection)
            except TimeoutError:
                msg = f"no sign of life for {silence_s:g} s"
                raise HostBroken(msg, proven=proven) from None
            if message is None:
                raise HostBroken(held.describe_end(), proven=proven)
            if not isinstance(message, Heartbeat):
                return message


def require_gone(left: tuple[int, ...]) -> None:
    """Raise DeviceLost where a process outlives being killed: only the driver can hold it."""
    if left:
        pids = ", ".join(map(str, left))
        raise DeviceLost("device", f"killed, process {pids} is still there")
