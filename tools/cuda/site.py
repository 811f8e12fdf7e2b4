"""A real GPU as a site in its host process, its runners in as many namespaces as CUDA works in."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
)
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType

from cuda_llm.capabilities import Capabilities
from cuda_llm.errors import InfrastructureError, NoMemory
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tasks.torch_module import import_torch
from cuda_llm.tools.cuda.arrays import FLUSHED, keeps_subnormals, on_gpu
from cuda_llm.tools.cuda.build import runner_program, seal_cubin, shim_library
from cuda_llm.tools.cuda.free_memory import allocate, free_caches, share_room
from cuda_llm.tools.cuda.inspect import inspect
from cuda_llm.tools.cuda.isolation import GpuIsolation
from cuda_llm.tools.cuda.library_session import LibrarySession, library_session
from cuda_llm.tools.cuda.memory import (
    UNIT_BYTES,
    DeviceMemory,
    L2Flush,
    Memory,
    MemoryPool,
    flush_bytes,
    shared_flush,
)
from cuda_llm.tools.cuda.nvml import clock_reader
from cuda_llm.tools.cuda.protocol import GpuStartFrame, SharedBy
from cuda_llm.tools.cuda.runner import (
    WARM_LIMIT_S,
    GpuRunner,
    Namespaces,
    RunnerLaunch,
    start_gpu_runner,
)
from cuda_llm.tools.cuda.sealing import GpuSealing, HostSealing, Sealing
from cuda_llm.tools.cuda.session_resources import RunnerPool
from cuda_llm.tools.cuda.sessions import MOST_FREE_PART, Sessions
from cuda_llm.tools.cuda.step_kernels import StepKernels
from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.cuda.verdicts import failed_to_start
from cuda_llm.tools.device import MOST_OPENING_PART, ClockReading
from cuda_llm.tools.device.buffers import HOST, Arrays
from cuda_llm.tools.device.candidate import Baseline, Compiled, LibraryCall
from cuda_llm.tools.device.inspection import Inspection, InspectionOptions
from cuda_llm.tools.device.protocol import ReplyFrame, RunnerReply
from cuda_llm.tools.sandbox.isolation import landlock_abi

GPU_CAPABILITIES = Capabilities(
    measures_time=True,
    bench_sizes=True,
    duels=True,
    sets_l2=True,
    sanitizers=True,
    counters=True,
    confines=True,
)
"""Capabilities of every real GPU."""

_SPACES = (Namespaces.ALL, Namespaces.NETWORK | Namespaces.IPC, Namespaces.NONE)
_START_LIMIT_S = 10.0


class GpuSite:
    """A `Site`. Enter it in the GPU host process; leaving it ends every runner."""

    capabilities = GPU_CAPABILITIES

    def __init__(self, hardware: Hardware, uuid: str, name: str) -> None:
        """`hardware` describes the GPU with this UUID, the only GPU that this process sees."""
        self.hardware = hardware
        self.uuid = uuid
        self.name = name
        self.arrays: Arrays = HOST
        self.shares: dict[str, float] = {}
        self.isolation: GpuIsolation | None = None
        """Isolation of the site's runners; None before the site is entered."""
        self._sessions: Sessions | None = None
        self._shortcomings: tuple[str, ...] = ()
        self._read_clocks: Callable[[], ClockReading | None] | None = None
        self._held = ExitStack()
        """Resources that are given back when every runner has ended."""

    @property
    def sessions(self) -> Sessions:
        """Sessions on the GPU. Raises ValueError before the site is entered."""
        if self._sessions is None:
            raise ValueError("the site has not been entered")
        return self._sessions

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for a person: confinement that is missing and makes verdicts less reliable."""
        missing = self.isolation.missing if self.isolation is not None else ()
        return (*missing, *self._shortcomings)

    @property
    def confined(self) -> str:
        """Protections of the runners in one line, followed by the missing protections."""
        if self.isolation is None:
            return ""
        return "; ".join((self.isolation.summary, *self.notes))

    def read_clocks(self) -> ClockReading | None:
        """Return the GPU's clocks, temperature and power by NVML, which is opened at the first
        call."""
        if self._read_clocks is None:
            self._read_clocks = clock_reader(_pci_bus_id)
        return self._read_clocks()

    def open(
        self, candidate: Baseline
    ) -> AbstractAsyncContextManager[GpuTimedSession | LibrarySession | Verdict]:
        """Load the candidate in a fresh runner, or a library's call in this process. Raises
        DeviceLost where a runner cannot be ended."""
        if not isinstance(candidate, Compiled):
            return self._open_call(candidate)
        return self.sessions.open(candidate)

    def open_cached(
        self, candidate: Baseline
    ) -> AbstractAsyncContextManager[GpuTimedSession | LibrarySession | Verdict]:
        """Load a baseline in the runner that is cached between uses. Raises DeviceLost where a
        runner cannot be ended."""
        if not isinstance(candidate, Compiled):
            return self._open_call(candidate)
        return self.sessions.open_cached(candidate)

    def retire_cached(self) -> None:
        """Stop using the baseline's cached runner and its memory."""
        self.sessions.retire_cached()

    async def release_unused(self) -> None:
        """Give unused memory of runners, pools and libraries back to the device. Raises DeviceLost
        where a runner cannot be ended."""
        await self.sessions.release_unused()
        gc.collect()  # What an exception of before still holds.
        if self.arrays is not HOST:
            free_caches(self.arrays)

    async def inspect(
        self,
        task: Task,
        compiled: Compiled,
        dims: Mapping[str, int],
        options: InspectionOptions,
    ) -> Inspection:
        """See `InspectingSite.inspect`. The tools run in processes of their own and need the memory
        that this process keeps for later sessions. Raises MissingError without nvcc, g++ or a
        writable cache."""
        return await inspect(task, compiled, dims, options)

    @asynccontextmanager
    async def open_library(self, library: LibraryCall) -> AsyncIterator[tuple[str, LibrarySession]]:
        """Open a session of a library's call in this process, with the call's name.

        Raises TaskError where its file is broken, MissingError without PyTorch.
        """
        # Takes a minute from a cold disk, during which this process has to send heartbeats.
        await asyncio.to_thread(import_torch)
        with library_session(library, self._allocate_own, self._step_kernels) as opened:
            yield opened

    @cached_property
    def _step_kernels(self) -> StepKernels:
        """The kernels around timed calls, shared by all sessions: the address of the flushed memory
        changes the time of a step."""
        seal, flushed = seal_cubin(self.hardware.target), flush_bytes(self.hardware.l2_bytes)
        return StepKernels(on_gpu(), seal, self.hardware.sm_count, flushed)

    @asynccontextmanager
    async def _open_call(self, call: LibraryCall) -> AsyncIterator[LibrarySession]:
        async with self.open_library(call) as (_, session):
            yield session

    def _allocate_own(self, size_bytes: int) -> Memory:
        arrays = on_gpu()
        memory = allocate(arrays, size_bytes)
        if memory is None:
            self.sessions.memory_pool.close()
            memory = allocate(arrays, size_bytes)
        if memory is None:
            raise NoMemory("device memory", f"{size_bytes:,} bytes cannot be allocated")
        return memory

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
        memory_pool = MemoryPool(
            lambda size_bytes: allocate(device_arrays, size_bytes),
            most_free_bytes=self.hardware.memory_bytes // MOST_FREE_PART,
        )
        self._held.callback(share_room(device_arrays, memory_pool))
        self._sessions = Sessions(
            hardware=self.hardware,
            pool=RunnerPool(lambda: start_gpu_runner(confined)),
            memory_pool=memory_pool,
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


async def find_confinement(
    launch: RunnerLaunch, allocate: Callable[[], Memory], host_bytes: int
) -> tuple[RunnerLaunch, GpuIsolation]:
    """Find how to start runners: in as many namespaces as CUDA bears, with CUDA IPC if possible.

    `allocate` gives device memory to try with, `host_bytes` is what is shared where that fails.
    Raises InfrastructureError where no runner comes up at all.
    """
    failures = []
    for launched in _launches(launch, host_bytes):
        runner = start_gpu_runner(launched)
        try:
            failure = await _trial_failure(runner, launched, allocate)
            if failure is None:
                shared_by = SharedBy.HOST if launched.host_bytes else SharedBy.IPC
                isolation = GpuIsolation(
                    shared_by=shared_by, spaces=runner.spaces, landlock_abi=landlock_abi()
                )
                return launched, isolation
            failures.append(failure)
        finally:
            await runner.stop()
    raise type(failures[-1])("runner", f"none comes up: {failures[-1].detail}")


def _launches(launch: RunnerLaunch, host_bytes: int) -> Iterator[RunnerLaunch]:
    for shared in (0, host_bytes):
        for spaces in _SPACES:
            yield replace(launch, spaces=spaces, host_bytes=shared)


async def _trial_failure(
    runner: GpuRunner, launch: RunnerLaunch, allocate: Callable[[], Memory]
) -> InfrastructureError | None:
    """Return why a runner does not start, or None.

    The runner is given a file to load that is no candidate: where it replies that, all earlier
    steps have worked.
    """
    outcome = await runner.warm_up(WARM_LIMIT_S)
    if not isinstance(outcome, ReplyFrame):
        return failed_to_start(outcome)
    memory = runner.memory if runner.memory is not None else allocate()
    frame = GpuStartFrame(arena_bytes=memory.size_bytes, shared_by=memory.shared_by)
    frame.handle[:] = memory.handle
    frame.candidate = str(launch.seal).encode()
    outcome = await runner.order(frame, _START_LIMIT_S)
    if isinstance(outcome, ReplyFrame) and outcome.reply == RunnerReply.REFUSED:
        return None
    return failed_to_start(outcome)


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
    """Return the PCI address of the only GPU that this process sees. Raises what CuPy raises."""
    import cupy

    return str(cupy.cuda.Device().pci_bus_id)


def _driver_folder() -> str:
    """Return where this process has the driver from: a runner inherits no search path."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if "libcuda.so" in path.rpartition("/")[2]:
            return "/" + path.rpartition("/")[0]
    return ""
