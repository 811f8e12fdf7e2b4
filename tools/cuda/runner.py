"""One runner of a GPU: started in its own namespaces, sent orders and the keys of a running batch,
and ended."""

import contextlib
import ctypes
import mmap
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path
from typing import TypeAlias

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.cuda.call_log import REPORT_BYTES, CallLog, read_report
from cuda_llm.tools.cuda.memory import HostMemory
from cuda_llm.tools.cuda.protocol import (
    ArmFrame,
    CaptureFrame,
    GoFrame,
    GpuCallFrame,
    GpuStartFrame,
    KeyRelease,
    Order,
    Report,
)
from cuda_llm.tools.device.channel import RunnerSocket, SharedMemory
from cuda_llm.tools.device.child import spawn
from cuda_llm.tools.device.protocol import ReplyFrame, RunnerReply
from cuda_llm.tools.device.runner import Runner, RunnerEnded, UnexpectedReply, do_nothing
from cuda_llm.tools.sandbox.isolation import other_gpus
from cuda_llm.tools.sandbox.jail import enclosing_program

_ASKED, _HANDED, _KEY = (
    getattr(KeyRelease, name).offset // 8 for name in ("asked", "handed", "key")
)
_BEGIN, _END = Report.key_release.offset, Report.key_release.offset + Report.key_release.size
_FENCE = threading.Lock()
_POLLS = 500
"""Polls between two checks of deadline and process: about 50 us."""

Frame: TypeAlias = GpuStartFrame | GpuCallFrame | CaptureFrame | ArmFrame | GoFrame
ORDERS: Mapping[type[ctypes.Structure], Order] = {
    GpuStartFrame: Order.START,
    GpuCallFrame: Order.CALL,
    CaptureFrame: Order.CAPTURE,
    ArmFrame: Order.ARM,
    GoFrame: Order.GO,
}
WARM_LIMIT_S = 30.0
"""Longest seconds for making the context of a runner."""
_PARENT = "@"
"""The enclosing program puts its own process id in the place of this."""


def release_keys(
    report: mmap.mmap,
    keys: Sequence[bytes],
    on_step: Callable[[int], None],
    is_over: Callable[[], bool],
    limit_s: float,
) -> None:
    """Answer two questions a step: for the key of its inputs, and for that of its tags.

    With the first, from the second step on, come the tags of the step before: `on_step` is called
    with its number. The questions come in order, each once, and the first comes after
    `clear_release`. Returns early where it `is_over`. Raises TimeoutError.
    """
    deadline = time.monotonic() + limit_s
    with memoryview(report) as whole, whole[_BEGIN:_END] as part, part.cast("Q") as words:
        for number, key in enumerate(_halves(keys), 1):
            polls = 0
            while words[_ASKED] != number:
                polls += 1
                if polls % _POLLS == 0:
                    if is_over():
                        return
                    if time.monotonic() > deadline:
                        raise TimeoutError
            if number % 2 == 1 and number > 1:
                on_step(number // 2 - 1)
            words[_KEY] = key
            # Not every processor's stores are seen in order; those on either side of a lock are.
            with _FENCE:
                pass
            words[_HANDED] = number


def clear_release(report: mmap.mmap) -> None:
    """Set that no key is asked for and none is released."""
    report[_BEGIN:_END] = bytes(_END - _BEGIN)


def _halves(keys: Sequence[bytes]) -> Iterator[int]:
    for key in keys:
        yield int.from_bytes(key[:8], "little")
        yield int.from_bytes(key[8:], "little")


class Namespaces(IntFlag):
    """Namespaces of a runner's own; `tools/sandbox/native/sandbox.h`."""

    NONE = 0
    PIDS = 1
    NETWORK = 2
    IPC = 4
    PROC = 8
    """With PIDS: /proc shows the namespace's own processes, as the driver needs."""
    ALL = PIDS | NETWORK | IPC | PROC


@dataclass(frozen=True, kw_only=True)
class RunnerLaunch:
    """Programs, device, namespaces and memory with which runners of one GPU are started."""

    program: Path
    shim: Path
    seal: Path
    """`seal.cu` compiled for the GPU."""
    device: str
    """The GPU's UUID or ordinal."""
    sm_count: int
    driver_folder: str = ""
    """Folder of the driver's libraries; empty where the dynamic linker finds them."""
    spaces: Namespaces = Namespaces.ALL
    host_bytes: int = 0
    """Bytes of a memory file that replaces shared device memory; 0 without a memory file."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment of a runner: the path of the driver's libraries alone."""
        return {"LD_LIBRARY_PATH": self.driver_folder} if self.driver_folder else {}


class GpuRunner:
    """A running runner. Always `stop` it."""

    def __init__(
        self, runner: Runner, report: SharedMemory, isolation: int, launch: RunnerLaunch
    ) -> None:
        self._runner = runner
        self._report = report
        self._isolation = isolation
        self._launch = launch
        self._sequence = 0
        self.memory: HostMemory | None = None
        """The runner's arena in host memory, where device memory cannot be shared; else None."""

    @property
    def pid(self) -> int:
        """Process id of the process that encloses the runner."""
        return self._runner.pids[0]

    @property
    def is_alive(self) -> bool:
        """False when the runner has ended, or has sent a packet unasked."""
        return self._runner.is_alive

    @property
    def spaces(self) -> Namespaces:
        """Namespaces that the runner was really given."""
        with contextlib.suppress(BlockingIOError):
            read = os.read(self._isolation, 1)
            self._namespaces = Namespaces(read[0] & Namespaces.ALL) if read else Namespaces.NONE
        return getattr(self, "_namespaces", Namespaces.NONE)

    async def warm_up(self, limit_s: float) -> ReplyFrame | RunnerEnded | UnexpectedReply:
        """Wait until its context is there."""
        return await self._runner.receive_reply(
            lambda reply: reply.reply == RunnerReply.READY, limit_s
        )

    async def order(
        self,
        frame: Frame,
        limit_s: float,
        *,
        spinning: bool = False,
        meanwhile: Callable[[], None] = do_nothing,
    ) -> ReplyFrame | RunnerEnded | UnexpectedReply:
        """Give an order and wait until it is carried out; see `Runner.ask`."""
        self._sequence += 1
        frame.head.kind, frame.head.sequence = ORDERS[type(frame)], self._sequence
        is_answer = _answers(self._sequence, starting=isinstance(frame, GpuStartFrame))
        return await self._runner.ask(
            bytes(frame), is_answer, limit_s, spinning=spinning, meanwhile=meanwhile
        )

    def read_log(self) -> CallLog:
        """Return what the shim logged of the last call or capture."""
        return read_report(bytes(self._report.map[:REPORT_BYTES]), self._launch.sm_count)

    def read_tags(self, count: int) -> tuple[int, ...]:
        """Return the tags of the last batch, as the runner wrote them."""
        begin, end = Report.tags.offset, Report.tags.offset + 8 * count
        return struct.unpack(f"<{count}Q", self._report.map[begin:end])

    def clear_tags(self, count: int) -> None:
        """Overwrite all tags, so that no old tag passes for a tag of the next batch, and release no
        key."""
        begin, end = Report.tags.offset, Report.tags.offset + 8 * count
        self._report.map[begin:end] = os.urandom(8 * count)
        clear_release(self._report.map)

    def release_keys(
        self, keys: Sequence[bytes], outputs: int, early_tags: list[int], limit_s: float
    ) -> None:
        """Release the keys of a batch step by step; append the tags of all steps but the last to
        `early_tags`."""

        def read_step(step: int) -> None:
            early_tags.extend(self.read_tags(outputs * (step + 1))[outputs * step :])

        release_keys(self._report.map, keys, read_step, lambda: not self.is_alive, limit_s)

    async def stop(self) -> None:
        """End it and close all it shares. Raises DeviceLost where it does not go."""
        try:
            await self._runner.stop()
        finally:
            os.close(self._isolation)
            self._report.close()
            if self.memory is not None:
                self.memory.close()


def start_gpu_runner(launch: RunnerLaunch) -> GpuRunner:
    """Start a runner; its context is not there yet. Raises InfrastructureError, MissingError."""
    enclosure = enclosing_program()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    report = SharedMemory("cuda-llm-gpu-report", REPORT_BYTES)
    memory = HostMemory(launch.host_bytes) if launch.host_bytes else None
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    arena = [memory.descriptor] if memory is not None else []
    inherited = (theirs.fileno(), report.descriptor, *arena)
    command: list[str | Path] = [
        *(enclosure, str(os.getpid()), str(int(launch.spaces)), str(writing)),
        ":".join(other_gpus(launch.device)),
        *(launch.program, str(theirs.fileno()), _PARENT, launch.device, launch.shim, launch.seal),
        *(str(report.descriptor), *map(str, arena)),
    ]
    try:
        child = spawn(command, (*inherited, writing), launch.environment, sweeps=True)
    except OSError as error:
        ours.close()
        report.close()
        os.close(reading)
        raise InfrastructureError("runner", f"cannot be started: {error}") from error
    finally:
        theirs.close()
        os.close(writing)
    runner = GpuRunner(Runner(child, [], RunnerSocket(ours), alarm=False), report, reading, launch)
    runner.memory = memory
    return runner


def _answers(sequence: int, *, starting: bool) -> Callable[[ReplyFrame], bool]:
    """Return the test of a reply to an order: a candidate can write to the socket, too."""
    allowed = {RunnerReply.READY, RunnerReply.REFUSED} if starting else {RunnerReply.DONE}

    def is_answer(reply: ReplyFrame) -> bool:
        return reply.reply in allowed and bool(reply.sequence == sequence)

    return is_answer
