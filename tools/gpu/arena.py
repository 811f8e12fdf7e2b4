"""The memory of one session: buffers as arrays, slots, and what is sealed beside them."""

from collections.abc import Callable, Sequence

from cuda_llm.tools.arrays import Array
from cuda_llm.tools.buffers import BufferSpec, PlacedBuffer, Slots
from cuda_llm.tools.device import SCRATCH_BYTES
from cuda_llm.tools.gpu.layout import Layout, lay_out
from cuda_llm.tools.gpu.memory import Memory

Grow = Callable[[Memory, Layout], Memory]
"""Memory for a layout: other, or the same where all there is to gain is room for `solve`. Raises
ArenaFull."""


class Arena:
    """What lies where at present. A new layout takes the place of the one before."""

    def __init__(self, memory: Memory, grow: Grow) -> None:
        self.memory = memory
        self._grow = grow
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
        return dict(self._slots()[0].buffers)

    def place_slots(
        self, buffers: Sequence[BufferSpec], count: int, scratch_bytes: int = SCRATCH_BYTES
    ) -> Slots:
        """See `TimedSession.place_slots`."""
        self._lay(self.laid_out(buffers, count, scratch_bytes))
        return self._slots()

    def laid_out(
        self, buffers: Sequence[BufferSpec], count: int, scratch_bytes: int = SCRATCH_BYTES
    ) -> Layout:
        """What `place_slots` would lay out."""
        room = max(SCRATCH_BYTES, scratch_bytes)
        return lay_out(buffers, scratch_bytes=room, slots=count, seals=True)

    def sealed(self, name: str) -> Array:
        """The bytes of an input's sealed contents, a row a slot."""
        begin = self.layout.sealed[name]
        return self._bytes(begin, begin + self.layout.spans[name].spec.nbytes)

    def output(self, name: str) -> Array:
        """The bytes of a buffer, a row a slot."""
        span = self.layout.spans[name]
        return self._bytes(span.begin, span.end)

    def _lay(self, layout: Layout) -> None:
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
