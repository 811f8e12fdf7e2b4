"""Computes how many blocks of a kernel an SM holds at once, and which resource limits them.

The rules are those of NVIDIA's occupancy calculator (`cuda_occupancy.h`): registers are allocated
per warp and per scheduler, shared memory per block, both in units of the compute capability.
"""

from dataclasses import dataclass

from cuda_llm.hardware_profiles.hardware import Hardware

WARP_THREADS = 32
MOST_REGISTERS_PER_THREAD = 255


@dataclass(frozen=True, kw_only=True)
class Occupancy:
    """Blocks and warps of a kernel that an SM holds at once."""

    blocks_per_sm: int
    """Resident blocks of an SM; 0: the kernel cannot be launched at all."""
    warps_per_sm: int
    fraction: float
    """Resident warps over the most that an SM holds, 0 to 1."""
    limited_by: tuple[str, ...]
    """Resources that limit `blocks_per_sm`: `threads`, `registers`, `shared`, `blocks`; several on
    a tie."""


def occupancy(
    hardware: Hardware, *, threads_per_block: int, registers_per_thread: int, shared_bytes: int
) -> Occupancy:
    """Compute the occupancy of a kernel; `shared_bytes` are static and dynamic together."""
    most = {
        "threads": _by_threads(hardware, threads_per_block),
        "registers": _by_registers(hardware, threads_per_block, registers_per_thread),
        "shared": _by_shared(hardware, shared_bytes),
        "blocks": hardware.limits.blocks_per_sm,
    }
    blocks = min(most.values())
    warps = blocks * _warps(threads_per_block)
    return Occupancy(
        blocks_per_sm=blocks,
        warps_per_sm=warps,
        fraction=warps * WARP_THREADS / hardware.limits.threads_per_sm,
        limited_by=tuple(resource for resource, count in most.items() if count == blocks),
    )


def _by_threads(hardware: Hardware, threads: int) -> int:
    limits = hardware.limits
    if not 0 < threads <= limits.threads_per_block:
        return 0
    return limits.threads_per_sm // (_warps(threads) * WARP_THREADS)


def _by_registers(hardware: Hardware, threads: int, registers: int) -> int:
    limits, warps = hardware.limits, _warps(threads)
    if registers > MOST_REGISTERS_PER_THREAD:
        return 0
    per_warp = _round_up(max(registers, 1) * WARP_THREADS, limits.register_allocation_unit)
    if per_warp * _round_up(warps, hardware.schedulers_per_sm) > limits.registers_per_block:
        return 0
    warps_per_scheduler = limits.registers_per_sm // hardware.schedulers_per_sm // per_warp
    return warps_per_scheduler * hardware.schedulers_per_sm // warps if warps else 0


def _by_shared(hardware: Hardware, shared_bytes: int) -> int:
    limits = hardware.limits
    if shared_bytes > limits.shared_bytes_per_block_optin:
        return 0
    used = shared_bytes + limits.shared_bytes_reserved_per_block
    used = _round_up(used, limits.shared_allocation_bytes)
    return limits.shared_bytes_per_sm // used if used else limits.blocks_per_sm


def _warps(threads: int) -> int:
    return -(-threads // WARP_THREADS)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
