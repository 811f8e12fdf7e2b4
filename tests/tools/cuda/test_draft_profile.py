from dataclasses import replace
from pathlib import Path

import pytest
from gpu_drivers import attributes_of

from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.lookup import find_hardware, list_hardware, read_hardware
from cuda_llm.tools.cuda.discovery import find_disagreements
from cuda_llm.tools.cuda.draft_profile import draft_profile, find_most_similar, profile_slug

LAPTOP = replace(
    attributes_of(find_hardware("RTX 4090")),
    name="NVIDIA GeForce RTX 4070 Laptop GPU",
    sm_count=36,
    clock_khz=2_175_000,
    memory_bytes=8 << 30,
    memory_bus_bits=128,
    memory_clock_khz=8_001_000,
    l2_bytes=32 << 20,
)


def test_a_draft_is_a_profile_that_agrees_with_its_driver(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(draft_profile(LAPTOP, find_most_similar(LAPTOP)))
    profile = read_hardware(path)
    assert profile.name == LAPTOP.name
    assert find_disagreements(LAPTOP, profile) == ()
    lanes = profile.sm_count * profile.pipes.fp32 * 2 * profile.boost_clock_mhz / 1e6
    assert profile.peaks.fp32_tflops == pytest.approx(lanes, rel=0.02)


def test_whatever_the_driver_does_not_say_asks_to_be_confirmed(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(draft_profile(LAPTOP, find_most_similar(LAPTOP)))
    profile = read_hardware(path)
    assert profile.sources["sm_count"] == "as the CUDA driver reports it"
    assert profile.origin_of("sm_count") == "published"
    for key in ("peaks.fp32_tflops", "pipes", "model", "peaks.tensor_dense_tflops"):
        assert profile.sources[key].startswith("CONFIRM")
        assert profile.origin_of(key) == "estimated"


@pytest.mark.parametrize("name", [one.name for one in list_hardware()])
def test_every_described_gpu_could_be_drafted_anew(name: str, tmp_path: Path) -> None:
    gpu = attributes_of(find_hardware(name))
    path = tmp_path / "mine.toml"
    path.write_text(draft_profile(gpu, find_most_similar(gpu)))
    assert find_disagreements(gpu, read_hardware(path)) == ()


def test_the_likest_has_the_same_capability_and_size() -> None:
    assert find_most_similar(LAPTOP).name == "NVIDIA L4"
    assert find_most_similar(replace(LAPTOP, compute_capability=(8, 7))).compute_capability[0] == 8


def test_an_unknown_generation_is_not_guessed_at() -> None:
    with pytest.raises(HardwareError, match=r"no profile of compute capability 5\.x"):
        find_most_similar(replace(LAPTOP, compute_capability=(5, 2)))


def test_a_file_name_is_made_from_the_products_name() -> None:
    assert profile_slug(LAPTOP.name) == "rtx_4070_laptop_gpu"
    assert profile_slug("Tesla V100-SXM2-16GB") == "tesla_v100_sxm2_16gb"
