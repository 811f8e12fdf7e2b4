"""Sessions that are ended while nobody watches: taking a context down takes some time."""

import asyncio

from cuda_llm.tools.gpu.lodging import Lodging


class Leaving:
    """What is being given back."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], int] = {}

    @property
    def held_bytes(self) -> int:
        """Device memory that is not back yet."""
        return sum(held for task, held in self._tasks.items() if not task.done())

    def __len__(self) -> int:
        """How many have not been waited for."""
        return len(self._tasks)

    def begin(self, resources: Lodging) -> None:
        """Start giving back what a session held."""
        held = resources.held_bytes
        self._tasks[asyncio.create_task(resources.release())] = held

    async def wait_for_one(self) -> None:
        """Wait for the one that began first. Raises DeviceLost where it does not end."""
        task = next(iter(self._tasks))
        await asyncio.wait([task])
        if self._tasks.pop(task, None) is not None:
            task.result()

    async def wait_for_all(self) -> None:
        """Wait for all. Raises DeviceLost where one does not end."""
        while self._tasks:
            await self.wait_for_one()
