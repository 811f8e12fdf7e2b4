"""Rates that a measured call achieved, and the reasons for its time that follow from the rates.

Reasons from the time alone: bandwidth, arithmetic, the cost of launches, and the rest as latency.
Shares are lower bounds of a resource's utilisation: the task's least bytes and work over the time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.hardware_profiles.ceilings import Ceilings, Origin
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.roofline import peak_tflops
from cuda_llm.profile import LaunchProfile
from cuda_llm.tasks.sizes import least_time
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device.inspection import EMULATED, KernelCounters
from cuda_llm.tools.profiler.roofs import ROOF_ADVICE
from cuda_llm.tools.profiler.time_model import TimeReason
from cuda_llm.tools.profiler.wastes import WASTE_ADVICE

LEAST_REST = 0.3
"""Smaller rests are not reported: good kernels have them too."""
ENOUGH_OCCUPANCY = 0.5
"""Occupancy from which on more warps rarely help (Volkov, "Better Performance at Lower Occupancy",
2010)."""


@dataclass(frozen=True, kw_only=True)
class Achieved:
    """Rates of a call at one size. Bytes and operations are the least that the task needs, not a
    count."""

    time_us: float
    bytes_moved: float
    flops: float
    precision: str
    """Precision whose ceiling applies to the work, spelt as in `hardware_profiles.roofline`."""
    copy_us: float
    """Microseconds of a copy that moves as many bytes, from cold memory."""
    compute_us: float
    """Microseconds of the operations at their ceiling."""
    copy_origin: Origin
    compute_origin: Origin

    @property
    def gb_s(self) -> float:
        """Return the bytes over the time, in GB/s."""
        return self.bytes_moved / (self.time_us * 1e3)

    @property
    def tflops(self) -> float:
        """Return the operations over the time, in TFLOPS."""
        return self.flops / (self.time_us * 1e6)

    @property
    def memory_share(self) -> float:
        """Return the achieved bandwidth over that of a copy of as many bytes; above 1 for cached
        data."""
        return self.copy_us / self.time_us

    @property
    def compute_share(self) -> float:
        """Return the achieved operations per second over their ceiling."""
        return self.compute_us / self.time_us


def achieve(
    task: Task,
    dims: Mapping[str, int],
    time_us: float,
    hardware: Hardware,
    ceilings: Ceilings,
    *,
    precision: str = "",
) -> Achieved:
    """Return the rates of a call that took `time_us`.

    Without `precision` the fastest precision counts that the task's tolerance allows and the chip
    has.
    """
    least = least_time(task, hardware, dims, precision=precision)
    rate, field = _ceiling(least.precision, hardware, ceilings)
    return Achieved(
        time_us=time_us,
        bytes_moved=least.bytes_moved,
        flops=least.flops,
        precision=least.precision,
        copy_us=ceilings.copy_us(least.bytes_moved) if least.bytes_moved else 0.0,
        compute_us=least.flops / (rate * 1e6),
        copy_origin=ceilings.origin("dram_gb_s"),
        compute_origin=ceilings.origin(field),
    )


def _ceiling(precision: str, hardware: Hardware, ceilings: Ceilings) -> tuple[float, str]:
    """Return TFLOPS and the name of the ceiling; those of other units are only published."""
    if precision == "fp32":
        return ceilings.fp32_tflops, "fp32_tflops"
    kind = precision.removeprefix("tensor:")
    if kind != precision and kind in ceilings.tensor_tflops:
        return ceilings.tensor_tflops[kind], precision
    return peak_tflops(hardware, precision), precision


def find_rates(
    achieved: Achieved,
    launches: Sequence[LaunchProfile],
    ceilings: Ceilings,
    counters: Sequence[KernelCounters] = (),
) -> Iterator[TimeReason]:
    """Yield a reason for each rate, in no order, and the rest of the time as latency."""
    found = [
        _memory(achieved),
        _compute(achieved),
        _starting(achieved.time_us, launches, ceilings, counters),
    ]
    yield from (one for one in found if one.share > 0)
    rest = 1 - max(one.share for one in found)
    if rest >= LEAST_REST:
        yield _waiting(achieved, launches, rest)


def _memory(achieved: Achieved) -> TimeReason:
    share = achieved.memory_share
    cached = ": part of it stays in cache" if share > 1 else ""
    return _rate_reason(
        achieved.time_us,
        code="dram_bandwidth",
        share=share,
        explanation=(
            f"{achieved.bytes_moved / 1e6:.3g} MB in {achieved.time_us:.3g} us are "
            f"{achieved.gb_s:,.0f} GB/s, {share:.0%} of what a copy of as many bytes reaches "
            f"({achieved.copy_origin}){cached}"
        ),
        advice=ROOF_ADVICE["dram_bandwidth"],
    )


def _compute(achieved: Achieved) -> TimeReason:
    on_tensor = achieved.precision.startswith("tensor:")
    code = "tensor" if on_tensor else achieved.precision
    return _rate_reason(
        achieved.time_us,
        code=code,
        share=achieved.compute_share,
        explanation=(
            f"the task's {achieved.flops / 1e9:.3g} GFLOP in {achieved.time_us:.3g} us are "
            f"{achieved.tflops:.3g} TFLOPS, {achieved.compute_share:.0%} of the ceiling in "
            f"{achieved.precision} ({achieved.compute_origin})"
        ),
        advice=(
            "already near the tensor cores' rate: feed them larger tiles"
            if on_tensor
            else ROOF_ADVICE["fp32"]
        ),
    )


def _starting(
    time_us: float,
    launches: Sequence[LaunchProfile],
    ceilings: Ceilings,
    counters: Sequence[KernelCounters],
) -> TimeReason:
    count = sum(max(1, round(one.figures.get("copies", 1.0))) for one in launches)
    us = count * ceilings.launch_us
    what = f"starting {count} kernels, copies and fills" if count != 1 else "starting the kernel"
    explanation = f"{what} takes {us:.2g} us, {ceilings.launch_us:.2g} us each"
    origin: str = ceilings.origin("launch_us")
    kernels = sum(1 for one in launches if all(one.grid))
    # What counters of the emulated device leave of the time is no measured gap.
    measured = all(one.origin != EMULATED for one in counters)
    if counters and measured and len(counters) == kernels:
        gaps_us = max(us, time_us - sum(one.duration_us for one in counters))
        if gaps_us > us:
            us, origin = gaps_us, "our time less that of the kernels in Nsight Compute"
            explanation = f"{what} and the gaps between them take {us:.2g} us"
    return _rate_reason(
        time_us,
        code="launch_overhead",
        share=us / time_us,
        explanation=f"{explanation} ({origin})",
        advice=ROOF_ADVICE["launch_overhead"],
    )


def _waiting(achieved: Achieved, launches: Sequence[LaunchProfile], share: float) -> TimeReason:
    kernels = [one for one in launches if all(one.grid)]
    occupancy = min((one.occupancy for one in kernels), default=0.0)
    room = f", room for {occupancy:.0%} occupancy" if kernels else ""
    return _rate_reason(
        achieved.time_us,
        code="latency",
        share=share,
        explanation=(
            f"the task's bytes account for {achieved.memory_share:.0%} of the time and its work in "
            f"{achieved.precision} for {achieved.compute_share:.0%}: else warps wait, or other "
            f"units are busy{room} (by our clock)"
        ),
        advice=ROOF_ADVICE["latency"],
    )


def _rate_reason(
    time_us: float, *, code: str, share: float, explanation: str, advice: str
) -> TimeReason:
    share = min(1.0, share)
    return TimeReason(
        code=code,
        saved_us=share * time_us,
        share=share,
        explanation=explanation,
        advice=advice,
    )


def find_shapes(
    launch: LaunchProfile, hardware: Hardware, *, time_us: float, idle_share: float
) -> Iterator[TimeReason]:
    """Yield reasons in the grid and block shape of a launch that took `time_us`.

    `idle_share` is the part of the time that no busy resource accounts for: the most that more
    warps could fill.
    """
    if not all(launch.grid):
        return
    missing = 1 - launch.occupancy / ENOUGH_OCCUPANCY
    if launch.occupancy > 0 and missing > 0 and idle_share > 0:
        yield _shape_reason(
            "low_occupancy",
            share=missing * idle_share,
            time_us=time_us,
            explanation=(
                f"{launch.occupancy:.0%} occupancy is the most its registers, shared memory and "
                "block size allow: too few warps to hide waits (theoretical)"
            ),
            advice="use fewer registers or less shared memory a block, or larger blocks",
        )
    blocks, sms = launch.figures.get("blocks", 0.0), hardware.sm_count
    waves, idle = (launch.figures.get(name, 0.0) for name in ("waves", "idle_share"))
    counted = launch.figures.get("idle_sm_share")
    if idle <= 0:
        return
    if blocks < sms:
        explanation = f"{blocks:.0f} blocks leave {sms - blocks:.0f} of {sms} SMs without work"
        advice = WASTE_ADVICE["few_blocks"]
    else:
        # Blocks that wait side by side on an SM take no longer than a block that waits alone.
        idle *= 1 - idle_share if waves <= 1 else 1
        which = "theoretical" if counted is None else f"{counted:.0%} of their clocks, as counted"
        explanation = (
            f"{blocks:,.0f} blocks are {waves:.2f} waves and do not divide evenly among {sms} SMs: "
            f"up to {idle:.0%} of them idle at the end ({which})"
        )
        advice = WASTE_ADVICE["uneven_grid"]
    share = idle if counted is None else counted
    yield _shape_reason(
        "tail", share=share, time_us=time_us, explanation=explanation, advice=advice
    )


def _shape_reason(
    code: str, *, share: float, time_us: float, explanation: str, advice: str
) -> TimeReason:
    return TimeReason(
        code=code,
        saved_us=share * time_us,
        share=share,
        explanation=explanation,
        advice=advice,
        waste=True,
    )
