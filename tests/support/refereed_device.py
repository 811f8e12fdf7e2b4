"""The emulated device behind a referee process, as a GPU is."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from refereed import PLAIN

from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.devices.emulated import EmulatedDevice
from cuda_llm.tools.referee.client import Client, Patience
from cuda_llm.tools.referee.lease import Lease
from cuda_llm.tools.referee.messages import Opening
from cuda_llm.tools.referee.referee import Referee


class RefereedDevice(EmulatedDevice):
    """One work at a time, in a process of its own."""

    referee: Referee

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, at_once=1)

    async def carry_out(
        self, work: Callable[..., Awaitable[Any]], /, *arguments: Any, **named: Any
    ) -> Any:
        """Whatever process the site is in."""
        return await self.referee.carry_out(work, *arguments, **named)


def refereed(number: int, opening: Opening = PLAIN) -> RefereedDevice:
    """Number `number` of this machine. Its cache must be the test's own."""
    device = RefereedDevice(find_hardware("RTX 3090 Ti"))
    gpu, label = f"GPU-{number}", f"cuda:{number}"
    referee = Referee(
        gpu=gpu,
        label=label,
        client=Client(opening, Patience()),
        lease=Lease(gpu, label, print),
    )
    object.__setattr__(device, "referee", referee)
    return device
