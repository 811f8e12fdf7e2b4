"""From a verdict to the attempt that the state holds of it."""

from hashlib import sha256
from typing import Any

from cuda_llm.agents.quote import one_line
from cuda_llm.graph.duplicates import kernel_sha
from cuda_llm.graph.judging.pace import pace
from cuda_llm.graph.wiring import Wiring
from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.search import Attempt, Author, Brief, Draft, Kind
from cuda_llm.wording import describe

IDEA = 200
"""Most characters of the name of what a candidate tries."""
SUMMARY = 240
"""Most characters of a summary; the verdict itself is in the run's folder."""


def settle(wiring: Wiring, brief: Brief, verdict: Verdict, seconds: dict[str, float]) -> Attempt:
    """Keep the verdict, then the attempt: from then on the candidate is judged."""
    attempt = Attempt(
        id=brief.id,
        round=brief.round,
        index=brief.index,
        kind=brief.kind,
        parent=brief.parent,
        direction=brief.direction,
        written_by=author(wiring, brief),
        code=verdict.code,
        summary=summarise(verdict),
        seconds={name: round(value, 4) for name, value in seconds.items()},
        **facts(wiring, brief),
        **figures(verdict),
    )
    wiring.folder.write_verdict(brief.id, verdict)
    wiring.folder.write_attempt(attempt)
    return attempt


def author(wiring: Wiring, brief: Brief) -> Author:
    """Who wrote its kernel; a trial is its parent's author's."""
    parent = wiring.folder.attempt(brief.parent) if brief.parent else None
    if brief.kind == Kind.TUNE and parent is not None:
        return parent.written_by
    return "human" if brief.kind == Kind.START else wiring.generator.written_by


def facts(wiring: Wiring, brief: Brief) -> dict[str, Any]:
    """What its draft says; nothing where there is none."""
    draft = wiring.folder.draft(brief.id)
    if not isinstance(draft, Draft):
        return {}
    return {
        "idea": one_line(draft.idea, IDEA),
        "source_sha": sha256(draft.source.encode(errors="replace")).hexdigest(),
        "normal_sha": kernel_sha(draft.source),
        "tunables": draft.tunables,
    }


def figures(verdict: Verdict) -> dict[str, Any]:
    """What the profile of a kernel that passed says; nothing of any other."""
    profile = verdict.profile if isinstance(verdict, Passed) else None
    if profile is None:
        return {}
    return {
        "speedup": profile.speedup,
        "times_us": tuple(size.time_us for size in profile.sizes),
        "spread": max((size.spread for size in profile.sizes), default=0.0),
        "limited_by": profile.bottlenecks[0].code if profile.bottlenecks else "",
    }


def summarise(verdict: Verdict) -> str:
    """The verdict in one line."""
    if isinstance(verdict, Passed) and verdict.profile is not None:
        return pace(verdict.profile)
    line = " ".join(next(iter(describe(verdict)), "").split())
    return line if len(line) <= SUMMARY else f"{line[: SUMMARY - 1]}…"
