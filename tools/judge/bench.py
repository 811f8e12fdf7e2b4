"""What a bench is: the paper's three feature functions of a task, and its baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from cuda_llm.outcomes import InfraFailed, PublishedCheck, Verdict
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.duel import Contest
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated

SOURCE_NAME = "source.cu"
"""Name of a candidate's file, in its folder and in the compiler's diagnostics."""


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """What sanitizers and the emulated device found in a kernel that passed."""

    fault: Verdict | None = None
    """None where nothing was found."""
    notes: tuple[str, ...] = ()
    """What was watched, and what could not be."""
    not_inspected: str = ""
    """Why sanitizers and large sizes have not looked at it; empty where they have."""
    artefacts: Mapping[str, Path] = field(default_factory=dict)
    """Files that the tools wrote, by name: `kernel.sass`."""


@runtime_checkable
class DuelBench(Protocol):
    """What a bench that measures can do besides for a kernel about to become the incumbent."""

    async def contest(
        self, contenders: Sequence[Compiled], incumbent: Compiled
    ) -> Contest | InfraFailed:
        """Time all of them together on one GPU, within a stated time."""
        ...

    async def inspect(self, compiled: Compiled) -> Inspected:
        """Check the memory accesses and barriers of a kernel at small sizes."""
        ...


@runtime_checkable
class PublishedBench(Protocol):
    """What a bench can do besides for a task whose own check is published."""

    async def check_as_published(
        self, compiled: Compiled, verdict: Verdict
    ) -> PublishedCheck | None:
        """Return what the published check says of a kernel with this verdict; None where there is
        none, or it is not known."""
        ...


class Bench(Protocol):
    """Judges candidates of one task on one device, a step at a time.

    A bad kernel is a verdict. Only a bench repeats a step, where machinery broke and another try
    may help; what stays broken is an InfraFailed. Raises what would end every other candidate too:
    MissingError, TaskError, DeviceLost, and bugs. Each step holds a slot of its own (a core for a
    compiler, a device for the rest) while it works.
    """

    async def time_baseline(self) -> KernelTimes:
        """Compile and time the task's baseline.

        Raises TaskError where it is refused, InfrastructureError where machinery stays broken.
        """
        ...

    async def compile(self, source: str, name: str) -> Compiled | Verdict:
        """Compile with nvcc and audit (Compilation Verifier). Outcomes are cached by source."""
        ...

    async def validate(self, compiled: Compiled) -> Validated | Verdict:
        """Compare every element of every case with the reference (Function Validator)."""
        ...

    async def profile(
        self, compiled: Compiled, validated: Validated, baseline: KernelTimes
    ) -> Verdict:
        """Time and explain (Performance Profiler): a Passed, unless timing finds a fault."""
        ...

    def with_fresh_inputs(self) -> "Bench":
        """Return the same bench with inputs that no candidate was judged on before."""
        ...


__all__ = ["SOURCE_NAME", "Bench", "DuelBench", "Inspected", "PublishedBench"]
