"""Makes attempts of verdicts; of attempts with equal kernels the first keeps its verdict."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

from cuda_llm.agents.prompting.describe_run import USER
from cuda_llm.agents.prompting.quote import one_line
from cuda_llm.agents.strategies.acceptance import tie_margin
from cuda_llm.graph.context import RunContext
from cuda_llm.graph.toolbox import describe_speed
from cuda_llm.outcomes import Duplicate, Passed, PublishedCheck, Verdict, failure_key
from cuda_llm.predictions import Prediction, discern
from cuda_llm.profile import Bottleneck, limiter
from cuda_llm.search import Attempt, Author, Brief, Draft, Hint, Kind, Origin
from cuda_llm.source_tokens import normal_sha
from cuda_llm.traces.events import AttemptRepeated, HintsTried
from cuda_llm.verdict_wording import describe

MOST_IDEA = 200
"""Characters of the name of what a candidate tries."""
MOST_SUMMARY = 240
"""Characters of a summary; the verdict itself is in the run's folder."""


@lru_cache(maxsize=64)
def kernel_sha(source: str) -> str:
    """Return `normal_sha` of a source, cached for the few sources at work: the hash reads every
    token."""
    return normal_sha(source)


def find_first_equal(normal: str, earlier: Iterable[Attempt]) -> str:
    """Return the id of the earliest attempt whose kernel has that `normal_sha`; empty without one.

    Only attempts whose verdict is about their own kernel count.
    """
    equal = (one for one in earlier if normal and one.normal_sha == normal)
    return next((one.id for one in equal if one.is_about_its_kernel), "")


def as_duplicate(attempt: Attempt, of: str) -> Attempt:
    """Return the attempt as a repetition of `of`, without figures of its own."""
    return replace(
        attempt,
        code=Duplicate.code,
        failure=failure_key(Duplicate(of=of)),
        summary=f"the same kernel as {of}",
        speedup=None,
        times_us=(),
        spread=0.0,
        limited_by="",
        predicted=None,
        published_check=None,
    )


def keep_attempt(
    context: RunContext,
    brief: Brief,
    verdict: Verdict,
    seconds: Mapping[str, float],
    published: PublishedCheck | None = None,
) -> Attempt:
    """Write the verdict, then the attempt: from then on the candidate is judged."""
    context.folder.write_verdict(brief.id, verdict)
    attempt = Attempt(
        **{one.name: getattr(brief, one.name) for one in fields(Origin)},
        written_by=author_of(context, brief),
        code=verdict.code,
        failure=failure_key(verdict),
        summary=summarise(verdict),
        seconds={name: round(value, 4) for name, value in seconds.items()},
        published_check=published,
        **draft_fields(context, brief),
        **profile_fields(verdict),
    )
    attempt = replace(attempt, predicted=predict(context, brief, attempt))
    context.folder.write_attempt(attempt)
    return attempt


def predict(context: RunContext, brief: Brief, attempt: Attempt) -> Prediction | None:
    """Return the predicted saving of the parent's time beside the measured saving.

    None for orders other than to speed up a parent, and where no saving was predicted that two
    times can show.
    """
    if brief.kind != Kind.IMPROVE or not brief.parent or brief.second:
        return None
    if attempt.written_by != "model":
        return None
    parent = context.folder.attempt(brief.parent)
    if parent is None or not parent.times_us:
        return None
    predicted = _predict(context, brief, attempt, parent)
    return predicted and discern(predicted, tie_margin(parent.spread, attempt.spread))


def _predict(
    context: RunContext, brief: Brief, attempt: Attempt, parent: Attempt
) -> Prediction | None:
    before_us = parent.times_us[-1]
    had_us = before_us - attempt.times_us[-1] if attempt.times_us else None
    asked = find_critique(brief)
    if asked is not None:
        saved_us = before_us * asked.gain
        return Prediction(
            code=asked.code, time_us=before_us, saved_us=saved_us, had_us=had_us, by="critique"
        )
    verdict = context.folder.kept_verdict(parent.id)
    profile = verdict.profile if isinstance(verdict, Passed) else None
    aim = find_aim(brief.against, profile.bottlenecks) if profile else None
    if aim is None:
        return None
    saved_us = before_us * aim.saved_us / aim.time_us
    return Prediction(code=aim.code, time_us=before_us, saved_us=saved_us, had_us=had_us)


def told_hints(brief: Brief) -> tuple[str, ...]:
    """Return the ids of the hints in the candidate's prompt; where prompts hold no hints, of the
    user's own hints."""
    given = (*brief.error_hints, *brief.performance_hints)
    return tuple(one.id for one in given if brief.components.hints or one.code == USER)


def try_hints(context: RunContext, brief: Brief, attempt: Attempt) -> HintsTried | None:
    """Return the savings that hints about the parent's speed predicted, beside the measured saving.

    None for a candidate whose prompt holds no such hint, or whose parent has no time.
    """
    told = set(told_hints(brief))
    hints = [one for one in brief.performance_hints if one.id in told]
    parent = context.folder.attempt(brief.parent) if brief.parent and hints else None
    if parent is None or not parent.times_us:
        return None
    verdict = context.folder.kept_verdict(parent.id)
    profile = verdict.profile if isinstance(verdict, Passed) else None
    parts = {
        one.code: one.saved_us / one.time_us
        for one in (profile.bottlenecks if profile else ())
        if one.saved_us > 0 and one.time_us > 0
    }
    own = {one.id: parts.get(one.code, 0.0) if one.about == parent.id else 0.0 for one in hints}
    gained = 1 - attempt.times_us[-1] / parent.times_us[-1] if attempt.times_us else None
    return HintsTried(
        candidate=brief.id,
        parent=parent.id,
        predicted={one.id: round(one.gain or own[one.id], 4) for one in hints},
        gained=None if gained is None else round(gained, 4),
    )


def find_critique(brief: Brief) -> Hint | None:
    """Return the hint of the critique whose change the brief orders; None without an expected
    gain."""
    return next(
        (
            hint
            for hint in brief.performance_hints
            if hint.gain > 0 and hint.change and hint.change == brief.direction
        ),
        None,
    )


def find_aim(against: str, bottlenecks: Sequence[Bottleneck]) -> Bottleneck | None:
    """Return the bottleneck that an order relieves: the bottleneck named `against`, else the first.

    None where no saving is known.
    """
    found = [one for one in bottlenecks if one.saved_us > 0 and against in ("", one.code)]
    return next(iter(found), None)


def author_of(context: RunContext, brief: Brief) -> Author:
    """Return the author of the kernel; of a trial, the author of its parent.

    Of two kernels put together, the author whose text is kept back most: the text of a playbook is
    in no prompt.
    """
    names = [name for name in (brief.parent, brief.second) if name]
    found = [one.written_by for one in map(context.folder.attempt, names) if one is not None]
    if brief.kind in (Kind.TUNE, Kind.COMPOSE) and found:
        return min(found, key=("playbook", "model", "human").index)
    return "human" if brief.kind == Kind.START else context.generator.written_by


def draft_fields(context: RunContext, brief: Brief) -> dict[str, Any]:
    """Return the fields of an attempt that its draft decides; none without a draft."""
    draft = context.folder.draft(brief.id)
    if not isinstance(draft, Draft):
        return {}
    return {
        "idea": one_line(draft.idea, MOST_IDEA),
        "source_sha": sha256(draft.source.encode(errors="replace")).hexdigest(),
        "normal_sha": kernel_sha(draft.source),
        "tunables": draft.tunables,
    }


def profile_fields(verdict: Verdict) -> dict[str, Any]:
    """Return the fields of an attempt that its profile decides; no fields unless the kernel
    passed."""
    profile = verdict.profile if isinstance(verdict, Passed) else None
    if profile is None:
        return {}
    limit = limiter(profile.bottlenecks)
    return {
        "speedup": profile.speedup,
        "objective": profile.objective,
        "times_us": tuple(size.time_us for size in profile.sizes),
        "spread": profile.spread,
        "limited_by": limit.code if limit else "",
    }


def summarise(verdict: Verdict) -> str:
    """Return the verdict in one line."""
    if isinstance(verdict, Passed) and verdict.profile is not None:
        return describe_speed(verdict.profile)
    line = " ".join(next(iter(describe(verdict)), "").split())
    return line if len(line) <= MOST_SUMMARY else f"{line[: MOST_SUMMARY - 1]}…"


def mark_duplicates(
    context: RunContext, earlier: Iterable[Attempt], judged: Iterable[Attempt]
) -> list[Attempt]:
    """Mark repetitions: of equal kernels the first in order keeps its verdict."""
    known = list(earlier)
    before = len(known)
    for attempt in judged:
        of = find_first_equal(attempt.normal_sha, known) if context.strategy.deduplicate else ""
        if of and not attempt.infra_failed:
            attempt = as_duplicate(attempt, of)
            context.folder.write_verdict(attempt.id, Duplicate(of=of))
            context.folder.write_attempt(attempt)
        known.append(attempt)
    return known[before:]


def record_judged(context: RunContext, judged: Iterable[Attempt]) -> None:
    """Record which of a round's attempts repeat another kernel of the round, and what the hints of
    each were worth.
    """
    for attempt in judged:
        if attempt.code == Duplicate.code and [*attempt.seconds][-1:] != ["generate"]:
            context.record(AttemptRepeated(attempt=attempt))
        brief = context.folder.usable(context.folder.brief, attempt.id)
        tried = try_hints(context, brief, attempt) if brief else None
        if tried is not None:
            context.record(tried)
