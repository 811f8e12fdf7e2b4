"""Calls run step by step, compared with slopes: merging is found, honest kernels pass."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cuda_llm.tools.timing.cheating import LOOK_EVERY
from cuda_llm.tools.timing.excess import StepwiseBatches, find_merged_calls
from cuda_llm.tools.timing.slope import BatchPair, choose_lengths, draw_lengths

START_US, STEP_US, DEVIATION_US = 60.0, 25.0, 6.0
"""Of a batch, of everything in a step but its call, and of a batch's time, as seen on an H200."""
APART_US, HANDING_US = 60.0, 30.0
"""Of a step and of a batch's time where keys are released step by step."""
BLOCKS, ROUNDS, CALLS = 12, 12, 64
LOUDER = HANDING_US / DEVIATION_US
Noise = Callable[[np.random.Generator, int], np.ndarray]


def even(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.normal(0, DEVIATION_US, count)


def skewed(rng: np.random.Generator, count: int) -> np.ndarray:
    """A twentieth of the batches is held up."""
    held_up = np.where(rng.random(count) < 0.05, 30 * (1 + rng.pareto(1.5, count)), 0)
    return rng.gamma(2, DEVIATION_US / np.sqrt(2), count) + held_up


def with_outliers(rng: np.random.Generator, count: int) -> np.ndarray:
    return even(rng, count) + np.where(rng.random(count) < 0.1, 1000.0, 0.0)


def looked_at(
    seed: int,
    apart_us: float,
    among_us: float,
    *,
    noise: Noise = even,
    first_us: float = 0.0,
    calls: int = CALLS,
    looks: tuple[int, ...] = (ROUNDS,),
) -> tuple[float, int]:
    """Microseconds beyond what is allowed of `apart_us` step by step and `among_us` in a batch, and
    the rounds after which it is known: the first of `looks` at which it is clear, or the last."""
    rng = np.random.default_rng(seed)
    lengths = choose_lengths(call_us=among_us, overhead_us=STEP_US, aim=0.002, most=256)

    def pair(call_us: float, more_us: float) -> BatchPair:
        drawn = draw_lengths(lengths, rng)
        short, long = (
            (START_US + more_us + k * (STEP_US + call_us) + noise(rng, 1)[0]) / 1e6 for k in drawn
        )
        return BatchPair(short=drawn[0], short_s=short, long=drawn[1], long_s=long)

    own = [pair(among_us, first_us) for _ in range(BLOCKS)]
    empties = [pair(0.0, 0.0) for _ in range(BLOCKS)]
    one, none, usual = (
        tuple(
            (START_US + more_us + calls * (APART_US + call_us) + LOUDER * noise(rng, ROUNDS)) / 1e6
        )
        for call_us, more_us in ((apart_us, first_us), (0.0, 0.0), (among_us, 0.0))
    )
    for rounds in looks:
        stepwise = StepwiseBatches(
            calls=calls,
            own=one[:rounds],
            empty=none[:rounds],
            usual=usual[:rounds],
            usual_call_us=among_us,
        )
        merged = find_merged_calls(stepwise, own, empties)
        if merged.is_clear:
            break
    assert merged.is_clear + merged.is_sure + merged.is_vague <= 1
    return merged.beyond_us if merged.is_sure else 0.0, rounds


def found(seed: int, apart_us: float, among_us: float, **known: Any) -> float:
    """See `looked_at`; only by the last look."""
    return looked_at(seed, apart_us, among_us, **known)[0]


EARLY = (LOOK_EVERY, 2 * LOOK_EVERY, ROUNDS)


@pytest.mark.parametrize("noise", [even, skewed])
@pytest.mark.parametrize("call_us", [12.0, 50.0, 200.0])
def test_who_merges_two_calls_is_not_let_go_early(noise: Noise, call_us: float) -> None:
    for seed in range(100):
        early = looked_at(seed, call_us, call_us / 2, noise=noise, looks=EARLY)
        assert early == (found(seed, call_us, call_us / 2, noise=noise), ROUNDS)


@pytest.mark.parametrize("noise", [even, skewed])
def test_honest_kernels_are_let_go_after_a_third_of_the_batches(noise: Noise) -> None:
    """Of calls of 50 us, which take half as much longer step by step as they may."""
    rounds = [looked_at(seed, 52.3, 50.0, noise=noise, looks=EARLY)[1] for seed in range(60)]
    assert sum(rounds) / len(rounds) < 1.3 * LOOK_EVERY


@pytest.mark.parametrize("noise", [even, skewed])
@pytest.mark.parametrize("call_us", [12.0, 50.0, 200.0])
def test_merging_two_calls_is_found_out(noise: Noise, call_us: float) -> None:
    seeds = range(100)
    assert sum(found(seed, call_us, call_us / 2, noise=noise) > 0 for seed in seeds) >= 95


def test_merging_calls_of_6_us_is_not_found_out_as_is_said() -> None:
    assert sum(found(seed, 6.0, 3.0) > 0 for seed in range(20)) == 0


@pytest.mark.parametrize("noise", [even, skewed])
@pytest.mark.parametrize("call_us", [5.0, 50.0, 500.0])
def test_an_honest_kernel_is_not_quarantined(call_us: float, noise: Noise) -> None:
    for seed in range(60):
        first_us = 8.0 * (seed % 2)
        calls = (1, 8, 64)[seed % 3]
        assert found(seed, call_us, call_us, noise=noise, first_us=first_us, calls=calls) == 0.0


def test_outliers_of_a_machine_quarantine_no_kernel() -> None:
    beyond_us = [found(seed, 50.0, 50.0, noise=with_outliers) for seed in range(100)]
    assert sum(one > 0 for one in beyond_us) <= 1


EMPTIES = [BatchPair(short=2, short_s=1e-4, long=40, long_s=1e-4 + 38 * 4e-5)] * BLOCKS
OWN = [BatchPair(short=2, short_s=1e-4, long=40, long_s=1e-4 + 38 * 7e-5)] * BLOCKS
"""Calls of 30 us."""
QUIET = (1e-4 + 10 * 6e-5,) * ROUNDS


def test_noise_of_the_kernels_own_making_hides_nothing() -> None:
    """Apart it is slower now and then, to make its times look unsure."""
    loud = tuple(QUIET[0] + 10 * 6e-5 + (5e-4 if number % 2 else 0.0) for number in range(ROUNDS))
    assert find_merged_calls(StepwiseBatches(calls=10, own=loud, empty=QUIET), OWN, EMPTIES).is_sure


def test_what_the_baselines_calls_take_more_apart_is_allowed() -> None:
    slow = (QUIET[0] + 10 * 5e-5,) * ROUNDS
    assert find_merged_calls(StepwiseBatches(calls=10, own=slow, empty=QUIET), OWN, EMPTIES).is_sure
    beside = StepwiseBatches(calls=10, own=slow, empty=QUIET, usual=slow, usual_call_us=30.0)
    merged = find_merged_calls(beside, OWN, EMPTIES)
    assert not merged.is_sure
    assert merged.is_vague


def test_noise_that_explains_more_than_is_allowed_decides_nothing() -> None:
    uneven = tuple(QUIET[0] + 8e-4 * (number % 2) for number in range(ROUNDS))
    slow = tuple(one + 10 * 4.5e-5 for one in QUIET)
    merged = find_merged_calls(StepwiseBatches(calls=10, own=slow, empty=uneven), OWN, EMPTIES)
    assert merged.is_vague
    honest = tuple(one + 10 * 3e-5 for one in QUIET)
    merged = find_merged_calls(StepwiseBatches(calls=10, own=honest, empty=uneven), OWN, EMPTIES)
    assert not (merged.is_vague or merged.is_sure)
