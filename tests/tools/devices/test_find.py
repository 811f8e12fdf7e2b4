"""What a user may write after `--device`."""

import pytest

from cuda_llm.errors import HardwareError, MissingError, UsageError
from cuda_llm.tools.devices.find import open_device


@pytest.mark.parametrize(
    ("spec", "name", "target"),
    [
        ("auto", "emulated RTX 3090 Ti", "sm_86"),
        ("emulated", "emulated RTX 3090 Ti", "sm_86"),
        ("emulated:RTX 4090", "emulated RTX 4090", "sm_89"),
        ("emulated: rtx 4090", "emulated RTX 4090", "sm_89"),
        ("emulated:NVIDIA GeForce RTX 3090 Ti", "emulated RTX 3090 Ti", "sm_86"),
    ],
)
def test_a_device_is_found_by_its_name(spec: str, name: str, target: str) -> None:
    device = open_device(spec)
    assert (device.name, device.target, device.time_source) == (name, target, "modelled")


@pytest.mark.parametrize("spec", ["", "gpu", "auto:RTX 4090", "emulated 4090", "cpu:0"])
def test_an_unknown_device_tells_what_there_is(spec: str) -> None:
    with pytest.raises(UsageError, match=r"there are: auto, emulated or emulated:GPU"):
        open_device(spec)


@pytest.mark.parametrize("spec", ["emulated:RTX 9999", "emulated:4090"])
def test_an_unknown_gpu_tells_what_there_is(spec: str) -> None:
    with pytest.raises(HardwareError, match="RTX 3090 Ti"):
        open_device(spec)


def test_no_gpu_after_the_colon_tells_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"names no GPU; there are: .*RTX 4090"):
        open_device("emulated:")


@pytest.mark.parametrize("spec", ["cuda", "cuda:0", "cuda:all"])
def test_a_real_gpu_is_not_there_yet(spec: str) -> None:
    with pytest.raises(MissingError, match="emulated device only"):
        open_device(spec)


def test_the_version_tells_gpus_apart_and_nothing_else() -> None:
    versions = {open_device(spec).version for spec in ("emulated", "auto", "emulated:RTX 4090")}
    assert len(versions) == 2
    assert open_device("emulated").version in versions
