"""A GPU in words: its own figures. What follows from them for a task, the researcher tells."""

from cuda_llm.agents.situation import Situation

_TENSOR_TYPES = {"tf32": "tf32", "fp16": "fp16", "bf16": "bf16"}


def say_facts(situation: Situation) -> tuple[str, ...]:
    """One fact a line."""
    hardware = situation.hardware
    limits, peaks = hardware.limits, hardware.peaks
    major, minor = hardware.compute_capability
    return (
        f"{hardware.name}: {hardware.architecture}, compute capability {major}.{minor} "
        f"({hardware.target}), {hardware.sm_count} SMs at {hardware.boost_clock_mhz:,.0f} MHz",
        f"DRAM: {peaks.dram_gb_s:,.0f} GB/s; L2: {_mebibytes(hardware.l2_bytes)}",
        f"fp32: {peaks.fp32_tflops:g} TFLOPS",
        *_tensor(situation),
        f"shared memory: {_kibibytes(limits.shared_bytes_per_block)} a block, "
        f"{_kibibytes(limits.shared_bytes_per_block_optin)} when asked for "
        "(cudaFuncAttributeMaxDynamicSharedMemorySize), "
        f"{_kibibytes(limits.shared_bytes_per_sm)} an SM, of which each block takes "
        f"{_kibibytes(limits.shared_bytes_reserved_per_block)} for itself",
        f"registers: {limits.registers_per_sm:,} an SM, 255 a thread at most",
        f"threads: {limits.threads_per_block:,} a block, {limits.threads_per_sm:,} an SM; blocks: "
        f"{limits.blocks_per_sm} an SM",
        f"an SM serves {hardware.pipes.load_store:g} four-byte words of shared memory or L1 a "
        "clock",
    )


def _tensor(situation: Situation) -> tuple[str, ...]:
    """Tensor cores, where the task's precision lets a kernel use them and the device has them."""
    precision = situation.task.tolerance.precision
    rate = situation.hardware.peaks.tensor_dense_tflops.get(_TENSOR_TYPES.get(precision, ""))
    if rate is None or not situation.capabilities.full_isa:
        return ()
    return (f"tensor cores, {precision} inputs: {rate:g} TFLOPS",)


def _kibibytes(count: int) -> str:
    return f"{count / 1024:g} KiB"


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:g} MiB"
