"""Times of one loaded candidate at the sizes its device can time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.outcomes import Verdict
from cuda_llm.profile import Bottleneck, LaunchProfile, SizeTime, TimeSource
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Level, Session
from cuda_llm.tools.validator.oracle import Oracle
from cuda_llm.tools.validator.referee import run_case

Dims = Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Every timed size, and what the largest one says about the kernel."""

    times: tuple[tuple[Dims, float], ...]
    """Dims and microseconds, in the order of the task."""
    launches: tuple[LaunchProfile, ...]
    bottlenecks: tuple[Bottleneck, ...]
    sizes: tuple[SizeTime, ...] = ()
    """Measured: each size beside the baseline that was timed with it; empty where modelled."""
    left_out: tuple[str, ...] = ()
    """Sizes that were not timed, and why, one line each."""
    notes: tuple[str, ...] = ()
    """How the times were obtained, as far as a reader of the verdict must know."""
    device: str = ""
    """Which of several devices was measured; empty where there is one."""
    isolation: str = ""
    """What kept the runners in; empty where that was not tried."""


async def time_sizes(
    task: Task,
    session: Session,
    oracle: Oracle,
    *,
    nonce: bytes | None = None,
    bench: bool = False,
) -> Timing | Verdict:
    """Run each timed size, outputs verified; stop at the first that is wrong.

    These are the task's `bench` sizes where the device can take them, else its `emulated` ones.

    The inputs follow from `nonce`, fresh ones from none.
    """
    times = []
    report: CallReport | None = None
    for dims in task.sizes.bench if bench else task.sizes.emulated:
        outcome = await run_case(
            task, session, dims, level=Level.ACCOUNT, oracle=oracle, nonce=nonce
        )
        if not isinstance(outcome, CallReport):
            return outcome
        report = outcome
        times.append((dims, outcome.time_us))
    assert report is not None, "the loader refuses a task without sizes to time"
    return Timing(times=tuple(times), launches=report.launches, bottlenecks=report.bottlenecks)


def compare(timing: Timing, baseline: Timing, source: TimeSource) -> tuple[SizeTime, ...]:
    """Put each size beside the baseline's time for it: the one measured with it, where it was."""
    if timing.sizes:
        return timing.sizes
    return tuple(
        SizeTime(dims=dims, time_us=time_us, baseline_us=baseline_us, source=source)
        for (dims, time_us), (_, baseline_us) in zip(timing.times, baseline.times, strict=True)
    )


def weights_of(task: Task, timed: Sequence[Dims]) -> tuple[float, ...]:
    """The weights of the sizes that were timed; all of them where these are no bench sizes."""
    if len(task.weights) != len(task.sizes.bench):
        return task.weights
    known = {
        tuple(sorted(d.items())): w for d, w in zip(task.sizes.bench, task.weights, strict=True)
    }
    wanted = [tuple(sorted(dims.items())) for dims in timed]
    return tuple(known[one] for one in wanted) if known.keys() >= set(wanted) else task.weights


def mean_speedup(sizes: Sequence[SizeTime], weights: Sequence[float]) -> float | None:
    """Weighted geometric mean of the sizes' speedups; equal weights where none fit."""
    speedups = [size.speedup for size in sizes if size.speedup is not None]
    if not speedups or len(speedups) != len(sizes):
        return None
    return mean_ratio(speedups, weights)


def mean_ratio(ratios: Sequence[float], weights: Sequence[float]) -> float:
    """Weighted geometric mean; equal weights where there is not one a ratio."""
    shares = list(weights) if len(weights) == len(ratios) else [1.0] * len(ratios)
    total = sum(shares)
    return math.exp(sum(w * math.log(s) for w, s in zip(shares, ratios, strict=True)) / total)
