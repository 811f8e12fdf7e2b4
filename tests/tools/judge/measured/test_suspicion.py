"""Whether the time of a call depends on how many are timed, and who is told so."""

import asyncio
from types import SimpleNamespace

import pytest
from simulated_clock import pair_without_noise
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
from cuda_llm.tools.judge.measured.batches import Rules, secret_rng
from cuda_llm.tools.judge.measured.entrants import Fault, Lanes
from cuda_llm.tools.judge.measured.options import L2, MeasureOptions
from cuda_llm.tools.judge.measured.suspicion import (
    ACCUSING_BLOCKS,
    DOUBTING_BLOCKS,
    find_dependence,
    wants_more,
)
from cuda_llm.tools.judge.timing import Timing
from cuda_llm.tools.timing.block import Block
from cuda_llm.tools.timing.comparison import compare_blocks
from cuda_llm.tools.timing.stopping import rule_for
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


def seen_beside_a_noisy_baseline(start_us: float, count: int) -> tuple[Fault | None, bool]:
    """Of a candidate whose batches begin so late; and whether more blocks are wanted."""
    candidate, baseline = (
        SimpleNamespace(trusted=trusted, time_class=TimeClass.DEVICE) for trusted in (False, True)
    )
    lanes = Lanes(first=candidate, second=baseline, ground=baseline)  # type: ignore[arg-type]
    blocks = [
        Block(
            first=pair_without_noise(CALL_US, start_us=start_us),
            second=pair_without_noise(CALL_US, start_us=(20.0, 300.0, 900.0)[number % 3]),
            empty=pair_without_noise(0.0),
        )
        for number in range(count)
    ]
    rules = Rules(oracle=None, rng=secret_rng(), l2=L2.COLD, limit_s=1.0)  # type: ignore[arg-type]
    screen = rule_for(Tier.SCREEN, sizes=1)
    found = find_dependence(lanes, blocks, rules, screen, compare_blocks(blocks))
    return asyncio.run(found), wants_more(lanes, blocks)


def test_where_trusted_batches_begin_as_unevenly_nobody_is_accused_or_believed() -> None:
    found, more = seen_beside_a_noisy_baseline(900.0, ACCUSING_BLOCKS)
    assert found is not None
    assert isinstance(found.verdict, InfraFailed)
    assert "judge it again" in found.verdict.detail
    assert more
    found, more = seen_beside_a_noisy_baseline(900.0, DOUBTING_BLOCKS)
    assert found is not None
    assert isinstance(found.verdict, InfraFailed)
    assert not more
    found, more = seen_beside_a_noisy_baseline(9000.0, ACCUSING_BLOCKS)
    assert found is not None
    assert isinstance(found.verdict, Quarantined)
    assert not more


def test_a_screen_makes_no_single_calls_but_its_last() -> None:
    # So quick that the shorter batches have more than one call, whatever is drawn.
    site = timed_site(honest(CALL_US / 10))
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
