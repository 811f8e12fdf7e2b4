"""Several devices of one model as one: each work goes to the first device that is free.

A device that is lost is left out from then on. Its work is not repeated here: the judge does that.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NoReturn

from cuda_llm.capabilities import Capabilities
from cuda_llm.each_loop import EachLoop
from cuda_llm.errors import DeviceLost, MemberLost, UsageError
from cuda_llm.tools.device.device import Device, ForwardingDevice, T, Work

MAX_GPUS = "max_gpus"


def split_most(spec: str, expected: str) -> tuple[str, int | None]:
    """Return the text that names several devices without its `?max_gpus=N`, and N; None where there
    is no N.

    Raises UsageError, which says what was `expected`.
    """
    text, question, query = spec.strip().partition("?")
    name, _, value = query.partition("=")
    if not question:
        return text, None
    if name != MAX_GPUS or not value.isdecimal() or int(value) < 1:
        raise UsageError(f"{spec!r}: {query!r} is no {MAX_GPUS}=N of at least 1; {expected}")
    return text, int(value)


class DeviceGroup(ForwardingDevice):
    """Takes as many works at once as there are devices; each work has a device for itself.

    Times of two devices are compared by their ratio to the baseline beside them; kernels that are
    compared closer go to the `pinned` device.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        """Raises UsageError where devices differ in model or version."""
        models = list(dict.fromkeys(one.hardware.name for one in devices))
        if len(models) > 1:
            names = "; ".join(one.name for one in devices)
            raise UsageError(f"GPUs of different models do not share a run: {names}; name one")
        if len({one.version for one in devices}) > 1:
            names = "; ".join(one.name for one in devices)
            raise UsageError(f"GPUs of one name that differ do not share a run: {names}; name one")
        self.devices = tuple(devices)
        self._free = EachLoop[asyncio.Queue[Device]]()
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
        """Return the capabilities of each device, with as many works at once as all devices
        take."""
        at_once = sum(one.capabilities.at_once for one in self.devices)
        return replace(self.devices[0].capabilities, at_once=at_once)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes of all devices; each note names its device."""
        return tuple(note for one in self.devices for note in one.notes)

    def pinned(self) -> Device:
        """Return the first device, which is the next device once the first is lost."""
        return _FirstOf(self)

    def prepare(self) -> None:
        """See `Device.prepare`."""
        for one in self.devices:
            one.prepare()

    async def carry_out(self, work: Work[T]) -> T:
        """Do `work` on the first device that is free, and return its result.

        Raises MemberLost where that device is lost and others are left, and the loss of the last
        device.
        """
        async with self._taken() as device:
            try:
                return await device.carry_out(work)
            except DeviceLost as lost:
                self.leave_out(device, lost)

    def join(self, device: Device) -> None:
        """Have one more device take works, which has the model and version of the others."""
        self.devices = (*self.devices, device)
        for _ in range(device.capabilities.at_once):
            for loop, free in self._free.made.items():
                if not loop.is_closed():
                    loop.call_soon_threadsafe(free.put_nowait, device)
            for grow in self._growing:
                grow()

    def when_growing(self, grow: Callable[[], None]) -> None:
        """See `GrowingDevice.when_growing`."""
        self._growing.append(grow)

    def leave_out(self, device: Device, lost: DeviceLost) -> NoReturn:
        """Use this device no more. Raises MemberLost, or its loss where it is the last device."""
        left = tuple(one for one in self.devices if one is not device)
        if not left:
            raise lost
        self.devices = left
        raise MemberLost(lost.component, f"{lost.detail}; {len(left)} devices are left") from lost

    @asynccontextmanager
    async def _taken(self) -> AsyncIterator[Device]:
        free = self._free.here(self._queue)
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

    def _queue(self) -> asyncio.Queue[Device]:
        """Return a queue with one entry for each work that each device takes at once."""
        free = asyncio.Queue[Device]()
        for one in self.devices:
            for _ in range(one.capabilities.at_once):
                free.put_nowait(one)
        return free


class _FirstOf(ForwardingDevice):
    """The first device of a group, for as long as it is not lost."""

    def __init__(self, group: DeviceGroup) -> None:
        self._group = group

    @property
    def target_device(self) -> Device:
        return self._group.devices[0].pinned()

    async def carry_out(self, work: Work[T]) -> T:
        device = self._group.devices[0]
        try:
            return await device.pinned().carry_out(work)
        except DeviceLost as lost:
            self._group.leave_out(device, lost)
