"""What differs between two candidates of a run: times, resources, profile, source and prompt."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Literal

from cuda_llm.figure_wording import name_sizes
from cuda_llm.outcomes import Passed
from cuda_llm.profile import Profile
from cuda_llm.traces.candidate_text import check_candidate
from cuda_llm.traces.files import read_text
from cuda_llm.traces.report.candidates import CandidateReader, harmless
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.terminal.prompt_sections import PromptSection, split_prompt

Value = float | str | None
"""A figure or a word; None where there is none."""


@dataclass(frozen=True, kw_only=True)
class CandidatePair:
    """One thing of both candidates."""

    about: str
    """A kernel, a size, a kind of bottleneck."""
    name: str
    unit: str = ""
    """`us`, `bytes`, `%` or nothing."""
    a: Value
    b: Value


@dataclass(frozen=True, kw_only=True)
class SectionDifference:
    """One section of the prompts."""

    heading: str
    channels: tuple[str, ...]
    """Of the state, that it came from; none for the system's message and headings not ours."""
    state: Literal["same", "differs", "only in a", "only in b"]
    lines: tuple[str, ...]
    """Unified diff; empty where it is the same."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """All that differs; a pair that is equal is left out, but for the outcome."""

    a: str
    b: str
    outcome: tuple[CandidatePair, ...]
    times: tuple[CandidatePair, ...]
    resources: tuple[CandidatePair, ...]
    profile: tuple[CandidatePair, ...]
    source: tuple[str, ...]
    """Unified diff."""
    prompts: tuple[SectionDifference, ...]
    missing: tuple[str, ...]
    """What could not be read, or was never there."""


def find_difference(
    run: RunFolder, a: str, b: str, channels: Mapping[str, tuple[str, ...]]
) -> Difference:
    """Compare two candidates. Raises UsageError for a name that the run lacks.

    `channels` are those of the state behind a section, by how its heading begins.
    """
    for name in (a, b):
        check_candidate(run, name)
    reader = CandidateReader(run)
    profiles = [_profile(reader, name) for name in (a, b)]
    sources = [_text(reader, name, "source.cu") for name in (a, b)]
    prompts = [_text(reader, name, "prompt.md") for name in (a, b)]
    for name, source, prompt in zip((a, b), sources, prompts, strict=True):
        if not source:
            reader.missing[f"{name} has no source"] = None
        if not prompt:
            reader.missing[f"{name} has no prompt: no model was asked"] = None
    before, after = (split_prompt(text, channels) for text in prompts)
    return Difference(
        a=a,
        b=b,
        outcome=tuple(_outcome(reader, a, b)),
        times=tuple(_pairs(_times, profiles)),
        resources=tuple(_pairs(_resources, profiles)),
        profile=tuple(_pairs(_limits, profiles)),
        source=_diff(sources[0], sources[1], a, b, context=3),
        prompts=tuple(_sections(before, after, a, b)) if all(prompts) else (),
        missing=tuple(harmless(one) for one in reader.missing),
    )


def _profile(reader: CandidateReader, name: str) -> Profile | None:
    verdict = reader.read(lambda: reader.run.kept_verdict(name))
    return verdict.profile if isinstance(verdict, Passed) else None


def _text(reader: CandidateReader, name: str, file: str) -> str:
    found = reader.read(lambda: read_text(reader.run.candidate(name) / file))
    return harmless(found or "")


def _outcome(reader: CandidateReader, a: str, b: str) -> Iterator[CandidatePair]:
    one, other = (reader.read(lambda name=name: reader.run.attempt(name)) for name in (a, b))  # type: ignore[misc]
    for name in ("code", "speedup", "idea", "direction", "parent", "summary", "limited_by"):
        values = [getattr(each, name, None) or None for each in (one, other)]
        texts = [harmless(each) if isinstance(each, str) else each for each in values]
        if name in {"code", "speedup"} or texts[0] != texts[1]:
            unit = "x" if name == "speedup" else ""
            yield CandidatePair(about="", name=name, unit=unit, a=texts[0], b=texts[1])
    for each in (one, other):
        if each is None:
            reader.missing[f"{a if each is one else b} is not judged yet"] = None
    settings = [dict(each.tunables) if each else {} for each in (one, other)]
    for name in dict.fromkeys((*settings[0], *settings[1])):
        if settings[0].get(name) != settings[1].get(name):
            value_a, value_b = (each.get(name) for each in settings)
            yield CandidatePair(about="tunable", name=harmless(name), a=value_a, b=value_b)


Found = dict[tuple[str, str, str], Value]
"""By what it is about, its name and its unit."""


def _pairs(
    find: Callable[[Profile], Found], profiles: Sequence[Profile | None]
) -> Iterator[CandidatePair]:
    """Yield what differs of what `find` finds in either."""
    one, other = (find(each) if each else {} for each in profiles)
    for key in dict.fromkeys((*one, *other)):
        if one.get(key) != other.get(key):
            about, name, unit = key
            yield CandidatePair(about=about, name=name, unit=unit, a=one.get(key), b=other.get(key))


def _times(profile: Profile) -> Found:
    labels = name_sizes([size.dims for size in profile.sizes])
    return {
        (label, "time", "us"): size.time_us
        for label, size in zip(labels, profile.sizes, strict=True)
    }


def _resources(profile: Profile) -> Found:
    found: Found = {}
    for one in profile.resources:
        name, spilled = harmless(one.kernel), one.spill_store_bytes + one.spill_load_bytes
        found[name, "registers", ""] = one.registers
        found[name, "static shared", "bytes"] = one.shared_bytes
        found[name, "spilled", "bytes"] = spilled
    for number, launch in enumerate(profile.launches, start=1):
        name = f"launch {number}, {harmless(launch.kernel)}"
        found[name, "grid", ""] = " x ".join(f"{count:,}" for count in launch.grid)
        found[name, "block", ""] = " x ".join(f"{count:,}" for count in launch.block)
        found[name, "shared", "bytes"] = launch.shared_bytes
        found[name, "occupancy", "%"] = 100 * launch.occupancy
    return found


def _limits(profile: Profile) -> Found:
    found: Found = {}
    for one in profile.bottlenecks:
        key = harmless(one.code.replace("_", " ")), "part of the time", "%"
        found.setdefault(key, 100 * one.share)
    for number, launch in enumerate(profile.launches, start=1):
        for term, time_us in launch.terms_us.items():
            found[f"launch {number}, {harmless(launch.kernel)}", harmless(term), "us"] = time_us
    return found


def _diff(one: str, other: str, a: str, b: str, *, context: int) -> tuple[str, ...]:
    lines = unified_diff(one.splitlines(), other.splitlines(), a, b, n=context, lineterm="")
    return tuple(lines)


def _sections(
    one: Mapping[str, PromptSection], other: Mapping[str, PromptSection], a: str, b: str
) -> Iterator[SectionDifference]:
    for key in dict.fromkeys((*one, *other)):
        before, after = one.get(key), other.get(key)
        known = after or before
        assert known is not None
        was, now = (each.text if each else "" for each in (before, after))
        if before is None or after is None:
            state: Literal["same", "differs", "only in a", "only in b"]
            state = "only in b" if before is None else "only in a"
        else:
            state = "same" if before == after else "differs"
        yield SectionDifference(
            heading=known.heading,
            channels=known.channels,
            state=state,
            lines=_diff(was, now, a, b, context=1) if state != "same" else (),
        )
