"""Kernels that ask for more than the device has, or claim more than it can do."""

import re
from dataclasses import dataclass

from cuda_llm.agents.quote import join, one_line, quote_line
from cuda_llm.agents.reflection.diagnosis import Diagnosis, Scene
from cuda_llm.outcomes import EmulatorUnsupported, ImpossibleTime, LaunchFailed, OutOfMemory


@dataclass(frozen=True)
class _Refusal:
    """A reason for which CUDA refuses a launch."""

    said: str
    """Part of the device's message that tells it from the others."""
    cause: str
    text: str
    hardware_text: str = ""
    """May refer to fields of `Limits`, and to `sm_count`."""


_REFUSALS = (
    _Refusal(
        "shared memory",
        "shared memory",
        "The launch asks for more shared memory than a block gets unasked: make the tile smaller, "
        "or raise cudaFuncAttributeMaxDynamicSharedMemorySize before the launch.",
        "a block gets {shared_bytes_per_block:,} bytes unasked and "
        "{shared_bytes_per_block_optin:,} at most",
    ),
    _Refusal(
        "__launch_bounds__",
        "launch bounds",
        "The block has more threads than its __launch_bounds__ say.",
    ),
    _Refusal(
        "registers",
        "registers",
        "The block needs more registers than there are: use fewer threads a block, smaller "
        "per-thread tiles, or __launch_bounds__ with the real block size.",
        "a block has {registers_per_block:,} registers",
    ),
    _Refusal(
        "on the device at once",
        "cooperative grid",
        "A cooperative launch must fit on the device at once: ask "
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor and loop over the rest of the work.",
        "the device has {sm_count} SMs",
    ),
    _Refusal(
        "threads, at most",
        "threads a block",
        "The block has too many threads: the product of its three extents counts.",
        "a block has at most {threads_per_block:,} threads",
    ),
    _Refusal(
        "",
        "configuration",
        "An extent of grid or block is 0 or too large: round up when dividing, and check the order "
        "of x, y and z.",
        "a block has at most {threads_per_block:,} threads",
    ),
)


def launch_failed(verdict: LaunchFailed, scene: Scene) -> Diagnosis:
    """Too many threads, too much shared memory, too many registers, an empty grid."""
    refusal = next(one for one in _REFUSALS if one.said in verdict.detail)
    facts = {**vars(scene.hardware.limits), "sm_count": scene.hardware.sm_count}
    return Diagnosis(
        code=verdict.code,
        cause=refusal.cause,
        text=refusal.text,
        evidence=join(one_line(verdict.error, 60), _launch(verdict, scene)),
        hardware_text=join(refusal.hardware_text.format(**facts), one_line(verdict.detail)),
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
        hardware_text=one_line(verdict.detail),
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


def emulator_unsupported(verdict: EmulatorUnsupported) -> Diagnosis:
    """Not wrong, but nothing here can run it."""
    opcode = one_line(verdict.opcode, 60)
    return Diagnosis(
        code=verdict.code,
        cause=_family(verdict.opcode),
        text=(
            "The device of this run cannot execute an operation of the kernel, so nothing is known "
            "about it: use plain CUDA for the same work."
        ),
        evidence=quote_line(verdict.spot),
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


def _launch(verdict: LaunchFailed, scene: Scene) -> str:
    name = re.sub(r"^_Z\d+", "", verdict.kernel)
    for launch in scene.source.launches:
        if launch.kernel in {verdict.kernel, name} or name.startswith(launch.kernel):
            how = ", ".join(part for part in (launch.grid, launch.block, launch.shared) if part)
            return f"line {launch.line}: `{one_line(f'{launch.kernel}<<<{how}>>>', 120)}`"
    return ""
