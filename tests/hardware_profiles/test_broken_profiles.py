"""A broken profile is refused on one line that names file and key."""

import re
from pathlib import Path

import pytest

from cuda_llm import hardware_profiles
from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.lookup import read_hardware

GOOD = (Path(hardware_profiles.__file__).parent / "rtx_4090.toml").read_text()

BROKEN = {
    "sm_count": ("sm_count = 128", 'sm_count = "many"'),
    "boost_clock_mhz": ("boost_clock_mhz = 2520", "boost_clock_mhz = 0"),
    "limits.blocks_per_sm": ("blocks_per_sm = 24", "blocks_per_sm = 24.5"),
    "limits.threads_per_sm": ("threads_per_sm = 1536\n", ""),
    "peaks.dram_gb_s": ("dram_gb_s = 1008.0", "dram_gb_s = -1"),
    "peaks.tensor_dense_tflops.fp8": ("fp8 = 330.3", "fp8 = nan"),
    "pipes.teleport": ("[pipes]", "[pipes]\nteleport = 1"),
    "colour": ("sm_count = 128", 'sm_count = 128\ncolour = "green"'),
    "compute_capability": ('compute_capability = "8.9"', 'compute_capability = "ada"'),
    "aliases[0]": ("aliases = [", "aliases = [1, "),
    "l2_bytes": ('"l2_bytes" = ', '"sm_count.extra" = '),
    "slug": ("sm_count = 128", 'sm_count = 128\nslug = "mine"'),
    "name": ('name = "NVIDIA GeForce RTX 4090"', 'name = ""'),
}


@pytest.mark.parametrize("key", BROKEN)
def test_the_key_at_fault_is_named(key: str, tmp_path: Path) -> None:
    before, after = BROKEN[key]
    assert before in GOOD
    path = tmp_path / "broken.toml"
    path.write_text(GOOD.replace(before, after, 1))
    with pytest.raises(HardwareError, match=rf"broken\.toml: {re.escape(key)}: ") as refused:
        read_hardware(path)
    assert "\n" not in str(refused.value)


def test_a_source_may_stand_for_several_keys(tmp_path: Path) -> None:
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    sources = read_hardware(path).sources
    assert sources["memory_bus_bits"] == sources["memory_clock_mhz"]

    path.write_text(GOOD + '"peaks, memory_bus_bits" = "another one"\n')
    with pytest.raises(HardwareError, match=r"sources\.memory_bus_bits: found a second source"):
        read_hardware(path)


def test_a_source_of_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(GOOD + '"peaks.fp23_tflops" = "a typing slip"\n')
    with pytest.raises(HardwareError, match=r"sources\.peaks\.fp23_tflops"):
        read_hardware(path)


@pytest.mark.parametrize("content", [b"not = = toml", b"\xff\xfe", b""])
def test_what_is_not_a_profile_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(HardwareError, match=r"broken\.toml"):
        read_hardware(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HardwareError, match=r"nowhere\.toml"):
        read_hardware(tmp_path / "nowhere.toml")
