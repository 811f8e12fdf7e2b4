"""What hardware counters said of one kernel, condensed to what explains its time."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Stall:
    """One reason why warps could not issue."""

    reason: str
    """As Nsight Compute calls it: `long_scoreboard`, `barrier`, `math_pipe_throttle` ..."""
    share: float
    """Part of the clocks between two instructions of a warp, 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class KernelCounters:
    """One kernel of one call of `solve`, counted while nothing else ran."""

    kernel: str
    """Name without its parameter list."""
    duration_us: float
    """While it was counted, at the clocks of that moment: a time to compare, not to rank by."""
    flushed: bool
    """Whether caches were flushed before it."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """What this chip counts of:

    - parts of a peak, 0 to 1: `dram_share`, `l2_share`, `l1_share` (L1 and shared memory),
      `issue_share`, `fp32_share`, `int_share`, `fp64_share`, `sfu_share`, `tensor_share`;
    - `achieved_occupancy`: resident warps over the most; `simd_efficiency`: active lanes of 32;
    - `dram_bytes`, `l2_bytes`, `l2_hit_share`, `l1_hit_share`;
    - `sectors_per_request`, `useful_byte_share` of global loads and stores together;
    - `bank_ways`: passes of a shared-memory access over those needed without conflicts;
      `shared_passes_share`: part of the L1 data path's passes that are for shared memory.
    """
    stalls: tuple[Stall, ...] = ()
    """The largest first, without `selected` (the warp did issue)."""
