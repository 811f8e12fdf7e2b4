"""The emulated device behind a GPU host process, as a GPU is."""

from dataclasses import replace
from typing import Any

from host_works import PLAIN

from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.cuda.client import HostClient, HostTimeouts
from cuda_llm.tools.cuda.device import GpuHost
from cuda_llm.tools.cuda.lease import Lease
from cuda_llm.tools.cuda.messages import OpenSite
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.forwarding import ForwardingDevice
from cuda_llm.tools.emulator.device import EmulatedDevice


class HostedDevice(ForwardingDevice):
    """One work at a time, in a process of its own."""

    def __init__(self, device: Device, host: GpuHost) -> None:
        super().__init__(device)
        self.host = host

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, at_once=1)

    async def carry_out(self, work: Any, /, *arguments: Any, **named: Any) -> Any:
        """See `Device.carry_out`."""
        return await self.host.carry_out(work, *arguments, **named)


def hosted(number: int, opening: OpenSite = PLAIN) -> HostedDevice:
    """Make device `number` of this machine. Its cache must be the test's own."""
    gpu, label = f"GPU-{number}", f"cuda:{number}"
    host = GpuHost(
        gpu=gpu,
        label=label,
        client=HostClient(opening, HostTimeouts()),
        lease=Lease(gpu, label, print),
    )
    return HostedDevice(EmulatedDevice(find_hardware("RTX 3090 Ti")), host)
