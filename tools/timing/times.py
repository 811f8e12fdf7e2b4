"""Times of a candidate at every size: beside the baseline's, and weighted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import BaselineDoubt, ImpossibleTime, InfraFailed, Quarantined, Verdict
from cuda_llm.profile import Bottleneck, Compared, LaunchProfile, SizeProfile, SizeTime, TimeSource
from cuda_llm.tasks.objective import scoring_of
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Level, Session
from cuda_llm.tools.device.buffers import Role
from cuda_llm.tools.timing.comparison import Comparison
from cuda_llm.tools.timing.failures import ModelledCall, find_impossible, hidden_by_noise
from cuda_llm.tools.validator.buffers import buffer_specs
from cuda_llm.tools.validator.call_plans import order_timed_calls
from cuda_llm.tools.validator.cases import fresh_nonce, generator
from cuda_llm.tools.validator.check_case import CheckedCase, check_case, run_case
from cuda_llm.tools.validator.oracle import Oracle


@dataclass(frozen=True, kw_only=True)
class KernelTimes:
    """Times at every timed size, and the profile of the largest size."""

    times: tuple[tuple[Dims, float], ...]
    """Dims and microseconds, in the order of the task."""
    launches: tuple[LaunchProfile, ...]
    bottlenecks: tuple[Bottleneck, ...]
    """What limits it; of a modelled time all that was found (`CallReport.bottlenecks`)."""
    launched: Dims | None = None
    """The size that `launches` and `bottlenecks` are of; None: the last of `times`."""
    smaller: tuple[SizeProfile, ...] = ()
    """Profiles of the sizes below the largest, where they are known."""
    sizes: tuple[SizeTime, ...] = ()
    """Measured: each size beside the baseline that was timed with it; empty where modelled."""
    left_out: tuple[str, ...] = ()
    """Sizes that were not timed, with the reason, one line each."""
    notes: tuple[str, ...] = ()
    """How the times were obtained, as far as a reader of the verdict must know."""
    device: str = ""
    """Which of several devices measured; empty where there is one device."""
    hardware: str = ""
    """Name of the GPU; empty where all devices are of one kind."""
    isolation: str = ""
    """How runners were confined; empty where confinement was not tried."""
    spreads: tuple[float, ...] = ()
    """Modelled: relative half-width of each time, as far as blocks that stand for all tell; empty
    where all were executed."""
    baseline_us: tuple[float | None, ...] = ()
    """Modelled: microseconds of the baseline on the same inputs and blocks, by size; None where it
    was not executed there, and empty where all kernels of the task share them."""
    size_notes: tuple[str, ...] = ()
    """How each of `times` was obtained, by size; empty without a note."""
    operations: Mapping[str, float] | None = None
    """Operations at the last size by kind, as in a `CallReport`; None where not counted."""
    compared: tuple[Compared, ...] = ()
    """Modelled: what was compared of the outputs of each of `times`; empty where all were."""
    doubt: BaselineDoubt | None = None
    """About the baseline timed beside it: why that was timed once more."""

    def counted_calls(self) -> dict[int, ModelledCall]:
        """Return what was counted, by index of the size; -1: at a size that is not among them."""
        dims = [one for one, _ in self.times]
        last = len(dims) - 1
        if self.launched is not None:
            last = dims.index(self.launched) if self.launched in dims else -1
        calls = {
            one.size: ModelledCall(dims=dims[one.size], launches=one.launches)
            for one in self.smaller
        }
        told = ModelledCall(dims=self.launched or dims[last], launches=self.launches)
        return calls | {last: told}


def find_too_quick(
    task: Task,
    hardware: Hardware,
    dims: Mapping[str, int],
    measured: Comparison,
    *,
    l2_warm: bool,
) -> ImpossibleTime | InfraFailed | None:
    """Find a time below the physical floor: impossible where the most a call can have taken is too.

    Where a call may have taken longer than the floor, it is noise.
    """
    call_us, most_us = measured.first_us.value, measured.most_us
    at_most, at_best = (
        find_impossible(task, hardware, [(dims, time_us)], l2_warm=l2_warm)
        for time_us in (most_us, call_us)
    )
    if at_best is None or at_most is not None:
        return at_best
    size = ", ".join(f"{name} = {extent}" for name, extent in dims.items())
    return hidden_by_noise(
        f"at {size} calls seem to take {call_us:.3g} us, less than is possible, but may take "
        f"{most_us:.3g} us: other work on this machine holds up what is timed"
    )


async def time_sizes(
    task: Task,
    session: Session,
    oracle: Oracle,
    *,
    nonce: bytes | None = None,
    bench: bool = False,
    checks: bool = False,
    begins_small: bool = True,
) -> KernelTimes | Verdict:
    """Run each timed size, outputs verified; stop at the first that is wrong.

    These are the task's `bench` sizes where the device can take them, else its `emulated` ones, in
    any order. With `checks`, `solve` is called between them as well, at these sizes and at small
    ones, for its results alone: at a small one first if it `begins_small`. The inputs follow from
    `nonce`, fresh ones from none.
    """
    nonce = fresh_nonce() if nonce is None else nonce
    sizes = task.sizes.bench if bench else task.sizes.emulated
    reports: dict[int, CallReport] = {}
    steps = order_timed_calls(task, sizes, nonce, checks=checks, small=begins_small)
    for number, step in enumerate(steps):
        if step.timed is None:
            rng = generator(nonce, task.name, "between", number)
            checked = await check_case(task, session, step.case, oracle, rng, calls=step.plan)
            if not isinstance(checked, CheckedCase):
                return checked
            continue
        outcome = await run_case(
            task,
            session,
            step.case.dims,
            level=Level.ACCOUNT,
            oracle=oracle,
            nonce=nonce,
            calls=step.plan,
        )
        if not isinstance(outcome, CallReport):
            return outcome
        unseen = find_unseen_stores(task, step.case.dims, outcome)
        if unseen is not None:
            return unseen
        reports[step.timed] = outcome
    times = tuple((dims, reports[number].time_us) for number, dims in enumerate(sizes))
    largest = reports[len(sizes) - 1]
    return KernelTimes(
        times=times,
        launches=largest.launches,
        bottlenecks=largest.bottlenecks,
        smaller=profiles_below(len(sizes) - 1, reports),
        operations=largest.operations,
    )


def profiles_below(last: int, reports: Mapping[int, CallReport]) -> tuple[SizeProfile, ...]:
    """Return what limits each size but `last`, by the reports of their calls."""
    return tuple(
        SizeProfile(
            size=number,
            launches=reports[number].launches,
            bottlenecks=reports[number].bottlenecks,
        )
        for number in sorted(reports)
        if number != last
    )


def find_unseen_stores(task: Task, dims: Dims, report: CallReport) -> Quarantined | None:
    """Find a call that was seen to store fewer bytes than its outputs, which are right, have."""
    if report.stored_bytes is not None and report.stored_bytes < bytes_written(task, dims):
        return Quarantined(kind="unseen-stores")
    return None


def bytes_written(task: Task, dims: Dims) -> int:
    """Return the bytes of all outputs that arrive empty."""
    return sum(one.nbytes for one in buffer_specs(task, dims) if one.role is Role.OUT)


def compare_with_baseline(
    timing: KernelTimes, baseline: KernelTimes, source: TimeSource
) -> tuple[SizeTime, ...]:
    """Put each size beside the baseline's time: that of the same inputs, where there is one."""
    if timing.sizes:
        return timing.sizes
    none = (0.0,) * len(timing.times)
    rows = zip(
        timing.times,
        baseline.times,
        timing.baseline_us or (None,) * len(none),
        timing.spreads or none,
        timing.size_notes or ("",) * len(none),
        timing.compared or (None,) * len(none),
        strict=True,
    )
    return tuple(
        SizeTime(
            dims=dims,
            time_us=time_us,
            baseline_us=baseline_us if beside_us is None else beside_us,
            source=source,
            spread=spread,
            note=note,
            compared=compared,
        )
        for (dims, time_us), (_, baseline_us), beside_us, spread, note, compared in rows
    )


def score_of(task: Task, sizes: Sequence[SizeTime]) -> float | None:
    """Return the score of the sizes' speed-ups; None where a size has no speed-up."""
    speedups = [size.speedup for size in sizes if size.speedup is not None]
    if not speedups or len(speedups) != len(sizes):
        return None
    return scoring_of(task, [size.dims for size in sizes]).score(speedups)
