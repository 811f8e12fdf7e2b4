"""A machine with GPUs, as far as finding them goes: a driver, CuPy to be found, and NVML."""

from pathlib import Path
from typing import Any

import pytest

NVML = """
import json
from types import SimpleNamespace

TOLD = json.loads({told!r})


class NVMLError(Exception):
    pass


def _of(key):
    def ask(handle):
        if key not in handle:
            raise NVMLError(key + " is not supported")
        return handle[key]

    return ask


def nvmlInit():
    if not TOLD:
        raise NVMLError("Driver Not Loaded")


nvmlDeviceGetCount = lambda: len(TOLD)
nvmlDeviceGetHandleByIndex = lambda number: TOLD[number]
nvmlSystemGetDriverVersion = lambda: "580.159.03"
nvmlDeviceGetUUID = _of("uuid")
nvmlDeviceGetDisplayActive = _of("display")
nvmlDeviceGetUtilizationRates = lambda handle: SimpleNamespace(gpu=_of("utilisation")(handle))
nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(free=_of("free_bytes")(handle))
nvmlDeviceGetComputeRunningProcesses = lambda handle: [
    SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in _of("processes")(handle)
]
"""


def install_nvml(folder: Path, monkeypatch: pytest.MonkeyPatch, *gpus: dict[str, Any]) -> None:
    """Have child processes find an NVML that knows `gpus`; none: a driver that is not loaded."""
    import json

    (folder / "pynvml.py").write_text(NVML.format(told=json.dumps(gpus)))
    monkeypatch.setenv("PYTHONPATH", str(folder))


def install_cupy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have CuPy be found; nobody imports it here."""
    (folder / "cupy").mkdir()
    (folder / "cupy/__init__.py").write_text("raise ImportError('not in this process')\n")
    monkeypatch.syspath_prepend(str(folder))
