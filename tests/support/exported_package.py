"""Exports of the tasks' baselines, and arrays of the host that look like those of a GPU."""

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from cuda_llm.search import Attempt, Kind
from cuda_llm.tasks.loader import load_task
from cuda_llm.traces.export.export import ExportFormat, export
from cuda_llm.traces.export.winner import Winner


def winner_of(task: str | Path, source: str | None = None) -> Winner:
    """A run's result whose kernel is the task's own baseline, or `source`."""
    from recorded_run import passed

    loaded = load_task(task)
    attempt = Attempt(
        id="r1-c1",
        round=1,
        index=1,
        kind=Kind.START,
        written_by="human",
        code="PASSED",
        speedup=1.0,
    )
    return Winner(
        run_id="a-run",
        state="finished",
        run={"request": {"task": str(task)}, "device_spec": "emulated:rtx_3090_ti"},
        task=loaded,
        attempt=attempt,
        source=loaded.baseline.read_text() if source is None else source,
        verdict=passed(1.0),
        remeasured=None,
    )


def import_package(winner: Winner, to: ExportFormat, folder: Path) -> ModuleType:
    """Export into `folder` and import; the module is forgotten, so that others may follow."""
    package = folder / f"exported_{winner.task.name}_{to}"
    export(winner, to, package)
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(package.name)
    finally:
        sys.path.remove(str(folder))
        for name in [one for one in sys.modules if one.split(".")[0] == package.name]:
            del sys.modules[name]


@dataclass
class StandIn:
    """A NumPy array with what CuPy's arrays and PyTorch's tensors tell beside it."""

    array: Any
    device_id: int = 0
    requires_grad: bool = False
    is_cuda: bool = True

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.array.shape
        return shape

    @property
    def flags(self) -> Any:
        return self.array.flags

    @property
    def device(self) -> Any:
        return SimpleNamespace(id=self.device_id, index=self.device_id)

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.array.__array_interface__

    def is_contiguous(self) -> bool:
        return bool(self.array.flags.c_contiguous)

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)


def aligned(shape: tuple[int, ...], dtype: str = "float32", off: int = 0) -> Any:
    """An array that begins `off` elements behind a multiple of 256 bytes."""
    item = np.dtype(dtype).itemsize
    count = int(np.prod(shape))
    raw = np.zeros(count * item + 512 + off * item, np.uint8)
    begin = -raw.ctypes.data % 256 + off * item
    return raw[begin : begin + count * item].view(dtype).reshape(shape)


def on_device(shape: tuple[int, ...], dtype: str = "float32", off: int = 0) -> StandIn:
    """The same as a stand-in."""
    return StandIn(aligned(shape, dtype, off))
