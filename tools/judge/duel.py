"""Which kernels beat the incumbent: measured together on one GPU, or as the model says."""

import asyncio
import math
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.profile import TimeSource
from cuda_llm.tasks.objective import scoring_of
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device, Session, Site, Work
from cuda_llm.tools.device.candidate import Baseline, Compiled, ground_of
from cuda_llm.tools.judge.compile import compile_baseline
from cuda_llm.tools.judge.modelled_times import time_calls_there
from cuda_llm.tools.timing.batches import INCUMBENT
from cuda_llm.tools.timing.comparison import decide_outcome
from cuda_llm.tools.timing.contest import ContestResult, Duel, DuelSize, hold_contest
from cuda_llm.tools.timing.failures import FailedCase, hidden_by_noise
from cuda_llm.tools.timing.measurement import (
    know_baseline,
    open_measurement,
    require_baseline,
    require_timed,
)
from cuda_llm.tools.timing.options import MeasureOptions, Tier
from cuda_llm.tools.timing.room import plan_timing, within_memory
from cuda_llm.tools.timing.times import KernelTimes

FIXED_RUNNERS = 2
"""Those of the incumbent, and of the baseline for what is not `solve`."""
DUEL_LIMIT_S = 60.0  # for a contest, from when it has the device: all kernels and sizes together
MODELLED_TIE = 0.001
"""Relative difference that modelled times must exceed to count."""
SEPARATE_TIE = 0.05
"""The same for times measured one after the other: equal kernels differ by about as much."""


@dataclass(frozen=True, kw_only=True)
class Contest:
    """The outcome for each contender beside one incumbent."""

    duels: tuple[Duel | InfraFailed, ...]
    """In the order of the contenders; of the first ones, where memory has no room for all."""
    fastest: int | None = None
    """Place of the one that is faster than the incumbent, and whose calls were looked at."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """See `ContestResult`."""

    @property
    def faults(self) -> dict[str, Verdict]:
        """Return the verdicts of all that were found at fault."""
        found: dict[str, Verdict] = {}
        for place, one in enumerate(self.duels):
            own = {"first": one} if isinstance(one, InfraFailed) else one.faults
            found |= {f"{place} {which}": verdict for which, verdict in own.items()}
        return found

    def looked_at(self, order: "ContestOrder") -> set[str]:
        """Return the keys of kernels whose calls were looked at, and without a fault."""
        if self.fastest is not None:
            return {order.contenders[self.fastest].key}
        return set() if self.faults else {order.incumbent.key}


@dataclass(frozen=True, kw_only=True)
class ContestOrder:
    """Who is to be timed together, and how."""

    contenders: tuple[Compiled, ...]
    incumbent: Compiled
    options: MeasureOptions = field(default_factory=lambda: MeasureOptions(tier=Tier.CONFIRM))
    nonce: bytes | None = None
    """Of the inputs, where times are modelled."""
    fresh: bool = False
    """The baseline's runner is a new one."""
    limit_s: float = DUEL_LIMIT_S
    """On the device: what is still vague well before that is decided by what is known."""
    prove_incumbent: bool = True
    """Where it stays its calls are looked at, as those of a contender that wins are."""


async def contest(task: Task, device: Device, order: ContestOrder) -> Contest | InfraFailed:
    """Time compiled kernels together with the one they would replace, every timed output verified.

    An InfraFailed where the machine is too noisy to tell, or where it took longer than the limit. A
    modelled device follows from the times it models. Raises TaskError where the task's baseline or
    reference is broken.
    """
    baseline = await compile_baseline(task, device.hardware.target)
    return await device.carry_out(Work.of(contest_there, task, order, baseline))


async def duel(
    task: Task,
    device: Device,
    first: Compiled,
    second: Compiled,
    *,
    options: MeasureOptions | None = None,
) -> Duel | InfraFailed:
    """Hold a contest of one contender; see there."""
    options = options or MeasureOptions(tier=Tier.CONFIRM)
    order = ContestOrder(contenders=(first,), incumbent=second, options=options)
    found = await contest(task, device, order)
    return found if isinstance(found, InfraFailed) else found.duels[0]


async def contest_there(
    site: Site, task: Task, order: ContestOrder, baseline: Baseline
) -> Contest | InfraFailed:
    """See `contest`. The baseline's runner times what is not `solve`."""
    if not site.capabilities.duels:
        return await contest_by_model(site, task, order, baseline)
    try:
        async with asyncio.timeout(order.limit_s) as limit:
            work = partial(contest_measured, site, task, order, baseline)
            found = await within_memory(site, task, work)
    except TimeoutError:
        if not limit.expired():
            raise
        spent = f"{order.limit_s:.3g} s"
        return hidden_by_noise(f"no kernel was found faster than another within {spent}")
    if isinstance(found, InfraFailed):
        return found
    together = len(found.ended.keys() | found.faults.keys())
    count = len(order.contenders) if INCUMBENT in found.faults else together
    duels = tuple(duel_of(found, place) for place in range(count))
    return Contest(duels=duels, fastest=found.fastest, seconds=found.seconds)


def count_together(site: Site, task: Task, contenders: int) -> int:
    """Return how many of them have room beside each other at every size at which one has.

    Raises TaskError where the task's reference is broken.
    """
    plans = [plan_timing(site, task, runners=FIXED_RUNNERS + k) for k in range(1, contenders + 1)]
    return max(k for k, one in enumerate(plans, 1) if len(one.sizes) == len(plans[0].sizes))


async def contest_measured(
    site: Site, task: Task, order: ContestOrder, baseline: Baseline
) -> ContestResult | InfraFailed:
    """Open as many kernels as fit beside each other, and time them at each size that fits."""
    contenders = order.contenders[: count_together(site, task, len(order.contenders))]
    runners = FIXED_RUNNERS + len(contenders)
    now_s = asyncio.get_running_loop().time
    begun_s = now_s()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        measurement = await enter(
            open_measurement(
                site, task, baseline, order.options, runners=runners, limit_s=order.limit_s
            )
        )
        if not measurement.plan.sizes:
            return InfraFailed(component="device", detail="; ".join(measurement.plan.left_out))
        known = await enter(site.open(order.incumbent))
        if not isinstance(known, Session):
            return ContestResult(ended={}, faults={INCUMBENT: known})
        opened = [await enter(site.open(one)) for one in contenders]
        if not isinstance(baseline, Compiled):
            await know_baseline(measurement, baseline)
        open_trusted = site.open if order.fresh else site.open_cached
        trusted = await enter(open_trusted(ground_of(baseline) or baseline))
        opened_s = now_s() - begun_s
        found = await hold_contest(
            measurement,
            {k: require_timed(one) for k, one in enumerate(opened) if isinstance(one, Session)},
            require_timed(known),
            require_baseline(task, trusted),
            prove_incumbent=order.prove_incumbent,
        )
        refused = {k: one for k, one in enumerate(opened) if not isinstance(one, Session)}
        seconds = {"open": opened_s, **found.seconds}
        return replace(found, faults={**refused, **found.faults}, seconds=seconds)


async def contest_by_model(
    site: Site, task: Task, order: ContestOrder, baseline: Baseline
) -> Contest:
    """Hold it where times are modelled, or measured one kernel after the other."""
    source = site.capabilities.time_source
    known = await time_calls_there(
        site, task, order.incumbent, baseline, order.nonce, compares=False
    )
    duels: list[Duel] = []
    for contender in order.contenders:
        own = await time_calls_there(site, task, contender, baseline, order.nonce, compares=False)
        if not isinstance(own, KernelTimes):
            duels.append(lost_by_fault("first", own, source))
        elif not isinstance(known, KernelTimes):
            duels.append(lost_by_fault("second", known, source))
        else:
            duels.append(modelled_duel(task, own, known, source))
    faster = [
        (one.ratio, place)
        for place, one in enumerate(duels)
        if one.outcome == "faster" and not one.faults
    ]
    return Contest(duels=tuple(duels), fastest=min(faster)[1] if faster else None)


def duel_of(found: ContestResult, place: int) -> Duel | InfraFailed:
    """Return how a contest ended for the contender at this place."""
    if INCUMBENT in found.faults:
        return lost_or_undecided("second", found.faults[INCUMBENT])
    if place in found.faults:
        return lost_or_undecided("first", found.faults[place])
    return found.ended[place]


def modelled_duel(
    task: Task, first: KernelTimes, second: KernelTimes, source: TimeSource = "modelled"
) -> Duel:
    """Decide by separate times; by `worst`, as where the first does worst beside the second."""
    floor = MODELLED_TIE if source == "modelled" else SEPARATE_TIE
    sizes = tuple(
        DuelSize(
            dims=dims,
            first_us=first_us,
            second_us=second_us,
            ratio=first_us / second_us,
            low=first_us / second_us,
            high=first_us / second_us,
            floor=floor,
        )
        for (dims, first_us), (_, second_us) in zip(first.times, second.times, strict=True)
    )
    scoring = scoring_of(task, [size.dims for size in sizes])
    ratio = 1 / scoring.score([1 / size.ratio for size in sizes])
    return Duel(
        sizes=sizes,
        ratio=ratio,
        low=ratio,
        high=ratio,
        outcome=decide_outcome(ratio, ratio, ratio, floor),
        source=source,
        faults={},
    )


def lost_or_undecided(which: str, found: Verdict | FailedCase) -> Duel | InfraFailed:
    """Return the duel that a fault of `first` or `second` decides, or the InfraFailed where neither
    kernel is at fault."""
    verdict = found.verdict if isinstance(found, FailedCase) else found
    if isinstance(verdict, InfraFailed):
        return verdict
    failed = found if isinstance(found, FailedCase) else None
    return replace(lost_by_fault(which, verdict, "measured"), failed=failed)


def lost_by_fault(which: str, verdict: Verdict, source: TimeSource) -> Duel:
    """Return the duel that `which` lost by the verdict that being timed gave it."""
    return Duel(
        sizes=(),
        ratio=math.inf if which == "first" else 0.0,
        low=0.0,
        high=math.inf,
        outcome="slower" if which == "first" else "faster",
        source=source,
        faults={which: verdict},
    )
