import asyncio
from dataclasses import replace

import pytest
from measured_site import named
from timed_vector_adds import honest, small_bench, timed_site

from cuda_llm.profile import SizeTime
from cuda_llm.tools.device import ClockReading
from cuda_llm.tools.timing.clocks import READ_EVERY_S, clock_reader, limit_reads, summarise_clocks
from cuda_llm.tools.timing.measure import measure_beside
from cuda_llm.tools.timing.measurement import know_baseline, open_measurement
from cuda_llm.tools.timing.options import MeasureOptions
from cuda_llm.tools.timing.times import KernelTimes

pytestmark = pytest.mark.usefixtures("own_cache")
COOL = ClockReading(sm_mhz=1980.0, celsius=50.0, watts=300.0, throttled=False)
HOT = ClockReading(sm_mhz=1400.0, celsius=88.0, watts=700.0, throttled=True)


def measured(*readings: ClockReading) -> SizeTime:
    """Time a candidate; clocks are read twice a block, the readings one after the other."""
    task, site, count = small_bench(96), timed_site(honest(25.0)), 0

    def read() -> ClockReading:
        nonlocal count
        count += 1
        return readings[(count - 1) // 2 % len(readings)]

    async def measure() -> object:
        baseline = named("baseline")
        async with open_measurement(site, task, baseline, MeasureOptions()) as measurement:
            await know_baseline(measurement, baseline)
            reading = replace(measurement, read_clocks=read)
            return await measure_beside(reading, named("candidate"), baseline, fresh=True)

    found = asyncio.run(measure())
    assert isinstance(found, KernelTimes)
    return found.sizes[0]


def test_blocks_under_throttle_are_dropped_and_counted() -> None:
    found = measured(HOT, COOL, COOL)
    assert found.blocks >= 3
    assert found.clocks["throttled_blocks"] > 0
    assert (found.clocks["sm_mhz_low"], found.clocks["sm_mhz_high"]) == (1400.0, 1980.0)
    assert (found.clocks["celsius"], found.clocks["watts"]) == (88.0, 700.0)


def test_a_chip_that_is_always_throttled_is_timed_all_the_same() -> None:
    found = measured(HOT)
    assert found.blocks == found.clocks["throttled_blocks"]
    assert found.time_us == pytest.approx(25.0, rel=0.02)


def test_the_driver_is_asked_again_only_when_its_answer_is_old() -> None:
    times_s = iter((100.0, 100.0, 100.0 + 0.5 * READ_EVERY_S, 100.0 + 1.5 * READ_EVERY_S, 101.0))
    answers = iter((COOL, HOT))
    read = limit_reads(lambda: next(answers), lambda: next(times_s))
    assert [read(), read(), read()] == [COOL, COOL, HOT]


def test_a_site_without_clocks_has_no_readings() -> None:
    assert clock_reader(timed_site(honest(1.0)))() is None
    assert summarise_clocks([None, None], 0) == {}
