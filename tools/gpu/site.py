"""A real GPU, seen by the work that is carried out in its referee process."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.profile import TimeSource
from cuda_llm.tools.arrays import HOST, Arrays, on_gpu
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.gpu.arena import SCRATCH_BYTES, Arena
from cuda_llm.tools.gpu.arenas import Arenas
from cuda_llm.tools.gpu.isolation import GpuIsolation
from cuda_llm.tools.gpu.lodging import Lodging
from cuda_llm.tools.gpu.memory import UNIT_BYTES, DeviceMemory
from cuda_llm.tools.gpu.process import Launch, start
from cuda_llm.tools.gpu.program import runner_program, seal_cubin, shim_library
from cuda_llm.tools.gpu.protocol import SharedBy
from cuda_llm.tools.gpu.sealing import GpuSealing, HostSealing, Sealing
from cuda_llm.tools.gpu.session import Reached, Wiring
from cuda_llm.tools.gpu.spares import Spares
from cuda_llm.tools.gpu.timed import GpuTimedSession
from cuda_llm.tools.gpu.ways import find_way

FLUSH_SHARE = 2
"""Times what L2 holds is written to flush it."""
OPENING_BYTES = SCRATCH_BYTES + (448 << 20)
"""Of a new session: most buffers fit beside what `solve` may allocate."""
_MOST_OPENING_PART = 8
_KEPT_FREE_BYTES = 512 << 20
"""Of device memory, for the referee's own work."""


class GpuSite:
    """A `Site`. Enter it, in the process that is to hold the GPU; leaving it ends every runner."""

    time_source: TimeSource = "measured"

    def __init__(self, hardware: Hardware, uuid: str, name: str) -> None:
        """`hardware` describes the GPU with this uuid: the only one that this process sees."""
        self.hardware = hardware
        self.uuid = uuid
        self.name = name
        self.arrays: Arrays = HOST
        self.isolation: GpuIsolation | None = None
        """What runners are kept from; known once entered."""
        self.opened_s = 0.0
        """What the last session took from asking for it to having its candidate loaded."""
        self._device_arrays: Arrays | None = None
        self._spares: Spares | None = None
        self._arenas = Arenas(self._allocate)
        self._sealing: Sealing = HostSealing()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know before believing a verdict: what is not confined."""
        return self.isolation.missing if self.isolation is not None else ()

    async def __aenter__(self) -> "GpuSite":
        """Raises MissingError, and InfrastructureError where no runner comes up."""
        self._device_arrays = on_gpu()
        launch = Launch(
            program=runner_program(),
            shim=shim_library(),
            seal=seal_cubin(self.hardware.target),
            device=self.uuid,
            sm_count=self.hardware.sm_count,
            driver_folder=_driver_folder(),
        )
        trial = DeviceMemory(self._device_arrays, UNIT_BYTES)
        try:
            host_bytes = self.hardware.memory_bytes // _MOST_OPENING_PART
            launch, self.isolation = await find_way(launch, lambda: trial, host_bytes)
        finally:
            trial.close()
        if self.isolation.shared_by is SharedBy.IPC:
            self.arrays = self._device_arrays
            self._sealing = GpuSealing(self._device_arrays, launch.seal)
        self._spares = Spares(lambda: start(launch))
        self._spares.refill()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all runners and free all memory."""
        try:
            if self._spares is not None:
                await self._spares.close()
        finally:
            self._arenas.close()

    @asynccontextmanager
    async def open(self, candidate: Compiled) -> AsyncIterator[GpuTimedSession | Verdict]:
        """See `Site.open`. Raises DeviceLost where a runner cannot be ended."""
        assert self._spares is not None, "enter the site first"
        started = time.monotonic()
        lodging = Lodging(candidate.library, self._spares, self._arenas)
        try:
            wanted = min(OPENING_BYTES, self.hardware.memory_bytes // _MOST_OPENING_PART)
            reached = await lodging.enter(wanted)
            self.opened_s = time.monotonic() - started
            if not isinstance(reached, Reached):
                yield reached
                return
            flush_bytes = FLUSH_SHARE * self.hardware.l2_bytes
            wiring = Wiring(
                candidate=candidate,
                hardware=self.hardware,
                sealing=self._sealing,
                reach=lodging.reach,
                settle=self._spares.settle,
                notes=self.notes,
            )
            arena = Arena(reached.memory, lodging.grow, flush_bytes=flush_bytes)
            yield GpuTimedSession(wiring, reached, arena)
        finally:
            await lodging.leave()

    def _allocate(self, size_bytes: int) -> DeviceMemory | None:
        """Device memory, unless too little would be left."""
        assert self._device_arrays is not None
        cupy: Any = self._device_arrays.xp
        runtime = cupy.cuda.runtime
        if runtime.memGetInfo()[0] < size_bytes + _KEPT_FREE_BYTES:
            cupy.get_default_memory_pool().free_all_blocks()
            if runtime.memGetInfo()[0] < size_bytes + _KEPT_FREE_BYTES:
                return None
        try:
            return DeviceMemory(self._device_arrays, size_bytes)
        except runtime.CUDARuntimeError:
            return None


def _driver_folder() -> str:
    """Where this process has the driver from: a runner inherits no search path."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if "libcuda.so" in path.rpartition("/")[2]:
            return "/" + path.rpartition("/")[0]
    return ""
