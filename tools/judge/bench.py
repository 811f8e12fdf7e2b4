"""What judges the candidates of a task: the paper's three feature functions, and the baseline."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.duel import Duel
from cuda_llm.tools.measure.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated

SOURCE_NAME = "source.cu"
"""A candidate's file, in its folder and in what the compiler says of it."""


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """What tools beyond the referee found in a kernel that passed."""

    fault: Verdict | None = None
    """None where nothing was found."""
    notes: tuple[str, ...] = ()
    """What was watched, and what could not be."""
    artefacts: Mapping[str, Path] = field(default_factory=dict)
    """Files that the tools made, by name: `kernel.sass`."""


@runtime_checkable
class DuelBench(Protocol):
    """A bench that measures can do more for a kernel that is about to be crowned."""

    async def duel(self, contender: Compiled, incumbent: Compiled) -> Duel | InfraFailed:
        """Time both in turn on one GPU, within a stated time."""
        ...

    async def inspect(self, compiled: Compiled) -> Inspected:
        """Watch its memory accesses and its barriers at small sizes."""
        ...


class Bench(Protocol):
    """Judges one candidate of one task on one device, a step at a time. Each may be replaced.

    A bad kernel is a verdict. Machinery that breaks is tried again where that may help, here and
    nowhere else; what stays broken is an InfraFailed. Raises what no other candidate could escape
    either: MissingError, TaskError, DeviceLost, and bugs. Each step holds its own slot (cores for
    compilers, devices for the rest) and no longer than it needs.
    """

    async def time_baseline(self) -> KernelTimes:
        """Compile and time the task's baseline.

        Raises TaskError where it is refused, InfrastructureError where machinery stays broken.
        """
        ...

    async def compile(self, source: str, name: str) -> Compiled | Verdict:
        """nvcc and the audit (Compilation Verifier). The same source again comes from the cache."""
        ...

    async def validate(self, compiled: Compiled) -> Validated | Verdict:
        """Every element of every case against the reference (Function Validator)."""
        ...

    async def profile(
        self, compiled: Compiled, validated: Validated, baseline: KernelTimes
    ) -> Verdict:
        """Times and bottlenecks (Performance Profiler): a Passed, unless timing finds a fault."""
        ...

    def afresh(self) -> "Bench":
        """The same bench with inputs that no candidate was judged on before."""
        ...


__all__ = ["SOURCE_NAME", "Bench", "DuelBench", "Inspected"]
