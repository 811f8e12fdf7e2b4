"""Single calls against slopes: who merges is found out, who is honest is not accused."""

from collections.abc import Callable

import numpy as np
import pytest

from cuda_llm.tools.timing.lengths import choose_lengths, draw_lengths
from cuda_llm.tools.timing.singles import Singles, bent_us, merged_us
from cuda_llm.tools.timing.slope import Pair

START_US, STEP_US, DEVIATION_US = 60.0, 39.0, 6.0
"""Of a batch, of everything in a step but its call, and of the clock, as seen on an H200."""
BLOCKS, ROUNDS = 12, 32
Noise = Callable[[np.random.Generator, int], np.ndarray]


def even(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.normal(0, DEVIATION_US, count)


def skewed(rng: np.random.Generator, count: int) -> np.ndarray:
    """A twentieth of the batches is held up."""
    held_up = np.where(rng.random(count) < 0.05, 30 * (1 + rng.pareto(1.5, count)), 0)
    return rng.gamma(2, DEVIATION_US / np.sqrt(2), count) + held_up


def with_outliers(rng: np.random.Generator, count: int) -> np.ndarray:
    return even(rng, count) + np.where(rng.random(count) < 0.1, 1000.0, 0.0)


def found(
    seed: int, alone_us: float, among_us: float, *, noise: Noise = even, first_us: float = 0.0
) -> tuple[float, float]:
    """What both tests say of a kernel that takes `alone_us` alone and `among_us` among others."""
    rng = np.random.default_rng(seed)
    lengths = choose_lengths(call_us=among_us, overhead_us=STEP_US, aim=0.002, most=256)

    def pair(call_us: float, more_us: float) -> Pair:
        calls = draw_lengths(lengths, rng)
        short, long = (
            (START_US + more_us + k * (STEP_US + call_us) + noise(rng, 1)[0]) / 1e6 for k in calls
        )
        return Pair(short=calls[0], short_s=short, long=calls[1], long_s=long)

    own = [pair(among_us, first_us) for _ in range(BLOCKS)]
    empties = [pair(0.0, 0.0) for _ in range(BLOCKS)]
    one, none, usual = (
        tuple((START_US + STEP_US + call_us + noise(rng, ROUNDS)) / 1e6)
        for call_us in (alone_us + first_us, 0.0, among_us)
    )
    singles = Singles(own=one, empty=none, usual=usual, usual_call_us=among_us)
    return merged_us(singles, own, empties), bent_us(singles, own, empties)


@pytest.mark.parametrize("noise", [even, skewed])
def test_merging_two_calls_of_70_us_is_found_out(noise: Noise) -> None:
    assert sum(found(seed, 70.0, 35.0, noise=noise)[0] > 0 for seed in range(100)) >= 95


def test_merging_calls_of_20_us_is_not_found_out_as_is_said() -> None:
    assert sum(found(seed, 20.0, 10.0)[0] > 0 for seed in range(20)) == 0


@pytest.mark.parametrize("noise", [even, skewed])
@pytest.mark.parametrize("call_us", [5.0, 50.0, 500.0])
def test_an_honest_kernel_is_not_accused(call_us: float, noise: Noise) -> None:
    for seed in range(60):
        first_us = 8.0 * (seed % 2)
        assert found(seed, call_us, call_us, noise=noise, first_us=first_us) == (0.0, 0.0)


def test_outliers_of_a_machine_do_not_accuse_anybody() -> None:
    accused = [found(seed, 50.0, 50.0, noise=with_outliers) for seed in range(100)]
    assert sum(one != (0.0, 0.0) for one in accused) <= 1


def test_noise_of_the_kernels_own_making_hides_nothing() -> None:
    """Alone it is slower now and then, to make its times look unsure."""
    quiet = (1e-4,) * ROUNDS
    empties = [Pair(short=2, short_s=1e-4, long=40, long_s=1e-4 + 38 * 4e-5)] * BLOCKS
    own = [Pair(short=2, short_s=1e-4, long=40, long_s=1e-4 + 38 * 7e-5)] * BLOCKS
    loud = tuple(1.8e-4 + (5e-4 if number % 2 else 0.0) for number in range(ROUNDS))
    assert merged_us(Singles(own=loud, empty=quiet), own, empties) > 20.0


def test_what_the_baselines_first_calls_take_more_is_allowed() -> None:
    empties = [Pair(short=2, short_s=1e-4, long=40, long_s=1e-4 + 38 * 4e-5)] * BLOCKS
    own = [Pair(short=2, short_s=1e-4, long=40, long_s=1e-4 + 38 * 9e-5)] * BLOCKS
    slow, empty = (2e-4,) * ROUNDS, (1e-4,) * ROUNDS
    assert merged_us(Singles(own=slow, empty=empty), own, empties) > 0.0
    beside = Singles(own=slow, empty=empty, usual=slow, usual_call_us=50.0)
    assert merged_us(beside, own, empties) == 0.0
