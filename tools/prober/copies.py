"""Bandwidth of a plain copy, by size: the better of a kernel of ours and the driver's own."""

from cuda_llm.tools.prober.gpu import Gpu, Step
from cuda_llm.tools.prober.probe import CopyRate

SMALLEST_BYTES = 1 << 20
LARGEST_BYTES = 4 << 30
"""Moved, read and written together; less where the GPU has no room for it."""
THREADS = 256
VECTOR_BYTES = 16
FLUSHED_L2 = 2
"""Bytes written before a cold copy, in units of the L2."""
VECTORS = 4
"""That a thread copies."""


def copy_rates(gpu: Gpu) -> tuple[CopyRate, ...]:
    """Each size in turn, cold and warm."""
    flushed = gpu.cupy.empty(FLUSHED_L2 * gpu.l2_bytes, "uint8")

    def flush() -> None:
        flushed.data.memset_async(0, flushed.nbytes, gpu.stream)

    flush_s = gpu.step_s(flush)
    most = min(LARGEST_BYTES, gpu.device.mem_info[0] // 2)
    rates = []
    for moved in sizes(most):
        rates.append(copy_rate(gpu, moved, flush, flush_s))
        gpu.cupy.get_default_memory_pool().free_all_blocks()
    return tuple(rates)


def copy_rate(gpu: Gpu, moved: int, flush: Step, flush_s: float) -> CopyRate:
    """Of one size. What a flush before each copy takes is taken off."""
    each = moved // 2
    source, target = gpu.cupy.zeros(each, "uint8"), gpu.cupy.empty(each, "uint8")
    gpu.device.synchronize()
    kernel = gpu.kernel("copy")
    grid = -(-each // (THREADS * VECTORS * VECTOR_BYTES))
    arguments = (source, target, gpu.cupy.int64(each // VECTOR_BYTES))

    def by_us() -> None:
        kernel((grid,), (THREADS,), arguments)

    def by_the_driver() -> None:
        target.data.copy_from_device_async(source.data, each, gpu.stream)

    def behind_flush(copy: Step) -> Step:
        def both() -> None:
            flush()
            copy()

        return both

    ways = (by_us, by_the_driver)
    cold_s = min(gpu.step_s(behind_flush(copy)) for copy in ways) - flush_s
    warm_s = min(gpu.step_s(copy) for copy in ways)
    return CopyRate(
        moved_bytes=moved, cold_gb_s=moved / cold_s / 1e9, warm_gb_s=moved / warm_s / 1e9
    )


def sizes(most: int) -> list[int]:
    """From the smallest on, each twice the one before."""
    found, size = [], SMALLEST_BYTES
    while size <= most:
        found.append(size)
        size *= 2
    return found
