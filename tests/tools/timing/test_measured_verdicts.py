"""What timing itself finds out about a kernel, without a GPU."""

import asyncio
import math
from dataclasses import replace

import pytest
from measured_site import MeasuredSite, named
from timed_vector_adds import (
    BASELINE_US,
    CHEATS,
    by_content,
    honest,
    slow_in_long_batches,
    slow_to_warm_up,
    small_bench,
    timed,
    timed_site,
)

from cuda_llm.codec import decode_verdict, encode_verdict
from cuda_llm.outcomes import LoadFailed, TimedOut, WrongResult
from cuda_llm.tools.device import Batch, TimeClass
from cuda_llm.tools.judge.judge import assemble_passed
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.tools.timing.measure import measure_baseline
from cuda_llm.tools.timing.options import L2, MeasureOptions, Tier
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize("name", CHEATS)
def test_every_trick_ends_in_its_verdict(name: str) -> None:
    script, code = CHEATS[name]
    # Large enough for a floor beyond what the start of a batch adds to a call, where that matters.
    n = 65536 if code == "IMPOSSIBLE_TIME" else 96
    outcome = timed(timed_site(script, chip="t4"), small_bench(n))
    assert getattr(outcome, "code", None) == code, outcome
    if isinstance(outcome, WrongResult) and outcome.size_class == "bench":
        assert outcome.dims == {"n": n}


def test_an_honest_kernel_gets_its_time() -> None:
    outcome = timed(timed_site(honest(25.0)))
    assert isinstance(outcome, KernelTimes)
    (size,) = outcome.sizes
    assert outcome.times == ((size.dims, size.time_us),)
    assert size.time_us == pytest.approx(25.0, rel=0.02)
    assert size.baseline_us == pytest.approx(BASELINE_US, rel=0.02)
    assert size.speedup == pytest.approx(2.0, rel=0.02)
    assert size.speedup_low is not None and size.speedup_high is not None
    assert size.speedup_low <= 2.0 * 1.01 and size.speedup_high >= 2.0 * 0.99
    assert (size.outcome, size.source, size.time_class) == ("faster", "measured", "device")
    assert size.l2 == "cold"
    assert size.blocks >= 3


def test_the_baseline_ties_with_itself() -> None:
    outcome = timed(timed_site(honest(BASELINE_US)))
    assert isinstance(outcome, KernelTimes)
    assert [size.outcome for size in outcome.sizes] == ["tie"]


@pytest.mark.parametrize("call_us", [2.0, 50.0, 900.0])
def test_being_slow_while_warming_up_changes_no_time(call_us: float) -> None:
    outcome = timed(timed_site(slow_to_warm_up(call_us)))
    assert isinstance(outcome, KernelTimes)
    assert outcome.times[0][1] == pytest.approx(call_us, rel=0.05)


def test_a_result_kept_by_content_is_never_asked_for_again() -> None:
    outcome = timed(timed_site(by_content))
    assert isinstance(outcome, KernelTimes)
    assert outcome.times[0][1] == pytest.approx(50.0, rel=0.02)


def test_being_slow_in_long_batches_costs_only_the_kernel_itself() -> None:
    outcome = timed(timed_site(slow_in_long_batches(50.0)))
    assert not isinstance(outcome, KernelTimes) or outcome.times[0][1] > 95.0


def test_a_candidate_that_does_not_load_is_told_so() -> None:
    refused = LoadFailed(detail="no solve")
    site = timed_site(honest(1.0))
    site.refused = {"candidate": refused}
    assert timed(site) == refused


def test_a_time_that_includes_the_host_is_labelled() -> None:
    site = timed_site(honest(25.0))
    site.time_class = TimeClass.HOST_INCLUSIVE
    outcome = timed(site)
    assert isinstance(outcome, KernelTimes)
    assert outcome.sizes[0].time_class == "host-inclusive"
    assert "host part" in outcome.sizes[0].note


def test_a_timing_says_where_it_was_taken_and_what_kept_the_runner_in() -> None:
    site = timed_site(honest(25.0))
    outcome = timed(site)
    assert isinstance(outcome, KernelTimes)
    assert all(size.peak_bytes > 0 for size in outcome.sizes)
    assert (outcome.device, outcome.isolation) == (site.name, "no namespaces; seccomp")


def test_the_first_fault_ends_the_timing() -> None:
    """A batch that never ends is not tried again at the next size."""
    site = timed_site(CHEATS["hangs"][0])
    assert isinstance(timed(site, small_bench(64, 96, 128)), TimedOut)
    assert site.session_of("candidate").batches == 3


def test_no_two_candidate_batches_share_a_key_or_an_order() -> None:
    site = timed_site(honest(25.0))
    timed(site, options=MeasureOptions(tier=Tier.CONFIRM))
    candidate = site.session_of("candidate")
    keys = [batch.key for batch in candidate.orders]
    assert len(set(keys)) == len(keys)
    lengths = {len(batch.order) % 2 for batch in candidate.orders}
    assert lengths == {0, 1}


def test_sizes_without_room_are_named_not_timed() -> None:
    site = timed_site(honest(25.0))
    outcome = timed(site, small_bench(96, 10**11))
    assert isinstance(outcome, KernelTimes)
    assert [dict(dims) for dims, _ in outcome.times] == [{"n": 96}]
    (line,) = outcome.left_out
    assert line.startswith("n=100,000,000,000: 2 lanes x 2 slots x ")
    assert line.endswith(" are free")
    assert math.isfinite(outcome.times[0][1])


def solved_by_baselines(site: MeasuredSite) -> list[Batch]:
    opened = [session for name, session in site.opened if name == "baseline"]
    return [batch for session in opened for batch in session.orders if batch.solve]


def test_a_baseline_of_milliseconds_is_timed_once() -> None:
    site = timed_site(honest(40.0), baseline_us=20_000.0)
    first = timed(site)
    assert solved_by_baselines(site), "the baseline has to be timed at least once"
    again = timed_site(honest(40.0), baseline_us=20_000.0)
    second = timed(again)
    assert not solved_by_baselines(again)
    for outcome in (first, second):
        assert isinstance(outcome, KernelTimes)
        assert outcome.sizes[0].speedup == pytest.approx(500, rel=0.05)
        assert "measured earlier" in outcome.sizes[0].note


def test_a_warm_cache_is_asked_for_and_labelled() -> None:
    site = timed_site(honest(25.0))
    outcome = timed(site, options=MeasureOptions(l2=L2.WARM))
    assert isinstance(outcome, KernelTimes)
    assert outcome.sizes[0].l2 == "warm"
    assert not any(batch.flush for batch in site.session_of("candidate").orders)


def test_what_is_timed_ends_up_in_the_verdict() -> None:
    site, task = timed_site(honest(25.0)), small_bench(96, 10**11)
    outcome = timed(site, task)
    assert isinstance(outcome, KernelTimes)
    verdict = assemble_passed(
        replace(task, weights=(1.0, 5.0)),
        open_emulated(),
        named("candidate"),
        Validated(checked={"sizes": 3}),
        outcome,
        KernelTimes(times=(), launches=(), bottlenecks=()),
    )
    profile = verdict.profile
    assert profile is not None
    assert profile.sizes == outcome.sizes
    assert profile.speedup == pytest.approx(outcome.sizes[0].speedup)
    assert [note for note in verdict.notes if note.startswith("not timed: n=100,000,000,000")]
    assert decode_verdict(encode_verdict(verdict)) == verdict


def test_the_baselines_own_times_are_asked_for_without_a_candidate() -> None:
    site = timed_site(honest(25.0))
    task = small_bench(64, 96, 10**11)
    found = asyncio.run(measure_baseline(site, task, named("baseline"), MeasureOptions()))
    assert [dict(dims) for dims, _ in found.times] == [{"n": 64}, {"n": 96}]
    assert [us for _, us in found.times] == pytest.approx([BASELINE_US] * 2, rel=0.05)
    assert len(found.left_out) == 1
