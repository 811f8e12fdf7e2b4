"""What became of each kernel of a recorded run, by its source."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cuda_llm.codec import decode_verdict
from cuda_llm.errors import UnusableFile, UsageError
from cuda_llm.graph.runs.kept_measurements import FOLDER, Measurements, read_last_check
from cuda_llm.outcomes import Duplicate, InfraFailed, Passed, Verdict, component_of
from cuda_llm.search import Attempt
from cuda_llm.tools.judge.duel import Duel, lost_by_fault
from cuda_llm.traces.events import ContestHeld, StageLeft, WinnerRemeasured
from cuda_llm.traces.run_folder import RunFolder

COMPONENT = "record"
"""Of the InfraFailed where a record has no answer."""
FOLLOWING = {"compile": "validate", "validate": "profile"}
"""Stages of a bench that others follow."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What became of the first candidate that had a source."""

    name: str
    stage: str
    """That ended it."""
    verdict: Verdict


def not_recorded(folder: RunFolder, what: str) -> InfraFailed:
    """Return the verdict where a record has no answer."""
    return InfraFailed(component=COMPONENT, detail=f"the record of {folder.name} holds no {what}")


def sha_of(source: str) -> str:
    """Return the SHA-256 of a source, as attempts hold it."""
    return hashlib.sha256(source.encode(errors="replace")).hexdigest()


def find_ends(
    folder: RunFolder, attempts: Iterable[Attempt], left: Mapping[str, StageLeft]
) -> dict[str, Ended]:
    """Return what became of each source, by its SHA-256."""
    found: dict[str, Ended] = {}
    for one in attempts:
        stage = left[one.id].stage if one.id in left else ""
        if not one.source_sha or stage in ("", "generate"):
            continue
        verdict = _verdict(folder, one.id)
        if isinstance(verdict, Duplicate):
            # Equal but for its layout to one of its round, whose verdict counts for both.
            verdict = _verdict(folder, verdict.of)
        found.setdefault(one.source_sha, Ended(name=one.id, stage=stage, verdict=verdict))
    return found


def find_cut_short(
    folder: RunFolder, names: Mapping[str, str], left: Mapping[str, StageLeft]
) -> dict[str, Ended]:
    """Return candidates that left a stage well, and of which nothing more was recorded."""
    unknown = not_recorded(folder, "verdict on this kernel")
    return {
        key: Ended(name=name, stage=FOLLOWING[left[name].stage], verdict=unknown)
        for key, name in names.items()
        if name in left and left[name].stage in FOLLOWING and left[name].outcome == "ok"
    }


def _verdict(folder: RunFolder, name: str) -> Verdict:
    verdict = folder.kept_verdict(name)
    lost = isinstance(verdict, Passed) and verdict.profile is None
    if verdict is None or lost:
        file = "profile.json" if lost else "verdict.json"
        raise UnusableFile(folder.candidate(name) / file, "gone", "a replay needs it: restore it")
    return verdict


def find_last_check(folder: RunFolder, told: WinnerRemeasured) -> Verdict:
    """Return the verdict of a last check, from the event where it was not kept whole."""
    place = Measurements(folder.path / FOLDER).place_last_check(folder.source(told.attempt))
    kept = read_last_check(place)
    if kept is not None:
        return kept
    first = _verdict(folder, told.attempt)
    if told.code != Passed.code or not isinstance(first, Passed) or first.profile is None:
        return verdict_in_short(told.code, told.detail)
    sizes = tuple(
        replace(size, time_us=time_us)
        for size, time_us in zip(first.profile.sizes, told.times_us, strict=False)
    )
    return replace(first, profile=replace(first.profile, speedup=told.speedup, sizes=sizes))


def duel_by_event(told: ContestHeld) -> Duel | InfraFailed:
    """Return a duel as its event tells of it."""
    if not told.outcome:
        return verdict_in_short(told.fault, told.detail)  # type: ignore[return-value]
    if told.fault:
        which = "first" if told.outcome == "slower" else "second"
        return lost_by_fault(which, verdict_in_short(told.fault, told.detail), "measured")
    return Duel(
        sizes=(),
        ratio=1 / (told.speedup or 1.0),
        low=1 / (told.speedup_high or 1.0),
        high=1 / (told.speedup_low or 1.0),
        outcome=told.outcome,  # type: ignore[arg-type]
        source="measured",
        faults={},
    )


def verdict_in_short(code: str, detail: str) -> Verdict:
    """Return a verdict of which an event holds only the code and a line.

    Raises UsageError where a verdict of that code needs more.
    """
    if component := component_of(code):
        return InfraFailed(component=component, detail=detail)
    try:
        return decode_verdict({"code": code, "detail": detail})
    except ValueError:
        raise UsageError(
            f"the record holds no more of a {code} than its code: replay the replies alone"
        ) from None
