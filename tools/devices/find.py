"""From what a user writes after `--device` to a device."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from cuda_llm.errors import CudaLLMError, HardwareError, UsageError
from cuda_llm.tools.detector.detect import DRIVER
from cuda_llm.tools.device import Device
from cuda_llm.tools.devices.facts import short_name

if TYPE_CHECKING:
    from cuda_llm.tools.devices.emulated import EmulatedDevice

DEFAULT_GPU = "RTX 3090 Ti"
"""The GPU of the paper this project follows."""
_CHOICES = (
    "auto, cuda, cuda:0, cuda:0,1, cuda:all, emulated or emulated:GPU, as in emulated:RTX 4090"
)

Tell = Callable[[str], None]
"""Called with one line for a person."""


def say(line: str) -> None:
    """A line on stderr."""
    print(line, file=sys.stderr, flush=True)


def open_device(spec: str, *, tell: Tell = say, library: str = DRIVER) -> Device:
    """The device that `spec` names. `tell` hears which one `auto` takes and why, and what a time
    on a GPU would suffer from.

    Raises UsageError naming what there is, HardwareError for a GPU nobody has described,
    MissingError where a real GPU is asked for and something lacks, DeviceLost for one in
    quarantine, InfrastructureError where the driver fails.
    """
    kind, colon, name = spec.strip().partition(":")
    if kind == "auto" and not colon:
        return _auto(tell, library)
    if kind == "cuda":
        from cuda_llm.tools.devices.find_cuda import open_cuda

        device = open_cuda(name.strip() if colon else "0", spec=spec, tell=tell, library=library)
        _tell_notes(device, tell)
        return device
    if kind != "emulated":
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


def _auto(tell: Tell, library: str) -> Device:
    """A GPU that works, else the emulated device."""
    from cuda_llm.tools.devices.find_cuda import find_working

    try:
        device: Device = find_working(tell=tell, library=library)
    except CudaLLMError as error:
        emulated = open_emulated()
        tell(f"{emulated.name} stands in for a GPU: {error}")
        return emulated
    tell(f"{device.name}: a GPU that works")
    _tell_notes(device, tell)
    return device


def _tell_notes(device: Device, tell: Tell) -> None:
    for note in device.notes:
        tell(f"note: {note}")


def _known() -> str:
    from cuda_llm.hardware_profiles.lookup import list_hardware

    return ", ".join(short_name(profile) for profile in list_hardware())
