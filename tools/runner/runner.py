"""One runner: spoken to with a deadline, killed with all it left; and why it could not load a
candidate.
"""

import asyncio
import contextlib
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cuda_llm.facts import LoadFault
from cuda_llm.failures import LoadFailed
from cuda_llm.log import Log
from cuda_llm.tools.runner.child import Child, RunnerSocket
from cuda_llm.tools.runner.protocol import (
    CallFrame,
    Refusal,
    Reply,
    ReplyFrame,
    StartFrame,
    decode_reply,
)

_UNDEFINED = re.compile(r"undefined symbol: (\w+)")
"""In the dynamic linker's words."""
_FAULTS: dict[int, LoadFault] = {Refusal.NO_SOLVE: "no-solve", Refusal.DRIVER: "driver"}


def load_failed(reply: ReplyFrame) -> LoadFailed:
    """The verdict on a candidate that the dynamic linker or the driver refuses."""
    if reply.number in _FAULTS:
        return LoadFailed(fault=_FAULTS[reply.number], detail=reply.text)
    missing = _UNDEFINED.search(reply.text)
    return LoadFailed(
        fault="undefined-function" if missing else "linker",
        symbol=missing[1] if missing else None,
        detail=reply.text,
    )


_log = Log(__name__)

_FINAL_REPLY_S = 0.5
"""How long a runner that is out of time may take to say where it is."""


def do_nothing() -> None:
    """While a runner works."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The runner is no more."""

    status: int
    """As `subprocess` gives it: negative for a signal."""
    final_reply: ReplyFrame | None
    """Its account of a crash, if it could give one."""
    expired: bool
    """True when it was ended for being out of time."""


@dataclass(frozen=True, kw_only=True)
class UnexpectedReply:
    """The runner said something that is no reply to what it was asked."""


class Runner:
    """A running runner. Use `start` of the kind you need; always `stop` it."""

    def __init__(
        self, speaker: Child, helpers: Sequence[Child], wire: RunnerSocket, *, alarm: bool
    ) -> None:
        """`helpers` belong to the `speaker`; at an `alarm` it says where it is when it is late."""
        self._speaker = speaker
        self._helpers = tuple(helpers)
        self._wire = wire
        self._alarm = alarm

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of speaker and helpers; each leads a process group."""
        return (self._speaker.pid, *(helper.pid for helper in self._helpers))

    @property
    def is_alive(self) -> bool:
        """False when it has ended, or said something although nobody asked."""
        return self._speaker.process.poll() is None and not self._wire.has_packet()

    async def exchange(
        self, frame: StartFrame | CallFrame, limit_s: float
    ) -> ReplyFrame | Ended | UnexpectedReply:
        """Send one frame and wait for the one reply; a runner that takes longer is ended."""
        return await self.ask(bytes(frame), lambda reply: _answers(reply, frame), limit_s)

    async def ask(
        self,
        packet: bytes,
        is_answer: Callable[[ReplyFrame], bool],
        limit_s: float,
        *,
        spinning: bool = False,
        meanwhile: Callable[[], None] = do_nothing,
    ) -> ReplyFrame | Ended | UnexpectedReply:
        """Send a packet and wait for the one reply; a runner that takes longer is ended.

        `spinning` holds the processor meanwhile: what comes back is seen at once. `meanwhile` is
        done before; where it raises TimeoutError, the runner is late.
        """
        if self._wire.has_packet():
            return UnexpectedReply()
        await self._wire.send(packet)
        try:
            meanwhile()
        except TimeoutError:
            return await self._expire()
        return await self.receive_reply(is_answer, limit_s, spinning=spinning)

    async def receive_reply(
        self, is_answer: Callable[[ReplyFrame], bool], limit_s: float, *, spinning: bool = False
    ) -> ReplyFrame | Ended | UnexpectedReply:
        """Wait for one reply; a runner that takes longer is ended."""
        try:
            if spinning:
                packet = self._wire.receive_spinning(limit_s)
            else:
                packet = await self._wire.receive(limit_s)
        except TimeoutError:
            return await self._expire()
        if not packet:
            return Ended(status=await self._last_of_speaker(), final_reply=None, expired=False)
        reply = decode_reply(packet)
        if reply is None or reply.reply == Reply.FORGED:
            return UnexpectedReply()
        if reply.reply == Reply.VANISHED:
            return Ended(status=await self._last_of_helpers(), final_reply=None, expired=False)
        if reply.is_last:
            return Ended(status=await self._kill(), final_reply=reply, expired=False)
        return reply if is_answer(reply) else UnexpectedReply()

    async def stop(self) -> None:
        """Kill all processes with their groups, and let go of everything."""
        try:
            await self._kill()
        finally:
            self._wire.close()

    async def _expire(self) -> Ended:
        """Ask a kernel that runs to stop where it is, where that can be, then end the process."""
        _log.info("runner is out of time", pids=self.pids)
        packet = b""
        if self._alarm:
            self._speaker.process.send_signal(signal.SIGALRM)
            with contextlib.suppress(TimeoutError):
                packet = await self._wire.receive(_FINAL_REPLY_S)
        return Ended(status=await self._kill(), final_reply=decode_reply(packet), expired=True)

    async def _kill(self) -> int:
        """End all; the speaker's status."""
        try:
            for helper in self._helpers:
                await helper.end()
        finally:
            status = await self._speaker.end()
        return status

    async def _last_of_speaker(self) -> int:
        """The speaker hung up: its status, or that of being killed where it still ran."""
        await _let_end(self._speaker)
        return await self._kill()

    async def _last_of_helpers(self) -> int:
        """The same for a helper that hung up."""
        status = 0
        for helper in self._helpers:
            await _let_end(helper)
            status = await helper.end()
        await self._speaker.end()
        return status


def _answers(reply: ReplyFrame, frame: StartFrame | CallFrame) -> bool:
    """True for the reply that `frame` asks for: a candidate can write to the socket, too."""
    if isinstance(frame, StartFrame):
        return reply.reply in {Reply.READY, Reply.REFUSED}
    return bool(reply.reply == Reply.DONE and reply.sequence == frame.sequence)


async def _let_end(child: Child) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_FINAL_REPLY_S):
            await child.wait()
