"""Records bulk copies, reductions, mbarriers and clusters of tests/fixtures/recorded on an H200.

    PYTHONPATH=src:tests/support python benchmarks/record_asynchronous_on_gpu.py --out FOLDER

Run from the root, with nvcc, CuPy and a GPU of compute capability 9.0.
"""

import tempfile
from pathlib import Path

import numpy as np
from asynchronous_oracle import CASES, WORDS, expected, table
from record_on_gpu import FIXTURES, build, call, out_folder


def record_asynchronous() -> None:
    """Build, call, write, and say how many cases NumPy has otherwise."""
    out = out_folder()
    with tempfile.TemporaryDirectory() as name:
        library = build(FIXTURES / "asynchronous.cu", Path(name), "90a")
        cases = call(library, table(), (CASES, WORDS), 0)
    path = out / "asynchronous_h200.npz"
    np.savez_compressed(path, asynchronous=cases)
    wrong = int((cases != expected()).any(axis=1).sum())
    print(f"{path.stat().st_size} bytes; {wrong} of {CASES} cases are not as NumPy has them")


if __name__ == "__main__":
    record_asynchronous()
