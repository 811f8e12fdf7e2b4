"""Byte offsets of the parts of a session's memory, and the arrays over these parts.

Slots follow each other at one stride. Each slot has its buffers between guards and, where calls are
timed, the sealed contents of its inputs. Tags come after the slots, and last the memory that
`solve` may allocate.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cuda_llm.tools.cuda.memory import Memory, MemoryFull, round_up
from cuda_llm.tools.cuda.protocol import MAX_REGIONS, MAX_STEPS, SharedBy, Solve
from cuda_llm.tools.cuda.sealing import SealedColumn
from cuda_llm.tools.device import SCRATCH_BYTES, Argument, CallOptions
from cuda_llm.tools.device.arguments import put_arguments
from cuda_llm.tools.device.buffers import Array, BufferSpec, PlacedBuffer, Slots

GUARD_BYTES = 4096
ALIGNMENT = 256
_TAG_BYTES = 8
_SCRATCH_PART = 8
"""Scratch memory is larger by this fraction (an eighth) than `solve` may hold, so that its
allocations begin elsewhere at each call."""
_MOST_SLACK_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True)
class BufferSpan:
    """A buffer of slot 0 with its guards."""

    spec: BufferSpec
    before: int
    """Offset in bytes at which the guard before the buffer begins."""
    begin: int
    end: int
    after: int
    """Offset in bytes at which the guard after the buffer ends."""


@dataclass(frozen=True, kw_only=True)
class SlotLayout:
    """Offsets of slot 0 and of what all slots share."""

    spans: Mapping[str, BufferSpan]
    sealed: Mapping[str, int] = field(default_factory=dict)
    """Offset in bytes of each input's sealed contents, by name."""
    slots: int
    stride: int
    tags: int
    scratch: int
    scratch_bytes: int
    """Bytes that `solve` may allocate from: a call gets `room` bytes, and may hold `quota` bytes at
    once."""

    @property
    def least_bytes(self) -> int:
        """Bytes of a layout in which `solve` can allocate nothing."""
        return self.scratch

    @property
    def wanted_bytes(self) -> int:
        """Bytes of a layout with the scratch memory that was asked for."""
        return self.scratch + self.scratch_bytes

    def within(self, size_bytes: int) -> "SlotLayout":
        """Return the layout for memory of `size_bytes`, with all remaining bytes as scratch. Raises
        MemoryFull.

        More scratch than was wanted has no cost: a call gets `room` bytes of it.
        """
        if self.least_bytes > size_bytes:
            detail = f"{self.least_bytes:,} bytes do not fit into {size_bytes:,}"
            raise MemoryFull("device memory", detail)
        room = size_bytes - self.scratch
        return replace(self, scratch_bytes=room // ALIGNMENT * ALIGNMENT)

    @property
    def copied_bytes(self) -> int:
        """Bytes of all slots, which the GPU host process reads."""
        return self.tags

    @property
    def offsets(self) -> Mapping[str, int]:
        """Offset in bytes of each buffer of slot 0, by name."""
        return {name: span.begin for name, span in self.spans.items()}

    @property
    def outputs(self) -> Mapping[str, int]:
        """Index among all buffers of each buffer that a call writes, by name."""
        return {
            name: index
            for index, (name, span) in enumerate(self.spans.items())
            if span.spec.is_output
        }

    def room(self, wanted_bytes: int) -> int:
        """Return the bytes that a call which wants to hold `wanted_bytes` gets, all overwritten
        before the call.

        A call that wants little gets far more, so that its allocations begin elsewhere each time.
        """
        return min(self.scratch_bytes, _room(max(SCRATCH_BYTES, wanted_bytes)))

    def quota(self, wanted_bytes: int) -> int:
        """Return the bytes that a call which wants `wanted_bytes` may hold at once."""
        room = self.room(wanted_bytes)
        return min(wanted_bytes, room - slack(room))


def _room(scratch_bytes: int) -> int:
    """Return the bytes of scratch in which `scratch_bytes` fit, at every address where they may
    begin."""
    more = min(scratch_bytes // _SCRATCH_PART, _MOST_SLACK_BYTES)
    return round_up(scratch_bytes + more, ALIGNMENT)


def slack(room_bytes: int) -> int:
    """Return the part of the room that lets allocations begin elsewhere each time."""
    part = min(room_bytes // (_SCRATCH_PART + 1), _MOST_SLACK_BYTES)
    return part // ALIGNMENT * ALIGNMENT


def lay_out(
    buffers: Sequence[BufferSpec],
    *,
    scratch_bytes: int,
    slots: int = 1,
    seals: bool = False,
) -> SlotLayout:
    """Lay out `slots` slots of `buffers`, with room for `solve` to hold `scratch_bytes`.

    Raises ValueError where two buffers share a name or there are too many.
    """
    if len(buffers) > MAX_REGIONS:
        raise ValueError(f"more than {MAX_REGIONS} buffers")
    if not 0 < slots <= MAX_STEPS:
        raise ValueError(f"{slots} slots; there can be {MAX_STEPS}")
    spans, cursor = _spans(buffers)
    sealed: dict[str, int] = {}
    if seals:
        for spec in buffers:
            if spec.is_filled:
                sealed[spec.name] = cursor
                cursor = round_up(cursor + spec.nbytes, ALIGNMENT)
    stride = round_up(cursor, GUARD_BYTES)
    tags = slots * stride
    scratch = round_up(tags + MAX_STEPS * MAX_REGIONS * _TAG_BYTES, GUARD_BYTES)
    return SlotLayout(
        spans=spans,
        sealed=sealed,
        slots=slots,
        stride=stride,
        tags=tags,
        scratch=scratch,
        scratch_bytes=_room(scratch_bytes),
    )


def _spans(buffers: Sequence[BufferSpec]) -> tuple[dict[str, BufferSpan], int]:
    spans: dict[str, BufferSpan] = {}
    cursor = 0
    for spec in buffers:
        if spec.name in spans:
            raise ValueError(f"two buffers are called {spec.name}")
        begin = cursor + GUARD_BYTES + spec.shift_bytes
        end = begin + spec.nbytes
        after = round_up(end + GUARD_BYTES, ALIGNMENT)
        spans[spec.name] = BufferSpan(spec=spec, before=cursor, begin=begin, end=end, after=after)
        cursor = after
    return spans, cursor


Grow = Callable[[Memory, SlotLayout], Memory]
"""Returns memory for a layout: larger, or the same where only scratch would be gained. Raises
MemoryFull."""


class SessionMemory:
    """The memory of a session and its present layout; a new layout replaces the previous layout."""

    def __init__(self, memory: Memory, grow: Grow) -> None:
        self.memory = memory
        self._grow = grow
        self._layout: SlotLayout | None = None

    @property
    def layout(self) -> SlotLayout:
        """Raises ValueError before anything was placed."""
        if self._layout is None:
            raise ValueError("nothing has been placed yet")
        return self._layout

    @property
    def copied_bytes(self) -> int:
        """Bytes that a runner copies in and out for each call; 0 where the runner shares device
        memory."""
        by_host = self.memory.shared_by is SharedBy.HOST
        return self.layout.copied_bytes if by_host else 0

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        """Lay out the buffers of the next calls in one slot. Buffers hold the previous contents of
        the memory, or random bytes."""
        self._set_layout(lay_out(buffers, scratch_bytes=SCRATCH_BYTES))
        return dict(self._slots()[0].buffers)

    def place_slots(
        self, buffers: Sequence[BufferSpec], count: int, scratch_bytes: int = SCRATCH_BYTES
    ) -> Slots:
        """Lay out `count` slots for timed calls, with room for `solve` to hold `scratch_bytes`."""
        self._set_layout(self.laid_out(buffers, count, scratch_bytes))
        return self._slots()

    def laid_out(
        self, buffers: Sequence[BufferSpec], count: int, scratch_bytes: int = SCRATCH_BYTES
    ) -> SlotLayout:
        """Return the layout that `place_slots` would make."""
        room = max(SCRATCH_BYTES, scratch_bytes)
        return lay_out(buffers, scratch_bytes=room, slots=count, seals=True)

    def fill_solve(self, solve: Solve, arguments: Sequence[Argument], options: CallOptions) -> None:
        """Fill in how to call `solve` in slot 0 of the present layout."""
        layout = self.layout
        put_arguments(solve, arguments, layout.offsets)
        solve.device_to_host = options.device_to_host
        solve.scratch_offset = layout.scratch
        solve.scratch_bytes = layout.room(options.scratch_bytes)
        solve.scratch_quota = layout.quota(options.scratch_bytes)
        solve.scratch_seed = secrets.randbits(63)
        solve.copied_bytes = self.copied_bytes

    def sealed(self, name: str) -> Array:
        """Return the bytes of an input's sealed contents, a row a slot."""
        begin = self.layout.sealed[name]
        return self._bytes(begin, begin + self.layout.spans[name].spec.nbytes)

    def output(self, name: str) -> Array:
        """Return the bytes of a buffer, a row a slot."""
        span = self.layout.spans[name]
        return self._bytes(span.begin, span.end)

    def sealed_columns(self) -> dict[str, SealedColumn]:
        """Return the sealed contents of each input, by its name."""
        return {
            name: SealedColumn(rows=self.sealed(name), index=index)
            for index, name in enumerate(self.layout.spans)
            if name in self.layout.sealed
        }

    def output_columns(self) -> dict[str, SealedColumn]:
        """Return the bytes of each output, by its name."""
        return {
            name: SealedColumn(rows=self.output(name), index=index)
            for name, index in self.layout.outputs.items()
        }

    def _set_layout(self, layout: SlotLayout) -> None:
        if layout.wanted_bytes > self.memory.size_bytes:
            self.memory = self._grow(self.memory, layout)
        self._layout = layout.within(self.memory.size_bytes)

    def _slots(self) -> Slots:
        spans = self.layout.spans
        return Slots(
            buffers={
                name: PlacedBuffer(
                    spec=span.spec,
                    data=self._column(span.begin, span.spec.dtype, span.spec.shape),
                    guard_before=self._bytes(span.before, span.begin),
                    guard_after=self._bytes(span.end, span.after),
                )
                for name, span in spans.items()
            },
            sealed={name: self.sealed(name) for name in self.layout.sealed},
            count=self.layout.slots,
        )

    def _bytes(self, begin: int, end: int) -> Array:
        return self._column(begin, "uint8", (end - begin,))

    def _column(self, begin: int, dtype: str, shape: tuple[int, ...]) -> Array:
        layout = self.layout
        return self.memory.column(begin, dtype, (layout.slots, *shape), layout.stride)
