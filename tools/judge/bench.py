"""What a bench is: the paper's three feature functions of a task, and the time of its baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from cuda_llm.outcomes import InfraFailed, PublishedCheck, Verdict
from cuda_llm.profile import Profile
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.inspection import KernelCounters
from cuda_llm.tools.judge.duel import Contest
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated

SOURCE_NAME = "source.cu"
"""Name of a candidate's file, in its folder and in the compiler's diagnostics."""


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """What sanitizers and the emulated device found in a kernel that passed."""

    fault: Verdict | None = None
    """The fault that was found; None where there is none."""
    notes: tuple[str, ...] = ()
    """Lines for a person: what was watched, and what could not be watched."""
    not_inspected: str = ""
    """Why sanitizers and large sizes have not checked the kernel; empty where they have."""
    artefacts: Mapping[str, Path] = field(default_factory=dict)
    """Files that the tools have written, by name: `kernel.sass`."""
    counters: tuple[KernelCounters, ...] = ()
    """Counters of each kernel launch of a call at the largest timed size; empty where nothing
    counts."""


@runtime_checkable
class DuelBench(Protocol):
    """What a bench that measures does besides, for a kernel that is about to become the
    incumbent."""

    async def contest(
        self, contenders: Sequence[Compiled], incumbent: Compiled
    ) -> Contest | InfraFailed:
        """Time contenders and incumbent together on one GPU, within the limit of a step."""
        ...

    async def inspect(self, compiled: Compiled, profile: Profile) -> Inspected:
        """Check the memory accesses and barriers of a kernel at small sizes, and count it at the
        largest size that `profile` has the time of."""
        ...


@runtime_checkable
class PublishedBench(Protocol):
    """What a bench does besides, for a task whose own check is published."""

    async def check_as_published(
        self, compiled: Compiled, verdict: Verdict
    ) -> PublishedCheck | None:
        """Return what the published check says of a kernel with this verdict; None where the task
        has no published check, or its answer is not known."""
        ...


class Bench(Protocol):
    """Judges candidates of one task on one device, a step at a time.

    A bad kernel is a verdict. Only a bench repeats a step, where machinery broke and another try
    may help; machinery that stays broken is an InfraFailed. Raises what ends every candidate:
    MissingError, TaskError, DeviceLost, and bugs. Each step holds a slot (a core for a compiler,
    a device for the rest) while it works.
    """

    async def time_baseline(self) -> KernelTimes:
        """Compile and time the task's baseline.

        Raises TaskError where it is refused, InfrastructureError where machinery stays broken.
        """
        ...

    async def compile(self, source: str, name: str) -> Compiled | Verdict:
        """Compile a source with nvcc and audit the result (Compilation Verifier). Outcomes are
        cached by source."""
        ...

    async def validate(self, compiled: Compiled) -> Validated | Verdict:
        """Compare every element of every case with the reference (Function Validator)."""
        ...

    async def profile(
        self, compiled: Compiled, validated: Validated, baseline: KernelTimes
    ) -> Verdict:
        """Time a kernel and find what limits it (Performance Profiler): a Passed, unless timing
        finds a fault."""
        ...

    def with_fresh_inputs(self) -> "Bench":
        """Return a bench like this one, with inputs on which no candidate was judged before."""
        ...


__all__ = ["SOURCE_NAME", "Bench", "DuelBench", "Inspected", "PublishedBench"]
