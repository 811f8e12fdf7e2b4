"""Figures in words: times, sizes, scores and shares, never one without what it is over or of."""

from collections.abc import Mapping, Sequence

from cuda_llm.predictions import Refutation, Withdrawal
from cuda_llm.profile import Bottleneck, NotCompared, Objective, SizeTime
from cuda_llm.search import Attempt

_OVER: Mapping[Objective, str] = {
    "geomean": "over all sizes",
    "largest": "at the largest size",
    "worst": "at its worst size",
}
"""By objective: the sizes that a speed-up is over."""
SCORES: Mapping[Objective, str] = {
    "geomean": "the geometric mean of the speed-ups",
    "largest": "the speed-up at the largest size",
    "worst": "the smallest of the speed-ups",
}
"""By objective: what the score of a kernel is."""
BOTTLENECK_NAMES: Mapping[str, str] = {
    "bank_conflicts": "shared-memory bank conflicts",
    "uncoalesced_global": "uncoalesced global accesses",
    "atomic_contention": "contended atomics",
    "divergence": "divergence",
    "local_memory": "local memory",
    "low_occupancy": "low occupancy",
    "tail": "an uneven last wave",
    "dram_bandwidth": "DRAM bandwidth",
    "l2_bandwidth": "L2 bandwidth",
    "shared_bandwidth": "shared-memory bandwidth",
    "l1_bandwidth": "L1 bandwidth",
    "latency": "latency",
    "atomics": "atomics",
    "blocks": "starting blocks",
    "issue": "instruction issue",
    "launch_overhead": "the launches themselves",
    "copies": "copies and fills",
    "fp32": "fp32 arithmetic",
    "fp64": "fp64 arithmetic",
    "fp16": "fp16 arithmetic",
    "int": "integer arithmetic",
    "sfu": "special functions",
    "convert": "conversions",
    "shuffle": "warp shuffles",
    "tensor": "tensor operations",
}
"""Words for a bottleneck, as in `limited by warp shuffles`, by its code."""
_WHY_NOT: Mapping[NotCompared, str] = {
    "costly": "a call takes too long to be executed whole",
    "reference": "the reference takes too long there",
    "mixed": "outputs depend on blocks that are not executed",
    "no-end": "no call came to its end",
}


def name_bottleneck(code: str) -> str:
    """Return the words for a bottleneck; an unknown code, of a user's profiler, names itself."""
    return BOTTLENECK_NAMES.get(code, code.replace("_", " "))


def describe_share(found: Bottleneck) -> str:
    """Return the saving of fixing a bottleneck alone, else the part of the time it accounts for.

    `without it: 16.9 -> 14.2 us, 16% less`; `40% of the time`.
    """
    if not found.saved_us:
        return f"{found.share:.0%} of the time"
    before, after = found.time_us, found.time_us - found.saved_us
    figures = f"{before:,.0f} -> {after:,.0f}" if before >= 1000 else f"{before:.1f} -> {after:.1f}"
    return f"without it: {figures} us, {found.share:.0%} less"


def describe_dims(dims: Mapping[str, int]) -> str:
    """Return `rows = 1,000, cols = 3`."""
    return ", ".join(f"{name} = {value:,}" for name, value in dims.items())


def describe_compared(sizes: Sequence[SizeTime]) -> str:
    """Return at which timed sizes outputs were compared; empty where no size says so.

    `every element at 3 of 5; none at n = 8 (a call takes too long to be executed whole)`.
    """
    known = [(size.dims, size.compared) for size in sizes if size.compared is not None]
    whole = sum(compared.is_whole for _, compared in known)
    parts = [f"every element at {whole} of {len(known)}"] if whole else []
    for dims, compared in known:
        if compared.is_whole:
            continue
        share = f"{compared.compared:,} of {compared.elements:,}" if compared.compared else "none"
        why = f" ({_WHY_NOT[compared.why_not]})" if compared.why_not else ""
        parts.append(f"{share} at {describe_dims(dims)}{why}")
    return "; ".join(parts)


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


def describe_over(objective: Objective, sizes: int = 2) -> str:
    """Return ` over all sizes`, as it follows a speed-up; empty where there is one size."""
    return f" {_OVER[objective]}" if sizes > 1 else ""


def describe_speedup(speedup: float, objective: Objective, sizes: int = 2) -> str:
    """Return `10.96x over all sizes`."""
    return f"{speedup:.2f}x{describe_over(objective, sizes)}"


def describe_attempt_speed(attempt: Attempt, of: str = "") -> str:
    """Return `10.96x over all sizes`; `of` follows the factor: ` the baseline's speed`."""
    over = describe_over(attempt.objective, len(attempt.times_us))
    return f"{attempt.speedup or 0:.2f}x{of}{over}"


SHOWN_APART = 0.005
"""Least relative difference from 1 that a speed-up of two decimals shows."""
_NEXT: Mapping[str, str] = {
    "tuner": "declare tunables in the kernel (docs/playbook.md), or ask a model with --model NAME",
    "playbook": "ask a model with --model NAME",
    "llm": "more --rounds, a --hint, or another --model",
}
"""By generator: what may find a faster kernel."""


def describe_no_gain(speedup: float | None, spread: float = 0.0) -> str:
    """Return in words that a best kernel is no faster than the baseline; empty where it is.

    `spread` is the relative half-width of the interval of its times: within it, and within what
    `1.00x` stands for, the two tie.
    """
    margin = max(spread, SHOWN_APART)
    if speedup is None or speedup > 1 + margin:
        return ""
    if speedup < 1 - margin:
        return "slower than the baseline, which stays the answer"
    within = f" within \N{PLUS-MINUS SIGN}{spread:.1%}" if spread > SHOWN_APART else ""
    return f"nothing faster than the baseline was found: this is a tie{within}"


def advise_next(generator: str) -> str:
    """Return what may find a faster kernel than a run by this generator did."""
    return _NEXT.get(generator, "more --rounds, or another --generator")


def describe_largest(time: str, sizes: int) -> str:
    """Return `5.72 us at the largest`, so that a time is not read as one over all sizes."""
    return f"{time} at the largest" if sizes > 1 else time


_REFUTED: Mapping[Refutation, str] = {
    Refutation.GONE_IN_VAIN: "{attempt} is rid of it",
    Refutation.TRIED_TWICE: "{attempt} was the second order in vain",
}
"""By refutation: the attempt that shows it."""


def describe_withdrawal(one: Withdrawal) -> str:
    """Return why a saving is not promised again: `tail: r2-c1 is rid of it, 68% promised, -2%
    had`."""
    shown = _REFUTED[one.why].format(attempt=one.attempt)
    return f"{name_bottleneck(one.code)}: {shown}, {one.promised:.0%} promised, {one.had:.0%} had"
