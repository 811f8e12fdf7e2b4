"""What is left to gain: a search stops where that is nothing, an order says what it is at most."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from graph_runs import context_in
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.agents.limits import (
    most_to_gain,
    open_above_baseline,
    possible_saving,
    possible_savings,
    share_of_limit,
)
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.builtin import MARGIN, at_the_limit, find_strategy
from cuda_llm.graph.view import situation_of
from cuda_llm.profile import Bottleneck, LaunchProfile, Objective, Profile
from cuda_llm.search import Attempt, Kind
from cuda_llm.tasks.sizes import least_time
from cuda_llm.time_terms import combine

SIZES = ({"n": 1 << 20}, {"n": 1 << 24})


@pytest.fixture(scope="module")
def nothing_yet(tmp_path_factory: pytest.TempPathFactory) -> Situation:
    folder: Path = tmp_path_factory.mktemp("limit")
    situation = situation_of({}, context_in(folder))
    return replace(situation, sizes=SIZES)


def attainable_us(situation: Situation, dims: Mapping[str, int]) -> float:
    return least_time(situation.task, situation.hardware, dims).reachable_us


def at(situation: Situation, *factors: float) -> Situation:
    """With an incumbent that takes so many times the least time at each size."""
    times = (f * attainable_us(situation, d) for f, d in zip(factors, SIZES, strict=True))
    incumbent = Attempt(
        id="r1-c1",
        round=1,
        index=1,
        kind=Kind.FIRST,
        written_by="model",
        code="PASSED",
        times_us=tuple(times),
    )
    return replace(situation, incumbent=incumbent)


def test_vector_add_cannot_beat_its_bytes(nothing_yet: Situation) -> None:
    """Three floats an element at nine tenths of 1,008 GB/s, a launch, and a load from DRAM that
    takes 470 clocks at 1,860 MHz."""
    least_us = 3 * 4 * (1 << 24) / (0.9 * 1008e3) + 1.0 + 470 / 1860
    assert attainable_us(nothing_yet, {"n": 1 << 24}) == pytest.approx(least_us, rel=1e-6)


def test_a_small_size_is_promised_no_less_than_a_launch_and_a_round_trip(
    nothing_yet: Situation,
) -> None:
    least = least_time(nothing_yet.task, nothing_yet.hardware, {"n": 1})
    assert least.attainable_us == pytest.approx(1.0, abs=0.001)
    assert least.reachable_us == pytest.approx(1.0 + 470 / 1860, abs=0.001)


@given(st.floats(1 / MARGIN + 1e-6, MARGIN - 1e-6))
def test_a_kernel_at_its_roofline_ends_the_search(nothing_yet: Situation, factor: float) -> None:
    assert at_the_limit(at(nothing_yet, factor, factor)) == "r1-c1 runs at the hardware's limit"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("fsr", "r1-c1 runs at the hardware's limit"), ("fsr-paper", ""), ("best-of-n", "")],
)
def test_only_fsr_stops_at_the_hardwares_limit(
    nothing_yet: Situation, name: str, reason: str
) -> None:
    assert find_strategy(name).stop(at(nothing_yet, 1.0, 1.0)) == reason


@given(st.floats(MARGIN + 1e-6, 100))
def test_a_kernel_slower_than_its_roofline_does_not_end_the_search(
    nothing_yet: Situation, factor: float
) -> None:
    assert at_the_limit(at(nothing_yet, factor, factor)) == ""


def test_a_kernel_faster_than_its_roofline_may_become_faster_still(
    nothing_yet: Situation,
) -> None:
    assert at_the_limit(at(nothing_yet, 0.5, 0.5)) == ""


def test_a_size_beyond_its_limit_makes_up_for_no_other(nothing_yet: Situation) -> None:
    found = at(nothing_yet, 1.1, 1 / 1.1)
    assert found.incumbent is not None
    assert share_of_limit(found, found.incumbent) == pytest.approx(1.0)
    assert at_the_limit(found) == ""


def test_without_an_incumbent_nothing_is_at_its_limit(nothing_yet: Situation) -> None:
    assert at_the_limit(nothing_yet) == ""


def profiled(*bottlenecks: Bottleneck, **terms_us: float) -> Profile:
    launch = LaunchProfile(
        kernel="k",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        shared_bytes=0,
        occupancy=1.0,
        time_us=combine(terms_us),
        terms_us=terms_us,
    )
    launches = (launch,) if terms_us else ()
    return Profile(
        device="a", hardware="b", source="modelled", launches=launches, bottlenecks=bottlenecks
    )


def found(code: str, share: float, saved_us: float = 0.0) -> Bottleneck:
    return Bottleneck(code=code, share=share, explanation=code, saved_us=saved_us, time_us=100.0)


def test_taking_a_term_away_saves_down_to_what_the_others_take() -> None:
    profile = profiled(shared=80.0, l1=20.0, issue=50.0, launch=1.0)
    assert possible_saving(profile, "shared_bandwidth") == pytest.approx(0.51, abs=0.02)
    assert possible_saving(profile, "issue") == pytest.approx(0.015, abs=0.01)


def test_one_launch_has_to_stay() -> None:
    one = profiled(issue=2.0, launch=1.0)
    assert possible_saving(one, "launch_overhead") == 0.0
    assert "launch_overhead" not in possible_savings(one)
    (launch,) = one.launches
    small = replace(launch, time_us=2.0, terms_us={"issue": 1.0, "launch": 1.0})
    two = replace(one, launches=(launch, small))
    assert possible_saving(two, "launch_overhead") == pytest.approx(0.2)


def test_what_its_mend_saves_counts_where_that_is_more() -> None:
    terms = {"shared": 80.0, "issue": 79.0}
    fixed = found("shared_bandwidth", 0.4, saved_us=40.0)
    assert possible_saving(profiled(fixed, **terms), "shared_bandwidth") == 0.4
    heavy = possible_saving(profiled(found("shared_bandwidth", 0.5), **terms), "shared_bandwidth")
    assert heavy is not None
    assert heavy < 0.2


def test_a_waste_that_no_model_lists_is_not_there_and_a_measured_one_is_unknown() -> None:
    modelled = profiled(found("bank_conflicts", 0.3), shared=10.0)
    assert possible_saving(modelled, "bank_conflicts") == 0.3
    assert possible_saving(modelled, "divergence") == 0.0
    measured = replace(profiled(found("dram_bandwidth", 0.6)), source="measured")
    assert possible_saving(measured, "divergence") is None
    assert possible_saving(measured, "dram_bandwidth") == 0.6
    assert possible_saving(measured, "issue") is None


def test_savings_are_of_what_is_listed_and_of_terms_worth_a_try() -> None:
    profile = profiled(found("issue", 0.2), dram=100.0, issue=60.0, fp32=10.0)
    savings = possible_savings(profile)
    assert list(savings) == ["dram_bandwidth", "issue"]


def test_what_the_baseline_leaves_is_what_a_first_kernel_may_gain(nothing_yet: Situation) -> None:
    least = tuple(attainable_us(nothing_yet, dims) for dims in SIZES)
    assert open_above_baseline(nothing_yet) == 0.0
    slow = replace(nothing_yet, baseline_us=tuple(4 * one for one in least))
    assert open_above_baseline(slow) == pytest.approx(0.75)
    fast = replace(nothing_yet, baseline_us=tuple(0.5 * one for one in least))
    assert open_above_baseline(fast) == 0.0


@pytest.mark.parametrize(
    ("objective", "size", "share"),
    [("geomean", 0, 8**-0.5), ("largest", 1, 0.5), ("worst", 1, 0.5)],
)
def test_the_objective_decides_where_there_is_something_to_gain(
    nothing_yet: Situation, objective: Objective, size: int, share: float
) -> None:
    """The small size is farther from its limit; the large one is the worst beside the baseline."""
    least_us = [attainable_us(nothing_yet, dims) for dims in SIZES]
    seen = at(nothing_yet, 4.0, 2.0)
    asked = replace(
        seen,
        task=replace(seen.task, objective=objective),
        baseline_us=(8.0 * least_us[0], 2.2 * least_us[1]),
    )
    assert asked.incumbent is not None
    assert most_to_gain(asked, asked.incumbent) == size
    assert share_of_limit(asked, asked.incumbent) == pytest.approx(share)
