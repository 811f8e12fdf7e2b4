"""The baseline's times: the denominator of every speedup."""

import hashlib
import json
import tempfile
from pathlib import Path

from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.on_site import time_there
from cuda_llm.tools.judge.oracle import compile_baseline
from cuda_llm.tools.judge.refusal import refusal
from cuda_llm.tools.judge.timing import Timing
from cuda_llm.tools.native import cache_dir, cache_folder, unwritable

FORMAT = 2
FOLDER = "baselines"
INPUTS = b"baseline"
"""Nonce of the timed inputs: always the same, because where a kernel's time depends on them, every
speed-up would depend on when its baseline was timed. The baseline has nobody to deceive."""


async def time_baseline(task: Task, device: Device) -> Timing:
    """Time the task's baseline, once for each content, device and model.

    Raises TaskError when the baseline itself is refused: then no kernel of the task can be judged.
    """
    compiled = await compile_baseline(task, device.target)
    kept = cache_dir() / FOLDER / f"{cache_key(task, device, compiled)}.json"
    times_us = read_times(kept, len(task.sizes.emulated))
    if times_us is None:
        timing = await device.carry_out(time_there, task, compiled, compiled, INPUTS)
        if not isinstance(timing, Timing):
            raise refusal(task, timing)
        times_us = [time_us for _, time_us in timing.times]
        write_times(kept, times_us)
    sized = tuple(zip(task.sizes.emulated, times_us, strict=True))
    return Timing(times=sized, launches=(), bottlenecks=())


def cache_key(task: Task, device: Device, compiled: Compiled) -> str:
    """Everything a baseline's time depends on."""
    asked = (task.sizes, task.arguments, task.capabilities)
    parts = (FORMAT, compiled.key, device.name, device.version, repr(asked))
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def read_times(path: Path, count: int) -> list[float] | None:
    """Times kept earlier, or None where there are none or they do not fit."""
    try:
        times = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    fits = isinstance(times, list) and len(times) == count
    return times if fits and all(isinstance(t, float) for t in times) else None


def write_times(path: Path, times_us: list[float]) -> None:
    """Keep the times; two writers at once leave one whole file. Raises MissingError."""
    folder = cache_folder(FOLDER)
    try:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            whole = Path(scratch) / path.name
            whole.write_text(json.dumps(times_us))
            whole.replace(path)
    except OSError as error:
        raise unwritable(error) from error
