"""Kernels whose time of a call depends on how many are timed are found."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from measured_site import Call, MeasuredSite, Script
from simulated_clock import pair_without_noise
from timed_vector_adds import (
    add,
    honest,
    merging,
    slow_in_short_batches,
    slow_to_begin,
    slow_to_begin_in_company,
    timed,
    timed_by_the_bench,
    timed_site,
    wrong_in_the_last_call,
)

from cuda_llm.outcomes import GuardOverwritten, InfraFailed, Quarantined, Verdict
from cuda_llm.tools.device import TimeClass
from cuda_llm.tools.timing.batches import CANDIDATE, EMPTY, INCUMBENT, BatchRules, secret_rng
from cuda_llm.tools.timing.cheating import (
    BLOCKS_TO_QUARANTINE,
    LOOK_EVERY,
    MOST_STEPWISE_CALLS,
    MOST_UNSURE_BLOCKS,
    NoCheating,
    find_cheating,
    needs_more_blocks,
)
from cuda_llm.tools.timing.options import L2, MeasureOptions, Tier
from cuda_llm.tools.timing.slope import BatchBlock
from cuda_llm.tools.timing.stopping import rule_for
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.verdict_wording import describe

pytestmark = pytest.mark.usefixtures("own_cache")

CONFIRM = MeasureOptions(tier=Tier.CONFIRM)
CALL_US = 200.0


def confirmed(candidate: Script, *, baseline: Script | None = None) -> KernelTimes | Verdict:
    return timed(site_of(candidate, baseline or honest(CALL_US)), options=CONFIRM)


def site_of(candidate: Script, baseline: Script) -> MeasuredSite:
    site = timed_site(candidate)
    site.scripts = {"candidate": candidate, "baseline": baseline}
    return site


@pytest.mark.parametrize("call_us", [20.0, CALL_US])
def test_merging_calls_is_found_out_where_nothing_is_known_of_the_next(call_us: float) -> None:
    outcome = confirmed(merging(call_us), baseline=honest(call_us))
    assert isinstance(outcome, Quarantined)
    assert outcome.kind == "merged-calls"
    assert "nothing is known" in describe(outcome)[0]


def test_a_first_call_that_is_a_little_slower_is_let_be() -> None:
    outcome = confirmed(slow_to_begin(CALL_US, 8.0))
    assert isinstance(outcome, KernelTimes)
    assert outcome.times[0][1] == pytest.approx(CALL_US, rel=0.01)


def test_being_slow_in_short_batches_shows_where_all_are_as_long() -> None:
    outcome = confirmed(slow_to_begin_in_company(20.0, 110.0), baseline=honest(20.0))
    assert isinstance(outcome, Quarantined)


def test_a_slow_baseline_leaves_a_quick_kernel_its_many_calls() -> None:
    site = site_of(merging(60.0), honest(1000.0))
    assert isinstance(timed(site, options=CONFIRM), Quarantined)
    longest = max(len(one.keys) for one in site.session_of("candidate").orders)
    assert longest == MOST_STEPWISE_CALLS


def test_who_alone_says_that_keys_cannot_be_handed_out_is_not_believed() -> None:
    site = site_of(honest(CALL_US), honest(CALL_US))
    site.not_stepwise_of = {"candidate": "it has seen to that"}
    assert isinstance(timed(site, options=CONFIRM), InfraFailed)


def test_a_write_beside_a_buffer_in_the_last_batches_is_seen() -> None:
    def script(call: Call) -> float:
        add(call)
        if call.stepwise and not call.memory:
            call.memory["written"] = True
            call.guards["C"][1][0] ^= 1
        return CALL_US

    outcome = confirmed(script)
    assert isinstance(outcome, GuardOverwritten)


def test_where_keys_cannot_be_released_a_note_says_that_merging_was_not_looked_for() -> None:
    site = site_of(honest(CALL_US), honest(CALL_US))
    why = "no such memory"
    site.not_stepwise_of = {"candidate": why, "baseline": why}
    outcome = timed(site, options=CONFIRM)
    assert isinstance(outcome, KernelTimes)
    assert outcome.sizes[0].stepwise_us is None
    assert outcome.sizes[0].note == "merged calls were not looked for: no such memory"


def test_a_slow_start_is_found_beside_a_slow_baseline_too() -> None:
    site = timed_site(slow_in_short_batches(CALL_US), baseline_us=20_000.0)
    assert isinstance(timed(site), Quarantined)
    site = timed_site(merging(CALL_US), baseline_us=20_000.0)
    assert isinstance(timed(site, options=CONFIRM), Quarantined)


def test_a_quick_kernel_beside_a_slow_baseline_is_done_when_its_time_is_sure() -> None:
    site = timed_site(honest(CALL_US), baseline_us=20_000.0)
    outcome = timed(site, options=CONFIRM)
    assert isinstance(outcome, KernelTimes)
    assert outcome.sizes[0].blocks == rule_for(Tier.CONFIRM, sizes=1).fewest


def opened_of(site: MeasuredSite) -> int:
    return [name for name, _ in site.opened].count("candidate")


def test_a_kernel_slow_in_one_process_alone_was_held_up_and_passes() -> None:
    held_up: list[int] = []

    def script(call: Call) -> float:
        held_up.append(id(call.memory))
        is_slow = id(call.memory) == held_up[0] and call.calls < len(call.slots) / 2
        add(call)
        return 50.0 * (8 if is_slow else 1)

    site = timed_site(script)
    outcome = timed_by_the_bench(site)
    assert isinstance(outcome, KernelTimes)
    assert outcome.times[0][1] == pytest.approx(50.0, rel=0.02)
    assert opened_of(site) == 2


def test_where_noise_hides_the_outcome_it_is_tried_again() -> None:
    seen: list[int] = []

    def script(call: Call) -> float | Verdict:
        seen.append(id(call.memory))
        add(call)
        first = id(call.memory) == seen[0] and not call.warm_up
        return InfraFailed(component="device", detail="busy") if first else CALL_US

    site = timed_site(script)
    assert isinstance(timed_by_the_bench(site), KernelTimes)
    assert opened_of(site) == 2


def test_a_kernel_slow_in_every_process_is_quarantined() -> None:
    assert isinstance(timed_by_the_bench(timed_site(honest(50.0))), KernelTimes)
    site = timed_site(slow_in_short_batches(50.0))
    assert isinstance(timed_by_the_bench(site), Quarantined)
    assert opened_of(site) == 2
    assert [name for name, _ in site.opened].count("baseline") == 2
    assert site.kept == ["baseline"]


def test_outliers_of_the_machine_quarantine_no_kernel() -> None:
    """Most of the first blocks are spoilt: more are run before a kernel is quarantined."""
    spoilt = 0

    def held_up(call: Call) -> float:
        nonlocal spoilt
        add(call)
        begins_short = call.step == 0 and call.calls < len(call.slots) / 2
        if call.warm_up or not begins_short or spoilt == 3:
            return CALL_US
        spoilt += 1
        return CALL_US + 1000.0

    outcome = timed(timed_site(held_up))
    assert isinstance(outcome, KernelTimes)
    assert outcome.times[0][1] == pytest.approx(CALL_US, rel=0.02)
    assert outcome.sizes[0].blocks > 3


def seen_beside_a_noisy_baseline(start_us: float, count: int) -> tuple[Verdict | NoCheating, bool]:
    """Of a candidate whose batches begin so late; and whether more blocks are wanted."""
    candidate, baseline = (
        SimpleNamespace(trusted=trusted, includes_host=False) for trusted in (False, True)
    )
    kernels: Any = {CANDIDATE: candidate, INCUMBENT: baseline, EMPTY: baseline}
    blocks = [
        BatchBlock(
            first=pair_without_noise(CALL_US, start_us=start_us),
            second=pair_without_noise(CALL_US, start_us=(20.0, 300.0, 900.0)[number % 3]),
            empty=pair_without_noise(0.0),
        )
        for number in range(count)
    ]
    rules = BatchRules(oracle=None, rng=secret_rng(), l2=L2.COLD, limit_s=1.0)  # type: ignore[arg-type]
    found = find_cheating(kernels, CANDIDATE, blocks, rules, rounds=0)
    return asyncio.run(found), needs_more_blocks(kernels, CANDIDATE, blocks)


def test_where_trusted_batches_begin_as_unevenly_nothing_is_decided() -> None:
    found, more = seen_beside_a_noisy_baseline(900.0, BLOCKS_TO_QUARANTINE)
    assert isinstance(found, InfraFailed)
    assert "judge it again" in found.detail
    assert more
    found, more = seen_beside_a_noisy_baseline(900.0, MOST_UNSURE_BLOCKS)
    assert isinstance(found, InfraFailed)
    assert not more
    found, more = seen_beside_a_noisy_baseline(9000.0, BLOCKS_TO_QUARANTINE)
    assert isinstance(found, Quarantined)
    assert not more


def test_keys_are_handed_out_step_by_step_at_the_end_of_a_confirmation_alone() -> None:
    site = timed_site(honest(CALL_US))
    screened = timed(site)
    assert isinstance(screened, KernelTimes)
    assert screened.sizes[0].stepwise_us is None
    assert not any(batch.keys for batch in site.session_of("candidate").orders)
    site = timed_site(honest(CALL_US))
    outcome = timed(site, options=CONFIRM)
    assert isinstance(outcome, KernelTimes)
    assert outcome.sizes[0].stepwise_us == pytest.approx(CALL_US, rel=0.01)
    batches = site.session_of("candidate").orders
    assert [bool(batch.keys) for batch in batches[-5:]] == [False] + [True] * LOOK_EVERY
    assert len({key for batch in batches for key in batch.keys}) == sum(
        len(batch.keys) for batch in batches
    )


def test_where_the_host_counts_too_nothing_is_held_against_graphs() -> None:
    site = timed_site(slow_to_begin(CALL_US, 100.0))
    site.time_class = TimeClass.HOST_INCLUSIVE
    assert isinstance(timed(site, options=CONFIRM), KernelTimes)
    site = timed_site(slow_to_begin(CALL_US, 400.0))
    site.time_class = TimeClass.HOST_INCLUSIVE
    assert isinstance(timed(site, options=CONFIRM), Quarantined)


def test_a_stepwise_call_that_is_wrong_is_that() -> None:
    outcome = confirmed(wrong_in_the_last_call)
    assert getattr(outcome, "code", None) == "WRONG_RESULT"


def test_what_a_contest_has_looked_at_is_shown_by_half_as_many_stepwise_batches() -> None:
    def stepwise_batches(*, proved: bool) -> int:
        site = site_of(merging(60.0), honest(CALL_US))
        assert isinstance(timed(site, options=replace(CONFIRM, proved=proved)), Quarantined)
        return sum(bool(one.keys) for one in site.session_of("candidate").orders)

    assert stepwise_batches(proved=True) * 2 == stepwise_batches(proved=False) == 12
