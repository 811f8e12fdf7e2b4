"""The baseline's runner: whose program is kept, and whose fault it is that it finds no memory."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest
from measured_site import Call, MeasuredSite, Script, named
from timed_vector_adds import BASELINE_US, add, honest, small_bench, timed, timed_site

from cuda_llm.outcomes import OutOfMemory, Verdict
from cuda_llm.tools.judge.duel import ContestOrder, contest_there
from cuda_llm.tools.timing.measure import measure_baseline
from cuda_llm.tools.timing.options import MeasureOptions, Tier
from cuda_llm.tools.timing.times import KernelTimes

pytestmark = pytest.mark.usefixtures("own_cache")
NO_MEMORY = OutOfMemory(request="to-run")
DEVICE_BYTES, OTHERS_BYTES, STACKS_BYTES = 100, 30, 80


class Shared:
    """Memory of a device that the scripts take from."""

    def __init__(self) -> None:
        self.taken_bytes = 0

    def greedy(self, batches: int) -> Script:
        """Has the driver take most of the memory, after so many batches, for good."""

        def script(call: Call) -> float:
            add(call)
            if call.batches >= batches:
                self.taken_bytes = STACKS_BYTES
            return 40.0

        return script

    def in_need(self, call: Call) -> float | Verdict:
        """Needs a little memory."""
        add(call)
        enough = self.taken_bytes + OTHERS_BYTES <= DEVICE_BYTES
        return BASELINE_US if enough else NO_MEMORY


def site_of(scripts: Mapping[str, Script], shared: Shared) -> MeasuredSite:
    site = timed_site(honest(40.0))
    site.scripts = {**scripts, "baseline": shared.in_need}
    return site


def contend(site: MeasuredSite) -> object:
    options = MeasureOptions(tier=Tier.SCREEN)
    order = ContestOrder(contenders=(named("one"),), incumbent=named("other"), options=options)
    return asyncio.run(contest_there(site, small_bench(96), order, named("baseline")))


def test_only_the_baselines_runner_is_kept() -> None:
    assert isinstance(timed(timed_site(honest(40.0))), KernelTimes)
    site = timed_site(honest(40.0))
    assert isinstance(timed(site), KernelTimes)
    assert site.kept == ["baseline"]
    assert sorted(name for name, _ in site.opened) == ["baseline", "candidate"]


def test_a_baseline_that_is_new_to_a_gpu_is_timed_in_a_runner_of_its_own() -> None:
    site = timed_site(honest(40.0))
    assert isinstance(timed(site), KernelTimes)
    assert [name for name, _ in site.opened] == ["baseline", "baseline", "candidate", "baseline"]
    (cached, own) = (session for _, session in site.opened[:2])
    assert not cached.orders, "it holds its memory, so that the other one has another"
    assert own.orders


def test_the_baselines_own_times_and_duels_keep_it_too() -> None:
    shared = Shared()
    site = site_of({"one": honest(40.0), "other": honest(40.0)}, shared)
    asyncio.run(measure_baseline(site, small_bench(96), named("baseline"), MeasureOptions()))
    contend(site)
    assert site.kept == ["baseline", "baseline"]


@pytest.mark.parametrize("batches", [0, 4], ids=["before the baseline", "between its batches"])
def test_a_candidate_that_takes_the_baselines_memory_is_out_of_memory(batches: int) -> None:
    shared = Shared()
    outcome = timed(site_of({"candidate": shared.greedy(batches)}, shared))
    assert isinstance(outcome, OutOfMemory)
    assert outcome == replace(NO_MEMORY, beside_baseline=True)
