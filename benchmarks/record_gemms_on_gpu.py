"""Records the programs of tests/support/recorded_gemms.py on an H200, or runs them emulated.

    PYTHONPATH=src:tests/support python benchmarks/record_gemms_on_gpu.py --out FOLDER

Run from the root, with nvcc, CuPy and a GPU of compute capability 9.0; with `--emulated`, without a
GPU. Each program has a process of its own, so that one that fails leaves the others alone.
"""

import argparse
import ctypes
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from recorded_gemms import RECORD, Program, programs

LIMIT_S = 100.0


def library_of(one: Program) -> str:
    """Return the name of the library that has the program's source in it."""
    return "p" + hashlib.sha256(one.source.encode()).hexdigest()[:12]


def on_gpu(one: Program, folder: Path) -> Any:
    """Return what a program leaves on the GPU."""
    import cupy

    library = ctypes.CDLL(str(folder / f"{library_of(one)}.so"))
    buffers = [cupy.asarray(values) for values in (*one.given, one.left)]
    library.solve(*(ctypes.c_void_p(buffer.data.ptr) for buffer in buffers), *one.numbers)
    cupy.cuda.Device().synchronize()
    return buffers[-1].get()


def emulated(one: Program) -> Any:
    """Return what a program leaves on the emulated H200."""
    from device_calls import run

    values = {f"given{n}": given for n, given in enumerate(one.given)} | {"left": one.left}
    called = run(one.source, values, ["left"], *one.numbers, device="H200")
    assert called.report
    return called.outputs["left"]


def record_one(one: Program, arguments: argparse.Namespace) -> None:
    """Run a program, write what it leaves, and say how much of it NumPy has otherwise."""
    left = emulated(one) if arguments.emulated else on_gpu(one, arguments.out)
    wanted = one.expected().ravel()
    np.save(arguments.out / f"{one.name}.npy", left)
    unlike = int((left.ravel().view(np.uint32) != wanted).sum())
    untouched = int((left.ravel().view(np.uint32) == one.left.ravel()).sum())
    print(f"{left.size} words, {unlike} unlike NumPy, {untouched} untouched")


def build_all(ones: Iterable[Program], folder: Path) -> None:
    """Build each source once; programs of one that is not built fail later, one by one."""
    from record_on_gpu import build

    def one_of(name: str, text: str) -> str:
        (source := folder / f"{name}.cu").write_text(text)
        try:
            build(source, folder, "90a")
        except (subprocess.CalledProcessError, OSError) as error:
            return f"{name}: {error}"
        return ""

    sources = {library_of(one): one.source for one in ones}
    with ThreadPoolExecutor(len(sources)) as pool:
        for line in filter(None, pool.map(one_of, sources, sources.values())):
            print(line, flush=True)


def started(name: str, given: Sequence[str]) -> str:
    """Run one program in a process of its own; return its line."""
    begin = time.monotonic()
    command = [sys.executable, __file__, *given, "--only", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        lines = (done.stdout if done.returncode == 0 else done.stdout + done.stderr).splitlines()
        told = lines[-1] if lines else ""
        told = told if done.returncode == 0 else f"failed ({done.returncode}): {told}"
    except subprocess.TimeoutExpired:
        told = f"failed: nothing within {LIMIT_S:g} s"
    return f"{name}: {told}, {time.monotonic() - begin:.1f} s"


def record_gemms() -> None:
    """Run all, write one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--only", default="", help="one program, in this process")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.only:
        record_one(programs()[arguments.only], arguments)
        return
    names = [one.name for one in programs().values() if one.emulated or not arguments.emulated]
    with tempfile.TemporaryDirectory() as parts:
        if not arguments.emulated:
            build_all(programs().values(), Path(parts))
        given = ["--out", parts, *(["--emulated"] if arguments.emulated else [])]
        with ThreadPoolExecutor(min(len(names), os.cpu_count() or 1)) as pool:
            for line in pool.map(lambda name: started(name, given), names):
                print(line, flush=True)
        found = {path.stem: np.load(path) for path in sorted(Path(parts).glob("*.npy"))}
    path = arguments.out / RECORD
    np.savez_compressed(path, **found)
    print(f"{len(found)} of {len(names)} recorded, {path.stat().st_size} bytes")


if __name__ == "__main__":
    record_gemms()
