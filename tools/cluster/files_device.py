"""A GPU that is reached in batches: works wait in a folder until `cuda-llm judge-files` answers.

    --device files:DIR              the device that has answered in DIR before
    --device 'files:DIR?gpu=H200'   a GPU of that kind, where none has answered yet

Kernels are compiled here. What a round needs of the device is asked for at once (validation and
timing of every candidate), so that a round costs one batch.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from cuda_llm.errors import DeviceLost, InfrastructureError, UsageError
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.cluster.bundle import keep_all
from cuda_llm.tools.cluster.order_folder import Letter, OrderFolder, written_by
from cuda_llm.tools.cluster.parcel import fingerprint, pack, unpack
from cuda_llm.tools.cluster.start_worker import result_of
from cuda_llm.tools.cluster.worker import WorkerFacts
from cuda_llm.tools.cuda.messages import WorkDone, WorkFailed
from cuda_llm.tools.cuda.site import GPU_CAPABILITIES
from cuda_llm.tools.device import DescribedDevice, Device, ForwardingDevice, T, Work

LOOK_S = 0.5
"""Seconds between two looks for an answer."""
SETTLED_S = 2.0
"""Seconds for which the number of waiting works stays the same before a person reads it."""
AT_ONCE = 1024
"""Most works that wait at once: all that a round may need."""


def open_device_of(
    text: str, open_device: Callable[..., Device], *, report: Callable[[str], None]
) -> "FilesDevice":
    """Open the device whose works go through the folder that `text` names.

    Raises UsageError for a text that names no folder, a folder that cannot be written to, and one
    in which no device has answered while `text` names no GPU; HardwareError for an unknown GPU.
    """
    folder, gpu = parse_files(text)
    folder.prepare()
    letter = folder.read_device()
    if letter is None and not gpu:
        raise UsageError(
            f"{folder.root}: no machine has answered there; name its GPU, as in "
            f"'files:{folder.root}?gpu=H200', or run `cuda-llm judge-files {folder.root}` on the "
            "machine with the GPU first"
        )
    if letter is None:
        known = find_hardware(gpu)
        name = f"{known.name} through {folder.root}"
        described = DescribedDevice(
            name=name, hardware=known, capabilities=GPU_CAPABILITIES, version=f"files {known.name}"
        )
    else:
        described = _described(folder, letter)
        named = find_hardware(gpu).name if gpu else described.hardware.name
        if named != described.hardware.name:
            raise UsageError(
                f"{folder.root}: {described.hardware.name} answers there, not {named}; leave out "
                "?gpu=, or take another folder"
            )
    capabilities = replace(described.capabilities, at_once=AT_ONCE, batched=True)
    return FilesDevice(folder, replace(described, capabilities=capabilities), report)


def parse_files(text: str) -> tuple[OrderFolder, str]:
    """Return the folder and the GPU that `files:DIR?gpu=NAME` names; an empty GPU where none is.

    Raises UsageError.
    """
    path, _, query = text.strip().partition(":")[2].partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    gpu = options.pop("gpu", "")
    if not path or options:
        raise UsageError(f"{text!r}: expected files:DIR, or 'files:DIR?gpu=H200'")
    return OrderFolder(Path(path).expanduser().resolve()), gpu


def _described(folder: OrderFolder, letter: Letter) -> DescribedDevice:
    _require_same_code(folder, letter)
    facts = unpack(letter.payload)
    if not isinstance(facts, WorkerFacts):
        raise UsageError(f"{folder.root / 'device.zip'}: describes no device; delete it")
    return facts.device


def _require_same_code(folder: OrderFolder, letter: Letter) -> None:
    if letter.code != written_by():
        raise UsageError(
            f"{folder.root}: the machine that answers there runs other code of cuda-llm "
            f"({letter.code}, here {written_by()}); install the same version on both"
        )


@dataclass
class _Waiting:
    """How many works wait, for a person."""

    folder: OrderFolder
    report: Callable[[str], None]
    count: int = 0
    said: int = 0
    timer: asyncio.TimerHandle | None = field(default=None)

    def change(self, by: int) -> None:
        """Count, and say the count once it stays the same."""
        self.count += by
        if self.timer is not None:
            self.timer.cancel()
        self.timer = asyncio.get_running_loop().call_later(SETTLED_S, self._say)

    def _say(self) -> None:
        if self.count and self.count != self.said:
            place = self.folder.root
            self.report(
                f"{self.count} works wait in {place} for `cuda-llm judge-files {place.name}` on "
                "the machine with the GPU"
            )
        self.said = self.count


class FilesDevice(ForwardingDevice):
    """A device whose works and answers are files. The device waits for an answer without a
    limit."""

    def __init__(
        self, folder: OrderFolder, described: DescribedDevice, report: Callable[[str], None]
    ) -> None:
        super().__init__(described)
        self.folder = folder
        self._waiting = _Waiting(folder, report)

    @property
    def spec(self) -> str:
        """Text that opens this device again."""
        return f"files:{self.folder.root}?gpu={self.hardware.name}"

    async def carry_out(self, work: Work[T]) -> T:
        """Put the work down as an order, and wait for its answer.

        Raises DeviceLost where the machine that answers runs other code, and what the work raises.
        """
        name = fingerprint(work)
        letter = self.folder.read_answer(name)
        if letter is None:
            letter = await self._wait(name, self._order(work))
        if letter.code != written_by():
            self.folder.discard_answer(name)
            raise DeviceLost(
                "device", f"{self.name} answers with other code of cuda-llm; install the same there"
            )
        keep_all(letter.contents)
        reply = unpack(letter.payload)
        if not isinstance(reply, WorkDone | WorkFailed):
            self.folder.discard_answer(name)
            raise InfrastructureError("device", f"{self.name} answers what is no answer")
        if isinstance(reply, WorkFailed):
            self.folder.discard_answer(name)
        self.folder.close_order(name)
        result: T = result_of(reply)
        return result

    def _order(self, work: Work[Any]) -> Letter:
        """Return a work as it lies in the folder, with all its files."""
        parcel = pack(work)
        return Letter(
            payload=parcel.payload,
            code=written_by(),
            gpu=self.hardware.name,
            contents=parcel.contents(parcel.bundles.keys()),
        )

    async def _wait(self, name: str, order: Letter) -> Letter:
        """Put an order down and return its answer, however long that takes.

        Whoever reads of a failure first takes order and answer away, so that the work can be asked
        for again; another search that waits for the same order then does so.
        """
        self._waiting.change(1)
        try:
            while (letter := self.folder.read_answer(name)) is None:
                self.folder.order(name, order)
                await asyncio.sleep(LOOK_S)
            return letter
        finally:
            self._waiting.change(-1)
