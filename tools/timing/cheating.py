"""Finds kernels whose time of a call depends on how many calls are timed, or on knowledge of the
next call."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.outcomes import InfraFailed, Quarantined, Verdict
from cuda_llm.tools.timing.batches import EMPTY, INCUMBENT, BatchRules, run_batch
from cuda_llm.tools.timing.clocks import was_throttled
from cuda_llm.tools.timing.comparison import QUICK_RESAMPLES, compare_blocks
from cuda_llm.tools.timing.excess import (
    ALLOWED_START_US,
    ALLOWED_START_WITH_HOST_US,
    MergedCalls,
    StepwiseBatches,
    UnevenStart,
    find_merged_calls,
    find_uneven_start,
    stepwise_call_us,
)
from cuda_llm.tools.timing.failures import fault_of_trusted, hidden_by_noise
from cuda_llm.tools.timing.slope import LONGEST_BATCH_US, BatchBlock, usual_slope_us
from cuda_llm.tools.timing.slots import PreparedKernel
from cuda_llm.tools.timing.verify import find_overwritten

STEPWISE_BUDGET_S = 0.3
"""Seconds of calls for one kernel: slow calls get fewer batches, as their noise is smaller beside
them."""
MOST_STEPWISE_CALLS = 64
"""Largest number of calls of a batch whose keys are released step by step."""
FEWEST_ROUNDS = 6
LOOK_EVERY = 4
"""Rounds between two looks: a kernel that clearly merges no calls is let go before the last."""

Kernels = Mapping[int, PreparedKernel]
"""Kernels in slots of one size, by number: one that is judged, `EMPTY`, and the incumbent where it
is the baseline."""

FEWEST_STEPWISE_BLOCKS = 3
"""A slope from fewer is not known well enough to be compared. Only kernels of milliseconds have so
few blocks, and they gain nothing by merging calls."""
BLOCKS_TO_QUARANTINE = 12
"""Outliers of a machine may be most of three blocks, but not of these."""
MOST_UNSURE_BLOCKS = 24
"""Largest number of blocks while noise leaves the answer open; more blocks would hardly help."""


@dataclass(frozen=True, kw_only=True)
class StepwiseSeconds:
    """Seconds of batches of `calls` calls, by number of the kernel."""

    calls: int
    seconds: Mapping[int, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class StepwiseRound:
    """Seconds of one stepwise batch of each kernel."""

    seconds: Mapping[int, float]
    throttled: bool


@dataclass(frozen=True, kw_only=True)
class NoStepwise:
    """Why keys cannot be released step by step on this machine."""

    why: str


def count_stepwise_calls(slots: int, call_us: float) -> int:
    """Return how many calls a stepwise batch has where a call takes `call_us`."""
    return max(1, min(MOST_STEPWISE_CALLS, slots, int(LONGEST_BATCH_US / max(call_us, 1.0))))


async def run_stepwise(
    kernels: Kernels,
    numbers: Sequence[int],
    rules: BatchRules,
    rounds: int,
    calls: int,
    call_us: float,
    is_clear: Callable[[StepwiseSeconds], bool],
) -> StepwiseSeconds | NoStepwise | Verdict:
    """Run batches of each of `numbers`, in random order round by round.

    It ends early where those so far are clear. Each call of a candidate is verified. Raises
    TaskError or InfrastructureError where the baseline is at fault.
    """
    empty = kernels[EMPTY]
    first = await run_batch(empty, calls, rules, solve=False, stepwise=True)
    if not isinstance(first, float):
        # Only the trusted runner is asked: a candidate's process could claim anything.
        why = empty.session.not_stepwise
        return NoStepwise(why=why) if why else fault_of_trusted(empty.input_plan.task, first)
    rounds = min(
        rounds, max(FEWEST_ROUNDS, int(STEPWISE_BUDGET_S * 1e6 / (calls * max(call_us, 1.0))))
    )
    done: list[StepwiseRound] = []
    for _ in range(rounds):
        one = await run_stepwise_round(kernels, numbers, calls, rules)
        if not isinstance(one, StepwiseRound):
            return one
        done.append(one)
        if len(done) % LOOK_EVERY == 0 and is_clear(calm_seconds(done, numbers, calls)):
            break
    return calm_seconds(done, numbers, calls)


def calm_seconds(
    done: Sequence[StepwiseRound], numbers: Sequence[int], calls: int
) -> StepwiseSeconds:
    """Return the seconds of rounds that were not throttled, of all where all were."""
    calm = [one for one in done if not one.throttled] or done
    return StepwiseSeconds(
        calls=calls,
        seconds={number: tuple(one.seconds[number] for one in calm) for number in numbers},
    )


async def run_stepwise_round(
    kernels: Kernels, numbers: Sequence[int], calls: int, rules: BatchRules
) -> StepwiseRound | Verdict:
    """Run one stepwise batch of each kernel, in random order."""
    before = rules.read_clocks()
    seconds: dict[int, float] = {}
    for number in rules.rng.permutation(list(numbers)).tolist():
        took = await run_stepwise_batch(kernels, number, calls, rules)
        if not isinstance(took, float):
            return took
        seconds[number] = took
    return StepwiseRound(seconds=seconds, throttled=was_throttled(before, rules.read_clocks()))


async def run_stepwise_batch(
    kernels: Kernels, number: int, calls: int, rules: BatchRules
) -> float | Verdict:
    """Run one batch whose keys are released step by step; the batch of `EMPTY` has no calls.

    Raises TaskError or InfrastructureError where a trusted kernel is at fault, but for memory that
    it does not find beside the candidate.
    """
    kernel = kernels[number]
    took = await run_batch(kernel, calls, rules, solve=number != EMPTY, stepwise=True)
    if isinstance(took, float) or not kernel.trusted:
        return took
    return fault_of_trusted(kernel.input_plan.task, took)


@dataclass(frozen=True, kw_only=True)
class NoCheating:
    """No cheating was found, as far as it was looked for."""

    stepwise_us: float | None = None
    """Time of a call whose inputs are unknown before; None where not measured."""
    note: str = ""
    """Why it was not measured, where it should have been."""
    is_clear: bool = False
    """Return whether stepwise calls took no longer than is allowed, by a standard error and more.
    """


def is_answered(found: Verdict | NoCheating) -> bool:
    """Return whether more blocks would tell no more of a kernel's calls."""
    if isinstance(found, NoCheating):
        return found.is_clear
    return not isinstance(found, Quarantined | InfraFailed)


async def check_merged_calls(
    kernels: Kernels, number: int, blocks: Sequence[BatchBlock], rules: BatchRules, rounds: int
) -> Verdict | NoCheating:
    """Compare slopes of a kernel with calls whose keys are released step by step."""
    comparison = compare_blocks(blocks, resamples=QUICK_RESAMPLES)
    own_us, usual_us = comparison.first_us.value, comparison.second_us.value
    calls = count_stepwise_calls(len(kernels[number].slots), own_us)
    # A slow baseline would leave a quick kernel batches of few calls, which show little.
    quick = calls * usual_us <= 2 * LONGEST_BATCH_US
    beside_usual = quick and is_usual(kernels) and not kernels[INCUMBENT].includes_host
    numbers = [number, EMPTY, *([INCUMBENT] if beside_usual else [])]

    def batches_of(found: StepwiseSeconds) -> StepwiseBatches:
        return StepwiseBatches(
            calls=found.calls,
            own=found.seconds[number],
            empty=found.seconds[EMPTY],
            usual=found.seconds[INCUMBENT] if beside_usual else (),
            usual_call_us=usual_us,
        )

    def find_merged(found: StepwiseSeconds) -> MergedCalls:
        own, empty = [block.first for block in blocks], [block.empty for block in blocks]
        return find_merged_calls(batches_of(found), own, empty)

    found = await run_stepwise(
        kernels, numbers, rules, rounds, calls, own_us, lambda so_far: find_merged(so_far).is_clear
    )
    if isinstance(found, NoStepwise):
        return NoCheating(note=f"merged calls were not looked for: {found.why}")
    if not isinstance(found, StepwiseSeconds):
        return found
    merged = find_merged(found)
    verdict = find_overwritten(kernels[number]) or merging_verdict(merged)
    stepwise_us = stepwise_call_us(batches_of(found))
    return verdict or NoCheating(stepwise_us=stepwise_us, is_clear=merged.is_clear)


def is_usual(kernels: Kernels) -> bool:
    """Return whether the baseline's calls run beside the kernel, in the session of `EMPTY`: then
    they show what a trusted kernel's batches take."""
    return kernels.get(INCUMBENT) is kernels[EMPTY]


def merging_verdict(found: MergedCalls) -> Quarantined | InfraFailed | None:
    """Return the verdict on the candidate; None where it does not merge calls."""
    if found.is_sure:
        return merged_calls_verdict(found.beyond_us - found.noise_us)
    return noisy_merging_verdict(found.beyond_us) if found.is_vague else None


def noisy_merging_verdict(beyond_us: float) -> InfraFailed:
    """Return the verdict where noise hides whether the kernel does that."""
    return hidden_by_noise(
        "a call of which nothing is known before the one before it has ended seems to take "
        f"{beyond_us:.1f} us longer than one of a batch, but other work on this machine makes as "
        "much difference"
    )


def merged_calls_verdict(beyond_us: float) -> Quarantined:
    """Return the verdict on a kernel whose times look like those of merged calls."""
    return Quarantined(kind="merged-calls", beyond_us=beyond_us)


def needs_more_blocks(kernels: Kernels, number: int, blocks: Sequence[BatchBlock]) -> bool:
    """Tell whether batches of a kernel seem to start slowly, but too few blocks show it."""
    if len(blocks) >= MOST_UNSURE_BLOCKS:
        return False
    found = uneven_start_of(kernels, number, blocks)
    return found.seems_so and (len(blocks) < BLOCKS_TO_QUARANTINE or not found.is_sure)


async def find_cheating(
    kernels: Kernels, number: int, blocks: Sequence[BatchBlock], rules: BatchRules, rounds: int
) -> Verdict | NoCheating:
    """Compare a kernel's short batches with long batches and, with `rounds`, slopes with stepwise
    calls.

    A stepwise call's key is released when the previous call is over. `blocks` are the kernel's.
    """
    found = uneven_start_of(kernels, number, blocks)
    if found.seems_so:
        verdict_for = uneven_start_verdict if found.is_sure else noisy_start_verdict
        return verdict_for(found.beyond_us)
    if not rounds or len(blocks) < FEWEST_STEPWISE_BLOCKS or kernels[number].includes_host:
        return NoCheating()
    return await check_merged_calls(kernels, number, blocks, rules, rounds)


def uneven_start_of(kernels: Kernels, number: int, blocks: Sequence[BatchBlock]) -> UnevenStart:
    """Return what `find_uneven_start` finds in the batches of a kernel."""
    empties = [block.empty for block in blocks]
    trusted = [empties]
    trusted += [[block.second for block in blocks]] if is_usual(kernels) else []
    includes_host = kernels[number].includes_host
    return find_uneven_start(
        [block.first for block in blocks],
        trusted,
        usual_slope_us(empties),
        allowed_us=ALLOWED_START_WITH_HOST_US if includes_host else ALLOWED_START_US,
    )


def uneven_start_verdict(beyond_us: float) -> Quarantined:
    """Return the verdict on a kernel whose batches start slowly; no honest kernel is known to."""
    return Quarantined(kind="slow-start", beyond_us=beyond_us)


def noisy_start_verdict(beyond_us: float) -> InfraFailed:
    """Return the verdict where noise hides whether the kernel does that."""
    return hidden_by_noise(
        f"the first calls of a batch seem to take {beyond_us:.0f} us longer than can be explained, "
        "but other work on this machine holds up trusted batches as much"
    )
