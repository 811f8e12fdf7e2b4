"""What goes wrong, or is not allowed, outside the arithmetic of a kernel."""

from collections.abc import Mapping

from cuda_llm.agents.quote import join, one_line
from cuda_llm.agents.reflection.diagnosis import Diagnosis, Scene, name_thread
from cuda_llm.agents.reflection.memory_faults import name_place
from cuda_llm.facts import StopReason
from cuda_llm.outcomes import DeviceAssert, HostCrashed, PolicyViolation

_RULES: Mapping[str, str] = {
    "include-outside": "Include headers by their library name only; no files beside the kernel.",
    "embed-file": "Embed no files: everything comes through the arguments of `solve`.",
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


def policy_violation(verdict: PolicyViolation, scene: Scene) -> Diagnosis:
    """A rule that no kernel may break, and what to do instead."""
    text = _RULES.get(verdict.rule, "Do nothing in `solve` but launch kernels on its arguments.")
    return Diagnosis(
        code=verdict.code,
        cause=one_line(verdict.rule, 40),
        text=text,
        evidence=join(
            scene.quote_line(verdict.spot), one_line(verdict.detail), name_place(verdict.location)
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


def device_assert(verdict: DeviceAssert, scene: Scene) -> Diagnosis:
    """The kernel stopped itself, or ran into what is no code."""
    cause = "assertion"
    text = "The kernel's own assert or trap fired: what it takes for granted is not so."
    if verdict.reason is not None and verdict.reason in _STOPS:
        cause, text = _STOPS[verdict.reason]
    placed = verdict.spot is not None
    return Diagnosis(
        code=verdict.code,
        cause=cause,
        text=text,
        evidence=join(
            scene.quote_line(verdict.spot),
            one_line(verdict.assertion or verdict.detail),
            name_thread(verdict.thread),
            scene.known_of(verdict.error, verdict.replay, placed=placed),
        ),
    )


def host_crashed(verdict: HostCrashed) -> Diagnosis:
    """The part of `solve` that runs on the CPU died."""
    divided = verdict.signal == "SIGFPE"
    ended = verdict.signal in {"exit", "SIGABRT"}
    robbed = verdict.signal == "cudaErrorOperatingSystem"
    text = "Host code reads or writes memory that is not its own: check its arrays and pointers."
    if divided:
        text = "Host code divides by zero: a size of 1 or less than a tile makes a count 0."
    elif ended:
        text = "Host code ends the process: return from `solve` instead of exit, abort or a throw."
    elif robbed:
        text = "Host code took something from the driver: write to and close no descriptor."
    causes = {"division by zero": divided, "ends the process": ended, "foreign descriptor": robbed}
    cause = next((name for name, holds in causes.items() if holds), "bad pointer")
    return Diagnosis(
        code=verdict.code, cause=cause, text=text, evidence=join(one_line(verdict.signal, 20))
    )
