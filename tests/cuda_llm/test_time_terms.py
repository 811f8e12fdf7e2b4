"""Terms overlap, but for the launch, and shared memory and L1 are one unit."""

import pytest

from cuda_llm.time_terms import combine, unit_of


def test_the_launch_overlaps_with_nothing_and_equal_terms_cost_a_fifth_more() -> None:
    assert combine({"launch": 2.0, "dram": 10.0}) == 12.0
    assert combine({"dram": 10.0, "issue": 10.0}) == pytest.approx(11.89, abs=0.01)


def test_shared_memory_and_l1_are_one_unit() -> None:
    assert combine({"shared": 4.0, "l1": 6.0}) == pytest.approx(10.0)
    assert unit_of("shared") == unit_of("l1") != unit_of("l2")
