"""What only a real GPU can show: confinement, sharing, sealing, and the end of broken kernels."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import numpy as np
import pytest

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import IllegalAccess, TimedOut, Verdict
from cuda_llm.tasks.task import Tolerance, ToleranceClass
from cuda_llm.tasks.tolerances import Terms, limits
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.cuda.device import try_isolation
from cuda_llm.tools.cuda.sealing import tag_of, tagging_key
from cuda_llm.tools.cuda.site import GpuSite
from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.device import Argument, Batch, CallOptions, CallReport, Scalar, TimeClass
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled, CompileRequest
from cuda_llm.tools.validator.compare import Expected, compare
from cuda_llm.tools.validator.distributions import draw

pytestmark = pytest.mark.gpu
T = TypeVar("T")
COUNT = 1 << 18
SOURCE = """
__global__ void add_one(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1;
}
__global__ void forever(volatile float* y) { while (y[0] != 12345) {} }
__global__ void far_off(float* y) { y[1ll << 42] = 1; }
extern "C" void solve(const float* x, float* y, int n) {
  if (n > 0) add_one<<<(n + 255) / 256, 256>>>(x, y, n);
  if (n == 0) forever<<<1, 1>>>(y);
  if (n < 0) far_off<<<1, 1>>>(y);
}
"""
BUFFERS = [
    BufferSpec(name="x", role=Role.IN, dtype="float32", shape=(COUNT,)),
    BufferSpec(name="y", role=Role.OUT, dtype="float32", shape=(COUNT,)),
]


def arguments(count: int) -> list[Argument]:
    return ["x", "y", Scalar(value=count, ctype="int")]


def on_site(gpu: tuple[Hardware, str], use: Callable[[GpuSite], Awaitable[T]]) -> T:
    async def run() -> T:
        async with GpuSite(*gpu, "the GPU under test") as site:
            return await use(site)

    return asyncio.run(run())


async def compiled(target: str) -> Compiled:
    """The source above."""
    made = await compile_candidate(CompileRequest(source=SOURCE, target=target))
    assert isinstance(made, Compiled), made
    return made


def test_nothing_that_a_candidate_may_not_do_gets_through(gpu: tuple[Hardware, str]) -> None:
    summary, missing = on_site(gpu, try_isolation)
    assert summary.endswith("self-test passed")
    assert not any("self-test" in one for one in missing)


def test_inputs_and_expected_values_may_be_subnormal(gpu: tuple[Hardware, str]) -> None:
    async def use(site: GpuSite) -> None:
        arrays = site.arrays
        drawn = draw("denormal", arrays.generator(5), (1000,), "float32", {}, arrays=arrays)
        host = arrays.to_host(drawn)
        assert (host != 0).mean() > 0.9
        assert abs(host).max() < np.finfo(np.float32).tiny
        wide = arrays.xp.add(drawn, drawn, dtype=arrays.xp.float64)
        np.testing.assert_array_equal(arrays.to_host(wide), 2 * host.astype(np.float64))
        wrong = arrays.xp.zeros(1000, arrays.xp.float32)
        own = limits(Tolerance(kind=ToleranceClass.ELEMENTWISE), Terms())
        assert not compare(wrong, Expected(drawn.astype(arrays.xp.float64)), own, arrays).ok
        assert compare(drawn, Expected(drawn.astype(arrays.xp.float64)), own, arrays).ok
        assert site.notes == ()

    on_site(gpu, use)


def test_a_timed_batch_is_sealed_solved_and_tagged_as_numpy_says(
    gpu: tuple[Hardware, str],
) -> None:
    async def use(site: GpuSite) -> None:
        xp = site.arrays.xp
        async with site.open(await compiled(site.hardware.target)) as session:
            assert isinstance(session, GpuTimedSession), session
            slots = await session.place_slots(BUFFERS, 3)
            assert await session.capture(arguments(COUNT), CallOptions()) is TimeClass.DEVICE
            batch = Batch(order=(2, 0), key=secrets.token_bytes(16))
            fresh = {slot: xp.random.random(COUNT, dtype="float32") for slot in batch.order}
            keys = [batch.key] * len(batch.order)
            session.seal(batch.order, keys, {"x": xp.stack([*fresh.values()])})
            assert await session.arm(batch) is None
            assert isinstance(await session.go(5.0), float)
            tags = session.tags
            for number, contents in fresh.items():
                assert (slots[number].buffers["y"].data == contents + 1).all()
            assert session.find_late_write() is None
            words = [
                site.arrays.to_host(slots[slot].buffers["y"].data).reshape(-1).view("uint8")
                for slot in batch.order
            ]
            assert tags == tuple(
                tag_of(word, slot, 1, tagging_key(batch.key))
                for word, slot in zip(words, batch.order, strict=True)
            )
            slots[0].buffers["y"].data[...] += 1
            assert session.find_late_write() == "y"

    on_site(gpu, use)


def test_keys_are_handed_out_while_a_batch_runs(gpu: tuple[Hardware, str]) -> None:
    async def use(site: GpuSite) -> None:
        async with site.open(await compiled(site.hardware.target)) as session:
            assert isinstance(session, GpuTimedSession), session
            slots = await session.place_slots(BUFFERS, 3)
            assert await session.capture(arguments(COUNT), CallOptions()) is TimeClass.DEVICE
            keys = {slot: secrets.token_bytes(16) for slot in (2, 0, 1)}
            for _ in range(3):
                fresh = {
                    slot: site.arrays.xp.random.random((1, COUNT), dtype="float32") for slot in keys
                }
                rows = site.arrays.xp.concatenate([*fresh.values()])
                session.seal(tuple(keys), tuple(keys.values()), {"x": rows})
                batch = Batch(order=tuple(keys), key=b"", keys=tuple(keys.values()))
                assert await session.arm(batch) is None, session.not_stepwise
                took = await session.go(5.0)
                assert isinstance(took, float)
                # Two questions a step, each of which lasts longer than its answer takes.
                assert took > 2 * len(keys) * 25e-6
                for slot, contents in fresh.items():
                    assert (slots[slot].buffers["y"].data == contents[0] + 1).all()
                assert session.find_late_write() is None
            slots[2].buffers["y"].data[...] += 1
            assert session.find_late_write() == "y"

    on_site(gpu, use)


@pytest.mark.parametrize(("count", "verdict"), [(0, TimedOut), (-1, IllegalAccess)])
def test_a_broken_kernel_costs_the_next_one_little(
    gpu: tuple[Hardware, str], count: int, verdict: type[Verdict]
) -> None:
    async def use(site: GpuSite) -> float:
        candidate = await compiled(site.hardware.target)
        async with site.open(candidate) as session:
            assert isinstance(session, GpuTimedSession), session
            session.place(BUFFERS)
            outcome = await session.call(arguments(count), CallOptions(limit_s=0.5))
            assert isinstance(outcome, verdict), outcome
            ended = time.monotonic()
        async with site.open(candidate) as session:
            assert isinstance(session, GpuTimedSession), session
            session.place(BUFFERS)
            report = await session.call(arguments(COUNT), CallOptions())
            assert isinstance(report, CallReport), report
        return time.monotonic() - ended

    assert on_site(gpu, use) < 1.5


def test_memory_grows_while_the_candidate_stays_loaded(gpu: tuple[Hardware, str]) -> None:
    async def use(site: GpuSite) -> None:
        async with site.open(await compiled(site.hardware.target)) as session:
            assert isinstance(session, GpuTimedSession), session
            for count in (100, 1 << 28, 100):
                specs = [
                    BufferSpec(name=name, role=role, dtype="float32", shape=(count,))
                    for name, role in (("x", Role.IN), ("y", Role.OUT))
                ]
                placed = session.place(specs)
                placed["x"].data.fill(count % 7)
                report = await session.call(arguments(count), CallOptions())
                assert isinstance(report, CallReport), report
                assert bool((placed["y"].data == count % 7 + 1).all())

    on_site(gpu, use)
