"""Verdicts on candidates that were refused, in words: no kernel, not compiled, not allowed, not
believed.
"""

from collections.abc import Mapping

from cuda_llm.fact_wording import describe_location, describe_place
from cuda_llm.facts import CompilerStop, PolicyBreach, ReplyFault
from cuda_llm.failures import CompileFailed, Diagnostic, LoadFailed, NoCode, PolicyViolation
from cuda_llm.outcomes import Quarantined

_REPLY_FAULTS: Mapping[ReplyFault, str] = {
    "empty": "the reply was empty: answer with one fenced block that holds the whole file",
    "only_reasoning": "nothing followed the reasoning: reason less, then give the whole file",
    "truncated": "the reply was cut off before the file was complete: reason less, leave out "
    "explanations, and give the whole file, a shorter one",
    "content_filter": "the server's content filter withheld the reply: answer with the file alone",
    "refused": "the model declined: this is ordinary numerical code, answer with the file",
    "no_code": "the reply held prose and no code: answer with one fenced block that holds the "
    "whole file",
    "no_solve": 'the code in the reply never defines `extern "C" void solve(...)`: answer with '
    "the whole file",
    "diff": "the reply was a patch: answer with the whole file, not with changes to it",
    "other_language": "the reply was not CUDA C++: answer with a .cu file, without Python around "
    "it",
    "too_long": "the file has more than {most} characters: write a shorter one",
}
"""What was wrong with a reply, and what the next prompt asks to do about it."""


def describe_reply_fault(verdict: NoCode) -> str | None:
    """Describe what was wrong with a model's reply; None for other reasons."""
    words = {str(fault): text for fault, text in _REPLY_FAULTS.items()}.get(verdict.kind)
    if words is None:
        return None
    most = verdict.most_characters
    return words.format(most="the allowed number of" if most is None else f"{most:,}")


def describe_no_code(verdict: NoCode) -> str:
    """Describe why there is no kernel: in a generator's own words, or in those for its kind."""
    words = verdict.message or verdict.call_fault or describe_reply_fault(verdict)
    if not words:
        exhausted = verdict.kind == "exhausted"
        words = "every kernel of the playbook was tried" if exhausted else verdict.kind
    return f"{words}: {verdict.said}" if verdict.said else words


def describe_compile_failure(verdict: CompileFailed) -> str:
    """Return one line: the first error, or why there is none (out of memory, killed ...)."""
    if verdict.detail:
        return verdict.detail
    if verdict.stop is not None:
        return describe_stop(verdict.stop)
    if verdict.declaration:
        return f"`solve` has another signature: it must be `{verdict.declaration}`"
    first = next((one for one in verdict.diagnostics if one.severity == "error"), None)
    if first is None:
        return verdict.compiler_output or "it does not compile"
    return f"{first.spot}: {first.message}" if first.spot else first.message


_LESS: Mapping[str, str] = {
    "cpp": "expand fewer macros and include less",
    "cudafe++": "instantiate fewer templates and compute less at compile time",
    "cicc": "instantiate fewer templates, compute less at compile time, unroll and inline less",
    "ptxas": "unroll and inline less, and keep tables small",
    "cc1plus": "instantiate fewer templates in host code and compute less at compile time",
    "as": "assemble less and keep tables small",
}
"""What makes less work for a program of the toolkit."""


def describe_stop(stop: CompilerStop) -> str:
    """Describe what ended the compilation, and what to write instead where a limit did."""
    program = stop.program or "nvcc"
    name = "the preprocessor" if program == "cpp" else program
    less = f": {_LESS[program]}" if program in _LESS else ""
    mib = "the limit" if stop.limit_bytes is None else f"{stop.limit_bytes >> 20} MiB"
    match stop.kind:
        case "empty-source":
            return f"{stop.file or 'the source'} is empty: it holds no code"
        case "too-many-processes":
            return "the compiler started too many processes"
        case "file-size":
            return f"the compiler wrote a file larger than {mib}"
        case "memory":
            return f"{name} needs more than {mib} of memory{less}"
        case "processor-time":
            limit = "its share" if stop.limit_s is None else f"{stop.limit_s:g} s"
            return f"{name} needs more than {limit} of processor time{less}"
        case "device-code":
            return (
                f"its device code is more than {mib} of PTX, which an emulated device does not "
                "translate: unroll and inline less"
            )
        case "crash":
            return f"{program} crashed (signal {stop.signal})"
        case "exit-code":
            return f"{program} ended with code {stop.exit_code}"


def describe_diagnostics(
    reason: str, diagnostics: tuple[Diagnostic, ...], omitted: int
) -> tuple[str, ...]:
    """Return the compiler's errors with their lines, without repeating the reason."""
    lines = []
    for diagnostic in diagnostics:
        if diagnostic.severity == "error":
            spot = diagnostic.spot
            message = f"{spot}: {diagnostic.message}" if spot else diagnostic.message
            if diagnostic.message not in reason:
                lines.append(message)
            if spot and spot.text:
                lines.append(f"  {spot.line} | {spot.text}")
    if omitted:
        lines.append(f"... and {omitted} more")
    return tuple(lines)


_RULES: Mapping[str, str] = {
    "embed-file": "a kernel may not embed files",
    "kernel-parameters": "inline PTX reads outside of the parameter that it names",
    "syscall": "the host part makes a system call that it may not",
    "host-touches-device-memory": "host code dereferences a device pointer",
    "no-launch": "the result is computed without a kernel",
    "host-copy": "solve copies from device to host",
    "runner-protocol": "the host part wrote to a descriptor that is not its own",
}
"""What a rule says that can be broken in one way only."""


def describe_violation(verdict: PolicyViolation) -> tuple[str, ...]:
    """Return the rule and how it is broken, then the place."""
    touched = "" if verdict.location is None else f": {describe_location(verdict.location)}"
    how = f"{describe_breach(verdict)}{touched}"
    first = f"{verdict.rule}: {how}" if how else verdict.rule
    return (first, *describe_place(verdict.spot))


def describe_breach(verdict: PolicyViolation) -> str:
    """Describe how the rule is broken."""
    breach = verdict.breach
    if verdict.detail or breach is None:
        return verdict.detail or _RULES.get(verdict.rule, "")
    names = ", ".join(breach.names)
    at_load = "code of the kernel would run when it is loaded: "
    match breach.kind:
        case "outside-file":
            where = "is outside the kernel's folder: include headers by their library name"
            return f"{names or 'a file there'} {where}"
        case "forbidden-call":
            return f"a kernel may not call {names}"
        case "forbidden-library":
            return f"a kernel may not use {names}"
        case "dynamic-entry":
            return f"the library carries {names}"
        case "visible-name":
            return f"{names} is visible to others"
        case "reserved-name":
            return f"a kernel may not define {names}"
        case "static-initialiser":
            return f"{at_load}an initialiser of a global object"
        case "load-function":
            return f"{at_load}{names}"
        case "load-section":
            return f"{at_load}section {names}"
        case "indirect-function":
            return f"{at_load}{names} is resolved by it"
        case "no-function":
            return f"{at_load}an entry that is no function"
        case "system-call":
            return f"the host part calls {names or f'number {breach.number}'}"
        case "large-copy":
            return f"cudaMemcpy of more than {_mib(breach)} from host to device"
        case "large-copies":
            return f"more than {_mib(breach)} from host to device in one call"


def _mib(breach: PolicyBreach) -> str:
    return "is allowed" if breach.limit_bytes is None else f"{breach.limit_bytes >> 20} MiB"


def describe_load_failure(verdict: LoadFailed) -> tuple[str, ...]:
    """Describe what is missing, or return what linker and driver say."""
    if verdict.detail:
        return (verdict.detail,)
    if verdict.fault == "undefined-function":
        return (f"{verdict.symbol} is declared and used, but never defined",)
    if verdict.fault == "no-solve":
        return ("no function `solve` is exported",)
    return ("it cannot be loaded",)


def describe_suspicion(verdict: Quarantined) -> str:
    """Describe why the time of a kernel is not believed."""
    beyond = verdict.beyond_us
    match verdict.kind:
        case "slow-start":
            more = "" if beyond is None else f", by {beyond:.0f} us more than can be explained"
            return (
                f"the first calls of a batch take longer than the following ones{more}: the time "
                "of a call depends on how many are timed"
            )
        case "merged-calls":
            more = "" if beyond is None else f", by {beyond:.1f} us more than noise explains"
            return (
                "a call of which nothing is known before the one before it has ended takes longer "
                f"than one of a batch{more}: work of several calls may be done in one"
            )
        case "uncounted-launches":
            many = "its" if verdict.launches is None else f"{verdict.launches:,}"
            return f"{many} launches are more than can be counted: how long they take is not known"
        case "unseen-stores":
            return (
                "its outputs are right, but fewer bytes were seen to be stored than they have: "
                "work is hidden from the count"
            )
        case "less-work":
            return (
                "at a size that is timed it computes less for each result than at those where its "
                "results were looked at: work may be left out"
            )
        case None:
            return verdict.detail or "set aside for a person to look at"
