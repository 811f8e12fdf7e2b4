"""Compilations that used up what they were given."""

import re

from cuda_llm.outcomes import CompileFailed, InfraFailed, TimedOut
from cuda_llm.tools.compiler.candidate import CompileLimits
from cuda_llm.tools.sandbox.jail import JailResult

OUT_OF_MEMORY = re.compile(
    r"out of memory|bad_alloc|memory exhausted|cannot allocate|std::length_error"
    r"|catastrophic error: out of|Allocation failed|Could not allocate",
    re.IGNORECASE,
)
DIED = re.compile(r"'?([\w+]+)'? died due to signal (\d+)")
FAULTS = {4, 6, 7, 8, 11}
SIGXCPU, SIGXFSZ, SIGKILL = 24, 25, 9


def exhausted(
    result: JailResult, limits: CompileLimits
) -> CompileFailed | TimedOut | InfraFailed | None:
    """The limit that ended the compilation, None when it came to an end of its own.

    A CompileFailed comes out the same the next time; the others need not.
    """
    if result.timed_out:
        return TimedOut(stage="compile", limit_s=limits.wall_s)
    if result.end == "processes":
        return CompileFailed(reason="the compiler started too many processes", fault="too-large")
    if result.ok:
        return None
    output = result.stderr.text
    died = DIED.search(output)
    signal = int(died[2]) if died else result.signal
    program = died[1] if died else "nvcc"
    if signal == SIGXCPU or "CPU time limit exceeded" in output:
        return TimedOut(stage="compile", limit_s=limits.cpu_s, processor_time=True)
    if signal == SIGXFSZ or "File size limit exceeded" in output or "File too large" in output:
        size = limits.output_bytes >> 20
        return CompileFailed(
            reason=f"the compiler wrote a file larger than {size} MiB", fault="too-large"
        )
    if "No space left on device" in output:
        return InfraFailed(component="compiler", detail="the disk is full")
    if OUT_OF_MEMORY.search(output):
        size = limits.memory_bytes >> 20
        return CompileFailed(
            reason=f"{program} needs more than {size} MiB of memory", fault="too-large"
        )
    if signal == SIGKILL:
        return InfraFailed(component="compiler", detail=f"{program} was killed: memory is short")
    if signal in FAULTS:
        return CompileFailed(reason=f"{program} crashed (signal {signal})")
    return None
