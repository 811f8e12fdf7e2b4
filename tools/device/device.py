"""What a device is: it carries work to its site, and a site opens sessions of candidates."""

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Concatenate, ParamSpec, Protocol, TypeVar, runtime_checkable

from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.hardware import Hardware
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
        """Which device this is, as `Device.name` of one device."""
        ...

    @property
    def hardware(self) -> Hardware:
        """Profile of the GPU this is, or stands for."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What can be done here. A site that duels opens TimedSessions."""
        ...

    @property
    def confined(self) -> str:
        """What isolates runners here, in one line; empty where `doctor` alone tries that."""
        ...

    @property
    def arrays(self) -> Arrays:
        """Where the buffers of sessions lie."""
        ...

    def read_clocks(self) -> ClockReading | None:
        """Return how fast the hardware runs now; None where that is not known. Used in duels."""
        ...

    def open(self, candidate: Baseline) -> AbstractAsyncContextManager[Session | Verdict]:
        """Load the candidate in a fresh runner.

        Leaving the context ends the runner, unless nothing was timed in it and nothing went wrong:
        then it may wait for the same candidate to be opened next, for its timing after its
        validation, and ends before any other is opened in its place or timed.
        A baseline that is a library's call is opened in this process.
        Yields a verdict where the candidate cannot be loaded or needs what this device lacks.
        Two may be open at once: each has memory of its own.
        """
        ...

    def open_cached(self, candidate: Baseline) -> AbstractAsyncContextManager[Session | Verdict]:
        """Load a program of our own, a task's baseline, in a runner that is cached between uses.

        Never for what is judged: code that has run in a process can leave something behind for
        the next use, and this one all candidates share. There is one such runner at most, with one
        user at a time: a second user gets a fresh one. It ends when another program is cached, when
        its memory is needed, and after an exception or a verdict while it is used.
        """
        ...

    @property
    def shares(self) -> MutableMapping[str, float]:
        """Of the memory, what measurements of a task are planned with since one lacked some."""
        ...

    async def release_unused(self) -> None:
        """Give back memory that nobody uses: of cached runners, those that end, and of pools.

        For who lacks memory, and before other programs work on the device.
        """
        ...

    def retire_cached(self) -> None:
        """Use the cached runner no more, nor its memory: its times are not believed.

        Until the next is cached it stays, so that no runner opened meanwhile gets that memory.
        """
        ...


class Device(Protocol):
    """Something that runs candidates."""

    @property
    def name(self) -> str:
        """What a person should read, e.g. `emulated RTX 3090 Ti` or `cuda:0 NVIDIA H200`."""
        ...

    @property
    def hardware(self) -> Hardware:
        """Profile of the GPU this is, or stands for."""
        ...

    @property
    def target(self) -> str:
        """nvcc architecture to compile for, e.g. `sm_86`."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do: every caller decides by this what to ask of it."""
        ...

    @property
    def version(self) -> str:
        """Changes whenever this device could time the same kernel differently."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What disturbs its times, for a person: a display, other processes."""
        ...

    def pinned(self) -> "Device":
        """Return one device, always the same: where what is to be compared must be timed."""
        ...

    def prepare(self) -> None:
        """Build what is built at first use. Everything else works without, only later.

        Raises MissingError where the machine lacks something.
        """
        ...

    async def carry_out(
        self,
        work: Callable[Concatenate[Site, P], Awaitable[T]],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Do `work(site, ...)` where the device is, alone on it, and bring back what it returns.

        `work` is a module's function; arguments and result are values that can be pickled, for on a
        GPU they travel to the GPU host process and back. Raises what `work` raises, and
        InfrastructureError where the device is broken and stays so.
        """
        ...


@runtime_checkable
class GrowingDevice(Protocol):
    """A device that may take more works at once than when it was opened."""

    def when_growing(self, grow: Callable[[], None]) -> None:
        """Have `grow` called where its works are waited for, for each one more that it takes."""
        ...


@runtime_checkable
class CompilingDevice(Protocol):
    """A device that brings compilers along: those of the machines of a cluster."""

    @property
    def compile_slots(self) -> int:
        """How many compile at once; 0 where this machine's compilers do."""
        ...

    async def compile(self, request: CompileRequest) -> Compiled | Verdict:
        """Compile and audit one source, without waiting for a device."""
        ...


async def do_no_work(_site: Site) -> None:
    """Have the device opened and, on a GPU, its known answer checked."""
