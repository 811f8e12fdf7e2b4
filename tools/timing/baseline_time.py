"""The baseline's own time of a call, measured once for each device and task and cached."""

import hashlib
import json
import statistics
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.tools.device import TimedSession
from cuda_llm.tools.native import cache_dir, write_cached
from cuda_llm.tools.timing.batches import BatchRules, run_pair
from cuda_llm.tools.timing.comparison import RESOLUTION_US, SMALLEST_FLOOR
from cuda_llm.tools.timing.estimate import estimate_median
from cuda_llm.tools.timing.failures import baseline_refused
from cuda_llm.tools.timing.slope import (
    MOST_CALLS,
    BatchLengths,
    BatchPair,
    choose_lengths,
    lengths_up_to,
    slope_us,
)
from cuda_llm.tools.timing.slots import InputPlan, PreparedKernel, prepare_trusted

BASELINES_FOLDER = "baselines"

BASELINE_TIME_FORMAT = 3
SLOW_US = 5000.0
"""A baseline beyond this is not run beside every candidate."""
PILOT_SLOTS = 3
BASELINE_AIM = 0.02
"""Relative error of the slope that `choose_lengths` aims at for a baseline."""
BASELINE_ROUNDS = 5
"""Pairs of batches, of a baseline that is not slow."""


def times_file(*parts: object) -> Path:
    """Return the file of the times that depend on `parts` alone."""
    key = hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
    return cache_dir() / BASELINES_FOLDER / f"{key}.json"


def read_times(path: Path, count: int) -> list[float] | None:
    """Return cached times in microseconds; None where there are none or they do not fit."""
    try:
        times = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    fits = isinstance(times, list) and len(times) == count
    return times if fits and all(isinstance(t, float) for t in times) else None


def write_times(path: Path, times_us: list[float]) -> None:
    """Cache the times; two writers at once leave one whole file. Raises MissingError."""
    write_cached(json.dumps(times_us), path.name, BASELINES_FOLDER)


@dataclass(frozen=True, kw_only=True)
class BaselineReading:
    """Time of one call of a baseline in one process."""

    call_us: float
    spread: float
    """Relative half-width of the interval of `call_us`."""
    sm_mhz: float = 0.0
    """Clock of the chip; 0 where it is not known."""


@dataclass(frozen=True, kw_only=True)
class BaselineTime(BaselineReading):
    """Time of one call of a baseline alone, as it is cached."""

    overhead_us: float
    """Time of everything else in a step."""

    @property
    def is_slow(self) -> bool:
        """Whether a call takes too long for the baseline to run beside each candidate."""
        return self.call_us > SLOW_US


def find_time(file: Path) -> BaselineTime | None:
    """Return the cached time; None where there is none."""
    known = read_times(file, 4)
    if known is None:
        return None
    call_us, spread, overhead_us, sm_mhz = known
    return BaselineTime(call_us=call_us, spread=spread, overhead_us=overhead_us, sm_mhz=sm_mhz)


def keep_time(file: Path, found: BaselineTime) -> None:
    """Cache the time in place of any before. Raises MissingError where that cannot be."""
    write_times(file, [found.call_us, found.spread, found.overhead_us, found.sm_mhz])


async def measure_baseline_time(
    session: TimedSession, input_plan: InputPlan, rules: BatchRules, most: int
) -> BaselineTime:
    """Measure a slow baseline by one slope over few calls, and a fast baseline by rounds of longer
    batches. Raises TaskError where the baseline is refused."""
    slots = min(PILOT_SLOTS, most)
    kernel = await prepare_trusted(session, input_plan, slots)
    rounds = [await time_round(kernel, lengths_up_to(slots), rules)]
    call_us, overhead_us = rounds[0]
    if call_us <= SLOW_US:
        lengths = choose_lengths(
            call_us=call_us, overhead_us=overhead_us, aim=BASELINE_AIM, most=min(most, MOST_CALLS)
        )
        if lengths.slots > slots:
            kernel = await prepare_trusted(session, input_plan, lengths.slots)
        rounds = [await time_round(kernel, lengths, rules) for _ in range(BASELINE_ROUNDS)]
    found, clocks = estimate_median([call for call, _ in rounds]), rules.read_clocks()
    return BaselineTime(
        call_us=found.value,
        spread=max(found.half_width / found.value, SMALLEST_FLOOR),
        overhead_us=statistics.median(overhead for _, overhead in rounds),
        sm_mhz=0.0 if clocks is None else clocks.sm_mhz,
    )


async def time_round(
    kernel: PreparedKernel, lengths: BatchLengths, rules: BatchRules
) -> tuple[float, float]:
    """Return the times of a call, and of everything else in a step, in microseconds."""
    slopes = []
    for solve in (True, False):
        pair = await run_pair(kernel, lengths, rules, solve=solve)
        if not isinstance(pair, BatchPair):
            raise baseline_refused(kernel.input_plan.task, pair)
        slopes.append(slope_us(pair))
    return max(slopes[0] - slopes[1], RESOLUTION_US), max(slopes[1], RESOLUTION_US)
