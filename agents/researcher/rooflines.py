"""Puts the timed sizes under the roofline: their bound, their least time, what fits in L2."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cuda_llm.agents.situation import Situation
from cuda_llm.hardware_profiles.roofline import ridge_flops_per_byte
from cuda_llm.tasks.sizes import LeastTime, least_time
from cuda_llm.wording import describe_dims


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


LAUNCH_MATTERS = 0.2
"""Part of the attainable time from which on the cost of a launch is reported."""


def roofline_facts(situation: Situation) -> HardwareFact:
    """Computes each size's least time, bound, share of the baseline, L2 fit and launch cost."""
    sizes = timed_sizes(situation)
    if not sizes:
        return HardwareFact(name="sizes", decision="no size is timed on this device")
    least = [least_time(situation.task, situation.hardware, dims) for dims in sizes]
    rows = [_row(situation, index, sizes[index], one) for index, one in enumerate(least)]
    lines = [_describe_size(row, one) for row, one in zip(rows, least, strict=True)]
    largest = rows[-1]
    reached = largest["baseline_share"]
    return HardwareFact(
        name="sizes",
        lines=(_intensity(situation, least[-1]), *lines, *_launch(situation, rows)),
        data=rows,
        decision=(
            f"the largest timed size is {largest['bound']}-bound: "
            f"{largest['attainable_us']:.3g} us are attainable"
            + (f", the baseline reaches {reached:.0%} of that speed" if reached else "")
        ),
    )


def timed_sizes(situation: Situation) -> Sequence[Mapping[str, int]]:
    """Returns the sizes the run times, or will time where the baseline is still to come."""
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
        "attainable_us": least.attainable_us,
        "bytes": least.bytes_moved,
        "flops": least.flops,
        "precision": least.precision,
        "fits_l2": least.bytes_moved <= situation.hardware.l2_bytes,
        "launch_share": situation.hardware.model.launch_us / least.attainable_us,
        "baseline_us": baseline_us,
        "baseline_share": None if baseline_us is None else least.attainable_us / baseline_us,
    }


def _describe_size(row: Mapping[str, Any], least: LeastTime) -> str:
    what = f"{least.bytes_moved / 1e6:.3g} MB" if least.bound == "memory" else _operations(least)
    l2 = "fits in L2" if row["fits_l2"] else "larger than L2"
    return (
        f"{describe_dims(row['dims'])}: {least.bound}-bound ({what}; {l2}), "
        f"{least.attainable_us:.3g} us attainable with one launch"
    )


def _operations(least: LeastTime) -> str:
    return f"{least.flops / 1e6:.3g} million operations in {least.precision}"


def _intensity(situation: Situation, largest: LeastTime) -> str:
    if not largest.flops:
        return "No arithmetic to speak of: the bytes this task must move set its least time."
    ridge = ridge_flops_per_byte(situation.hardware, largest.precision)
    has = largest.flops / largest.bytes_moved if largest.bytes_moved else 0.0
    return (
        f"This task does {has:.3g} operations a byte it must move; below {ridge:.3g} memory is the "
        "limit."
    )


def _launch(situation: Situation, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    small = [row for row in rows if row["launch_share"] >= LAUNCH_MATTERS]
    if not small:
        return ()
    last = small[-1]
    return (
        f"A launch costs about {situation.hardware.model.launch_us:g} us, "
        f"{last['launch_share']:.0%} of the attainable time at {describe_dims(last['dims'])}: a "
        "second one hurts there.",
    )
