"""Records on a real GPU what the programs of tests/fixtures/recorded give.

Needs nvcc, CuPy and a GPU of compute capability 9.0. From the root:

    PYTHONPATH=src:tests/support python benchmarks/record_cuda_calls.py --out FOLDER
"""

import argparse
import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from recorded_calls import (
    ATOMIC_RESULTS,
    ATOMICS,
    COLLECTIVE_RESULTS,
    COLLECTIVE_ROWS,
    atomic_table,
    collective_table,
)
from recorded_rows import ROWS

FIXTURES = Path(__file__).parents[1] / "tests/fixtures/recorded"


def build(name: str, folder: Path) -> ctypes.CDLL:
    """One fixture as a native library."""
    library = folder / f"{name}.so"
    command = ["nvcc", "-O3", "-gencode=arch=compute_90,code=sm_90", "-shared"]
    command += ["-Xcompiler", "-fPIC", str(FIXTURES / f"{name}.cu"), "-o", str(library)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def call(library: ctypes.CDLL, table: Any, shape: tuple[int, ...], rows: int) -> Any:
    """Result of one call of `solve`."""
    import cupy

    source = cupy.asarray(table)
    out = cupy.full(shape, 0xA5A5A5A5, dtype=table.dtype)
    library.solve(ctypes.c_void_p(source.data.ptr), ctypes.c_void_p(out.data.ptr), rows)
    cupy.cuda.Device().synchronize()
    return out.get()


def main() -> None:
    """Build, call, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shape = (COLLECTIVE_ROWS, COLLECTIVE_RESULTS, 32)
        collectives = call(build("collectives", folder), collective_table(), shape, shape[0])
        wide = (len(ATOMICS), ATOMIC_RESULTS, ROWS)
        atomics = call(build("atomics", folder), atomic_table(), wide, 0)
    path = arguments.out / "cuda_calls_h200.npz"
    np.savez_compressed(path, collectives=collectives, atomics=atomics)
    print(f"{path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
