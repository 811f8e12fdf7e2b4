"""Readings of clocks, heat and power while blocks run."""

import time
from collections.abc import Callable, Iterable, Mapping

from cuda_llm.tools.device import ClockReading, Site

READ_EVERY_S = 0.03
"""Between two readings. Heat and power change more slowly, and the driver may block while
another process makes a context."""


ReadClocks = Callable[[], ClockReading | None]


def read_nothing() -> None:
    """Read nothing: for sites without clocks."""


def was_throttled(*readings: ClockReading | None) -> bool:
    """Tell whether the chip held its clocks down at any of these readings."""
    return any(one is not None and one.throttled for one in readings)


def clock_reader(site: Site) -> ReadClocks:
    """Return a function that reads the clocks of the site's hardware now and then."""
    return limit_reads(site.read_clocks)


def limit_reads(read: ReadClocks, now_s: Callable[[], float] = time.monotonic) -> ReadClocks:
    """Return a function that repeats the last reading until it is `READ_EVERY_S` old."""
    last: ClockReading | None = None
    read_s = -READ_EVERY_S

    def read_or_repeat() -> ClockReading | None:
        nonlocal last, read_s
        if now_s() - read_s >= READ_EVERY_S:
            last, read_s = read(), now_s()
        return last

    return read_or_repeat


def summarise_clocks(
    readings: Iterable[ClockReading | None], throttled: int
) -> Mapping[str, float]:
    """Return the extremes and the number of throttled blocks; empty where nothing was read."""
    known = [one for one in readings if one is not None]
    if not known:
        return {}
    return {
        "sm_mhz_low": min(one.sm_mhz for one in known),
        "sm_mhz_high": max(one.sm_mhz for one in known),
        **_highest("celsius", [one.celsius for one in known]),
        **_highest("watts", [one.watts for one in known]),
        "throttled_blocks": float(throttled),
    }


def _highest(name: str, values: Iterable[float | None]) -> Mapping[str, float]:
    """Return the highest of the values that were read, by its name; empty where none was."""
    known = [value for value in values if value is not None]
    return {name: max(known)} if known else {}
