"""What the driver says of clocks, heat and power while blocks run."""

import time
from collections.abc import Callable, Iterable, Mapping

from cuda_llm.tools.device import ClockReading, Site

READ_EVERY_S = 0.03
"""Between two looks. Heat and power change more slowly, and a driver that is asked may let who asks
wait while another process makes a context."""


ReadClocks = Callable[[], ClockReading | None]


def no_reading() -> None:
    """There is nobody to ask."""


def was_throttled(*readings: ClockReading | None) -> bool:
    """Whether the chip held its clocks down at any of these looks."""
    return any(one is not None and one.throttled for one in readings)


def clock_reader(site: Site) -> ReadClocks:
    """How to look at the site's hardware."""
    return read_seldom(site.read_clocks)


def read_seldom(read: ReadClocks, now_s: Callable[[], float] = time.monotonic) -> ReadClocks:
    """The last reading again, until it is `EVERY_S` old."""
    last: ClockReading | None = None
    read_s = -READ_EVERY_S

    def look() -> ClockReading | None:
        nonlocal last, read_s
        if now_s() - read_s >= READ_EVERY_S:
            last, read_s = read(), now_s()
        return last

    return look


def summarise_clocks(
    readings: Iterable[ClockReading | None], throttled: int
) -> Mapping[str, float]:
    """The extremes, and how many blocks were throttled; empty where nothing was read."""
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
    """The highest of those that were read, by its name; empty where none was."""
    known = [value for value in values if value is not None]
    return {name: max(known)} if known else {}
