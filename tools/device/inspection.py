"""The findings of NVIDIA's tools on one candidate, and what a site that has these tools does."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol, runtime_checkable

from cuda_llm.outcomes import Verdict
from cuda_llm.source_file import SourceSpot
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device.candidate import Compiled

SANITIZERS = ("memcheck", "racecheck", "initcheck")
"""Tools of compute-sanitizer."""
NSIGHT: Final = "Nsight Compute"
EMULATED: Final = "counted on the emulated device"
CountedBy = Literal["Nsight Compute", "counted on the emulated device"]
"""What counted, as it stands behind each figure."""
SHARES_OF_TIME = frozenset(
    {
        *("dram_share", "l2_share", "l1_share", "issue_share", "fp32_share", "int_share"),
        *("fp64_share", "sfu_share", "tensor_share", "atomic_share"),
    }
)
"""Figures of `KernelCounters` that depend on the time of the launch."""
State = Literal["clean", "found", "doubted", "not finished", "not run"]
_GLOBAL = ("LDG", "STG", "LD", "ST")
_TENSOR = re.compile(r"(?:HMMA|HGMMA|IMMA|IGMMA|QGMMA|BMMA|BGMMA|DMMA|OMMA|UTC\w*MMA)(?:\.|$)")


@dataclass(frozen=True, kw_only=True)
class Stall:
    """A reason for which warps could not issue, with its share."""

    reason: str
    """Name in Nsight Compute: `long_scoreboard`, `barrier`, `math_pipe_throttle` ..."""
    share: float
    """Part of the clocks between two instructions of a warp, 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class KernelCounters:
    """Counters of one kernel launch of a call of `solve`: of a GPU, counted while nothing else ran,
    or of the emulated device, over the time that a GPU took (`profiler/emulated_counters.py`)."""

    kernel: str
    """Name without its parameter list."""
    duration_us: float
    """Microseconds of the counted launch at the clocks of that moment: a time to compare, not to
    rank by."""
    flushed: bool
    """Whether caches were flushed before the launch."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Figures by name, as far as the chip counts them:

    - parts of a peak, 0 to 1: `dram_share`, `l2_share`, `l1_share` (L1 and shared memory),
      `issue_share`, `fp32_share`, `int_share`, `fp64_share`, `sfu_share`, `tensor_share`, and of
      the emulated device `atomic_share` (updates of global memory);
    - `idle_sm_share`: part of the busiest SM's clocks in which an SM has no warp, on average;
    - `achieved_occupancy`: resident warps over the most; `simd_efficiency`: active lanes of 32;
    - `dram_bytes`, `l2_bytes`, `l2_hit_share`, `l1_hit_share`;
    - `sectors_per_request`, `useful_byte_share` of global loads and stores together;
    - `bank_ways`: passes of a shared-memory access over those needed without conflicts;
      `shared_passes_share`: part of the L1 data path's passes that are for shared memory.
    """
    stalls: tuple[Stall, ...] = ()
    """Stalls, the largest first, without `selected` (the warp did issue). Those of the emulated
    device are modelled: parts of the longest path through a block."""
    origin: CountedBy = NSIGHT
    spots: Mapping[str, SourceSpot] = field(default_factory=dict)
    """Costliest line of a reason, by the reason's code; empty where lines were not counted."""


@dataclass(frozen=True, kw_only=True)
class SassFacts:
    """Static counts of instructions in a kernel's machine code, however often they execute."""

    symbol: str
    opcodes: Mapping[str, int]
    """Number of instructions by opcode with its modifiers: `LDG.E.128`."""

    @property
    def instructions(self) -> int:
        """Return how many there are, without the padding after the last."""
        return sum(self.opcodes.values())

    @property
    def wide_global(self) -> tuple[int, int]:
        """Return how many global loads and stores take 16 bytes, and how many there are."""
        found = {name: count for name, count in self.opcodes.items() if _base(name) in _GLOBAL}
        wide = sum(count for name, count in found.items() if ".128" in name)
        return wide, sum(found.values())

    @property
    def tensor(self) -> int:
        """Return how many tensor instructions there are."""
        return sum(count for name, count in self.opcodes.items() if _TENSOR.match(name))

    @property
    def local(self) -> int:
        """Return how many accesses go to local memory: spills, or arrays indexed at run time."""
        return sum(count for name, count in self.opcodes.items() if _base(name) in ("LDL", "STL"))

    @property
    def ffma_share(self) -> float:
        """Return the fused multiply-adds in fp32 over all instructions."""
        ffma = sum(count for name, count in self.opcodes.items() if _base(name) == "FFMA")
        return ffma / self.instructions if self.instructions else 0.0

    def __str__(self) -> str:
        wide, accesses = self.wide_global
        facts = [f"{self.instructions} instructions", f"{self.ffma_share:.0%} FFMA"]
        if accesses:
            facts.append(f"{wide} of {accesses} global accesses 16 bytes wide")
        if self.tensor:
            facts.append(f"{self.tensor} tensor instructions")
        if self.local:
            facts.append(f"{self.local} accesses to local memory")
        return ", ".join(facts)


def _base(opcode: str) -> str:
    return opcode.partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class SanitizerResult:
    """Result of one compute-sanitizer tool at one size."""

    tool: str
    state: State
    verdicts: tuple[Verdict, ...] = ()
    doubted: tuple[Verdict, ...] = ()
    """Races in kernels with barriers or copies that racecheck does not follow: another tool has to
    confirm them, unless none can run the kernel."""
    note: str = ""
    """Reason why the state is neither clean nor found; never empty in other states."""
    missing: tuple[str, ...] = ()
    """Parts of the confinement that this machine does not grant."""

    @property
    def is_finished(self) -> bool:
        """Whether the tool came to a result."""
        return self.state in ("clean", "found", "doubted")


@dataclass(frozen=True, kw_only=True)
class InspectionOptions:
    """Tools to run, and the time limit of each run."""

    counters: bool = True
    sanitizers: tuple[str, ...] = SANITIZERS
    sass: bool = True
    wall_s: float = 30.0
    """Longest wall-clock seconds of each run of each tool."""


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Findings of NVIDIA's tools on one candidate."""

    counters: tuple[KernelCounters, ...] = ()
    """Counters of each kernel launch of one call, in order."""
    sanitized: tuple[SanitizerResult, ...] = ()
    """Results of compute-sanitizer, one for each tool and size."""
    sass: tuple[SassFacts, ...] = ()
    artefacts: Mapping[str, Path] = field(default_factory=dict)
    """Paths of the files `counters.ncu-rep` and `kernel.sass`, by name."""
    large: Verdict | None = None
    """Fault of a call at a size that is never timed."""
    emulated: Verdict | None = None
    """Fault that the emulated device found."""
    emulated_clean: bool = False
    """True where the emulated device executed the kernel and found no fault."""
    notes: tuple[str, ...] = ()
    """Sentences for a person: which inspections were made, and which were not possible."""
    not_inspected: str = ""
    """Why nothing was inspected on the GPU; empty where it was."""
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Seconds of the parts `counters` and `sanitizers` (which includes the disassembly beside
    them)."""

    @property
    def is_finished(self) -> bool:
        """Whether every sanitizer that was started came to a result."""
        return all(one.is_finished for one in self.sanitized)

    @property
    def fault(self) -> Verdict | None:
        """The first finding of a sanitizer, else of a large size, else of the emulated device, else
        a doubted race.

        A doubted race of a sanitizer does not count where the emulated device found no fault.
        """
        found = (verdict for one in self.sanitized for verdict in one.verdicts)
        doubted = (verdict for one in self.sanitized for verdict in one.doubted)
        unrefuted = None if self.emulated_clean else next(doubted, None)
        return next(found, self.large or self.emulated or unrefuted)


@runtime_checkable
class InspectingSite(Protocol):
    """A site that has NVIDIA's tools."""

    async def inspect(
        self,
        task: Task,
        compiled: Compiled,
        dims: Mapping[str, int],
        options: InspectionOptions,
    ) -> Inspection:
        """Count one call at `dims`, sanitize calls at small sizes, disassemble the kernel.

        Raises MissingError where the machine has no CUDA toolkit.
        """
        ...
