"""How sizes make the one score, and what decides it."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from cuda_llm.errors import UsageError
from cuda_llm.profile import Objective
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.objective import Scoring, scoring_of, with_objective
from cuda_llm.tasks.task import Task

TASK = load_task("vector_add")
BENCH = TASK.sizes.bench
SPEEDUPS = (4.0, 2.0, 1.0, 2.0, 8.0)


def asked(objective: Objective | None = None, weights: Sequence[float] = ()) -> Task:
    return with_objective(TASK, objective, weights)


def scoring(objective: Objective, weights: Sequence[float] = ()) -> Scoring:
    return scoring_of(asked(objective, weights), BENCH)


def test_each_objective_makes_another_score() -> None:
    assert scoring("geomean").score(SPEEDUPS) == pytest.approx(math.prod(SPEEDUPS) ** (1 / 5))
    weighted = scoring("geomean", (1, 1, 1, 1, 4))
    assert weighted.score(SPEEDUPS) == pytest.approx((16 * 8**4) ** (1 / 8))
    assert scoring("largest").score(SPEEDUPS) == pytest.approx(8.0)
    assert scoring("worst").score(SPEEDUPS) == 1.0


def test_the_sizes_that_decide_are_those_that_count() -> None:
    assert scoring("geomean").deciding(SPEEDUPS) == pytest.approx((0.2,) * 5)
    assert scoring("largest").deciding(SPEEDUPS) == (0, 0, 0, 0, 1)
    assert scoring("worst").deciding(SPEEDUPS) == (0, 0, 1, 0, 0)
    assert scoring("geomean").doubt((0.1,) * 5) == pytest.approx(0.1 * 5**-0.5)
    assert scoring("geomean").doubt((0.5, 0, 0, 0, 0)) == pytest.approx(0.1)
    assert scoring("largest").doubt((0.3, 0, 0, 0, 0.2)) == pytest.approx(0.2)
    assert scoring("worst").doubt((0.3, 0, 0, 0, 0.2)) == 0.3


def test_the_largest_is_found_in_any_order_and_among_those_that_were_timed() -> None:
    turned = scoring_of(asked("largest"), BENCH[::-1])
    assert turned.shares == (1, 0, 0, 0, 0)
    assert scoring_of(asked("largest"), BENCH[2::-2]).shares == (1, 0)


def test_weights_follow_their_sizes_in_any_order() -> None:
    weighted = scoring_of(asked(weights=(1, 1, 1, 1, 4)), BENCH[::-1])
    assert weighted.shares == (0.5, 0.125, 0.125, 0.125, 0.125)
    small = scoring_of(asked(weights=(1, 1, 1, 1, 4)), TASK.sizes.emulated[:2])
    assert small.shares == (0.5, 0.5)


@pytest.mark.parametrize(
    ("objective", "weights", "complaint"),
    [
        (None, (1, 2), "--weight: 2 given, but vector_add has 5 sizes"),
        ("worst", (1, 1, 1, 1, 2), "counts for --objective geomean alone, not for worst"),
        (None, (1, 1, 1, 1, 0), "--weight 0: expected a number above 0"),
        (None, (1, 1, 1, 1, math.nan), "--weight nan: expected a number above 0"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    objective: Objective | None, weights: Sequence[float], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        asked(objective, weights)


def test_what_a_user_asks_for_goes_before_what_the_task_says() -> None:
    own = replace(TASK, objective="worst", weights=())
    assert with_objective(own).objective == "worst"
    assert with_objective(own, "largest").objective == "largest"
    assert with_objective(own, None, (1, 1, 1, 1, 2)).objective == "geomean"
    weighted = replace(TASK, weights=(1, 1, 1, 1, 2))
    assert with_objective(weighted).weights == (1, 1, 1, 1, 2)
    assert with_objective(weighted, "largest").weights == ()
