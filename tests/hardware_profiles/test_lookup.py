"""Names are exact: a near miss is an error that lists what there is."""

import shutil
from pathlib import Path

import pytest

from cuda_llm import hardware_profiles
from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.lookup import find_hardware, list_hardware

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
