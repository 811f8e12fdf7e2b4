"""A hardware profile as the facts our CUDA runtime answers questions with."""

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tools.runner.protocol import DeviceFacts


def device_facts(hardware: Hardware) -> DeviceFacts:
    """What `cudaGetDeviceProperties` and the launch checks need to know of `hardware`."""
    limits = hardware.limits
    major, minor = hardware.compute_capability
    return DeviceFacts(
        name=hardware.name.encode()[:63],
        compute_major=major,
        compute_minor=minor,
        sm_count=hardware.sm_count,
        max_threads_per_block=limits.threads_per_block,
        max_threads_per_sm=limits.threads_per_sm,
        max_blocks_per_sm=limits.blocks_per_sm,
        registers_per_sm=limits.registers_per_sm,
        registers_per_block=limits.registers_per_block,
        shared_bytes_per_block=limits.shared_bytes_per_block,
        shared_bytes_per_block_optin=limits.shared_bytes_per_block_optin,
        shared_bytes_per_sm=limits.shared_bytes_per_sm,
        shared_bytes_reserved=limits.shared_bytes_reserved_per_block,
        l2_bytes=hardware.l2_bytes,
        clock_khz=round(hardware.boost_clock_mhz * 1000),
        memory_clock_khz=round(hardware.memory_clock_mhz * 1000),
        memory_bus_bits=hardware.memory_bus_bits,
        memory_bytes=hardware.memory_bytes,
    )
