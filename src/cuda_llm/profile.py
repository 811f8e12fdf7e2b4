"""The speed of a correct kernel: its times, what limits it, what its launches did. Values only."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cuda_llm.source_file import SourceSpot

TimeSource = Literal["modelled", "measured"]
"""How a time was obtained. Modelled and measured times are never ranked together."""

Outcome = Literal["faster", "slower", "tie"]
"""Result of comparing two measured kernels, beyond the noise of the comparison."""


Objective = Literal["geomean", "largest", "worst"]
"""How the speed-ups at the timed sizes combine to one score (`tasks.objective`)."""


@dataclass(frozen=True, kw_only=True)
class KernelResources:
    """Resources that ptxas reports for one kernel."""

    kernel: str
    """Demangled name without its parameter list."""
    symbol: str
    """Mangled name: the `.entry` of the PTX."""
    registers: int
    """Registers per thread."""
    shared_bytes: int
    """Static shared memory per block."""
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    stack_bytes: int = 0
    constant_bytes: int = 0


NotCompared = Literal["costly", "reference", "mixed", "no-end"]
"""Why outputs at a timed size were not compared whole: a call takes too long where it is executed,
the reference takes too long or too much memory, the executed blocks alone do not decide what their
outputs are, or no call came to its end."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """How many elements of the outputs of a size were compared with the reference."""

    elements: int
    """Elements of all outputs."""
    compared: int
    why_not: NotCompared | None = None
    """Why fewer than all were; None where all were."""

    @property
    def is_whole(self) -> bool:
        """Return whether every element was compared."""
        return self.compared == self.elements


@dataclass(frozen=True, kw_only=True)
class SizeTime:
    """One size of a task, timed."""

    dims: Mapping[str, int]
    time_us: float
    baseline_us: float | None
    source: TimeSource
    spread: float = 0.0
    """Relative half-width of the interval around `time_us`. A modelled time has one only where a
    sample of the blocks was executed."""
    baseline_spread: float = 0.0
    """Relative half-width of the interval around `baseline_us`."""
    paired_speedup: float | None = None
    """Speed-up over the baseline by the median of the blocks that timed both; None where the two
    were not timed side by side."""
    speedup_low: float | None = None
    speedup_high: float | None = None
    """Upper end of the 95 % interval of `paired_speedup`; `speedup_low` is the lower end."""
    outcome: Outcome | None = None
    """Comparison with the baseline, beyond `floor`; None where the two were not measured side by
    side."""
    floor: float = 0.0
    """Relative difference below which two kernels tie: equal kernels may differ by so much."""
    time_class: str = ""
    """`device` or `host-inclusive` (`tools.device.TimeClass`); empty for a modelled time."""
    l2: str = ""
    """`cold`: flushed before each call; `warm`: as the inputs' arrival left it."""
    blocks: int = 0
    """Number of pairs of batches that `time_us` comes from."""
    clocks: Mapping[str, float] = field(default_factory=dict)
    """`sm_mhz_low`, `sm_mhz_high`, `throttled_blocks`, `celsius` ...; empty where not read."""
    stepwise_us: float | None = None
    """Time of a call whose inputs arrive only after the call before has ended; None where not
    measured."""
    peak_bytes: int = 0
    """Device memory planned for this size before the run; 0 where none is needed."""
    note: str = ""
    """Remark on how this size was timed."""
    compared: Compared | None = None
    """What was compared of the outputs of a modelled size; None where the device times calls whose
    outputs are all checked."""

    @property
    def speedup(self) -> float | None:
        """Baseline time over this time; None where no baseline was timed."""
        if self.paired_speedup is not None:
            return self.paired_speedup
        return None if self.baseline_us is None else self.baseline_us / self.time_us

    @property
    def speedup_half_width(self) -> float | None:
        """Relative half-width of the 95 % interval of `speedup`; None where it has none."""
        low, high = self.speedup_low, self.speedup_high
        return math.sqrt(high / low) - 1 if low and high else None


@dataclass(frozen=True, kw_only=True)
class Bottleneck:
    """One thing that limits a kernel, with the evidence and advice."""

    code: str
    """Stable name, e.g. `bank_conflicts`, `uncoalesced_global`, `dram_bandwidth`, `latency`."""
    share: float
    """Part of the time, 0 to 1, that removing this bottleneck alone would save; where no fix is
    known, the part of the time that the bottleneck accounts for."""
    explanation: str
    """One sentence with figures, e.g. "shared-memory bank conflicts: 32-way"."""
    spot: SourceSpot | None = None
    advice: str = ""
    saved_us: float = 0.0
    """Modelled saving of `time_us` by removing this bottleneck alone; savings of several
    bottlenecks overlap. 0 where no fix is known, and where times were measured."""
    time_us: float = 0.0
    """Time of the call that the profile explains."""
    kernel: str = ""
    """Kernel that it is found in; empty for one of the call as a whole."""
    dominates: bool = False
    """Whether it is the unit without which a modelled call would be shortest, or a cause that
    relieves that unit or saves more (`limiter`)."""


def limiter(bottlenecks: Sequence[Bottleneck]) -> Bottleneck | None:
    """Return what a call is *limited by*; None where nothing is known.

    It stands first of the bottlenecks of the call, which is that at the largest timed size where no
    other size is named. A modelled call is limited by what saves most of its time if it is taken
    away alone, by the model's own formula: a cause, as far as a known change removes it, or a unit
    as if it took no time (DRAM, L2, the path of shared memory and L1, a pipe, issue, latency,
    atomics, starts of blocks, launches, copies). Where that is a unit, the cause names it that
    relieves it and saves most, from 5 % of the time on; without such a cause it names itself.
    `share` is the part of the call's time that the cause saves, or that the unit accounts for. No
    saving leads below a floor: what the task needs on any kernel, and what this kernel's own bytes
    and arithmetic need. A measured call, whose parts are not known, is limited by the unit that was
    busy, or the waste that cost, the largest part of the time.
    """
    return bottlenecks[0] if bottlenecks else None


PhaseKind = Literal["load", "shared", "compute", "reduce", "barrier", "merge", "store"]
"""What a warp does or waits for: global memory, shared memory, arithmetic, exchanges between lanes,
other warps, atomics, stores."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A part of the longest path through an average block of a launch."""

    kind: PhaseKind
    clk: float
    spot: SourceSpot | None = None
    """The line that takes most of it."""


@dataclass(frozen=True, kw_only=True)
class LaunchProfile:
    """One kernel launch of one `solve` call."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    """Static and dynamic shared memory per block."""
    occupancy: float
    """Resident warps over the most that an SM holds, 0 to 1."""
    time_us: float
    terms_us: Mapping[str, float] = field(default_factory=dict)
    """Time by cause (`issue`, `dram`, `l2`, `shared`, `latency` ...); the times overlap."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Counts and ratios behind the time, units in the names (`dram_bytes`,
    `sectors_per_request`)."""
    phases: tuple[Phase, ...] = ()
    """Phases of the longest path through a block, longest first; empty where it was not counted."""


@dataclass(frozen=True, kw_only=True)
class SizeProfile:
    """What limits one call at one timed size."""

    size: int
    """Index of the size among the timed sizes."""
    launches: tuple[LaunchProfile, ...] = ()
    bottlenecks: tuple[Bottleneck, ...] = ()
    """Dominating bottleneck first."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The performance side of a verdict."""

    device: str
    """Device of the measurement, e.g. `emulated RTX 3090 Ti` or `cuda:0 NVIDIA H200`."""
    hardware: str
    """Exact name of the hardware profile the figures refer to."""
    source: TimeSource
    sizes: tuple[SizeTime, ...] = ()
    launches: tuple[LaunchProfile, ...] = ()
    """Launches of one call at the largest timed size, in order."""
    bottlenecks: tuple[Bottleneck, ...] = ()
    """Dominating bottleneck first."""
    smaller: tuple[SizeProfile, ...] = ()
    """Launches and bottlenecks at the sizes below the largest, where known."""
    resources: tuple[KernelResources, ...] = ()
    speedup: float | None = None
    """Score: the speed-ups of all sizes combined by `objective`."""
    objective: Objective = "geomean"
    checked: Mapping[str, int] = field(default_factory=dict)
    """Counts of what was validated: `sizes`, `hidden`, `distributions`, `elements`, `calls`."""
    isolation: str = ""
    """Sandbox of a GPU's runner, and what the sandbox lacks; empty for an emulated device."""

    @property
    def spread(self) -> float:
        """Largest relative half-width of an interval around a time; 0 without a timed size."""
        return max((one.spread for one in self.sizes), default=0.0)


@dataclass(frozen=True, kw_only=True)
class LibraryTimes:
    """Times of a library for a task, measured as kernels are."""

    name: str
    """Name for a person: `torch.softmax`."""
    times: tuple[float | None, ...] = ()
    """Microseconds at each bench size, in the task's order; None where it was not timed."""
    spreads: tuple[float | None, ...] = ()
    """Relative half-width of the 95 % interval of each time."""
    fault: str = ""
    """Why there are no times: the library's results differ from the task's, or the call failed."""
