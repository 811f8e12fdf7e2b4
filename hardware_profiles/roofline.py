"""The roofline of published peaks: the least time a GPU can need for given work.

After Williams, Waterman and Patterson (CACM 2009)."""

from dataclasses import dataclass
from typing import Literal

from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.hardware import Hardware


@dataclass(frozen=True, kw_only=True)
class Roof:
    """Least time for some work, and which roof it stands under."""

    time_us: float
    compute_us: float
    memory_us: float
    bound: Literal["compute", "memory"]


def published_peaks(hardware: Hardware) -> dict[str, float]:
    """Return dense peaks in TFLOPS of what the chip has, by precision.

    `fp32`, `fp64` and `fp16` are the CUDA cores'; `tensor:` and an input type, e.g. `tensor:tf32`,
    the tensor cores'.
    """
    cores = {
        "fp32": hardware.peaks.fp32_tflops,
        "fp64": hardware.peaks.fp64_tflops,
        "fp16": hardware.peaks.fp16_tflops,
    }
    tensor = {f"tensor:{kind}": rate for kind, rate in hardware.peaks.tensor_dense_tflops.items()}
    return {precision: rate for precision, rate in (cores | tensor).items() if rate > 0}


def peak_tflops(hardware: Hardware, precision: str) -> float:
    """Return the dense peak in TFLOPS. Raises HardwareError where the chip has no such unit."""
    peak = published_peaks(hardware).get(precision)
    if peak is None:
        msg = f"{hardware.name} has no published peak for {precision}"
        raise HardwareError(msg)
    return peak


def roof(hardware: Hardware, *, flops: float, bytes_moved: float, precision: str = "fp32") -> Roof:
    """Compute the least time for `flops` operations on `bytes_moved` bytes of DRAM traffic.

    One operation is half a fused multiply-add. Published peaks: no kernel is faster.
    """
    compute_us = flops / (peak_tflops(hardware, precision) * 1e6)
    memory_us = bytes_moved / (hardware.peaks.dram_gb_s * 1e3)
    return Roof(
        time_us=max(compute_us, memory_us),
        compute_us=compute_us,
        memory_us=memory_us,
        bound="compute" if compute_us > memory_us else "memory",
    )


def ridge_flops_per_byte(hardware: Hardware, precision: str = "fp32") -> float:
    """Return the arithmetic intensity above which work is compute-bound."""
    return peak_tflops(hardware, precision) * 1e3 / hardware.peaks.dram_gb_s
