"""The bottleneck that Nsight Compute's counters show, by a rule apart from our diagnosis.

The rule was written before any kernel was counted. It reads the launch that took longest, and uses
the thresholds of Nsight Compute's own "Speed Of Light" rule: 60 % of a unit's peak, below which a
kernel is latency bound, and 10 points, within which two units are in balance.

1. Launch: the kernels of the call together take at most twice what Nsight Compute says of as many
   that do nothing (2.1 us each, `h200_timing.json`), or in more than half of the longest one's
   clocks no SM has a warp.
2. Unit: the one with the highest share of its peak, in per cent of all clocks, if that is at
   least 60 %: DRAM, L2, L1 with shared memory, the issue slots, or a pipe.
3. Tail: SMs have warps for at most 70 % of the clocks of the busiest one, on average.
4. Latency: else, with the reason for which warps stall most.

Two things were changed once counters were there (docs/evidence.md: figures by the first rule):

- `lts__throughput` was to say how busy L2 is. In kernels that stream it is at 0.70 to 0.87, where
  Nsight Compute's own "Memory Throughput" is at 0.48 to 0.71: that is the largest of DRAM, L1 and
  seven counters of L2, none above 0.58 there. Those seven are read now.
- What Nsight Compute says of latency with less than one wave, that the grid is too small for the
  chip, was left out. It is a cause of latency now, `tail`: our name for blocks that leave room.

`TERMS` holds what we call them. A waste that the counters show beside it is the same bottleneck by
its cause, and named as well: `_causes`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Metrics = Mapping[str, float]
"""Of one launch, as `ncu.parse_table` returns them: seconds, bytes, parts of one, plain counts."""

DURATION = "gpu__time_duration.sum"
EMPTY_LAUNCH_S = 2.1e-6
LATENCY_BELOW = 0.6
IN_BALANCE = 0.1
IDLE_CLOCKS = 0.5
EVEN = 0.7
WASTED = 0.5
"""From here on, half of what was moved or done is for nothing: the counters show a waste."""

_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
L2_COUNTERS = tuple(
    f"lts__{name}{_ELAPSED}"
    for name in (
        *("t_sectors", "t_tag_requests", "d_sectors", "d_sectors_fill_device"),
        *("d_atomic_input_cycles_active", "lts2xbar_cycles_active", "xbar2lts_cycles_active"),
    )
)
"""Of L2, what Nsight Compute's own "Memory Throughput" is the largest of, beside L1 and DRAM."""
UNITS: Mapping[str, tuple[str, ...]] = {
    "dram": (f"dram__throughput{_ELAPSED}", f"gpu__dram_throughput{_ELAPSED}"),
    "l2": L2_COUNTERS,
    "l1": (f"l1tex__throughput{_ELAPSED}", f"l1tex__data_pipe_lsu_wavefronts{_ELAPSED}"),
    "issue": (f"sm__inst_issued{_ELAPSED}", f"smsp__issue_active{_ELAPSED}"),
    "fma": (f"sm__inst_executed_pipe_fma{_ELAPSED}", f"sm__pipe_fma_cycles_active{_ELAPSED}"),
    "alu": (f"sm__inst_executed_pipe_alu{_ELAPSED}", f"sm__pipe_alu_cycles_active{_ELAPSED}"),
    "fp64": (f"sm__inst_executed_pipe_fp64{_ELAPSED}", f"sm__pipe_fp64_cycles_active{_ELAPSED}"),
    "xu": (f"sm__inst_executed_pipe_xu{_ELAPSED}",),
    "lsu": (f"sm__inst_executed_pipe_lsu{_ELAPSED}",),
    "tensor": (f"sm__pipe_tensor_cycles_active{_ELAPSED}",),
}
"""The largest of these is how busy a unit is."""

TERMS: Mapping[str, tuple[str, ...]] = {
    "launch": ("launch_overhead",),
    "tail": ("tail",),
    "latency": ("latency",),
    "dram": ("dram_bandwidth",),
    "l2": ("l2_bandwidth",),
    "issue": ("issue",),
    "fma": ("fp32",),
    "alu": ("int",),
    "fp64": ("fp64",),
    "xu": ("sfu", "convert"),
    "tensor": ("tensor",),
    "l1": ("l1_bandwidth",),
    "shared": ("shared_bandwidth",),
    "lsu": ("l1_bandwidth", "shared_bandwidth", "shuffle"),
}
"""What we call each; `l1` is `shared` where most of its passes are for shared memory."""

STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = (
    *("barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss"),
    *("lg_throttle", "long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle", "misc"),
    *("no_instruction", "short_scoreboard", "sleeping", "tex_throttle", "wait"),
)
"""Without `selected` and `not_selected`, which are no waits."""
_ON_GLOBAL = {"long_scoreboard", "lg_throttle", "drain", "membar"}
_ON_SHARED = {"short_scoreboard", "mio_throttle"}
_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared{}.sum"
_PASSES = "l1tex__data_pipe_lsu_wavefronts.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
_USED = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.pct"
_LANES = "smsp__thread_inst_executed_per_inst_executed.ratio"
_LOCAL = "l1tex__t_sectors_pipe_lsu_mem_local_op_{}.sum"
_WAVES = "launch__waves_per_multiprocessor"
_ROOM = "sm__maximum_warps_per_active_cycle_pct"
_SM_CLOCKS = "sm__cycles_active.{}"
_ALL_CLOCKS = "sm__cycles_elapsed.max"

READ: tuple[str, ...] = (
    DURATION,
    *(name for names in UNITS.values() for name in names),
    *(STALLED.format(reason) for reason in STALLS),
    *(
        _GLOBAL.format(of, op)
        for of in ("requests", "sectors")
        for op in ("ld", "st", "red", "atom")
    ),
    *(_SHARED.format(op) for op in ("", "_op_ld", "_op_st", "_op_atom")),
    *(_PASSES, _CONFLICTS, _LANES, _ROOM, _WAVES, _ALL_CLOCKS),
    *(name.format(op) for name in (_USED, _LOCAL) for op in ("ld", "st")),
    *(_SM_CLOCKS.format(how) for how in ("avg", "min", "max")),
)
"""What the rule reads."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What the counters of one call show."""

    bottleneck: str
    """`launch`, a unit, `tail` or `latency`."""
    balanced: tuple[str, ...]
    """Other units within `IN_BALANCE` of the highest, where that is the bottleneck."""
    causes: tuple[str, ...]
    """Wastes that the counters show of the bottleneck, by our codes."""
    stall: str
    """The reason for which warps stall most."""
    shares: Mapping[str, float]
    """How busy each unit is."""

    @property
    def terms(self) -> frozenset[str]:
        """Our codes for the bottleneck, the units in balance with it, and the causes."""
        units = (self.bottleneck, *self.balanced)
        return frozenset(self.causes).union(*(TERMS[unit] for unit in units))


def show_bottleneck(launches: Sequence[Metrics]) -> Shown:
    """Apply the rule to the launches of one call. Raises ValueError without any."""
    if not launches:
        raise ValueError("no launch was counted")
    longest = max(launches, key=lambda one: one.get(DURATION, 0.0))
    shares = _shares(longest)
    top = max(shares, key=lambda unit: shares[unit])
    stall = max(STALLS, key=lambda reason: longest.get(STALLED.format(reason), 0.0))
    bottleneck = _launch(launches, longest)
    balanced: tuple[str, ...] = ()
    if not bottleneck and shares[top] >= LATENCY_BELOW:
        bottleneck = top
        balanced = tuple(
            unit
            for unit, share in shares.items()
            if unit != top and share >= max(LATENCY_BELOW, shares[top] - IN_BALANCE)
        )
    if not bottleneck:
        bottleneck = "tail" if _evenness(longest) <= EVEN else "latency"
    return Shown(
        bottleneck=bottleneck,
        balanced=balanced,
        causes=tuple(_causes(longest, {bottleneck, *balanced}, stall)),
        stall=stall,
        shares=shares,
    )


def _launch(launches: Sequence[Metrics], longest: Metrics) -> str:
    together_s = sum(one.get(DURATION, 0.0) for one in launches)
    busiest = longest.get(_SM_CLOCKS.format("max"), 0.0)
    clocks = longest.get(_ALL_CLOCKS, busiest)
    if together_s <= 2 * EMPTY_LAUNCH_S * len(launches):
        return "launch"
    return "launch" if busiest < (1 - IDLE_CLOCKS) * clocks else ""


def _shares(launch: Metrics) -> dict[str, float]:
    shares = {unit: max(launch.get(name, 0.0) for name in names) for unit, names in UNITS.items()}
    passes = launch.get(_PASSES, 0.0)
    if passes and launch.get(_SHARED.format(""), 0.0) >= 0.5 * passes:
        shares["shared"] = shares.pop("l1")
    return shares


def _evenness(launch: Metrics) -> float:
    busiest = launch.get(_SM_CLOCKS.format("max"), 0.0)
    return launch.get(_SM_CLOCKS.format("avg"), busiest) / busiest if busiest else 1.0


def _causes(launch: Metrics, units: set[str], stall: str) -> Iterator[str]:
    """Yield the wastes that the counters show of a bottleneck, by our codes."""
    waits = "latency" in units
    on_global = bool(units & {"dram", "l2", "l1", "lsu"}) or (waits and stall in _ON_GLOBAL)
    on_shared = bool(units & {"shared", "lsu"}) or (waits and stall in _ON_SHARED)
    if on_global and _useful(launch) <= WASTED:
        yield "uncoalesced_global"
    if on_global and _local_share(launch) >= WASTED:
        yield "local_memory"
    if (on_global and _adds_globally(launch)) or (on_shared and _adds_in_shared(launch)):
        yield "atomic_contention"
    shared = launch.get(_SHARED.format(""), 0.0)
    if on_shared and launch.get(_CONFLICTS, 0.0) >= WASTED * shared > 0:
        yield "bank_conflicts"
    lanes = launch.get(_LANES, 32.0) / 32
    if units & {"issue", "fma", "alu", "fp64", "xu", "lsu", "latency"} and lanes <= WASTED:
        yield "divergence"
    if waits and launch.get(_ROOM, 1.0) < WASTED:
        yield "low_occupancy"
    if waits and launch.get(_WAVES, 1.0) < 1:
        yield "tail"


def _useful(launch: Metrics) -> float:
    """Return the part of the bytes of all sectors of loads and stores that a warp asked for."""
    sectors = {op: launch.get(_GLOBAL.format("sectors", op), 0.0) for op in ("ld", "st")}
    touched = sum(sectors.values())
    if not touched:
        return 1.0
    used = sum(count * launch.get(_USED.format(op), 1.0) for op, count in sectors.items() if count)
    return used / touched


def _local_share(launch: Metrics) -> float:
    local = sum(launch.get(_LOCAL.format(op), 0.0) for op in ("ld", "st"))
    others = sum(launch.get(_GLOBAL.format("sectors", op), 0.0) for op in ("ld", "st"))
    return local / (local + others) if local else 0.0


def _adds_globally(launch: Metrics) -> bool:
    """Tell whether atomics meet: most sectors are theirs, and each request needs many."""
    of = {
        what: {op: launch.get(_GLOBAL.format(what, op), 0.0) for op in ("ld", "st", "red", "atom")}
        for what in ("requests", "sectors")
    }
    sectors, requests = (of[what]["red"] + of[what]["atom"] for what in ("sectors", "requests"))
    return sectors >= WASTED * sum(of["sectors"].values()) > 0 and sectors >= 8 * requests > 0


def _adds_in_shared(launch: Metrics) -> bool:
    """Tell whether most passes of shared memory are those of atomics."""
    atomics = launch.get(_SHARED.format("_op_atom"), 0.0)
    return atomics >= WASTED * launch.get(_SHARED.format(""), 0.0) > 0
