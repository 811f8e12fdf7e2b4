import asyncio

import pytest
from measured_site import MeasuredSession
from timed_vector_adds import honest, small_bench, timed_site

from cuda_llm.tools.device import ClockReading
from cuda_llm.tools.device.buffers import HOST
from cuda_llm.tools.timing.baseline_time import BaselineTime
from cuda_llm.tools.timing.batch_room import BatchRoom
from cuda_llm.tools.timing.blocks import BatchRules, ComparedSessions, secret_rng
from cuda_llm.tools.timing.clocks import READ_EVERY_S, clock_reader, limit_reads, summarise_clocks
from cuda_llm.tools.timing.interleave import ASSUMED_SPEEDUP, MeasuredSize, measure_size
from cuda_llm.tools.timing.options import L2, Tier
from cuda_llm.tools.timing.slots import InputPlan
from cuda_llm.tools.timing.stopping import rule_for
from cuda_llm.tools.validator.oracle import reference_oracle

COOL = ClockReading(sm_mhz=1980.0, celsius=50.0, watts=300.0, throttled=False)
HOT = ClockReading(sm_mhz=1400.0, celsius=88.0, watts=700.0, throttled=True)


def measured(*readings: ClockReading) -> MeasuredSize:
    """Read twice a block, the readings one after the other."""
    task = small_bench(96)
    count = 0

    def read() -> ClockReading:
        nonlocal count
        count += 1
        return readings[(count - 1) // 2 % len(readings)]

    ground = MeasuredSession(honest(50.0), seed=1)
    found = asyncio.run(
        measure_size(
            ComparedSessions(candidate=MeasuredSession(honest(25.0)), baseline=ground),
            InputPlan(task=task, dims={"n": 96}, arrays=HOST),
            BatchRules(
                oracle=reference_oracle(task),
                rng=secret_rng(),
                l2=L2.COLD,
                limit_s=2.0,
                read_clocks=read,
            ),
            rule_for(Tier.SCREEN, sizes=1),
            BaselineTime(call_us=50.0, spread=0.01, overhead_us=40.0),
            ASSUMED_SPEEDUP,
            room=BatchRoom(calls=64, slots=64),
        )
    )
    assert isinstance(found, MeasuredSize)
    return found


def test_blocks_under_throttle_are_dropped_and_counted() -> None:
    found = measured(HOT, COOL, COOL)
    assert found.throttled > 0
    assert found.comparison.blocks >= 3
    shown = summarise_clocks(found.readings, found.throttled)
    assert (shown["sm_mhz_low"], shown["sm_mhz_high"]) == (1400.0, 1980.0)
    assert (shown["celsius"], shown["watts"]) == (88.0, 700.0)
    assert shown["throttled_blocks"] == found.throttled


def test_a_chip_that_is_always_throttled_is_timed_all_the_same() -> None:
    found = measured(HOT)
    assert found.comparison.blocks == found.throttled
    assert found.comparison.first_us.value == pytest.approx(25.0, rel=0.02)


def test_the_driver_is_asked_again_only_when_its_answer_is_old() -> None:
    times_s = iter((100.0, 100.0, 100.0 + 0.5 * READ_EVERY_S, 100.0 + 1.5 * READ_EVERY_S, 101.0))
    answers = iter((COOL, HOT))
    read = limit_reads(lambda: next(answers), lambda: next(times_s))
    assert [read(), read(), read()] == [COOL, COOL, HOT]


def test_a_site_without_clocks_has_no_readings() -> None:
    assert clock_reader(timed_site(honest(1.0)))() is None
    assert summarise_clocks([None, None], 0) == {}
