"""Throughput of arithmetic: fused multiply-adds of our own, and cuBLAS on the tensor cores."""

from collections.abc import Mapping
from typing import Any

from cuda_llm.tools.arrays import Array
from cuda_llm.tools.prober.gpu import Gpu

THREADS = 256
BLOCKS_PER_SM = 16
ROUNDS = 64
FLOPS_PER_ROUND = 2 * 64 * 8
SIDE = 8192
"""Of the square matrices that are multiplied."""
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


def fp32_tflops(gpu: Gpu) -> float:
    """Of the CUDA cores: enough independent chains to keep every lane busy."""
    blocks = BLOCKS_PER_SM * gpu.sm_count
    out = gpu.cupy.empty(blocks * THREADS, "float32")
    kernel = gpu.kernel("multiply_add")
    arguments = (out, gpu.cupy.int32(ROUNDS), gpu.cupy.float32(0.5))
    seconds = gpu.step_s(lambda: kernel((blocks,), (THREADS,), arguments))
    return blocks * THREADS * ROUNDS * FLOPS_PER_ROUND / seconds / 1e12


def tensor_tflops(gpu: Gpu, name: str) -> float:
    """Of cuBLAS with inputs of that type, whose bits are random: zeros would draw less power.

    Raises what CuPy raises where the type or cuBLAS is not to be had.
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
    """A matrix of numbers from 1 to 2, every bit of the mantissa random."""
    one, mantissa = {
        "fp16": (0x3C00, 0x3FF),
        "bf16": (0x3F80, 0x7F),
        "tf32": (0x3F800000, 0x7FFFFF),
    }[name]
    drawn = xp.random.randint(0, mantissa + 1, (SIDE, SIDE), dtype=integer)
    return drawn | xp.asarray(one, integer)
