"""Sessions come and go without leaving anything."""

import asyncio
import os
import tempfile
import threading
from pathlib import Path

import numpy as np
import psutil
import pytest
from device_calls import call_once, compiled
from other_builder import builds_all

from cuda_llm.outcomes import HostCrashed, Verdict
from cuda_llm.tools.device import CallOptions, CallReport, Scalar, Session
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.open_device import open_emulated

SESSIONS = 40
ADD_ONE = """
__global__ void add_one(int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1;
}
extern "C" void solve(int* x, int n) {
  if (n < 0) __builtin_trap();
  add_one<<<(n + 127) / 128, 128>>>(x, n);
}
"""
SPEC = BufferSpec(name="x", role=Role.INOUT, dtype="int32", shape=(1 << 18,))


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    return open_emulated()


def open_files() -> set[str]:
    links = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            links.add(f"{entry.name} {entry.readlink()}")
        except FileNotFoundError:
            continue
    return {link for link in links if "/proc/" not in link}


async def one_session(device: EmulatedDevice, n: int) -> CallReport | Verdict:
    async with device.open(await compiled(ADD_ONE, device.hardware.target)) as session:
        assert isinstance(session, Session)
        placed = session.place([SPEC])["x"]
        placed.data[:] = 5
        outcome = await session.call(["x", Scalar(value=n, ctype="int")], CallOptions())
        if n > 0:
            assert placed.data.sum() == 5 * placed.data.size + n
        return outcome


def test_many_sessions_leave_no_process_descriptor_thread_file_or_memory(
    device: EmulatedDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def run(count: int) -> None:
        for index in range(count):
            outcome = await one_session(device, -1 if index % 10 == 9 else 1000 + index)
            assert isinstance(outcome, HostCrashed if index % 10 == 9 else CallReport)

    asyncio.run(run(10))
    me = psutil.Process()
    files, threads = open_files(), threading.active_count()
    memory = me.memory_info()
    asyncio.run(run(SESSIONS))
    assert me.children(recursive=True) == []
    assert open_files() == files
    assert list(tmp_path.iterdir()) == []
    assert threading.active_count() == threads
    after = me.memory_info()
    # One leaked buffer a session would be 300 MiB, one leaked mapping 4.8 TiB of address space.
    assert after.rss - memory.rss < 50 << 20
    assert after.vms - memory.vms < 40 << 30


def test_sessions_run_side_by_side(device: EmulatedDevice) -> None:
    async def run() -> list[CallReport | Verdict]:
        return await asyncio.gather(*(one_session(device, 100 + i) for i in range(8)))

    assert all(isinstance(outcome, CallReport) for outcome in asyncio.run(run()))


def test_cancelling_a_call_leaves_no_process(device: EmulatedDevice) -> None:
    endless = ADD_ONE.replace("__builtin_trap()", "while (*(volatile int*)&n < 0) {}")

    async def run() -> int:
        async with device.open(await compiled(endless, device.hardware.target)) as session:
            assert isinstance(session, Session)
            session.place([SPEC])
            call = session.call(["x", Scalar(value=-1, ctype="int")], CallOptions(limit_s=60))
            await asyncio.wait_for(call, 0.3)
        return 0

    with pytest.raises(TimeoutError):
        asyncio.run(run())
    assert psutil.Process().children(recursive=True) == []


def test_parts_that_are_still_built_hold_up_none_but_who_needs_them(
    device: EmulatedDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compilations on the same loop once missed their wall clock, having ended long before."""

    async def open_it(candidate: Compiled) -> None:
        async with device.open(candidate):
            pass

    async def run() -> None:
        candidate = await compiled(ADD_ONE, device.hardware.target)
        await open_it(candidate)
        (tmp_path / "translated").symlink_to(Path(os.environ["CUDA_LLM_CACHE"]) / "translated")
        monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path))
        with builds_all(tmp_path) as builder:
            assert builder.stdin is not None
            gives_up = threading.Timer(10, builder.stdin.close)
            gives_up.start()
            opening = asyncio.ensure_future(open_it(candidate))
            await asyncio.sleep(0.3)
            gives_up.cancel()
            assert not opening.done()
            assert builder.poll() is None
            opening.cancel()

    asyncio.run(run())


def test_every_call_after_a_verdict_gives_the_same_verdict(device: EmulatedDevice) -> None:
    async def run() -> tuple[CallReport | Verdict, CallReport | Verdict]:
        async with device.open(await compiled(ADD_ONE, device.hardware.target)) as session:
            assert isinstance(session, Session)
            values = {"x": np.zeros(4, np.int32)}
            first = await call_once(session, values, ["x"], [-1], CallOptions())
            second = await call_once(session, values, ["x"], [1], CallOptions())
            return first.outcome, second.outcome

    first, second = asyncio.run(run())
    assert isinstance(first, HostCrashed)
    assert second is first


def test_calls_of_one_session_see_fresh_buffers_and_kept_variables(device: EmulatedDevice) -> None:
    source = """
    __device__ int calls;
    __global__ void count(int* x) { x[0] = ++calls; }
    extern "C" void solve(int* x) { count<<<1, 1>>>(x); }
    """

    async def run() -> list[int]:
        seen = []
        async with device.open(await compiled(source, device.hardware.target)) as session:
            assert isinstance(session, Session)
            for size in (1, 1000, 10):
                values = {"x": np.zeros(size, np.int32)}
                called = await call_once(session, values, ["x"], [], CallOptions())
                assert called.report
                assert not called.outputs["x"][1:].any()
                seen.append(int(called.outputs["x"][0]))
        return seen

    assert asyncio.run(run()) == [1, 2, 3]


def test_the_guard_behind_the_last_buffer_survives_scratch_memory(device: EmulatedDevice) -> None:
    source = """
    __global__ void use(char* scratch, char* x) { scratch[threadIdx.x] = 1; x[threadIdx.x] = 1; }
    extern "C" void solve(char* x) {
      char* scratch;
      cudaMalloc(&scratch, 100000);
      use<<<1, 32>>>(scratch, x);
      cudaFree(scratch);
    }
    """

    async def run() -> None:
        async with device.open(await compiled(source, device.hardware.target)) as session:
            assert isinstance(session, Session)
            for size in (100, 4000, 4096, 5000):
                spec = BufferSpec(name="x", role=Role.OUT, dtype="uint8", shape=(size,))
                placed = session.place([spec])["x"]
                placed.guard_before[:] = 0xA5
                placed.guard_after[:] = 0xA5
                assert isinstance(await session.call(["x"], CallOptions()), CallReport)
                assert (placed.guard_before == 0xA5).all()
                assert (placed.guard_after == 0xA5).all()

    asyncio.run(run())


def cpu_s() -> float:
    """Processor time of this process and of all children that have been waited for."""
    return sum(os.times()[:4])


def test_a_session_costs_a_fraction_of_a_second(device: EmulatedDevice) -> None:
    """Processor time, because a busy machine stretches the wall clock."""

    async def run() -> float:
        await one_session(device, 1)
        before_s = cpu_s()
        for _ in range(5):
            await one_session(device, 1)
        return (cpu_s() - before_s) / 5

    assert asyncio.run(run()) < 0.5
