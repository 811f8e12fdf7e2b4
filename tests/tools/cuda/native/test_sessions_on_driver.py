"""The real runner, confined and in its namespaces, over a fake driver: sessions from end to end."""

import asyncio
import secrets
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace

import numpy as np
import pytest
from gpu_runner import Parts

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.cuda.memory import HostMemory, L2Flush, MemoryPool
from cuda_llm.tools.cuda.protocol import SharedBy
from cuda_llm.tools.cuda.runner import Namespaces, RunnerLaunch, start_gpu_runner
from cuda_llm.tools.cuda.sealing import HostSealing
from cuda_llm.tools.cuda.session_resources import RunnerPool
from cuda_llm.tools.cuda.sessions import Sessions
from cuda_llm.tools.cuda.site import find_confinement
from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.device import Argument, Batch, CallOptions, CallReport, Level, Scalar, TimeClass
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.validator.check_case import ran_a_kernel

COUNT = 100
TWICE, COPIES_THEN_KERNEL, COPY_ALONE = 0, 17, 18
BUFFERS = [
    BufferSpec(name="a", role=Role.IN, dtype="float32", shape=(COUNT,)),
    BufferSpec(name="b", role=Role.OUT, dtype="float32", shape=(COUNT,)),
]
ARGUMENTS: list[Argument] = [
    *("a", "b"),
    *(Scalar(value=value, ctype="int") for value in (COUNT, TWICE)),
]


class ByPath(HostMemory):
    """What the fake driver opens as CUDA IPC: a path."""

    shared_by = SharedBy.IPC

    def __init__(self, path: str) -> None:
        super().__init__(1 << 20)
        self.handle = path.encode().ljust(64, b"\0")


@pytest.fixture
def launch(plain: Parts) -> RunnerLaunch:
    """The real runner, given the fake driver."""
    return RunnerLaunch(
        program=plain.program,
        shim=plain.shim,
        seal=plain.cubin,
        device="0",
        sm_count=1,
        driver_folder=plain.environment["LD_LIBRARY_PATH"],
    )


@pytest.fixture
def compiled(plain: Parts) -> Compiled:
    """The candidate, as if nvcc had made it."""
    library = plain.candidate
    return Compiled(
        key="", name="", source="", target="sm_86", library=library, ptx=library, kernels=()
    )


def test_memory_is_shared_in_as_many_namespaces_as_there_are(launch: RunnerLaunch) -> None:
    with tempfile.NamedTemporaryFile(dir="/tmp") as file:
        file.truncate(1 << 20)
        memory = ByPath(file.name)
        way, isolation = asyncio.run(find_confinement(launch, lambda: memory, 1 << 20))
        memory.close()

    assert isolation.shared_by is SharedBy.IPC
    assert isolation.spaces in {Namespaces.ALL, Namespaces.NONE}
    assert (way.host_bytes, way.spaces) == (0, Namespaces.ALL)


def test_where_memory_cannot_be_shared_at_all_it_passes_through_the_host(
    launch: RunnerLaunch,
) -> None:
    memory = ByPath("/no/such/file")
    way, isolation = asyncio.run(find_confinement(launch, lambda: memory, 1 << 20))
    memory.close()

    assert isolation.shared_by is SharedBy.HOST
    assert way.host_bytes == 1 << 20


def within(
    launch: RunnerLaunch, compiled: Compiled, use: Callable[[GpuTimedSession], Awaitable[None]]
) -> None:
    """Use one session."""
    way = replace(launch, host_bytes=256 << 20)

    async def run() -> None:
        sessions = Sessions(
            hardware=find_hardware("RTX 3090 Ti"),
            pool=RunnerPool(lambda: start_gpu_runner(way), count=1),
            memory_pool=MemoryPool(lambda _: None),
            sealing=HostSealing(),
            flush=L2Flush(size_bytes=1 << 20),
        )
        try:
            async with sessions.open(compiled) as session:
                assert isinstance(session, GpuTimedSession), session
                await use(session)
        finally:
            await sessions.close()

    asyncio.run(run())


def test_a_session_from_end_to_end(launch: RunnerLaunch, compiled: Compiled) -> None:
    async def use(session: GpuTimedSession) -> None:
        await check_call(session)
        await check_batch(session)

    within(launch, compiled, use)


def test_whether_there_was_a_kernel_is_told_however_many_copies_there_were(
    launch: RunnerLaunch, compiled: Compiled
) -> None:
    async def use(session: GpuTimedSession) -> None:
        session.place(BUFFERS)
        for way, kernel in ((COPIES_THEN_KERNEL, True), (COPY_ALONE, False)):
            arguments = [*ARGUMENTS[:-1], Scalar(value=way, ctype="int")]
            report = await session.call(arguments, CallOptions(level=Level.FULL))
            assert isinstance(report, CallReport), report
            assert report.launches
            assert report.kernels == kernel
            assert ran_a_kernel(report) is kernel

    within(launch, compiled, use)


async def check_call(session: GpuTimedSession) -> None:
    placed = session.place(BUFFERS)
    placed["a"].data[...] = np.arange(COUNT)
    report = await session.call(ARGUMENTS, CallOptions())
    assert isinstance(report, CallReport), report
    assert report.kernels == 1
    assert (placed["b"].data == 2 * np.arange(COUNT)).all()


async def check_batch(session: GpuTimedSession) -> None:
    slots = await session.place_slots(BUFFERS, 3)
    for slot in slots:
        slot.buffers["a"].data[...] = 0
    assert await session.capture(ARGUMENTS, CallOptions()) is TimeClass.DEVICE
    batch = Batch(order=(2, 0), key=secrets.token_bytes(16), flush=False)
    fresh = {slot: np.random.default_rng(slot).random(COUNT, np.float32) for slot in batch.order}
    session.seal(batch.order, [batch.key] * len(batch.order), {"a": np.stack([*fresh.values()])})
    assert await session.arm(batch) is None
    assert isinstance(await session.go(10.0), float)
    for number, contents in fresh.items():
        assert (slots[number].buffers["b"].data == 2 * contents).all()
    assert session.find_late_write() is None
    slots[0].buffers["b"].data[3] += 1
    assert session.find_late_write() == "b"
