"""The devices of a cluster as one device, GPUs of different kinds among them.

GPUs of the first kind validate and time. GPUs of other kinds validate where the user has named
kinds, and time as well where the user has named none. A time of theirs is ranked by its ratio to
the baseline beside it on the same GPU. A kernel that does not pass on another kind of GPU, or
cannot be compiled for it, is judged on the first kind.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from cuda_llm.capabilities import Capabilities
from cuda_llm.log import Log
from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.cluster.compilers import ClusterCompilers
from cuda_llm.tools.cluster.newcomers import Newcomers
from cuda_llm.tools.compiler.compile import compile_request
from cuda_llm.tools.device import Device, ForwardingDevice, T, Work
from cuda_llm.tools.device.candidate import Compiled, CompileRequest
from cuda_llm.tools.device.group import DeviceGroup
from cuda_llm.tools.judge.judge import validate_there
from cuda_llm.tools.timing.measure import measure_candidate
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated

_log = Log(__name__)


class ClusterDevice(ForwardingDevice):
    """Takes as many works at once as there are devices, and compiles on all machines."""

    def __init__(
        self,
        kinds: Sequence[DeviceGroup],
        compilers: ClusterCompilers,
        *,
        spec: str,
        others_time: bool,
        newcomers: Newcomers | None = None,
    ) -> None:
        """`kinds` are groups of GPUs that are alike; with `others_time` all time kernels."""
        super().__init__(kinds[0])
        self._newcomers = newcomers
        self.kinds, self.first = tuple(kinds), kinds[0]
        self.spec = spec
        self._compilers = compilers
        self._helps = (validate_there, measure_candidate) if others_time else (validate_there,)
        self._at_work = dict.fromkeys(range(len(kinds)), 0)

    @property
    def devices(self) -> tuple[Device, ...]:
        """Return the devices of the first kind, each of which could do a whole run."""
        return self.first.devices

    @property
    def name(self) -> str:
        """E.g. `4 x NVIDIA H200 and 2 x RTX 4090 of a cluster`."""
        return f"{' and '.join(one.name for one in self.kinds)} of a cluster"

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities of the first kind, with as many works at once as all devices
        take."""
        at_once = sum(one.capabilities.at_once for one in self.kinds)
        return replace(self.first.capabilities, at_once=at_once)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes of all devices; each note names its machine."""
        return tuple(note for one in self.kinds for note in one.notes)

    @property
    def compile_slots(self) -> int:
        """See `CompilingDevice.compile_slots`."""
        return self._compilers.slots

    async def compile(self, request: CompileRequest) -> Compiled | Verdict:
        """See `CompilingDevice.compile`."""
        return await self._compilers.compile(request)

    def pinned(self) -> Device:
        """Return one device of the first kind."""
        return self.first.pinned()

    def when_growing(self, grow: Callable[[], None]) -> None:
        """See `GrowingDevice.when_growing`."""
        for one in self.kinds:
            one.when_growing(grow)

    async def carry_out(self, work: Work[T]) -> T:
        """See `Device.carry_out`."""
        if self._newcomers is not None:
            self._newcomers.look(self.kinds)
        kind = self._least_busy() if work.function in self._helps else 0
        if kind:
            twin = await self._retargeted(kind, work)
            if twin is not None:
                found = await self._counted(kind, twin)
                if isinstance(found, Validated | KernelTimes):
                    return found
        return await self._counted(0, work)

    def _least_busy(self) -> int:
        """Return the number of the kind with the largest part of its devices free, the first of
        equals."""
        return min(
            self._at_work, key=lambda k: self._at_work[k] / self.kinds[k].capabilities.at_once
        )

    async def _retargeted(self, kind: int, work: Work[T]) -> Work[T] | None:
        """Return a work with its kernels compiled for another kind of GPU; None where a kernel does
        not compile for that kind."""
        target = self.kinds[kind].hardware.target
        task = next(one for one in work.arguments if isinstance(one, Task))
        arguments = []
        for one in work.arguments:
            twin = one
            if isinstance(one, Compiled) and one.target != target:
                request = compile_request(task, target, one.source, one.name)
                twin = await self.compile(request)
                if not isinstance(twin, Compiled):
                    _log.info("not for this GPU", target=target, file=one.name, why=twin.code)
                    return None
            arguments.append(twin)
        return replace(work, arguments=tuple(arguments))

    async def _counted(self, kind: int, work: Work[T]) -> T:
        self._at_work[kind] += 1
        try:
            return await self.kinds[kind].carry_out(work)
        finally:
            self._at_work[kind] -= 1
