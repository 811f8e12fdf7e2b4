"""A runner of a GPU and its arena, driven over a socket as the GPU host process does."""

import ctypes
import mmap
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from cuda_llm.tools.cuda import protocol
from cuda_llm.tools.cuda.protocol import (
    ArmFlag,
    ArmFrame,
    CaptureFrame,
    GoFrame,
    GpuCallFrame,
    GpuStartFrame,
    Order,
    Report,
    SharedBy,
)
from cuda_llm.tools.cuda.runner import clear_release, release_keys
from cuda_llm.tools.device import Argument, Scalar
from cuda_llm.tools.device.arguments import put_arguments
from cuda_llm.tools.device.protocol import ReplyFrame, RunnerReply, decode_reply

COUNT = 1000
SLOTS = 4
STRIDE = 16384
IN, OUT, SEALED = 0, 4096, 8192
TAGS = SLOTS * STRIDE
FLUSH_BYTES = 4096
SCRATCH, SCRATCH_BYTES, QUOTA = 128 << 10, 2 << 20, 1 << 20
ARENA_BYTES = 4 << 20
KEY = (0x01234567, 0x89ABCDEF, 0xDEADBEEF, 0xCAFEBABE)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a runner is started with."""

    program: Path
    shim: Path
    cubin: Path
    candidate: Path
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Ways:
    """How to call `solve`: what it does, and with what."""

    way: int = 0
    seed: int = 1
    device_to_host: bool = False


class GpuRunner:
    """One runner and the file that holds its arena."""

    def __init__(self, parts: Parts, *, shared_by: SharedBy = SharedBy.IPC) -> None:
        self._parts = parts
        self._shared_by = shared_by
        self._sequence = 0
        self._file = os.memfd_create("arena")
        os.truncate(self._file, ARENA_BYTES)
        self._flush = os.memfd_create("flush")
        os.truncate(self._flush, FLUSH_BYTES)
        self.arena = np.frombuffer(mmap.mmap(self._file, ARENA_BYTES), dtype=np.uint8)
        self._report = os.memfd_create("report")
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        handed = [theirs.fileno(), self._report]
        words = [str(theirs.fileno()), str(os.getpid()), "0", str(parts.shim), str(parts.cubin)]
        words.append(str(self._report))
        if shared_by is SharedBy.HOST:
            handed.append(self._file)
            words.append(str(self._file))
        self.process = subprocess.Popen(
            [str(parts.program), *words],
            pass_fds=handed,
            env=dict(parts.environment),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        theirs.close()
        self.socket.settimeout(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.socket.close()
        if error is not None:
            self.process.kill()
        output = self.process.communicate(timeout=20)[1].decode()
        os.close(self._report)
        os.close(self._file)
        os.close(self._flush)
        assert "Sanitizer" not in output, output
        assert "runtime error" not in output, output

    def receive_reply(self) -> ReplyFrame:
        """The next reply."""
        frame = decode_reply(self.socket.recv(4096))
        assert frame is not None, self.process.communicate(timeout=20)[1].decode()
        return frame

    def order(self, order: Order, frame: ctypes.Structure) -> ReplyFrame:
        """Give an order and hear the reply, which is checked to be one to it or the last word."""
        self._sequence += 1
        frame.head.kind, frame.head.sequence = int(order), self._sequence
        self.socket.send(bytes(frame))
        reply = self.receive_reply()
        assert reply.sequence == self._sequence or reply.is_last
        return reply

    def start(self) -> ReplyFrame:
        """Hear `ready` and load the candidate."""
        assert self.receive_reply().reply == RunnerReply.READY
        frame = GpuStartFrame(
            arena_bytes=ARENA_BYTES,
            flush_bytes=FLUSH_BYTES,
            shared_by=int(self._shared_by),
            candidate=bytes(self._parts.candidate),
        )
        frame.handle[:] = handle_of(self._file)
        frame.flush_handle[:] = handle_of(self._flush)
        return self.order(Order.START, frame)

    def call(self, ways: Ways) -> ReplyFrame:
        """Call `solve` once on slot 0."""
        frame = GpuCallFrame()
        self._fill(frame.solve, ways)
        return self.order(Order.CALL, frame)

    def capture(self, ways: Ways, slots: int = SLOTS) -> ReplyFrame:
        """Capture calls of `solve`."""
        frame = CaptureFrame(slot_stride=STRIDE, slots=slots)
        self._fill(frame.solve, ways)
        return self.order(Order.CAPTURE, frame)

    def arm(self, order: Sequence[int], flags: ArmFlag) -> ReplyFrame:
        """Put a batch together."""
        frame = ArmFrame(
            steps=len(order),
            flags=int(flags),
            input_count=1,
            output_count=1,
            slot_stride=STRIDE,
            tag_offset=TAGS,
            copied_bytes=ARENA_BYTES,
        )
        frame.order[:] = [*order, *[0] * (len(frame.order) - len(order))]
        frame.key[:] = list(KEY)
        frame.inputs[0] = protocol.SealedInput(
            offset=IN, sealed_offset=SEALED, bytes=COUNT * 4, index=0
        )
        frame.outputs[0] = protocol.TaggedOutput(offset=OUT, bytes=COUNT * 4, index=1)
        return self.order(Order.ARM, frame)

    def go(self) -> ReplyFrame:
        """Run the batch."""
        return self.order(Order.GO, GoFrame())

    def go_stepwise(self, keys: Sequence[bytes]) -> tuple[ReplyFrame, list[list[int]]]:
        """Run the batch, answering its questions; return the reply and the tags, by step."""
        tags: list[list[int]] = []
        size = ctypes.sizeof(Report)
        with mmap.mmap(self._report, size) as report:
            clear_release(report)

            def read_step(step: int) -> None:
                tags.append(Report.from_buffer_copy(report[:size]).tags[step : step + 1])

            self._sequence += 1
            frame = GoFrame()
            frame.head.kind, frame.head.sequence = int(Order.GO), self._sequence
            self.socket.send(bytes(frame))
            release_keys(report, keys, read_step, lambda: False, 20.0)
        return self.receive_reply(), tags

    def floats(self, offset: int, count: int = COUNT) -> npt.NDArray[np.float32]:
        """A part of the arena."""
        return self.arena[offset : offset + count * 4].view(np.float32)

    def flushed(self) -> npt.NDArray[np.uint32]:
        """What is written before calls."""
        return np.frombuffer(os.pread(self._flush, FLUSH_BYTES, 0), dtype=np.uint32)

    def report(self) -> Report:
        """What the shim noted."""
        return Report.from_buffer_copy(os.pread(self._report, ctypes.sizeof(Report), 0))

    def _fill(self, solve: ctypes.Structure, ways: Ways) -> None:
        arguments: list[Argument] = [
            "a",
            "b",
            Scalar(value=COUNT, ctype="int"),
            Scalar(value=ways.way, ctype="int"),
        ]
        put_arguments(solve, arguments, {"a": IN, "b": OUT})
        solve.scratch_offset, solve.scratch_bytes = SCRATCH, SCRATCH_BYTES
        solve.scratch_quota, solve.scratch_seed = QUOTA, ways.seed
        solve.device_to_host = int(ways.device_to_host)
        solve.copied_bytes = ARENA_BYTES


def handle_of(file: int) -> list[int]:
    """As the fake driver has it: a path."""
    return list(f"/proc/{os.getpid()}/fd/{file}".encode().ljust(64, b"\0"))
