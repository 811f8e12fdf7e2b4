"""The referee of one GPU: leased, proven before each work, quarantined where it stays broken."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Concatenate, NoReturn

from cuda_llm.errors import BrokenByWork, DeviceLost, InfrastructureError
from cuda_llm.tools.device import P, Site, T
from cuda_llm.tools.referee.client import Client, RefereeBroken, Unopened
from cuda_llm.tools.referee.lease import Lease
from cuda_llm.tools.referee.quarantine import find_quarantine, put_in_quarantine, quarantine_mend


@dataclass(frozen=True, kw_only=True)
class Referee:
    """Carries work to one GPU, alone on it, and says who is to blame when something breaks."""

    gpu: str
    """UUID: names the GPU in the cache."""
    label: str
    """What a person calls it: `cuda:0`."""
    client: Client
    lease: Lease

    async def carry_out(
        self,
        work: Callable[Concatenate[Site, P], Awaitable[T]],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """See `Device.carry_out`. A referee that breaks before the work begins is replaced once.

        Work that has begun is not repeated here: whoever asked knows whether that is worth it.
        Raises BrokenByWork where it broke the referee and the GPU is fine without it, DeviceLost
        where the GPU is not fine: it is then in quarantine.
        """
        async with self.lease.held():
            self.refuse_in_quarantine()
            try:
                try:
                    return await self.client.ask(work, *arguments, **named)
                except RefereeBroken as broken:
                    if broken.proven or isinstance(broken, Unopened):
                        raise
                    return await self.client.ask(work, *arguments, **named)
            except RefereeBroken as broken:
                await self._blame(broken)
            except DeviceLost as lost:
                self._put_away(lost.detail)

    def refuse_in_quarantine(self) -> None:
        """Raise DeviceLost where the GPU is in quarantine."""
        found = find_quarantine(self.gpu)
        if found is not None:
            msg = f"{self.label} is in quarantine since {found.since}: {found.reason}"
            raise DeviceLost("device", f"{msg}; {quarantine_mend(self.label)}")

    async def _blame(self, broken: RefereeBroken) -> NoReturn:
        """Is it the work, or the GPU? Ask for nothing but the known answer."""
        if isinstance(broken, Unopened):
            raise InfrastructureError("device", f"{self.label} cannot be opened: {broken}")
        if broken.proven:
            try:
                await self.client.ask(nothing)
            except RefereeBroken as alone:
                self._put_away(f"{broken}; then, without a candidate: {alone}")
            raise BrokenByWork("device", f"{self.label}: {broken}")
        self._put_away(str(broken))

    def _put_away(self, reason: str) -> NoReturn:
        put_in_quarantine(self.gpu, self.label, reason)
        self.refuse_in_quarantine()
        raise DeviceLost("device", f"{self.label}: {reason}")


async def nothing(_site: Site) -> None:
    """Work that needs the known answer alone."""
