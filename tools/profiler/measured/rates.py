"""Reasons seen from the time alone: bandwidth, arithmetic, the cost of starting, and what is left.

Shares are lower bounds of what a resource was busy: the task's least bytes and work over the time.
"""

from collections.abc import Iterator, Sequence

from cuda_llm.hardware_profiles.ceilings import Ceilings
from cuda_llm.profile import LaunchProfile
from cuda_llm.tools.profiler.finding import Finding
from cuda_llm.tools.profiler.measured.achieved import Achieved
from cuda_llm.tools.profiler.measured.counters import KernelCounters

LEAST_REST = 0.3
"""A smaller rest is what any good kernel leaves of the time."""


def find_rates(
    achieved: Achieved,
    launches: Sequence[LaunchProfile],
    ceilings: Ceilings,
    counters: Sequence[KernelCounters] = (),
) -> Iterator[Finding]:
    """A finding a rate, the largest not first, and the rest of the time as latency."""
    found = [
        _memory(achieved),
        _compute(achieved),
        _starting(achieved.time_us, launches, ceilings, counters),
    ]
    yield from (one for one in found if one.share > 0)
    rest = 1 - max(one.share for one in found)
    if rest >= LEAST_REST:
        yield _waiting(achieved, launches, rest)


def _memory(achieved: Achieved) -> Finding:
    share = achieved.memory_share
    cached = ": part of it stays in cache" if share > 1 else ""
    return _finding(
        achieved.time_us,
        code="dram_bandwidth",
        share=share,
        explanation=(
            f"{achieved.bytes_moved / 1e6:.3g} MB in {achieved.time_us:.3g} us are "
            f"{achieved.gb_s:,.0f} GB/s, {share:.0%} of what a copy of as many bytes reaches "
            f"({achieved.copy_origin}){cached}"
        ),
        advice="move fewer bytes: fuse passes, use narrower types, keep data on chip",
    )


def _compute(achieved: Achieved) -> Finding:
    on_tensor = achieved.precision.startswith("tensor:")
    code = "tensor" if on_tensor else achieved.precision
    return _finding(
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
            else "cut operations, or move the products to tensor cores where the tolerance allows"
        ),
    )


def _starting(
    time_us: float,
    launches: Sequence[LaunchProfile],
    ceilings: Ceilings,
    counters: Sequence[KernelCounters],
) -> Finding:
    count = sum(max(1, round(one.figures.get("copies", 1.0))) for one in launches)
    us = count * ceilings.launch_us
    said = f"starting {count} kernels, copies and fills" if count != 1 else "starting the kernel"
    told = f"{said} takes {us:.2g} us, {ceilings.launch_us:.2g} us each"
    origin: str = ceilings.origin("launch_us")
    kernels = sum(1 for one in launches if all(one.grid))
    if counters and len(counters) == kernels:
        gaps_us = max(us, time_us - sum(one.duration_us for one in counters))
        if gaps_us > us:
            us, origin = gaps_us, "our time less that of the kernels in Nsight Compute"
            told = f"{said} and the gaps between them take {us:.2g} us"
    return _finding(
        time_us,
        code="launch_overhead",
        share=us / time_us,
        explanation=f"{told} ({origin})",
        advice="do more work per launch, or fuse launches",
    )


def _waiting(achieved: Achieved, launches: Sequence[LaunchProfile], share: float) -> Finding:
    kernels = [one for one in launches if all(one.grid)]
    held = min((one.occupancy for one in kernels), default=0.0)
    room = f", room for {held:.0%} occupancy" if kernels else ""
    return _finding(
        achieved.time_us,
        code="latency",
        share=share,
        explanation=(
            f"the task's bytes account for {achieved.memory_share:.0%} of the time and its work in "
            f"{achieved.precision} for {achieved.compute_share:.0%}: else warps wait, or other "
            f"units are busy{room} (by our clock)"
        ),
        advice="give each thread several independent loads (unroll), or raise occupancy",
    )


def _finding(time_us: float, *, code: str, share: float, explanation: str, advice: str) -> Finding:
    share = min(1.0, share)
    return Finding(
        code=code,
        saved_us=share * time_us,
        share=share,
        explanation=explanation,
        advice=advice,
    )
