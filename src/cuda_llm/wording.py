"""Verdicts in words: what went wrong, where, and what it means. One entry a line."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import assert_never

from cuda_llm.case_patterns import describe_cases
from cuda_llm.element_patterns import describe_elements
from cuda_llm.fact_wording import (
    describe_error,
    describe_fault,
    describe_launch,
    describe_limit,
    describe_place,
    describe_replay,
    line_of,
    phrases,
)
from cuda_llm.facts import BaselineDoubt
from cuda_llm.failures import (
    CompileFailed,
    DeviceFault,
    Duplicate,
    LoadFailed,
    NoCode,
    PolicyViolation,
    TimedOut,
)
from cuda_llm.outcomes import (
    EmulatorUnsupported,
    GuardOverwritten,
    HostCrashed,
    ImpossibleTime,
    InfraFailed,
    InputMutated,
    LateWrite,
    LaunchFailed,
    Nondeterministic,
    OutOfMemory,
    Passed,
    Quarantined,
    Verdict,
    WrongResult,
)
from cuda_llm.profile import Bottleneck, Profile
from cuda_llm.refusal_wording import (
    describe_compile_failure,
    describe_diagnostics,
    describe_load_failure,
    describe_no_code,
    describe_suspicion,
    describe_violation,
)
from cuda_llm.time_terms import dominating_term


def describe(verdict: Verdict, *, hardware_figures: bool = True) -> tuple[str, ...]:
    """Describe what became of a candidate: the finding, then its place, then what it hints at.

    Without `hardware_figures` no limit of the GPU is named, only what the candidate asked for.
    """
    match verdict:
        case Passed(differential=differential, notes=notes):
            oracle = ("the oracle was the task's own baseline, not an independent reference",)
            return (*(oracle if differential else ()), *notes)
        case WrongResult():
            return describe_wrong(verdict)
        case CompileFailed(diagnostics=diagnostics, omitted=omitted):
            reason = describe_compile_failure(verdict)
            return (reason, *describe_diagnostics(reason, diagnostics, omitted))
        case PolicyViolation():
            return describe_violation(verdict)
        case LoadFailed():
            return describe_load_failure(verdict)
        case OutOfMemory():
            return describe_out_of_memory(verdict)
        case LaunchFailed(kernel=kernel, error=error, limit=limit, launch=launch, detail=detail):
            exceeded = () if limit is None else (describe_limit(limit, figures=hardware_figures),)
            shape = () if launch is None else (describe_launch(launch),)
            named = f"{kernel}: {error}" if kernel else error
            # Words of others about a refused launch are about what the hardware allows.
            why = exceeded or line_of(detail if hardware_figures else "")
            return (named, *why, *shape)
        case DeviceFault():
            return describe_fault(verdict)
        case TimedOut():
            return describe_timeout(verdict)
        case HostCrashed():
            return describe_crash(verdict)
        case GuardOverwritten(buffer=buffer, side=side, offset_bytes=offset):
            return (f"{offset} bytes {side} the edge of {buffer} were overwritten",)
        case InputMutated(buffer=buffer):
            return (f"{buffer} is an input and was changed",)
        case Nondeterministic(buffer=buffer, detail=detail):
            first = f"{buffer} differs between runs on the same input"
            return (first, *line_of(detail or describe_instability(verdict)))
        case LateWrite(buffer=buffer):
            return (f"{buffer} changed after solve had finished",)
        case ImpossibleTime(time_us=time_us, floor_us=floor_us):
            floor = f"the floor of {floor_us:.3g} us" if hardware_figures else "the floor"
            first = f"{time_us:.3g} us is below {floor}"
            return (first, "the bytes and operations of the task need longer")
        case EmulatorUnsupported(opcode=opcode, kernel=kernel, others=others, spot=spot):
            needs = f"{kernel} needs {opcode}, which only a real GPU executes"
            more = f"and {others} other operations" if others else verdict.detail
            return (needs, *line_of(more), *describe_place(spot))
        case NoCode():
            return (describe_no_code(verdict),)
        case Quarantined():
            return (describe_suspicion(verdict),)
        case Duplicate(of=of):
            return (f"the same kernel as {of}",)
        case InfraFailed(component=component, detail=detail):
            whose = "a fault of our parts or of the device, not of the kernel"
            return (f"{component}: {detail}", whose)
        case _:
            assert_never(verdict)


REPEATED_CALLS: Mapping[str, str] = MappingProxyType(
    {
        "one-changed": "the call before was right: same addresses, one input element differs",
        "fresh": "the call before was right: same addresses, other contents",
        "extra": "the calls before were right: same addresses, same contents",
    }
)
"""By `WrongResult.repeat`."""


def describe_wrong(verdict: WrongResult) -> tuple[str, ...]:
    """Describe which case, which element, how far off, and what the pattern looks like."""
    index = ", ".join(str(i) for i in verdict.index)
    where = describe_dims(verdict.dims) if verdict.dims else f"a {verdict.size_class} size"
    first = (
        f"{verdict.failed_cases} of {verdict.cases} cases: {where}, {verdict.distribution} input, "
        f"{verdict.buffer}[{index}] is {verdict.got:.9g}, should be {verdict.expected:.9g}"
    )
    extent = f"largest error {verdict.error:.3g} units, allowed {verdict.limit:.3g}"
    if verdict.wrong is not None and verdict.elements is not None:
        extent = f"{verdict.wrong:,} of {verdict.elements:,} elements are wrong; {extent}"
    return (first, extent, *phrases(*describe_patterns(verdict)))


def describe_patterns(verdict: WrongResult) -> tuple[str, ...]:
    """Describe what wrong elements look like and what wrong cases have in common."""
    elements, cases = verdict.looks_like, verdict.case_pattern
    return (
        *(() if elements is None else (describe_elements(elements),)),
        *(() if cases is None else (describe_cases(cases),)),
        *line_of(REPEATED_CALLS.get(verdict.repeat, "")),
        *line_of(verdict.detail),
    )


def describe_timeout(verdict: TimedOut) -> tuple[str, ...]:
    """Describe which stage, what is still running, and where."""
    late = f"{verdict.stage} did not finish within {verdict.limit_s:g} s"
    running = ""
    if verdict.thread is not None:
        loop = f" in the loop at {verdict.spot}" if verdict.spot else ""
        running = f"{verdict.thread} is still running{loop}"
    elif verdict.kernel is not None:
        running = f"{verdict.kernel or 'a kernel'} is still running"
    elif verdict.stage == "host":
        running = "`solve` did not return"
    elif verdict.processor_time:
        running = "processor time"
    if verdict.crowded:
        running += "; possible deadlock: it launches more blocks than are resident at once"
    error = () if verdict.error is None else (describe_error(verdict.error),)
    replayed = () if verdict.replay is None else (describe_replay(verdict.replay),)
    return (
        late,
        *line_of(verdict.detail or running),
        *describe_place(verdict.spot),
        *error,
        *replayed,
    )


def describe_out_of_memory(verdict: OutOfMemory) -> tuple[str, ...]:
    """Describe what asked for how much, and whose end was reached."""
    size = "" if verdict.bytes is None else f"{verdict.bytes:,} bytes"
    match verdict.request:
        case "cudaMalloc":
            request = f"cudaMalloc of {size or 'too much'}: {describe_bound(verdict)}"
        case "variables":
            request = f"module variables need more than device memory has: {size}"
        case "to-load":
            request = "the device code needs more memory than there is"
        case "to-run":
            request = "no memory is left to call it beside what it holds"
        case None:
            request = describe_error(verdict.error) if verdict.error else ""
    detail = f" ({verdict.detail})" if request and verdict.detail else verdict.detail
    left = {None: "", "exit": "; then `solve` gave up"}.get(verdict.then, f"; then {verdict.then}")
    beside = "it leaves the baseline beside it no memory: " if verdict.beside_baseline else ""
    return (f"{beside}{request}{detail}{left}" or "device memory ran out",)


def describe_bound(verdict: OutOfMemory) -> str:
    """Describe whose end a cudaMalloc reached."""
    if verdict.bound == "device":
        return "device memory is used up"
    if verdict.allowed_bytes is None:
        return "its quota is used up"
    return f"the task allows {verdict.allowed_bytes:,} bytes at once"


def describe_crash(verdict: HostCrashed) -> tuple[str, ...]:
    """Describe of which signal, and what it touched."""
    died = f"the host part died of {verdict.signal}"
    if verdict.error is not None:
        return (died, describe_error(verdict.error))
    if verdict.status is not None:
        return (died, f"`solve` ended the process: {verdict.status}")
    if verdict.killed:
        return (died, "the process was killed; perhaps memory ran out")
    where = "" if verdict.address is None else f"it touched address {verdict.address:#x}"
    return (died, *line_of(verdict.detail or where))


def describe_instability(verdict: Nondeterministic) -> str:
    """Describe how two calls differ."""
    if verdict.kind == "order-of-execution":
        return (
            "right with one order of blocks and warps, wrong with another: threads depend on an "
            "order nothing enforces"
        )
    if verdict.units is None or verdict.limit is None:
        return ""
    return (
        f"two calls on the same inputs differ by {verdict.units:.3g} rounding units, more than a "
        f"quarter of the tolerance ({verdict.limit:.3g})"
    )


def describe_doubt(doubt: BaselineDoubt) -> str:
    """Return what the baseline took, which of it is believed, and why."""
    taken = (
        f"at {describe_dims(doubt.dims)} the baseline took {doubt.beside_us:.4g} us beside this "
        f"kernel, {doubt.reference_us:.4g} us alone before, and {doubt.again_us:.4g} us beside "
        "this kernel in a new process"
    )
    match doubt.outcome:
        case "odd-process":
            return f"{taken}: the first process was odd, and nothing timed beside it is used"
        case "stale-reference":
            return f"{taken}: the GPU has another pace than before, for this kernel too"
        case "unsettled":
            alone = doubt.alone_us
            more = "" if alone is None else f", but {alone:.4g} us alone in another new one"
            return f"{taken}{more}: other work is on this GPU, or this kernel slows others down"
        case _:
            assert_never(doubt.outcome)


def describe_time_spent(profile: Profile) -> str:
    """Return what a call spends its time on, where its first bottleneck is what to mend first.

    `DRAM bandwidth, 98% of the time`; empty where the first bottleneck says that itself.
    """
    dominating = dominating_term(profile.launches)
    if dominating is None or not any(one.saved_us for one in profile.bottlenecks[:1]):
        return ""
    name, part = dominating
    return f"{name}, {part:.0%} of the time"


def describe_share(found: Bottleneck) -> str:
    """Return what mending it alone saves of its call, or else the part of the time it accounts for.

    `mended: 16.9 -> 14.2 us, 16% less`; `40% of the time`.
    """
    if not found.saved_us:
        return f"{found.share:.0%} of the time"
    before, after = found.time_us, found.time_us - found.saved_us
    figures = f"{before:,.0f} -> {after:,.0f}" if before >= 1000 else f"{before:.1f} -> {after:.1f}"
    return f"mended: {figures} us, {found.share:.0%} less"


def describe_dims(dims: Mapping[str, int]) -> str:
    """Return `rows = 1,000, cols = 3`."""
    return ", ".join(f"{name} = {value:,}" for name, value in dims.items())


def describe_us(time_us: float) -> str:
    """Render `41.4 us`, `2.59 ms` or `1,005 ms`: three digits at least."""
    if time_us < 1000:
        return f"{time_us:.3g} us"
    return f"{time_us / 1000:.3g} ms" if time_us < 1e6 else f"{time_us / 1000:,.0f} ms"


def describe_ratio(ratio: float) -> str:
    """Render `0.82x`, `3.4x` or `112x`."""
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.2g}x"


def name_sizes(sizes: Sequence[Mapping[str, int]]) -> tuple[str, ...]:
    """Return what tells each size from the others: `M = 1,024`, or `rows = cols = 1,024`."""
    differing = [name for name in (sizes[0] if sizes else ()) if len({d[name] for d in sizes}) > 1]
    return tuple(_name_size(dims, differing or list(dims)) for dims in sizes)


def _name_size(dims: Mapping[str, int], names: Sequence[str]) -> str:
    if len({dims[name] for name in names}) == 1:
        return f"{' = '.join(names)} = {dims[names[0]]:,}"
    return describe_dims({name: dims[name] for name in names})


def describe_common(sizes: Sequence[Mapping[str, int]]) -> str:
    """Return the dims that all of several sizes share: `N = 2,048, K = 4,096`; else nothing."""
    first = sizes[0] if len(sizes) > 1 else {}
    return describe_dims({n: v for n, v in first.items() if len({d[n] for d in sizes}) == 1})


def printable(text: str) -> str:
    """Return the text without control characters: a kernel must not steer a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
