"""A judged kernel in words: how it failed, which names the compiler does not know, its times and
what limits it.
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import pairwise

from cuda_llm.agents.kernel_facts import SIGNS
from cuda_llm.agents.limits import (
    deciding_profile,
    left_to_gain,
    limiters,
    score_gain,
    shares_of_limit,
    whole_profile,
)
from cuda_llm.agents.prompting.quote import (
    hide_in_verdict,
    holds_line,
    log_lines,
    one_line,
    quote_line,
)
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.objections import Change, changes_between
from cuda_llm.components import Components
from cuda_llm.figure_wording import (
    describe_largest,
    describe_over,
    describe_ratio,
    describe_share,
    describe_us,
    name_bottleneck,
    name_sizes,
)
from cuda_llm.outcomes import CompileFailed, Diagnostic, Verdict
from cuda_llm.profile import Bottleneck, KernelResources, LaunchProfile, Phase, Profile
from cuda_llm.search import Attempt
from cuda_llm.source_file import SourceSpot, short_kernel_name
from cuda_llm.source_tokens import identifiers
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.verdict_wording import describe

NEAR = 0.8
"""Least similarity of two names to suggest one for the other (difflib's ratio)."""
BUILT_IN = (
    *("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "nullptr", "reinterpret_cast"),
    *("__restrict__", "__syncthreads", "cudaGetLastError", "cudaMemcpyDeviceToDevice"),
)

LEAST_LEFT_OUT = 6
"""Least lines of a shared stretch that is left out of the second kernel."""
LEAST_PHASE = 0.05
"""Least part of the longest path, 0 to 1, of a phase that is shown."""
WAITS = frozenset({"latency", "low_occupancy"})
"""Bottlenecks that the phases of the longest path explain."""
LEAST_SPREAD = 0.0005
"""Least relative half-width of an interval that is shown: in per cent with one decimal."""
MOST_COMPARED = 2000
"""Most lines of a kernel that is compared."""


@dataclass(frozen=True, kw_only=True)
class KnownName:
    """A name that CUDA has, and the wrong names that models write instead."""

    wrong: tuple[str, ...]
    real: str
    advice: str
    """The real name of the function or header, with an example of its use."""
    code: str
    """A statement that uses the real name."""
    header: str = ""
    """Header that declares the real name."""


@cache
def known_names() -> tuple[KnownName, ...]:
    """Return the table in `known_names.toml`."""
    text = resources.files("cuda_llm.agents.prompting").joinpath("known_names.toml").read_text()
    return tuple(
        KnownName(**{**row, "wrong": tuple(row["wrong"].split())})
        for row in tomllib.loads(text)["name"]
    )


def real_names(failed: CompileFailed, source: str) -> tuple[str, ...]:
    """Return one line for each name the compiler does not know and we can correct."""
    errors = (one for one in failed.diagnostics if one.severity == "error")
    lines = (line for one in errors if (line := _real_name(one, source)))
    return tuple(dict.fromkeys(lines))


def _real_name(error: Diagnostic, source: str) -> str:
    name = error.subject or ""
    match error.fault:
        case "undefined-name" | "no-member" | "host-call-in-device-code" if name:
            if known := _by_wrong_name().get(name.rpartition("::")[2]):
                return f"{one_line(name, 80)} does not exist here: {known.advice}"
            near = _nearest(name, source)
            return near and f"{one_line(name, 80)} is not declared; {near} is: was that meant?"
        case "no-vector-operator":
            return (
                f"{name} has no operators: compute its parts (.x, .y ...) one by one and put them "
                f"together with make_{name}"
            )
        case "collective-without-mask":
            return (
                "votes and shuffles without a mask of lanes are gone: __any_sync, __all_sync, "
                "__ballot_sync and __shfl_sync take it first"
            )
        case "unknown-namespace":
            return "a namespace in front of :: is unknown: its header is not included"
    return ""


def _nearest(name: str, source: str) -> str:
    """Return the declared or well-known name most like `name`; empty where none is near."""
    counted = identifiers(source) - {name}
    candidates = sorted({*counted, *BUILT_IN, *_by_real_name()})
    found = difflib.get_close_matches(name, candidates, n=1, cutoff=NEAR)
    return found[0] if found else ""


@cache
def _by_wrong_name() -> Mapping[str, KnownName]:
    return {wrong: known for known in known_names() for wrong in known.wrong}


@cache
def _by_real_name() -> frozenset[str]:
    return frozenset(known.real for known in known_names() if known.real.isidentifier())


def describe_failure(situation: Situation, attempt: Attempt, verdict: Verdict) -> tuple[str, ...]:
    """Render the verdict's code, then its description a line at a time.

    Of a playbook kernel only the code: a description may quote its source.
    """
    if attempt.written_by == "playbook":
        return (verdict.code,)
    lines = describe_within_context(situation, verdict)
    return (verdict.code, *(line for text in lines for line in log_lines(text).split("\n")))


def describe_within_context(situation: Situation, verdict: Verdict) -> tuple[str, ...]:
    """Return the verdict's description without the facts that the hardware context hides."""
    context = situation.config.hardware_context
    shown = hide_in_verdict(verdict, situation.hardware, context)
    return describe(shown, hardware_figures=context == "full")


def tabulate_sizes(
    situation: Situation, attempt: Attempt, components: Components
) -> tuple[str, ...]:
    """Render a line of headings and a line for each timed size: its figures, how much the score
    would rise if it reached its attainable time, and what limits the kernel there.

    A limiter is named where it differs from that of the line above.
    """
    figures = describe_figures(situation, attempt, components)
    names = name_sizes(situation.sizes)
    if not figures or len(figures) != len(names):
        return figures
    gains = _score_gains(situation, attempt)
    limits = _limiters(situation, attempt) if components.profile else ()
    repeats = [one == above for above, one in pairwise((None, *limits))]
    time, *others = figure_names(situation, components)
    headings = (
        f"{time} within {attempt.spread:.1%}" if attempt.spread >= LEAST_SPREAD else time,
        *others,
        *(("score gain at 100%",) if gains else ()),
        *((f"limited by{' (blank: as above)' if any(repeats) else ''}",) if limits else ()),
    )
    rows = (
        " ".join(
            (
                f"{name}: {figures[index]}",
                *((f"{gains[index]:+.0%}",) if gains else ()),
                *((limits[index],) if limits and not repeats[index] else ()),
            )
        )
        for index, name in enumerate(names)
    )
    return (f"Size: {', '.join(headings)}", *rows)


def place_size(situation: Situation, size: int) -> str:
    """Render `at the largest`, `at the smallest`, or the name of a size between them."""
    ends = {len(situation.sizes) - 1: "the largest", 0: "the smallest"}
    return f"at {ends.get(size) or name_sizes(situation.sizes)[size]}"


def figure_names(situation: Situation, components: Components) -> tuple[str, ...]:
    """Return what each figure of `describe_figures` is."""
    full = situation.config.hardware_context == "full"
    return (
        "time",
        *(("speed-up",) if components.baseline else ()),
        *(("part of the attainable speed",) if full else ()),
    )


def _score_gains(situation: Situation, attempt: Attempt) -> tuple[float, ...]:
    """Return by which part the score rises if a size alone reaches its attainable time; empty where
    that is not known or not to be shown."""
    if situation.config.hardware_context != "full":
        return ()
    return tuple(
        score_gain(situation, attempt, size, 1.0 - share)
        for size, share in enumerate(shares_of_limit(situation, attempt))
    )


def _limiters(situation: Situation, attempt: Attempt) -> tuple[str, ...]:
    """Return the name of what limits the attempt at each timed size, a dash where nothing is known;
    empty without a profile."""
    profile = whole_profile(situation, attempt)
    codes = limiters(situation, profile) if profile else ()
    return tuple(name_bottleneck(one) if one else "-" for one in codes) if any(codes) else ()


def describe_figures(
    situation: Situation, attempt: Attempt, components: Components
) -> tuple[str, ...]:
    """Render `41.4 us 2.9x 92%` for each timed size."""
    baselines = situation.baseline_us if components.baseline else ()
    full = situation.config.hardware_context == "full"
    shares = shares_of_limit(situation, attempt) if full else ()
    return tuple(
        " ".join(
            (
                describe_us(time_us),
                *((describe_ratio(baselines[index] / time_us),) if index < len(baselines) else ()),
                *((f"{shares[index]:.0%}",) if index < len(shares) else ()),
            )
        )
        for index, time_us in enumerate(attempt.times_us)
    )


def describe_headline(situation: Situation, attempt: Attempt, components: Components) -> str:
    """Render the speed-up over the baseline, else the time at the largest size."""
    if components.baseline and attempt.speedup is not None:
        return f"{attempt.speedup:.2f}x the baseline{describe_over(attempt.objective)}"
    if not attempt.times_us:
        return ""
    return describe_largest(describe_us(attempt.times_us[-1]), len(attempt.times_us))


def describe_differences(situation: Situation, one: Attempt, other: Attempt) -> str:
    """Render the differences of the second kernel: `+swizzle, -padding, 256 -> 128 threads`."""
    return ", ".join(map(describe_change, changes_between(situation, one, other)))


def describe_change(one: Change) -> str:
    """Render `+swizzle`, `-padding` or `256 -> 128 threads`."""
    name = one.name.replace("_", " ")
    if one.name in SIGNS:
        return f"{'+' if one.after else '-'}{name}"
    return f"{one.before:,} -> {one.after:,} {name}"


def describe_side_by_side(situation: Situation, one: Attempt, other: Attempt) -> tuple[str, ...]:
    """Render the times of two kernels at each timed size: `M = 64: 1.2 us, r2-c1 0.9 us`."""
    pairs = zip(name_sizes(situation.sizes), one.times_us, other.times_us, strict=False)
    return tuple(
        f"{name}: {describe_us(mine)}, {other.id} {describe_us(its)}" for name, mine, its in pairs
    )


def keep_differences(first: str, second: str, name: str) -> str:
    """Return the second source without the stretches that it shares with the first, called `name`.

    The lines beside each difference stay.
    """
    before, lines = first.splitlines(), second.splitlines()
    if max(len(before), len(lines)) > MOST_COMPARED:
        return second
    kept, position = list[str](), 0
    for block in difflib.SequenceMatcher(None, before, lines, autojunk=False).get_matching_blocks():
        start = block.b + (1 if block.b else 0)
        end = block.b + block.size - (1 if block.b + block.size < len(lines) else 0)
        if end - start >= LEAST_LEFT_OUT:
            kept += [*lines[position:start], f"// ... {end - start} lines as in {name}"]
            position = end
    return "\n".join((*kept, *lines[position:]))


def describe_profiled_size(situation: Situation, attempt: Attempt, profile: Profile) -> str:
    """Return the size that `describe_profile` describes; empty where only one is timed."""
    _, size = deciding_profile(situation, attempt, profile)
    return name_sizes(situation.sizes)[size] if len(situation.sizes) > 1 else ""


def describe_profile(
    situation: Situation, attempt: Attempt, profile: Profile, *, advise: bool = True
) -> tuple[str, ...]:
    """Describe the size where most is to be gained: bottlenecks, launches, kernels.

    The profiler's own advice is left out where hints say it better.
    """
    profile, size = deciding_profile(situation, attempt, profile)
    full = situation.config.hardware_context == "full"
    shown = attempt.written_by != "playbook"
    source = situation.archive.source(attempt.id) if shown else ""
    left = left_to_gain(situation, attempt, size)
    within = [_within(one, left) for one in profile.bottlenecks]
    path = _longest_path(profile, shown=shown) if full else ()
    found = [
        _bottleneck(
            one,
            first=index == 0,
            full=full,
            source=source,
            advise=advise,
            score=_score_of_saving(situation, attempt, size, one),
            phases=bool(path) and one.code in WAITS,
        )
        for index, one in enumerate(within)
    ]
    timed = full and size < len(attempt.times_us)
    dram = (_bandwidth(situation, profile, size, attempt.times_us[size]),) if timed else ()
    return (
        *found,
        *path,
        *dram,
        *_launches(profile, full=full),
    )


def _launches(profile: Profile, *, full: bool) -> Iterator[str]:
    """Yield a line for each launch, the first of a kernel with its resources; where no launch is
    known, a line for each kernel."""
    if not profile.launches:
        yield from (
            f"kernel {one_line(short_kernel_name(one.kernel))}: {_resources(one)}"
            for one in profile.resources
        )
    untold = {name: one for one in profile.resources for name in (one.kernel, one.symbol)}
    for launch in profile.launches:
        line = _launch(launch, full=full, alone=len(profile.launches) == 1)
        resources = untold.get(launch.kernel)
        if resources:
            untold = {name: one for name, one in untold.items() if one != resources}
        yield f"{line}, {_resources(resources)}" if resources else line


def phases_shown(profile: Profile) -> tuple[Phase, ...]:
    """Return the phases of the longest path in the longest launch that are worth showing; empty
    where waits are none of what limits the call."""
    longest = max(profile.launches, key=lambda one: one.time_us, default=None)
    if longest is None or not any(one.code in WAITS for one in profile.bottlenecks):
        return ()
    whole_clk = sum(one.clk for one in longest.phases)
    return tuple(one for one in longest.phases if one.clk >= LEAST_PHASE * whole_clk)


def _longest_path(profile: Profile, *, shown: bool) -> tuple[str, ...]:
    """Render what the clocks of the longest path through an average block go to:
    `clocks of an average block's path: load 940 (line 13), merge 300 (line 23); the longest
    block's path: 7,840`, the latter where that block takes clearly more."""
    parts = [
        f"{one.kind} {one.clk:,.0f}{f' (line {one.spot.line})' if shown and one.spot else ''}"
        for one in phases_shown(profile)
    ]
    longest = max(profile.launches, key=lambda one: one.time_us, default=None)
    clk = longest.figures.get("longest_path_clk") if longest else None
    other = f"; the longest block's path: {clk:,.0f}" if clk else ""
    return (f"clocks of an average block's path: {', '.join(parts)}{other}",) if parts else ()


def _within(one: Bottleneck, left: float | None) -> Bottleneck:
    """Return the bottleneck with a saving that leads no farther than to the attainable time."""
    if left is None or not one.time_us or one.saved_us <= left * one.time_us:
        return one
    return replace(one, saved_us=left * one.time_us, share=left)


def _score_of_saving(situation: Situation, attempt: Attempt, size: int, one: Bottleneck) -> str:
    """Render what the saving of a bottleneck adds to the score, where other sizes count, too."""
    if len(situation.sizes) < 2 or not one.saved_us:
        return ""
    return f", score {score_gain(situation, attempt, size, one.share):+.0%}"


def describe_savings(situation: Situation, attempt: Attempt, savings: Mapping[str, float]) -> str:
    """Render what removing each bottleneck saves at most at the size where most is to be gained,
    and where other sizes count, too, what that adds to the score: `latency 20% (score +4%)`."""
    profile = whole_profile(situation, attempt)
    size = deciding_profile(situation, attempt, profile)[1] if profile else 0

    def added(most: float) -> str:
        gain = score_gain(situation, attempt, size, most)
        return f" (score {gain:+.0%})" if len(situation.sizes) > 1 and gain else ""

    return "; ".join(f"{code} {most:.0%}{added(most)}" for code, most in savings.items())


def _bottleneck(
    one: Bottleneck, *, first: bool, full: bool, source: str, advise: bool, score: str, phases: bool
) -> str:
    word = "limited by" if first else "also"
    what = one_line(one.explanation) if full else name_bottleneck(one.code)
    # The lines of waits stand with the phases of the path.
    spot = f" at {_line(one.spot, source)}" if source and one.spot and not phases else ""
    advice = f"; what usually helps: {one_line(one.advice)}" if one.advice and advise else ""
    return f"{word} {what}{spot}, {describe_share(one)}{score}{advice}"


def _line(spot: SourceSpot, source: str) -> str:
    """Render the number alone of a line of the source, which the prompt shows with numbers."""
    return f"line {spot.line}" if holds_line(source, spot) else quote_line(spot)


def _launch(one: LaunchProfile, *, full: bool, alone: bool) -> str:
    grid, block = (", ".join(map(str, extent)) for extent in (one.grid, one.block))
    name = one_line(short_kernel_name(one.kernel))
    if not all(one.grid):
        return f"{name}: {describe_us(one.time_us)}" if one.time_us else name
    line = f"launch {name}<<<({grid}), ({block})>>>"
    # Measured alone, a call of several launches says nothing of how its time is divided; the time
    # of the only launch stands in the table of sizes.
    line += f": {describe_us(one.time_us)}" if one.time_us and not alone else ""
    shared = f", {one.shared_bytes:,} B of shared memory a block" if one.shared_bytes else ""
    return f"{line}{shared}" + (f", room for {one.occupancy:.0%} occupancy" if full else "")


def _resources(one: KernelResources) -> str:
    spills = one.spill_store_bytes + one.spill_load_bytes
    spilled = f"{spills:,} B of spills" if spills else "no spills"
    return f"{one.registers} registers a thread, {spilled}"


def _bandwidth(situation: Situation, profile: Profile, size: int, time_us: float) -> str:
    """Render the DRAM bandwidth of the counted, or else the least, bytes as a part of the
    published."""
    moved = sum(launch.figures.get("dram_bytes", 0.0) for launch in profile.launches)
    if not moved:
        moved = float(evaluate(situation.task.roofline.bytes, situation.sizes[size]))
    share = moved / (time_us * 1e3) / situation.hardware.peaks.dram_gb_s
    return f"{share:.0%} of DRAM bandwidth"
