"""What diagnoses predicted beside what came of it, and what that does to their rank."""

from dataclasses import replace

import pytest

from cuda_llm.predictions import PRIOR, Prediction, discern, rank, tally
from cuda_llm.profile import Bottleneck


def prediction(code: str, saved_us: float, had_us: float | None) -> Prediction:
    return Prediction(code=code, time_us=100.0, saved_us=saved_us, had_us=had_us)


def bottleneck(code: str, saved_us: float) -> Bottleneck:
    return Bottleneck(code=code, share=0.3, explanation=code, saved_us=saved_us, time_us=100.0)


def test_a_kind_that_comes_true_keeps_its_trust_and_one_that_does_not_loses_it() -> None:
    tried = [
        prediction("latency", 20, 0),
        prediction("latency", 20, -5),
        prediction("tail", 10, 12),
    ]
    latency, tail = tally(tried)
    assert (latency.code, latency.tried, latency.came_true) == ("latency", 2, 0)
    assert latency.trust == pytest.approx(PRIOR / (PRIOR + 2))
    assert (tail.trust, tail.came_true) == (1.0, 1)


def test_half_of_what_was_predicted_counts_half() -> None:
    (record,) = tally([prediction("issue", 20, 10)])
    assert record.trust == pytest.approx((PRIOR + 0.5) / (PRIOR + 1))
    assert record.came_true == 1


def test_an_attempt_that_failed_says_nothing_of_the_diagnosis() -> None:
    assert tally([prediction("issue", 20, None)]) == ()


def test_rank_is_the_saving_times_the_trust_and_what_has_no_mend_keeps_its_place() -> None:
    listed = (bottleneck("latency", 20), bottleneck("tail", 15), bottleneck("dram_bandwidth", 0))
    assert rank(listed, []) == listed
    failed = [prediction("latency", 20, 0)] * 2
    assert [one.code for one in rank(listed, failed)] == ["tail", "latency", "dram_bandwidth"]


def test_what_critiques_expected_is_kept_apart_and_moves_no_rank() -> None:
    listed = (bottleneck("latency", 20), bottleneck("tail", 15))
    wrong = [replace(prediction("latency", 20, 0), by="critique") for _ in range(9)]
    assert rank(listed, wrong) == listed
    ours, theirs = tally([*wrong, prediction("latency", 20, 20)])[::-1]
    assert (ours.by, ours.tried, ours.came_true) == ("diagnosis", 1, 1)
    assert (theirs.by, theirs.tried, theirs.came_true) == ("critique", 9, 0)


@pytest.mark.parametrize(
    ("saved_us", "had_us", "expected"),
    [(1.0, 9.0, "none"), (10.0, -1.9, 0.0), (10.0, 2.5, 2.5), (10.0, None, None)],
)
def test_what_two_times_cannot_show_is_neither_predicted_nor_had(
    saved_us: float, had_us: float | None, expected: object
) -> None:
    given = Prediction(code="latency", time_us=100.0, saved_us=saved_us, had_us=had_us)
    shown = discern(given, 0.02)
    assert (shown.had_us if shown else "none") == expected
