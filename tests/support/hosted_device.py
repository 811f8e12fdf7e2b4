"""The emulated device behind a GPU host process, as a GPU is."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from host_works import PLAIN

from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.cuda.client import HostClient, HostTimeouts
from cuda_llm.tools.cuda.device import GpuHost
from cuda_llm.tools.cuda.lease import Lease
from cuda_llm.tools.cuda.messages import OpenSite
from cuda_llm.tools.emulator.device import EmulatedDevice


class HostedDevice(EmulatedDevice):
    """One work at a time, in a process of its own."""

    host: GpuHost

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, at_once=1)

    async def carry_out(
        self, work: Callable[..., Awaitable[Any]], /, *arguments: Any, **named: Any
    ) -> Any:
        """See `Device.carry_out`."""
        return await self.host.carry_out(work, *arguments, **named)


def hosted(number: int, opening: OpenSite = PLAIN) -> HostedDevice:
    """Make device `number` of this machine. Its cache must be the test's own."""
    device = HostedDevice(find_hardware("RTX 3090 Ti"))
    gpu, label = f"GPU-{number}", f"cuda:{number}"
    host = GpuHost(
        gpu=gpu,
        label=label,
        client=HostClient(opening, HostTimeouts()),
        lease=Lease(gpu, label, print),
    )
    object.__setattr__(device, "host", host)
    return device
