import json
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_drivers import attributes_of

from cuda_llm.hardware_profiles.lookup import find_hardware, list_hardware
from cuda_llm.tools.cuda.discovery import find_disagreements, find_profile
from cuda_llm.tools.cuda.driver_query import GpuAttributes

FIXTURES = Path(__file__).parents[2] / "fixtures/detector"


@pytest.mark.parametrize("slug", [one.slug for one in list_hardware()])
def test_a_gpu_agrees_with_its_own_profile(slug: str) -> None:
    profile = find_hardware(slug)
    gpu = attributes_of(profile)
    assert find_profile(gpu) == profile
    assert find_disagreements(gpu, profile) == ()


def test_what_an_h200_said_of_itself_agrees_with_its_profile() -> None:
    recorded = json.loads((FIXTURES / "h200.json").read_text())["gpu"]
    gpu = GpuAttributes(**recorded | {"compute_capability": tuple(recorded["compute_capability"])})
    profile = find_profile(gpu)
    assert profile is not None
    assert profile.name == "NVIDIA H200"
    assert find_disagreements(gpu, profile) == ()


def test_every_contradiction_is_told_with_both_figures() -> None:
    profile = find_hardware("RTX 4090")
    gpu = replace(attributes_of(profile), sm_count=114, l2_bytes=1 << 20, clock_khz=1_000_000)
    found = {one.key: (one.device, one.profile) for one in find_disagreements(gpu, profile)}
    assert found == {
        "sm_count": (114, 128),
        "l2_bytes": (1 << 20, profile.l2_bytes),
        "boost_clock_mhz": (1000.0, 2520),
    }


def test_a_board_that_boosts_a_little_higher_is_the_same_gpu() -> None:
    profile = find_hardware("RTX 4090")
    gpu = replace(attributes_of(profile), clock_khz=2_610_000)
    assert find_disagreements(gpu, profile) == ()


def test_a_near_miss_is_another_gpu() -> None:
    gpu = replace(attributes_of(find_hardware("RTX 4090")), name="NVIDIA GeForce RTX 4090 D")
    assert find_profile(gpu) is None
