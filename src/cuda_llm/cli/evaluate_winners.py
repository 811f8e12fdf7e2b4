"""`cuda-llm evaluate --from-run`: the fastest kernels of a run on other devices, by other nvccs."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cuda_llm.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from cuda_llm.graph.runs.elsewhere import Contenders, JudgedElsewhere
    from cuda_llm.tools.device import Device
    from cuda_llm.traces.run_folder import RunFolder

ELSEWHERE_SCHEMA = 1
NOT_ALL = 1
NVCC = "CUDA_LLM_NVCC"
"""Environment variable of the setting that names the compiler."""
HEAD = (
    *("run", "kernel", "device", "nvcc", "verdict", "largest size", "speed-up", "in the run"),
    *("of the run's kernels", "fastest other"),
)
STANDINGS = {
    "fastest": "still the fastest",
    "tie": "a tie",
    "slower": "no longer the fastest",
    "wrong": "does not pass",
}


def evaluate_winners(
    name: str, devices: Sequence[str], compilers: Sequence[str], *, as_json: bool
) -> int:
    """Judge the kernels of a run, or of each run of a benchmark, on each device by each compiler.

    What a run's folder already has is read and not judged again. Returns 0 where every winner
    passes everywhere, else 1. Raises UsageError before any work for what is not there.
    """
    from cuda_llm.cli.json_text import json_text, print_document
    from cuda_llm.graph.runs.elsewhere import read_judged
    from cuda_llm.settings import settings
    from cuda_llm.tools.open_device import open_device

    contenders = [one for folder in find_runs(name) if (one := contenders_of(folder)).kernels]
    if not contenders:
        raise UsageError(f"--from-run {name}: no kernel passed there, so there is none to judge")
    opened = [open_device(one) for one in devices or (settings().device,)]
    paths = [check_compiler(one) for one in compilers] or [""]
    found: list[JudgedElsewhere] = []
    begun: list[str] = []
    pairs = list(product(opened, contenders))
    try:
        for path in paths:
            with chosen_compiler(path) as nvcc:
                begun.append(nvcc)
                for device, one in pairs:
                    found.append(judge_one(one, device, nvcc))
    except KeyboardInterrupt:
        # What the folders have: an interruption may come between a file and the list.
        kept = [read_judged(one, device, nvcc) for nvcc in begun for device, one in pairs]
        every = len(pairs) * len(paths)
        left = every - sum(one is not None for one in kept)
        raise Interrupted(
            f"interrupted: {left} of {every} are left; the same command goes on"
        ) from None
    if as_json:
        print_document(json_text(document(contenders, found)))
    else:
        typer.echo("\n".join(lines(contenders, found)))
    return 0 if all(one.standing != "wrong" for one in found) else NOT_ALL


def find_runs(name: str, out: Path | None = None) -> "list[RunFolder]":
    """Return the runs of a benchmark's folder, or the one run of that name, in the folder `out` of
    runs. Raises UsageError."""
    from cuda_llm.graph.benchmark.folder import BenchmarkFolder
    from cuda_llm.traces.find import find_run

    path = Path(name).expanduser()
    if not (path / "bench.json").is_file():
        return [find_run(name, out)]
    folder = BenchmarkFolder(path.absolute())
    runs = [folder.run(one) for one in folder.read_plan().tasks]
    return [one for one in runs if one.events.exists()]


def contenders_of(folder: "RunFolder") -> "Contenders":
    """Return the kernels of a run that are judged."""
    from cuda_llm.graph.runs.elsewhere import find_contenders

    return find_contenders(folder)


def check_compiler(path: str) -> str:
    """Return the absolute path of an nvcc. Raises UsageError where there is none."""
    found = Path(path).expanduser().absolute()
    if not os.access(found, os.X_OK) or found.is_dir():
        raise UsageError(f"--nvcc {path}: no such program; expected the path of an nvcc")
    return str(found)


@contextmanager
def chosen_compiler(path: str) -> Iterator[str]:
    """Compile with this nvcc, or with the one that is found where `path` is empty; yield its
    version."""
    from cuda_llm.tools.compiler.nvcc import find_toolkit

    before = os.environ.get(NVCC)
    if path:
        os.environ[NVCC] = path
    try:
        yield find_toolkit().version
    finally:
        if before is None:
            os.environ.pop(NVCC, None)
        else:
            os.environ[NVCC] = before


def judge_one(of: "Contenders", device: "Device", nvcc: str) -> "JudgedElsewhere":
    """Return the judging of one run's kernels on one device: as its folder has it, else made."""
    from cuda_llm.cli.evaluate import judge_until_stopped
    from cuda_llm.cli.progress import open_progress
    from cuda_llm.graph.runs.elsewhere import keep_judged, read_judged
    from cuda_llm.graph.runs.run_context import versions
    from cuda_llm.tools.timing.options import L2, MeasureOptions

    kept = read_judged(of, device, nvcc)
    if kept is not None:
        return kept
    print(f"{of.folder.name}: {device.name}, nvcc {nvcc}", file=sys.stderr, flush=True)
    sources = [(one.id, one.source) for one in of.kernels]
    with open_progress([name for name, _ in sources]) as progress:
        progress.prepare(device.prepare)
        options = MeasureOptions(l2=L2(of.l2))
        judged = judge_until_stopped(of.task, device, sources, progress, options)
    if len(judged) < len(sources):
        raise KeyboardInterrupt
    return keep_judged(of, device, nvcc, judged, versions())


def document(
    contenders: "Sequence[Contenders]", found: "Sequence[JudgedElsewhere]"
) -> dict[str, Any]:
    """Return everything as plain JSON (docs/schemas/elsewhere.schema.json)."""
    return {
        "schema": ELSEWHERE_SCHEMA,
        "runs": [
            {
                "run": str(one.folder.path),
                "task": one.task.name,
                "device": one.device,
                "time_source": one.time_source,
                "kernels": {kernel.id: kernel.speedup for kernel in one.kernels},
            }
            for one in contenders
        ],
        "judged": [judged_fields(one) for one in found],
    }


def judged_fields(one: "JudgedElsewhere") -> dict[str, Any]:
    """Return one judging with what follows from it."""
    from cuda_llm.codec import encode

    rival = one.rival
    return {**encode(one), "standing": one.standing, "rival": rival.id if rival else None}


def lines(contenders: "Sequence[Contenders]", found: "Sequence[JudgedElsewhere]") -> Iterator[str]:
    """Yield a table over runs, devices and compilers, and what to know of it."""
    from cuda_llm.cli.printing import aligned
    from cuda_llm.redaction import printable

    yield from map(printable, aligned([HEAD, *map(cells, found)]))
    yield ""
    passed = sum(one.standing != "wrong" for one in found)
    first = sum(one.standing in ("fastest", "tie") for one in found)
    yield f"  the winner passes in {passed} of {len(found)}; is the fastest or ties in {first}"
    for one in contenders:
        yield printable(
            f"  {one.folder.name}: {one.task.name}, judged on {one.device}, times {one.time_source}"
            + (f"; {one.note}" if one.note else "")
        )


def cells(one: "JudgedElsewhere") -> tuple[str, ...]:
    """Return the row of one judging."""
    from cuda_llm.traces.text import us

    winner, rival = one.kernels[0], one.rival
    beside = "–"
    if rival is not None and rival.speedup and winner.speedup:
        beside = f"{rival.id}, at {rival.speedup / winner.speedup:.2f}x its speed"
    return (
        one.run,
        winner.id,
        one.device,
        one.nvcc,
        winner.code,
        f"{us(winner.times_us[-1])} {one.time_source}" if winner.times_us else "–",
        f"{winner.speedup:.2f}x" if winner.speedup else "–",
        f"{winner.before:.2f}x" if winner.before else "–",
        STANDINGS[one.standing],
        beside,
    )
