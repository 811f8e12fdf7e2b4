"""A device that forwards everything to another device; a subclass overrides what differs."""

from collections.abc import Awaitable, Callable
from typing import Concatenate

from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.tools.device.candidate import Compiled, CompileRequest
from cuda_llm.tools.device.device import CompilingDevice, Device, GrowingDevice, P, Site, T


class ForwardingDevice:
    """Each member answers as `target_device` does, its compilers and its growth included."""

    def __init__(self, device: Device) -> None:
        self._device = device

    @property
    def target_device(self) -> Device:
        """The device that answers now."""
        return self._device

    @property
    def name(self) -> str:
        """See `Device.name`."""
        return self.target_device.name

    @property
    def hardware(self) -> Hardware:
        """See `Device.hardware`."""
        return self.target_device.hardware

    @property
    def target(self) -> str:
        """See `Device.target`."""
        return self.target_device.target

    @property
    def capabilities(self) -> Capabilities:
        """See `Device.capabilities`."""
        return self.target_device.capabilities

    @property
    def version(self) -> str:
        """See `Device.version`."""
        return self.target_device.version

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Device.notes`."""
        return self.target_device.notes

    @property
    def compile_slots(self) -> int:
        """See `CompilingDevice.compile_slots`."""
        device = self.target_device
        return device.compile_slots if isinstance(device, CompilingDevice) else 0

    async def compile(self, request: CompileRequest) -> Compiled | Verdict:
        """See `CompilingDevice.compile`; only where `compile_slots` is not 0."""
        device = self.target_device
        assert isinstance(device, CompilingDevice), "compile_slots is 0"
        return await device.compile(request)

    def when_growing(self, grow: Callable[[], None]) -> None:
        """See `GrowingDevice.when_growing`."""
        if isinstance(self.target_device, GrowingDevice):
            self.target_device.when_growing(grow)

    def pinned(self) -> Device:
        """Return this device, pinned to one device."""
        return self

    def prepare(self) -> None:
        """See `Device.prepare`."""
        self.target_device.prepare()

    async def carry_out(
        self,
        work: Callable[Concatenate[Site, P], Awaitable[T]],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """See `Device.carry_out`."""
        return await self.target_device.carry_out(work, *arguments, **named)
