"""Kernels that ask for more than the device has, or claim more than it can do."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cuda_llm.agents.quote import join, one_line
from cuda_llm.agents.reflection.diagnosis import Diagnosis, Scene
from cuda_llm.fact_wording import describe_limit
from cuda_llm.facts import LimitName
from cuda_llm.outcomes import EmulatorUnsupported, ImpossibleTime, LaunchFailed, OutOfMemory
from cuda_llm.wording import describe


@dataclass(frozen=True)
class _Refusal:
    """A reason for which CUDA refuses a launch."""

    cause: str
    text: str
    hardware_text: str = ""
    """May refer to fields of `Limits`, and to `sm_count`."""


_CONFIGURATION = _Refusal(
    "configuration",
    "An extent of grid or block is 0 or too large: round up when dividing, and check the order "
    "of x, y and z.",
    "a block has at most {threads_per_block:,} threads",
)
_REGISTERS = _Refusal(
    "registers",
    "The block needs more registers than there are: use fewer threads a block, smaller "
    "per-thread tiles, or __launch_bounds__ with the real block size.",
    "a block has {registers_per_block:,} registers",
)
_COOPERATIVE = _Refusal(
    "cooperative grid",
    "A cooperative launch must fit on the device at once: ask "
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor and loop over the rest of the work.",
    "the device has {sm_count} SMs",
)
_CLUSTER = _Refusal(
    "cluster",
    "The cluster does not fit: ask cudaOccupancyMaxPotentialClusterSize, and let the grid be a "
    "multiple of the cluster in each dimension.",
)
_BY_LIMIT: Mapping[LimitName, _Refusal] = {
    "grid-extent": _CONFIGURATION,
    "block-extent": _CONFIGURATION,
    "threads-per-block": _Refusal(
        "threads a block",
        "The block has too many threads: the product of its three extents counts.",
        "a block has at most {threads_per_block:,} threads",
    ),
    "launch-bounds": _Refusal(
        "launch bounds", "The block has more threads than its __launch_bounds__ say."
    ),
    "shared-memory": _Refusal(
        "shared memory",
        "The launch asks for more shared memory than a block gets unasked: make the tile smaller, "
        "or raise cudaFuncAttributeMaxDynamicSharedMemorySize before the launch.",
        "a block gets {shared_bytes_per_block:,} bytes unasked and "
        "{shared_bytes_per_block_optin:,} at most",
    ),
    "registers": _REGISTERS,
    "resident-blocks": _COOPERATIVE,
    "cluster": _CLUSTER,
}
_BY_ERROR: Mapping[str, _Refusal] = {
    "cudaErrorLaunchOutOfResources": _REGISTERS,
    "cudaErrorCooperativeLaunchTooLarge": _COOPERATIVE,
    "cudaErrorInvalidClusterSize": _CLUSTER,
    "cudaErrorInvalidDeviceFunction": _Refusal(
        "no such kernel",
        "CUDA knows no such kernel: launch the functions of this file by their own names.",
    ),
}
"""Where CUDA gives an error alone."""


def launch_failed(verdict: LaunchFailed, scene: Scene) -> Diagnosis:
    """Too many threads, too much shared memory, too many registers, an empty grid."""
    limit = verdict.limit
    refusal = _BY_ERROR.get(verdict.error, _CONFIGURATION)
    if limit is not None:
        refusal = _BY_LIMIT[limit.name]
    facts = {**vars(scene.hardware.limits), "sm_count": scene.hardware.sm_count}
    told = describe_limit(limit) if limit is not None else verdict.detail
    return Diagnosis(
        code=verdict.code,
        cause=refusal.cause,
        text=refusal.text,
        evidence=join(one_line(verdict.error, 60), scene.launch_of(verdict.kernel)),
        hardware_text=join(refusal.hardware_text.format(**facts), one_line(told)),
    )


def out_of_memory(verdict: OutOfMemory, scene: Scene) -> Diagnosis:
    """More scratch memory than the task allows."""
    none = scene.task.capabilities.scratch_bytes.strip() == "0"
    text = (
        "This task allows no scratch memory: work in registers, shared memory and the outputs."
        if none
        else f"Scratch memory is limited to {scene.task.capabilities.scratch_bytes} bytes here."
    )
    return Diagnosis(
        code=verdict.code,
        cause="scratch memory",
        text=f"{text} Free what cudaMalloc gave before `solve` returns.",
        hardware_text=one_line(describe(verdict)[0]),
    )


def impossible_time(verdict: ImpossibleTime) -> Diagnosis:
    """Faster than physics: some of the work is left out."""
    return Diagnosis(
        code=verdict.code,
        cause="work left out",
        text=(
            "The time is shorter than the task's bytes and operations allow: the kernel does not "
            "do all the work at that size. Compute every element from the inputs at every call."
        ),
        hardware_text=f"{verdict.time_us:.3g} us, where {verdict.floor_us:.3g} us is the floor.",
    )


def emulator_unsupported(verdict: EmulatorUnsupported, scene: Scene) -> Diagnosis:
    """Not wrong, but nothing here can run it."""
    opcode = one_line(verdict.opcode, 60)
    return Diagnosis(
        code=verdict.code,
        cause=_family(verdict.opcode),
        text=(
            "The device of this run cannot execute an operation of the kernel, so nothing is known "
            "about it: use plain CUDA for the same work."
        ),
        evidence=scene.quote_line(verdict.spot),
        hardware_text=f"The emulated device does not execute {opcode}.",
        avoid=(_family(verdict.opcode),),
    )


def _family(opcode: str) -> str:
    """`wmma.load.a.sync.aligned` is one of the tensor cores' operations."""
    families = {
        "tensor cores": r"^(?:wmma|mma|wgmma|tcgen05|ldmatrix)",
        "asynchronous bulk copies and their barriers": r"^(?:cp\.async\.bulk|mbarrier)",
        "clusters": r"cluster|^mapa|^getctarank",
        "textures and surfaces": r"^(?:tex|tld4|suld|sust|surf)",
        "calls through pointers and recursion": r"^call",
    }
    found = (name for name, pattern in families.items() if re.search(pattern, opcode))
    return next(found, "that operation")
