"""Clocks and what holds them down, asked of NVML."""

from collections.abc import Mapping
from typing import Any

from cuda_llm.tools.prober.probe import Clocks

REASONS: Mapping[int, str] = {
    0x01: "idle",
    0x02: "application_clocks",
    0x04: "power_cap",
    0x08: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
}
"""Bits of `nvmlClocksEventReasons` (nvml.h)."""


def read_clocks(nvml: Any, pci_bus_id: str) -> Clocks:
    """The clocks now. `nvml` is the module `pynvml`, initialised. Raises its NVMLError."""
    handle = nvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode())
    bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return Clocks(
        sm_mhz=int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        memory_mhz=int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
        reasons=name_reasons(int(bits)),
    )


def name_reasons(bits: int) -> tuple[str, ...]:
    """What the bits stand for."""
    return tuple(name for bit, name in REASONS.items() if bits & bit)
