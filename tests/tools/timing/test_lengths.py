from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_clock import pair_without_noise

from cuda_llm.tools.timing.comparison import Comparison, compare_blocks
from cuda_llm.tools.timing.options import Tier
from cuda_llm.tools.timing.slope import (
    LONGEST_BATCH_US,
    MOST_CALLS,
    BatchBlock,
    choose_lengths,
    draw_lengths,
    lengths_up_to,
)
from cuda_llm.tools.timing.stopping import VAGUE_FACTOR, is_enough, rule_for


@given(st.floats(0.5, 1e6), st.floats(0, 500), st.integers(2, 256), st.integers(0, 2**32))
def test_lengths_fit_the_slots_and_differ(
    call_us: float, overhead_us: float, most: int, seed: int
) -> None:
    lengths = choose_lengths(call_us=call_us, overhead_us=overhead_us, aim=0.01, most=most)
    short, long = draw_lengths(lengths, np.random.Generator(np.random.PCG64(seed)))
    assert 1 <= short < long <= lengths.slots <= most
    assert lengths.slots <= (256 if call_us <= 10 else MOST_CALLS)
    assert lengths.slots <= 4 or lengths.slots * (call_us + overhead_us) <= LONGEST_BATCH_US


@pytest.mark.parametrize("top", range(6, 257, 25))
def test_both_parities_occur(top: int) -> None:
    rng = np.random.Generator(np.random.PCG64(top))
    drawn = [draw_lengths(lengths_up_to(top), rng) for _ in range(200)]
    assert {short % 2 for short, _ in drawn} == {0, 1}
    assert {long % 2 for _, long in drawn} == {0, 1}


def test_short_calls_get_long_batches_and_long_calls_short_ones() -> None:
    slots = [
        choose_lengths(call_us=call_us, overhead_us=40.0, aim=0.01, most=256).slots
        for call_us in (2.0, 50.0, 500.0, 5000.0)
    ]
    assert slots == sorted(slots, reverse=True)
    assert slots[0] > 100
    assert slots[-1] <= 4


def test_one_slot_is_no_slope() -> None:
    with pytest.raises(ValueError, match="two slots"):
        choose_lengths(call_us=1.0, overhead_us=1.0, aim=0.01, most=1)


def block(first_us: float, second_us: float) -> BatchBlock:
    first, second, empty = (pair_without_noise(one) for one in (first_us, second_us, 0.0))
    return BatchBlock(first=first, second=second, empty=empty)


def sure(blocks: int) -> Comparison:
    return compare_blocks([block(30.0, 60.0)] * blocks)


def test_a_narrow_interval_ends_a_measurement_but_not_before_the_fewest_blocks() -> None:
    rule = rule_for(Tier.CONFIRM, sizes=1)
    assert not is_enough(rule, sure(rule.fewest - 1), spent_s=1e6)
    assert is_enough(rule, sure(rule.fewest), spent_s=0.0)


def test_a_wide_interval_ends_at_the_wall_or_at_the_most_blocks() -> None:
    rule = rule_for(Tier.SCREEN, sizes=1)
    unsure = wavering(rule.fewest + 1, by_us=1.0)
    assert not is_enough(rule, unsure, spent_s=0.0)
    assert is_enough(rule, unsure, spent_s=rule.wall_s)
    assert is_enough(rule, wavering(rule.most, by_us=1.0), spent_s=0.0)


def test_figures_that_say_nothing_are_given_some_times_the_wall_and_no_more_blocks() -> None:
    rule = rule_for(Tier.SCREEN, sizes=1)
    vague = wavering(rule.fewest + 1, by_us=20.0)
    assert not is_enough(rule, vague, spent_s=rule.wall_s)
    assert is_enough(rule, vague, spent_s=VAGUE_FACTOR * rule.wall_s)
    assert is_enough(rule, wavering(rule.most, by_us=20.0), spent_s=rule.wall_s)


def test_a_time_is_as_vague_as_what_was_taken_off_it() -> None:
    rule = rule_for(Tier.SCREEN, sizes=1)
    steady = sure(rule.fewest + 1)
    empty = replace(steady.empty, low=steady.empty.value - 10, high=steady.empty.value + 10)
    assert is_enough(rule, steady, spent_s=rule.wall_s)
    assert not is_enough(rule, replace(steady, empty=empty), spent_s=rule.wall_s)


def test_a_time_at_the_resolution_is_not_waited_for() -> None:
    rule = rule_for(Tier.SCREEN, sizes=1)
    nothing = compare_blocks([block(0.0, 0.03 + 0.01 * (n % 2)) for n in range(rule.fewest + 1)])
    assert is_enough(rule, nothing, spent_s=rule.wall_s)


def wavering(blocks: int, *, by_us: float) -> Comparison:
    """A first kernel of 30 us whose time is another from block to block."""
    return compare_blocks([block(30.0 + by_us * (n % 3), 60.0) for n in range(blocks)])


def noisy(blocks: int, first_us: float) -> Comparison:
    """A sure ratio, but the second differs from itself by some per cent."""
    pairs = [block(first_us, 60.0 + 2 * (n % 2)) for n in range(blocks)]
    again = [replace(one, again=pair_without_noise(62.0)) for one in pairs]
    found = replace(compare_blocks(again), first_us=sure(blocks).first_us)
    return replace(found, low=found.ratio * 0.999, high=found.ratio * 1.001)


def test_a_high_floor_is_borne_where_the_difference_is_far_beyond_it() -> None:
    rule = rule_for(Tier.CONFIRM, sizes=1)
    compared = [noisy(rule.fewest, first_us) for first_us in (30.0, 60.5)]
    assert all(one.floor > 0.03 for one in compared)
    assert [is_enough(rule, one, spent_s=0.0) for one in compared] == [True, False]


def test_the_sizes_of_a_task_share_the_time() -> None:
    alone, shared = (rule_for(Tier.SCREEN, sizes=sizes) for sizes in (1, 5))
    assert shared.wall_s == pytest.approx(alone.wall_s / 5)
    assert shared.fewest == alone.fewest
