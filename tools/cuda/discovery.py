"""Finds the GPUs of this machine, and the figures in which profile and driver differ."""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from cuda_llm.errors import HardwareError, InfrastructureError, MissingError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.cuda.driver_query import NO_DRIVER, GpuAttributes

DRIVER = "libcuda.so.1"
LIMIT_S = 30.0
NO_DEVICE = 100
"""CUresult CUDA_ERROR_NO_DEVICE."""

CLOCK_PART = 0.10
"""Largest relative difference of clocks that boards of one name have; memory sizes differ by the
share of ECC."""
MEMORY_PART = 0.08
BANDWIDTH_PART = 0.03
_LIMITS = (
    *("threads_per_block", "threads_per_sm", "blocks_per_sm"),
    *("registers_per_sm", "registers_per_block"),
    *("shared_bytes_per_sm", "shared_bytes_per_block", "shared_bytes_per_block_optin"),
    "shared_bytes_reserved_per_block",
)


def detect_gpus(library: str = DRIVER) -> tuple[GpuAttributes, ...]:
    """Return every GPU that the driver `library` knows, in its order.

    Raises MissingError where there is no driver or no GPU, InfrastructureError where the driver
    fails or does not answer.
    """
    command = [sys.executable, "-P", "-m", "cuda_llm.tools.cuda.driver_query", library]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        msg = f"the driver did not answer within {LIMIT_S:g} s; see nvidia-smi"
        raise InfrastructureError("GPU", msg) from None
    if done.returncode == NO_DRIVER:
        remedy = "install NVIDIA's driver, or use --device emulated"
        raise MissingError(f"no CUDA driver ({library}) on this machine", remedy)
    if done.returncode != 0:
        msg = f"asking the driver ended with {done.returncode}; see nvidia-smi"
        raise InfrastructureError("GPU", msg)
    answer = json.loads(done.stdout)
    gpus = tuple(_read_attributes(one) for one in answer.get("gpus", ()))
    if answer.get("error", NO_DEVICE) == NO_DEVICE and not gpus:
        raise MissingError("the CUDA driver sees no GPU", "look at nvidia-smi and /dev/nvidia*")
    if not gpus:
        msg = f"{answer['call']} failed with CUresult {answer['error']}; see nvidia-smi"
        raise InfrastructureError("GPU", msg)
    return gpus


def _read_attributes(data: dict[str, Any]) -> GpuAttributes:
    major, minor = data.pop("compute_capability")
    return GpuAttributes(compute_capability=(major, minor), **data)


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """One figure for which device and profile state different values."""

    key: str
    """Dotted, as in the profile's file."""
    device: float
    profile: float


def find_profile(gpu: GpuAttributes) -> Hardware | None:
    """Return the profile of exactly that name, or None: a near miss is another GPU."""
    try:
        return find_hardware(gpu.name)
    except HardwareError:
        return None


def find_disagreements(gpu: GpuAttributes, profile: Hardware) -> tuple[Disagreement, ...]:
    """Return every figure in which the driver contradicts the profile."""
    limits = profile.limits
    exact = {
        "sm_count": (gpu.sm_count, profile.sm_count),
        "compute_capability": (
            _number(gpu.compute_capability),
            _number(profile.compute_capability),
        ),
        "memory_bus_bits": (gpu.memory_bus_bits, profile.memory_bus_bits),
        "l2_bytes": (gpu.l2_bytes, profile.l2_bytes),
        **{f"limits.{key}": (getattr(gpu, key), getattr(limits, key)) for key in _LIMITS},
    }
    close = {
        "boost_clock_mhz": (gpu.clock_khz / 1e3, profile.boost_clock_mhz, CLOCK_PART),
        "memory_bytes": (gpu.memory_bytes, profile.memory_bytes, MEMORY_PART),
        "peaks.dram_gb_s": (gpu.dram_gb_s, profile.peaks.dram_gb_s, BANDWIDTH_PART),
    }
    differing = [(key, one, other) for key, (one, other) in exact.items() if one != other]
    differing += [
        (key, one, other)
        for key, (one, other, part) in close.items()
        if abs(one - other) > part * other
    ]
    return tuple(Disagreement(key=key, device=one, profile=other) for key, one, other in differing)


def _number(capability: tuple[int, int]) -> float:
    major, minor = capability
    return major + minor / 10
