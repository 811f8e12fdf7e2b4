"""The emulated device behind a referee process, as a GPU is."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from refereed import PLAIN

from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.cuda.client import HostClient, HostTimeouts
from cuda_llm.tools.cuda.gpu_host import GpuHost
from cuda_llm.tools.cuda.lease import Lease
from cuda_llm.tools.cuda.messages import OpenSite
from cuda_llm.tools.emulated.device import EmulatedDevice


class RefereedDevice(EmulatedDevice):
    """One work at a time, in a process of its own."""

    referee: GpuHost

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, at_once=1)

    async def carry_out(
        self, work: Callable[..., Awaitable[Any]], /, *arguments: Any, **named: Any
    ) -> Any:
        """Whatever process the site is in."""
        return await self.referee.carry_out(work, *arguments, **named)


def refereed(number: int, opening: OpenSite = PLAIN) -> RefereedDevice:
    """Number `number` of this machine. Its cache must be the test's own."""
    device = RefereedDevice(find_hardware("RTX 3090 Ti"))
    gpu, label = f"GPU-{number}", f"cuda:{number}"
    referee = GpuHost(
        gpu=gpu,
        label=label,
        client=HostClient(opening, HostTimeouts()),
        lease=Lease(gpu, label, print),
    )
    object.__setattr__(device, "referee", referee)
    return device
