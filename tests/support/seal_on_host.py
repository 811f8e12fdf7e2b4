"""The kernels of `seal.cu`, built with g++ and run thread by thread, where CuPy would be."""

import ctypes
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.tools.cuda import build
from cuda_llm.tools.cuda.protocol import SlotsCall
from cuda_llm.tools.device.buffers import Arrays
from cuda_llm.tools.native import find_gxx

NATIVE = Path(build.__file__).parent / "native"
SOURCE = """
#include <cstdint>
#define __device__ static inline
#define __global__
#define __grid_constant__
struct alignas(16) uint4 { uint32_t x, y, z, w; };
static uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
struct Index { unsigned x, y; };
static Index blockIdx, threadIdx, blockDim{1, 1}, gridDim;
static uint32_t __umulhi(uint32_t a, uint32_t b) { return uint64_t{a} * b >> 32; }
static uint64_t __umul64hi(uint64_t a, uint64_t b) { return (unsigned __int128)a * b >> 64; }
// Every thread is the first of its warp, and alone.
static unsigned long long __shfl_down_sync(unsigned, unsigned long long, int) { return 0; }
static void __threadfence_system() {}
static void atomicAdd(unsigned long long* to, unsigned long long more) { *to += more; }
// What has no host's instruction is compiled, and never called.
#define asm if (false) asm
#include "seal.cu"
template <typename Kernel>
static void run(Kernel kernel, unsigned threads, unsigned rows, const gpu::SlotsCall* call) {
  gridDim = {threads, rows};
  for (blockIdx.y = 0; blockIdx.y < rows; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < threads; ++blockIdx.x) kernel(*call);
}
extern "C" void run_seal_slots(unsigned threads, unsigned rows, const gpu::SlotsCall* call) {
  run(seal_slots, threads, rows, call);
}
extern "C" void run_tag_slots(unsigned threads, unsigned rows, const gpu::SlotsCall* call) {
  run(tag_slots, threads, rows, call);
}
"""


class Pointed(npt.NDArray[Any]):
    """An array that tells where it lies as CuPy's do."""

    @property
    def data(self) -> Any:
        """The address."""
        return SimpleNamespace(ptr=self.ctypes.data)


def pointed(array: Any) -> Any:
    """The same memory."""
    return array.view(Pointed)


class Module:
    """A `cupy.RawModule` of the file of kernels built here."""

    def __init__(self, *, path: str) -> None:
        self.library = ctypes.CDLL(path)

    def get_function(self, name: str) -> Any:
        """A kernel as CuPy launches it."""

        def launch(grid: tuple[int, ...], block: tuple[int, ...], given: tuple[Any]) -> None:
            (by_value,) = given
            assert by_value.shape == (1,)
            assert by_value.dtype.itemsize == ctypes.sizeof(SlotsCall)
            call = SlotsCall.from_buffer_copy(by_value.tobytes())
            assert (grid[1], grid[2], *block[1:]) == (call.count, 1, 1, 1)
            run = getattr(self.library, f"run_{name}")
            run(grid[0] * block[0], grid[1], ctypes.byref(call))

        return launch


def host_cupy() -> Arrays:
    """What `GpuSealing` needs of CuPy, on the host."""

    def zeros(count: int, dtype: npt.DTypeLike) -> Any:
        return pointed(np.zeros(count, dtype))

    xp = SimpleNamespace(RawModule=Module, zeros=zeros)
    return Arrays(xp=xp, generator=np.random.default_rng, to_host=np.asarray)


def seal_library(folder: Path) -> Path:
    """The kernels, built."""
    source, library = folder / "seal.cpp", folder / "seal.so"
    source.write_text(SOURCE)
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", f"-I{NATIVE}"]
    command = [find_gxx(), *flags, str(source), "-o", str(library)]
    subprocess.run(command, check=True, timeout=60)
    return library
