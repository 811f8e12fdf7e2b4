"""The agent `hardware_research`, which runs before the first kernel is written: what instructions
there are, what tiles take and give, and where the figures come from.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from cuda_llm.agents.find_agent import placed
from cuda_llm.agents.protocols import Contribution, Stage
from cuda_llm.agents.researcher.facts import (
    HardwareFact,
    occupancy_facts,
    roofline_facts,
    timed_sizes,
)
from cuda_llm.agents.situation import Note, Situation
from cuda_llm.agents.techniques.task_kind import Work, work_of
from cuda_llm.figure_wording import describe_dims
from cuda_llm.hardware_profiles.hardware import FigureOrigin, Hardware
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.sizes import item_bytes, least_time, shape_of
from cuda_llm.tasks.task import ArgumentRole, ToleranceClass

BLOCK_THREADS = 256

DECIDING = {
    "peaks.dram_gb_s": "DRAM bandwidth",
    "boost_clock_mhz": "clock",
    "model.dram_efficiency": "attainable part of the bandwidth",
    "model.launch_us": "cost of a launch",
    "l2_bytes": "size of L2",
    "model.l2_bytes_per_clk": "bandwidth of L2",
    "model.latency_dram_clk": "latencies",
}
"""Figures that the other findings rest on, by their key in a profile."""
_UNMEASURED: Mapping[FigureOrigin | None, str] = {
    "published": "published",
    "estimated": "estimated",
    "measured_elsewhere": "measured on another of its kind",
    None: "of unknown origin",
}
"""Words for the origin of a figure that was not measured here, by origin."""
_GUESSED = ("estimated", None)
"""Named in prompts; the other origins go to the trace alone."""
TILES = ((32, 32), (64, 64), (128, 64), (128, 128))
"""Rows and columns of the part of an output that a block computes."""


@dataclass(frozen=True)
class Feature:
    """A group of instructions."""

    name: str
    least: tuple[int, int]
    """First compute capability that has the feature."""
    emulated: bool = True
    newest: tuple[int, int] = (99, 0)
    """Last compute capability that has the feature."""


FEATURES = (
    Feature("__match_any_sync", (7, 0)),
    Feature("cp.async", (8, 0)),
    Feature("__reduce_add_sync of integers", (8, 0)),
    Feature("mbarrier", (8, 0)),
    Feature("TMA", (9, 0)),
    Feature("clusters", (9, 0)),
    Feature("wgmma", (9, 0), newest=(9, 0)),
    Feature("tcgen05", (10, 0), emulated=False, newest=(11, 0)),
)
"""CUDA C++ Programming Guide 13.0, feature support per compute capability; PTX ISA 9.0."""


def instruction_facts(situation: Situation) -> HardwareFact:
    """List what the GPU has, what it lacks, and what the emulated device cannot run.

    Prompts name the last in any hardware context.
    """
    capability = situation.hardware.compute_capability
    emulated = not situation.capabilities.full_isa
    there = [one for one in FEATURES if one.least <= capability <= one.newest]
    missing = [one.name for one in FEATURES if one not in there]
    tensor = tuple(situation.hardware.peaks.tensor_dense_tflops)
    usable = [one.name for one in there if one.emulated or not emulated]
    refused = [one.name for one in there if emulated and not one.emulated]
    allowed = situation.task.tolerance.precision
    types = f"tensor cores for {', '.join(tensor)}"
    lines = [f"It has also: {'; '.join((*usable, *((types,) if allowed in tensor else ())))}."]
    lines += [f"It has not: {'; '.join(missing)}."] if missing else []
    usable += [types] if tensor else []
    return HardwareFact(
        name="instructions",
        lines=tuple(lines),
        data={"usable": usable, "missing": missing, "refused": refused, "tensor": list(tensor)},
        decision=f"kernels must do without {', '.join(refused)}: the device cannot execute them"
        if refused
        else "",
    )


def provenance_facts(situation: Situation) -> HardwareFact:
    """Group the deciding figures by origin: measured, published, estimated or unknown."""
    origins = {name: situation.hardware.origin_of(key) for key, name in DECIDING.items()}
    groups = [
        (words, [name for name in origins if origins[name] == origin])
        for origin, words in _UNMEASURED.items()
    ]
    unmeasured = "; ".join(f"{words}: {', '.join(names)}" for words, names in groups if names)
    guesses = [name for name in origins if origins[name] in _GUESSED]
    return HardwareFact(
        name="provenance",
        lines=(f"Estimates, not measured here: {', '.join(guesses)}.",) if guesses else (),
        data=origins,
        decision=f"no probe on this device; {unmeasured}" if unmeasured else "",
    )


def grid_facts(situation: Situation) -> HardwareFact:
    """Compute the operands that pass L2 by the shape of a tile, where products are summed; the grid
    that fills the chip once where outputs are not cut into tiles."""
    sizes, task = timed_sizes(situation), situation.task
    work = work_of(task)
    if work is Work.REUSES and task.tolerance.kind is ToleranceClass.DOT:
        rows = [_tile_row(situation, sizes[0], tile) for tile in TILES]
        shares = "; ".join(
            f"{one['tile'][0]} x {one['tile'][1]} {one['l2_share']:.0%}" for one in rows
        )
        line = (
            "Time of the operands at L2's bandwidth over the attainable time, by the outputs of a "
            f"block: {shares}"
        )
        return HardwareFact(name="grid", lines=(line,), data=rows)
    if work in (Work.REARRANGES, Work.SLIDES):
        return HardwareFact(name="grid", data=[])
    hardware = situation.hardware
    blocks = hardware.sm_count * (hardware.limits.threads_per_sm // BLOCK_THREADS)
    line = (
        f"A grid of {blocks:,} blocks of {BLOCK_THREADS} threads fills the chip once; a multiple "
        f"of {hardware.sm_count} leaves no SM idle"
    )
    return HardwareFact(name="grid", lines=(line,), data=[{"blocks": blocks}])


def _tile_row(
    situation: Situation, dims: Mapping[str, int], tile: tuple[int, int]
) -> dict[str, Any]:
    """Count the blocks of one tile and the bytes of their operands."""
    task = situation.task
    output = next(one for one in task.arguments if one.is_output)
    *others, height, width = (1, *shape_of(output, dims))
    blocks = prod(others) * -(-height // tile[0]) * -(-width // tile[1])
    terms = float(evaluate(task.tolerance.terms, dims))
    operands = blocks * terms * (tile[0] + tile[1]) * item_bytes(output.dtype)
    model = situation.hardware.model
    l2_us = operands / model.l2_bytes_per_clk / situation.hardware.boost_clock_mhz
    least = least_time(task, situation.hardware, dims)
    return {
        "tile": list(tile),
        "blocks": blocks,
        "operand_bytes": operands,
        "l2_share": l2_us / least.reachable_us,
    }


def copy_facts(situation: Situation) -> HardwareFact:
    """Size private copies of the outputs in shared memory, where inputs decide what is added to.

    Each row has the bytes, whether they need an opt-in, and how many such blocks an SM holds.
    """
    if work_of(situation.task) is not Work.SCATTERS:
        return HardwareFact(name="copies", data=[])
    fitting = [row for row in _copies(situation) if row["an_sm"]]
    lines = tuple(dict.fromkeys(map(_describe_copy, fitting))) or ("no timed size fits",)
    line = f"Shared memory of a copy of the outputs a block: {'; '.join(lines)}"
    return HardwareFact(name="copies", lines=(line,), data=fitting)


def _copies(situation: Situation) -> list[dict[str, Any]]:
    outputs = [one for one in situation.task.arguments if one.role == ArgumentRole.OUT]
    return [
        {"what": describe_dims(dims), "dims": dict(dims)}
        | _fit(
            situation.hardware,
            sum(prod(shape_of(one, dims)) * item_bytes(one.dtype) for one in outputs),
        )
        for dims in timed_sizes(situation)
    ]


def _fit(hardware: Hardware, needed: int) -> dict[str, Any]:
    limits = hardware.limits
    unit = limits.shared_allocation_bytes
    taken = -(-(needed + limits.shared_bytes_reserved_per_block) // unit) * unit
    fits = needed <= limits.shared_bytes_per_block_optin
    return {
        "bytes": needed,
        "asks": needed > limits.shared_bytes_per_block,
        "an_sm": min(limits.blocks_per_sm, limits.shared_bytes_per_sm // taken) if fits else 0,
    }


def _describe_copy(row: dict[str, Any]) -> str:
    asks = ", to be asked for" if row["asks"] else ""
    blocks = f"{row['an_sm']} block{'s' if row['an_sm'] > 1 else ''}"
    return f"{row['bytes']:,} B{asks} ({blocks} an SM)"


@placed(after=Stage.START)
async def hardware_research(situation: Situation) -> Contribution:
    """Note the facts and limits of the GPU that decide how to write this task's kernels."""
    findings = (
        roofline_facts(situation),
        occupancy_facts(situation),
        copy_facts(situation),
        grid_facts(situation),
        instruction_facts(situation),
        provenance_facts(situation),
    )
    return Contribution(
        note=Note(
            text="\n".join(line for one in findings for line in one.lines),
            about_hardware=True,
            data={one.name: one.data for one in findings},
        ),
        decisions=tuple(one.decision for one in findings if one.decision),
    )
