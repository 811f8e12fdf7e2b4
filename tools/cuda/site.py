"""A real GPU as a site in its host process, and the self-test of its runners' isolation."""

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from cuda_llm.capabilities import Capabilities
from cuda_llm.errors import InfrastructureError
from cuda_llm.failures import PolicyViolation
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.tools.cuda.arrays import FLUSHED, keeps_subnormals, on_gpu
from cuda_llm.tools.cuda.build import attempts_library, runner_program, seal_cubin, shim_library
from cuda_llm.tools.cuda.isolation import GpuIsolation, find_confinement
from cuda_llm.tools.cuda.memory import (
    UNIT_BYTES,
    DeviceMemory,
    L2Flush,
    MemoryPool,
    flush_bytes,
    shared_flush,
)
from cuda_llm.tools.cuda.nvml import clock_reader
from cuda_llm.tools.cuda.protocol import SharedBy
from cuda_llm.tools.cuda.runner import RunnerLaunch, start_gpu_runner
from cuda_llm.tools.cuda.sealing import GpuSealing, HostSealing, Sealing
from cuda_llm.tools.cuda.session_resources import RunnerPool
from cuda_llm.tools.cuda.sessions import MOST_FREE_PART, MOST_OPENING_PART, Sessions
from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.device import CallOptions, CallReport, ClockReading, Scalar
from cuda_llm.tools.device.buffers import HOST, Arrays, BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled

GPU_CAPABILITIES = Capabilities(
    measures_time=True,
    bench_sizes=True,
    duels=True,
    sets_l2=True,
    sanitizers=True,
    counters=True,
    confines=True,
)
"""Of a real GPU."""
_KEPT_FREE_BYTES = 512 << 20
"""Of device memory, for the own work of the GPU host process."""


class GpuSite:
    """A `Site`. Enter it in the GPU host process; leaving it ends every runner."""

    capabilities = GPU_CAPABILITIES

    def __init__(self, hardware: Hardware, uuid: str, name: str) -> None:
        """`hardware` describes the GPU with this uuid: the only one that this process sees."""
        self.hardware = hardware
        self.uuid = uuid
        self.name = name
        self.arrays: Arrays = HOST
        self.isolation: GpuIsolation | None = None
        """Of its runners; known once entered."""
        self._sessions: Sessions | None = None
        self._shortcomings: tuple[str, ...] = ()
        self._read_clocks: Callable[[], ClockReading | None] | None = None
        self._held = ExitStack()
        """What is given back when every runner has ended."""

    @property
    def sessions(self) -> Sessions:
        """Raises ValueError before the site is entered."""
        if self._sessions is None:
            raise ValueError("the site has not been entered")
        return self._sessions

    @property
    def notes(self) -> tuple[str, ...]:
        """What makes verdicts here less reliable, for a person: what is not confined."""
        missing = self.isolation.missing if self.isolation is not None else ()
        return (*missing, *self._shortcomings)

    @property
    def confined(self) -> str:
        """See `Site.confined`; what is missing follows."""
        if self.isolation is None:
            return ""
        return "; ".join((self.isolation.summary, *self.notes))

    def read_clocks(self) -> ClockReading | None:
        """See `Site.read_clocks`: NVML is first asked when it is first needed."""
        if self._read_clocks is None:
            self._read_clocks = clock_reader(_pci_bus_id)
        return self._read_clocks()

    def open(self, candidate: Compiled) -> AbstractAsyncContextManager[GpuTimedSession | Verdict]:
        """See `Site.open`. Raises DeviceLost where a runner cannot be ended."""
        return self.sessions.open(candidate)

    def keep(self, candidate: Compiled) -> AbstractAsyncContextManager[GpuTimedSession | Verdict]:
        """See `Site.keep`. Raises DeviceLost where a runner cannot be ended."""
        return self.sessions.keep(candidate)

    async def __aenter__(self) -> "GpuSite":
        """Raises MissingError, and InfrastructureError where no runner comes up."""
        device_arrays = on_gpu()
        launch = launch_of(self.hardware, self.uuid)
        trial = DeviceMemory(device_arrays, UNIT_BYTES)
        try:
            host_bytes = self.hardware.memory_bytes // MOST_OPENING_PART
            confined, self.isolation = await find_confinement(launch, lambda: trial, host_bytes)
        finally:
            trial.close()
        sealing: Sealing = HostSealing()
        flush = L2Flush(size_bytes=flush_bytes(self.hardware.l2_bytes))
        if self.isolation.shared_by is SharedBy.IPC:
            self.arrays = device_arrays
            sealing = GpuSealing(device_arrays, launch.seal)
            flush = self._held.enter_context(shared_flush(device_arrays, self.hardware.l2_bytes))
        if not keeps_subnormals(self.arrays.xp):
            self._shortcomings = (FLUSHED,)
        self._sessions = Sessions(
            hardware=self.hardware,
            pool=RunnerPool(lambda: start_gpu_runner(confined)),
            memory_pool=MemoryPool(
                lambda size_bytes: allocate(device_arrays, size_bytes),
                most_free_bytes=self.hardware.memory_bytes // MOST_FREE_PART,
            ),
            sealing=sealing,
            flush=flush,
            notes=self.notes,
        )
        self._sessions.pool.refill()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._held:
            if self._sessions is not None:
                await self._sessions.close()


def allocate(arrays: Arrays, size_bytes: int) -> DeviceMemory | None:
    """Allocate device memory; None where too little would be left. `arrays` are CuPy's."""
    cupy: Any = arrays.xp
    runtime = cupy.cuda.runtime
    if runtime.memGetInfo()[0] < size_bytes + _KEPT_FREE_BYTES:
        cupy.get_default_memory_pool().free_all_blocks()
        if runtime.memGetInfo()[0] < size_bytes + _KEPT_FREE_BYTES:
            return None
    try:
        return DeviceMemory(arrays, size_bytes)
    except runtime.CUDARuntimeError:
        return None


def launch_of(hardware: Hardware, uuid: str) -> RunnerLaunch:
    """Return how runners of a GPU are started where nothing is restricted.

    For a process that has loaded the driver. Raises MissingError without g++ or nvcc.
    """
    return RunnerLaunch(
        program=runner_program(),
        shim=shim_library(),
        seal=seal_cubin(hardware.target),
        device=uuid,
        sm_count=hardware.sm_count,
        driver_folder=_driver_folder(),
    )


def _pci_bus_id() -> str:
    """Return the address of the one GPU that this process sees. Raises what CuPy raises."""
    import cupy

    return str(cupy.cuda.Device().pci_bus_id)


def _driver_folder() -> str:
    """Return where this process has the driver from: a runner inherits no search path."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if "libcuda.so" in path.rpartition("/")[2]:
            return "/" + path.rpartition("/")[0]
    return ""


ATTEMPTS = (
    *("nothing", "reading a file", "opening a device that is no GPU", "making a file"),
    *("making a socket", "forking", "signalling its host process", "running a program", "tracing"),
)
"""By their numbers in `native/attempts.cu`."""
_COULD, _COULD_NOT = 1, 2
_OUT = BufferSpec(name="out", role=Role.OUT, dtype="int32", shape=(1,))


async def self_test(site: GpuSite) -> GpuIsolation:
    """Try what the runners of an entered site are isolated from, on the path of candidates.

    Raises InfrastructureError where not even a kernel runs, MissingError without nvcc.
    """
    if site.isolation is None:
        raise ValueError("the site has not been entered")
    library = attempts_library(site.hardware.target)
    attempts = Compiled(
        key=str(library.parent.name),
        name="attempts.cu",
        source="",
        target=site.hardware.target,
        library=library,
        ptx=library,
        kernels=(),
    )
    managed = []
    for number, name in enumerate(ATTEMPTS):
        outcome = await _try_attempt(site.sessions, site.arrays, attempts, number)
        if number == 0 and outcome != _COULD:
            raise InfrastructureError("sandbox", f"no kernel runs in it: {outcome}")
        if number > 0 and outcome == _COULD:
            managed.append(name)
    return replace(site.isolation, attempts=tuple(managed))


async def _try_attempt(
    sessions: Sessions, arrays: Arrays, attempts: Compiled, number: int
) -> int | Verdict:
    """Return what the GPU wrote, or the verdict. Raises InfrastructureError for any other end."""
    async with sessions.open(attempts) as session:
        if not isinstance(session, GpuTimedSession):
            raise InfrastructureError("sandbox", f"its self-test does not load: {session}")
        out = session.place([_OUT])["out"].data
        out.fill(0)
        scalars = [Scalar(value=value, ctype="int") for value in (number, os.getpid())]
        report = await session.call(["out", *scalars], CallOptions())
        if isinstance(report, CallReport):
            return int(arrays.number(out[0]))
        if number > 0 and not isinstance(report, PolicyViolation):
            raise InfrastructureError("sandbox", f"{ATTEMPTS[number]} ended otherwise: {report}")
        return report
