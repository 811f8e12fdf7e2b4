import math
import random
from collections.abc import Sequence

import pytest
from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_clock import OVERHEAD_US, SimulatedGPU, pair_without_noise

from cuda_llm.tools.timing.baseline_time import BaselineTime
from cuda_llm.tools.timing.comparison import (
    RESOLUTION_US,
    SMALLEST_FLOOR,
    compare_blocks,
    decide_outcome,
    noise_floor,
)
from cuda_llm.tools.timing.estimate import estimate_median
from cuda_llm.tools.timing.excess import find_uneven_start
from cuda_llm.tools.timing.measure import against_cached_time
from cuda_llm.tools.timing.slope import BatchBlock, BatchPair, choose_lengths, counted_blocks


def block(
    first_us: float, second_us: float, *, again_us: float = 0, throttled: bool = False
) -> BatchBlock:
    return BatchBlock(
        first=pair_without_noise(first_us),
        second=pair_without_noise(second_us),
        empty=pair_without_noise(0.0),
        again=pair_without_noise(again_us) if again_us else None,
        throttled=throttled,
    )


def noisy(
    seed: int, first_us: float = 40.0, second_us: float = 50.0, count: int = 9
) -> list[BatchBlock]:
    gpu = SimulatedGPU(seed)
    lengths = choose_lengths(call_us=second_us, overhead_us=gpu.overhead_us, aim=0.01, most=64)
    return [gpu.block(lengths, first_us, second_us) for _ in range(count)]


def test_without_noise_the_ratio_is_exact() -> None:
    found = compare_blocks([block(30.0, 60.0)] * 3)
    assert found.ratio == pytest.approx(0.5)
    assert found.first_us.value == pytest.approx(30.0)
    assert found.second_us.value == pytest.approx(60.0)
    assert found.empty.value == pytest.approx(OVERHEAD_US)
    assert found.outcome == "faster"
    assert found.half_width == pytest.approx(0.0, abs=1e-9)


@settings(max_examples=examples(30))
@given(st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_the_order_of_the_blocks_does_not_matter(seed: int, shuffler: random.Random) -> None:
    blocks = noisy(seed)
    shuffled = list(blocks)
    shuffler.shuffle(shuffled)
    assert compare_blocks(shuffled) == compare_blocks(blocks)


@settings(max_examples=examples(30))
@given(st.integers(0, 2**32))
def test_exchanging_the_two_inverts_the_ratio(seed: int) -> None:
    blocks = noisy(seed)
    swapped = [BatchBlock(first=one.second, second=one.first, empty=one.empty) for one in blocks]
    there, back = compare_blocks(blocks), compare_blocks(swapped)
    assert back.ratio == pytest.approx(1 / there.ratio)
    opposite = {"faster": "slower", "slower": "faster", "tie": "tie"}
    assert (
        decide_outcome(1 / there.ratio, 1 / there.high, 1 / there.low, 0.01)
        == (opposite[decide_outcome(there.ratio, there.low, there.high, 0.01)])
    )


@settings(max_examples=examples(30))
@given(st.integers(0, 2**32), st.floats(0, 1e-3))
def test_what_delays_every_batch_alike_changes_nothing(seed: int, delay_s: float) -> None:
    blocks = noisy(seed)
    later = [
        BatchBlock(
            first=delayed(one.first, delay_s),
            second=delayed(one.second, delay_s),
            empty=delayed(one.empty, delay_s),
        )
        for one in blocks
    ]
    assert compare_blocks(later).ratio == pytest.approx(compare_blocks(blocks).ratio, rel=1e-6)


def delayed(one: BatchPair, by_s: float) -> BatchPair:
    return BatchPair(
        short=one.short, short_s=one.short_s + by_s, long=one.long, long_s=one.long_s + by_s
    )


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.floats(-3, 3), st.floats(0.1, 5))
def test_an_estimate_moves_and_scales_with_its_values(
    values: Sequence[float], shift: float, factor: float
) -> None:
    plain = estimate_median(values)
    moved = estimate_median([factor * one + shift for one in values])
    for name in ("value", "low", "high"):
        expected = factor * getattr(plain, name) + shift
        assert getattr(moved, name) == pytest.approx(expected, abs=1e-9)
    assert plain.low <= plain.value <= plain.high


def test_the_same_seed_gives_the_same_interval_and_another_nearly_so() -> None:
    values = [math.sin(number) for number in range(40)]
    assert estimate_median(values, seed=3) == estimate_median(values, seed=3)
    one, other = estimate_median(values, seed=3), estimate_median(values, seed=4)
    assert one.value == other.value
    assert one.half_width == pytest.approx(other.half_width, rel=0.3)


def test_nothing_cannot_be_estimated() -> None:
    with pytest.raises(ValueError, match="no values"):
        estimate_median([])


@pytest.mark.parametrize(
    ("ratio", "low", "high", "floor", "outcome"),
    [
        (0.98, 0.975, 0.985, 0.01, "faster"),
        (1.02, 1.015, 1.025, 0.01, "slower"),
        (0.995, 0.994, 0.996, 0.01, "tie"),
        (0.95, 0.90, 1.001, 0.01, "tie"),
        (0.95, 0.94, 0.96, 0.06, "tie"),
        (1.0, 1.0, 1.0, 0.01, "tie"),
    ],
)
def test_a_difference_counts_beyond_the_floor_and_the_interval(
    ratio: float, low: float, high: float, floor: float, outcome: str
) -> None:
    assert decide_outcome(ratio, low, high, floor) == outcome


def test_the_floor_is_twice_what_a_kernel_differs_by_from_itself() -> None:
    assert noise_floor([]) == SMALLEST_FLOOR
    assert noise_floor([0.001, -0.001, 0.0]) == SMALLEST_FLOOR
    assert noise_floor([0.02] * 8) == pytest.approx(0.04)
    assert noise_floor([-0.02] * 8) == pytest.approx(0.04)
    assert compare_blocks([block(49.0, 50.0, again_us=51.0)] * 4).outcome == "tie"


def test_blocks_under_throttle_are_dropped() -> None:
    kept = counted_blocks([*[block(30.0, 60.0)] * 3, block(60.0, 60.0, throttled=True)])
    assert len(kept) == 3
    assert compare_blocks(kept).ratio == pytest.approx(0.5)


def test_blocks_under_throttle_are_better_than_none() -> None:
    assert len(counted_blocks([block(30.0, 60.0, throttled=True)] * 3)) == 3


def test_a_kernel_without_measurable_time_is_not_negative() -> None:
    found = compare_blocks([block(-1.0, 50.0)] * 3)
    assert 0 < found.first_us.value < 0.1


STARTS_US = (20.0, 200.0, 900.0)


def test_slow_short_batches_are_found_and_a_slow_first_call_is_not() -> None:
    empty, usual = [pair_without_noise(0.0)] * 3, [pair_without_noise(60.0)] * 3
    even = [pair_without_noise(50.0)] * 3
    first_call = [pair_without_noise(50.0, start_us=50)] * 3
    slow_start = [pair_without_noise(50.0, start_us=800)] * 3
    assert not find_uneven_start(even, [empty, usual], OVERHEAD_US).seems_so
    assert not find_uneven_start(first_call, [empty, usual], OVERHEAD_US).seems_so
    assert find_uneven_start(slow_start, [empty, usual], OVERHEAD_US).is_sure
    assert find_uneven_start(slow_start, [empty, usual], OVERHEAD_US).beyond_us > 100.0
    assert not find_uneven_start(slow_start, [empty, slow_start], OVERHEAD_US).seems_so


def test_a_late_start_is_vague_where_trusted_batches_begin_as_unevenly() -> None:
    quiet = [pair_without_noise(60.0)] * 12
    held_up = [pair_without_noise(60.0, start_us=STARTS_US[n % 3]) for n in range(12)]
    late = [pair_without_noise(50.0, start_us=400)] * 12
    later = [pair_without_noise(50.0, start_us=4000)] * 12
    assert find_uneven_start(late, [quiet, quiet], OVERHEAD_US).is_sure
    assert find_uneven_start(late, [held_up, quiet], OVERHEAD_US).seems_so
    assert not find_uneven_start(late, [held_up, quiet], OVERHEAD_US).is_sure
    assert find_uneven_start(later, [held_up, quiet], OVERHEAD_US).is_sure


SECONDS = st.floats(1e-7, 10.0)


@st.composite
def pairs(draw: st.DrawFn) -> BatchPair:
    short = draw(st.integers(1, 8))
    return BatchPair(
        short=short,
        short_s=draw(SECONDS),
        long=short + draw(st.integers(1, 64)),
        long_s=draw(SECONDS),
    )


def block_of(first: BatchPair, second: BatchPair, empty: BatchPair) -> BatchBlock:
    return BatchBlock(first=first, second=second, empty=empty)


@given(
    st.lists(st.builds(block_of, pairs(), pairs(), pairs()), min_size=1, max_size=6),
    st.floats(RESOLUTION_US, 1e7),
    st.floats(SMALLEST_FLOOR, 20.0),
)
def test_whatever_a_clock_shows_intervals_are_of_times_above_zero(
    blocks: list[BatchBlock], baseline_us: float, spread: float
) -> None:
    """However far apart few blocks lie, and also against a baseline's vague cached time."""
    beside = compare_blocks(blocks, resamples=50)
    cached = BaselineTime(call_us=baseline_us, spread=spread, sm_mhz=0.0, overhead_us=1.0)
    for found in (beside, against_cached_time(beside, cached)):
        assert 0 < found.low <= found.ratio <= found.high
        assert 0 < found.first_us.low <= found.first_us.value <= found.first_us.high
        assert 0 < found.second_us.low <= found.second_us.value <= found.second_us.high
        assert 0 <= found.half_width < math.inf
        assert found.outcome in ("faster", "slower", "tie")
