"""From arrays to a call of `solve`, and the checks that stand in front of a wild pointer."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, Protocol

ALIGNMENT = 256
"""Bytes. The kernel was proven on buffers that begin at such an address and may rely on it."""

CTYPES: dict[str, Any] = {
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "int8": ctypes.c_int8,
    "int16": ctypes.c_int16,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8,
    "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64,
    "bool": ctypes.c_bool,
}
ITEM_BYTES = {name: ctypes.sizeof(kind) for name, kind in CTYPES.items()} | {
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "complex64": 8,
    "complex128": 16,
}


class View(NamedTuple):
    """What is looked at in an array."""

    dtype: str
    """The framework's name, e.g. `float32`."""
    shape: tuple[int, ...]
    contiguous: bool
    """Row-major without gaps."""
    pointer: int
    device: int


class Argument(NamedTuple):
    """One argument of `solve`."""

    name: str
    role: str
    """`in`, `out`, `inout` or `scalar`."""
    dtype: str
    extents: tuple[str, ...] = ()
    """Of a buffer, as arithmetic on dims."""


class Framework(Protocol):
    """What arrays are made of."""

    def look(self, name: str, array: Any) -> tuple[str, tuple[int, ...], bool, int, int]:
        """The fields of a View. Raises TypeError where `array` is none."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: str, device: int) -> Any:
        """A new array."""
        ...

    def target(self, device: int) -> str:
        """nvcc's name of the GPU's architecture, e.g. `sm_90`."""
        ...

    def in_order(self, device: int) -> AbstractContextManager[None]:
        """While open, `device` is current, and the default stream follows the current one."""
        ...


@dataclass(frozen=True)
class Contract:
    """How `solve` is called."""

    name: str
    arguments: tuple[Argument, ...]
    dims: tuple[str, ...]
    shapes: Callable[..., Mapping[str, tuple[int, ...]]]
    """Shape of every buffer, from the dims by name."""
    scalars: Callable[..., Mapping[str, Any]]
    """Value of every scalar, from the dims by name."""
    holds: Callable[..., Any]
    """Whether the dims by name are allowed."""
    requires: str = ""
    """The same in words; empty where all are."""

    def buffers(self, *roles: str) -> tuple[Argument, ...]:
        """Arguments of these roles, in order."""
        return tuple(argument for argument in self.arguments if argument.role in roles)


def call(
    contract: Contract,
    framework: Framework,
    load: Callable[[str], Callable[[Sequence[Any]], str]],
    arrays: Mapping[str, Any],
    given: Mapping[str, int | None],
) -> Any:
    """Check everything, make the outputs that are missing, call `solve`; the outputs.

    `load` makes a function of an architecture: from arguments to an error, empty where all is well.
    Raises TypeError and ValueError for arguments that do not fit, RuntimeError for CUDA's own.
    """
    views = {
        name: View(*framework.look(name, array))
        for name, array in arrays.items()
        if array is not None
    }
    dims = find_dims(contract, {name: view.shape for name, view in views.items()}, given)
    shapes = contract.shapes(**dims)
    device = check(contract, views, shapes)
    made = dict(arrays)
    for argument in contract.buffers("out"):
        if argument.name not in views:
            made[argument.name] = framework.empty(shapes[argument.name], argument.dtype, device)
            views[argument.name] = View(*framework.look(argument.name, made[argument.name]))
    solve = load(framework.target(device))
    with framework.in_order(device):
        error = solve(values(contract, views, dims))
    if error:
        raise RuntimeError(f"{contract.name}: {error}")
    outputs = [made[argument.name] for argument in contract.buffers("out")]
    if not outputs:
        return None
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def find_dims(
    contract: Contract, shapes: Mapping[str, Sequence[int]], given: Mapping[str, int | None]
) -> dict[str, int]:
    """The dims: those given, the others from the shapes. Raises ValueError and TypeError."""
    dims = {name: value for name, value in given.items() if value is not None}
    origin = {name: f"{name} = {value}" for name, value in dims.items()}
    for argument in contract.arguments:
        if argument.name not in shapes:
            continue
        shape = tuple(shapes[argument.name])
        if len(shape) != len(argument.extents):
            raise ValueError(
                f"{argument.name}: has {len(shape)} dimensions; expected {spell(argument.extents)}"
            )
        for text, extent in zip(argument.extents, shape, strict=True):
            if text in contract.dims and dims.setdefault(text, extent) != extent:
                raise ValueError(
                    f"{argument.name}: has shape {shape}; expected {spell(argument.extents)} "
                    f"with {origin[text]}"
                )
            origin.setdefault(text, f"{text} = {extent} as in {argument.name}")
    missing = [name for name in contract.dims if name not in dims]
    if missing:
        raise TypeError(
            f"{contract.name}: {missing[0]} follows from no array given; pass {missing[0]}=..."
        )
    for name, value in dims.items():
        if value < 1:
            raise ValueError(f"{contract.name}: {name} is {value}; expected at least 1")
    if not contract.holds(**dims):
        raise ValueError(f"{contract.name}: {contract.requires} does not hold for {dims}")
    return dims


def check(
    contract: Contract, views: Mapping[str, View], shapes: Mapping[str, tuple[int, ...]]
) -> int:
    """The one device all arrays lie on. Raises TypeError and ValueError for what does not fit."""
    device: int | None = None
    for argument in contract.buffers("in", "inout", "out"):
        view = views.get(argument.name)
        if view is None:
            continue
        check_one(argument, view, shapes[argument.name])
        device = view.device if device is None else device
        if view.device != device:
            raise ValueError(
                f"{argument.name}: lies on device {view.device}, the others on {device}"
            )
    check_apart(contract, views)
    if device is None:
        raise TypeError(f"{contract.name}: no array given")
    return device


def check_one(argument: Argument, view: View, shape: tuple[int, ...]) -> None:
    """Whether one array is what the kernel takes. Raises TypeError and ValueError."""
    name = argument.name
    if view.dtype != argument.dtype:
        raise TypeError(f"{name}: has dtype {view.dtype}; expected {argument.dtype}")
    if tuple(view.shape) != tuple(shape):
        raise ValueError(
            f"{name}: has shape {tuple(view.shape)}; "
            f"expected {spell(argument.extents)} = {tuple(shape)}"
        )
    if not view.contiguous:
        raise ValueError(f"{name}: is not contiguous; expected row-major without gaps: pass a copy")
    if view.pointer % ALIGNMENT:
        raise ValueError(
            f"{name}: begins at an address that is no multiple of {ALIGNMENT} bytes, "
            "which the kernel may rely on: pass a copy"
        )


def check_apart(contract: Contract, views: Mapping[str, View]) -> None:
    """Raises ValueError where what is written overlaps anything else."""
    spans = {
        argument.name: (
            views[argument.name].pointer,
            views[argument.name].pointer
            + prod(views[argument.name].shape) * ITEM_BYTES[argument.dtype],
        )
        for argument in contract.buffers("in", "inout", "out")
        if argument.name in views
    }
    for argument in contract.buffers("inout", "out"):
        for name, (begin, end) in spans.items():
            if argument.name not in spans or name == argument.name:
                continue
            own_begin, own_end = spans[argument.name]
            if own_begin < end and begin < own_end:
                raise ValueError(f"{argument.name}: shares memory with {name}; expected its own")


def values(contract: Contract, views: Mapping[str, View], dims: Mapping[str, int]) -> list[Any]:
    """What `solve` is called with. Raises ValueError where a scalar does not fit its type."""
    scalars = contract.scalars(**dims)
    passed: list[Any] = []
    for argument in contract.arguments:
        if argument.role != "scalar":
            passed.append(ctypes.c_void_p(views[argument.name].pointer))
            continue
        value, kind = scalars[argument.name], CTYPES[argument.dtype]
        exact = kind(value)
        if not argument.dtype.startswith("float") and exact.value != value:
            raise ValueError(f"{argument.name}: {value} does not fit {argument.dtype}")
        passed.append(exact)
    return passed


def ceil_div(dividend: int, divisor: int) -> int:
    """Quotient, rounded up."""
    return -(-dividend // divisor)


def spell(extents: Sequence[str]) -> str:
    """`(rows, cols)`."""
    return f"({', '.join(extents)}{',' if len(extents) == 1 else ''})"
