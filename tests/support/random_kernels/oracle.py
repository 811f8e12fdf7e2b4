"""What a program puts out as plain C++: built by g++, every thread a fiber."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from random_kernels.program import ACC_WORDS, FIXTURES, IN_WORDS, OUT_WORDS, OWN_WORDS, THREADS

from cuda_llm.tools.native import find_gxx

Words = npt.NDArray[np.uint32]

_MAIN = """
#include <cstdio>
#include <vector>
int main() {
  std::vector<u32> in(%d), out(%d), acc(%d), own(%d + 4);
  u32* aligned = own.data();
  while (reinterpret_cast<std::uintptr_t>(aligned) %% 16) ++aligned;
  std::vector<ulonglong2> home(in.size() / 4);
  if (std::fread(home.data(), 4, in.size(), stdin) != in.size()) return 1;
  std::vector<u64> sums(acc.size() / 2);
  if (std::fread(sums.data(), 4, acc.size(), stdin) != acc.size()) return 1;
  solve(reinterpret_cast<u32*>(home.data()), out.data(), reinterpret_cast<u32*>(sums.data()),
        aligned, %d);
  std::fwrite(out.data(), 4, out.size(), stdout);
  std::fwrite(sums.data(), 4, acc.size(), stdout);
}
"""
_FLAGS = ("-std=c++20", "-O1", "-march=native", "-ffp-contract=off", "-fno-strict-aliasing", "-w")


@dataclass(frozen=True)
class Buffers:
    """What goes into a program: input, output, accumulators, scratch, in words."""

    given: Words
    out: Words
    acc: Words
    own: Words


def draw_buffers(seed: int, kernels: int) -> Buffers:
    """Inputs of a seed: bit patterns of all kinds, many of them small or special."""
    draw = np.random.default_rng(seed)
    given = draw.integers(0, 2**32, IN_WORDS, dtype=np.uint32)
    given[::3] %= 100
    given[1::7] = draw.standard_normal(given[1::7].size).astype(np.float32).view(np.uint32)
    given[2::31] = np.resize(_SPECIAL, given[2::31].size)
    acc = draw.integers(0, 2**32, kernels * ACC_WORDS, dtype=np.uint32)
    threads = kernels * THREADS
    return Buffers(
        given, np.zeros(threads * OUT_WORDS, "u4"), acc, np.zeros(threads * OWN_WORDS, "u4")
    )


_SPECIAL = np.array(
    [0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x3F800000],
    dtype=np.uint32,
)


def expected(text: str, kernels: int, buffers: Buffers, folder: Path) -> tuple[Words, Words]:
    """`out` and `acc` after the program. Raises CalledProcessError where it is not valid C++."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = (IN_WORDS, kernels * THREADS * OUT_WORDS, kernels * ACC_WORDS)
    main = _MAIN % (*sizes, kernels * THREADS * OWN_WORDS, IN_WORDS)
    (folder / "oracle.cpp").write_text(text + main)
    command = [str(find_gxx()), *_FLAGS, f"-I{FIXTURES}", "oracle.cpp", "-o", "oracle"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    given = buffers.given.tobytes() + buffers.acc.tobytes()
    ran = subprocess.run(
        [str(folder / "oracle")], input=given, check=True, capture_output=True, timeout=120
    )
    words = np.frombuffer(ran.stdout, np.uint32)
    return words[: sizes[1]], words[sizes[1] :]
