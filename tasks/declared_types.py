"""Lists the C++ types that arguments of `solve` may be declared with, and the elements of each.

A pointer to a vector, such as `float4*`, is an array of its elements; `void*` is one of whatever
the task states. Buffers begin at multiples of 256 bytes, which suits every vector.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cuda_llm.tasks.element_types import ELEMENT_TYPES

VOID = "void"
STREAM = "cudaStream_t"


@dataclass(frozen=True, kw_only=True)
class DeclaredType:
    """A C++ type by one of its spellings."""

    ctype: str
    element: str
    """Name of the element type; empty for `void`, whose elements the task states, and for a
    stream."""
    lanes: int = 1
    """Elements of one object: 4 for `float4`."""
    header: str = ""
    """The header that declares the spelling; empty where nvcc needs none."""


_VECTORS: Mapping[str, str] = MappingProxyType(
    {
        "char": "int8",
        "uchar": "uint8",
        "short": "int16",
        "ushort": "uint16",
        "int": "int32",
        "uint": "uint32",
        "long": "int64",
        "ulong": "uint64",
        "longlong": "int64",
        "ulonglong": "uint64",
        "float": "float32",
        "double": "float64",
    }
)
"""Name of a vector without its lanes, to the elements; `long` has 64 bits on Linux."""

_SHORT_VECTORS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "half2": ("float16", 2),
        "__half2": ("float16", 2),
        "__nv_bfloat162": ("bfloat16", 2),
        "nv_bfloat162": ("bfloat16", 2),
        "__nv_fp8x2_e4m3": ("float8_e4m3fn", 2),
        "__nv_fp8x4_e4m3": ("float8_e4m3fn", 4),
        "__nv_fp8x2_e5m2": ("float8_e5m2", 2),
        "__nv_fp8x4_e5m2": ("float8_e5m2", 4),
    }
)
"""Vectors of short floats, to the elements and their number."""

_TYPEDEFS: Mapping[str, str] = MappingProxyType(
    {
        "size_t": "uint64",
        "ptrdiff_t": "int64",
        "int64_t": "int64",
        "uint64_t": "uint64",
        "long": "int64",
        "long int": "int64",
        "unsigned long": "uint64",
        "unsigned long int": "uint64",
        "long long int": "int64",
        "unsigned long long int": "uint64",
        "short int": "int16",
        "unsigned short int": "uint16",
        "signed": "int32",
        "signed int": "int32",
    }
)
"""Other spellings of whole numbers on Linux with 64 bits. Some are types of their own in C++: a
`long` is no `long long`, though both have 64 bits."""


def _declared() -> Iterator[DeclaredType]:
    for element in ELEMENT_TYPES.values():
        for ctype in element.ctypes:
            header = "cstdint" if ctype.endswith("_t") else element.header
            yield DeclaredType(ctype=ctype, element=element.name, header=header)
    for ctype, name in _TYPEDEFS.items():
        header = {"size_t": "cstddef", "ptrdiff_t": "cstddef"}.get(ctype, "")
        header = "cstdint" if ctype in ("int64_t", "uint64_t") else header
        yield DeclaredType(ctype=ctype, element=name, header=header)
    for base, name in _VECTORS.items():
        for lanes in (2, 3, 4):
            yield DeclaredType(ctype=f"{base}{lanes}", element=name, lanes=lanes)
    for ctype, (name, lanes) in _SHORT_VECTORS.items():
        header = ELEMENT_TYPES[name].header
        yield DeclaredType(ctype=ctype, element=name, lanes=lanes, header=header)
    yield DeclaredType(ctype=VOID, element="")
    yield DeclaredType(ctype=STREAM, element="", header="cuda_runtime_api.h")


DECLARED_TYPES: Mapping[str, DeclaredType] = MappingProxyType(
    {one.ctype: one for one in _declared()}
)
"""Declared types by spelling."""
