"""Judged candidates whose files are damaged, made whole before a run goes on.

An attempt that is lost follows from its verdict; a verdict that is lost is found again by judging
the source again. What follows from nothing that is left ends in one line with its mend.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from cuda_llm.graph.attempts import (
    find_first_equal,
    keep_attempt,
    keep_verdict,
    kernel_sha,
    seconds_so_far,
    usable_draft,
)
from cuda_llm.graph.candidate import KeptBench
from cuda_llm.graph.context import RunContext
from cuda_llm.log import Log
from cuda_llm.outcomes import Duplicate, NoCode, Passed, Verdict
from cuda_llm.search import Attempt, Brief
from cuda_llm.tools.judge.judge import judge
from cuda_llm.tools.timing.times import KernelTimes

_log = Log(__name__)


async def mend_judged(context: RunContext, state: Mapping[str, Any]) -> None:
    """Make the attempts that a state names whole, in order. Raises UsageError where that fails."""
    known = state.get("baseline", {})
    times = zip(known.get("sizes", ()), known.get("times_us", ()), strict=True)
    baseline = KernelTimes(times=tuple(times), launches=(), bottlenecks=())
    whole: list[Attempt] = []
    for name in state.get("attempts", ()):
        attempt = read_whole(context, name)
        if attempt is None:
            attempt = await mend_attempt(context, name, whole, baseline)
            _log.warning("a damaged candidate was made whole", candidate=name, code=attempt.code)
        whole.append(attempt)


def forget_damaged(context: RunContext) -> None:
    """Have candidates that are not whole judged again by the graph, where it has no checkpoint."""
    for name in context.folder.candidates():
        folder = context.folder.candidate(name)
        if (folder / "attempt.json").exists() and read_whole(context, name) is None:
            (folder / "attempt.json").unlink()


def read_whole(context: RunContext, name: str) -> Attempt | None:
    """Return the attempt where it and its verdict can be read."""
    folder = context.folder
    attempt, verdict = folder.usable(folder.attempt, name), folder.usable(folder.kept_verdict, name)
    if attempt is None or verdict is None:
        return None
    lost = isinstance(verdict, Passed) and verdict.profile is None and attempt.times_us
    return None if lost else attempt


async def mend_attempt(
    context: RunContext, name: str, earlier: Iterable[Attempt], baseline: KernelTimes
) -> Attempt:
    """Write the attempt anew, and its verdict where that is lost."""
    folder = context.folder
    brief = folder.brief(name)
    if brief is None:
        raise folder.gone(folder.candidate(name) / "attempt.json")
    attempt, verdict = folder.usable(folder.attempt, name), folder.usable(folder.kept_verdict, name)
    seconds = dict(attempt.seconds) if attempt else seconds_so_far(context, name)
    if verdict is not None and not (isinstance(verdict, Passed) and verdict.profile is None):
        return keep_attempt(context, brief, verdict, seconds)
    verdict = await judge_lost(context, brief, earlier, baseline)
    return keep_verdict(context, brief, verdict, seconds)


async def judge_lost(
    context: RunContext, brief: Brief, earlier: Iterable[Attempt], baseline: KernelTimes
) -> Verdict:
    """Return the verdict on what the candidate's folder still holds of its kernel."""
    draft = usable_draft(context, brief)
    if isinstance(draft, NoCode):
        return draft
    if draft is None:
        raise context.folder.gone(context.folder.candidate(brief.id) / "verdict.json")
    same = find_first_equal(kernel_sha(draft.source), earlier)
    if same and context.strategy.deduplicate:
        return Duplicate(of=same)
    bench = KeptBench(context, brief)
    return (await judge(bench, draft.source, baseline=baseline)).verdict
