"""The process that probes: `python -m cuda_llm.tools.prober.measure ORDINAL CUBIN` prints JSON.

A process of its own, because what goes wrong on a GPU takes the process with it, and a deadline
must be able to end it.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from cuda_llm.tools.cuda.nvml import open_nvml, read_state
from cuda_llm.tools.prober.arithmetic import TYPES, fp32_tflops, tensor_tflops
from cuda_llm.tools.prober.copies import copy_rates
from cuda_llm.tools.prober.gpu import Gpu
from cuda_llm.tools.prober.probe import NO_PACKAGE, Clocks, Probe

T = TypeVar("T")

BARRIERS = 10
"""In one kernel."""


def main(ordinal: str, cubin: str) -> int:
    """Probe and print."""
    try:
        gpu = Gpu(int(ordinal), Path(cubin))
    except ImportError as error:
        print(f"{error}", file=sys.stderr)
        return NO_PACKAGE
    print(json.dumps(asdict(measure(gpu))))
    return 0


def measure(gpu: Gpu) -> Probe:
    """Everything; what cannot be measured is a note."""
    notes: list[str] = []
    clocks = open_clocks(gpu, notes)
    idle = clocks()
    nothing = gpu.kernel("nothing")

    def empty() -> None:
        nothing((1,), (32,), ())

    launch_graph_us = gpu.step_s(empty) * 1e6
    word = gpu.cupy.empty(4, "uint8")

    def fill_and_empty() -> None:
        word.data.memset_async(0, 4, gpu.stream)
        empty()

    fill_graph_us = gpu.step_s(fill_and_empty) * 1e6 - launch_graph_us
    barriers = tried("grid barriers", lambda: barrier_us(gpu), notes) or (0.0, 0.0)
    launch_alone_us = gpu.alone_s(empty) * 1e6
    copies = copy_rates(gpu)
    fp32 = fp32_tflops(gpu)
    tensor = {}
    for name in TYPES:
        rate = tried(f"{name} products", lambda name=name: tensor_tflops(gpu, name), notes)  # type: ignore[misc]
        if rate is not None:
            tensor[name] = rate
    return Probe(
        copies=copies,
        fp32_tflops=fp32,
        tensor_tflops=tensor,
        launch_graph_us=launch_graph_us,
        fill_graph_us=fill_graph_us,
        grid_barrier_us=barriers[0],
        cooperative_launch_us=max(0.0, barriers[1] - launch_graph_us),
        launch_alone_us=launch_alone_us,
        idle=idle,
        loaded=under_load(gpu, clocks),
        notes=tuple(notes),
    )


def barrier_us(gpu: Gpu) -> tuple[float, float]:
    """A barrier of the whole grid, and a cooperative launch without one."""
    meet = gpu.cooperative("meet")

    def waiting(rounds: int) -> float:
        arguments = (gpu.cupy.int32(rounds),)
        return gpu.step_s(lambda: meet((gpu.sm_count,), (256,), arguments)) * 1e6

    none, many = waiting(0), waiting(BARRIERS)
    return (many - none) / BARRIERS, none


def open_clocks(gpu: Gpu, notes: list[str]) -> Callable[[], Clocks | None]:
    """How to ask for the clocks."""
    try:
        nvml = open_nvml()
    except Exception as error:
        notes.append(f"clocks: NVML cannot be asked ({error})")
        return lambda: None

    def read() -> Clocks:
        state = read_state(nvml, gpu.device.pci_bus_id)
        return Clocks(
            sm_mhz=int(state.sm_mhz), memory_mhz=int(state.memory_mhz), reasons=state.reasons
        )

    return lambda: tried("clocks", read, notes)


def under_load(gpu: Gpu, clocks: Callable[[], Clocks | None]) -> Clocks | None:
    """The clocks behind a fifth of a second of arithmetic, while it still goes on."""
    kernel = gpu.kernel("multiply_add")
    blocks = 16 * gpu.sm_count
    out = gpu.cupy.empty(blocks * 256, "float32")
    arguments = (out, gpu.cupy.int32(4096), gpu.cupy.float32(0.5))
    before, behind = gpu.cupy.cuda.Event(), gpu.cupy.cuda.Event()
    with gpu.stream:
        for event in (before, behind):
            for _ in range(8):
                kernel((blocks,), (256,), arguments)
            event.record(gpu.stream)
        before.synchronize()
        seen = clocks()
        behind.synchronize()
    return seen


def tried(what: str, work: Callable[[], T], notes: list[str]) -> T | None:
    """The result, or None and a note."""
    try:
        return work()
    except Exception as error:
        notes.append(f"{what}: not measured ({type(error).__name__}: {error})"[:200])
        return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
