"""Facts about a task's timed sizes and about an SM that decide how to write kernels.

Rooflines of the sizes (bound, least time, what fits in L2), registers and shared memory by
occupancy, and tiles of the task's data that fit in shared memory.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.task_kind import Work, work_of
from cuda_llm.figure_wording import describe_us
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.occupancy import MOST_REGISTERS_PER_THREAD, WARP_THREADS, occupancy
from cuda_llm.hardware_profiles.roofline import ridge_flops_per_byte
from cuda_llm.tasks.sizes import LeastTime, least_time
from cuda_llm.tasks.split_products import SPLITS, is_exact_enough, roundings_of
from cuda_llm.tasks.task import ToleranceClass

LAUNCH_MATTERS = 0.02
"""Part of the attainable time from which on the cost of a second launch has a figure."""
BLOCK_SIZES = (128, 256, 512, 1024)
USUAL_THREADS = 256
"""Threads of the blocks whose occupancy is worded; the other rows are data."""
FEW_REGISTERS = 16
STEP_BYTES = 256

_TENSOR_TYPES = {"tf32": "tf32", "fp16": "fp16", "bf16": "bf16", "e4m3": "fp8", "e5m2": "fp8"}


@dataclass(frozen=True, kw_only=True)
class HardwareFact:
    """One result: as lines for prompts, as data for other agents, as a sentence for the trace."""

    name: str
    """Key in the note's data."""
    lines: tuple[str, ...] = ()
    data: Any = field(default_factory=dict)
    """Plain JSON."""
    decision: str = ""
    """One sentence, or empty."""


def roofline_facts(situation: Situation) -> HardwareFact:
    """Compute each size's least time, bound, share of the baseline, L2 fit and launch cost."""
    sizes = timed_sizes(situation)
    if not sizes:
        return HardwareFact(name="sizes", decision="no size is timed on this device")
    least = [least_time(situation.task, situation.hardware, dims) for dims in sizes]
    rows = [_row(situation, index, sizes[index], one) for index, one in enumerate(least)]
    number = max(range(len(sizes)), key=lambda one: least[one].time_us)
    largest = rows[number]
    reached = largest["baseline_share"]
    return HardwareFact(
        name="sizes",
        lines=(
            _intensity(situation, least[number]),
            _attainable(least),
            _launch(situation, rows),
        ),
        data=rows,
        decision=(
            f"the largest timed size is {largest['bound']}-bound: "
            f"{largest['attainable_us']:.3g} us are attainable"
            + (f", the baseline reaches {reached:.0%} of that speed" if reached else "")
        ),
    )


def timed_sizes(situation: Situation) -> Sequence[Mapping[str, int]]:
    """Return the sizes the run times, or will time where the baseline is still to come."""
    sizes = situation.task.sizes
    planned = sizes.bench if situation.capabilities.bench_sizes else sizes.emulated
    return situation.sizes or planned


def _row(
    situation: Situation, index: int, dims: Mapping[str, int], least: LeastTime
) -> dict[str, Any]:
    known = index < len(situation.baseline_us)
    baseline_us = situation.baseline_us[index] if known else None
    return {
        "dims": dict(dims),
        "bound": least.bound,
        "least_us": least.time_us,
        "attainable_us": least.reachable_us,
        "bytes": least.bytes_moved,
        "flops": least.flops,
        "precision": least.precision,
        "fits_l2": least.bytes_moved <= situation.hardware.l2_bytes,
        "launch_share": situation.hardware.model.launch_us / least.reachable_us,
        "baseline_us": baseline_us,
        "baseline_share": None if baseline_us is None else least.reachable_us / baseline_us,
    }


def _attainable(least: Sequence[LeastTime]) -> str:
    """Describe each size's attainable time, and the bytes that it must move where they decide."""
    times = "; ".join(
        describe_us(one.reachable_us)
        + (f" ({describe_bytes(one.bytes_moved)})" if one.bound == "memory" else "")
        for one in least
    )
    compute_bound = [one for one in least if one.bound == "compute"]
    computes = f", {compute_bound[0].arithmetic} at its peak" if compute_bound else ""
    return (
        "Attainable at each timed size with one launch, one DRAM round trip, each byte moved "
        f"once{computes}: {times}"
    )


def describe_bytes(count: float) -> str:
    """Render `16.4 kB`, `8.39 MB` or `2.15 GB`."""
    unit, name = next(((u, n) for u, n in ((1e9, "GB"), (1e6, "MB")) if count >= u), (1e3, "kB"))
    return f"{count / unit:.3g} {name}"


def _intensity(situation: Situation, largest: LeastTime) -> str:
    if not largest.flops:
        return "No arithmetic to speak of: the bytes this task must move set its least time."
    ridge = ridge_flops_per_byte(situation.hardware, largest.precision)
    has = largest.flops / largest.bytes_moved if largest.bytes_moved else 0.0
    return (
        f"This task does {has:.3g} operations a byte it must move, {ridge:.3g} keep DRAM and "
        f"arithmetic busy: {largest.bound}-bound at the largest size."
    )


def _launch(situation: Situation, rows: Sequence[Mapping[str, Any]]) -> str:
    first, last = rows[0]["launch_share"], rows[-1]["launch_share"]
    most = max(row["launch_share"] for row in rows)
    cost = f"A launch costs about {situation.hardware.model.launch_us:g} us: a second one adds "
    if most < LAUNCH_MATTERS:
        return f"{cost}less than {LAUNCH_MATTERS:.0%} at any timed size."
    return f"{cost}{first:.0%} to the attainable time of the first size, {last:.0%} to the last."


def occupancy_facts(situation: Situation) -> HardwareFact:
    """Find, for common block sizes, the most registers and shared memory at full and half."""
    rows = [
        _corner(situation.hardware, threads)
        for threads in BLOCK_SIZES
        if threads <= situation.hardware.limits.threads_per_block
    ]
    return HardwareFact(
        name="occupancy",
        lines=_describe_corners(situation.hardware, rows),
        data=rows,
    )


def _corner(hardware: Hardware, threads: int) -> dict[str, Any]:
    def of(registers: int = FEW_REGISTERS, shared: int = 0) -> float:
        return occupancy(
            hardware,
            threads_per_block=threads,
            registers_per_thread=registers,
            shared_bytes=shared,
        ).fraction

    most = of()
    steps = hardware.limits.shared_bytes_per_block_optin // STEP_BYTES
    return {
        "threads": threads,
        "most": most,
        "registers_full": _last(MOST_REGISTERS_PER_THREAD, lambda n: of(registers=n) >= most),
        "registers_half": _last(MOST_REGISTERS_PER_THREAD, lambda n: of(registers=n) >= most / 2),
        "shared_full": STEP_BYTES * _last(steps, lambda n: of(shared=n * STEP_BYTES) >= most),
        "shared_half": STEP_BYTES * _last(steps, lambda n: of(shared=n * STEP_BYTES) >= most / 2),
    }


def _last(limit: int, holds: Callable[[int], bool]) -> int:
    """Find the largest number up to `limit` that meets a monotone condition, by bisection."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _describe_corners(hardware: Hardware, rows: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Describe what blocks of a usual size may take, and which sizes cannot fill an SM."""
    warps = hardware.limits.threads_per_sm // WARP_THREADS
    usual = next(row for row in rows if row["threads"] == USUAL_THREADS)
    return (
        f"Resident of the {warps} warps of an SM, in blocks of {USUAL_THREADS} threads: all up to "
        f"{usual['registers_full']} registers a thread and {usual['shared_full']:,} B of shared "
        f"memory a block, half up to {usual['registers_half']} and {usual['shared_half']:,} B",
        *(
            f"Blocks of {row['threads']:,} threads fill {row['most']:.0%} of an SM at most"
            for row in rows
            if row["most"] < 1.0
        ),
    )


def describe_hardware(situation: Situation) -> tuple[str, ...]:
    """Describe the GPU, one fact a line, with what arithmetic on kernels needs."""
    hardware = situation.hardware
    limits, peaks, model = hardware.limits, hardware.peaks, hardware.model
    major, minor = hardware.compute_capability
    l2_gb_s = model.l2_bytes_per_clk * hardware.boost_clock_mhz / 1e3
    return (
        f"{hardware.name}: {hardware.architecture}, compute capability {major}.{minor} "
        f"({hardware.target}), {hardware.sm_count} SMs at {hardware.boost_clock_mhz:,.0f} MHz",
        f"DRAM: {peaks.dram_gb_s:,.0f} GB/s; L2: {_mebibytes(hardware.l2_bytes)}, "
        f"{l2_gb_s:,.0f} GB/s; an SM serves {hardware.pipes.load_store:g} four-byte words of "
        "shared memory or L1 a clock, or 8 B to a whole warp",
        f"clocks to wait: DRAM {model.latency_dram_clk:g}, L2 {model.latency_l2_clk:g}, "
        f"L1 {model.latency_l1_clk:g}, shared {model.latency_shared_clk:g}, "
        f"arithmetic {model.latency_alu_clk:g}",
        _to_hide_waits(hardware),
        *_waits(hardware),
        f"fp32: {peaks.fp32_tflops:g} TFLOPS, {hardware.pipes.fp32:g} FMA a clock and SM",
        *_tensor(situation),
        f"shared memory: {_kibibytes(limits.shared_bytes_per_block)} a block, "
        f"{_kibibytes(limits.shared_bytes_per_block_optin)} when asked for, "
        f"{_kibibytes(limits.shared_bytes_per_sm)} an SM, of which each block takes "
        f"{_kibibytes(limits.shared_bytes_reserved_per_block)} for itself",
        f"registers: {limits.registers_per_sm:,} an SM, 255 a thread at most; threads: "
        f"{limits.threads_per_block:,} a block, {limits.threads_per_sm:,} an SM; blocks: "
        f"{limits.blocks_per_sm} an SM",
    )


def _to_hide_waits(hardware: Hardware) -> str:
    """Describe the warps an SM needs against waits: latency times throughput (Little's law)."""
    per_clk = hardware.peaks.dram_gb_s * 1e3 / hardware.boost_clock_mhz / hardware.sm_count
    in_flight = per_clk * hardware.model.latency_dram_clk
    loads = math.ceil(in_flight / (WARP_THREADS * 4))
    chains = math.ceil(hardware.pipes.fp32 / WARP_THREADS * hardware.model.latency_alu_clk)
    return (
        f"to hide them an SM needs {in_flight:,.0f} B on their way from DRAM ({loads} loads of 4 B "
        f"a lane by a warp, {math.ceil(loads / 4)} of 16 B) or {chains} chains of FMA, over its "
        "warps"
    )


def _waits(hardware: Hardware) -> tuple[str, ...]:
    """Describe what it costs to wait for other threads, as far as known."""
    waits = hardware.waits

    def cost(key: str, figure: float, text: str) -> str:
        guess = " (estimate)" if hardware.origin_of(key) == "estimated" else ""
        return f"{text.format(figure)}{guess}" if figure else ""

    barrier = "__syncthreads {:g}"
    if waits.block_barrier_warp_clk:
        barrier += f" and {waits.block_barrier_warp_clk:g} for each warp after the first"
    parts = (
        cost("waits.block_barrier_clk", waits.block_barrier_clk, barrier),
        cost("waits.cluster_barrier_clk", waits.cluster_barrier_clk, "a cluster's barrier {:g}"),
        cost("waits.grid_barrier_clk", waits.grid_barrier_clk, "grid.sync() {:,.0f}"),
        cost("waits.kept_atomic_clk", waits.kept_atomic_clk, "the result of an atomic in L2 {:g}"),
        cost(
            "waits.same_word_atomic_clk",
            waits.same_word_atomic_clk,
            "each warp's on one word {:g}",
        ),
        cost("waits.fence_clk", waits.fence_clk, "__threadfence {:g}"),
    )
    known = ", ".join(filter(None, parts))
    return (f"clocks that waiting for others takes: {known}",) if known else ()


def _tensor(situation: Situation) -> tuple[str, ...]:
    """Describe tensor cores, where the task's precision and the chip allow their use.

    Where products are to be exact in fp32, the error of operands in several parts is compared
    with what the task allows.
    """
    task, rates = situation.task, situation.hardware.peaks.tensor_dense_tflops
    precision = task.tolerance.precision
    if (rate := rates.get(_TENSOR_TYPES.get(precision, ""))) is not None:
        return (f"tensor cores, {precision} inputs: {rate:g} TFLOPS",)
    many = work_of(task) in (Work.REUSES, Work.SLIDES)
    multiplies = many and task.tolerance.kind is ToleranceClass.DOT
    if precision != "fp32" or not multiplies or "tf32" not in rates:
        return ()
    parts = "; ".join(
        f"{one.name} {roundings_of(task, one):,.0f}"
        + ("" if is_exact_enough(task, one) else ", too many")
        for one in SPLITS
    )
    efficiency = situation.hardware.model.mma_sync_efficiency
    reached = f" (mma.sync reaches {efficiency:.0%})" if efficiency < 1 else ""
    return (
        f"tensor cores: {rates['tf32']:g} TFLOPS of tf32, {rates['bf16']:g} of bf16{reached}. "
        f"Roundings (of fp32) that products are off by: {parts}. Scale low parts by 2^11, or small "
        "numbers lose them; add the sums of each mma to fp32 registers, it truncates.",
    )


def _kibibytes(count: int) -> str:
    return f"{count / 1024:g} KiB"


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:g} MiB"
