"""Several devices of one model as one: each work goes to the first that is free."""

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from cuda_llm.capabilities import Capabilities
from cuda_llm.errors import DeviceLost, UsageError
from cuda_llm.tools.device.device import Device, ForwardingDevice, T, Work

Free = asyncio.Queue[Device]
MAX_GPUS = "max_gpus"


def split_most(spec: str, expected: str) -> tuple[str, int | None]:
    """Return a spec of several devices without its `?max_gpus=N`, and N: how many it uses at most.

    Raises UsageError that says what was `expected`.
    """
    text, question, query = spec.strip().partition("?")
    name, _, value = query.partition("=")
    if not question:
        return text, None
    if name != MAX_GPUS or not value.isdecimal() or int(value) < 1:
        raise UsageError(f"{spec!r}: {query!r} is no {MAX_GPUS}=N of at least 1; {expected}")
    return text, int(value)


class DeviceGroup(ForwardingDevice):
    """As many works at once as there are devices, each alone on its own.

    Times of two devices are compared by their ratio to the baseline beside them; what is to be
    compared closer goes to the `pinned` one.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        """Raises UsageError where the devices are not all of one model and version."""
        models = list(dict.fromkeys(one.hardware.name for one in devices))
        if len(models) > 1:
            names = "; ".join(one.name for one in devices)
            raise UsageError(f"GPUs of different models do not share a run: {names}; name one")
        if len({one.version for one in devices}) > 1:
            names = "; ".join(one.name for one in devices)
            raise UsageError(f"GPUs of one name that differ do not share a run: {names}; name one")
        self.devices = tuple(devices)
        self._free: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Free] = (
            weakref.WeakKeyDictionary()
        )
        self._growing: list[Callable[[], None]] = []

    @property
    def target_device(self) -> Device:
        """The first device: model, version and compilers are the same for all."""
        return self.devices[0]

    @property
    def name(self) -> str:
        """Return number and model, e.g. `2 x NVIDIA H200`."""
        return f"{len(self.devices)} x {self.hardware.name}"

    @property
    def capabilities(self) -> Capabilities:
        """Return what each can do, as many works at once as all of them take."""
        at_once = sum(one.capabilities.at_once for one in self.devices)
        return replace(self.devices[0].capabilities, at_once=at_once)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes of all; each names its device."""
        return tuple(note for one in self.devices for note in one.notes)

    def pinned(self) -> Device:
        """Return the first device, or the next one from when that is lost."""
        return _FirstOf(self)

    def prepare(self) -> None:
        """See `Device.prepare`."""
        for one in self.devices:
            one.prepare()

    async def carry_out(self, work: Work[T]) -> T:
        """See `Device.carry_out`. A device that is lost is left out from then on.

        Its work is done by another one; the last one's loss is raised.
        """
        while True:
            async with self._taken() as device:
                try:
                    return await device.carry_out(work)
                except DeviceLost as lost:
                    self.leave_out(device, lost)

    def join(self, device: Device) -> None:
        """Have one more device take works, one of the model and version of the others."""
        self.devices = (*self.devices, device)
        for _ in range(device.capabilities.at_once):
            for loop, free in self._free.items():
                if not loop.is_closed():
                    loop.call_soon_threadsafe(free.put_nowait, device)
            for grow in self._growing:
                grow()

    def when_growing(self, grow: Callable[[], None]) -> None:
        """See `GrowingDevice.when_growing`."""
        self._growing.append(grow)

    def leave_out(self, device: Device, lost: DeviceLost) -> None:
        """Use this device no more. Raises its loss where it is the last one."""
        left = tuple(one for one in self.devices if one is not device)
        if not left:
            raise lost
        self.devices = left

    @asynccontextmanager
    async def _taken(self) -> AsyncIterator[Device]:
        free = self._queue()
        device = await free.get()
        while not self._has(device):
            device = await free.get()
        try:
            yield device
        finally:
            if self._has(device):
                free.put_nowait(device)

    def _has(self, device: Device) -> bool:
        """Tell whether this very device is left, not one that is equal."""
        return any(one is device for one in self.devices)

    def _queue(self) -> Free:
        """Return the event loop's queue of free devices, one entry for each work a device takes."""
        loop = asyncio.get_running_loop()
        if loop not in self._free:
            self._free[loop] = asyncio.Queue()
            for one in self.devices:
                for _ in range(one.capabilities.at_once):
                    self._free[loop].put_nowait(one)
        return self._free[loop]


class _FirstOf(ForwardingDevice):
    """The device of a group that is always the same while it is there."""

    def __init__(self, group: DeviceGroup) -> None:
        self._group = group

    @property
    def target_device(self) -> Device:
        return self._group.devices[0].pinned()

    async def carry_out(self, work: Work[T]) -> T:
        while True:
            device = self._group.devices[0]
            try:
                return await device.pinned().carry_out(work)
            except DeviceLost as lost:
                if device is self._group.devices[0]:
                    self._group.leave_out(device, lost)
