"""The process that probes: `python -P -m cuda_llm.tools.cuda.probe_program ORDINAL CUBIN` prints
JSON.

A process of its own, because what goes wrong on a GPU takes the process with it, and a deadline
must be able to end it.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from cuda_llm.tools.cuda.nvml import open_nvml, read_state
from cuda_llm.tools.cuda.probe import NO_PACKAGE, Probe, ProbedClocks, ProbedCopy
from cuda_llm.tools.cuda.probed_gpu import GpuStep, ProbedGpu
from cuda_llm.tools.device.buffers import Array

THREADS = 256
BLOCKS_PER_SM = 16
ROUNDS = 64
FLOPS_PER_ROUND = 2 * 64 * 8
SIDE = 8192
"""Rows and columns of the square matrices that are multiplied."""
FP32, FP16, BF16 = 0, 2, 14
"""`cudaDataType_t` of CUDA 13.0."""
COMPUTE_FP32, COMPUTE_TF32 = 68, 77
"""`cublasComputeType_t`: CUBLAS_COMPUTE_32F and CUBLAS_COMPUTE_32F_FAST_TF32."""
ANY_ALGORITHM = -1

TYPES: Mapping[str, tuple[int, int, str]] = {
    "fp16": (FP16, COMPUTE_FP32, "uint16"),
    "bf16": (BF16, COMPUTE_FP32, "uint16"),
    "tf32": (FP32, COMPUTE_TF32, "uint32"),
}
"""Input type to its cuBLAS type, the type of the sums, and integers of its width."""

SMALLEST_BYTES = 1 << 20
LARGEST_BYTES = 4 << 30
"""Moved, read and written together; less where the GPU has no room for it."""
COPY_THREADS = 256
VECTOR_BYTES = 16
FLUSHED_L2 = 2
"""Bytes written before a cold copy, in units of the L2."""
VECTORS = 4
"""Vectors of VECTOR_BYTES that each thread copies."""
T = TypeVar("T")
BARRIERS = 10
"""Barriers of the grid in one kernel."""


def fp32_tflops(gpu: ProbedGpu) -> float:
    """Measure the CUDA cores by enough independent chains to keep every lane busy."""
    blocks = BLOCKS_PER_SM * gpu.sm_count
    out = gpu.cupy.empty(blocks * THREADS, "float32")
    kernel = gpu.kernel("multiply_add")
    arguments = (out, gpu.cupy.int32(ROUNDS), gpu.cupy.float32(0.5))
    seconds = gpu.step_s(lambda: kernel((blocks,), (THREADS,), arguments))
    return blocks * THREADS * ROUNDS * FLOPS_PER_ROUND / seconds / 1e12


def tensor_tflops(gpu: ProbedGpu, name: str) -> float:
    """Measure cuBLAS on inputs of that type with random bits: zeros would draw less power.

    Raises what CuPy raises where the type or cuBLAS is not available.
    """
    import numpy as np

    kind, compute, integer = TYPES[name]
    xp, blas = gpu.cupy, gpu.cupy.cuda.cublas
    left, right = (near_one(xp, integer, name) for _ in range(2))
    product = xp.empty((SIDE, SIDE), integer)
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    handle = gpu.device.cublas_handle

    def step() -> None:
        blas.setStream(handle, gpu.stream.ptr)
        blas.gemmEx(
            *(handle, 0, 0, SIDE, SIDE, SIDE, one.ctypes.data),
            *(left.data.ptr, kind, SIDE, right.data.ptr, kind, SIDE, zero.ctypes.data),
            *(product.data.ptr, kind, SIDE, compute, ANY_ALGORITHM),
        )

    # What cuBLAS sets up at its first call is no part of the product, and cannot be captured.
    return 2 * SIDE**3 / gpu.queued_s(step) / 1e12


def near_one(xp: Any, integer: str, name: str) -> Array:
    """Return a matrix of numbers from 1 to 2, every bit of the mantissa random."""
    one, mantissa = {
        "fp16": (0x3C00, 0x3FF),
        "bf16": (0x3F80, 0x7F),
        "tf32": (0x3F800000, 0x7FFFFF),
    }[name]
    drawn = xp.random.randint(0, mantissa + 1, (SIDE, SIDE), dtype=integer)
    return drawn | xp.asarray(one, integer)


def copy_rates(gpu: ProbedGpu) -> tuple[ProbedCopy, ...]:
    """Measure copies of each size, cold and warm."""
    flushed = gpu.cupy.empty(FLUSHED_L2 * gpu.l2_bytes, "uint8")

    def flush() -> None:
        flushed.data.memset_async(0, flushed.nbytes, gpu.stream)

    flush_s = gpu.step_s(flush)
    most = min(LARGEST_BYTES, gpu.device.mem_info[0] // 2)
    rates = []
    for moved in copy_sizes(most):
        rates.append(copy_rate(gpu, moved, flush, flush_s))
        gpu.cupy.get_default_memory_pool().free_all_blocks()
    return tuple(rates)


def copy_rate(gpu: ProbedGpu, moved: int, flush: GpuStep, flush_s: float) -> ProbedCopy:
    """Measure copies of one size. The time of the flush before each cold copy is subtracted."""
    each = moved // 2
    source, target = gpu.cupy.zeros(each, "uint8"), gpu.cupy.empty(each, "uint8")
    gpu.device.synchronize()
    kernel = gpu.kernel("copy")
    grid = -(-each // (COPY_THREADS * VECTORS * VECTOR_BYTES))
    arguments = (source, target, gpu.cupy.int64(each // VECTOR_BYTES))

    def by_us() -> None:
        kernel((grid,), (COPY_THREADS,), arguments)

    def by_the_driver() -> None:
        target.data.copy_from_device_async(source.data, each, gpu.stream)

    def behind_flush(copy: GpuStep) -> GpuStep:
        def both() -> None:
            flush()
            copy()

        return both

    ways = (by_us, by_the_driver)
    cold_s = min(gpu.step_s(behind_flush(copy)) for copy in ways) - flush_s
    warm_s = min(gpu.step_s(copy) for copy in ways)
    return ProbedCopy(
        moved_bytes=moved, cold_gb_s=moved / cold_s / 1e9, warm_gb_s=moved / warm_s / 1e9
    )


def copy_sizes(most: int) -> list[int]:
    """Return sizes in bytes from SMALLEST_BYTES to `most`, each twice the previous size."""
    found, size = [], SMALLEST_BYTES
    while size <= most:
        found.append(size)
        size *= 2
    return found


def main(ordinal: str, cubin: str) -> int:
    """Measure the GPU and print a Probe as JSON; return the exit status."""
    try:
        gpu = ProbedGpu(int(ordinal), Path(cubin))
    except ImportError as error:
        print(f"{error}", file=sys.stderr)
        return NO_PACKAGE
    print(json.dumps(asdict(measure(gpu))))
    return 0


def measure(gpu: ProbedGpu) -> Probe:
    """Measure everything; what cannot be measured is a note."""
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


def barrier_us(gpu: ProbedGpu) -> tuple[float, float]:
    """Return the microseconds of a grid barrier, and of a cooperative launch without barriers."""
    meet = gpu.cooperative("meet")

    def waiting(rounds: int) -> float:
        arguments = (gpu.cupy.int32(rounds),)
        return gpu.step_s(lambda: meet((gpu.sm_count,), (256,), arguments)) * 1e6

    none, many = waiting(0), waiting(BARRIERS)
    return (many - none) / BARRIERS, none


def open_clocks(gpu: ProbedGpu, notes: list[str]) -> Callable[[], ProbedClocks | None]:
    """Return a function that reads the clocks; it returns None where NVML cannot be asked."""
    try:
        nvml = open_nvml()
    except Exception as error:
        notes.append(f"clocks: NVML cannot be asked ({error})")
        return lambda: None

    def read() -> ProbedClocks:
        state = read_state(nvml, gpu.device.pci_bus_id)
        return ProbedClocks(
            sm_mhz=int(state.sm_mhz), memory_mhz=int(state.memory_mhz), reasons=state.reasons
        )

    return lambda: tried("clocks", read, notes)


def under_load(gpu: ProbedGpu, clocks: Callable[[], ProbedClocks | None]) -> ProbedClocks | None:
    """Read the clocks after a fifth of a second of arithmetic, while it still goes on."""
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
    """Return what `work` returns, or None with a note."""
    try:
        return work()
    except Exception as error:
        notes.append(f"{what}: not measured ({type(error).__name__}: {error})"[:200])
        return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
