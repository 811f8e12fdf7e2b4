"""Element types an argument may have, by NumPy name, and what C++ calls them."""

from collections.abc import Mapping
from types import MappingProxyType

CTYPES: Mapping[str, str] = MappingProxyType(
    {
        "float16": "half",
        "float32": "float",
        "float64": "double",
        "int8": "signed char",
        "int16": "short",
        "int32": "int",
        "int64": "long long",
        "uint8": "unsigned char",
        "uint16": "unsigned short",
        "uint32": "unsigned int",
        "uint64": "unsigned long long",
        "bool": "bool",
    }
)
HEADERS: Mapping[str, str] = MappingProxyType({"half": "cuda_fp16.h"})
"""C++ type to the header that declares it."""


def is_float(dtype: str) -> bool:
    """Tells whether elements of `dtype` are floating-point numbers."""
    return dtype.startswith("float")
