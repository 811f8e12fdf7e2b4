"""What goes wrong, or is not allowed, around a kernel: rules, crashes of host code, and launches,
memory and time beyond their limits.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cuda_llm.agents.prompting.quote import join_parts, one_line
from cuda_llm.agents.reflection.diagnosis import Diagnosis, FailureContext, name_thread
from cuda_llm.agents.reflection.kernel_faults import name_place
from cuda_llm.outcomes import (
    DeviceAssert,
    EmulatorUnsupported,
    HostCrashed,
    ImpossibleTime,
    LaunchFailed,
    LimitName,
    OutOfMemory,
    PolicyViolation,
    StopReason,
    TimedOut,
)
from cuda_llm.verdict_wording import describe, describe_breach, describe_limit

_RULES: Mapping[str, str] = {
    "include-outside": "Include headers by their library name only; no files beside the kernel.",
    "embed-file": "Embed no files: everything comes through the arguments of `solve`.",
    "kernel-parameters": "Let inline PTX load no more of a parameter than it holds.",
    "import": "Call nothing but CUDA's runtime and the C and C++ libraries' plain functions.",
    "export": 'Make only `solve` visible (extern "C"); everything else static or in a namespace.',
    "constructor": "Let no code run at load: no global objects with constructors.",
    "syscall": "Make no system calls: no files, no threads, no processes, no sockets.",
    "host-touches-device-memory": (
        "Arguments are device pointers: host code must not dereference them. Move the work into a "
        "kernel."
    ),
    "no-launch": "The result must be computed by a kernel that `solve` launches.",
    "host-copy": "Keep data on the device: no copies to the host, no computing there.",
    "api-call": "Use the default stream and plain runtime calls only.",
    "runner-protocol": "Write to no descriptor: print nothing from the host.",
    "memory-quota": "Stay within the scratch memory that the task allows.",
}


def policy_violation(verdict: PolicyViolation, context: FailureContext) -> Diagnosis:
    """Diagnose a broken rule, and say what to do instead."""
    text = _RULES.get(verdict.rule, "Do nothing in `solve` but launch kernels on its arguments.")
    return Diagnosis(
        code=verdict.code,
        cause=one_line(verdict.rule, 40),
        text=text,
        evidence=join_parts(
            context.quote_line(verdict.spot),
            one_line(describe_breach(verdict)),
            name_place(verdict.location),
        ),
    )


_STOPS: Mapping[StopReason, tuple[str, str]] = {
    "illegal-instruction": (
        "illegal instruction",
        "A thread met a __trap or an instruction that this GPU does not have: look for asserts, "
        "inline PTX, and calls through pointers.",
    ),
    "invalid-pc": (
        "wild jump",
        "A thread jumped to where no code is: look for calls through pointers, and for writes past "
        "a local array.",
    ),
    "launch-failure": (
        "launch failure",
        "A thread met a __trap, or touched shared or local memory outside of its arrays: check "
        "every index into them against their extents.",
    ),
}


def device_assert(verdict: DeviceAssert, context: FailureContext) -> Diagnosis:
    """Diagnose a kernel that stopped itself, or ran into what is no code."""
    cause = "assertion"
    text = "The kernel's own assert or trap fired: what it takes for granted is not so."
    if verdict.reason is not None and verdict.reason in _STOPS:
        cause, text = _STOPS[verdict.reason]
    placed = verdict.spot is not None
    return Diagnosis(
        code=verdict.code,
        cause=cause,
        text=text,
        evidence=join_parts(
            context.quote_line(verdict.spot),
            one_line(verdict.assertion or verdict.detail),
            name_thread(verdict.thread),
            context.gpu_report(verdict.error, verdict.replay, placed=placed),
        ),
    )


def host_crashed(verdict: HostCrashed) -> Diagnosis:
    """Diagnose a crash of the part of `solve` that runs on the CPU."""
    match verdict.signal:
        case "SIGFPE":
            cause = "division by zero"
            text = "Host code divides by zero: a size of 1 or less than a tile makes a count 0."
        case "exit" | "SIGABRT":
            cause = "ends the process"
            text = (
                "Host code ends the process: return from `solve` instead of exit, abort or a throw."
            )
        case "cudaErrorOperatingSystem":
            cause = "foreign descriptor"
            text = "Host code took something from the driver: write to and close no descriptor."
        case _:
            cause = "bad pointer"
            text = (
                "Host code reads or writes memory that is not its own: check its arrays and "
                "pointers."
            )
    return Diagnosis(
        code=verdict.code, cause=cause, text=text, evidence=one_line(verdict.signal, 20)
    )


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


def launch_failed(verdict: LaunchFailed, context: FailureContext) -> Diagnosis:
    """Diagnose a launch with too many threads, registers or shared memory, or an empty grid."""
    limit = verdict.limit
    refusal = _BY_ERROR.get(verdict.error, _CONFIGURATION)
    if limit is not None:
        refusal = _BY_LIMIT[limit.name]
    facts = {**vars(context.hardware.limits), "sm_count": context.hardware.sm_count}
    exceeded = describe_limit(limit) if limit is not None else verdict.detail
    return Diagnosis(
        code=verdict.code,
        cause=refusal.cause,
        text=refusal.text,
        evidence=join_parts(one_line(verdict.error, 60), context.launch_of(verdict.kernel)),
        hardware_text=join_parts(refusal.hardware_text.format(**facts), one_line(exceeded)),
    )


def out_of_memory(verdict: OutOfMemory, context: FailureContext) -> Diagnosis:
    """Diagnose scratch memory beyond what the task allows."""
    none = context.task.capabilities.scratch_bytes.strip() == "0"
    text = (
        "This task allows no scratch memory: work in registers, shared memory and the outputs."
        if none
        else f"Scratch memory is limited to {context.task.capabilities.scratch_bytes} bytes here."
    )
    return Diagnosis(
        code=verdict.code,
        cause="scratch memory",
        text=f"{text} Free what cudaMalloc gave before `solve` returns.",
        hardware_text=one_line(describe(verdict)[0]),
    )


def impossible_time(verdict: ImpossibleTime) -> Diagnosis:
    """Diagnose a time below what the hardware can reach: some of the work is left out."""
    return Diagnosis(
        code=verdict.code,
        cause="work left out",
        text=(
            "The time is shorter than the task's bytes and operations allow: the kernel does not "
            "do all the work at that size. Compute every element from the inputs at every call."
        ),
        hardware_text=f"{verdict.time_us:.3g} us, where {verdict.floor_us:.3g} us is the floor.",
    )


def timed_out(verdict: TimedOut, context: FailureContext) -> Diagnosis:
    """Diagnose what does not end, or is far too much work."""
    line = verdict.spot.line if verdict.spot else 0
    loop = next(iter(context.source.around(line, "for", "while", "do")), None) if line else None
    seen = f"in the loop of line {loop.first}{context.quote(loop.header)}" if loop else ""
    match verdict.stage:
        case "compile":
            text = "Compiling takes too long: unroll less, instantiate fewer templates."
        case "host":
            text = (
                "The host part of `solve` does not return: look for loops that wait for the "
                "device or whose bound never comes."
            )
        case _ if verdict.crowded or (loop and loop.kind == "while" and context.source.atomics):
            text = (
                "Threads spin for others that may never run: a lock inside a warp, or waiting for "
                "blocks that are not resident, never ends. Do without the lock."
            )
        case _:
            text = (
                "The kernel does not end or does far too much: check that each loop moves towards "
                "its bound (a zero step, unsigned i >= 0), and that the work is spread over the "
                "whole grid."
            )
    return Diagnosis(
        code=verdict.code,
        cause=one_line(verdict.stage, 20),
        text=text,
        evidence=join_parts(
            context.quote_line(verdict.spot),
            seen,
            "more blocks than are resident at once" if verdict.crowded else "",
            context.launch_of(verdict.kernel) if not (verdict.spot or verdict.error) else "",
            context.gpu_report(verdict.error, verdict.replay, placed=verdict.spot is not None),
        ),
    )


def emulator_unsupported(verdict: EmulatorUnsupported, context: FailureContext) -> Diagnosis:
    """Diagnose a kernel that may be right, but that this device cannot execute."""
    opcode = one_line(verdict.opcode, 60)
    return Diagnosis(
        code=verdict.code,
        cause=_family(verdict.opcode),
        text=(
            "The device of this run cannot execute an operation of the kernel, so nothing is known "
            "about it: use plain CUDA for the same work."
        ),
        evidence=context.quote_line(verdict.spot),
        hardware_text=f"The emulated device does not execute {opcode}.",
        avoid=(_family(verdict.opcode),),
    )


def _family(opcode: str) -> str:
    """Return the family of an operation: `wgmma.mma_async.sync` is one of warp groups."""
    families = {
        "warp-group matrix operations (wgmma)": r"^wgmma",
        "fifth-generation tensor operations (tcgen05)": r"^tcgen05",
        "sparse or sub-byte products on tensor cores": r"^(?:wmma|mma|ldmatrix|stmatrix)",
        "asynchronous bulk copies and their barriers": r"^(?:cp\.async\.bulk|mbarrier)",
        "clusters": r"cluster|^mapa|^getctarank",
        "textures and surfaces": r"^(?:tex|tld4|suld|sust|surf)",
        "calls through pointers and recursion": r"^call",
    }
    found = (name for name, pattern in families.items() if re.search(pattern, opcode))
    return next(found, "that operation")
