"""A library's call through PyTorch, timed in the GPU host process as a candidate is in its runner.

The call is trusted, since it comes from the task's folder: tags of its outputs are not verified.
Slots, sealed inputs that are opened before each call, the flush of L2, tags, one graph for each
batch and the clock are those of `timed_session`.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cuda_llm.errors import NoMemory, TaskError, describe_error, lacks_memory
from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.tasks.library import Library, load_library
from cuda_llm.tasks.torch_module import import_torch
from cuda_llm.tools.cuda.layout import SessionMemory, SlotLayout
from cuda_llm.tools.cuda.memory import Memory
from cuda_llm.tools.cuda.step_kernels import StepKernels
from cuda_llm.tools.device import (
    SCRATCH_BYTES,
    Argument,
    Batch,
    CallOptions,
    CallReport,
    TimeClass,
)
from cuda_llm.tools.device.buffers import Array, BufferSpec, PlacedBuffer, Slots
from cuda_llm.tools.device.candidate import LibraryCall
from cuda_llm.tools.device.session import Scalar

OURS = TaskError | NoMemory
_WARM_UPS = 2
"""Calls before the first graph: libraries choose algorithms and allocate workspaces in them."""


def exact_torch() -> Any:
    """Return PyTorch, set to full precision and to choosing convolutions by trying.

    Raises MissingError without it.
    """
    torch = import_torch()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cudnn.benchmark = True
    return torch


class LibrarySession:
    """A `TimedSession` of a library's call. `close` it."""

    not_stepwise = "a library's call is trusted"

    def __init__(
        self,
        torch: Any,
        library: Library,
        library_call: LibraryCall,
        allocate: Callable[[int], Memory],
        kernels: StepKernels,
    ) -> None:
        """`allocate` gives device memory, `kernels` stand around each call."""
        self._torch = torch
        self._library = library
        self._names = library_call.arguments
        self._outputs = library_call.outputs
        self._allocate = allocate
        self._kernels = kernels
        self._arena: SessionMemory | None = None
        self._stream = torch.cuda.Stream()
        self._scalars: dict[str, int | float] = {}
        self._graph: Any = None
        self._results: list[tuple[int, Sequence[Any]]] = []
        """Slot and results of each call of the armed batch."""

    @property
    def arena(self) -> SessionMemory:
        """Raises ValueError before anything was placed."""
        if self._arena is None:
            raise ValueError("nothing has been placed yet")
        return self._arena

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        """Lay out the buffers of the next calls."""
        return self._placed().place(buffers)

    async def call(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | Verdict:
        """Call the library once on slot 0 and wait for the GPU. Launches are not logged."""
        self._keep_scalars(arguments)
        self.arena.memory.finish()
        started = time.monotonic()
        self._deliver(0, self._solve(0))
        self._torch.cuda.synchronize()
        return CallReport(wall_s=time.monotonic() - started, kernels=1)

    async def place_slots(
        self, buffers: Sequence[BufferSpec], count: int, *, scratch_bytes: int = SCRATCH_BYTES
    ) -> Slots:
        """Lay out `count` slots; the library allocates its scratch memory itself."""
        self._graph = None
        return self._placed().place_slots(buffers, count)

    async def capture(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> TimeClass | Verdict:
        """Warm up the library on slot 0; each batch is captured when it is armed.

        Every call of a batch first copies its inputs, so warm-ups may overwrite inputs.
        """
        self._keep_scalars(arguments)
        self.arena.memory.finish()
        for _ in range(_WARM_UPS):
            with self._torch.cuda.stream(self._stream):
                self._solve(0)
            self._torch.cuda.synchronize()
        return TimeClass.DEVICE

    def seal(
        self, slots: Sequence[int], keys: Sequence[bytes], contents: Mapping[str, Array]
    ) -> None:
        """Encrypt the inputs of `slots` into their sealed columns, each slot under its key."""
        for name, column in self.arena.sealed_columns().items():
            plain = self.arena.memory.arrays.xp.ascontiguousarray(contents[name])
            rows = plain.reshape(-1).view("uint8").reshape(len(slots), -1)
            self._kernels.sealing.seal(column, slots, rows, keys)

    async def arm(self, batch: Batch) -> Verdict | None:
        """Capture the batch as one graph and run the graph once.

        Raises NoMemory, and TaskError where a graph cannot hold the call.
        """
        if batch.keys:
            return InfraFailed(component="device", detail=self.not_stepwise)
        torch = self._torch
        self.arena.memory.finish()
        self._graph = torch.cuda.CUDAGraph()
        self._results = []
        try:
            with (
                torch.cuda.graph(self._graph, stream=self._stream),
                self._kernels.on_stream(self._stream.cuda_stream),
            ):
                self._capture_steps(batch)
        except Exception as error:
            # The error of the broken capture hides the call's own error.
            first = error.__context__
            raise self._fault(first if isinstance(first, OURS) else error) from error
        self._graph.replay()
        torch.cuda.synchronize()
        return None

    def _capture_steps(self, batch: Batch) -> None:
        """Put the chain of `native/runner/batch.cpp` onto the stream."""
        kernels = self._kernels
        inputs, outputs = self.arena.sealed_columns(), [*self.arena.output_columns().values()]
        sealed, opened = [*inputs.values()], [self.arena.output(name) for name in inputs]
        before: int | None = None
        for slot in batch.order:
            kernels.open(sealed, opened, slot, batch.key)
            if batch.flush:
                kernels.flush(slot)
            if before is not None:
                kernels.tag(outputs, before, batch.key)
            if batch.solve:
                self._results.append((slot, self._solve(slot)))
            before = slot
        if before is not None:
            kernels.tag(outputs, before, batch.key)

    async def go(self, limit_s: float) -> float | Verdict:
        """Run the armed batch and return its seconds by the host's clock. Raises ValueError without
        an armed batch."""
        if self._graph is None:
            raise ValueError("no batch is armed")
        self._torch.cuda.synchronize()
        started = time.perf_counter()
        self._graph.replay()
        self._torch.cuda.synchronize()
        taken_s = time.perf_counter() - started
        for slot, results in self._results:
            self._deliver(slot, results)
        self._torch.cuda.synchronize()
        return taken_s

    def find_late_write(self) -> str | None:
        """Return None: a library's call ends when its stream does."""
        return None

    def close(self) -> None:
        """Free the session's memory."""
        self._graph = None
        self._results = []
        if self._arena is not None:
            self._arena.memory.close()
            self._arena = None
        self._torch.cuda.empty_cache()

    def _placed(self) -> SessionMemory:
        if self._arena is None:
            self._arena = SessionMemory(self._allocate(1 << 21), self._grow)
        return self._arena

    def _grow(self, memory: Memory, layout: SlotLayout) -> Memory:
        if layout.least_bytes <= memory.size_bytes:
            return memory
        memory.close()
        return self._allocate(layout.least_bytes)

    def _keep_scalars(self, arguments: Sequence[Argument]) -> None:
        pairs = zip(self._names, arguments, strict=True)
        self._scalars = {name: one.value for name, one in pairs if isinstance(one, Scalar)}

    def _solve(self, slot: int) -> Sequence[Any]:
        layout = self.arena.layout
        values: dict[str, Any] = dict(self._scalars)
        for name, span in layout.spans.items():
            if name in self._library.wanted:
                values[name] = self._tensor(span.begin, span.spec, slot)
        wanted = {one: values[one] for one in self._library.wanted}
        try:
            with self._torch.no_grad():
                return self._library.call(self._torch, **wanted) or ()
        except Exception as error:
            raise self._fault(error) from error

    def _fault(self, error: BaseException) -> TaskError | NoMemory:
        """Return what to raise where the call failed."""
        if isinstance(error, OURS):
            return error
        detail = f"{self._library.name}: {describe_error(error)}"
        return NoMemory("device memory", detail) if lacks_memory(error) else TaskError(detail)

    def _deliver(self, slot: int, results: Sequence[Any]) -> None:
        """Copy the results of a call to the outputs."""
        spans = self.arena.layout.spans
        for name, result in zip(self._outputs, results, strict=False):
            wanted = self._tensor(spans[name].begin, spans[name].spec, slot)
            wanted.copy_(result.reshape(wanted.shape))

    def _tensor(self, begin: int, spec: BufferSpec, slot: int) -> Any:
        layout, memory = self.arena.layout, self.arena.memory
        # PyTorch takes CuPy's arrays of unsigned words in none of its older versions.
        words = spec.dtype.replace("uint16", "int16") if spec.element else spec.dtype
        column = memory.column(begin, words, (layout.slots, *spec.shape), layout.stride)
        kind = getattr(self._torch, spec.element_type.name)
        return self._torch.as_tensor(column[slot], device="cuda").view(kind)


@contextmanager
def library_session(
    library: LibraryCall,
    allocate: Callable[[int], Memory],
    kernels: StepKernels,
) -> Iterator[tuple[str, LibrarySession]]:
    """Open a session of the call, with its name. Raises TaskError and MissingError."""
    loaded, torch = load_library(library.file, library.arguments), exact_torch()
    session = LibrarySession(torch, loaded, library, allocate, kernels)
    try:
        yield loaded.name, session
    finally:
        session.close()
