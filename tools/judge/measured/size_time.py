"""A measured size as a reader sees it."""

from cuda_llm.profile import SizeTime
from cuda_llm.tools.device import TimeClass
from cuda_llm.tools.judge.measured.clocks import summarise
from cuda_llm.tools.judge.measured.measure import Measured
from cuda_llm.tools.judge.measured.options import L2
from cuda_llm.tools.timing.bootstrap import Estimate
from cuda_llm.tools.validator.layout import Dims

KEPT = "the baseline is too slow to run beside each candidate: its time was measured earlier"
HOST = "solve decides on results it reads back, so the time includes its host part"


def size_time(dims: Dims, measured: Measured, l2: L2, *, against_kept: bool = False) -> SizeTime:
    """Times, intervals and the decision; the speed-up is the inverse of the ratio."""
    comparison = measured.comparison
    notes = [HOST] if measured.first_class is TimeClass.HOST_INCLUSIVE else []
    notes += [KEPT] if against_kept else []
    notes += [measured.note] if measured.note else []
    return SizeTime(
        dims=dict(dims),
        time_us=comparison.first_us.value,
        baseline_us=comparison.second_us.value,
        source="measured",
        spread=spread(comparison.first_us),
        baseline_spread=spread(comparison.second_us),
        paired_speedup=1 / comparison.ratio,
        speedup_low=1 / comparison.high,
        speedup_high=1 / comparison.low,
        outcome=comparison.outcome,
        floor=comparison.floor,
        time_class=str(measured.first_class),
        l2=str(l2),
        blocks=comparison.blocks,
        clocks=summarise(measured.readings, measured.throttled),
        stepwise_us=measured.stepwise_us,
        note="; ".join(notes),
    )


def spread(estimate: Estimate) -> float:
    """Relative half-width."""
    return estimate.half_width / estimate.value
