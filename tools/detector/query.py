"""Ask the CUDA driver for its GPUs: a program of its own, so that no driver fault reaches us.

    python -m cuda_llm.tools.detector.query LIBRARY

Prints one JSON document: `{"gpus": [...]}` or `{"error": CUresult, "call": name}`.
"""

import ctypes
import json
import sys
from typing import Any
from uuid import UUID

from cuda_llm.tools.detector.attributes import ATTRIBUTE_NUMBERS

NO_DRIVER = 3


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
        print(json.dumps({"gpus": read_all(driver)}))
    except DriverError as error:
        call, result = error.args
        print(json.dumps({"error": result, "call": call}))
    return 0


def read_all(driver: ctypes.CDLL) -> list[dict[str, Any]]:
    """Every GPU. Raises DriverError."""
    call(driver, "cuInit", 0)
    count, newest = ctypes.c_int(), ctypes.c_int()
    call(driver, "cuDriverGetVersion", ctypes.byref(newest))
    call(driver, "cuDeviceGetCount", ctypes.byref(count))
    both = {"driver_cuda": newest.value}
    return [both | read_one(driver, ordinal) for ordinal in range(count.value)]


def read_one(driver: ctypes.CDLL, ordinal: int) -> dict[str, Any]:
    """Name, memory and attributes of one GPU. Raises DriverError."""
    device, value, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    name, raw = ctypes.create_string_buffer(256), ctypes.create_string_buffer(16)
    call(driver, "cuDeviceGet", ctypes.byref(device), ordinal)
    call(driver, "cuDeviceGetName", name, len(name), device)
    call(driver, "cuDeviceTotalMem_v2", ctypes.byref(memory), device)
    call(driver, "cuDeviceGetUuid_v2", raw, device)
    found: dict[str, Any] = {}
    for key, number in ATTRIBUTE_NUMBERS.items():
        call(driver, "cuDeviceGetAttribute", ctypes.byref(value), number, device)
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


def call(driver: ctypes.CDLL, name: str, *arguments: Any) -> None:
    """Call one function of the driver. Raises DriverError with its CUresult."""
    result = getattr(driver, name)(*arguments)
    if result != 0:
        raise DriverError(name, result)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
