"""State and usage of the GPUs of this machine by NVML, which no other module calls.

    python -P -m cuda_llm.tools.cuda.nvml

prints the usage of each GPU by other programs, `{"GPU-...": {...}}`, and exits with 3 where there
is no NVML. NVML may hang as a driver does: before a GPU is leased, NVML is called in a separate
process.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda_llm.tools.device import ClockReading

if TYPE_CHECKING:
    from cuda_llm.tools.device import ClockReading

NVML_PROGRAM = "cuda_llm.tools.cuda.nvml"
NO_NVML = 3
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
THROTTLED = frozenset({"power_cap", "hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake"})
"""Reasons for which a chip is slower than another of its kind, or than a moment ago."""

QUERY_LIMIT_S = 10.0
BUSY_PERCENT = 5
"""Utilisation from which a GPU counts as busy, in NVML's last sample of 1/6 to 1 second."""
QUERY = ("-m", NVML_PROGRAM)
HOST_PROGRAM = "cuda_llm.tools.cuda.host"
"""Module in the command line of GPU host processes, which share a GPU by its lease."""


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """Clocks, temperature and power of one GPU at one moment; None for values that NVML does not
    report."""

    sm_mhz: float
    memory_mhz: float
    reasons: tuple[str, ...]
    """Names of the reasons that hold the clocks down."""
    celsius: float | None
    watts: float | None


def open_nvml() -> Any:
    """Return the module `pynvml`, initialised. Raises ImportError and its NVMLError."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml


def read_state(nvml: Any, pci_bus_id: str) -> GpuState:
    """Return clocks, heat and power now. Raises NVMLError."""
    handle = nvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)

    def read(ask: Callable[..., Any], *more: Any) -> float | None:
        with suppress(nvml.NVMLError):
            return float(ask(handle, *more))
        return None

    milliwatts = read(nvml.nvmlDeviceGetPowerUsage)
    return GpuState(
        sm_mhz=float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        memory_mhz=float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
        reasons=name_reasons(int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))),
        celsius=read(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
        watts=None if milliwatts is None else milliwatts / 1e3,
    )


def name_reasons(bits: int) -> tuple[str, ...]:
    """Return the names of the bits of `nvmlClocksEventReasons`."""
    return tuple(name for bit, name in REASONS.items() if bits & bit)


def clock_reader(find_bus: Callable[[], str]) -> "Callable[[], ClockReading | None]":
    """Return a reader of the clocks of the GPU at a PCI bus address, which is looked up at once.

    The reader always returns None where library, permission or GPU is missing: times then have no
    clocks.
    """
    try:
        bus, nvml = find_bus(), open_nvml()
        read_state(nvml, bus)
    except Exception:  # whatever a driver's library may raise
        return lambda: None

    def read() -> ClockReading | None:
        try:
            state = read_state(nvml, bus)
        except nvml.NVMLError:
            return None
        return ClockReading(
            sm_mhz=state.sm_mhz,
            celsius=state.celsius,
            watts=state.watts,
            throttled=bool(THROTTLED & set(state.reasons)),
        )

    return read


def read_usage(nvml: Any) -> dict[str, dict[str, Any]]:
    """Return what else uses every GPU, by its UUID; what NVML does not report is left out."""
    asked: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
        "display": (nvml.nvmlDeviceGetDisplayActive, bool),
        "utilisation": (nvml.nvmlDeviceGetUtilizationRates, attrgetter("gpu")),
        "free_bytes": (nvml.nvmlDeviceGetMemoryInfo, attrgetter("free")),
        "processes": (nvml.nvmlDeviceGetComputeRunningProcesses, _processes),
    }
    found = {}
    for number in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
        usage: dict[str, Any] = {"driver": nvml.nvmlSystemGetDriverVersion()}
        for key, (ask, read) in asked.items():
            with suppress(nvml.NVMLError):
                usage[key] = read(ask(handle))
        found[nvml.nvmlDeviceGetUUID(handle)] = usage
    return found


def main() -> int:
    """Print what else uses each GPU; return the exit status."""
    try:
        nvml = open_nvml()
    except ImportError:
        print("nvidia-ml-py is not installed", file=sys.stderr)
        return NO_NVML
    except Exception as error:  # its NVMLError is known only once it is imported
        print(f"NVML: {error}", file=sys.stderr)
        return NO_NVML
    try:
        print(json.dumps(read_usage(nvml)))
    except nvml.NVMLError as error:
        print(f"NVML: {error}", file=sys.stderr)
        return NO_NVML
    return 0


def _processes(running: Any) -> list[tuple[int, int]]:
    return [(one.pid, one.usedGpuMemory or 0) for one in running]


@dataclass(frozen=True, kw_only=True)
class GpuUsage:
    """Usage of one GPU by other programs, from NVML; None or empty for values that NVML does not
    report."""

    display: bool = False
    utilisation: int | None = None
    """Percent of NVML's last sample in which a kernel ran."""
    free_bytes: int | None = None
    processes: tuple[tuple[int, int], ...] = ()
    """Process id and bytes held of each other process; GPU host processes are left out."""
    driver: str = ""
    """Version of the driver, e.g. `580.159.03`."""

    @property
    def disturbances(self) -> tuple[str, ...]:
        """One line for each disturbance of times: a display, other processes, utilisation."""
        found = []
        if self.display:
            found.append("it drives a display")
        if self.processes:
            shown = ", ".join(_shown(pid, held) for pid, held in self.processes[:3])
            found.append(f"other processes use it: {shown}")
        if self.utilisation is not None and self.utilisation >= BUSY_PERCENT:
            found.append(f"it is {self.utilisation} % busy")
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class MachineUsage:
    """Usage of all GPUs that NVML knows, or the reason why NVML could not be called."""

    by_uuid: Mapping[str, GpuUsage]
    unknown: str = ""

    @property
    def driver(self) -> str:
        """Version of this machine's driver; empty where NVML reports none."""
        return next((one.driver for one in self.by_uuid.values()), "")


def find_usage(query: Sequence[str] = QUERY) -> MachineUsage:
    """Return the usage of all GPUs, from NVML in a separate process. Raises nothing: where NVML
    fails, `unknown` holds the reason."""
    command = [sys.executable, "-P", *query]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=QUERY_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return MachineUsage(by_uuid={}, unknown=f"NVML did not answer within {QUERY_LIMIT_S:g} s")
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        why = lines[-1] if lines and done.returncode == NO_NVML else f"status {done.returncode}"
        return MachineUsage(by_uuid={}, unknown=f"NVML cannot be asked ({why})")
    answer: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return MachineUsage(by_uuid={uuid: _read_usage(usage) for uuid, usage in answer.items()})


def _read_usage(usage: Mapping[str, Any]) -> GpuUsage:
    others = tuple((pid, held) for pid, held in usage.get("processes", ()) if not _is_ours(pid))
    return GpuUsage(**{**usage, "processes": others})


def _is_ours(pid: int) -> bool:
    return pid == os.getpid() or HOST_PROGRAM in _command_line(pid)


def _command_line(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return raw.replace(b"\0", b" ").decode(errors="replace").strip()


def _shown(pid: int, held: int) -> str:
    name = _command_line(pid).partition(" ")[0].rpartition("/")[2]
    return f"{pid}{f' {name}' if name else ''} ({held / 2**30:.1f} GiB)"


if __name__ == "__main__":
    sys.exit(main())
