"""Memory of a measurement: slots of each size, and room for what `solve` allocates."""

import asyncio
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from measured_site import MeasuredSession, MeasuredSite, named
from timed_vector_adds import honest, small_bench, timed_site

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import Verdict, WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.reference import load_reference
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import SCRATCH_BYTES, Batch
from cuda_llm.tools.device.buffers import HOST, Role
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.duel import ContestOrder, contest_there
from cuda_llm.tools.timing.batch_room import FEWEST_STAGED, BatchRoom, reserve, room_for
from cuda_llm.tools.timing.measure import measure_candidate
from cuda_llm.tools.timing.options import MeasureOptions, Tier
from cuda_llm.tools.timing.room import plan_timing
from cuda_llm.tools.timing.slots import (
    GROUP_BYTES,
    InputPlan,
    PreparedKernel,
    prepare_kernel,
    stage_batch,
)
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.timing.verify import verify_batch
from cuda_llm.tools.validator.oracle import reference_oracle

pytestmark = pytest.mark.usefixtures("own_cache")
PLAIN = named("baseline")
ALLOCATING = replace(PLAIN, source="cudaMallocAsync(&sums, bytes, stream);")


def allowing(scratch: str) -> Task:
    task = small_bench(96, 32)
    return replace(task, capabilities=replace(task.capabilities, scratch_bytes=scratch))


def rooms(site: MeasuredSite, name: str) -> set[int]:
    return set(site.session_of(name).rooms)


@pytest.mark.parametrize("baseline", [PLAIN, ALLOCATING], ids=["plain", "allocating"])
def test_a_lane_gets_what_its_plan_states_and_a_baseline_if_it_allocates(
    baseline: Compiled,
) -> None:
    site, task = timed_site(honest(40.0)), allowing("n * 33554432")
    options = MeasureOptions(tier=Tier.SCREEN)
    measured = asyncio.run(measure_candidate(site, task, named("candidate"), baseline, options))
    assert isinstance(measured, KernelTimes)
    assert rooms(site, "candidate") == {SCRATCH_BYTES, 3 * SCRATCH_BYTES}
    assert rooms(site, "baseline") == (
        {SCRATCH_BYTES} if baseline is PLAIN else {SCRATCH_BYTES, 3 * SCRATCH_BYTES}
    )


def test_both_kernels_of_a_duel_get_it() -> None:
    site = timed_site(honest(40.0))
    site.scripts = {**site.scripts, "other": honest(40.0)}
    order = ContestOrder(
        contenders=(named("candidate"),),
        incumbent=named("other"),
        options=MeasureOptions(tier=Tier.SCREEN),
    )
    asyncio.run(contest_there(site, allowing("n * 33554432"), order, PLAIN))
    assert rooms(site, "candidate") == rooms(site, "other") == {SCRATCH_BYTES, 3 * SCRATCH_BYTES}
    assert rooms(site, "baseline") == {SCRATCH_BYTES}


def test_the_largest_lane_is_the_one_with_the_most_room_too() -> None:
    """Here the small size's `solve` needs more than the buffers of the large one."""
    site, task = timed_site(honest(40.0)), allowing("(128 - n) * 33554432")
    plan = plan_timing(site, task)

    async def reserved() -> None:
        async with site.open(named("candidate")) as one, site.open(PLAIN) as other:
            await reserve([one], task, plan, Tier.SCREEN)  # type: ignore[list-item]
            await reserve([other], task, plan, Tier.SCREEN, allocates=False)  # type: ignore[list-item]

    asyncio.run(reserved())
    one, other = (site.session_of(name) for name in ("candidate", "baseline"))
    assert one.rooms == [3 * SCRATCH_BYTES]
    assert other.rooms == [SCRATCH_BYTES]
    shapes = [session.slots.buffers["A"].spec.shape for session in (one, other)]
    assert shapes == [(32,), (96,)]


def room_at(n: int) -> dict[Tier, BatchRoom]:
    task = load_task("vector_add")
    task = replace(task, sizes=replace(task.sizes, bench=({"n": n},)), weights=())
    site = timed_site(honest(1.0))
    site.hardware = find_hardware("H200")
    (size,) = plan_timing(site, task).sizes
    return {tier: room_for(task, size, tier) for tier in Tier}


def test_a_confirmation_spreads_large_inputs_over_more_of_the_memory() -> None:
    assert {tier: one.slots for tier, one in room_at(1 << 26).items()} == {
        Tier.SCREEN: FEWEST_STAGED,
        Tier.CONFIRM: 2 * FEWEST_STAGED,
        Tier.PRECISE: 2 * FEWEST_STAGED,
    }


def test_batches_that_room_limits_are_on_other_slots_each_time() -> None:
    room = room_at(1 << 26)[Tier.CONFIRM]

    assert (room.calls, room.slots_for(room.calls)) == (FEWEST_STAGED, 2 * FEWEST_STAGED)
    assert room.slots_for(3) == 3


def test_small_inputs_fill_as_many_slots_as_a_batch_has_steps() -> None:
    assert set(room_at(1 << 18).values()) == {BatchRoom(calls=256, slots=256)}


@pytest.mark.parametrize("kept_bytes", [0, 1 << 20])
def test_a_batch_is_verified_by_the_inputs_kept_or_drawn_again(kept_bytes: int) -> None:
    async def verdicts() -> list[Verdict | None]:
        script, task = honest(40.0), small_bench(96)
        session = MeasuredSession(script)
        arrays = HOST
        inputs = InputPlan(
            task=task,
            dims=task.sizes.bench[0],
            arrays=arrays,
            kept_bytes=kept_bytes,
            reference=load_reference(task),
        )
        kernel = await prepare_kernel(session, inputs, 4, trusted=False)
        assert isinstance(kernel, PreparedKernel)
        staged = stage_batch(kernel, [2, 0, 3])
        assert [one.kept is not None for one in staged.groups] == [kept_bytes > 0]
        assert await session.arm(Batch(order=staged.order, key=staged.key)) is None
        assert isinstance(await session.go(1.0), float)
        oracle = reference_oracle(task, arrays)
        right = await verify_batch(kernel, staged, oracle)
        name = next(one.name for one in inputs.specs if one.role is Role.OUT)
        kernel.slots.buffers[name].data[0] = 0.5
        return [right, await verify_batch(kernel, staged, oracle)]

    right, wrong = asyncio.run(verdicts())
    assert right is None
    assert isinstance(wrong, WrongResult)


@pytest.mark.parametrize("capture", [True, False])
def test_contents_are_drawn_only_for_what_is_called(capture: bool) -> None:
    async def prepared() -> MeasuredSession:
        task = small_bench(96)
        session = MeasuredSession(honest(40.0))
        inputs = InputPlan(task=task, dims=task.sizes.bench[0], arrays=HOST)
        await prepare_kernel(session, inputs, 4, trusted=True, capture=capture)
        return session

    session = asyncio.run(prepared())
    sealed = [one[slot].any() for one in session.slots.sealed.values() for slot in range(4)]
    assert sealed == [capture] * len(sealed)


def test_of_large_inputs_one_groups_contents_are_in_memory_at_a_time() -> None:
    """The plan counts the inputs of one call; those of two were 8.6 GB of a GPU's 80."""

    class Noting(MeasuredSession):
        alive: list[int]
        drawn: list[weakref.ref[Any]]

        def seal(
            self, slots: Sequence[int], keys: Sequence[bytes], contents: Mapping[str, Any]
        ) -> None:
            self.alive.append(sum(one() is not None for one in self.drawn))
            self.drawn += [weakref.ref(array) for array in contents.values()]

    async def staged() -> list[int]:
        session = Noting(honest(40.0))
        session.alive, session.drawn = [], []
        task = small_bench(GROUP_BYTES // 8)
        inputs = InputPlan(task=task, dims=task.sizes.bench[0], arrays=HOST)
        kernel = await prepare_kernel(session, inputs, 2, trusted=False, capture=False)
        assert isinstance(kernel, PreparedKernel)
        batch = stage_batch(kernel, [0, 1])
        assert len(batch.groups) == 2
        return session.alive

    assert asyncio.run(staged()) == [0, 0]
