"""The winner judged once more, in a fresh process on fresh inputs."""

from collections.abc import Iterable

from cuda_llm.graph.wiring import Wiring
from cuda_llm.outcomes import InfraFailed, Passed, Verdict
from cuda_llm.search import Attempt
from cuda_llm.tools.judge.judge import judge
from cuda_llm.tools.judge.timing import Timing
from cuda_llm.traces.events import WinnerRemeasured
from cuda_llm.wording import describe


async def confirm(
    wiring: Wiring, ranked: Iterable[Attempt], baseline: Timing
) -> WinnerRemeasured | None:
    """The first of `ranked` that stands when it is judged again; None where none does.

    Where our own parts break, that is no fault of the kernel: it stands as it was.
    """
    for attempt in ranked:
        event = tell(attempt, await again(wiring, attempt, baseline))
        wiring.record(event)
        if event.stands:
            return event
    return None


async def again(wiring: Wiring, attempt: Attempt, baseline: Timing) -> Verdict:
    """Its verdict this time. Raises UsageError where the folder lost its source."""
    bench, source = wiring.bench.afresh(), wiring.folder.same_source(attempt.id, attempt.source_sha)
    return (await judge(bench, source, baseline=baseline)).verdict


def tell(attempt: Attempt, verdict: Verdict) -> WinnerRemeasured:
    """What became of it this time."""
    profile = verdict.profile if isinstance(verdict, Passed) else None
    sizes = () if profile is None else profile.sizes
    infra = isinstance(verdict, InfraFailed)
    return WinnerRemeasured(
        attempt=attempt.id,
        code=verdict.code,
        speedup=attempt.speedup if infra else None if profile is None else profile.speedup,
        times_us=attempt.times_us if infra else tuple(size.time_us for size in sizes),
        detail="" if profile else " ".join(describe(verdict)[:1]),
    )
