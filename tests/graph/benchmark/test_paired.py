"""Paired comparisons: what scaling, swapping and equality of two arms do to ratio and interval."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from corpus_sample import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cuda_llm.graph.benchmark.paired import (
    FEWEST_PAIRS,
    PairedComparison,
    bootstrap,
    compare_pairs,
    widening,
)
from cuda_llm.graph.benchmark.row import SizeRow, TaskRow
from cuda_llm.profile import TimeSource

SIZE = SizeRow(dims={"n": 7}, baseline_us=2.0, best_us=1.0, least_us=0.5)
EXAMPLES = settings(max_examples=examples(40), deadline=None)
FACTORS = st.floats(min_value=0.1, max_value=100)
ARMS = st.lists(
    st.lists(st.tuples(FACTORS, FACTORS), min_size=1, max_size=6), min_size=1, max_size=4
)
"""Of each task and seed the speed-up of the reference and that of the other value."""


def row(task: str, setting: dict[str, Any], speedup: float | None, **more: Any) -> TaskRow:
    known: dict[str, Any] = {"state": "done", "time_source": "modelled", "best": "r1-c1", **more}
    return TaskRow(task=task, setting=setting, sizes=(SIZE,), speedup=speedup, **known)


def rows_of(arms: Sequence[Sequence[tuple[float, float]]], **more: Any) -> list[TaskRow]:
    return [
        row(f"task{number}", {"rounds": rounds, "seed": seed}, factor, **more)
        for number, pairs in enumerate(arms)
        for seed, pair in enumerate(pairs)
        for rounds, factor in zip((1, 3), pair, strict=True)
    ]


def compared(arms: Sequence[Sequence[tuple[float, float]]]) -> PairedComparison:
    (found,) = compare_pairs(rows_of(arms))
    return found


@EXAMPLES
@given(ARMS, st.floats(min_value=0.2, max_value=5))
def test_scaling_one_arm_scales_ratio_and_interval(
    arms: list[list[tuple[float, float]]], scale: float
) -> None:
    before = compared(arms)
    after = compared([[(a, b * scale) for a, b in pairs] for pairs in arms])
    for name in ("ratio", "low", "high"):
        assert getattr(after, name) == pytest.approx(scale * getattr(before, name))


@EXAMPLES
@given(ARMS)
def test_swapping_the_arms_inverts_ratio_and_interval(
    arms: list[list[tuple[float, float]]],
) -> None:
    one, other = compared(arms), compared([[(b, a) for a, b in pairs] for pairs in arms])
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert (other.low, other.high) == pytest.approx((1 / one.high, 1 / one.low))
    opposite = {"faster": "slower", "slower": "faster"}
    assert other.finding == opposite.get(one.finding, one.finding)


@EXAMPLES
@given(ARMS)
def test_equal_arms_are_a_tie(arms: list[list[tuple[float, float]]]) -> None:
    found = compared([[(a, a) for a, _ in pairs] for pairs in arms])
    assert (found.ratio, found.low, found.high, found.finding) == (1.0, 1.0, 1.0, "tie")


@EXAMPLES
@given(ARMS)
def test_the_ratio_lies_between_the_least_and_the_greatest_pair(
    arms: list[list[tuple[float, float]]],
) -> None:
    found, ratios = compared(arms), [b / a for pairs in arms for a, b in pairs]
    slack = 1 + 1e-9
    assert min(ratios) / slack <= found.ratio <= max(ratios) * slack
    assert found.low / slack <= found.ratio <= found.high * slack
    assert (found.pairs, found.tasks) == (len(ratios), len(arms))


@given(st.integers(1, 2 * FEWEST_PAIRS), st.floats(min_value=1.5, max_value=9))
def test_few_pairs_tell_no_difference(count: int, gain: float) -> None:
    found = compared([[(2.0, 2.0 * gain)] * count])
    assert found.finding == ("faster" if count >= FEWEST_PAIRS else "too few pairs")


def test_a_difference_that_equal_kernels_may_have_is_a_tie() -> None:
    one = [[(2.0, 2.06 + seed * 1e-4) for seed in range(6)]]
    (sure,) = compare_pairs(rows_of(one, spread=0.001))
    (unsure,) = compare_pairs(rows_of(one, spread=0.05))
    assert (sure.finding, unsure.finding) == ("faster", "tie")
    assert unsure.floor == pytest.approx(0.05 * 2**0.5)
    assert 1 < unsure.low < unsure.high, "the interval alone would tell a difference"


@pytest.mark.parametrize(("tasks", "pairs"), [(1, 5), (1, 12), (6, 1), (5, 3)])
def test_nineteen_of_twenty_intervals_hold_the_true_ratio(tasks: int, pairs: int) -> None:
    """Ratios of a log-normal law around 1: what calls itself 95 % is at least nearly that."""
    draw = np.random.default_rng(5)
    held = 0
    for _ in range(200):
        logs = [
            draw.normal(0, 0.2) * (tasks > 1) + draw.normal(0, 0.2, pairs) for _ in range(tasks)
        ]
        _, low, high = bootstrap(logs)
        held += low <= 1 <= high
    assert held >= 182


def test_the_widening_is_that_of_student_s_t() -> None:
    """Quantiles of t from tables: 2.776 at 4 degrees of freedom, 2.262 at 9, 2.093 at 19."""
    for count, quantile in ((5, 2.776), (10, 2.262), (20, 2.093)):
        expected = quantile / 1.960 * (count / (count - 1)) ** 0.5
        assert widening(count) == pytest.approx(expected, rel=4e-3)
    assert widening(1) == 1.0
    assert 1 < widening(10_000) < 1.001


def test_modelled_and_measured_runs_are_never_pooled() -> None:
    sources: tuple[TimeSource, ...] = ("measured", "modelled")
    rows = [
        row("task", {"rounds": rounds, "seed": seed}, 2.0, time_source=source)
        for source in sources
        for rounds in (1, 3)
        for seed in (range(0, 2) if source == "measured" else range(2, 5))
    ]
    assert [(one.time_source, one.pairs) for one in compare_pairs(rows)] == [
        ("measured", 2),
        ("modelled", 3),
    ]
    mixed = [row("task", {"rounds": 1, "seed": 0}, 2.0, time_source="measured")]
    mixed += [row("task", {"rounds": 3, "seed": 0}, 2.0, time_source="modelled")]
    assert compare_pairs(mixed) == ()


def test_pairs_differ_in_one_option_alone_and_runs_without_a_pair_are_counted() -> None:
    factors = {(1, "full"): 2.0, (3, "full"): 4.0, (1, "none"): 3.0, (3, "none"): 6.0}
    rows = [
        row("task", {"rounds": rounds, "hardware_context": told, "seed": seed}, factor)
        for (rounds, told), factor in factors.items()
        for seed in range(3)
    ]
    failed = row("task", {"rounds": 3, "hardware_context": "none", "seed": 2}, None, state="failed")
    deeper, blind = compare_pairs([*rows[:-1], failed])
    assert (deeper.option, deeper.ratio, deeper.pairs, deeper.unpaired) == ("rounds", 2.0, 5, 1)
    assert (blind.option, blind.value, blind.reference) == ("hardware_context", "none", "full")
    assert blind.ratio == pytest.approx(1.5)
    assert blind.pairs == 5


def test_a_run_without_a_kernel_counts_as_the_baseline() -> None:
    found = compared([[(4.0, 4.0)]])
    assert found.ratio == 1.0
    (lost,) = compare_pairs(
        [row("task", {"rounds": 1}, 4.0), row("task", {"rounds": 3}, None, best="")]
    )
    assert lost.ratio == pytest.approx(0.25)


@EXAMPLES
@given(ARMS)
def test_an_interval_is_the_same_each_time(arms: list[list[tuple[float, float]]]) -> None:
    assume(len(arms) > 1)
    assert compared(arms) == compared(arms)
