"""Reasons seen from how kernels were launched: too few warps on an SM, SMs without work."""

from collections.abc import Iterator

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.profile import LaunchProfile
from cuda_llm.tools.profiler.finding import Finding

ENOUGH_OCCUPANCY = 0.5
"""From here on, more warps rarely help (Volkov, "Better Performance at Lower Occupancy", 2010)."""


def find_shapes(
    launch: LaunchProfile, hardware: Hardware, *, time_us: float, idle_share: float
) -> Iterator[Finding]:
    """Findings of one launch that took `time_us`.

    `idle_share` is the part of that time that no busy resource accounts for: what more warps could
    fill at most.
    """
    if not all(launch.grid):
        return
    missing = 1 - launch.occupancy / ENOUGH_OCCUPANCY
    if launch.occupancy > 0 and missing > 0 and idle_share > 0:
        yield _finding(
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
    idle = launch.figures.get("idle_share", 0.0)
    if idle <= 0:
        return
    if blocks < sms:
        explanation = f"{blocks:.0f} blocks leave {sms - blocks:.0f} of {sms} SMs without work"
        advice = "launch more, smaller blocks"
    else:
        waves = launch.figures.get("waves", 0.0)
        explanation = (
            f"{blocks:,.0f} blocks are {waves:.2f} waves and do not divide evenly among {sms} SMs: "
            f"up to {idle:.0%} of them idle at the end (theoretical)"
        )
        advice = "choose a grid that fills the SMs a whole number of times, or loop over the grid"
    yield _finding("tail", share=idle, time_us=time_us, explanation=explanation, advice=advice)


def _finding(code: str, *, share: float, time_us: float, explanation: str, advice: str) -> Finding:
    return Finding(
        code=code,
        saved_us=share * time_us,
        share=share,
        explanation=explanation,
        advice=advice,
        waste=True,
    )
