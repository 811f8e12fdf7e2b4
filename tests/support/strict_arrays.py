"""Arrays that behave like CuPy's and lie on the host: what a GPU would refuse is refused here.

No array becomes a NumPy array, a number or a truth value unless it is brought to the host, nor does
a NumPy array come in other than through `asarray`. Both ways are counted.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from launch_on_host import launch_on_host, random_on_host

from cuda_llm.tools.device.buffers import HOST, Arrays, LaunchKernel

IN_CUPY = [
    "copysign",
    "abs",
    "all",
    "any",
    "arange",
    "argmax",
    "array",
    "array_equal",
    "ascontiguousarray",
    "asarray",
    "bincount",
    "broadcast_to",
    "clip",
    "concatenate",
    "dot",
    "empty",
    "empty_like",
    "full",
    "frexp",
    "full_like",
    "isfinite",
    "isinf",
    "isnan",
    "ldexp",
    "matmul",
    "maximum",
    "mean",
    "minimum",
    "multiply",
    "ones",
    "rint",
    "searchsorted",
    "sign",
    "sort",
    "sqrt",
    "square",
    "stack",
    "subtract",
    "sum",
    "take",
    "where",
    "zeros",
    "zeros_like",
    "swapaxes",
]
"""Functions of the validator and of references that CuPy 14 has, called as NumPy's are."""
TYPES = [
    "bool_",
    "complex128",
    "float16",
    "float32",
    "float64",
    "int8",
    "int32",
    "int64",
    "uint8",
    "uint32",
    "uint64",
]
METHODS = [
    "all",
    "any",
    "argmax",
    "astype",
    "copy",
    "dot",
    "max",
    "mean",
    "min",
    "ravel",
    "reshape",
    "sum",
    "view",
]
FACTS = ["dtype", "shape", "strides", "size", "ndim", "nbytes", "itemsize", "flags"]
NUMBERS = (int, float, bool, np.generic)


class StrictArray:
    """An array that nothing but this module can look into. Tests reach it as `hidden`."""

    __array_ufunc__ = None

    def __init__(self, hidden: npt.NDArray[Any], xp: "StrictModule") -> None:
        self.hidden = hidden
        self._xp = xp

    def __getattr__(self, name: str) -> Any:
        if name in FACTS:
            return getattr(self.hidden, name)
        if name in ("T", "real", "imag"):
            return self._xp.wrap(getattr(self.hidden, name))
        if name == "view":
            return self._aligned_view
        if name in METHODS:
            return self._xp.strictly(getattr(self.hidden, name))
        raise AttributeError(f"CuPy has no {name}, or it is not known here")

    def _aligned_view(self, dtype: npt.DTypeLike) -> "StrictArray":
        """A device faults where the host only takes longer."""
        if self.hidden.ctypes.data % np.dtype(dtype).itemsize:
            raise TypeError("a misaligned address")
        return self._xp.wrap(self.hidden.view(dtype))

    def __array__(self, *given: Any, **named: Any) -> Any:
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def __bool__(self) -> bool:
        raise TypeError("a truth value waits for the device: bring it to the host")

    __float__ = __int__ = __index__ = __iter__ = __bool__

    def __len__(self) -> int:
        return len(self.hidden)

    def __getitem__(self, key: Any) -> "StrictArray":
        return self._xp.wrap(self.hidden[self._xp.key(key)])

    def __neg__(self) -> "StrictArray":
        return self._xp.wrap(-self.hidden)

    def __invert__(self) -> "StrictArray":
        return self._xp.wrap(~self.hidden)

    def __setitem__(self, key: Any, value: Any) -> None:
        number = isinstance(value, NUMBERS)
        self.hidden[self._xp.key(key, waits=not number)] = self._xp.unwrap(value)


def _binary(name: str) -> Callable[[StrictArray, Any], StrictArray]:
    apply = getattr(operator, name.strip("_"), None) or getattr(operator, name)

    def method(self: StrictArray, other: Any) -> StrictArray:
        return self._xp.wrap(apply(self.hidden, self._xp.unwrap(other)))

    return method


def _reflected(name: str) -> Callable[[StrictArray, Any], StrictArray]:
    apply = getattr(operator, f"__{name}__")

    def method(self: StrictArray, other: Any) -> StrictArray:
        return self._xp.wrap(apply(self._xp.unwrap(other), self.hidden))

    return method


def _in_place(name: str) -> Callable[[StrictArray, Any], StrictArray]:
    apply = getattr(operator, f"__i{name}__")

    def method(self: StrictArray, other: Any) -> StrictArray:
        self.hidden = apply(self.hidden, self._xp.unwrap(other))
        return self

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "matmul"):
    setattr(StrictArray, f"__{_name}__", _binary(f"__{_name}__"))
    setattr(StrictArray, f"__r{_name}__", _reflected(_name))
    setattr(StrictArray, f"__i{_name}__", _in_place(_name))
for _name in ("lshift", "rshift"):
    setattr(StrictArray, f"__{_name}__", _binary(f"__{_name}__"))
    setattr(StrictArray, f"__i{_name}__", _in_place(_name))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(StrictArray, f"__{_name}__", _binary(f"__{_name}__"))


class _Add:
    """`add`, and `add.at`, which CuPy has for fewer types than NumPy."""

    def __init__(self, xp: "StrictModule") -> None:
        self._xp = xp

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._xp.strictly(np.add)(*given, **named)

    def at(self, sums: StrictArray, places: StrictArray, values: StrictArray) -> None:
        assert sums.dtype.name in ("int32", "uint32", "uint64", "float16", "float32", "float64")
        np.add.at(*map(self._xp.unwrap, (sums, places, values)))


class StrictModule:
    """What stands for `cupy`. `waits` counts what makes the host wait for a device."""

    def __init__(self) -> None:
        self.waits = 0

    def __getattr__(self, name: str) -> Any:
        if name in TYPES:
            return getattr(np, name)
        if name in ("inf", "nan"):
            return getattr(np, name)
        if name == "add":
            return _Add(self)
        if name in IN_CUPY:
            return self.strictly(getattr(np, name), takes_host=name in ("asarray", "array"))
        raise AttributeError(f"CuPy has no {name}, or it is not known here")

    def strictly(
        self, function: Callable[..., Any], takes_host: bool = False
    ) -> Callable[..., Any]:
        """The function, from strict arrays to a strict array or a tuple of them."""

        def call(*given: Any, **named: Any) -> Any:
            if function is np.bincount:
                self.waits += 2  # The largest value decides the size, and no value may be negative.
            found = function(
                *(self.unwrap(one, takes_host) for one in given),
                **{name: self.unwrap(one) for name, one in named.items()},
            )
            out = named.get("out")
            if isinstance(found, tuple):
                return tuple(map(self.wrap, found))
            return out if isinstance(out, StrictArray) else self.wrap(found)

        return call

    def wrap(self, found: Any) -> StrictArray:
        """Numbers stay on the device too, as arrays of no dimension."""
        return StrictArray(np.asarray(found), self)

    def unwrap(self, given: Any, takes_host: bool = False) -> Any:
        """What NumPy is given. Arrays of the host are refused."""
        if isinstance(given, StrictArray):
            return given.hidden
        if isinstance(given, np.ndarray) and not takes_host:
            raise TypeError("an array of the host where one of the device is expected")
        if isinstance(given, tuple | list):
            return type(given)(self.unwrap(one, takes_host) for one in given)
        return given

    def key(self, key: Any, waits: bool = True) -> Any:
        """An index; a single element comes as an array of no dimension, which is a view.

        How many elements a mask selects is only known after waiting.
        """
        parts = key if isinstance(key, tuple) else (key,)
        arrays = [part for part in parts if isinstance(part, StrictArray)]
        if any(isinstance(part, np.ndarray | list) for part in parts):
            raise TypeError("an index of the host where one of the device is expected")
        self.waits += waits * sum(one.dtype == np.bool_ for one in arrays)
        plain = tuple(self.unwrap(part) for part in parts)
        return plain if arrays or Ellipsis in plain else (*plain, Ellipsis)


def strict_arrays(launch: LaunchKernel | None = launch_on_host) -> tuple[Arrays, StrictModule]:
    """Arrays for the validator, and the module that counts. `launch` None: no kernels of ours."""
    xp = StrictModule()

    def to_host(array: StrictArray) -> npt.NDArray[Any]:
        assert isinstance(array, StrictArray), "brought to the host twice"
        xp.waits += 1
        return array.hidden.copy()

    arrays = Arrays(
        xp=xp,
        generator=lambda seed: random_on_host(xp, seed),
        to_host=to_host,
        at_once=HOST.at_once,
        part_bytes=HOST.part_bytes,
        launch=launch,
    )
    return arrays, xp
