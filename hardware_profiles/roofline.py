"""The roofline of published peaks: the least time a GPU can need for given work.

After Williams, Waterman and Patterson (CACM 2009)."""

from dataclasses import dataclass
from typing import Literal

from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.hardware import Hardware

_INSTEAD = {
    "fp16_acc16": "fp16",
    "fp8_acc16": "fp8",
    "fp8": "fp16",
    "bf16": "fp16",
    "tf32": "fp16",
    "int8": "fp16",
}
"""Precision whose peak holds for products without a peak of their own."""
_WIDENS_FP8 = ((9, 0), (10, 0))
"""Compute capabilities where ptxas 13 makes mma.sync on fp8 into conversions and mma on f16."""


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
    """Return the dense peak in TFLOPS. Raises HardwareError where the chip has no unit for the
    precision."""
    peak = published_peaks(hardware).get(precision)
    if peak is None:
        msg = f"{hardware.name} has no published peak for {precision}"
        raise HardwareError(msg)
    return peak


def mma_sync_tflops(hardware: Hardware, kind: str) -> float:
    """Return what `mma.sync` and `wmma` reach on inputs of a kind, as in `tensor_dense_tflops`.

    Where a chip has no tensor cores for them, the rate of its CUDA cores.
    """
    if kind.startswith("fp8") and hardware.compute_capability in _WIDENS_FP8:
        kind = "fp16"
    peaks = hardware.peaks.tensor_dense_tflops
    kind = _with_a_peak(hardware, kind)
    if kind == "fp64":
        # wgmma has no such type: what there is, mma.sync reaches.
        return peaks.get(kind, hardware.peaks.fp64_tflops or hardware.peaks.fp32_tflops)
    if kind not in peaks:
        return hardware.peaks.fp16_tflops or hardware.peaks.fp32_tflops
    return peaks[kind] * hardware.model.mma_sync_efficiency


def _with_a_peak(hardware: Hardware, kind: str) -> str:
    while kind not in hardware.peaks.tensor_dense_tflops and kind in _INSTEAD:
        kind = _INSTEAD[kind]
    return kind


def wgmma_tflops(hardware: Hardware, kind: str) -> float:
    """Return what `wgmma` reaches on inputs of a kind: the published peak, or 0."""
    peaks = hardware.peaks.tensor_dense_tflops
    return peaks.get(_with_a_peak(hardware, kind), 0.0)


def wgmma_per_clk(hardware: Hardware, kind: str) -> float:
    """Return the operations of `wgmma` that an SM does in a clock."""
    clocks = hardware.sm_count * hardware.boost_clock_mhz
    return wgmma_tflops(hardware, kind) * 1e6 / clocks


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
