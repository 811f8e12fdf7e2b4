"""Kernels of this repository on a real GPU: are they right, how long do they take, what do the
hardware counters say. From the root, with nvcc, CuPy and a GPU of compute capability 9.0:

    export PYTHONPATH=src:tests/support
    python benchmarks/native_kernels.py check --out FOLDER
    python benchmarks/native_kernels.py time --out FOLDER
    ncu ... python benchmarks/native_kernels.py launch --out FOLDER

`launch` calls each kernel once at each emulated size, a `marker` kernel before each call.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from access_patterns import patterns
from recorded_tasks import RECORDED_TASKS

from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.reference import load_reference
from cuda_llm.tasks.sizes import scalar_value, shape_of
from cuda_llm.tasks.task import ArgumentRole, Task

ROOT = Path(__file__).parents[1]
HONEST = ROOT / "tests/fixtures/honest"
NATIVE = ROOT / "benchmarks/native"
FLAGS = [
    "-O3",
    "-gencode=arch=compute_90,code=sm_90",
    "-lineinfo",
    "-shared",
    "-Xcompiler",
    "-fPIC",
]
TIMED = {
    "matrix_transpose": ("04_registers_4x4", "01_tiled_padded"),
    "vector_add": ("01_grid_stride", "02_float4_tail"),
    "matrix_multiplication": ("01_tiled_16", "03_register_blocked"),
    "reduction": ("01_shared_tree", "02_warp_shuffle", "04_float4_grid_stride"),
    "histogram": ("01_shared_private", "05_warp_aggregated"),
    "conv2d": ("01_shared_tile", "03_register_window"),
}
SANITIZED = (
    "matrix_transpose/01_tiled_padded",
    "matrix_transpose/09_cp_async",
    "matrix_multiplication/04_double_buffered",
    "reduction/02_warp_shuffle",
    "reduction/06_last_block",
    "histogram/01_shared_private",
    "conv2d/01_shared_tile",
)
ROTATED_BYTES = 160 << 20
"""Buffers that are used in turn for a cold figure: well above the L2."""


def honest() -> Iterator[tuple[Task, Path]]:
    """Yield every kernel that must be right."""
    for name in RECORDED_TASKS:
        task = load_task(name)
        for path in [task.baseline, *sorted((HONEST / name).glob("*.cu"))]:
            yield task, path
        if name == "matrix_transpose":
            for variant in ("padded", "unpadded"):
                yield task, ROOT / f"examples/kernels/transpose_{variant}.cu"


def timed() -> Iterator[tuple[Task, Path]]:
    """Yield the kernels that are timed."""
    for task, path in honest():
        if path.parent.name == "kernels" or path == task.baseline or path.stem in TIMED[task.name]:
            yield task, path


def label(path: Path) -> str:
    """Return `task/kernel`."""
    return f"{path.parent.name}/{path.stem}"


def build(path: Path, folder: Path, *, graph: bool = False) -> Path:
    """Build a kernel as a native library."""
    library = folder / f"{path.parent.name}-{path.stem}{'-graph' if graph else ''}.so"
    if library.exists() and library.stat().st_mtime > path.stat().st_mtime:
        return library
    command = ["nvcc", *FLAGS, str(path), "-o", str(library)]
    if graph:
        command += ["-default-stream=per-thread", "-include", str(NATIVE / "quiet.h")]
        command.append(str(NATIVE / "slope.cu"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(label(path), "does not build:", done.stderr[:300])
    return library


def build_all(
    chosen: list[tuple[Task, Path]], folder: Path, jobs: int, *, graph: bool
) -> list[Path]:
    """Build all of them, `jobs` at once."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda pair: build(pair[1], folder, graph=graph), chosen))


def inputs_of(task: Task, dims: Mapping[str, int]) -> dict[str, Any]:
    """Draw one plausible value of every buffer a kernel reads."""
    draw = np.random.default_rng(sum(dims.values()))
    made: dict[str, Any] = {}
    for argument in task.arguments:
        if argument.role == ArgumentRole.IN:
            shape = shape_of(argument, dims)
            if argument.dtype.startswith("int"):
                made[argument.name] = draw.integers(-2, dims["num_bins"] + 2, shape, dtype="int32")
            else:
                made[argument.name] = draw.standard_normal(shape, dtype="float32")
    return made


def passed(task: Task, dims: Mapping[str, int], inputs: Mapping[str, Any]) -> tuple[list[int], Any]:
    """Return the arguments of `solve`, and the arrays to keep alive; outputs are poisoned."""
    import cupy

    numbers, arrays = [], {}
    for argument in task.arguments:
        if argument.role == ArgumentRole.SCALAR:
            numbers.append(int(scalar_value(argument, dims)))
            continue
        if argument.name in inputs:
            array = cupy.asarray(inputs[argument.name])
        else:
            array = cupy.empty(shape_of(argument, dims), dtype=argument.dtype)
            array.data.memset(0xA5, array.nbytes)
        arrays[argument.name] = array
        numbers.append(array.data.ptr)
    return numbers + [0] * (8 - len(numbers)), arrays


def solve_of(library: Path) -> Callable[..., None]:
    """Return the function of a library."""
    solve = ctypes.CDLL(str(library)).solve
    solve.argtypes = [ctypes.c_long] * 8
    solve.restype = None
    return solve


def error_of(task: Task, dims: Mapping[str, int], library: Path) -> float:
    """Return the largest error of one call, in units of the scale of the task."""
    import cupy

    inputs = inputs_of(task, dims)
    numbers, arrays = passed(task, dims, inputs)
    solve_of(library)(*numbers)
    cupy.cuda.Device().synchronize()
    reference = load_reference(task)
    given = {name: arrays[name] for name in inputs}
    expected = reference.compute(cupy, given, dims)
    scales = reference.scale(cupy, given, dims) if reference.scale else expected
    worst = 0.0
    for name, value in expected.items():
        size = cupy.maximum(cupy.abs(scales[name]), 1e-30)
        worst = max(worst, float(cupy.max(cupy.abs(arrays[name] - value) / size)))
    return worst


def check(arguments: argparse.Namespace) -> None:
    """Check every honest kernel at an edge size and at a medium one."""
    import cupy

    cupy.cuda.set_allocator(None)
    chosen = [p for p in honest() if not arguments.only or label(p[1]) in arguments.only]
    libraries = build_all(chosen, arguments.build, arguments.jobs, graph=False)
    rows = []
    for (task, path), library in zip(chosen, libraries, strict=True):
        sizes = [task.sizes.edge[-3], task.sizes.emulated[-1]]
        for dims in sizes[:1] if arguments.only else sizes:
            error = error_of(task, dims, library)
            rows.append({"kernel": label(path), "dims": dict(dims), "error": error})
            print(f"{label(path):45} {dims!s:45} {error:.2e}", flush=True)
    (arguments.out / "native_check.json").write_text(json.dumps(rows))


def slope_us(library: ctypes.CDLL, sets: list[list[int]], limit_s: float) -> dict[str, Any]:
    """Time a call by the slope between a short and a long graph, taken in turn."""
    table = (ctypes.c_long * (8 * len(sets)))(*(n for numbers in sets for n in numbers))

    def graph(calls: int) -> int:
        made = library.capture(table, len(sets), calls)
        if not made:
            raise RuntimeError("cannot be captured")
        return int(made)

    one = graph(1)
    rough_s = min(library.seconds(one) for _ in range(4))
    library.forget(one)
    many = int(min(max(8e-3 / rough_s, 8), 512))
    few = max(many // 8, 1)
    short, long = graph(few), graph(many)
    slopes: list[float] = []
    until = time.monotonic() + limit_s
    while len(slopes) < 5 or (len(slopes) < 25 and time.monotonic() < until):
        a, b = library.seconds(short), library.seconds(long)
        slopes.append((b - a) / (many - few) * 1e6)
    library.forget(short)
    library.forget(long)
    quarters = statistics.quantiles(slopes, n=4)
    return {
        "median_us": round(statistics.median(slopes), 3),
        "quartiles_us": [round(quarters[0], 3), round(quarters[2], 3)],
        "calls": many,
    }


def time_kernels(arguments: argparse.Namespace) -> None:
    """Time calls, warm and cold, at the emulated sizes and the smaller bench sizes."""
    chosen = list(timed())
    libraries = build_all(chosen, arguments.build, arguments.jobs, graph=True)
    rows = []
    deadline = time.monotonic() + arguments.limit_s
    for (task, path), file in zip(chosen, libraries, strict=True):
        library = ctypes.CDLL(str(file))
        library.capture.restype = ctypes.c_void_p
        library.capture.argtypes = [ctypes.POINTER(ctypes.c_long), ctypes.c_int, ctypes.c_int]
        library.seconds.restype = ctypes.c_double
        library.seconds.argtypes = [ctypes.c_void_p]
        library.forget.argtypes = [ctypes.c_void_p]
        groups = [("emulated", d) for d in task.sizes.emulated]
        groups += [("bench", d) for d in task.sizes.bench[: arguments.bench]]
        for group, dims in groups:
            if time.monotonic() > deadline:
                print("out of time")
                break
            row: dict[str, Any] = {"kernel": label(path), "group": group, "dims": dict(dims)}
            try:
                row |= both(library, task, dims)
            except RuntimeError as error:
                row["error"] = str(error)
            rows.append(row)
            print(row, flush=True)
    (arguments.out / "native_times.json").write_text(json.dumps(rows))


def both(library: ctypes.CDLL, task: Task, dims: Mapping[str, int]) -> dict[str, Any]:
    """Time a call warm (one set of buffers) and cold (many sets in turn)."""
    import cupy

    inputs = inputs_of(task, dims)
    first, arrays = passed(task, dims, inputs)
    bytes_each = sum(a.nbytes for a in arrays.values())
    count = max(1, min(64, -(-ROTATED_BYTES // bytes_each)))
    others = [passed(task, dims, inputs) for _ in range(count - 1)]
    cupy.cuda.Device().synchronize()
    made = {"bytes": bytes_each, "warm": slope_us(library, [first], 0.15)}
    cupy.cuda.Device().synchronize()
    sets = [first, *(numbers for numbers, _ in others)]
    made["cold"] = slope_us(library, sets, 0.15) | {"sets": count}
    return made


def launch(arguments: argparse.Namespace) -> None:
    """Call every timed kernel once at every emulated size, then the access patterns."""
    import cupy

    marker = cupy.RawKernel('extern "C" __global__ void marker(int) {}', "marker")
    chosen = list(timed())
    libraries = build_all(chosen, arguments.build, arguments.jobs, graph=False)
    order: list[dict[str, Any]] = []
    for (task, path), library in zip(chosen, libraries, strict=True):
        for dims in task.sizes.emulated:
            numbers, _arrays = passed(task, dims, inputs_of(task, dims))
            marker((1,), (1,), (np.int32(len(order)),))
            solve_of(library)(*numbers)
            cupy.cuda.Device().synchronize()
            order.append({"kernel": label(path), "dims": dict(dims)})
    marker((1,), (1,), (np.int32(len(order)),))
    order.append({"kernel": "access_patterns", "dims": {}})
    offsets = patterns()
    table, out = cupy.asarray(offsets), cupy.empty(32, dtype=np.uint32)
    library = build(NATIVE / "access_patterns.cu", arguments.build)
    solve_of(library)(table.data.ptr, out.data.ptr, len(offsets), *[0] * 5)
    cupy.cuda.Device().synchronize()
    (arguments.out / "native_order.json").write_text(json.dumps(order))


def main() -> None:
    """Do what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("check", "sanitize", "time", "launch", "build"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--build", type=Path, default=Path("/tmp/native-kernels"))
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--bench", type=int, default=3)
    parser.add_argument("--limit-s", type=float, default=120)
    arguments = parser.parse_args()
    arguments.only = SANITIZED if arguments.what == "sanitize" else ()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.what == "build":
        build_all(list(honest()), arguments.build, arguments.jobs, graph=False)
        build_all(list(timed()), arguments.build, arguments.jobs, graph=True)
        return
    run = {"check": check, "sanitize": check, "time": time_kernels, "launch": launch}
    run[arguments.what](arguments)


if __name__ == "__main__":
    main()
