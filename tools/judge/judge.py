"""The whole way of one candidate, for everybody who takes it: compile, validate, time."""

import math
import time
from collections.abc import Awaitable, Iterator, MutableMapping
from contextlib import contextmanager

from cuda_llm.outcomes import InfraFailed, Passed, Verdict
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.judge.bench import SOURCE, Bench
from cuda_llm.tools.judge.judged import Judged, OnStage, ignore
from cuda_llm.tools.judge.timing import Timing
from cuda_llm.tools.validator.validate import Validated


async def judge(
    bench: Bench,
    source: str,
    name: str = SOURCE,
    *,
    baseline: Timing | Awaitable[Timing],
    on_stage: OnStage = ignore,
) -> Judged:
    """Judge one source file, which spots and diagnostics call `name`.

    A bad kernel is a verdict, and so is machinery that stays broken under it; see `Bench` for what
    raises. A `baseline` that is being timed is awaited only when a candidate needs it, so that both
    are under way side by side.
    """
    seconds: dict[str, float] = {}
    compiled, outcome = await check(bench, source, name, seconds=seconds, on_stage=on_stage)
    if compiled is not None and isinstance(outcome, Validated):
        with stage(name, "time", seconds, on_stage):
            beside = baseline if isinstance(baseline, Timing) else await baseline
            outcome = credible(await bench.profile(compiled, outcome, beside))
    assert not isinstance(outcome, Validated), "what is validated has been compiled"
    return Judged(name=name, verdict=outcome, compiled=compiled, seconds=seconds)


async def check(
    bench: Bench,
    source: str,
    name: str = SOURCE,
    *,
    seconds: MutableMapping[str, float] | None = None,
    on_stage: OnStage = ignore,
) -> tuple[Compiled | None, Validated | Verdict]:
    """Compile and validate: what it was compiled to, if it was, and what came of it.

    What each stage takes is noted in `seconds`.
    """
    noted = {} if seconds is None else seconds
    with stage(name, "compile", noted, on_stage):
        compiled = await bench.compile(source, name)
    if not isinstance(compiled, Compiled):
        return None, compiled
    with stage(name, "validate", noted, on_stage):
        return compiled, await bench.validate(compiled)


@contextmanager
def stage(
    name: str, label: str, seconds: MutableMapping[str, float], on_stage: OnStage
) -> Iterator[None]:
    """Tell who listens that a stage begins, and keep how long it took."""
    on_stage(name, label)
    started = time.monotonic()
    try:
        yield
    finally:
        seconds[label] = time.monotonic() - started


def credible(verdict: Verdict) -> Verdict:
    """The verdict; an InfraFailed where its times or its speed-up are no numbers above zero.

    Figures that no clock gives are our fault: a kernel must not become the incumbent for them.
    """
    profile = verdict.profile if isinstance(verdict, Passed) else None
    if profile is None:
        return verdict
    figures = [size.time_us for size in profile.sizes]
    figures += [] if profile.speedup is None else [profile.speedup]
    odd = next((one for one in figures if not (one > 0 and math.isfinite(one))), None)
    if odd is None:
        return verdict
    return InfraFailed(component="profiler", detail=f"measured {odd:g}, which cannot be")
