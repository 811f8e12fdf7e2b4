import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.tools.timing.slope import BatchPair, mean_us, quickest_batches, slope_us, start_us

times = st.floats(1e-6, 1e-1)
lengths = st.tuples(st.integers(1, 20), st.integers(1, 200)).map(lambda p: (p[0], p[0] + p[1]))


def batch(short: int, long: int, start: float, each: float) -> BatchPair:
    return BatchPair(
        short=short, short_s=start + short * each, long=long, long_s=start + long * each
    )


@given(lengths, times, times)
def test_the_slope_is_the_time_of_one_call_whatever_a_batch_begins_with(
    calls: tuple[int, int], start: float, each: float
) -> None:
    pair = batch(*calls, start, each)
    assert slope_us(pair) == pytest.approx(each * 1e6, rel=1e-6, abs=1e-6)
    assert start_us(pair) == pytest.approx(start * 1e6, rel=1e-6, abs=1e-5)


@given(lengths, times, times, times)
def test_a_delay_of_both_batches_cancels(
    calls: tuple[int, int], start: float, each: float, delay: float
) -> None:
    undelayed, delayed = batch(*calls, start, each), batch(*calls, start + delay, each)
    assert slope_us(delayed) == pytest.approx(slope_us(undelayed), rel=1e-6, abs=1e-6)


@given(lengths, times, times, st.floats(0.1, 10))
def test_the_slope_scales_with_the_clock(
    calls: tuple[int, int], start: float, each: float, factor: float
) -> None:
    scaled = batch(*calls, start * factor, each * factor)
    assert slope_us(scaled) == pytest.approx(factor * each * 1e6, rel=1e-6, abs=1e-6)


@given(lengths, times, times)
def test_the_mean_is_never_below_the_slope(
    calls: tuple[int, int], start: float, each: float
) -> None:
    pair = batch(*calls, start, each)
    assert mean_us(pair) >= slope_us(pair) * (1 - 1e-9)


@pytest.mark.parametrize(("short", "long"), [(0, 4), (4, 4), (5, 4)])
def test_a_slope_needs_two_lengths(short: int, long: int) -> None:
    with pytest.raises(ValueError, match="two lengths"):
        BatchPair(short=short, short_s=1.0, long=long, long_s=2.0)
    assert math.isfinite(slope_us(BatchPair(short=1, short_s=1.0, long=2, long_s=2.0)))


def test_the_quickest_batches_are_those_that_were_not_held_up() -> None:
    held_up = BatchPair(short=4, short_s=9e-3, long=40, long_s=4e-3)
    also = BatchPair(short=4, short_s=0.4e-3, long=40, long_s=20e-3)
    found = quickest_batches([held_up, also])
    assert (found.short_s, found.long_s) == (0.4e-3, 4e-3)


def test_the_quickest_of_batches_of_many_lengths_are_still_two_lengths() -> None:
    few = BatchPair(short=1, short_s=0.2e-3, long=4, long_s=0.5e-3)
    many = BatchPair(short=8, short_s=0.8e-3, long=64, long_s=50e-3)
    found = quickest_batches([few, many])
    assert (found.short, found.long) == (8, 64)
