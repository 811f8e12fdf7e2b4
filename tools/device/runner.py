"""One runner: given orders with a deadline, and killed with all processes that it has started."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cuda_llm.log import Log
from cuda_llm.tools.device.channel import RunnerSocket
from cuda_llm.tools.device.child import Child
from cuda_llm.tools.device.protocol import (
    CallFrame,
    ReplyFrame,
    RunnerReply,
    StartFrame,
    decode_reply,
)

_log = Log(__name__)

_FINAL_REPLY_S = 0.5
"""Longest seconds in which a runner that is out of time reports where it is."""
MOST_LIMITS = 5
"""Most multiples of its limit that a runner which waits for a processor may take in all."""
_LEAST_LEFT_S = 0.01
"""Seconds below which no time is left to wait."""


def find_queued_s(pids: Sequence[int]) -> float:
    """Return the most seconds that a thread of these processes was ready and waited for a
    processor: the second figure of `/proc/PID/task/TID/schedstat`; 0 where the kernel has no such
    file."""
    longest_ns = 0
    for pid in pids:
        for thread in _threads(pid):
            # Each exchange asks: a `Path` and a text file take twice as long.
            file = f"/proc/{pid}/task/{thread}/schedstat"
            with (
                contextlib.suppress(OSError, ValueError, IndexError),
                open(file, "rb", buffering=0) as opened,
            ):
                longest_ns = max(longest_ns, int(opened.read().split()[1]))
    return longest_ns / 1e9


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def do_nothing() -> None:
    """Do nothing while a runner works."""


@dataclass(frozen=True, kw_only=True)
class RunnerEnded:
    """A runner has ended."""

    status: int
    """Exit status as `subprocess` has it: negative for a signal."""
    final_reply: ReplyFrame | None
    """The runner's report of its crash; None where it sent none."""
    expired: bool
    """True when the runner was ended because its time was over."""


@dataclass(frozen=True, kw_only=True)
class UnexpectedReply:
    """The runner sent a packet that is no reply to its order."""


class Runner:
    """A running runner of one or more processes. Whoever starts a runner has to call `stop`."""

    def __init__(
        self, main: Child, helpers: Sequence[Child], connection: RunnerSocket, *, alarm: bool
    ) -> None:
        """`main` is the process that replies, `helpers` end with it. With `alarm`, `main` reports
        on SIGALRM where the kernel is."""
        self._main = main
        self._helpers = tuple(helpers)
        self._connection = connection
        self._alarm = alarm

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of main process and helpers; each leads a process group."""
        return (self._main.pid, *(helper.pid for helper in self._helpers))

    @property
    def is_alive(self) -> bool:
        """False when the runner has ended, or has sent a packet without an order."""
        return self._main.process.poll() is None and not self._connection.has_packet()

    async def exchange(
        self, frame: StartFrame | CallFrame, limit_s: float
    ) -> ReplyFrame | RunnerEnded | UnexpectedReply:
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
    ) -> ReplyFrame | RunnerEnded | UnexpectedReply:
        """Send a packet and wait for the one reply; a runner that takes longer is ended.

        `spinning` holds the processor meanwhile: the reply is seen at once. `meanwhile` is called
        before waiting; where it raises TimeoutError, the runner is late.
        """
        if self._connection.has_packet():
            return UnexpectedReply()
        await self._connection.send(packet)
        try:
            meanwhile()
        except TimeoutError:
            return await self._expire()
        return await self.receive_reply(is_answer, limit_s, spinning=spinning)

    async def receive_reply(
        self, is_answer: Callable[[ReplyFrame], bool], limit_s: float, *, spinning: bool = False
    ) -> ReplyFrame | RunnerEnded | UnexpectedReply:
        """Wait for one reply; a runner that takes longer is ended."""
        try:
            if spinning:
                packet = self._connection.receive_spinning(limit_s)
            else:
                packet = await self._receive(limit_s)
        except TimeoutError:
            return await self._expire()
        if not packet:
            return RunnerEnded(status=await self._main_status(), final_reply=None, expired=False)
        reply = decode_reply(packet)
        if reply is None or reply.reply == RunnerReply.FORGED:
            return UnexpectedReply()
        if reply.reply == RunnerReply.VANISHED:
            return RunnerEnded(status=await self._helper_status(), final_reply=None, expired=False)
        if reply.is_last:
            return RunnerEnded(status=await self._kill(), final_reply=reply, expired=False)
        return reply if is_answer(reply) else UnexpectedReply()

    async def _receive(self, limit_s: float) -> bytes:
        """Wait for a packet. Time in which the runner waits for a processor does not count, up to
        MOST_LIMITS of the limit: a busy machine makes no kernel endless. Raises TimeoutError.
        """
        begun_s, queued_s = time.monotonic(), find_queued_s(self.pids)
        left_s = limit_s
        while True:
            try:
                return await self._connection.receive(left_s)
            except TimeoutError:
                waited_s = min(find_queued_s(self.pids) - queued_s, (MOST_LIMITS - 1) * limit_s)
                left_s = limit_s + waited_s - (time.monotonic() - begun_s)
                if left_s < _LEAST_LEFT_S:
                    raise

    async def stop(self) -> None:
        """Kill all processes with their groups, and close the connection."""
        try:
            await self._kill()
        finally:
            self._connection.close()

    async def _expire(self) -> RunnerEnded:
        """Ask a kernel that runs to stop where it is, where that can be, then end the process."""
        _log.info("runner is out of time", pids=self.pids)
        packet = b""
        if self._alarm:
            self._main.process.send_signal(signal.SIGALRM)
            with contextlib.suppress(TimeoutError):
                packet = await self._connection.receive(_FINAL_REPLY_S)
        return RunnerEnded(
            status=await self._kill(), final_reply=decode_reply(packet), expired=True
        )

    async def _kill(self) -> int:
        """End all processes; return the status of the main one."""
        try:
            for helper in self._helpers:
                await helper.end()
        finally:
            status = await self._main.end()
        return status

    async def _main_status(self) -> int:
        """Return the status of a main process that closed its socket, killed where it still ran."""
        await _let_end(self._main)
        return await self._kill()

    async def _helper_status(self) -> int:
        """Return the same of the last helper."""
        status = 0
        for helper in self._helpers:
            await _let_end(helper)
            status = await helper.end()
        await self._main.end()
        return status


def _answers(reply: ReplyFrame, frame: StartFrame | CallFrame) -> bool:
    """Tell whether `frame` asks for this reply: a candidate can write to the socket, too."""
    if isinstance(frame, StartFrame):
        return reply.reply in {RunnerReply.READY, RunnerReply.REFUSED}
    return bool(reply.reply == RunnerReply.DONE and reply.sequence == frame.sequence)


async def _let_end(child: Child) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_FINAL_REPLY_S):
            await child.wait()
