"""What NVML reports of the GPUs of this machine: the one place that asks it.

    python -P -m cuda_llm.tools.cuda.nvml

prints what else uses each GPU, `{"GPU-...": {...}}`; it exits with 3 where there is no NVML.
NVML may hang as a driver does: what is asked before a GPU is ours is asked in a process of its own.
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


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """One GPU at one moment; None where NVML does not report it."""

    sm_mhz: float
    memory_mhz: float
    reasons: tuple[str, ...]
    """Why the clocks are not higher."""
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

    It returns None for ever where library, permission or GPU is missing: times have no clocks then.
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


QUERY_LIMIT_S = 10.0
BUSY_PERCENT = 5
"""Of the last sample NVML has, a sixth of a second to a second long."""
QUERY = ("-m", NVML_PROGRAM)
HOST_PROGRAM = "cuda_llm.tools.cuda.host"
"""In the command line of our GPU host processes: they share a GPU by its lease, one at a time."""


@dataclass(frozen=True, kw_only=True)
class GpuUsage:
    """What NVML reports of one GPU; None and empty where it does not."""

    display: bool = False
    utilisation: int | None = None
    """Percent of the last moment in which something ran."""
    free_bytes: int | None = None
    processes: tuple[tuple[int, int], ...] = ()
    """Process id and bytes held, ours left out."""
    driver: str = ""
    """E.g. `580.159.03`."""

    @property
    def disturbances(self) -> tuple[str, ...]:
        """One line for each thing that disturbs times."""
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
    """All GPUs NVML knows, or why it could not be asked."""

    by_uuid: Mapping[str, GpuUsage]
    unknown: str = ""

    @property
    def driver(self) -> str:
        """The one driver of this machine."""
        return next((one.driver for one in self.by_uuid.values()), "")


def find_usage(query: Sequence[str] = QUERY) -> MachineUsage:
    """Ask NVML in a process of its own. Where that fails, `unknown` says why; nothing is raised."""
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
