"""Intervals of a contest that hold at every look, and where the next blocks go."""

import math
from dataclasses import replace

import numpy as np
import pytest

from cuda_llm.agents.strategies.acceptance import TIE
from cuda_llm.tools.timing.sequential import (
    GAIN_OF_A_PASS,
    PROCESS_DEVIATION,
    TIE_MARGIN,
    Score,
    SizeScore,
    decide,
    decide_at_last,
    join_sizes,
    join_worst,
    plan_pass,
    score_size,
    student_quantile,
)


@pytest.mark.parametrize(
    ("probability", "freedom", "known"),
    [(0.975, 10, 2.228), (0.975, 4, 2.776), (0.995, 20, 2.845), (0.999, 5, 5.893), (0.9, 3, 1.638)],
)
def test_quantiles_of_students_t_are_those_of_the_tables(
    probability: float, freedom: float, known: float
) -> None:
    assert student_quantile(probability, freedom) == pytest.approx(known, rel=0.02)


def test_the_margin_is_that_of_strategies() -> None:
    assert TIE == TIE_MARGIN


def score(mean: float, error: float) -> Score:
    return Score(mean=mean, error=error, freedom=40.0)


@pytest.mark.parametrize(
    ("mean", "error", "outcome"),
    [
        (0.0, 0.005, "tie"),
        (0.0, 0.02, None),
        (0.05, 0.01, "slower"),
        (-0.05, 0.01, "faster"),
        (0.015, 0.001, "slower"),
        (0.015, 0.005, None),
    ],
)
def test_a_contest_ends_beyond_the_floor_or_within_the_margin(
    mean: float, error: float, outcome: str | None
) -> None:
    assert decide(score(mean, error), look=1) == outcome


def test_in_the_end_a_difference_has_to_be_nearer_to_the_margin() -> None:
    assert decide_at_last(score(-0.018, 0.003), look=4) == "faster"
    assert decide_at_last(score(-0.012, 0.003), look=4) == "tie"
    assert decide_at_last(score(-0.018, 0.02), look=4) == "tie"


def test_each_look_widens_the_interval_and_the_last_spends_what_is_left() -> None:
    one = score(0.0, 0.01)
    widths = [one.half_width(look) for look in range(1, 6)]
    assert widths == sorted(widths)
    assert one.half_width(5, last=True) < one.half_width(2)


def test_intervals_hold_at_all_looks_together() -> None:
    """The truth is left out by any of eight looks in at most 5 of 100, whenever it would end."""
    rng, missed, trials = np.random.default_rng(1), 0, 400
    for _ in range(trials):
        logs = [list(rng.normal(0.0, 0.02, 3)) for _ in range(3)]
        out = False
        for look in range(1, 9):
            whole = join_sizes([score_size(one) for one in logs], ())
            out |= abs(whole.mean) > whole.half_width(look)
            for one in logs:
                one += rng.normal(0.0, 0.02, 2).tolist()
        missed += out
    assert missed <= 0.05 * trials


def test_a_block_that_was_held_up_counts_as_no_farther_than_three_deviations() -> None:
    quiet = [0.01, -0.01, 0.005, -0.005, 0.0, 0.01, -0.01, 0.0]
    held_up = score_size([*quiet, 5.0])
    assert abs(held_up.mean) < 0.01
    assert held_up.deviation > score_size(quiet).deviation


def test_no_number_of_blocks_lessens_what_processes_differ_by() -> None:
    many = SizeScore(mean=0.0, deviation=0.001, blocks=10_000)
    assert join_sizes([many], ()).error == pytest.approx(PROCESS_DEVIATION, rel=0.01)
    assert join_sizes([many], ()).is_settled
    assert not join_sizes([replace(many, deviation=0.02, blocks=9)], ()).is_settled


def test_weights_make_one_score() -> None:
    sizes = [SizeScore(mean=mean, deviation=0.01, blocks=4) for mean in (0.0, 0.04)]
    assert join_sizes(sizes, (1.0, 3.0)).mean == pytest.approx(0.03)
    assert join_sizes(sizes, ()).mean == pytest.approx(0.02)


def test_a_pass_goes_where_it_tells_most_a_second() -> None:
    noisy = SizeScore(mean=0.0, deviation=0.04, blocks=3)
    quiet = replace(noisy, deviation=0.005)
    assert plan_pass([noisy, quiet], (), (0.1, 0.1))[1] == 0
    dear, cheap = plan_pass([noisy, noisy], (), (1.0, 0.05))
    assert cheap > dear
    heavy, light = plan_pass([noisy, noisy], (5.0, 1.0), (0.1, 0.1))
    assert heavy > light


def test_a_pass_lessens_the_variance_by_its_gain() -> None:
    sizes = [SizeScore(mean=0.0, deviation=deviation, blocks=3) for deviation in (0.04, 0.02, 0.01)]
    more = plan_pass(sizes, (), (0.1, 0.1, 0.1))
    before = sum(one.deviation**2 / one.blocks for one in sizes)
    after = sum(
        one.deviation**2 / (one.blocks + added) for one, added in zip(sizes, more, strict=True)
    )
    assert after <= before / GAIN_OF_A_PASS
    assert math.sqrt(after) > 0.5 * math.sqrt(before)


def worst_score(means: list[float], places: list[float], *, blocks: int = 40) -> Score:
    sizes = [SizeScore(mean=mean, deviation=0.01, blocks=blocks) for mean in means]
    return join_worst(sizes, places)


def test_a_worst_size_is_compared_with_the_worst_of_the_incumbent() -> None:
    """A gain where the incumbent is not at its worst is none; a loss that makes a new worst is."""
    assert worst_score([-0.5, 0.0], [-1.0, 0.0]).mean == pytest.approx(0.0)
    assert worst_score([0.0, -0.2], [-1.0, 0.0]).mean == pytest.approx(-0.2)
    assert worst_score([0.5, -2.0], [-0.1, 0.0]).mean == pytest.approx(0.4)


def test_only_sizes_that_may_be_the_worst_count_for_its_doubt() -> None:
    alone = worst_score([0.0, 0.0], [-1.0, 0.0])
    assert alone.sizes == 1
    assert alone.error == pytest.approx(join_sizes([score_of(40)], ()).error)
    assert worst_score([0.0, 0.0], [0.0, 0.0]).sizes == 2
    elsewhere = worst_score([0.5, -2.0], [-0.1, 0.0])
    assert elsewhere.error == pytest.approx(math.sqrt(2) * alone.error)


def score_of(blocks: int) -> SizeScore:
    return SizeScore(mean=0.0, deviation=0.01, blocks=blocks)


def test_the_interval_of_a_worst_size_holds_as_often_as_it_says() -> None:
    """Three sizes of which each may be the worst: the largest of noisy means is too large."""
    rng = np.random.default_rng(5)
    true = np.array([0.0, 0.002, -0.001])
    missed = 0
    for _ in range(400):
        logs = true[:, None] + 0.02 * rng.standard_normal((3, 30))
        found = join_worst([score_size(list(one)) for one in logs], [0.0, 0.0, 0.0])
        missed += abs(found.mean - true.max()) > found.half_width(1, last=True)
    assert missed / 400 <= 0.05
