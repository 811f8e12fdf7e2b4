"""Lists which of CUDA's newer instructions this GPU has, and which the device executes."""

from dataclasses import dataclass

from cuda_llm.agents.researcher.finding import Finding
from cuda_llm.agents.situation import Situation


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
    Feature("warp shuffles and votes with a mask", (7, 0)),
    Feature("__match_any_sync", (7, 0)),
    Feature("asynchronous copies to shared memory (cp.async)", (8, 0)),
    Feature("__reduce_add_sync and its like on whole numbers", (8, 0)),
    Feature("asynchronous barriers (mbarrier, cuda::barrier)", (8, 0), emulated=False),
    Feature("bulk copies by TMA", (9, 0), emulated=False),
    Feature("thread-block clusters and distributed shared memory", (9, 0), emulated=False),
    Feature("warp-group matrix operations (wgmma)", (9, 0), emulated=False, newest=(9, 0)),
    Feature(
        "fifth-generation tensor operations (tcgen05)", (10, 0), emulated=False, newest=(11, 0)
    ),
)
"""CUDA C++ Programming Guide 13.0, feature support per compute capability; PTX ISA 9.0."""


def find_instructions(situation: Situation) -> Finding:
    """Lists what the GPU has, what it lacks, and what the emulated device cannot run.

    Prompts name the last in any hardware context.
    """
    capability = situation.hardware.compute_capability
    emulated = not situation.capabilities.full_isa
    there = [one for one in FEATURES if one.least <= capability <= one.newest]
    missing = [one.name for one in FEATURES if one not in there]
    tensor = tuple(situation.hardware.peaks.tensor_dense_tflops)
    usable = [one.name for one in there if one.emulated or not emulated]
    refused = [one.name for one in there if emulated and not one.emulated]
    if tensor and emulated:
        refused.append("tensor cores")
    allowed = situation.task.tolerance.precision
    types = f"tensor cores for {', '.join(tensor)} (the tolerance of this task allows {allowed})"
    usable += [types] if tensor and not emulated else []
    lines = [f"Beside CUDA's older instructions kernels may use: {'; '.join(usable)}."]
    lines += [f"This GPU has not: {'; '.join(missing)}."] if missing else []
    return Finding(
        name="instructions",
        lines=tuple(lines),
        data={"usable": usable, "missing": missing, "refused": refused, "tensor": list(tensor)},
        decision=f"kernels must do without {', '.join(refused)}: the device cannot execute them"
        if refused
        else "",
    )
