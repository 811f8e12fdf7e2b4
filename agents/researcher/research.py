"""The agent `hardware_research`, which runs before the first kernel is written: what instructions
there are, what tiles take and give, and where the figures come from.
"""

from collections.abc import Mapping, Sequence
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
from cuda_llm.tasks.sizes import least_time, shape_of
from cuda_llm.tasks.task import ArgumentRole, Task

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
EDGES = (16, 32, 64, 128)
"""Edges of square tiles in shared memory, in elements."""
TILES = ((32, 32), (64, 64), (128, 64), (128, 128))
"""Rows and columns of the part of an output that a block computes."""
EVEN = 0.95
"""Part of whole waves from which on a grid needs no word."""


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
    Feature("shuffles and votes with a mask", (7, 0)),
    Feature("__match_any_sync", (7, 0)),
    Feature("cp.async to shared memory", (8, 0)),
    Feature("__reduce_add_sync and its like on whole numbers", (8, 0)),
    Feature("mbarrier, cuda::barrier", (8, 0)),
    Feature("bulk copies by TMA", (9, 0)),
    Feature("thread-block clusters", (9, 0)),
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
    """Compute the part of whole waves, and the operands that pass L2, by the shape of a tile.

    For tasks whose output is not cut into tiles: the grid that fills the chip once.
    """
    sizes = timed_sizes(situation)
    work = work_of(situation.task)
    if work in (Work.REARRANGES, Work.REUSES, Work.SLIDES):
        rows = [_tile_row(situation, dims, tile) for tile in TILES for dims in sizes]
        return HardwareFact(name="grid", lines=_describe_grid(situation, sizes, rows), data=rows)
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
    """Count the blocks of one tile, their part of whole waves and the bytes of their operands."""
    task, sm_count = situation.task, situation.hardware.sm_count
    output = next(one for one in task.arguments if one.role != ArgumentRole.IN and one.shape)
    *others, height, width = (1, *shape_of(output, dims))
    blocks = prod(others) * -(-height // tile[0]) * -(-width // tile[1])
    row = {
        "tile": list(tile),
        "blocks": blocks,
        "whole_waves": blocks / (sm_count * -(-blocks // sm_count)),
    }
    if work_of(task) is not Work.REUSES:
        return row
    terms = float(evaluate(task.tolerance.terms, dims))
    operands = blocks * terms * (tile[0] + tile[1]) * item_bytes(output.dtype)
    model = situation.hardware.model
    l2_us = operands / model.l2_bytes_per_clk / situation.hardware.boost_clock_mhz
    least = least_time(task, situation.hardware, dims)
    return row | {"operand_bytes": operands, "l2_share": l2_us / least.reachable_us}


def _describe_grid(
    situation: Situation, sizes: Sequence[Mapping[str, int]], rows: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    """Describe each tile at the sizes up to the last that some tile does not fill evenly."""
    count = len(sizes)
    by_tile = [rows[at : at + count] for at in range(0, len(rows), count)]
    last = max(
        (at for at in range(count) for tile in by_tile if tile[at]["whole_waves"] < EVEN),
        default=-1,
    )
    uneven = range(last + 1)
    parts = []
    for tile in by_tile:
        high, wide = tile[0]["tile"]
        waves = " / ".join(f"{tile[index]['whole_waves']:.0%}" for index in uneven)
        through = tile[0].get("l2_share")
        operands = "" if through is None else f"L2 {through:.0%}"
        parts.append(f"{high} x {wide} {', '.join(filter(None, (waves, operands)))}")
    if not uneven and "l2_share" not in rows[0]:
        return ()
    sms = situation.hardware.sm_count
    where = f"part of whole waves over {sms} SMs at the first sizes" if uneven else ""
    then = "time of the operands at L2's bandwidth over the attainable time"
    what = "; ".join(filter(None, (where, then if "l2_share" in rows[0] else "")))
    return (f"Tiles of the output a block ({what}): {'; '.join(parts)}",)


def shared_memory_facts(situation: Situation) -> HardwareFact:
    """Size square tiles where inputs are staged, and private copies where outputs are summed.

    Each row has the bytes, whether they need an opt-in, and how many such blocks an SM holds.
    """
    match work_of(situation.task):
        case Work.REARRANGES | Work.REUSES | Work.SLIDES:
            head, rows = "a tile with a column of padding", _tiles(situation)
        case Work.SCATTERS:
            head, rows = "a copy of the outputs a block", _copies(situation)
        case _:
            return HardwareFact(name="tiles", data=[])
    fitting = [row for row in rows if row["an_sm"]]
    lines = tuple(dict.fromkeys(map(_describe_tile, fitting))) or ("no timed size fits",)
    line = f"Shared memory of {head}: {'; '.join(lines)}"
    return HardwareFact(name="tiles", lines=(line,), data=fitting)


def _tiles(situation: Situation) -> list[dict[str, Any]]:
    return [
        {"what": _name_tile(situation.task, dtype, edge), "dtype": dtype, "edge": edge}
        | _fit(situation.hardware, edge * (edge + 1) * item_bytes(dtype))
        for dtype in _element_types(situation.task)
        for edge in EDGES
    ]


def _name_tile(task: Task, dtype: str, edge: int) -> str:
    square = f"{edge} x {edge}"
    return square if len(_element_types(task)) == 1 else f"{dtype} {square}"


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


def _element_types(task: Task) -> tuple[str, ...]:
    arrays = (one.dtype for one in task.arguments if one.role != ArgumentRole.SCALAR)
    return tuple(dict.fromkeys(arrays))


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


def item_bytes(dtype: str) -> int:
    """Return the size of one element in bytes, from the bits in its NumPy name."""
    bits = dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(bits) // 8 if bits else 1


def _describe_tile(row: dict[str, Any]) -> str:
    asks = ", to be asked for" if row["asks"] else ""
    blocks = f"{row['an_sm']} block{'s' if row['an_sm'] > 1 else ''}"
    what = f"{row['what']} " if "edge" in row else ""
    return f"{what}{row['bytes']:,} B{asks} ({blocks} an SM)"


@placed(after=Stage.START)
async def hardware_research(situation: Situation) -> Contribution:
    """Note the facts and limits of the GPU that decide how to write this task's kernels."""
    findings = (
        roofline_facts(situation),
        occupancy_facts(situation),
        shared_memory_facts(situation),
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
