"""The CUDA source of the random draws, built with g++ and run thread by thread on NumPy arrays."""

import ctypes
import re
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from cuda_llm.tools.random_kernels import SOURCE
from cuda_llm.tools.random_on_gpu import NAMES, CountedRandom

WORDS = """
#include <math.h>
#define __device__ static inline
#define __global__
struct Index { unsigned x; };
static thread_local Index blockIdx, threadIdx, blockDim{1};
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline void sincospif(float turns, float* sine, float* cosine) {
    *sine = (float)sin(turns * M_PI);
    *cosine = (float)cos(turns * M_PI);
}
"""
KERNEL = re.compile(r"__global__ void (\w+)\(([^)]*)\)")


def launch(kernel: str, threads: int, arguments: tuple[Any, ...]) -> None:
    """What the GPU's launch does, on arrays in the memory of the host."""
    array, *numbers = arguments
    memory = getattr(array, "hidden", array)
    given = [_C[number.dtype.name](int(number)) for number in numbers]
    getattr(_library(), f"run_{kernel}")(
        ctypes.c_uint(threads), ctypes.c_void_p(memory.ctypes.data), *given
    )


def random_on_host(xp: Any, seed: int) -> CountedRandom:
    """The GPU's generator, its numbers but for the last bits of logarithms and sines."""
    return CountedRandom(xp, launch, seed)


_C = {"uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64, "int64": ctypes.c_int64}


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    parameters = dict(KERNEL.findall(SOURCE))
    assert set(parameters) == set(NAMES)
    runs = [_loop(name, parameters[name]) for name in NAMES]
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "draws.cpp"), Path(folder, "draws.so")
        source.write_text(WORDS + SOURCE + "\n".join(runs))
        command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", str(source), "-o", str(library)]
        subprocess.run(command, check=True, timeout=60)
        return ctypes.CDLL(str(library))


def _loop(name: str, parameters: str) -> str:
    given = "values, count, k0, k1, c2, c3, draw" + (", low, span" if "span" in parameters else "")
    return f"""
extern "C" void run_{name}(unsigned threads, {parameters}) {{
    for (unsigned i = 0; i < threads; ++i) {{ blockIdx.x = i; {name}({given}); }}
}}"""
