"""Every profile that ships is complete, sourced and consistent with itself."""

import tomllib
from pathlib import Path

import pytest

from cuda_llm import hardware_profiles
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.lookup import figure_keys, has_source, list_hardware

FOLDER = Path(hardware_profiles.__file__).parent
PROFILES = list_hardware()


def test_the_promised_profiles_ship() -> None:
    assert {profile.name for profile in PROFILES} >= {
        "NVIDIA GeForce RTX 2080 Ti",
        "NVIDIA GeForce RTX 5090",
        "Tesla T4",
        "NVIDIA L4",
        "NVIDIA L40S",
        "NVIDIA B200",
        "NVIDIA GeForce GTX 1660 SUPER",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 4090",
        "NVIDIA A100-SXM4-80GB",
        "NVIDIA H100 80GB HBM3",
        "NVIDIA H200",
    }


@pytest.fixture(params=PROFILES, ids=lambda profile: profile.slug)
def profile(request: pytest.FixtureRequest) -> Hardware:
    assert isinstance(request.param, Hardware)
    return request.param


def test_every_figure_names_its_source(profile: Hardware) -> None:
    data = tomllib.loads((FOLDER / f"{profile.slug}.toml").read_text())
    keys = figure_keys(data)
    assert keys
    assert [key for key in keys if not has_source(key, profile.sources)] == []


def test_figures_of_the_time_model_are_measured_estimated_or_from_a_paper(
    profile: Hardware,
) -> None:
    for key, source in profile.sources.items():
        if key.startswith("model."):
            assert profile.origin_of(key) != "published" or "arXiv" in source, key


def test_fp32_peak_is_lanes_times_clock(profile: Hardware) -> None:
    lanes = profile.sm_count * profile.pipes.fp32
    assert lanes * 2 * profile.boost_clock_mhz / 1e6 == pytest.approx(
        profile.peaks.fp32_tflops, rel=0.02
    )


def test_fp64_and_fp16_peaks_are_lanes_times_clock(profile: Hardware) -> None:
    per_lane = profile.sm_count * 2 * profile.boost_clock_mhz / 1e6
    assert per_lane * profile.pipes.fp64 == pytest.approx(profile.peaks.fp64_tflops, rel=0.02)
    assert per_lane * profile.pipes.fp16 * 2 == pytest.approx(profile.peaks.fp16_tflops, rel=0.02)


def test_dram_bandwidth_is_bus_times_rate(profile: Hardware) -> None:
    gbit_s_per_pin = 2 * profile.memory_clock_mhz / 1e3
    assert gbit_s_per_pin * profile.memory_bus_bits / 8 == pytest.approx(
        profile.peaks.dram_gb_s, rel=0.02
    )


def test_sparse_tensor_peaks_are_twice_the_dense_ones(profile: Hardware) -> None:
    dense, sparse = profile.peaks.tensor_dense_tflops, profile.peaks.tensor_sparse_tflops
    assert set(sparse) <= set(dense)
    for kind, peak in sparse.items():
        assert peak == pytest.approx(2 * dense[kind], rel=0.02), kind


def test_the_target_is_that_of_the_capability(profile: Hardware) -> None:
    """With all that the chip can do: from 9.0 on that is the `a` variant."""
    major, minor = profile.compute_capability
    assert profile.target == f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def test_sizes_nest(profile: Hardware) -> None:
    limits = profile.limits
    assert limits.threads_per_sm % 32 == 0
    assert limits.registers_per_block <= limits.registers_per_sm
    reserved = limits.shared_bytes_reserved_per_block
    assert limits.shared_bytes_per_block <= limits.shared_bytes_per_block_optin
    assert limits.shared_bytes_per_block_optin + reserved <= limits.shared_bytes_per_sm
    assert profile.l2_bytes < profile.memory_bytes


def test_farther_memory_answers_later_and_is_narrower(profile: Hardware) -> None:
    model = profile.model
    latencies = [
        model.latency_alu_clk,
        model.latency_shared_clk,
        model.latency_l1_clk,
        model.latency_l2_clk,
        model.latency_dram_clk,
    ]
    assert latencies == sorted(latencies)
    l2_gb_s = model.l2_bytes_per_clk * profile.boost_clock_mhz / 1e3
    assert l2_gb_s > profile.peaks.dram_gb_s
    l1_gb_s = profile.sm_count * profile.pipes.load_store * 4 * profile.boost_clock_mhz / 1e3
    assert l1_gb_s > l2_gb_s
    assert 0.5 < model.dram_efficiency <= 1
