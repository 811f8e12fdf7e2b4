"""What a device is: it carries work to its site, and a site opens sessions of candidates.

A new device is a short class: a subclass of `DescribedDevice` says what it is, a subclass of
`ForwardingDevice` is another device but for what it overrides, and either writes `carry_out`.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, runtime_checkable

from cuda_llm.capabilities import Capabilities
from cuda_llm.errors import InfrastructureError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.log import bound, bound_fields
from cuda_llm.outcomes import Verdict
from cuda_llm.tools.device.buffers import Arrays
from cuda_llm.tools.device.candidate import Baseline, Compiled, CompileRequest
from cuda_llm.tools.device.session import ClockReading, Session

P = ParamSpec("P")
T = TypeVar("T")


class Site(Protocol):
    """The process that holds a device, seen by the work that is carried out there."""

    @property
    def name(self) -> str:
        """Name of the device, as `Device.name` of a single device."""
        ...

    @property
    def hardware(self) -> Hardware:
        """Profile of the GPU that the device is, or stands for."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What the site can do. A site that duels opens TimedSessions."""
        ...

    @property
    def confined(self) -> str:
        """What isolates the site's runners, in one line; empty where `doctor` alone tries that."""
        ...

    @property
    def arrays(self) -> Arrays:
        """The arrays that buffers of the site's sessions are."""
        ...

    def read_clocks(self) -> ClockReading | None:
        """Return clocks, temperature and power of the GPU; None where not known. Used in duels."""
        ...

    def open(self, candidate: Baseline) -> AbstractAsyncContextManager[Session | Verdict]:
        """Load the candidate in a fresh runner.

        Leaving the context ends the runner, unless nothing was timed in the runner and nothing went
        wrong: then the runner may wait for the same candidate to be opened next, for its timing
        after its validation, and ends before another candidate is opened in its place or timed.
        A baseline that is a library's call is opened in this process.
        Yields a verdict where the candidate cannot be loaded or needs what this device lacks.
        Two sessions may be open at once: each has memory of its own.
        """
        ...

    def open_cached(self, candidate: Baseline) -> AbstractAsyncContextManager[Session | Verdict]:
        """Load a task's baseline in a runner that is cached between uses.

        Never for a candidate: code that has run in a process can leave something behind for the
        next use, and all candidates share the cached runner. There is at most one such runner, with
        one user at a time: a second user gets a fresh runner. The cached runner ends when another
        baseline is cached, when its memory is needed, and after an exception or a verdict in it.
        """
        ...

    @property
    def shares(self) -> MutableMapping[str, float]:
        """By task: the share of the GPU's memory that its measurements plan with, after one of them
        found no memory."""
        ...

    async def release_unused(self) -> None:
        """Give unused memory of cached runners, of runners that end and of pools back to the
        device.

        To be called where memory lacks, and before other programs work on the device.
        """
        ...

    def retire_cached(self) -> None:
        """Give the cached runner, whose times are doubted, to no other user, and its memory
        neither.

        The runner lives until the next is cached, so that no runner opened meanwhile gets its
        memory.
        """
        ...


@dataclass(frozen=True)
class Work(Generic[T]):
    """A coroutine function of a module and its arguments: `await work(site)` does the work.

    Function, arguments and result can be pickled. A device passes a work on as it is.
    """

    function: Callable[..., Awaitable[T]]
    arguments: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    bound: Mapping[str, Any] = field(default_factory=bound_fields)
    """Fields of every log record of the work: its run, round and candidate."""

    @classmethod
    def of(
        cls,
        function: Callable[Concatenate[Site, P], Awaitable[T]],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> "Work[T]":
        """Return the work that is done by `await function(site, *arguments, **named)`."""
        return cls(function, arguments, named)

    async def __call__(self, site: Site) -> T:
        """Do the work at this site. Raises what its function raises."""
        with bound(**self.bound):
            return await self.function(site, *self.arguments, **self.named)


class Device(Protocol):
    """Something that runs candidates."""

    @property
    def name(self) -> str:
        """What a person should read, e.g. `emulated RTX 3090 Ti` or `cuda:0 NVIDIA H200`."""
        ...

    @property
    def hardware(self) -> Hardware:
        """Profile of the GPU that the device is, or stands for; nvcc compiles for its `target`."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What the device can do: every caller decides by this what to ask of the device."""
        ...

    @property
    def version(self) -> str:
        """Text that changes whenever this device could time the same kernel differently."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What disturbs the device's times, for a person: a display, other processes."""
        ...

    def pinned(self) -> "Device":
        """Return one device, always the same: kernels that are to be compared are timed there."""
        ...

    def prepare(self) -> None:
        """Build or start what would otherwise be built or started at the first work.

        Raises MissingError where the machine lacks something.
        """
        ...

    async def carry_out(self, work: Work[T]) -> T:
        """Do `work` where the device is, alone on the device, and return its result.

        The work is done once: the judge decides whether to repeat a step. Raises what the work
        raises, InfrastructureError where the device fails, DeviceLost where the device stays
        broken.
        """
        ...


@runtime_checkable
class GrowingDevice(Protocol):
    """A device that may take more works at once than when it was opened."""

    def when_growing(self, grow: Callable[[], None]) -> None:
        """Have `grow` called for each further work that the device takes at once.

        The call is made on the event loop that waits for works of the device.
        """
        ...


@runtime_checkable
class CompilingDevice(Protocol):
    """A device that brings compilers along: those of the machines of a cluster."""

    @property
    def compile_slots(self) -> int:
        """How many sources compile at once; 0 where the compilers of this machine do."""
        ...

    async def compile(self, request: CompileRequest) -> Compiled | Verdict:
        """Compile and audit one source, without waiting for a device."""
        ...


@dataclass(frozen=True, kw_only=True)
class DescribedDevice:
    """The description of a device as a device, which executes nothing: a subclass says how."""

    name: str
    hardware: Hardware
    capabilities: Capabilities
    version: str
    notes: tuple[str, ...] = ()

    def pinned(self) -> Device:
        """Return this device: it is always the same."""
        return self

    def prepare(self) -> None:
        """Do nothing: nothing has to be built."""

    async def carry_out(self, work: Work[T]) -> T:
        """Raise InfrastructureError: a description executes nothing."""
        raise InfrastructureError("device", f"{self.name} is a record: it executes nothing")


class ForwardingDevice:
    """A device of which each member answers as `target_device` does, its compilers and its growth
    included; a subclass overrides what differs."""

    def __init__(self, device: Device) -> None:
        self._device = device

    @property
    def target_device(self) -> Device:
        """The device that answers now."""
        return self._device

    @property
    def name(self) -> str:
        """See `Device.name`."""
        return self.target_device.name

    @property
    def hardware(self) -> Hardware:
        """See `Device.hardware`."""
        return self.target_device.hardware

    @property
    def capabilities(self) -> Capabilities:
        """See `Device.capabilities`."""
        return self.target_device.capabilities

    @property
    def version(self) -> str:
        """See `Device.version`."""
        return self.target_device.version

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Device.notes`."""
        return self.target_device.notes

    @property
    def compile_slots(self) -> int:
        """See `CompilingDevice.compile_slots`."""
        device = self.target_device
        return device.compile_slots if isinstance(device, CompilingDevice) else 0

    async def compile(self, request: CompileRequest) -> Compiled | Verdict:
        """See `CompilingDevice.compile`; only where `compile_slots` is not 0."""
        device = self.target_device
        assert isinstance(device, CompilingDevice), "compile_slots is 0"
        return await device.compile(request)

    def when_growing(self, grow: Callable[[], None]) -> None:
        """See `GrowingDevice.when_growing`."""
        if isinstance(self.target_device, GrowingDevice):
            self.target_device.when_growing(grow)

    def pinned(self) -> Device:
        """Return this device, which forwards to one device."""
        return self

    def prepare(self) -> None:
        """See `Device.prepare`."""
        self.target_device.prepare()

    async def carry_out(self, work: Work[T]) -> T:
        """See `Device.carry_out`."""
        return await self.target_device.carry_out(work)


async def do_no_work(_site: Site) -> None:
    """Have the device opened and, on a GPU, its known answer checked."""
