"""Slots of a bench: how many compilers and candidates work at once, and which is next."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from cuda_llm.settings import settings
from cuda_llm.tools.device import CompilingDevice, Device, GrowingDevice

KEPT_S = 0.1
"""Seconds that a device waits for the kernel that it has just validated to be timed."""


@dataclass(frozen=True, kw_only=True)
class BenchSlots:
    """Slots of compilers and of devices, each given in order of arrival. Belongs to one event loop.

    A kernel is timed in the process in which it was validated, unless another kernel is called on
    the device in between: so a device is kept for KEPT_S for the kernel that has just left it.
    Candidates that are all validated first would need twice as many processes.
    """

    compilers: asyncio.Semaphore
    devices: asyncio.Semaphore
    cores: asyncio.Semaphore
    """Cores of this machine, for the emulated device that watches beside the device; the compilers'
    slots, where compilers run on this machine."""
    kept: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    """By key of the kernel: the timer that ends the wait of the device which is kept for it."""

    @asynccontextmanager
    async def device_for(self, key: str) -> AsyncIterator[Callable[[], None]]:
        """Hold a device: the one that is kept for the kernel with this key, or the next that is
        free.

        Yields a function; where it has been called, the device is kept for the kernel afterwards.
        """
        kept = self.kept.pop(key, None)
        if kept is None:
            await self.devices.acquire()
        else:
            kept.cancel()
        is_to_be_kept = False

        def keep() -> None:
            nonlocal is_to_be_kept
            is_to_be_kept = True

        try:
            yield keep
        finally:
            if is_to_be_kept and key not in self.kept:
                loop = asyncio.get_running_loop()
                self.kept[key] = loop.call_later(KEPT_S, self._give_back, key)
            else:
                self.devices.release()

    def _give_back(self, key: str) -> None:
        del self.kept[key]
        self.devices.release()


def open_slots(device: Device) -> BenchSlots:
    """Return slots: for compilers one a core, or those of the device's compilers, and for
    candidates as many as the device takes at once."""
    cores = asyncio.Semaphore(settings().compile_workers or len(os.sched_getaffinity(0)))
    elsewhere = device.compile_slots if isinstance(device, CompilingDevice) else 0
    devices = asyncio.Semaphore(device.capabilities.at_once)
    if isinstance(device, GrowingDevice):
        device.when_growing(devices.release)
    return BenchSlots(
        compilers=asyncio.Semaphore(elsewhere) if elsewhere else cores,
        devices=devices,
        cores=cores,
    )
