"""A session of one candidate on a GPU with timing: captures calls, arms batches and times them by
the host's clock."""

import time
from collections.abc import Mapping, Sequence
from functools import partial

from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.tools.cuda.call_log import error_name
from cuda_llm.tools.cuda.protocol import (
    MAX_STEPS,
    Armed,
    ArmFlag,
    ArmFrame,
    Captured,
    CaptureFrame,
    GoFrame,
)
from cuda_llm.tools.cuda.session import GpuSession
from cuda_llm.tools.device import SCRATCH_BYTES, Argument, Batch, CallOptions, TimeClass
from cuda_llm.tools.device.buffers import Array, BufferSpec, Slots
from cuda_llm.tools.device.protocol import ReplyFrame
from cuda_llm.tools.device.runner import do_nothing

_ARM_LIMIT_S = 20.0
_CAPTURE_LIMIT_S = 10.0
"""Seconds for capturing; the call before the capture has its own limit."""


class GpuTimedSession(GpuSession):
    """A session of one candidate on a GPU whose calls are captured and timed in batches."""

    was_timed: bool = False
    """True once slots have been laid out in the session."""
    _class: TimeClass | None = None
    """Time class of the present layout's calls; None before they are captured."""
    not_stepwise: str = ""
    _batch: Batch | None = None
    _tags: tuple[int, ...] = ()

    async def place_slots(
        self, buffers: Sequence[BufferSpec], count: int, *, scratch_bytes: int = SCRATCH_BYTES
    ) -> Slots:
        """Lay out `count` slots, with room for `solve` to hold `scratch_bytes`; the previous layout
        is replaced."""
        self.was_timed = True
        self._batch = self._class = None
        wanted = self.arena.laid_out(buffers, count, scratch_bytes)
        await self._context.prepare(self.arena.memory, wanted)
        return self.arena.place_slots(buffers, count, scratch_bytes)

    async def capture(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> TimeClass | Verdict:
        """Call `solve` once on slot 0, then capture a call for each slot; return the time class or
        a verdict."""
        await self._context.settle()
        layout = self.arena.layout
        frame = CaptureFrame(slot_stride=layout.stride, slots=layout.slots)
        self.arena.fill_solve(frame.solve, arguments, options)
        reply = await self._send_order(frame, options.limit_s + _CAPTURE_LIMIT_S)
        if not isinstance(reply, ReplyFrame):
            return reply
        by_host = reply.number == Captured.HOST_INCLUSIVE
        self._class = TimeClass.HOST_INCLUSIVE if by_host else TimeClass.DEVICE
        return self._class

    def seal(
        self, slots: Sequence[int], keys: Sequence[bytes], contents: Mapping[str, Array]
    ) -> None:
        """Encrypt the inputs of `slots` under their keys. Raises ValueError where slots or contents
        do not fit the layout."""
        layout = self.arena.layout
        if not all(0 <= slot < layout.slots for slot in slots):
            raise ValueError(f"there are {layout.slots} slots")
        for name, column in self.arena.sealed_columns().items():
            spec = layout.spans[name].spec
            plain = self.arena.memory.arrays.xp.ascontiguousarray(contents[name])
            if plain.dtype != spec.dtype or plain.nbytes != len(slots) * spec.nbytes:
                raise ValueError(f"{name} is {spec.dtype} {spec.shape}")
            rows = plain.reshape(-1).view("uint8").reshape(len(slots), -1)
            self._context.sealing.seal(column, slots, rows, keys)

    async def arm(self, batch: Batch) -> Verdict | None:
        """Have the runner build the batch without running it. Raises ValueError for a batch that is
        not valid."""
        if not 0 < len(batch.order) <= MAX_STEPS or len(set(batch.order)) < len(batch.order):
            raise ValueError("a batch has 1 to 256 steps, and no slot twice")
        if batch.solve and self._class is None and self.verdict is None:
            raise ValueError("nothing of this layout has been captured")
        if batch.keys and len(batch.keys) != len(batch.order):
            raise ValueError("a batch has one key, or one for each step")
        self._batch = None
        self.not_stepwise = ""
        await self._context.settle()
        reply = await self._send_order(self._arm_frame(batch), _ARM_LIMIT_S)
        if not isinstance(reply, ReplyFrame):
            return reply
        if reply.number == Armed.NOT_STEPWISE:
            why = error_name(reply.address)
            self.not_stepwise = f"the GPU cannot be shown memory of this host ({why})"
            return InfraFailed(component="device", detail=self.not_stepwise)
        self._batch = batch
        return None

    async def go(self, limit_s: float) -> float | Verdict:
        """Run the armed batch; return its seconds by the host's clock, or a verdict. Raises
        ValueError without an armed batch."""
        if self._batch is None:
            raise ValueError("no batch is armed")
        outputs, keys = len(self.arena.layout.outputs), self._batch.keys
        count = len(self._batch.order) * outputs
        runner = self._loaded.runner
        runner.clear_tags(count)
        self.arena.memory.finish()
        early_tags: list[int] = []
        release_keys = (
            partial(runner.release_keys, keys, outputs, early_tags, limit_s) if keys else do_nothing
        )
        frame = GoFrame()
        started = time.perf_counter()
        reply = await self._send_order(
            frame, limit_s, spinning=True, in_graph=True, meanwhile=release_keys
        )
        if not isinstance(reply, ReplyFrame):
            return reply
        # Tags read before the next inputs were opened count, whatever the memory holds now.
        self._tags = (*early_tags, *runner.read_tags(count)[len(early_tags) :])
        return time.perf_counter() - started

    @property
    def tags(self) -> tuple[int, ...]:
        """Tags of the last batch, by step and then by output."""
        return self._tags

    def find_late_write(self) -> str | None:
        """Return the name of an output that has changed since its call was over, or None. Raises
        ValueError where no batch has run."""
        if self._batch is None:
            raise ValueError("no batch has run")
        outputs, batch = self.arena.output_columns(), self._batch
        keys = batch.keys or (batch.key,) * len(batch.order)
        now = self._context.sealing.tags([*outputs.values()], batch.order, keys)
        names = [*outputs] * len(batch.order)
        return next(
            (
                name
                for name, then, since in zip(names, self._tags, now, strict=True)
                if then != since
            ),
            None,
        )

    def _arm_frame(self, batch: Batch) -> ArmFrame:
        layout = self.arena.layout
        frame = ArmFrame(
            steps=len(batch.order),
            flags=self._flags(batch),
            slot_stride=layout.stride,
            tag_offset=layout.tags,
            copied_bytes=self.arena.copied_bytes,
            input_count=len(layout.sealed),
            output_count=len(layout.outputs),
        )
        for step, slot in enumerate(batch.order):
            frame.order[step] = slot
        for word in range(4):
            frame.key[word] = int.from_bytes(batch.key[4 * word : 4 * word + 4], "little")
        indices = {name: index for index, name in enumerate(layout.spans)}
        for number, (name, sealed) in enumerate(layout.sealed.items()):
            span, region = layout.spans[name], frame.inputs[number]
            region.offset, region.sealed_offset = span.begin, sealed
            region.bytes, region.index = span.spec.nbytes, indices[name]
        for number, (name, index) in enumerate(layout.outputs.items()):
            span, tagged = layout.spans[name], frame.outputs[number]
            tagged.offset, tagged.bytes, tagged.index = span.begin, span.spec.nbytes, index
        return frame

    def _flags(self, batch: Batch) -> int:
        flags = ArmFlag.FLUSH if batch.flush else ArmFlag(0)
        if batch.keys:
            flags |= ArmFlag.STEPWISE
        if batch.solve:
            flags |= ArmFlag.SOLVE
        if self._class is TimeClass.HOST_INCLUSIVE:
            flags |= ArmFlag.HOST
        return int(flags)
