"""Rooflines by published peaks, and ceilings measured on a card."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.ceilings import (
    Ceilings,
    CopyRate,
    ceilings_path,
    find_ceilings,
    keep_ceilings,
    published_ceilings,
)
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


H200 = find_hardware("H200")
PROBED = Ceilings(
    dram_gb_s=4300.0,
    fp32_tflops=52.0,
    launch_us=1.1,
    tensor_tflops={"tf32": 400.0},
    copies=(
        CopyRate(bytes_moved=4_000_000, gb_s=1800.0),
        CopyRate(bytes_moved=33_000_000, gb_s=3600.0),
    ),
    measured=frozenset({"dram_gb_s", "launch_us", "tensor_tflops", "copies"}),
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path))


def test_without_a_probe_all_ceilings_are_published() -> None:
    found = find_ceilings(H200)
    assert found == published_ceilings(H200)
    assert found.dram_gb_s == pytest.approx(4320.0)
    assert found.origin("dram_gb_s") == "published"


def test_a_probe_replaces_what_it_measured_and_nothing_else() -> None:
    keep_ceilings(H200, PROBED)
    found = find_ceilings(H200)
    assert found.dram_gb_s == 4300.0
    assert found.copies == PROBED.copies
    assert (found.tensor_tflops["tf32"], found.tensor_tflops["fp16"]) == (400.0, 989.4)
    assert found.fp32_tflops == H200.peaks.fp32_tflops
    assert (found.origin("launch_us"), found.origin("fp32_tflops")) == ("measured", "published")
    assert (found.origin("tensor:tf32"), found.origin("tensor:fp16")) == ("measured", "published")


def test_ceilings_of_one_model_are_not_those_of_another() -> None:
    keep_ceilings(H200, PROBED)
    a100 = find_hardware("a100_sxm4_80gb")
    assert find_ceilings(a100) == published_ceilings(a100)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"dram_gb_s": 0}', '{"copies": [[1]]}', '{"fp32_tflops": "x"}']
)
def test_a_broken_file_is_an_error_that_names_it(text: str) -> None:
    path = keep_ceilings(H200, PROBED)
    path.write_text(text)
    with pytest.raises(HardwareError, match=path.name):
        find_ceilings(H200)


def test_copies_are_as_slow_as_they_were_measured() -> None:
    for one in PROBED.copies:
        assert PROBED.copy_us(one.bytes_moved) == pytest.approx(one.bytes_moved / one.gb_s / 1e3)


def test_between_measured_copies_the_time_grows_with_the_bytes() -> None:
    sizes = [10**4, 10**6, 4 * 10**6, 10**7, 2 * 10**7, 3.3e7, 10**8, 10**9]
    times = [PROBED.copy_us(size) for size in sizes]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(1e9 / 4300e3, rel=0.01)


def test_a_small_copy_reaches_a_part_of_the_large_rate_as_seen_on_an_h200() -> None:
    found = find_ceilings(H200)
    shares = [
        size / (found.dram_gb_s * 1e3) / found.copy_us(size) for size in (33.5e6, 16.8e6, 4.2e6)
    ]
    assert shares == pytest.approx([0.84, 0.73, 0.41], abs=0.02)


def test_storing_ceilings_leaves_no_other_file() -> None:
    path = keep_ceilings(H200, PROBED)
    assert path == ceilings_path(H200)
    assert list(path.parent.iterdir()) == [path]
