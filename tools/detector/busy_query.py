"""Ask NVML what else goes on on each GPU: a program of its own, for NVML may hang as a driver does.

    python -m cuda_llm.tools.detector.busy_query

Prints one JSON document, `{"GPU-...": {...}}`; exits with 3 where there is no NVML to ask.
"""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from typing import Any

NO_NVML = 3


def main() -> int:
    """Print what NVML answers."""
    try:
        import pynvml
    except ImportError:
        print("nvidia-ml-py is not installed", file=sys.stderr)
        return NO_NVML
    try:
        pynvml.nvmlInit()
        print(json.dumps(read_all(pynvml)))
    except pynvml.NVMLError as error:
        print(f"NVML: {error}", file=sys.stderr)
        return NO_NVML
    return 0


def read_all(nvml: Any) -> dict[str, dict[str, Any]]:
    """Every GPU by its UUID; what one of them does not tell is left out."""
    asked: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
        "display": (nvml.nvmlDeviceGetDisplayActive, bool),
        "utilisation": (nvml.nvmlDeviceGetUtilizationRates, attrgetter("gpu")),
        "free_bytes": (nvml.nvmlDeviceGetMemoryInfo, attrgetter("free")),
        "processes": (nvml.nvmlDeviceGetComputeRunningProcesses, _processes),
    }
    found = {}
    for number in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
        told: dict[str, Any] = {"driver": nvml.nvmlSystemGetDriverVersion()}
        for key, (ask, read) in asked.items():
            with suppress(nvml.NVMLError):
                told[key] = read(ask(handle))
        found[nvml.nvmlDeviceGetUUID(handle)] = told
    return found


def _processes(running: Any) -> list[tuple[int, int]]:
    return [(one.pid, one.usedGpuMemory or 0) for one in running]


if __name__ == "__main__":
    sys.exit(main())
