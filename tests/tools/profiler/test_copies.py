"""Fills and copies take device time like kernels."""

import pytest

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.profiler.explain_modelled import copies_profile

HARDWARE = find_hardware("RTX 3090 Ti")


def test_a_call_without_copies_has_no_entry() -> None:
    assert copies_profile(0, 0, 0, HARDWARE) == ()


def test_each_copy_costs_a_launch_and_all_bytes_their_time() -> None:
    (few,) = copies_profile(1, 1 << 20, 0, HARDWARE)
    (many,) = copies_profile(10, 1 << 20, 0, HARDWARE)
    (large,) = copies_profile(1, 1 << 30, 0, HARDWARE)
    assert many.time_us - few.time_us == pytest.approx(9 * HARDWARE.model.launch_us)
    assert large.time_us > (1 << 30) / (HARDWARE.peaks.dram_gb_s * 1e3)


def test_the_bus_is_slower_than_device_memory() -> None:
    (across,) = copies_profile(1, 1 << 20, 1 << 20, HARDWARE)
    (within,) = copies_profile(1, 1 << 20, 0, HARDWARE)
    assert across.time_us > 5 * within.time_us
