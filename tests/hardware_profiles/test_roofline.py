"""The roof is the least time a chip can need."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.hardware_profiles.roofline import ridge_flops_per_byte, roof

RTX_3090_TI = find_hardware("RTX 3090 Ti")
work = st.floats(0, 1e15)


def test_a_2048_square_transpose_needs_33_us_on_a_3090_ti() -> None:
    least = roof(RTX_3090_TI, flops=0, bytes_moved=2 * 4 * 2048**2)
    assert least.time_us == pytest.approx(33.3, abs=0.1)
    assert least.bound == "memory"


def test_a_4096_matmul_is_compute_bound() -> None:
    least = roof(RTX_3090_TI, flops=2 * 4096**3, bytes_moved=3 * 4 * 4096**2)
    assert least.time_us == pytest.approx(2 * 4096**3 / 40e6)
    assert least.bound == "compute"


def test_the_ridge_is_where_both_roofs_meet() -> None:
    intensity = ridge_flops_per_byte(RTX_3090_TI, "tensor:tf32")
    least = roof(RTX_3090_TI, flops=intensity * 1e9, bytes_moved=1e9, precision="tensor:tf32")
    assert least.compute_us == pytest.approx(least.memory_us)


def test_a_unit_the_chip_lacks_is_refused() -> None:
    with pytest.raises(HardwareError, match="tensor:fp16"):
        ridge_flops_per_byte(find_hardware("GTX 1660 SUPER"), "tensor:fp16")


@given(flops=work, bytes_moved=work, more=work)
def test_more_work_never_takes_less_time(flops: float, bytes_moved: float, more: float) -> None:
    base = roof(RTX_3090_TI, flops=flops, bytes_moved=bytes_moved).time_us
    assert roof(RTX_3090_TI, flops=flops + more, bytes_moved=bytes_moved).time_us >= base
    assert roof(RTX_3090_TI, flops=flops, bytes_moved=bytes_moved + more).time_us >= base
