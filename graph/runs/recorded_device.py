"""The device of a run as run.json describes it, to stand for it where nothing is executed."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from cuda_llm.capabilities import Capabilities
from cuda_llm.codec import decode, encode
from cuda_llm.errors import InfrastructureError, UsageError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tools.device import Device
from cuda_llm.traces.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class RecordedDevice:
    """The device of a recorded run, with nothing behind it."""

    name: str
    hardware: Hardware
    target: str
    capabilities: Capabilities
    notes: tuple[str, ...] = ()
    version: str = "recorded"

    def pinned(self) -> "RecordedDevice":
        """Return the device itself."""
        return self

    def prepare(self) -> None:
        """Build nothing."""

    async def carry_out(
        self, work: Callable[..., Awaitable[Any]], /, *arguments: Any, **named: Any
    ) -> NoReturn:
        """Raise InfrastructureError: a record executes nothing."""
        raise InfrastructureError("device", f"{self.name} is a record: it executes nothing")


def device_details(device: Device) -> dict[str, Any]:
    """Describe a device for run.json, so that the record is enough to stand for it."""
    major, minor = device.hardware.compute_capability
    return {
        "hardware": {**encode(device.hardware), "compute_capability": f"{major}.{minor}"},
        "target": device.target,
        "capabilities": encode(device.capabilities),
        "notes": list(device.notes),
    }


def recorded_device(folder: RunFolder, run: Mapping[str, Any]) -> RecordedDevice:
    """Return the device of a run, by its shipped profile where run.json describes none.

    Raises UsageError where the description is damaged, HardwareError without a profile.
    """
    from cuda_llm.hardware_profiles.lookup import find_hardware
    from cuda_llm.tools.cuda.site import GPU_CAPABILITIES
    from cuda_llm.tools.emulator.device import EmulatedDevice

    told = run.get("device_details")
    if told is None:
        hardware = find_hardware(run["hardware"])
        modelled = run["time_source"] == "modelled"
        can = EmulatedDevice(hardware).capabilities if modelled else GPU_CAPABILITIES
        return RecordedDevice(
            name=run["device"], hardware=hardware, target=hardware.target, capabilities=can
        )
    try:
        return RecordedDevice(
            name=run["device"],
            hardware=decode(Hardware, told["hardware"]),
            target=str(told["target"]),
            capabilities=decode(Capabilities, told["capabilities"]),
            notes=tuple(told["notes"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder.path / 'run.json'}: device_details.{error}") from None
