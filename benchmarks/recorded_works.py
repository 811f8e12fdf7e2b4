"""What a worker that is an emulated device answers, and the seconds it takes: recorded kernels.

Each kernel is compiled, validated and timed a few times, new to every cache; the seconds are those
of a processor, for a worker has a core of its own and a busy machine stretches the clock.
"""

import json
import random
import resource
import time
import zlib
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import record

from cuda_llm.codec import decode, decode_verdict, encode, encode_verdict
from cuda_llm.outcomes import PublishedCheck, Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.device_bench import time_compiled, validate_compiled
from cuda_llm.tools.judge.published_check import make_published_check
from cuda_llm.tools.judge.steps import compile_baseline, compile_source, time_baseline
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated

T = TypeVar("T")
Answer = Validated | KernelTimes | PublishedCheck | Verdict

NAME = "cluster_works"
"""Of the file below `benchmarks/results`."""
FIXTURES = record.ROOT / "tests/fixtures"
KERNELS: Mapping[str, Sequence[str]] = {
    "reduction": (
        "honest/reduction/01_shared_tree.cu",
        "honest/reduction/04_float4_grid_stride.cu",
        "honest/reduction/06_last_block.cu",
        "mutants/reduction/last_tile_missing.cu",
    ),
    "histogram": (
        "honest/histogram/01_shared_private.cu",
        "honest/histogram/05_warp_aggregated.cu",
        "mutants/histogram/off_by_one.cu",
    ),
    "matrix_transpose": (
        "honest/matrix_transpose/01_tiled_padded.cu",
        "honest/matrix_transpose/04_registers_4x4.cu",
        "mutants/matrix_transpose/missing_barrier.cu",
    ),
}
"""Fixtures by task: mostly right, as what a model writes is."""
STEPS = ("compile", "validate", "time")
KINDS: Mapping[str, Any] = {
    "compile": Compiled,
    "validate": Validated,
    "time": KernelTimes,
    "publish": PublishedCheck,
}
"""Of the answers that are no verdicts, by step."""
MARK = "\n__constant__ int candidate_"
"""Begins the line that makes a kernel new."""


@dataclass(frozen=True, kw_only=True)
class RecordedKernel:
    """One kernel: how each step ended, and how long it took each time."""

    task: str
    file: str
    """Below `tests/fixtures`."""
    source: str
    answers: Mapping[str, Any]
    """By step, as far as it got: a Compiled, then a Validated and KernelTimes, or a verdict and
    what the published check says."""
    seconds: Mapping[str, Sequence[float]]

    @property
    def code(self) -> str:
        """Return the code of the verdict; empty where it passes."""
        last = self.answers[[one for one in STEPS if one in self.answers][-1]]
        return "" if isinstance(last, KernelTimes) else str(last.code)

    def draw_s(self, step: str, chance: random.Random) -> float:
        """Return the seconds of one of the times."""
        return chance.choice(self.seconds[step])


@dataclass(frozen=True)
class RecordedWorks:
    """All recorded kernels and the baselines beside them, by task."""

    kernels: Mapping[str, Sequence[RecordedKernel]]
    baselines: Mapping[str, KernelTimes]
    text: str
    """Of the file: what a device that answers by it depends on."""

    def find(self, task: str, source: str) -> RecordedKernel:
        """Return the recorded kernel that a candidate is a copy of; else one of them, always the
        same: a run makes kernels of its own of two."""
        base, kernels = source.partition(MARK)[0], self.kernels[task]
        alike = next((one for one in kernels if one.source == base), None)
        return alike or kernels[zlib.crc32(source.strip().encode()) % len(kernels)]


def number_source(source: str, number: int) -> str:
    """Return the source as another kernel, which does the same."""
    return f"{source}{MARK}{number};\n"


def read_works(path: Path = record.RESULTS / f"{NAME}.json") -> RecordedWorks:
    """Read what was recorded."""
    text = path.read_text(encoding="utf-8")
    tasks = json.loads(text)["tasks"]
    kernels = {name: [_read(name, one) for one in told["kernels"]] for name, told in tasks.items()}
    baselines = {name: decode(KernelTimes, told["baseline"]) for name, told in tasks.items()}
    return RecordedWorks(kernels, baselines, text)


def _read(task: str, told: Mapping[str, Any]) -> RecordedKernel:
    answers = {
        step: decode_verdict(answer) if "code" in answer else decode(KINDS[step], answer)
        for step, answer in told["answers"].items()
    }
    source = (FIXTURES / told["file"]).read_text(encoding="utf-8")
    return RecordedKernel(
        task=task, file=told["file"], source=source, answers=answers, seconds=told["seconds"]
    )


async def record_works(device: Device, repeats: int) -> dict[str, Any]:
    """Judge every kernel as often; return all as JSON."""
    tasks = {}
    for name, files in KERNELS.items():
        task = load_task(name)
        baseline = await time_baseline(task, device)
        kernels = [await record_kernel(task, device, file, repeats) for file in files]
        tasks[name] = {"baseline": encode(baseline), "kernels": kernels}
    return {"device": device.name, "unit": "processor seconds", "repeats": repeats, "tasks": tasks}


async def record_kernel(task: Task, device: Device, file: str, repeats: int) -> dict[str, Any]:
    """Judge one kernel as often, new each time; return its last answers and all seconds."""
    source = (FIXTURES / file).read_text(encoding="utf-8")
    target, seconds = device.target, dict[str, list[float]]()
    for _ in range(repeats):
        answers: dict[str, Any] = {}
        new = number_source(f"// {time.time_ns()}\n{source}", 0)
        compiled = await _timed(seconds, "compile", compile_source(task, device, new, "source.cu"))
        if not isinstance(compiled, Compiled):
            raise SystemExit(f"{file}: {compiled}")
        # Where the files are, and what the source is, the simulation says.
        nowhere = replace(compiled, source="", library=Path("nowhere"), ptx=Path("nowhere"))
        answers["compile"] = encode(nowhere)
        checked = await _timed(seconds, "validate", validate_compiled(task, device, compiled))
        if isinstance(checked, Validated):
            answers["validate"] = encode(checked) | {"nonce": ""}
            timed = await _timed(seconds, "time", time_compiled(task, device, compiled))
            answers["time"] = _encode_end(timed)
        else:
            answers["validate"] = _encode_end(checked)
            baseline = await compile_baseline(task, target)
            published = device.carry_out(make_published_check, task, compiled, baseline)
            told = await _timed(seconds, "publish", published)
            answers["publish"] = encode(told)
    print(file, {step: [round(one, 2) for one in every] for step, every in seconds.items()})
    return {"file": file, "answers": answers, "seconds": seconds}


def _encode_end(found: Any) -> dict[str, Any]:
    whole: dict[str, Any] = (
        encode(found) if isinstance(found, KernelTimes) else encode_verdict(found)
    )
    return whole


async def _timed(seconds: dict[str, list[float]], step: str, work: Awaitable[T]) -> T:
    """Return what the work returns; add the processor seconds of this process and its children."""
    began_s = _cpu_s()
    answer = await work
    seconds.setdefault(step, []).append(round(_cpu_s() - began_s, 3))
    return answer


def _cpu_s() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in usages)
