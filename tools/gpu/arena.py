"""The memory of one session: buffers as arrays, slots, and what is sealed beside them."""

from collections.abc import Callable, Sequence

from cuda_llm.tools.arrays import Array
from cuda_llm.tools.device import BufferSpec, PlacedBuffer, Slot
from cuda_llm.tools.gpu.layout import Layout, lay_out
from cuda_llm.tools.gpu.memory import Memory

SCRATCH_BYTES = 1 << 30
"""Kept for what `solve` itself allocates."""

Grow = Callable[[Memory, Layout], Memory]
"""Memory for a layout: other, or the same where all there is to gain is room for `solve`. Raises
ArenaFull."""


class Arena:
    """What lies where at present. A new layout takes the place of the one before."""

    def __init__(self, memory: Memory, grow: Grow, *, flush_bytes: int) -> None:
        self.memory = memory
        self._grow = grow
        self._flush_bytes = flush_bytes
        self._layout: Layout | None = None

    @property
    def layout(self) -> Layout:
        """Raises ValueError before anything was placed."""
        if self._layout is None:
            raise ValueError("nothing has been placed yet")
        return self._layout

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        """See `Session.place`. Buffers hold what lay there before, or random bytes."""
        self._lay(lay_out(buffers, scratch_bytes=SCRATCH_BYTES))
        return self._placed(0)

    def place_slots(self, buffers: Sequence[BufferSpec], count: int) -> tuple[Slot, ...]:
        """See `TimedSession.place_slots`."""
        self._lay(
            lay_out(
                buffers,
                scratch_bytes=SCRATCH_BYTES,
                slots=count,
                seals=True,
                flush_bytes=self._flush_bytes,
            )
        )
        return tuple(
            Slot(
                buffers=self._placed(slot),
                sealed={name: self.sealed(name, slot) for name in self.layout.sealed},
            )
            for slot in range(count)
        )

    def sealed(self, name: str, slot: int) -> Array:
        """The bytes of an input's sealed contents."""
        begin = slot * self.layout.stride + self.layout.sealed[name]
        return self.memory.view(begin, begin + self.layout.spans[name].spec.nbytes)

    def output(self, name: str, slot: int) -> Array:
        """The bytes of a buffer in a slot."""
        span, base = self.layout.spans[name], slot * self.layout.stride
        return self.memory.view(base + span.begin, base + span.end)

    def _lay(self, layout: Layout) -> None:
        if layout.wanted_bytes > self.memory.size_bytes:
            self.memory = self._grow(self.memory, layout)
        self._layout = layout.within(self.memory.size_bytes)

    def _placed(self, slot: int) -> dict[str, PlacedBuffer]:
        base, view = slot * self.layout.stride, self.memory.view
        return {
            name: PlacedBuffer(
                spec=span.spec,
                data=view(base + span.begin, base + span.end)
                .view(span.spec.dtype)
                .reshape(span.spec.shape),
                guard_before=view(base + span.before, base + span.begin),
                guard_after=view(base + span.end, base + span.after),
            )
            for name, span in self.layout.spans.items()
        }
