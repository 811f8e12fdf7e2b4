"""CUDA source of our own kernels, built with g++ and run thread by thread on NumPy arrays."""

import ctypes
import re
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from cuda_llm.tools.cuda.arrays import CountedRandom
from cuda_llm.tools.device.buffers import KernelProgram

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
CTYPES = {name: getattr(ctypes, f"c_{name}") for name in ("int32", "uint32", "int64", "uint64")} | {
    "float64": ctypes.c_double
}


def launch_on_host(
    program: KernelProgram, kernel: str, threads: int, arguments: tuple[Any, ...]
) -> None:
    """What the GPU's launch does, on arrays in the memory of the host."""
    run = getattr(_built(program), f"run_{kernel}")
    run(ctypes.c_uint(threads), *map(_passed, arguments))


def random_on_host(xp: Any, seed: int) -> CountedRandom:
    """The GPU's generator, its numbers but for the last bits of logarithms and sines."""
    return CountedRandom(xp, launch_on_host, seed)


def _passed(argument: Any) -> Any:
    memory = getattr(argument, "hidden", argument)
    if isinstance(memory, np.ndarray):
        assert memory.flags.c_contiguous
        return ctypes.c_void_p(memory.ctypes.data)
    return CTYPES[argument.dtype.name](argument.item())


@lru_cache(maxsize=8)
def _built(program: KernelProgram) -> ctypes.CDLL:
    runs = [_loop(name, _parameters(program, name)) for name in program.kernels]
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
        source.write_text(WORDS + program.source + "\n".join(runs))
        command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", str(source), "-o", str(library)]
        subprocess.run(command, check=True, timeout=600)
        return ctypes.CDLL(str(library))


def _parameters(program: KernelProgram, kernel: str) -> str:
    """As the preprocessor leaves them: kernels may be made by macros."""
    text = _preprocessed(program.source)
    found = re.search(rf"void {kernel}\(([^)]*)\)", text)
    assert found, kernel
    return found.group(1)


@lru_cache(maxsize=8)
def _preprocessed(source: str) -> str:
    command = ["g++", "-E", "-P", "-x", "c++", "-"]
    return subprocess.run(
        command, input=source, capture_output=True, text=True, check=True, timeout=600
    ).stdout


def _loop(name: str, parameters: str) -> str:
    given = ", ".join(re.findall(r"(\w+)\s*(?:,|$)", parameters))
    return f"""
extern "C" void run_{name}(unsigned launched, {parameters}) {{
    for (unsigned i = 0; i < launched; ++i) {{ blockIdx.x = i; {name}({given}); }}
}}"""
