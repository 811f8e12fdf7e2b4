"""What the driver says of clocks, heat and power while blocks run."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from cuda_llm.tools.device import Site

HELD_DOWN = 0x04 | 0x08 | 0x20 | 0x40 | 0x80
"""Power cap, hardware slowdown, thermal slowdown by software and by hardware, power brake:
nvmlClocksEventReasons of NVML's reference."""
EVERY_S = 0.03
"""Between two looks. Heat and power change more slowly, and a driver that is asked may let who asks
wait while another process makes a context."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One look."""

    sm_mhz: float
    celsius: float
    watts: float
    throttled: bool


ReadClocks = Callable[[], Reading | None]


def unread() -> None:
    """There is nobody to ask."""


def held_down(*readings: Reading | None) -> bool:
    """Whether the chip held its clocks down at any of these looks."""
    return any(one is not None and one.throttled for one in readings)


def clocks_of(site: Site) -> ReadClocks:
    """How to look at the site's GPU; `unread` where the driver's library is not there."""
    cuda = getattr(site.arrays.xp, "cuda", None)
    if cuda is None:
        return unread
    try:
        return _reader(cuda.Device().pci_bus_id)
    except Exception:  # no library, no permission, or a GPU it does not know: times go without
        return unread


@lru_cache
def _reader(pci_bus_id: str) -> ReadClocks:
    import pynvml

    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)

    def read() -> Reading | None:
        try:
            reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)
            return Reading(
                sm_mhz=float(pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM)),
                celsius=float(pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU)),
                watts=pynvml.nvmlDeviceGetPowerUsage(gpu) / 1e3,
                throttled=bool(int(reasons) & HELD_DOWN),
            )
        except pynvml.NVMLError:
            return None

    return now_and_then(read)


def now_and_then(read: ReadClocks, now_s: Callable[[], float] = time.monotonic) -> ReadClocks:
    """The last reading again, until it is `EVERY_S` old."""
    last: Reading | None = None
    read_s = -EVERY_S

    def look() -> Reading | None:
        nonlocal last, read_s
        if now_s() - read_s >= EVERY_S:
            last, read_s = read(), now_s()
        return last

    return look


def summarise(readings: Iterable[Reading | None], throttled: int) -> Mapping[str, float]:
    """The extremes, and how many blocks were throttled; empty where nothing was read."""
    known = [one for one in readings if one is not None]
    if not known:
        return {}
    return {
        "sm_mhz_low": min(one.sm_mhz for one in known),
        "sm_mhz_high": max(one.sm_mhz for one in known),
        "celsius": max(one.celsius for one in known),
        "watts": max(one.watts for one in known),
        "throttled_blocks": float(throttled),
    }
