"""Prints the attributes of all GPUs as the CUDA driver reports them, in a process that a driver
fault may end.

    python -P -m cuda_llm.tools.cuda.driver_query LIBRARY

Prints one JSON document: `{"gpus": [...]}` or `{"error": CUresult, "call": name}`.
"""

import ctypes
import json
import sys
from dataclasses import dataclass
from typing import Any
from uuid import UUID

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
NO_DRIVER = 3


@dataclass(frozen=True, kw_only=True)
class GpuAttributes:
    """Attributes of one GPU, as the CUDA driver reports them."""

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
    """UUID as nvidia-smi and CUDA_VISIBLE_DEVICES write it: `GPU-` and 32 hexadecimal digits."""
    driver_cuda: int = 0
    """Newest CUDA the driver runs: 13000 is 13.0."""

    @property
    def dram_gb_s(self) -> float:
        """Return the peak bandwidth of its memory: bus width times data rate."""
        return 2 * self.memory_clock_khz * 1e3 * self.memory_bus_bits / 8 / 1e9


class DriverError(Exception):
    """A call of the driver API failed."""


def main(library: str) -> int:
    """Print what the driver answers; exit with 3 where there is no driver."""
    try:
        driver = ctypes.CDLL(library)
    except OSError as error:
        print(error, file=sys.stderr)
        return NO_DRIVER
    try:
        print(json.dumps({"gpus": read_gpus(driver)}))
    except DriverError as error:
        call, result = error.args
        print(json.dumps({"error": result, "call": call}))
    return 0


def read_gpus(driver: ctypes.CDLL) -> list[dict[str, Any]]:
    """Return the attributes of every GPU. Raises DriverError."""
    call_driver(driver, "cuInit", 0)
    count, newest = ctypes.c_int(), ctypes.c_int()
    call_driver(driver, "cuDriverGetVersion", ctypes.byref(newest))
    call_driver(driver, "cuDeviceGetCount", ctypes.byref(count))
    both = {"driver_cuda": newest.value}
    return [both | read_gpu(driver, ordinal) for ordinal in range(count.value)]


def read_gpu(driver: ctypes.CDLL, ordinal: int) -> dict[str, Any]:
    """Return name, memory and attributes of the GPU with this ordinal. Raises DriverError."""
    device, value, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    name, raw = ctypes.create_string_buffer(256), ctypes.create_string_buffer(16)
    call_driver(driver, "cuDeviceGet", ctypes.byref(device), ordinal)
    call_driver(driver, "cuDeviceGetName", name, len(name), device)
    call_driver(driver, "cuDeviceTotalMem_v2", ctypes.byref(memory), device)
    call_driver(driver, "cuDeviceGetUuid_v2", raw, device)
    found: dict[str, Any] = {}
    for key, number in ATTRIBUTE_NUMBERS.items():
        call_driver(driver, "cuDeviceGetAttribute", ctypes.byref(value), number, device)
        found[key] = value.value
    capability = (found.pop("compute_capability_major"), found.pop("compute_capability_minor"))
    return {
        "ordinal": ordinal,
        "uuid": f"GPU-{UUID(bytes=raw.raw)}",
        "name": name.value.decode(errors="replace"),
        "compute_capability": capability,
        "memory_bytes": memory.value,
        **found,
    }


def call_driver(driver: ctypes.CDLL, name: str, *arguments: Any) -> None:
    """Call one function of the driver. Raises DriverError with the function's CUresult."""
    result = getattr(driver, name)(*arguments)
    if result != 0:
        raise DriverError(name, result)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
