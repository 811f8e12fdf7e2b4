"""Machines that join a cluster while a run goes on: their devices take works, too.

No work waits for a machine. The list of machines is read as works begin, at most every LOOK_S: a
run whose devices are idle needs no more devices.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from cuda_llm.log import Log
from cuda_llm.tools.cluster.connection import Node, list_nodes
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.group import DeviceGroup

LOOK_S = 15.0
"""Least seconds between two readings of the list of machines."""
_log = Log(__name__)

OpenOn = Callable[[Sequence[Node], int | None], Awaitable[Sequence[Device]]]
"""Opens the devices of machines, at most so many, and returns the devices that work."""


@dataclass(kw_only=True)
class Newcomers:
    """Looks for machines that have joined the cluster, and has their devices join those of a
    run."""

    known: set[str]
    """Ids of the machines that the run knows."""
    open_on: OpenOn
    most: int | None
    """Most devices of the run, those that it has included; None for any number."""
    looked_s: float = field(default_factory=time.monotonic)
    looking: "asyncio.Task[None] | None" = None

    def look(self, kinds: Sequence[DeviceGroup]) -> None:
        """Begin to look for machines, at most every LOOK_S; a device that is found joins the group
        of its kind."""
        now_s = time.monotonic()
        if now_s - self.looked_s < LOOK_S or (self.looking and not self.looking.done()):
            return
        self.looked_s = now_s
        self.looking = asyncio.ensure_future(self._take_up(kinds))

    async def _take_up(self, kinds: Sequence[DeviceGroup]) -> None:
        try:
            for one in await self._find(sum(len(kind.devices) for kind in kinds)):
                same = [kind for kind in kinds if kind.version == one.version]
                for kind in same:
                    kind.join(one)
                said = "a device has joined" if same else "a device of another kind is not used"
                _log.info(said, device=one.name)
        except Exception as error:  # whatever Ray raises: the run goes on with what it has
            _log.warning("newcomers cannot be looked at", error=str(error))

    async def _find(self, there: int) -> Sequence[Device]:
        """Return devices of machines that the run does not know, `there` and these at most
        `most`."""
        room = None if self.most is None else self.most - there
        if room is not None and room <= 0:
            return ()
        new = [one for one in await asyncio.to_thread(list_nodes) if one.id not in self.known]
        self.known.update(one.id for one in new)
        return await self.open_on(new, room) if new else ()
