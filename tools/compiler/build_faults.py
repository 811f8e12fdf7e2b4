"""Recognises faults of a source, and exceeded limits, in messages of nvcc, ptxas and the linker."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cuda_llm.outcomes import (
    BuildFault,
    CompileFailed,
    CompilerStop,
    Diagnostic,
    InfraFailed,
    TimedOut,
)
from cuda_llm.tools.compiler.workspace import cpu_limit_s, find_ended
from cuda_llm.tools.device.candidate import CompileLimits
from cuda_llm.tools.sandbox.jail import JailResult

_HARDWARE = re.compile(
    r"\b(?:sm|compute)_\d|\.target\b|\bmax(?:imum)?\b|\bat most\b|\ballowed are\b|\bSMs?\b"
    r"|\bdo not fit\b|\bGeForce\b|\bTesla\b|\bRTX\b",
    re.IGNORECASE,
)

OUT_OF_MEMORY = re.compile(
    r"out of memory|bad_alloc|memory exhausted|cannot allocate|std::length_error"
    r"|catastrophic error: out of|Allocation failed|Could not allocate",
    re.IGNORECASE,
)
DISK_FULL = re.compile(r'^[^\s"#][^"#\n]*No space left on device', re.MULTILINE)
CRASH_SIGNALS = {4, 6, 7, 8, 11}


def _rule(pattern: str, fault: BuildFault) -> tuple[re.Pattern[str], BuildFault]:
    return re.compile(pattern, re.IGNORECASE), fault


_RULES: Sequence[tuple[re.Pattern[str], BuildFault]] = (
    _rule(
        r"declaration is incompatible.*solve|solve.*(?:linkage|incompatible|conflict)"
        r"|cannot overload functions distinguished by return type",
        "signature",
    ),
    _rule(
        r"identifier \"(?P<name>[^\"]+)\" is undefined"
        r"|'(?P<name_by_gcc>[a-z_]\w*)' "
        r"(?:was not declared|has not been declared|does not name a type)",
        "undefined-name",
    ),
    _rule(r"has no member(?: named)? [\"'](?P<name>[^\"']+)[\"']", "no-member"),
    _rule(r"name followed by \"::\" must be a class or namespace name", "unknown-namespace"),
    _rule(r"Instruction '(?:vote|shfl)' without '\.sync'", "collective-without-mask"),
    _rule(
        r"(?s:no operator \"[^\"]+\" matches these operands.*?"
        r"\b(?P<name>(?:float|double|int|uint)[234])\b)",
        "no-vector-operator",
    ),
    _rule(r"cannot open source file|No such file or directory", "missing-header"),
    _rule(r"uses too much shared data", "static-shared-memory"),
    _rule(
        r"requires \.?target|not supported on|\.target sm_|requires.*compute capability"
        r"|is not a valid.*architecture|no longer supported",
        "unsupported-instruction",
    ),
    _rule(
        r"calling a (?:constexpr )?__host__ (?:__device__ )?function"
        r"(?:\(\"(?P<name>[^\"]+)\"\))?.* from a __[gd]\w+__",
        "host-call-in-device-code",
    ),
    _rule(r"calling a __device__ function.*from a __host__", "device-call-in-host-code"),
    _rule(r"has already been (?:defined|declared)|redefinition|already defined", "redefinition"),
    _rule(
        r"must be a (?:compile-time )?constant|must have a constant value|not a constant",
        "not-a-constant",
    ),
    _rule(
        r"no instance of|no suitable|argument of type|incompatible with|too (?:few|many) arguments"
        r"|cannot be (?:used to )?(?:initialize|convert|assign)|no operator",
        "types",
    ),
    _rule(
        r"expected (?:an?|the|either)|unexpected|unterminated|missing closing|unrecognized token"
        r"|syntax error|at end of (?:input|file)",
        "syntax",
    ),
    _rule(r"undefined reference", "undefined-reference"),
    _rule(r"out of memory|was killed|too long|did not finish|too large", "too-large"),
)
"""The first rule that matches decides."""


def with_fault(diagnostic: Diagnostic) -> Diagnostic:
    """Add to a message the fault it reports and whether it names the hardware."""
    fault, subject = find_fault(diagnostic.message)
    hardware = _HARDWARE.search(diagnostic.message) is not None
    return replace(diagnostic, fault=fault, subject=subject, names_hardware=hardware)


def find_fault(message: str) -> tuple[BuildFault | None, str | None]:
    """Return the fault that a message reports and the name it is about, None where unknown."""
    for pattern, fault in _RULES:
        if match := pattern.search(message):
            return fault, next(filter(None, match.groupdict().values()), None)
    return None, None


SIGXCPU, SIGXFSZ, SIGKILL = 24, 25, 9


def find_exceeded_limit(
    result: JailResult, limits: CompileLimits, folder: Path
) -> CompileFailed | TimedOut | InfraFailed | None:
    """Return the verdict on a compilation that exceeded a limit; None when it ended by itself.

    `folder` is nvcc's private folder. A CompileFailed is the same at the next attempt, unless its
    limit is a limit of processor time; the other verdicts may differ.
    """
    if result.timed_out:
        return TimedOut(stage="compile", limit_s=limits.wall_s)
    if result.end == "processes":
        return CompileFailed(stop=CompilerStop(kind="too-many-processes"), fault="too-large")
    if result.ok:
        return None
    output = result.stderr.text
    program, signal = find_ended(result, folder)
    limit_s = cpu_limit_s(program, limits, folder)
    # One that does not end at SIGXCPU is killed a second later; both clocks are coarse.
    late = signal == SIGXCPU or (signal == SIGKILL and result.cpu_s >= 0.9 * limit_s)
    if late or "CPU time limit exceeded" in output:
        stop = CompilerStop(kind="processor-time", program=program, limit_s=limit_s)
        return CompileFailed(stop=stop, fault="too-large")
    if signal == SIGXFSZ or "File size limit exceeded" in output or "File too large" in output:
        stop = CompilerStop(kind="file-size", limit_bytes=limits.output_bytes)
        return CompileFailed(stop=stop, fault="too-large")
    if DISK_FULL.search(output):
        return InfraFailed(component="compiler", detail="the disk is full")
    if OUT_OF_MEMORY.search(output):
        stop = CompilerStop(kind="memory", program=program, limit_bytes=limits.memory_bytes)
        return CompileFailed(stop=stop, fault="too-large")
    if signal == SIGKILL:
        return InfraFailed(component="compiler", detail=f"{program} was killed: memory is short")
    if signal in CRASH_SIGNALS:
        return CompileFailed(stop=CompilerStop(kind="crash", program=program, signal=signal))
    return None
