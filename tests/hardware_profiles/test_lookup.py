"""Profiles are found by exact names, and a broken one is refused on one line."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cuda_llm import hardware_profiles
from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.lookup import find_hardware, list_hardware, read_hardware

FOLDER = Path(hardware_profiles.__file__).parent


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce RTX 3090 Ti",
        "RTX 3090 Ti",
        "rtx_3090_ti",
        "  rtx   3090 TI ",
    ],
)
def test_product_name_alias_and_slug_are_accepted_in_any_case_and_spacing(name: str) -> None:
    assert find_hardware(name).name == "NVIDIA GeForce RTX 3090 Ti"


@pytest.mark.parametrize("name", ["RTX 3090", "3090 Ti", "RTX3090Ti", "A100", "", "*"])
def test_a_near_miss_is_refused_on_one_line(name: str) -> None:
    with pytest.raises(HardwareError) as refused:
        find_hardware(name)
    assert "\n" not in str(refused.value)
    assert "nearest" in str(refused.value)


def test_the_nearest_names_are_offered() -> None:
    with pytest.raises(HardwareError, match=r"nearest are: NVIDIA GeForce RTX 3090 Ti"):
        find_hardware("RTX 3090")
    with pytest.raises(HardwareError, match=r"nearest are: NVIDIA A100-SXM4-80GB"):
        find_hardware("A100")


def test_no_two_profiles_share_a_name() -> None:
    for profile in list_hardware():
        for name in (profile.name, profile.slug, *profile.aliases):
            assert find_hardware(name) == profile


def test_own_profiles_are_read_from_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (FOLDER / "rtx_4090.toml").read_text()
    text = text.replace("RTX 4090", "RTX 4090 Mine")
    (tmp_path / "mine.toml").write_text(text)
    monkeypatch.setenv("CUDA_LLM_HARDWARE_DIR", str(tmp_path))
    assert find_hardware("RTX 4090 mine").slug == "mine"
    assert find_hardware("RTX 4090").slug == "rtx_4090"


def test_a_name_claimed_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(FOLDER / "rtx_4090.toml", tmp_path / "copy.toml")
    monkeypatch.setenv("CUDA_LLM_HARDWARE_DIR", str(tmp_path))
    with pytest.raises(HardwareError, match=r"copy\.toml"):
        find_hardware("RTX 4090")


def test_a_missing_user_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LLM_HARDWARE_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(HardwareError, match="nowhere"):
        list_hardware()


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


def test_a_source_without_a_figure_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(GOOD + '"peaks.fp23_tflops" = "a typing slip"\n')
    with pytest.raises(HardwareError, match=r"sources\.peaks\.fp23_tflops"):
        read_hardware(path)


def test_a_table_passes_its_origin_on_to_figures_without_one_of_their_own() -> None:
    made = replace(
        find_hardware("RTX 4090"),
        sources={"model": "a guess", "l2_bytes": "a page"},
        origins={"estimated": ("model",), "measured": ("model.launch_us",)},
    )
    keys = ("model.launch_us", "model.dram_efficiency", "l2_bytes", "sm_count")
    assert [made.origin_of(key) for key in keys] == ["measured", "estimated", "published", None]


@pytest.mark.parametrize(
    ("added", "complaint"),
    [
        (
            'measured = ["model.lunch_us"]',
            r"origins\.measured: found the origin of nothing",
        ),
        (
            'measured = ["model.launch_us"]',
            r"found a second origin of model\.launch_us",
        ),
        ('guessed = ["l2_bytes"]', r"origins\.guessed: "),
    ],
)
def test_an_origin_that_cannot_be_is_refused(added: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(GOOD.replace("[origins]", f"[origins]\n{added}", 1))
    with pytest.raises(HardwareError, match=complaint):
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
