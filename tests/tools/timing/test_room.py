"""Memory that lacks while a measurement is under way: no kernel's fault, and not the end of it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from measured_site import Call, MeasuredSession, MeasuredSite, Script, named
from timed_vector_adds import honest, small_bench

from cuda_llm.errors import NoMemory
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import InfraFailed, OutOfMemory, Verdict
from cuda_llm.tools.cuda.memory import MemoryFull
from cuda_llm.tools.device import SCRATCH_BYTES
from cuda_llm.tools.device.buffers import BufferSpec, Slots
from cuda_llm.tools.device.candidate import Baseline
from cuda_llm.tools.judge.duel import Contest, ContestOrder, contest_there
from cuda_llm.tools.timing.failures import FailedCase
from cuda_llm.tools.timing.measure import measure_baseline, measure_candidate
from cuda_llm.tools.timing.options import MeasureOptions, Tier
from cuda_llm.tools.timing.room import MEMORY_SHARES, plan_timing, within_memory
from cuda_llm.tools.timing.times import KernelTimes

pytestmark = pytest.mark.usefixtures("own_cache")
LARGE = 1 << 22
TASK = small_bench(96, LARGE)
OPTIONS = MeasureOptions(tier=Tier.SCREEN)
Lack = Callable[[], Exception]


def cupy_error() -> Exception:
    """As CuPy raises it."""
    return MemoryError("Out of memory allocating 4,294,967,296 bytes")


def layout_error() -> Exception:
    return MemoryFull("device memory", "8,589,934,592 bytes cannot be allocated")


@dataclass
class ShortSite(MeasuredSite):
    """A GPU of 4 GiB for which the plan promises a large size, and where it never fits."""

    lack: Lack = cupy_error

    @asynccontextmanager
    async def open(self, candidate: Baseline) -> AsyncIterator[MeasuredSession | Verdict]:
        async with super().open(candidate) as opened:
            if isinstance(opened, MeasuredSession):
                place = opened.place_slots

                async def place_slots(
                    buffers: Sequence[BufferSpec], count: int, *, scratch_bytes: int = SCRATCH_BYTES
                ) -> Slots:
                    if any(spec.nbytes > 1 << 20 for spec in buffers):
                        raise self.lack()
                    return await place(buffers, count, scratch_bytes=scratch_bytes)

                opened.place_slots = place_slots  # type: ignore[method-assign]
            yield opened


def small_gpu() -> Hardware:
    return replace(find_hardware("h100_sxm5_80gb"), memory_bytes=4 << 30)


def short_site(lack: Lack = cupy_error, **scripts: Script) -> ShortSite:
    known = {"candidate": honest(40.0), "baseline": honest(50.0), "other": honest(45.0), **scripts}
    return ShortSite(hardware=small_gpu(), scripts=known, lack=lack)


def measured(site: MeasuredSite) -> KernelTimes | Verdict | FailedCase:
    work = measure_candidate(site, TASK, named("candidate"), named("baseline"), OPTIONS)
    return asyncio.run(work)


@pytest.mark.parametrize("lack", [cupy_error, layout_error])
def test_a_size_that_was_promised_and_does_not_fit_is_left_out_and_the_others_are_timed(
    lack: Lack,
) -> None:
    site = short_site(lack)
    assert len(plan_timing(site, TASK).sizes) == 2
    found = measured(site)
    assert isinstance(found, KernelTimes)
    assert [dict(size.dims) for size in found.sizes] == [{"n": 96}]
    (line,) = found.left_out
    assert line.startswith(f"n={LARGE:,}: ")
    assert line.endswith("are free")


def test_before_that_all_is_given_back_that_nobody_uses_and_it_is_tried_once_more() -> None:
    site = short_site()
    measured(site)
    before = site.released
    assert before >= 2
    measured(site)
    assert site.released == before, "what fitted is remembered"


def test_the_baseline_of_a_run_is_timed_at_the_sizes_that_fit() -> None:
    site = short_site()
    found = asyncio.run(measure_baseline(site, TASK, named("baseline"), OPTIONS))
    assert [dims for dims, _ in found.times] == [{"n": 96}]
    assert len(found.left_out) == 1


def test_a_contest_is_held_at_the_sizes_that_fit() -> None:
    site = short_site()
    order = ContestOrder(
        contenders=(named("candidate"),), incumbent=named("other"), options=OPTIONS
    )
    found = asyncio.run(contest_there(site, TASK, order, named("baseline")))
    assert isinstance(found, Contest)
    (duel,) = found.duels
    assert [dict(one.dims) for one in getattr(duel, "sizes", ())] == [{"n": 96}]


def full_at_first(times: int) -> Script:
    """The driver has no memory for the kernel, so many times."""
    left = [times]

    def script(call: Call) -> float | Verdict:
        if left[0] and call.warm_up:
            left[0] -= 1
            return OutOfMemory(request="to-run", bound="device")
        return honest(40.0)(call)

    return script


@pytest.mark.parametrize("times", [1, 2])
def test_a_kernel_for_which_our_slots_left_no_memory_is_measured_beside_fewer(times: int) -> None:
    task = small_bench(96, 32)
    site = MeasuredSite(
        hardware=small_gpu(), scripts={"candidate": full_at_first(times), "baseline": honest(50.0)}
    )
    work = measure_candidate(site, task, named("candidate"), named("baseline"), OPTIONS)
    assert isinstance(asyncio.run(work), KernelTimes)
    assert site.released == times


def test_a_kernel_that_finds_none_beside_fewer_either_has_the_verdict_and_others_all_sizes() -> (
    None
):
    task = small_bench(96, 32)
    site = MeasuredSite(
        hardware=small_gpu(), scripts={"candidate": full_at_first(99), "baseline": honest(50.0)}
    )
    work = measure_candidate(site, task, named("candidate"), named("baseline"), OPTIONS)
    assert isinstance(asyncio.run(work), OutOfMemory)
    assert site.shares[task.name] == MEMORY_SHARES[0]


def short_at_first(times: int) -> Script:
    """The runner finds no memory, so many times."""
    left = [times]

    def script(call: Call) -> float | Verdict:
        if left[0] and call.warm_up:
            left[0] -= 1
            return InfraFailed(component="runner", detail="arena: full", lacked_memory=True)
        return honest(40.0)(call)

    return script


@pytest.mark.parametrize("script", [short_at_first, full_at_first])
def test_a_runner_that_finds_no_memory_is_asked_again_with_less_in_use(
    script: Callable[[int], Script],
) -> None:
    for scripts in ({"candidate": script(1), "baseline": honest(50.0)}, {"baseline": script(1)}):
        site = MeasuredSite(hardware=small_gpu(), scripts={"candidate": honest(40.0), **scripts})
        task = small_bench(96, 32)
        work = measure_candidate(site, task, named("candidate"), named("baseline"), OPTIONS)
        assert isinstance(asyncio.run(work), KernelTimes)
        assert site.released == 1


def test_a_failure_that_only_speaks_of_memory_is_none_of_it() -> None:
    def script(call: Call) -> float | Verdict:
        return InfraFailed(component="runner", detail="out of memory, says a kernel")

    site = MeasuredSite(
        hardware=small_gpu(), scripts={"candidate": script, "baseline": honest(50.0)}
    )
    work = measure_candidate(site, small_bench(96), named("candidate"), named("baseline"), OPTIONS)
    assert isinstance(asyncio.run(work), InfraFailed)
    assert site.released == 0


def test_where_nothing_helps_it_is_our_memory_that_lacked() -> None:
    async def lacking() -> None:
        raise cupy_error()

    site = short_site()
    with pytest.raises(NoMemory, match="Out of memory"):
        asyncio.run(within_memory(site, TASK, lacking))
    assert site.released == 5
