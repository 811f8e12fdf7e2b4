"""What a user may write after `--device`."""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from gpu_drivers import attributes_of, build_driver
from gpu_world import install_cupy, install_nvml

from cuda_llm.errors import DeviceLost, HardwareError, MissingError, UsageError
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.cuda.quarantine import lift_quarantine, put_in_quarantine
from cuda_llm.tools.device import Device
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.open_device import FIRST_USE, QUIET_S, open_device, prepare_device

H200 = attributes_of(find_hardware("NVIDIA H200"))
NO_DRIVER = "libcuda-that-is-not-there.so.1"
QUIET = {"uuid": H200.uuid, "display": 0, "utilisation": 0, "free_bytes": 99 << 30, "processes": []}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, CuPy and a quiet NVML."""
    monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path / "cache"))
    install_cupy(tmp_path, monkeypatch)
    install_nvml(tmp_path, monkeypatch, QUIET)
    return tmp_path


def opened(spec: str, library: str) -> tuple[Device, list[str]]:
    """The device and what was said while it was found."""
    lines: list[str] = []
    return open_device(spec, report=lines.append, library=library), lines


@pytest.mark.parametrize(
    ("spec", "name", "target"),
    [
        ("emulated", "emulated RTX 3090 Ti", "sm_86"),
        ("emulated:RTX 4090", "emulated RTX 4090", "sm_89"),
        ("emulated: rtx 4090", "emulated RTX 4090", "sm_89"),
        ("emulated:NVIDIA GeForce RTX 3090 Ti", "emulated RTX 3090 Ti", "sm_86"),
    ],
)
def test_a_device_is_found_by_its_name(spec: str, name: str, target: str) -> None:
    device = open_device(spec)
    assert (device.name, device.hardware.target, device.capabilities.time_source) == (
        name,
        target,
        "modelled",
    )


@pytest.mark.parametrize("spec", ["", "gpu", "auto:RTX 4090", "emulated 4090", "cpu:0"])
def test_an_unknown_device_tells_what_there_is(spec: str) -> None:
    with pytest.raises(UsageError, match=r"there are: auto, cuda, .*emulated or emulated:GPU"):
        open_device(spec)


@pytest.mark.parametrize("spec", ["emulated:RTX 9999", "emulated:4090"])
def test_an_unknown_gpu_tells_what_there_is(spec: str) -> None:
    with pytest.raises(HardwareError, match="RTX 3090 Ti"):
        open_device(spec)


def test_no_gpu_after_the_colon_tells_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"names no GPU; there are: .*RTX 4090"):
        open_device("emulated:")


@pytest.mark.parametrize("spec", ["cuda:x", "cuda:", "cuda:0,0", "cuda:-1", "cuda:0,all"])
def test_what_names_no_gpu_on_any_machine_is_a_usage_error_without_a_driver_too(spec: str) -> None:
    with pytest.raises(UsageError, match="names no GPU; expected cuda:0, cuda:0,1 or cuda:all"):
        open_device(spec, library=NO_DRIVER)


def test_the_version_tells_gpus_apart_and_nothing_else() -> None:
    specs = ("emulated", "emulated:RTX 3090 Ti", "emulated:RTX 4090")
    versions = {open_device(spec).version for spec in specs}
    assert len(versions) == 2
    assert open_device("emulated").version in versions


def test_without_a_gpu_auto_takes_the_emulated_one_and_says_why() -> None:
    device, lines = opened("auto", NO_DRIVER)
    assert device.name == "emulated RTX 3090 Ti"
    (line,) = lines
    assert line.startswith("emulated RTX 3090 Ti stands in for a GPU: no CUDA driver")


@pytest.mark.parametrize("spec", ["cuda", "cuda:0", "cuda:all"])
def test_without_a_driver_a_gpu_cannot_be_had(spec: str) -> None:
    with pytest.raises(MissingError, match=r"no CUDA driver.*emulated"):
        open_device(spec, library=NO_DRIVER)


@pytest.mark.parametrize(("driver", "extra"), [(13000, "gpu"), (12080, "gpu-cuda12")])
def test_without_cupy_the_extra_that_fits_the_driver_is_named(
    tmp_path: Path, driver: int, extra: str
) -> None:
    library = build_driver(tmp_path, replace(H200, driver_cuda=driver))
    with pytest.raises(MissingError, match=rf"pip install 'cuda-llm\[{extra}\]'"):
        open_device("cuda:0", library=library)
    device, (line,) = opened("auto", library)
    assert device.capabilities.time_source == "modelled"
    assert "CuPy is missing" in line


@pytest.mark.parametrize("spec", ["auto", "cuda", "cuda:0"])
def test_a_gpu_that_works_is_taken(machine: Path, spec: str) -> None:
    device, lines = opened(spec, build_driver(machine, H200))
    assert (device.name, device.hardware.target) == ("cuda:0 NVIDIA H200", "sm_90a")
    assert (device.capabilities.time_source, device.capabilities.at_once, device.notes) == (
        "measured",
        1,
        (),
    )
    assert lines == ["cuda:0 NVIDIA H200: a GPU that works"] * (spec == "auto")


@pytest.mark.parametrize(("spec", "name"), [("cuda:1", "cuda:1 NVIDIA H200"), ("cuda:0,1", "2 x")])
def test_gpus_are_named_by_ordinals(machine: Path, spec: str, name: str) -> None:
    device, _ = opened(spec, build_driver(machine, H200, count=2))
    assert device.name.startswith(name)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("cuda:all?max_gpus=3", "3 x NVIDIA H200"),
        ("cuda:0,2?max_gpus=1", "cuda:0 NVIDIA H200"),
        ("cuda:all?max_gpus=9", "4 x NVIDIA H200"),
    ],
)
def test_of_several_gpus_no_more_are_opened_than_asked_for(
    spec: str, name: str, machine: Path
) -> None:
    device, _ = opened(spec, build_driver(machine, H200, count=4))
    assert device.name == name


@pytest.mark.parametrize("spec", ["cuda:all?max_gpus=0", "cuda:all?gpus=2", "cuda:all?"])
def test_a_slip_in_how_many_gpus_are_used_is_told(spec: str) -> None:
    with pytest.raises(UsageError, match=r"is no max_gpus=N of at least 1; expected cuda:all"):
        open_device(spec, library=NO_DRIVER)


@pytest.mark.parametrize("spec", ["ray:", "ray:/H200", "ray:auto?max_gpus=0"])
def test_a_slip_in_the_text_of_a_cluster_is_told(spec: str) -> None:
    with pytest.raises(UsageError, match="expected ray:auto or ray://HOST:10001"):
        open_device(spec)


def test_all_gpus_are_one_device_as_wide_as_they_are_many(machine: Path) -> None:
    device, _ = opened("cuda:all", build_driver(machine, H200, count=4))
    assert (device.name, device.capabilities.at_once) == ("4 x NVIDIA H200", 4)
    assert device.pinned().name == "cuda:0 NVIDIA H200"


@pytest.mark.parametrize("spec", ["cuda:2", "cuda:0,2", "cuda:0,0", "cuda:", "cuda:first"])
def test_an_unknown_ordinal_tells_what_there_is(machine: Path, spec: str) -> None:
    there = r"there are: cuda:0 \(NVIDIA H200\), cuda:1 \(NVIDIA H200\)"
    with pytest.raises(UsageError, match=there):
        opened(spec, build_driver(machine, H200, count=2))


def test_company_is_told_and_kept_with_the_device(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_nvml(machine, monkeypatch, QUIET | {"display": 1})
    device, lines = opened("cuda:0", build_driver(machine, H200))
    assert device.notes == ("cuda:0: it drives a display",)
    assert lines == ["note: cuda:0: it drives a display"]


def test_auto_prefers_a_gpu_without_company(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = QUIET | {"uuid": f"{H200.uuid[:-2]}01"}
    install_nvml(machine, monkeypatch, QUIET | {"utilisation": 80}, second)
    device, _ = opened("auto", build_driver(machine, H200, count=2))
    assert device.name == "cuda:1 NVIDIA H200"


def test_auto_leaves_a_full_gpu_alone(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_nvml(machine, monkeypatch, QUIET | {"free_bytes": 1 << 30})
    device, (line,) = opened("auto", build_driver(machine, H200))
    assert device.capabilities.time_source == "modelled"
    assert "cuda:0 has 1.0 GiB of memory free" in line


def test_without_nvml_it_is_said_that_company_is_not_known(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LLM_NVML", "false")
    device, _ = opened("cuda:0", build_driver(machine, H200))
    assert device.notes == (
        "cuda:0: whether something else uses it is not known: the setting nvml is off",
    )


def test_a_gpu_without_a_profile_is_used_with_a_draft_and_a_note(machine: Path) -> None:
    unknown = replace(H200, name="NVIDIA H200 NVL", sm_count=114)
    device, lines = opened("cuda:0", build_driver(machine, unknown))
    assert (device.hardware.name, device.hardware.sm_count) == ("NVIDIA H200 NVL", 114)
    assert device.hardware.target == "sm_90a"
    assert "NVIDIA H200 NVL has no profile" in "".join(lines)


def test_a_gpu_in_quarantine_is_not_opened(machine: Path) -> None:
    library = build_driver(machine, H200)
    put_in_quarantine(H200.uuid, "cuda:0", "7 known words were wrong")
    with pytest.raises(DeviceLost, match=r"7 known words .*doctor --lift cuda:0"):
        opened("cuda:0", library)
    device, (line,) = opened("auto", library)
    assert device.capabilities.time_source == "modelled"
    assert "quarantine" in line
    lift_quarantine(H200.uuid)
    assert opened("auto", library)[0].capabilities.time_source == "measured"


def test_the_driver_is_part_of_the_version(machine: Path) -> None:
    library = build_driver(machine, H200)
    first = opened("cuda:0", library)[0].version
    assert opened("cuda:0", library)[0].version == first
    newer = replace(H200, driver_cuda=13010)
    assert opened("cuda:0", build_driver(machine, newer))[0].version != first


def test_what_an_h200_said_of_itself_needs_no_note() -> None:
    from cuda_llm.tools.cuda.driver_query import GpuAttributes
    from cuda_llm.tools.cuda.open_cuda import describe_gpu

    recorded = Path(__file__).parents[1] / "fixtures/detector/h200.json"
    lines = json.loads(recorded.read_text())["gpu"]
    capability = tuple(lines["compute_capability"])
    hardware, notes = describe_gpu(GpuAttributes(**lines | {"compute_capability": capability}))
    assert (hardware.slug, notes) == ("h200_sxm5_141gb", ())


@dataclass(frozen=True)
class SlowDevice(EmulatedDevice):
    """A device whose parts take their time to build."""

    takes_s: float = 0.0

    def prepare(self) -> None:
        time.sleep(self.takes_s)


@pytest.mark.parametrize(("takes_s", "lines"), [(0.0, []), (2 * QUIET_S, [FIRST_USE])])
def test_a_preparation_that_takes_its_time_is_announced(takes_s: float, lines: list[str]) -> None:
    reported: list[str] = []
    device = SlowDevice(find_hardware("RTX 3090 Ti"), takes_s=takes_s)
    prepare_device(device, reported.append)
    assert reported == lines
