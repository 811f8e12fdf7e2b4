"""Judges our kernels for KernelBench's problems on a GPU, beside KernelBench's verdict and time.

Its check: five draws of the problem's inputs at its one size, results compared with the module's
float32 ones with `atol = rtol = 1e-4`; times are means of eager
calls between two events. Ours is `cuda-llm evaluate`. Where a problem's own size leaves no room for
references in float64, both are done at a smaller one. Resumes: what is in the output stays.

    python benchmarks/kernelbench_on_gpu.py PROBLEMS --out results.json --limit-s 540
"""

import argparse
import asyncio
import ctypes
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cuda_llm.outcomes import Passed
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import ArgumentRole, Task
from cuda_llm.tasks.torch_module import execute_with
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.judge.device_bench import open_bench
from cuda_llm.tools.judge.judge import judge
from cuda_llm.tools.kernelbench.import_problems import import_problems
from cuda_llm.tools.open_device import open_device
from cuda_llm.verdict_wording import describe

KERNELS = Path(__file__).with_name("kernelbench_kernels")
DRAWS = 5
TOLERANCE = 1e-4
WARM_UPS = 3
CALLS = 30
SMALLER = {
    "swish_25": {"batch_size": 1024},
    "softsign_30": {"batch_size": 1024},
    "rmsnorm_36": {"batch_size": 28},
    "max_pooling_1d_41": {"batch_size": 32},
    "conv_depthwise_2d_asymmetric_input_square_kernel_84": {"batch_size": 16},
    "cumsum_89": {"batch_size": 8192},
    "cumsum_reverse_91": {"batch_size": 8192},
    "masked_cumsum_93": {"batch_size": 8192},
    "mseloss_94": {"batch_size": 8192},
    "huberloss_96": {"batch_size": 8192},
}
"""Sizes that leave room; all else as the problem has it."""


async def judge_ours(task: Task, source: str, device_name: str) -> dict[str, Any]:
    """Judge a kernel as `cuda-llm evaluate` does."""
    bench = open_bench(task, open_device(device_name))
    baseline = asyncio.ensure_future(bench.time_baseline())
    judged = await judge(bench, source, f"{task.name}.cu", baseline=baseline)
    await baseline
    verdict = judged.verdict
    if not isinstance(verdict, Passed) or verdict.profile is None:
        return {"verdict": verdict.code, "said": list(describe(verdict))[:3]}
    size = verdict.profile.sizes[0]
    return {
        "verdict": verdict.code,
        "time_us": size.time_us,
        "baseline_us": size.baseline_us,
        "speedup": verdict.profile.speedup,
        "spread": size.spread,
        "device": verdict.profile.device,
    }


def check_as_kernelbench(task: Task, source: str) -> dict[str, Any]:
    """Compare with the module on its own inputs, and time both between events."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    file = task.folder / "module.py"
    names = execute_with(file.read_text(encoding="utf-8"), file, task.sizes.bench[0])
    solve = load_solve(source)
    with torch.device("cuda"), torch.no_grad():
        module = names["Model"](*names["get_init_inputs"]())
        worst, right = 0.0, 0
        for draw in range(DRAWS):
            torch.manual_seed(draw)
            given = list(names["get_inputs"]())
            expected = module(*given)
            run, out = bind(task, solve, module, given, expected)
            run()
            torch.cuda.synchronize()
            wanted = expected.reshape(out.shape)
            right += bool(torch.allclose(out, wanted, atol=TOLERANCE, rtol=TOLERANCE))
            worst = max(worst, float((out - wanted).abs().max()))
            del wanted, expected
        return {
            "right": f"{right} of {DRAWS}",
            "largest_difference": worst,
            "time_us": mean_us(torch, run),
            "module_us": mean_us(torch, lambda: module(*given)),
        }


def load_solve(source: str) -> Any:
    """Compile the source by nvcc alone, and return its `solve`."""
    folder = Path(tempfile.mkdtemp())
    (folder / "kernel.cu").write_text(source, encoding="utf-8")
    nvcc = find_toolkit().nvcc
    command = [str(nvcc), "-O3", "-shared", "-Xcompiler", "-fPIC", "-arch=native"]
    library = folder / "kernel.so"
    subprocess.run([*command, "-o", str(library), str(folder / "kernel.cu")], check=True)
    return ctypes.CDLL(str(library)).solve


def bind(
    task: Task, solve: Any, module: Any, given: list[Any], expected: Any
) -> tuple[Callable[[], None], Any]:
    """Return a call of `solve` on these inputs, and the tensor it writes."""
    import torch

    own = {name.replace(".", "_"): one for name, one in module.named_parameters()}
    out = torch.empty_like(torch.atleast_1d(expected))
    inputs = iter(given)
    passed: list[Any] = []
    for argument in task.arguments:
        if argument.role is ArgumentRole.SCALAR:
            passed.append(ctypes.c_int(task.sizes.bench[0][argument.name]))
        elif argument.role is ArgumentRole.OUT:
            passed.append(ctypes.c_void_p(out.data_ptr()))
        else:
            tensor = own[argument.name] if argument.name in own else next(inputs)
            passed.append(ctypes.c_void_p(tensor.data_ptr()))
    return lambda: solve(*passed), out


def mean_us(torch: Any, run: Callable[[], Any]) -> float:
    """Return the mean time of a call between two events, in microseconds."""
    times: list[float] = []
    for call in range(WARM_UPS + CALLS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record(torch.cuda.default_stream())
        run()
        end.record(torch.cuda.default_stream())
        torch.cuda.synchronize()
        if call >= WARM_UPS:
            times.append(float(begin.elapsed_time(end)) * 1e3)
    return sum(times) / len(times)


def at_its_size(task: Task) -> Task:
    """Return the task with the size at which it is judged here."""
    dims = {**task.sizes.bench[0], **SMALLER.get(task.name, {})}
    return replace(task, sizes=replace(task.sizes, bench=(dims,)))


def result_of(task: Task, device: str) -> dict[str, Any]:
    """Return what both checks say of the kernel of one task."""
    import torch

    begun = time.monotonic()
    source = (KERNELS / f"{task.name}.cu").read_text(encoding="utf-8")
    ours = asyncio.run(judge_ours(task, source, device))
    torch.cuda.empty_cache()
    theirs = check_as_kernelbench(task, source)
    taken_s = round(time.monotonic() - begun, 1)
    return {"dims": task.sizes.bench[0], "ours": ours, "kernelbench": theirs, "taken_s": taken_s}


def result_apart(folder: Path, device: str) -> dict[str, Any]:
    """Return the same from a process of its own, whose memory is free when it ends."""
    command = [sys.executable, __file__, str(folder), "--one", "--device", device]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:400]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    """Judge all kernels until the limit, and write what is known after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--limit-s", type=float, default=540.0)
    parser.add_argument("--one", action="store_true", help="PROBLEMS is one imported task")
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(result_of(at_its_size(load_task(chosen.problems)), chosen.device)))
        return
    known = json.loads(chosen.out.read_text()) if chosen.out.is_file() else {}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        imported = import_problems(chosen.problems, Path(folder))
        for task in [one.folder for one in imported if one.folder]:
            if task.name in known or not (KERNELS / f"{task.name}.cu").is_file():
                continue
            known[task.name] = result_apart(task, chosen.device)
            chosen.out.write_text(json.dumps(known, indent=1) + "\n")
            print(task.name, json.dumps(known[task.name]), flush=True)
            if time.monotonic() - begun > chosen.limit_s:
                break


if __name__ == "__main__":
    main()
