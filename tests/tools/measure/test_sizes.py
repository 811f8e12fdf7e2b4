"""How many slots a lane has at a size."""

from dataclasses import replace

from timed_vector_adds import honest, timed_site

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.measure.measurement import FEWEST_STAGED, most_slots, plan_timing
from cuda_llm.tools.measure.options import Tier


def slots_at(n: int) -> dict[Tier, int]:
    task = load_task("vector_add")
    task = replace(task, sizes=replace(task.sizes, bench=({"n": n},)), weights=())
    site = timed_site(honest(1.0))
    site.hardware = find_hardware("H200")
    (size,) = plan_timing(site, task).sizes
    return {tier: most_slots(task, size, tier) for tier in Tier}


def test_a_confirmation_spreads_large_inputs_over_more_of_the_memory() -> None:
    assert slots_at(1 << 26) == {Tier.SCREEN: FEWEST_STAGED, Tier.CONFIRM: 2 * FEWEST_STAGED}


def test_small_inputs_fill_as_many_slots_as_a_batch_has_steps() -> None:
    assert set(slots_at(1 << 18).values()) == {256}
