"""Whether the time of a call depends on how many are timed, and who is told so."""

import pytest
from timed_array_session import Call, Script, TimedArraySite
from timed_benches import timed, timed_site
from timed_scripts import (
    add,
    honest,
    merging,
    slow_in_short_batches,
    slow_to_begin,
    slow_to_begin_in_company,
    wrong_in_the_last_call,
)

from cuda_llm.outcomes import InfraFailed, Quarantined, Verdict
from cuda_llm.tools.device import TimeClass
from cuda_llm.tools.judge.measured.options import MeasureOptions
from cuda_llm.tools.judge.timing import Timing
from cuda_llm.tools.timing.tier import Tier

pytestmark = pytest.mark.usefixtures("own_cache")

CONFIRM = MeasureOptions(tier=Tier.CONFIRM)
CALL_US = 200.0


def confirmed(candidate: Script, *, baseline: Script | None = None) -> Timing | Verdict:
    return timed(site_of(candidate, baseline or honest(CALL_US)), options=CONFIRM)


def site_of(candidate: Script, baseline: Script) -> TimedArraySite:
    site = timed_site(candidate)
    site.scripts = {"candidate": candidate, "baseline": baseline}
    return site


def test_merging_calls_is_found_out_where_a_call_is_alone() -> None:
    outcome = confirmed(merging(CALL_US))
    assert isinstance(outcome, Quarantined)
    assert "alone in its batch" in outcome.reason


def test_a_first_call_that_is_a_little_slower_is_let_be() -> None:
    outcome = confirmed(slow_to_begin(CALL_US, 8.0))
    assert isinstance(outcome, Timing)
    assert outcome.times[0][1] == pytest.approx(CALL_US, rel=0.01)


def test_what_first_calls_of_the_baseline_take_more_is_let_be_too() -> None:
    candidate = slow_to_begin(CALL_US, 60.0)
    assert isinstance(confirmed(candidate), Quarantined)
    assert isinstance(confirmed(candidate, baseline=slow_to_begin(CALL_US, 60.0)), Timing)


def test_dawdling_in_short_batches_of_several_calls_bends_the_line() -> None:
    outcome = confirmed(slow_to_begin_in_company(60.0, 110.0), baseline=honest(60.0))
    assert isinstance(outcome, Quarantined)
    assert "first calls of a batch" in outcome.reason


def test_beside_a_slow_baseline_nobody_dawdles_unseen_either() -> None:
    site = timed_site(slow_in_short_batches(CALL_US), baseline_us=20_000.0)
    assert isinstance(timed(site), Quarantined)
    site = timed_site(merging(CALL_US), baseline_us=20_000.0)
    assert isinstance(timed(site, options=CONFIRM), Quarantined)


def test_a_quick_kernel_beside_a_slow_baseline_is_done_when_its_time_is_sure() -> None:
    site = timed_site(honest(CALL_US), baseline_us=20_000.0)
    outcome = timed(site, options=CONFIRM)
    assert isinstance(outcome, Timing)
    assert outcome.sizes[0].blocks == 12


def test_outliers_of_the_machine_accuse_nobody() -> None:
    """Most of the first blocks are spoilt: more are asked before anybody is accused."""
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
    assert isinstance(outcome, Timing)
    assert outcome.times[0][1] == pytest.approx(CALL_US, rel=0.02)
    assert outcome.sizes[0].blocks > 3


def test_where_trusted_batches_begin_as_unevenly_nobody_is_accused_or_believed() -> None:
    begun = 0

    def held_up(call: Call) -> float:
        nonlocal begun
        add(call)
        if call.warm_up or call.step:
            return CALL_US
        begun += 1
        return CALL_US + (0.0, 200.0, 900.0)[begun % 3]

    outcome = timed(site_of(slow_to_begin(CALL_US, 500.0), held_up))
    assert isinstance(outcome, InfraFailed)
    assert "judge it again" in outcome.detail
    assert isinstance(timed(site_of(slow_to_begin(CALL_US, 5000.0), held_up)), Quarantined)


def test_a_screen_makes_no_single_calls_but_its_last() -> None:
    site = timed_site(honest(CALL_US))
    timed(site)
    lengths = [len(batch.order) for batch in site.session_of("candidate").orders]
    assert lengths.count(1) <= len(lengths) / 2
    site = timed_site(honest(CALL_US))
    timed(site, options=CONFIRM)
    lengths = [len(batch.order) for batch in site.session_of("candidate").orders]
    assert lengths[-32:] == [1] * 32


def test_where_the_host_counts_too_single_calls_are_not_held_against_graphs() -> None:
    site = timed_site(slow_to_begin(CALL_US, 100.0))
    site.time_class = TimeClass.HOST_INCLUSIVE
    assert isinstance(timed(site, options=CONFIRM), Timing)
    site = timed_site(slow_to_begin(CALL_US, 400.0))
    site.time_class = TimeClass.HOST_INCLUSIVE
    assert isinstance(timed(site, options=CONFIRM), Quarantined)


def test_a_single_call_that_is_wrong_is_that() -> None:
    outcome = confirmed(wrong_in_the_last_call)
    assert getattr(outcome, "code", None) == "WRONG_RESULT"
