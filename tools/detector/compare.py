"""A GPU beside the profile that bears its name."""

from dataclasses import dataclass

from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.detector.attributes import GpuAttributes

CLOCK_PART = 0.10
"""Boards of one name differ in their clocks by up to this; memory sizes by what ECC takes."""
MEMORY_PART = 0.08
BANDWIDTH_PART = 0.03


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """One figure that device and profile state differently."""

    key: str
    """Dotted, as in the profile's file."""
    device: float
    profile: float


def find_profile(gpu: GpuAttributes) -> Hardware | None:
    """The profile of exactly that name, or None: a near miss is another GPU."""
    try:
        return find_hardware(gpu.name)
    except HardwareError:
        return None


def find_disagreements(gpu: GpuAttributes, profile: Hardware) -> tuple[Disagreement, ...]:
    """Every figure in which the driver contradicts the profile."""
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


_LIMITS = (
    *("threads_per_block", "threads_per_sm", "blocks_per_sm"),
    *("registers_per_sm", "registers_per_block"),
    *("shared_bytes_per_sm", "shared_bytes_per_block", "shared_bytes_per_block_optin"),
    "shared_bytes_reserved_per_block",
)


def _number(capability: tuple[int, int]) -> float:
    major, minor = capability
    return major + minor / 10
