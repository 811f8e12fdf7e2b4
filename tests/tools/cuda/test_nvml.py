"""What is read of a GPU's clocks, by an NVML that a test can stand in for."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from cuda_llm.tools.cuda.nvml import clock_reader, read_state

POWER_CAP, THERMAL = 0x04, 0x40


class NVMLError(Exception):
    """As pynvml's."""


def nvml(reasons: int = 0, *, lacks_power: bool = False) -> Any:
    """A library that knows one GPU."""

    def power(_handle: str) -> int:
        if lacks_power:
            raise NVMLError("Not Supported")
        return 350_500

    def handle_of(bus: str) -> str:
        if bus != "0000:17:00.0":
            raise NVMLError("Not Found")
        return "the GPU"

    return SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByPciBusId=handle_of,
        nvmlDeviceGetClockInfo=lambda _handle, kind: {1: 1755, 2: 3201}[kind],
        nvmlDeviceGetTemperature=lambda _handle, _kind: 61,
        nvmlDeviceGetPowerUsage=power,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda _handle: reasons,
    )


def test_clocks_heat_power_and_their_reasons_are_read() -> None:
    found = read_state(nvml(POWER_CAP | THERMAL), "0000:17:00.0")
    assert (found.sm_mhz, found.memory_mhz, found.celsius, found.watts) == (1755, 3201, 61, 350.5)
    assert found.reasons == ("power_cap", "hw_thermal")


@pytest.mark.parametrize(("reasons", "throttled"), [(0, False), (0x01, False), (POWER_CAP, True)])
def test_heat_and_power_throttle_and_idling_does_not(
    monkeypatch: pytest.MonkeyPatch, reasons: int, throttled: bool
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml(reasons, lacks_power=True))
    reading = clock_reader(lambda: "0000:17:00.0")()
    assert reading is not None
    assert (reading.throttled, reading.sm_mhz, reading.watts) == (throttled, 1755, None)


def test_a_gpu_that_the_library_does_not_know_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    assert clock_reader(lambda: "0000:99:00.0")() is None


def test_without_a_driver_library_there_are_no_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert clock_reader(lambda: "0000:17:00.0")() is None
