"""Which steps are made again, how often, and until when."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from simulated_loop import run_simulated

from cuda_llm.errors import (
    BrokenByWork,
    DeviceLost,
    InfrastructureError,
    InternalError,
    MemberLost,
    MissingError,
    NoMemory,
    TaskError,
    WorkerLost,
)
from cuda_llm.outcomes import InfraFailed, Quarantined, TimedOut, Verdict
from cuda_llm.tools.judge.duel import lost_by_fault
from cuda_llm.tools.judge.judge import TRIES, RetryReason, StepRetry, StepTry, reason_of
from cuda_llm.tools.timing.failures import hidden_by_noise

BROKEN = InfraFailed(component="compiler", detail="the disk is full")
NOISE = hidden_by_noise("too noisy")
SUSPECTED = Quarantined(kind="slow-start")
WORKER_GONE = WorkerLost("worker", "node-3 is gone: killed")
ONE_LOST = MemberLost("device", "cuda:1 is in quarantine; 3 devices are left")
WRONG = TimedOut(stage="kernel", limit_s=10)
Way = Verdict | Exception


def step_of(
    *ways: Way, lasts_s: float = 0.0
) -> tuple[Callable[[StepTry], Awaitable[Verdict]], list[StepTry]]:
    """A step that ends one way after the other, the last one for good; and its tries."""
    tries: list[StepTry] = []

    async def step(trial: StepTry) -> Verdict:
        tries.append(trial)
        await asyncio.sleep(lasts_s)
        way = ways[min(len(tries), len(ways)) - 1]
        if isinstance(way, Exception):
            raise way
        return way

    return step, tries


def settled(*ways: Way, lasts_s: float = 0.0) -> tuple[Verdict, list[StepTry]]:
    step, tries = step_of(*ways, lasts_s=lasts_s)
    outcome, _ = run_simulated(StepRetry().settle("profiler", step))
    return outcome, tries


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        (BROKEN, RetryReason.BROKEN),
        (InfrastructureError("runner", "did not start"), RetryReason.BROKEN),
        (BrokenByWork("device", "cuda:0: no sign of life"), RetryReason.BROKE_DEVICE),
        (NOISE, RetryReason.NOISY),
        (SUSPECTED, RetryReason.QUARANTINED),
        (WORKER_GONE, RetryReason.WORKER_LOST),
    ],
)
def test_each_reason_has_its_tries_and_no_more(way: Way, reason: RetryReason) -> None:
    assert reason_of(way) is reason
    outcome, tries = settled(way)
    assert len(tries) == TRIES[reason]
    assert isinstance(outcome, InfraFailed) or outcome == SUSPECTED


@pytest.mark.parametrize("first", [BROKEN, NOISE, SUSPECTED, InfrastructureError("jail", "gone")])
def test_what_the_next_try_says_counts(first: Way) -> None:
    outcome, tries = settled(first, WRONG)
    assert outcome == WRONG
    assert [one.number for one in tries] == [1, 2]
    assert [one.fresh for one in tries] == [False, True]


def test_a_verdict_on_the_kernel_is_final() -> None:
    outcome, tries = settled(WRONG)
    assert outcome == WRONG
    assert len(tries) == 1


def test_a_kernel_quarantined_after_a_noisy_try_is_not_tried_a_third_time() -> None:
    outcome, tries = settled(NOISE, SUSPECTED)
    assert outcome == SUSPECTED
    assert len(tries) == 2


@pytest.mark.parametrize("gone", [WORKER_GONE, ONE_LOST])
def test_a_try_that_is_lost_with_its_device_counts_as_none(gone: Exception) -> None:
    outcome, tries = settled(gone, SUSPECTED, WRONG)
    assert outcome == WRONG
    assert len(tries) == 3
    outcome, tries = settled(BROKEN, BROKEN, gone, BROKEN)
    assert outcome == BROKEN
    assert len(tries) == 4


@pytest.mark.parametrize("gone", [WORKER_GONE, ONE_LOST])
def test_the_time_until_a_device_is_known_to_be_lost_is_not_the_steps(gone: Exception) -> None:
    outcome, tries = settled(gone, WRONG, lasts_s=120.0)
    assert outcome == WRONG
    assert tries[1].left_s == pytest.approx(60 - StepRetry().first_wait_s)


def test_a_work_that_costs_one_worker_after_the_other_is_given_up() -> None:
    outcome, tries = settled(WORKER_GONE)
    assert outcome == InfraFailed(component="worker", detail="worker: node-3 is gone: killed")
    assert len(tries) == 3


def test_every_device_of_a_group_may_be_lost_but_the_last() -> None:
    outcome, tries = settled(*[ONE_LOST] * 7, WRONG)
    assert outcome == WRONG
    assert len(tries) == 8


def test_a_duel_in_which_one_is_quarantined_is_tried_again() -> None:
    lost = lost_by_fault("second", SUSPECTED, "measured")
    assert reason_of(lost) is RetryReason.QUARANTINED
    assert reason_of(lost_by_fault("first", WRONG, "measured")) is None


def test_what_stays_broken_is_data_of_the_step() -> None:
    outcome, _ = settled(InfrastructureError("runner", "did not start"))
    assert outcome == InfraFailed(component="profiler", detail="runner: did not start")
    outcome, _ = settled(BrokenByWork("device", "cuda:0: no sign of life"))
    assert outcome == InfraFailed(component="device", detail="device: cuda:0: no sign of life")
    outcome, _ = settled(NoMemory("gpu_host", "all is taken"))
    assert outcome == InfraFailed(
        component="profiler", detail="gpu_host: all is taken", lacked_memory=True
    )


@pytest.mark.parametrize(
    "error",
    [
        DeviceLost("device", "quarantine"),
        MissingError("no nvcc", "install it"),
        TaskError("bad task"),
        InternalError("referee: ZeroDivisionError"),
        ZeroDivisionError("a bug"),
        OSError("a pipe of ours"),
    ],
)
def test_bugs_and_what_no_candidate_could_escape_are_raised_at_once(error: Exception) -> None:
    step, tries = step_of(error)
    with pytest.raises(type(error), match=str(error)):
        run_simulated(StepRetry().settle("profiler", step))
    assert len(tries) == 1


def test_no_try_is_begun_that_would_end_after_the_limit() -> None:
    outcome, tries = settled(NOISE, lasts_s=31.0)
    assert outcome == NOISE
    assert len(tries) == 1
    _, tries = settled(NOISE, lasts_s=25.0)
    assert len(tries) == 2
    assert tries[1].left_s == pytest.approx(60 - 25 - StepRetry().first_wait_s)


def test_between_tries_it_waits_a_little_longer_each_time() -> None:
    step, tries = step_of(BROKEN)
    _, took_s = run_simulated(StepRetry().settle("compiler", step))
    assert len(tries) == 3
    assert took_s == pytest.approx(0.2 + 0.4)


def test_where_no_candidate_has_a_verdict_the_last_error_is_raised() -> None:
    step, tries = step_of(InfrastructureError("runner", "did not start"))
    with pytest.raises(InfrastructureError, match="did not start"):
        run_simulated(StepRetry().run(step))
    assert len(tries) == 3
