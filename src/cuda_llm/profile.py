"""What is known about how fast a correct kernel is, and why. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cuda_llm.source_file import SourceSpot

TimeSource = Literal["modelled", "measured"]
"""How a time was obtained. The two kinds are never ranked together."""

Outcome = Literal["faster", "slower", "tie"]
"""What a comparison of two measured kernels decided, beyond its noise."""


Objective = Literal["geomean", "largest", "worst"]
"""How the timed sizes make one score (`tasks.objective`)."""


@dataclass(frozen=True, kw_only=True)
class KernelResources:
    """What ptxas says one kernel needs."""

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


@dataclass(frozen=True, kw_only=True)
class SizeTime:
    """One size of a task, timed."""

    dims: Mapping[str, int]
    time_us: float
    baseline_us: float | None
    source: TimeSource
    spread: float = 0.0
    """Relative half-width of the interval around `time_us`: of a modelled one as far as the blocks
    tell that were executed; 0 where those are all."""
    baseline_spread: float = 0.0
    """The same of `baseline_us`."""
    paired_speedup: float | None = None
    """Baseline over this by the median of blocks in which both were timed; None where the two were
    not timed side by side."""
    speedup_low: float | None = None
    speedup_high: float | None = None
    """Interval of `paired_speedup`, 95 %."""
    outcome: Outcome | None = None
    """Against the baseline, beyond `floor`; None where nothing was measured side by side."""
    floor: float = 0.0
    """Relative difference below which nothing counts: what equal kernels may differ by."""
    time_class: str = ""
    """`device` or `host-inclusive` (`tools.device.TimeClass`); empty for a modelled time."""
    l2: str = ""
    """`cold`: flushed before each call; `warm`: as the inputs' arrival left it."""
    blocks: int = 0
    """Pairs of batches that `time_us` comes from."""
    clocks: Mapping[str, float] = field(default_factory=dict)
    """`sm_mhz_low`, `sm_mhz_high`, `throttled_blocks`, `celsius` ...; empty where not read."""
    stepwise_us: float | None = None
    """What a call takes of which nothing is known before the one before it has ended; None where
    that was not looked at."""
    peak_bytes: int = 0
    """Device memory that was planned for this size before it ran; 0 where none is needed."""
    note: str = ""
    """What else a reader must know of how this size was timed."""

    @property
    def speedup(self) -> float | None:
        """Baseline time over this time; None where no baseline was timed."""
        if self.paired_speedup is not None:
            return self.paired_speedup
        return None if self.baseline_us is None else self.baseline_us / self.time_us


@dataclass(frozen=True, kw_only=True)
class Bottleneck:
    """One thing that limits a kernel, with the evidence and what usually helps."""

    code: str
    """Stable name, e.g. `bank_conflicts`, `uncoalesced_global`, `dram_bandwidth`, `latency`."""
    share: float
    """Part of the modelled or measured time that fixing it alone saves, 0 to 1; where nothing is
    known to fix it, part of the time that it accounts for."""
    explanation: str
    """One sentence with figures, e.g. "shared-memory bank conflicts: 32-way"."""
    spot: SourceSpot | None = None
    advice: str = ""
    saved_us: float = 0.0
    """What fixing it alone saves of `time_us`, as modelled; those of several may overlap. 0 where
    nothing is known to fix it, where times were measured, and in older records."""
    time_us: float = 0.0
    """Time of the call that was explained; 0 in older records."""


@dataclass(frozen=True, kw_only=True)
class LaunchProfile:
    """One kernel launch of one `solve` call."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    """Static and dynamic shared memory per block."""
    occupancy: float
    """Resident warps over the most an SM holds, 0 to 1."""
    time_us: float
    terms_us: Mapping[str, float] = field(default_factory=dict)
    """Time by cause (`issue`, `dram`, `l2`, `shared`, `latency` ...); they overlap."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Counts and ratios behind it, units in the names (`dram_bytes`, `sectors_per_request` ...)."""


@dataclass(frozen=True, kw_only=True)
class SizeProfile:
    """What one call takes its time for at one timed size."""

    size: int
    """Index among the timed sizes."""
    launches: tuple[LaunchProfile, ...] = ()
    bottlenecks: tuple[Bottleneck, ...] = ()
    """Dominating one first."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The performance side of a verdict."""

    device: str
    """What ran it, e.g. `emulated RTX 3090 Ti` or `cuda:0 NVIDIA H200`."""
    hardware: str
    """Exact name of the hardware profile the figures refer to."""
    source: TimeSource
    sizes: tuple[SizeTime, ...] = ()
    launches: tuple[LaunchProfile, ...] = ()
    """Launches of one call at the largest timed size, in order."""
    bottlenecks: tuple[Bottleneck, ...] = ()
    """Dominating one first."""
    smaller: tuple[SizeProfile, ...] = ()
    """The same of the sizes below the largest, where it is known of them."""
    resources: tuple[KernelResources, ...] = ()
    speedup: float | None = None
    """The one score that the sizes' speed-ups make."""
    objective: Objective = "geomean"
    """How they make it."""
    checked: Mapping[str, int] = field(default_factory=dict)
    """What the referee compared: `sizes`, `hidden`, `distributions`, `elements`."""
    isolation: str = ""
    """What kept the runner of a GPU in, and what is missing; empty for an emulated device."""


@dataclass(frozen=True, kw_only=True)
class LibraryTimes:
    """What a library takes for a task, measured as kernels are."""

    name: str
    """For a person: `torch.softmax`."""
    times: tuple[float | None, ...] = ()
    """Microseconds at each bench size, in the task's order; None where it was not timed."""
    spreads: tuple[float | None, ...] = ()
    """Of each time, the relative half-width of its 95 % interval."""
    fault: str = ""
    """Why there are no times: its results are not the task's, or it could not be called."""
