"""What the driver says of clocks, heat and power while blocks run."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cuda_llm.tools.device import Site

HELD_DOWN = 0x04 | 0x08 | 0x20 | 0x40 | 0x80
"""Power cap, hardware slowdown, thermal slowdown by software and by hardware, power brake:
nvmlClocksEventReasons of NVML's reference."""


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


def clocks_of(site: Site) -> ReadClocks:
    """How to look at the site's GPU; `unread` where the driver's library is not there."""
    cuda = getattr(site.arrays.xp, "cuda", None)
    if cuda is None:
        return unread
    try:
        import pynvml

        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByPciBusId(cuda.Device().pci_bus_id)
    except Exception:  # no library, no permission, or a GPU it does not know: times go without
        return unread

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

    return read


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
