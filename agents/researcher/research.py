"""The agent `hardware_research`, which runs before the first kernel is written."""

from dataclasses import dataclass

from cuda_llm.agents.find_agent import placed
from cuda_llm.agents.protocols import Contribution, Stage
from cuda_llm.agents.researcher.facts import (
    HardwareFact,
    occupancy_facts,
    roofline_facts,
)
from cuda_llm.agents.researcher.tiles import grid_facts, shared_memory_facts
from cuda_llm.agents.situation import Note, Situation


@dataclass(frozen=True)
class Feature:
    """A group of instructions."""

    name: str
    least: tuple[int, int]
    """Compute capability that has it first."""
    emulated: bool = True
    newest: tuple[int, int] = (99, 0)
    """Last compute capability that has it."""


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
_UNMEASURED = ("published", "estimated", "measured on another of its kind", "of unknown origin")
_GUESSED = ("estimated", "of unknown origin")
"""Named in prompts; the other kinds go to the trace alone."""


def provenance_facts(situation: Situation) -> HardwareFact:
    """Group the deciding figures by origin: measured, published, estimated or unknown."""
    kinds = {name: _kind(_source(situation, key)) for key, name in DECIDING.items()}
    groups = [(kind, [name for name in kinds if kinds[name] == kind]) for kind in _UNMEASURED]
    unmeasured = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in groups if names)
    guesses = [name for name in kinds if kinds[name] in _GUESSED]
    return HardwareFact(
        name="provenance",
        lines=(f"Estimates, not measured here: {', '.join(guesses)}.",) if guesses else (),
        data=kinds,
        decision=f"no probe on this device; {unmeasured}" if unmeasured else "",
    )


def _source(situation: Situation, key: str) -> str:
    """Return the source of a key, which may share its entry with others."""
    for keys, source in situation.hardware.sources.items():
        names = [one.strip() for one in keys.split(",")]
        if key in names or any(key.startswith(f"{name}.") for name in names):
            return source
    return ""


def _kind(source: str) -> str:
    text = source.lower()
    if not text:
        return "of unknown origin"
    if "probe" in text or "measured on this" in text:
        return "measured"
    if "estimate" in text:
        return "estimated"
    return "measured on another of its kind" if "measured" in text else "published"


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
