"""The way of one candidate from its source to its verdict, and when a step of it is tried again."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from cuda_llm.errors import BrokenByWork, DeviceLost, InfrastructureError, NoMemory, describe_error
from cuda_llm.log import Log
from cuda_llm.outcomes import InfraFailed, Passed, PublishedCheck, Quarantined, Verdict
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.bench import SOURCE_NAME, Bench, PublishedBench
from cuda_llm.tools.timing.failures import NOISE
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated

if TYPE_CHECKING:
    from tenacity import RetryCallState

_log = Log(__name__)

T = TypeVar("T")


class RetryReason(StrEnum):
    """Why a step is worth another try. What is not listed here is not tried again."""

    BROKEN = "broken"
    """A process of ours did not start or died, or the machine lacked memory or disk for it."""
    BROKE_DEVICE = "broke-device"
    """The work broke the process that holds the device, which is fine without the work."""
    NOISY = "noisy"
    """Other work on the machine hides what is measured."""
    QUARANTINED = "quarantined"
    """Times look like those of a cheat, or of a runner that was held up all the while: one of 210
    honest kernels looked so, beside another GPU at work. Another process of an honest kernel does
    not look so again; one of a cheat does."""


TRIES: Mapping[RetryReason, int] = MappingProxyType(
    {
        RetryReason.BROKEN: 3,
        RetryReason.BROKE_DEVICE: 2,
        RetryReason.NOISY: 3,
        RetryReason.QUARANTINED: 2,
    }
)


@dataclass(frozen=True, kw_only=True)
class StepTry:
    """One try of a step."""

    number: int
    """From 1. From the second on a step uses no process that an earlier one has used."""
    left_s: float
    """Until the step as a whole has to be done."""

    @property
    def fresh(self) -> bool:
        """Whether every runner has to be a new one, the baseline's too."""
        return self.number > 1


@dataclass(frozen=True, kw_only=True)
class StepRetry:
    """The only retry policy between a source and its verdict. Times are the event loop's."""

    tries: Mapping[RetryReason, int] = field(default_factory=lambda: TRIES)
    """Tries at most, the first one included, by the reason of the last."""
    limit_s: float = 60.0
    """For all tries of a step: none is begun that would end later if it takes as long as the
    longest before it."""
    first_wait_s: float = 0.2
    """Before the second try; doubled for each one after it."""

    async def run(self, step: Callable[[StepTry], Awaitable[T]]) -> T:
        """Return what the last try of `step` returns, or raise what it raises."""
        from tenacity import AsyncRetrying, wait_exponential

        now_s = asyncio.get_running_loop().time
        began_s, longest_s, number = now_s(), 0.0, 0

        async def attempt() -> T:
            nonlocal longest_s, number
            at_s, number = now_s(), number + 1
            try:
                return await step(StepTry(number=number, left_s=began_s + self.limit_s - at_s))
            finally:
                longest_s = max(longest_s, now_s() - at_s)

        def is_worth_another(state: "RetryCallState") -> bool:
            reason = _reason_of(state)
            return reason is not None and state.attempt_number < self.tries.get(reason, 1)

        def is_out_of_time(_state: "RetryCallState") -> bool:
            return now_s() - began_s + longest_s > self.limit_s

        retrying = AsyncRetrying(
            retry=is_worth_another,
            stop=is_out_of_time,
            wait=wait_exponential(multiplier=self.first_wait_s),
            before_sleep=_report,
            retry_error_callback=_last,
        )
        return await retrying(attempt)

    async def settle(
        self, component: str, step: Callable[[StepTry], Awaitable[T]]
    ) -> T | InfraFailed:
        """Run `step`, and return machinery that stays broken as an InfraFailed of `component`.

        Raises what would end every other candidate too: MissingError, TaskError, DeviceLost; and
        bugs.
        """
        try:
            return await self.run(step)
        except DeviceLost:
            raise
        except BrokenByWork as error:
            return InfraFailed(component=error.component, detail=describe_error(error))
        except InfrastructureError as error:
            return InfraFailed(
                component=component,
                detail=describe_error(error),
                lacked_memory=isinstance(error, NoMemory),
            )


def reason_of(outcome: object) -> RetryReason | None:
    """Return why what a step returned or raised is worth another try; None where it is not."""
    match outcome:
        case DeviceLost():
            return None
        case BrokenByWork():
            return RetryReason.BROKE_DEVICE
        case InfrastructureError():
            return RetryReason.BROKEN
        case InfraFailed(component=component):
            return RetryReason.NOISY if component == NOISE else RetryReason.BROKEN
        case Quarantined():
            return RetryReason.QUARANTINED
    faults = getattr(outcome, "faults", {}).values()
    return next((reason for reason in map(reason_of, faults) if reason is not None), None)


def _reason_of(state: "RetryCallState") -> RetryReason | None:
    assert state.outcome is not None
    return reason_of(state.outcome.exception() or state.outcome.result())


def _last(state: "RetryCallState") -> Any:
    assert state.outcome is not None
    return state.outcome.result()


def _report(state: "RetryCallState") -> None:
    assert state.next_action is not None
    _log.info(
        "a step is tried again",
        number=state.attempt_number,
        reason=_reason_of(state),
        wait_s=state.next_action.sleep,
    )


OnStage = Callable[[str, str], None]
"""Called with a candidate's name and the stage it enters: `compile`, `validate`, `time`."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One candidate, its verdict and what it took."""

    name: str
    verdict: Verdict
    compiled: Compiled | None = None
    """None when it did not get through the compiler."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall time by stage: `compile`, `validate`, `time`."""
    isolation: str = ""
    """How its runner was confined on a GPU; empty where nothing ran, and on an emulated device."""
    published: PublishedCheck | None = None
    """What the check that is published with the task says; None where there is none."""


def ignore_stage(_name: str, _stage: str) -> None:
    """Do nothing: the `OnStage` of callers who show no progress."""


async def judge(
    bench: Bench,
    source: str,
    name: str = SOURCE_NAME,
    *,
    baseline: KernelTimes | Awaitable[KernelTimes],
    on_stage: OnStage = ignore_stage,
) -> Judged:
    """Judge one source file, which spots and diagnostics call `name`.

    A bad kernel is a verdict, and so is machinery that stays broken under it; see `Bench` for what
    raises. A `baseline` that is being timed is awaited only when it is needed, so that the baseline
    and the first candidates are worked on at the same time.
    """
    seconds: dict[str, float] = {}
    compiled, outcome = await check(bench, source, name, seconds=seconds, on_stage=on_stage)
    if compiled is not None and isinstance(outcome, Validated):
        with timed_stage(name, "time", seconds, on_stage):
            baseline_times = baseline if isinstance(baseline, KernelTimes) else await baseline
            outcome = require_positive_figures(
                await bench.profile(compiled, outcome, baseline_times)
            )
    assert not isinstance(outcome, Validated), "what is validated has been compiled"
    published = None
    if compiled is not None and isinstance(bench, PublishedBench):
        published = await bench.check_as_published(compiled, outcome)
    return Judged(
        name=name, verdict=outcome, compiled=compiled, seconds=seconds, published=published
    )


async def check(
    bench: Bench,
    source: str,
    name: str = SOURCE_NAME,
    *,
    seconds: MutableMapping[str, float] | None = None,
    on_stage: OnStage = ignore_stage,
) -> tuple[Compiled | None, Validated | Verdict]:
    """Compile and validate one source: return what it was compiled to, if it was, and the outcome.

    Writes the wall time of each stage into `seconds`.
    """
    noted = {} if seconds is None else seconds
    with timed_stage(name, "compile", noted, on_stage):
        compiled = await bench.compile(source, name)
    if not isinstance(compiled, Compiled):
        return None, compiled
    with timed_stage(name, "validate", noted, on_stage):
        return compiled, await bench.validate(compiled)


@contextmanager
def timed_stage(
    name: str, label: str, seconds: MutableMapping[str, float], on_stage: OnStage
) -> Iterator[None]:
    """Call `on_stage` as the stage begins, and write its wall time into `seconds`."""
    on_stage(name, label)
    started = time.monotonic()
    try:
        yield
    finally:
        seconds[label] = time.monotonic() - started


def require_positive_figures(verdict: Verdict) -> Verdict:
    """Return the verdict, or an InfraFailed where its times or speed-up are no numbers above zero.

    No clock gives such figures, so they are a fault of ours: a kernel must not win by them.
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
