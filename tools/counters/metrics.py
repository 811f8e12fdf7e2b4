"""Which hardware counters are asked for, and what they say about a kernel."""

from collections.abc import Mapping

from cuda_llm.tools.counters.ncu_table import CountedKernel
from cuda_llm.tools.profiler.measured.counters import KernelCounters, Stall

DURATION = "gpu__time_duration.sum"
_STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_STALLS = (
    *("barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss"),
    *("lg_throttle", "long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle", "misc"),
    *("no_instruction", "not_selected", "selected", "short_scoreboard", "sleeping"),
    *("tex_throttle", "wait"),
)
_SHARES = {
    "dram_share": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2_share": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_share": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "issue_share": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "fp32_share": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "int_share": "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
    "fp64_share": "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
    "sfu_share": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "tensor_share": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "achieved_occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "l1_hit_share": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_share": "lts__t_sector_hit_rate.pct",
    "l2_bytes": "lts__t_bytes.sum",
}
_SECTORS = {kind: f"l1tex__t_sectors_pipe_lsu_mem_global_op_{kind}.sum" for kind in ("ld", "st")}
_REQUESTS = {kind: f"l1tex__t_requests_pipe_lsu_mem_global_op_{kind}.sum" for kind in ("ld", "st")}
_USED = {
    kind: f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{kind}.pct"
    for kind in ("ld", "st")
}
_LANES = "smsp__thread_inst_executed_per_inst_executed.ratio"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
_SHARED_PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
_PASSES = "l1tex__data_pipe_lsu_wavefronts.sum"
_DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum")

METRICS = (
    DURATION,
    *_SHARES.values(),
    *(*_SECTORS.values(), *_REQUESTS.values(), *_USED.values()),
    *(_LANES, _CONFLICTS, _SHARED_PASSES, _PASSES, *_DRAM),
    *map(_STALLED.format, _STALLS),
)
"""A chip that lacks one leaves it out."""


def condense(counted: CountedKernel, *, flushed: bool) -> KernelCounters:
    """What explains a kernel's time; a figure that the chip does not count is absent."""
    metrics = counted.metrics
    figures = {name: metrics[metric] for name, metric in _SHARES.items() if metric in metrics}
    figures |= _coalescing(metrics) | _banks(metrics)
    if _LANES in metrics:
        figures["simd_efficiency"] = metrics[_LANES] / 32
    if all(name in metrics for name in _DRAM):
        figures["dram_bytes"] = sum(metrics[name] for name in _DRAM)
    return KernelCounters(
        kernel=counted.kernel,
        duration_us=metrics.get(DURATION, 0.0) * 1e6,
        flushed=flushed,
        figures=figures,
        stalls=_stalls(metrics),
    )


def _coalescing(metrics: Mapping[str, float]) -> dict[str, float]:
    sectors = {kind: metrics.get(name, 0.0) for kind, name in _SECTORS.items()}
    requests = sum(metrics.get(name, 0.0) for name in _REQUESTS.values())
    touched = sum(sectors.values())
    if not requests or not touched:
        return {}
    figures = {"sectors_per_request": touched / requests}
    if all(_USED[kind] in metrics for kind, count in sectors.items() if count):
        used = sum(count * metrics[_USED[kind]] for kind, count in sectors.items() if count)
        figures["useful_byte_share"] = min(1.0, used / touched)
    return figures


def _banks(metrics: Mapping[str, float]) -> dict[str, float]:
    shared, all_passes = metrics.get(_SHARED_PASSES, 0.0), metrics.get(_PASSES, 0.0)
    if not shared:
        return {}
    needed = shared - metrics.get(_CONFLICTS, 0.0)
    ways = {"bank_ways": shared / needed} if needed > 0 else {}
    share = {"shared_passes_share": min(1.0, shared / all_passes)} if all_passes else {}
    return ways | share


def _stalls(metrics: Mapping[str, float]) -> tuple[Stall, ...]:
    """Warps that stall for a reason, per issue, over all warps that there are per issue."""
    waiting = {reason: metrics.get(_STALLED.format(reason), 0.0) for reason in _STALLS}
    total = sum(waiting.values())
    if not total:
        return ()
    del waiting["selected"]
    found = (Stall(reason=reason, share=count / total) for reason, count in waiting.items())
    return tuple(
        sorted((one for one in found if one.share > 0), key=lambda one: one.share, reverse=True)
    )
