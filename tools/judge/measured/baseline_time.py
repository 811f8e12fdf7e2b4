"""The baseline's own time of a call: measured once for each device and task, shortly, and kept."""

import statistics
from dataclasses import dataclass

from cuda_llm.tools.device import TimedSession
from cuda_llm.tools.judge.kept_times import kept_file, read_times, write_times
from cuda_llm.tools.judge.measured.batches import Rules, run_pair
from cuda_llm.tools.judge.measured.contents import Recipe
from cuda_llm.tools.judge.measured.entrants import trusted
from cuda_llm.tools.judge.measured.lane import Lane, lay_out
from cuda_llm.tools.judge.refusal import refusal
from cuda_llm.tools.timing.bootstrap import Estimate, estimate_median
from cuda_llm.tools.timing.comparison import RESOLUTION_US, SMALLEST_FLOOR
from cuda_llm.tools.timing.lengths import MOST, Lengths, choose_lengths, lengths_up_to
from cuda_llm.tools.timing.slope import Pair, slope_us

FORMAT = 2
SLOW_US = 5000.0
"""A baseline beyond this is not run beside every candidate."""
PILOT_SLOTS = 3
AIM = 0.02
"""See `choose_lengths`."""
ROUNDS = 5
"""Pairs of batches, of a baseline that is not slow."""


@dataclass(frozen=True, kw_only=True)
class BaselineTime:
    """As kept."""

    call_us: float
    spread: float
    """Relative half-width of the interval of `call_us`."""
    overhead_us: float
    """Of everything else in a step."""

    @property
    def slow(self) -> bool:
        """Whether candidates are timed without it beside them."""
        return self.call_us > SLOW_US

    @property
    def estimate(self) -> Estimate:
        """With its interval."""
        reach = self.call_us * self.spread
        return Estimate(value=self.call_us, low=self.call_us - reach, high=self.call_us + reach)


async def baseline_time(
    session: TimedSession, recipe: Recipe, rules: Rules, *, kept_as: tuple[str, ...], most: int
) -> BaselineTime:
    """`kept_as` names all that the time depends on but the size and the state of L2.

    Raises TaskError where the baseline is refused, MissingError where the cache cannot be written.
    """
    dims = tuple(sorted(recipe.dims.items()))
    kept = kept_file("alone", FORMAT, *kept_as, dims, str(rules.l2))
    known = read_times(kept, 3)
    if known is None:
        found = await time_alone(session, recipe, rules, most)
        known = [found.call_us, found.spread, found.overhead_us]
        write_times(kept, known)
    return BaselineTime(call_us=known[0], spread=known[1], overhead_us=known[2])


async def time_alone(
    session: TimedSession, recipe: Recipe, rules: Rules, most: int
) -> BaselineTime:
    """A slow one by one slope over very few calls, another by a few rounds of longer batches."""
    slots = min(PILOT_SLOTS, most)
    kernel = trusted(recipe.task, await lay_out(session, recipe, slots, trusted=True))
    rounds = [await round_us(kernel, lengths_up_to(slots), rules)]
    call_us, overhead_us = rounds[0]
    if call_us <= SLOW_US:
        lengths = choose_lengths(
            call_us=call_us, overhead_us=overhead_us, aim=AIM, most=min(most, MOST)
        )
        if lengths.slots > slots:
            kernel = trusted(
                recipe.task, await lay_out(session, recipe, lengths.slots, trusted=True)
            )
        rounds = [await round_us(kernel, lengths, rules) for _ in range(ROUNDS)]
    found = estimate_median([call for call, _ in rounds])
    return BaselineTime(
        call_us=found.value,
        spread=max(found.half_width / found.value, SMALLEST_FLOOR),
        overhead_us=statistics.median(overhead for _, overhead in rounds),
    )


async def round_us(kernel: Lane, lengths: Lengths, rules: Rules) -> tuple[float, float]:
    """Time of a call, and of everything else in a step."""
    slopes = []
    for solve in (True, False):
        pair = await run_pair(kernel, lengths, rules, solve=solve)
        if not isinstance(pair, Pair):
            raise refusal(kernel.recipe.task, pair)
        slopes.append(slope_us(pair))
    return max(slopes[0] - slopes[1], RESOLUTION_US), max(slopes[1], RESOLUTION_US)
