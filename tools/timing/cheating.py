"""Finds kernels whose time of a call depends on how many calls are timed, or on knowledge of the
next call."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.outcomes import InfraFailed, Quarantined, Verdict
from cuda_llm.tools.timing.blocks import (
    BatchRules,
    ComparedKernels,
    MeasurementFault,
    fault_of,
    run_batch,
)
from cuda_llm.tools.timing.clocks import was_throttled
from cuda_llm.tools.timing.comparison import Comparison
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
from cuda_llm.tools.timing.failures import hidden_by_noise
from cuda_llm.tools.timing.slope import LONGEST_BATCH_US, BatchBlock, usual_slope_us
from cuda_llm.tools.timing.stopping import StoppingRule
from cuda_llm.tools.timing.verify import find_overwritten

STEPWISE_BUDGET_S = 0.3
"""Seconds of calls for one kernel: slow calls get fewer batches, as their noise is smaller beside
them."""
MOST_STEPWISE_CALLS = 64
"""Largest number of calls of a batch whose keys are released step by step."""
FEWEST_ROUNDS = 6
LOOK_EVERY = 4
"""Rounds between two looks: a kernel that clearly merges no calls is let go before the last."""


@dataclass(frozen=True, kw_only=True)
class StepwiseSeconds:
    """Seconds of batches of `calls` calls, by name of the kernel."""

    calls: int
    seconds: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class StepwiseRound:
    """Seconds of one stepwise batch of each kernel."""

    seconds: Mapping[str, float]
    throttled: bool


@dataclass(frozen=True, kw_only=True)
class NoStepwise:
    """Why keys cannot be released step by step on this machine."""

    why: str


def count_stepwise_calls(slots: int, call_us: float) -> int:
    """Return how many calls a stepwise batch has where a call takes `call_us`."""
    return max(1, min(MOST_STEPWISE_CALLS, slots, int(LONGEST_BATCH_US / max(call_us, 1.0))))


async def run_stepwise(
    kernels: ComparedKernels,
    names: Sequence[str],
    rules: BatchRules,
    rounds: int,
    calls: int,
    call_us: float,
    is_clear: Callable[[StepwiseSeconds], bool],
) -> StepwiseSeconds | NoStepwise | MeasurementFault:
    """Run batches of each of `names`, in random order round by round; `empty` has no calls.

    It ends early where those so far are clear. Each call of a candidate is verified. Raises
    TaskError or InfrastructureError where the baseline is at fault.
    """
    first = await run_stepwise_batch(kernels, "empty", calls, rules)
    if not isinstance(first, float):
        # Only the trusted runner is asked: a candidate's process could claim anything.
        why = kernels.ground.session.not_stepwise
        return NoStepwise(why=why) if why else fault_of(kernels, "empty", first)
    rounds = min(
        rounds, max(FEWEST_ROUNDS, int(STEPWISE_BUDGET_S * 1e6 / (calls * max(call_us, 1.0))))
    )
    done: list[StepwiseRound] = []
    for _ in range(rounds):
        one = await run_stepwise_round(kernels, names, calls, rules)
        if isinstance(one, MeasurementFault):
            return one
        done.append(one)
        if len(done) % LOOK_EVERY == 0 and is_clear(calm_seconds(done, names, calls)):
            break
    return calm_seconds(done, names, calls)


def calm_seconds(
    done: Sequence[StepwiseRound], names: Sequence[str], calls: int
) -> StepwiseSeconds:
    """Return the seconds of rounds that were not throttled, of all where all were."""
    calm = [one for one in done if not one.throttled] or done
    return StepwiseSeconds(
        calls=calls, seconds={name: tuple(one.seconds[name] for one in calm) for name in names}
    )


async def run_stepwise_round(
    kernels: ComparedKernels, names: Sequence[str], calls: int, rules: BatchRules
) -> StepwiseRound | MeasurementFault:
    """Run one stepwise batch of each kernel, in random order."""
    before = rules.read_clocks()
    seconds: dict[str, float] = {}
    for name in rules.rng.permutation(list(names)):
        took = await run_stepwise_batch(kernels, str(name), calls, rules)
        if not isinstance(took, float):
            return fault_of(kernels, str(name), took)
        seconds[str(name)] = took
    return StepwiseRound(seconds=seconds, throttled=was_throttled(before, rules.read_clocks()))


async def run_stepwise_batch(
    kernels: ComparedKernels, name: str, calls: int, rules: BatchRules
) -> float | Verdict:
    """Run one batch whose keys are released step by step; the batch of `empty` has no calls."""
    trusted = {"empty": kernels.ground, "second": kernels.baseline}
    kernel = trusted.get(name, kernels.first)
    return await run_batch(kernel, calls, rules, solve=name != "empty", stepwise=True)


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


def is_answered(found: MeasurementFault | NoCheating) -> bool:
    """Return whether more blocks would tell no more of a kernel's calls."""
    if isinstance(found, NoCheating):
        return found.is_clear
    return not isinstance(found.verdict, Quarantined | InfraFailed)


async def check_merged_calls(
    kernels: ComparedKernels,
    blocks: Sequence[BatchBlock],
    rules: BatchRules,
    rounds: int,
    comparison: Comparison,
) -> MeasurementFault | NoCheating:
    """Compare slopes of the candidate with calls whose keys are released step by step.

    `comparison` is of `blocks`.
    """
    own_us, usual_us = comparison.first_us.value, comparison.second_us.value
    calls = count_stepwise_calls(kernels.slots, own_us)
    # A slow baseline would leave a quick kernel batches of few calls, which show little.
    quick = calls * usual_us <= 2 * LONGEST_BATCH_US
    usual = kernels.beside_baseline and not kernels.baseline.includes_host
    usual = usual and kernels.ground is kernels.baseline
    names = ["first", "empty", *(["second"] if usual and quick else [])]

    def find_merged(batches: StepwiseSeconds) -> MergedCalls:
        stepwise = stepwise_batches(batches, usual_us)
        own, empty = [block.first for block in blocks], [block.empty for block in blocks]
        return find_merged_calls(stepwise, own, empty)

    batches = await run_stepwise(
        kernels, names, rules, rounds, calls, own_us, lambda so_far: find_merged(so_far).is_clear
    )
    if isinstance(batches, MeasurementFault):
        return batches
    if isinstance(batches, NoStepwise):
        return NoCheating(note=f"merged calls were not looked for: {batches.why}")
    found = find_merged(batches)
    verdict = find_overwritten(kernels.first) or merging_verdict(found)
    if verdict is not None:
        return MeasurementFault(which="first", verdict=verdict)
    stepwise_us = stepwise_call_us(stepwise_batches(batches, usual_us))
    return NoCheating(stepwise_us=stepwise_us, is_clear=found.is_clear)


def stepwise_batches(batches: StepwiseSeconds, usual_us: float) -> StepwiseBatches:
    """Return the batches of the candidate, and of the baseline, a call of which has a slope."""
    return StepwiseBatches(
        calls=batches.calls,
        own=batches.seconds["first"],
        empty=batches.seconds["empty"],
        usual=batches.seconds.get("second", ()),
        usual_call_us=usual_us,
    )


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


FEWEST_STEPWISE_BLOCKS = 3
"""A slope from fewer is not known well enough to be compared. Only kernels of milliseconds have so
few blocks, and they gain nothing by merging calls."""

BLOCKS_TO_QUARANTINE = 12
"""Outliers of a machine may be most of three blocks, but not of these."""
MOST_UNSURE_BLOCKS = 24
"""Largest number of blocks while noise leaves the answer open; more blocks would hardly help."""


def needs_more_blocks(kernels: ComparedKernels, blocks: Sequence[BatchBlock]) -> bool:
    """Tell whether batches of a kernel seem to start slowly, but too few blocks show it."""
    if len(blocks) >= MOST_UNSURE_BLOCKS:
        return False
    found = uneven_start_of(kernels, blocks)
    return found.seems_so and (len(blocks) < BLOCKS_TO_QUARANTINE or not found.is_sure)


async def find_cheating(
    kernels: ComparedKernels,
    blocks: Sequence[BatchBlock],
    rules: BatchRules,
    rule: StoppingRule,
    comparison: Comparison,
) -> MeasurementFault | NoCheating:
    """Compare short batches with long batches and, where the rule asks for it, slopes with stepwise
    calls.

    A stepwise call's key is released when the previous call is over. `comparison` is of the same
    blocks.
    """
    found = uneven_start_of(kernels, blocks)
    if found.seems_so:
        verdict_for = uneven_start_verdict if found.is_sure else noisy_start_verdict
        return MeasurementFault(which="first", verdict=verdict_for(found.beyond_us))
    few = len(blocks) < FEWEST_STEPWISE_BLOCKS
    if not rule.stepwise or few or kernels.first.includes_host:
        return NoCheating()
    return await check_merged_calls(kernels, blocks, rules, rule.stepwise, comparison)


def uneven_start_of(kernels: ComparedKernels, blocks: Sequence[BatchBlock]) -> UnevenStart:
    """Return what `find_uneven_start` finds in the batches of a comparison."""
    empties = [block.empty for block in blocks]
    trusted = [empties]
    usual = kernels.beside_baseline and kernels.ground is kernels.baseline
    trusted += [[block.second for block in blocks]] if usual else []
    includes_host = kernels.first.includes_host
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
