"""What the CUDA driver says of a GPU."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class GpuAttributes:
    """One GPU as the driver describes it."""

    ordinal: int
    name: str
    compute_capability: tuple[int, int]
    memory_bytes: int
    sm_count: int
    clock_khz: int
    memory_clock_khz: int
    """The data rate per pin is twice this."""
    memory_bus_bits: int
    l2_bytes: int
    threads_per_block: int
    threads_per_sm: int
    blocks_per_sm: int
    registers_per_sm: int
    registers_per_block: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    shared_bytes_per_block_optin: int
    shared_bytes_reserved_per_block: int
    uuid: str = ""
    """As nvidia-smi and CUDA_VISIBLE_DEVICES spell it: `GPU-` and 32 hexadecimal digits."""
    driver_cuda: int = 0
    """Newest CUDA the driver runs: 13000 is 13.0."""

    @property
    def dram_gb_s(self) -> float:
        """Peak bandwidth of its memory: bus width times data rate."""
        return 2 * self.memory_clock_khz * 1e3 * self.memory_bus_bits / 8 / 1e9


ATTRIBUTE_NUMBERS = {
    "threads_per_block": 1,
    "shared_bytes_per_block": 8,
    "registers_per_block": 12,
    "clock_khz": 13,
    "sm_count": 16,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "threads_per_sm": 39,
    "compute_capability_major": 75,
    "compute_capability_minor": 76,
    "shared_bytes_per_sm": 81,
    "registers_per_sm": 82,
    "shared_bytes_per_block_optin": 97,
    "blocks_per_sm": 106,
    "shared_bytes_reserved_per_block": 111,
}
"""`CUdevice_attribute` of the driver API (cuda.h of CUDA 13.0), by the name we give it."""
