"""CuPy's arrays, devices and streams."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def look(name: str, array: Any) -> tuple[str, tuple[int, ...], bool, int, int]:
    """Dtype, shape, whether contiguous, address and device. Raises TypeError for other arrays."""
    if not hasattr(array, "__cuda_array_interface__") or not hasattr(array, "flags"):
        kind = f"{type(array).__module__}.{type(array).__qualname__}"
        raise TypeError(f"{name}: is a {kind}; expected a cupy.ndarray")
    pointer = array.__cuda_array_interface__["data"][0]
    contiguous = bool(array.flags.c_contiguous)
    return str(array.dtype), tuple(array.shape), contiguous, pointer, array.device.id


def empty(shape: tuple[int, ...], dtype: str, device: int) -> Any:
    """A new array. Raises ImportError where CuPy is missing."""
    cupy = need_cupy()
    with cupy.cuda.Device(device):
        return cupy.empty(shape, dtype)


def target(device: int) -> str:
    """nvcc's name of the GPU's architecture."""
    return f"sm_{need_cupy().cuda.Device(device).compute_capability}"


@contextmanager
def in_order(device: int) -> Iterator[None]:
    """Let the default stream, where `solve` works, wait for the current one, then the reverse."""
    cuda = need_cupy().cuda
    with cuda.Device(device):
        current, default = cuda.get_current_stream(), cuda.Stream.null
        if current.ptr:
            default.wait_event(current.record())
        yield
        if current.ptr:
            current.wait_event(default.record())


def need_cupy() -> Any:
    """CuPy. Raises ImportError with the remedy."""
    try:
        return importlib.import_module("cupy")
    except ImportError:
        raise ImportError("CuPy is missing; install it: pip install cupy-cuda13x") from None
