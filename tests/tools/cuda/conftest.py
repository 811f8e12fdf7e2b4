"""Runners and hosts without a GPU: a program that speaks their frames over host memory."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from host_works import PLAIN
from runner_room import Room, open_room

from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.profile import KernelResources
from cuda_llm.tools.cuda import protocol
from cuda_llm.tools.cuda.client import HostClient, HostTimeouts
from cuda_llm.tools.cuda.memory import L2Flush, MemoryPool
from cuda_llm.tools.cuda.runner import GpuRunner, Namespaces, RunnerLaunch, start_gpu_runner
from cuda_llm.tools.cuda.sealing import HostSealing
from cuda_llm.tools.cuda.session_resources import RunnerPool
from cuda_llm.tools.cuda.sessions import Sessions
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.native import build, cache_folder
from cuda_llm.tools.native.cache import pin_entry

FIXTURES = Path(__file__).parents[2] / "fixtures" / "gpu_runner"
TOOLS = Path(protocol.__file__).parent.parent
HOST_BYTES = 1 << 30
SUPPORT = Path(__file__).parents[2] / "support"

Use = Callable[[Callable[[Room], Awaitable[None]]], None]
Opened = Callable[..., AbstractAsyncContextManager[Sessions]]


@pytest.fixture(scope="session")
def obedient() -> Path:
    """The program that stands in for a runner."""
    headers = [TOOLS / "cuda/native", TOOLS / "device/native"]
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", *(f"-I{one}" for one in headers)]
    return build("obedient", [FIXTURES / "obedient.cpp"], flags, [FIXTURES, *headers])


@pytest.fixture
def hardware() -> Hardware:
    """A GPU with little L2, so that little is written to flush it."""
    return replace(find_hardware("RTX 3090 Ti"), l2_bytes=1 << 20)


@pytest.fixture
def launch(obedient: Path, hardware: Hardware) -> RunnerLaunch:
    """How the program is started."""
    return RunnerLaunch(
        program=obedient,
        shim=obedient,
        seal=obedient,
        device="none",
        sm_count=hardware.sm_count,
        spaces=Namespaces.ALL,
        host_bytes=HOST_BYTES,
    )


@pytest.fixture
def candidate(tmp_path: Path) -> Compiled:
    """A library that nobody loads."""
    library = tmp_path / "candidate.so"
    library.write_bytes(b"")
    return Compiled(
        key="key",
        name="kernel.cu",
        source="",
        target="sm_86",
        library=library,
        ptx=library,
        kernels=(KernelResources(kernel="adds", symbol="add_one", registers=8, shared_bytes=0),),
    )


@pytest.fixture
def open_sessions(launch: RunnerLaunch, hardware: Hardware) -> Iterator[Opened]:
    """Opens what opens sessions; no descriptor may be left of them."""

    @asynccontextmanager
    async def opened(**changed: object) -> AsyncIterator[Sessions]:
        way = replace(launch, **changed)  # type: ignore[arg-type]
        sessions = Sessions(
            hardware=hardware,
            pool=RunnerPool(lambda: start_gpu_runner(way), count=1),
            memory_pool=MemoryPool(lambda _: None),
            sealing=HostSealing(),
            flush=L2Flush(size_bytes=1 << 20),
        )
        try:
            yield sessions
        finally:
            await sessions.close()

    # A process keeps the file on which it pins entries of the cache open, from its first pin on.
    pin_entry(cache_folder("native"))
    before = sorted(os.listdir("/proc/self/fd"))
    yield opened
    gc.collect()
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.fixture
def baseline(candidate: Compiled) -> Compiled:
    """Another program."""
    return replace(candidate, key="baseline", name="baseline.cu")


@pytest.fixture
def within(launch: RunnerLaunch, hardware: Hardware) -> Iterator[Use]:
    """Does something in a room; no runner is left of it."""

    def use(body: Callable[[Room], Awaitable[None]]) -> None:
        started: list[GpuRunner] = []

        async def run() -> None:
            async with open_room(launch, hardware, started) as room:
                await body(room)

        asyncio.run(run())
        assert not any(psutil.pid_exists(runner.pid) for runner in started)

    yield use
    # A map holds a descriptor, which other tests count.
    gc.collect()


@pytest.fixture
def found_by_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPU host processes import sites and works of tests/support by name."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture
def client() -> Iterator[HostClient]:
    made = HostClient(PLAIN, HostTimeouts(silence_s=60, work_s=300))
    yield made
    made.close()


@pytest.fixture(scope="module")
def gpu() -> tuple[Hardware, str]:
    """Profile and uuid of the first GPU."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    try:
        facts = cupy.cuda.runtime.getDeviceProperties(0)
        hardware = find_hardware(facts["name"].decode())
    except (cupy.cuda.runtime.CUDARuntimeError, HardwareError) as error:
        pytest.skip(f"no GPU that is known: {error}")
    raw = bytes(facts["uuid"]).hex()
    uuid = "-".join((raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:]))
    return hardware, f"GPU-{uuid}"
