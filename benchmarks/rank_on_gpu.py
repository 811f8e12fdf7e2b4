"""Times the kernels of `rank_agreement.py` on a GPU: what the emulated device is judged by.

    PYTHONPATH=src:tests/support python benchmarks/rank_on_gpu.py --out FOLDER --limit-s 40

With nvcc, CuPy and a GPU. The time of a call is a slope by the host's clock between graphs of few
and of many calls; cold: each call behind a write of twice the L2, whose own slope is taken off.
Writes `rank_times.json`; `--shard` and `--limit-s` take a part, and rows of an earlier part in
`--out` are kept.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any

import record
from native_kernels import inputs_of, passed
from rank_agreement import SIZES, Variant, variants

NATIVE = Path(__file__).parent / "native"
SCRATCH_BYTES = 256 << 20
FLUSHED_L2 = 2
"""Bytes written before each cold call, in units of the L2."""
SLOPES = 9
BATCH_S = 2.5e-3
"""What the longer graph takes, roughly."""

Row = dict[str, Any]


def main() -> None:
    """Build all, and time kernels until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--build", type=Path, default=Path("/tmp/rank-kernels"))
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--shard", default="1/1", help="which of how many, from 1")
    parser.add_argument("--limit-s", type=float, default=600)
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.limit_s
    arguments.out.mkdir(parents=True, exist_ok=True)
    arguments.build.mkdir(parents=True, exist_ok=True)
    # Tasks in turn: what a time limit cuts off is missing from each alike.
    in_turn = zip_longest(*(variants(name) for name in SIZES))
    every = [variant for row in in_turn for variant in row if variant]
    chosen = record.sharded(every, arguments.shard)
    rows_file = arguments.out / "rank_times.json"
    rows: list[Row] = json.loads(rows_file.read_text()) if rows_file.exists() else []
    known = {(row["task"], row["variant"]) for row in rows}
    with ThreadPoolExecutor(arguments.jobs) as pool:
        built = [(one, pool.submit(build, one, arguments.build)) for one in chosen]
        for variant, library in built:
            key = (variant.task.name, variant.name)
            if key not in known and time.monotonic() < deadline:
                rows += time_variant(variant, library.result())
                rows_file.write_text(json.dumps(rows))
        pool.shutdown(cancel_futures=True)
    print(f"{len(rows)} rows, {sum('failed' in row for row in rows)} of them without a time")


def build(variant: Variant, folder: Path) -> Path:
    """Build the kernel with the driver that times it, as a native library."""
    name = sha256(variant.source.encode()).hexdigest()[:16]
    source, library = folder / f"{name}.cu", folder / f"{name}.so"
    source.write_text(variant.source)
    command = ["nvcc", "-O3", "-gencode=arch=compute_90,code=sm_90", "-shared"]
    command += ["-Xcompiler", "-fPIC", "-default-stream=per-thread"]
    command += ["-include", str(NATIVE / "quiet.h"), "-include", str(NATIVE / "reserved.h")]
    command += [str(source), str(NATIVE / "cold_slope.cu"), "-o", str(library)]
    if not library.exists():
        subprocess.run(command, capture_output=True, text=True, check=True)
    return library


def time_variant(variant: Variant, path: Path) -> list[Row]:
    """Return one row a size: the error of the result, the cold and the warm time of a call."""
    rows = []
    library = open_library(path)
    for dims in SIZES[variant.task.name]:
        row: Row = {
            "task": variant.task.name,
            "variant": variant.name,
            "point": dict(variant.point),
            "dims": dict(dims),
        }
        try:
            row |= time_call(library, variant, dims)
        except RuntimeError as error:
            row["failed"] = str(error)
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def open_library(path: Path) -> ctypes.CDLL:
    """Open the library: type its functions and reserve its memory."""
    library = ctypes.CDLL(str(path))
    longs = ctypes.POINTER(ctypes.c_long)
    library.capture.restype = ctypes.c_void_p
    library.capture.argtypes = [longs, ctypes.c_int, ctypes.c_int, ctypes.c_int]
    library.seconds.restype = ctypes.c_double
    library.seconds.argtypes = [ctypes.c_void_p]
    library.forget.argtypes = [ctypes.c_void_p]
    library.once.argtypes = [longs]
    library.reserve.argtypes = [ctypes.c_long] * 3
    scratch, flushed = reserved()
    library.reserve(scratch.data.ptr, flushed.data.ptr, flushed.nbytes)
    return library


@cache
def reserved() -> tuple[Any, Any]:
    """Return memory for a kernel's own allocations, and memory to flush L2 with."""
    import cupy

    l2_bytes = cupy.cuda.Device().attributes["L2CacheSize"]
    return cupy.empty(SCRATCH_BYTES, cupy.uint8), cupy.empty(FLUSHED_L2 * l2_bytes, cupy.uint8)


def time_call(library: ctypes.CDLL, variant: Variant, dims: Mapping[str, int]) -> Row:
    """Return the error of one call, and its times in microseconds."""
    import cupy

    inputs = inputs_of(variant.task, dims)
    numbers, arrays = passed(variant.task, dims, inputs)
    table = (ctypes.c_long * 8)(*numbers)
    cupy.cuda.Device().synchronize()
    if not library.once(table):
        raise RuntimeError("the call failed")
    error = error_of(variant, dims, inputs, arrays)
    flush = slope_us(library, table, flush=True, solve=False)
    whole = slope_us(library, table, flush=True, solve=True)
    warm = slope_us(library, table, flush=False, solve=True)
    return {
        "error": error,
        "cold_us": round(whole["median"] - flush["median"], 3),
        "cold_quartiles_us": [round(q - flush["median"], 3) for q in whole["quartiles"]],
        "warm_us": round(warm["median"], 3),
    }


def error_of(
    variant: Variant, dims: Mapping[str, int], inputs: Mapping[str, Any], arrays: Mapping[str, Any]
) -> float:
    """Return the largest error of the outputs, in units of the scale of the task."""
    import cupy

    from cuda_llm.tasks.reference import load_reference

    reference = load_reference(variant.task)
    given = {name: arrays[name] for name in inputs}
    expected = reference.compute(cupy, given, dims)
    scales = reference.scale(cupy, given, dims) if reference.scale else expected
    worst = 0.0
    for name, value in expected.items():
        size = cupy.maximum(cupy.abs(scales[name]), 1e-30)
        worst = max(worst, float(cupy.max(cupy.abs(arrays[name] - value) / size)))
    return worst


def slope_us(library: ctypes.CDLL, table: Any, *, flush: bool, solve: bool) -> dict[str, Any]:
    """Time a call by the slope between a short and a long graph, taken in turn."""

    def graph(calls: int) -> int:
        made = library.capture(table, calls, flush, solve)
        if not made:
            raise RuntimeError("cannot be captured")
        return int(made)

    one = graph(1)
    rough_s = min(library.seconds(one) for _ in range(3))
    library.forget(one)
    many = int(min(max(BATCH_S / rough_s, 8), 256))
    few = max(many // 8, 1)
    short, long = graph(few), graph(many)
    slopes = []
    for _ in range(SLOPES):
        a, b = library.seconds(short), library.seconds(long)
        slopes.append((b - a) / (many - few) * 1e6)
    library.forget(short)
    library.forget(long)
    quarters = statistics.quantiles(slopes, n=4)
    return {"median": statistics.median(slopes), "quartiles": [quarters[0], quarters[2]]}


if __name__ == "__main__":
    main()
