"""From what a user writes after `--device` to a device."""

from typing import TYPE_CHECKING

from cuda_llm.errors import HardwareError, MissingError, UsageError
from cuda_llm.tools.device import Device
from cuda_llm.tools.devices.facts import short_name

if TYPE_CHECKING:
    from cuda_llm.tools.devices.emulated import EmulatedDevice

DEFAULT_GPU = "RTX 3090 Ti"
"""The GPU of the paper this project follows."""
_CHOICES = "auto, emulated or emulated:GPU, as in emulated:RTX 4090"


def open_device(spec: str) -> Device:
    """The device that `spec` names: `emulated`, `emulated:GPU` or `auto`.

    Raises UsageError naming what there is, HardwareError for a GPU nobody has described, and
    MissingError where a real GPU is asked for.
    """
    kind, colon, name = spec.strip().partition(":")
    if kind == "cuda":
        raise MissingError(
            f"{spec}: this version judges on the emulated device only",
            f"use --device emulated:{DEFAULT_GPU}",
        )
    if kind not in {"auto", "emulated"} or (kind == "auto" and colon):
        raise UsageError(f"unknown device {spec!r}; there are: {_CHOICES}")
    if colon and not name.strip():
        raise UsageError(f"{spec!r} names no GPU; there are: {_known()}")
    return open_emulated(name if colon else DEFAULT_GPU)


def open_emulated(gpu: str = DEFAULT_GPU) -> "EmulatedDevice":
    """The emulated device that stands for `gpu`. Raises HardwareError."""
    from cuda_llm.hardware_profiles.lookup import find_hardware
    from cuda_llm.tools.devices.emulated import EmulatedDevice

    try:
        return EmulatedDevice(find_hardware(gpu))
    except HardwareError as error:
        raise HardwareError(f"{error}; there are: {_known()}") from error


def _known() -> str:
    from cuda_llm.hardware_profiles.lookup import list_hardware

    return ", ".join(short_name(profile) for profile in list_hardware())
