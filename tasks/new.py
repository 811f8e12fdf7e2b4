"""Writes the skeleton of a new task, which loads as it is and explains itself in comments."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from cuda_llm.errors import UsageError

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def write_task(name: str, out: Path, files: Mapping[str, str]) -> Path:
    """Writes `files` to the new folder `out / name` and returns it.

    Raises UsageError where the name is unfit or the folder exists; nothing is left half written.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no task name; expected lower case, digits and _")
    folder = out / name
    if folder.exists():
        raise UsageError(f"{folder}: exists already; expected a new folder")
    folder.mkdir(parents=True)
    try:
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def skeleton(name: str) -> dict[str, str]:
    """Returns the files of a task that doubles a vector, to be overwritten piece by piece."""
    return {
        "task.toml": _TASK_TOML.replace("TASK", name),
        "description.md": _DESCRIPTION,
        "reference.py": _REFERENCE,
        "baseline.cu": _BASELINE,
    }


_TASK_TOML = """\
# What TASK is. Every value below is an example: replace it by your own.
title = "Double a vector"
origin = "" # where the task comes from, for people

# Linear in its float inputs? Then whole-number inputs must give exact results, which shows any
# kernel that computes in less than the declared precision.
linear = true

# Where elements cannot be compared one by one (any order is right, say): the function of
# reference.py that judges: def same_elements(xp, got, *, x), the error of every element.
# comparator = "same_elements"

# A condition every size must meet, e.g. "H >= R and W >= S".
# requires = ""

# Names that shapes, values and sizes are written in, each with its meaning.
[dims]
n = "number of elements"

# The arguments of solve, in order. role: in, out, inout (both) or scalar.
# dtype: float32, float64, float16, int8 ... int64, uint8 ... uint64, bool.
# shape: expressions in dims; + - * / // % **, min, max and ceil_div are known.
[[arguments]]
name = "x"
role = "in"
dtype = "float32"
shape = ["n"]
# What to draw it from. The first is used for timing. Floats: normal, uniform_signed, uniform_unit,
# uniform(low, high), heavy_tail, large, denormal, zeros, all_equal(value), constant_rows, sparse,
# mixed. Integers: ints(low, high), sorted_ints(low, high), bins(count), ints_full_range,
# all_equal(value), zeros.
distributions = ["normal", "uniform_signed", "large", "denormal", "mixed"]
# Linear tasks: exact_odd_13bit, for the second factor of a product exact_signs.
probe = "exact_odd_13bit"

[[arguments]]
name = "y"
role = "out"
dtype = "float32"
shape = ["n"]

[[arguments]]
name = "n"
role = "scalar"
dtype = "int32"
# value = "n" is understood: the argument is named after a dim.

[sizes]
# Timed on a GPU.
bench = [{ n = 1048576 }, { n = 16777216 }]
# Where kernels go wrong: 1, primes, one off a tile, no multiple of 4.
edge = [{ n = 1 }, { n = 3 }, { n = 33 }, { n = 257 }, { n = 1009 }, { n = 4098 }]
# Timed on the emulated device: up to about 1e9 instructions of all threads of the baseline.
emulated = [{ n = 65536 }, { n = 262144 }]

# Fresh sizes for every verdict, never shown to a generator. Without this table they span the edge
# and emulated sizes.
[sizes.hidden]
count = 4
cost = "n"
max_cost = 300000
dims.n = { min = 1, max = 300000 } # multiple_of = 4 where the task promises it

# How exact a result must be. kind: exact; elementwise (each element on its own); reduction (a sum);
# dot (sums of products). For the last two, terms is the number of terms of one output element.
[tolerance]
kind = "elementwise"
precision = "fp32"

# The least work any kernel must do: the floor under every time.
[roofline]
flops = "n"
bytes = "8 * n"

# What a kernel may use beyond its arguments.
[capabilities]
scratch_bytes = "0" # most device memory solve may allocate, an expression in dims
# device_to_host = true # may solve copy results to the host?
# include_dirs = ["include"]
# header_libraries = ["cub", "cooperative_groups"] # for whoever writes the kernels
# flags = []
# defines = {}
"""

_DESCRIPTION = """\
Multiply every element of a vector of single-precision numbers by two: `y[i] = 2 * x[i]`.

`x` is only read, every element of `y` must be written. `n` may be any positive number.
"""

_REFERENCE = '''\
"""What the right answer is, in float64 and exact integers. Delete this file to compare with
baseline.cu instead; verdicts then say `differential`.
"""

from typing import Any


def reference(xp: Any, *, x: Any) -> dict[str, Any]:
    """Every output by name. `xp` is NumPy or CuPy; name the inputs, scalars and dims you need."""
    return {"y": 2 * x}


# For sums and products: what an element's error is divided by, e.g. the sum of absolute values.
# def scale(xp: Any, *, x: Any) -> dict[str, Any]:
#     return {"y": xp.abs(2 * x)}
'''

_BASELINE = """\
// The plain version: the fallback answer, and what speed-ups are counted from.

#include <cuda_runtime.h>

__global__ void double_elements(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 2.0f * x[i];
    }
}

extern "C" void solve(const float* x, float* y, int n)
{
    int threads = 256;
    int blocks = (n + threads - 1) / threads;
    double_elements<<<blocks, threads>>>(x, y, n);
    cudaDeviceSynchronize();
}
"""
