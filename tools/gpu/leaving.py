"""Sessions that are ended while nobody watches: taking a context down takes some time."""

import asyncio

from cuda_llm.tools.gpu.lodging import Lodging


class Leaving:
    """What has been told to end and may not have done so yet."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], int] = {}

    @property
    def held_bytes(self) -> int:
        """Device memory that is not back yet."""
        return sum(held for task, held in self._tasks.items() if not task.done())

    def __len__(self) -> int:
        """Sessions that have not been waited for."""
        return len(self._tasks)

    def begin(self, lodging: Lodging) -> None:
        """Have it leave."""
        held = lodging.held_bytes
        self._tasks[asyncio.create_task(lodging.leave())] = held

    async def wait_for_one(self) -> None:
        """Wait for the one that was told first. Raises DeviceLost where it does not go."""
        task = next(iter(self._tasks))
        await asyncio.wait([task])
        if self._tasks.pop(task, None) is not None:
            task.result()

    async def wait_for_all(self) -> None:
        """Wait for all. Raises DeviceLost where one does not go."""
        while self._tasks:
            await self.wait_for_one()
