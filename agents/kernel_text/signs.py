"""Patterns that show a technique in the text of a kernel."""

import re
from collections.abc import Mapping

VECTOR = re.compile(
    r"reinterpret_cast\s*<\s*(?:const\s+)?\w*(?:[2348])\s*(?:const\s*)?\*"
    r"|\(\s*(?:const\s+)?(?:u?int|float|double|half|short|char|long)(?:long)?[248]\s*\*\s*\)"
)
ATOMIC = re.compile(r"\batomic[A-Z]\w*\s*\(|\b(?:red|atom)\.(?:global|shared)")

SIGNS: Mapping[str, re.Pattern[str]] = {
    "padding": re.compile(r"__shared__[^;]*\[[^\]]*\+\s*\d+\s*\]|__shared__[^;]*\[(?:17|33|65)\]"),
    "swizzle": re.compile(r"\[[^\]\n]*\^[^\]\n]*\]"),
    "vector_access": VECTOR,
    "unrolling": re.compile(r"#\s*pragma\s+unroll"),
    "warp_shuffle": re.compile(r"__shfl_\w+|__reduce_\w+_sync|\.shfl(?:_\w+)?\s*\("),
    "warp_reduce": re.compile(r"__reduce_\w+_sync"),
    "bulk_copy": re.compile(r"cp\.async\.bulk|cuda_tma|CUtensorMap"),
    "private_copies": re.compile(
        r"__shared__[^;]*\[\s*\w*[wW]arps?\w*\s*\]|\b\w*(?:[wW]arp|[cC]opy)\w*\s*\*\s*\w*[bB]ins"
    ),
    "async_copy": re.compile(r"cp\.async|__pipeline_memcpy_async|memcpy_async"),
    "launch_bounds": re.compile(r"__launch_bounds__"),
    "grid_stride": re.compile(
        r"\+=\s*\(?[^;)]*(?:gridDim\.\w[^;)]*blockDim|blockDim\.\w[^;)]*gridDim|stride)"
    ),
    "register_blocking": re.compile(
        r"(?<!__shared__ )\b(?:float|double|int|half)\d?\s+\w+\s*(?:\[[^\]]+\]){1,2}\s*=\s*\{"
    ),
    "double_buffering": re.compile(
        r"__shared__[^;]*\[\s*2\s*\]|\bstage\s*\^=\s*1|\bbuf\w*\s*\^=\s*1"
    ),
}
"""By name of a technique."""
