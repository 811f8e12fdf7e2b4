"""Times the same kernels on a GPU as candidates and as calls of a library: the times should agree.

    PYTHONPATH=src:benchmarks python benchmarks/library_agreement.py --out FOLDER --limit-s 300

Each is a playbook at its known point. As a library it is built for a stream that it is given and
called through PyTorch's session. The next call leaves out what lies in FOLDER already.
"""

import argparse
import asyncio
import json
import re
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import record
from results_on_gpu import known_kernel, time_kernel

from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import ArgumentRole, Task
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.libraries import time_library
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.timing.options import MeasureOptions

TASKS = ("gemm_fp16", "vector_add", "matrix_transpose", "rms_norm")
STREAM = """
static cudaStream_t own_stream;
extern "C" void set_stream(void* stream) { own_stream = static_cast<cudaStream_t>(stream); }
"""
POINTER = "ctypes.c_void_p({}.data_ptr())"
CALL = """
import ctypes

NAME = "the same kernel"
library = ctypes.CDLL("{library}")


def call(torch, *, {names}):
    library.set_stream(ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
    library.solve({given})
"""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """One size of one kernel, in microseconds, with relative half widths of 95 % intervals."""

    task: str
    dims: dict[str, int]
    candidate_us: float
    candidate_spread: float
    library_us: float
    library_spread: float


def main() -> None:
    """Time one task after the other until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--shard", default="1/1", help="which of how many, from 1")
    parser.add_argument("--limit-s", type=float, default=300)
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.limit_s
    arguments.out.mkdir(parents=True, exist_ok=True)
    device = open_device(arguments.device).pinned()
    for name in record.sharded(arguments.tasks, arguments.shard):
        done = arguments.out / f"{name}.json"
        if not done.exists() and time.monotonic() < deadline:
            rows = asyncio.run(compare(load_task(name), device, arguments.out))
            done.write_text(json.dumps([asdict(one) for one in rows], indent=1))
            for row in rows:
                ratio = row.library_us / row.candidate_us
                print(f"{name} {row.dims}: {row.candidate_us:.2f} us, {ratio:.3f}", flush=True)


async def compare(task: Task, device: Device, folder: Path) -> list[Agreement]:
    """Time the task's known point as a library and as a candidate."""
    source = known_kernel(task)
    file = as_library(task, source, folder, device.target)
    theirs = await time_library(task, device, file, MeasureOptions())
    ours = await time_kernel(task, device, source)
    assert not theirs.fault, theirs.fault
    return [
        Agreement(
            task=task.name,
            dims=dict(one.dims),
            candidate_us=one.time_us,
            candidate_spread=one.spread,
            library_us=us,
            library_spread=spread,
        )
        for one, us, spread in zip(ours.sizes, theirs.times, theirs.spreads, strict=True)
        if us is not None and spread is not None
    ]


def as_library(task: Task, source: str, folder: Path, target: str) -> Path:
    """Build the kernel for a stream of the caller's, and write a library's file that calls it."""
    text = source.replace("cudaDeviceSynchronize();", "")
    last = list(re.finditer(r"^#include .*$", text, re.MULTILINE))[-1].end()
    text = text[:last] + STREAM + text[last:]
    text = re.sub(r"<<<(.+?)>>>", with_stream, text, flags=re.DOTALL)
    text = text.replace("config.attrs =", "config.stream = own_stream;\n    config.attrs =")
    built, library = folder / f"{task.name}.cu", (folder / f"{task.name}.so").absolute()
    built.write_text(text)
    command = [str(find_toolkit().nvcc), "-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC"]
    number = target.removeprefix("sm_")
    command += [f"-gencode=arch=compute_{number},code=sm_{number}", str(built), "-lcuda"]
    subprocess.run([*command, "-o", str(library)], check=True, timeout=120)
    kinds = {"int32": "ctypes.c_int({})", "float32": "ctypes.c_float({})"}
    given = ", ".join(
        (kinds[one.dtype] if one.role is ArgumentRole.SCALAR else POINTER).format(one.name)
        for one in task.arguments
    )
    file = folder / f"{task.name}.py"
    names = ", ".join(one.name for one in task.arguments)
    file.write_text(CALL.format(library=library, names=names, given=given))
    return file


def with_stream(launch: re.Match[str]) -> str:
    """Return a launch on our stream: after grid and block, and shared memory where it has some."""
    depth, commas = 0, 0
    for character in launch[1]:
        depth += (character in "({[") - (character in ")}]")
        commas += character == "," and depth == 0
    return f"<<<{launch[1]}{', 0' if commas == 1 else ''}, own_stream>>>"


if __name__ == "__main__":
    main()
