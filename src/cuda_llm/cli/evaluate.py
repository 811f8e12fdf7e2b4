"""`cuda-llm evaluate`: compile, validate and time kernels; no agents."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cuda_llm.cli.completion import TaskName
from cuda_llm.errors import Interrupted, UsageError
from cuda_llm.own_thread import await_here
from cuda_llm.source_file import read_source, read_stdin
from cuda_llm.source_kinds import require_solve

if TYPE_CHECKING:
    from cuda_llm.cli.progress import Progress
    from cuda_llm.outcomes import Verdict
    from cuda_llm.tasks.task import Task
    from cuda_llm.tools.device import Device
    from cuda_llm.tools.device.inspection import Inspection
    from cuda_llm.tools.judge.judged import Judged
    from cuda_llm.tools.judge.sanitize import Sanitized
    from cuda_llm.tools.timing.options import MeasureOptions

NOT_ALL = 1
STDIN = Path("-")
ObjectiveOption = Annotated[
    Literal["geomean", "largest", "worst"] | None,
    typer.Option(help="How sizes make the one speed-up.  [default: geomean]"),
]
SizeOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="M=NUMBER,...",
        help="Time this size, not the task's: every dim, as in M=4096,N=512. Repeatable.",
    ),
]
WeightOption = Annotated[
    list[float] | None,
    typer.Option(help="How much a size counts, one for each in order. Repeatable."),
]

StrictOption = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Races that change no result are DATA_RACE, too: `if (*p < v) atomicMax(p, v)`.",
    ),
]


def evaluate(
    context: typer.Context,
    task: TaskName = "",
    files: Annotated[
        list[Path] | None, typer.Argument(help="CUDA source files with a solve(); - is stdin.")
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="auto, cuda:0, cuda:all, emulated, emulated:GPU, ray:auto, FILE.py:NAME."
            " Repeatable with --from-run.  [default: auto]",
        ),
    ] = None,
    from_run: Annotated[
        str,
        typer.Option(
            help="Instead of TASK and FILES: the winner of a run, or of each run of a benchmark, "
            "beside the next two.",
            metavar="RUN",
        ),
    ] = "",
    nvcc: Annotated[
        list[str] | None,
        typer.Option(help="With --from-run: an nvcc to compile with. Repeatable.", metavar="PATH"),
    ] = None,
    l2: Annotated[
        Literal["cold", "warm"] | None,
        typer.Option("--l2", help="L2 of a GPU when a timed call begins.  [default: cold]"),
    ] = None,
    precision: Annotated[
        Literal["quick", "normal", "high"],
        typer.Option(help="How sure the times of a GPU are to be: some 1, 5 or 15 s a kernel."),
    ] = "normal",
    objective: ObjectiveOption = None,
    size: SizeOption = None,
    weight: WeightOption = None,
    strict: StrictOption = False,
    inspect: Annotated[
        bool,
        typer.Option("--inspect", help="On a GPU: counters, sanitizers, the emulated device."),
    ] = False,
    every: Annotated[
        bool,
        typer.Option("--all", help="Every distinct fault at small sizes, not only the first."),
    ] = False,
    any_passes: Annotated[
        bool,
        typer.Option("--any", help="Exit with 0 where a file passes, not only where all do."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")
    ] = False,
) -> int:
    """Compile kernels, check them against the task's reference, and time them.

    Exits with 1 where a file is not PASSED.
    """
    from cuda_llm.cli.evaluate_output import evaluate_document, print_evaluation
    from cuda_llm.cli.json_text import print_document
    from cuda_llm.cli.progress import open_progress
    from cuda_llm.graph.judge import options_as_asked, task_as_asked
    from cuda_llm.settings import settings
    from cuda_llm.tools.open_device import open_device
    from cuda_llm.tools.timing.options import L2

    if from_run:
        from cuda_llm.cli.evaluate_winners import evaluate_winners

        refuse_beside_run(context)
        return evaluate_winners(from_run, device or (), nvcc or (), as_json=as_json)
    if not task or not files:
        raise UsageError("expected TASK and files, or --from-run RUN")
    if nvcc or (device and len(device) > 1):
        raise UsageError("--nvcc, and more than one --device, judge the kernels of --from-run RUN")
    sources = read_sources(files)
    for name, text in sources:
        require_solve(text, name)
    loaded = task_as_asked(
        task, sizes=size or (), objective=objective, weights=weight or (), strict=strict
    )
    chosen = open_device(device[0] if device else settings().device)
    options = options_as_asked(precision, L2(l2) if l2 else None)
    with open_progress([name for name, _ in sources]) as progress:
        progress.prepare(chosen.prepare)
        judged = judge_until_stopped(loaded, chosen, sources, progress, options)
        was_stopped = len(judged) < len(sources)
        look = inspect and not was_stopped
        looked = await_here(inspect_all(loaded, chosen, judged)) if look else {}
        every = every and not was_stopped
        sanitized = await_here(sanitize_all(loaded, chosen, judged)) if every else {}
    for number, found in looked.items():
        judged[number] = with_inspection(loaded, chosen, judged[number], found)
    if as_json:
        print_document(evaluate_document(loaded, chosen, judged, looked, precision, sanitized))
    else:
        print_evaluation(loaded, chosen, judged, looked, precision, sanitized)
    if was_stopped:
        raise Interrupted(f"interrupted: {len(judged)} of {len(sources)} files were judged")
    enough = any if any_passes else all
    return 0 if enough(one.passed for one in judged) else NOT_ALL


def refuse_beside_run(context: typer.Context) -> None:
    """Raise UsageError for what a run decides that stands beside --from-run."""
    from cuda_llm.cli.run import typed_options

    more = typed_options(context).keys() - {"from_run", "device", "nvcc", "as_json"}
    spelled = [one.opts[0] for one in context.command.params if one.name in more]
    if spelled:
        words = ", ".join(one if one.startswith("-") else one.upper() for one in spelled)
        raise UsageError(f"--from-run judges as the run did; leave out: {words}")


def read_sources(files: Sequence[Path]) -> list[tuple[str, str]]:
    """Return name and text of each file; `-` is stdin. Raises UsageError."""
    if files.count(STDIN) > 1:
        raise UsageError("- is given twice; stdin is one source")
    return [
        ("stdin", read_stdin()) if path == STDIN else (str(path), read_source(path))
        for path in files
    ]


def judge_until_stopped(
    task: "Task",
    device: "Device",
    sources: list[tuple[str, str]],
    progress: "Progress",
    options: "MeasureOptions",
) -> "list[Judged]":
    """Judge every file, the baseline beside them. Return them in their order.

    Ctrl-C ends it: then those that are judged, if any are.
    """
    from cuda_llm.graph.judge import LoopJudge

    judged: dict[int, Judged] = {}

    async def judge_all() -> None:
        async with LoopJudge(device, options) as opened:
            await opened.judge_all(
                task, sources, on_stage=progress.enter, on_judged=judged.__setitem__
            )

    try:
        await_here(judge_all())
    except KeyboardInterrupt:
        if not judged:
            raise
    return [judged[place] for place in sorted(judged)]


async def inspect_all(
    task: "Task", device: "Device", judged: "list[Judged]"
) -> "dict[int, Inspection]":
    """Inspect each kernel that passed, at its largest timed size. Return findings by place."""
    from cuda_llm.tools.device.inspection import InspectionOptions
    from cuda_llm.tools.judge.judge import open_bench
    from cuda_llm.tools.open_device import open_watcher

    bench = open_bench(task, device, watcher=open_watcher(device))
    found = {}
    for number, one in enumerate(judged):
        profile = one.profile
        if profile is not None and profile.sizes and one.compiled is not None:
            options = InspectionOptions()
            found[number] = await bench.inspect_profiled(one.compiled, profile, options)
    return found


async def sanitize_all(
    task: "Task", device: "Device", judged: "list[Judged]"
) -> "dict[int, Sanitized | Verdict]":
    """Look for all faults of each kernel that compiled, where every access is seen. Return findings
    by place."""
    from cuda_llm.tools.judge.sanitize import sanitize
    from cuda_llm.tools.open_device import open_watcher

    watching = open_watcher(device) or device
    return {
        number: await sanitize(task, watching, one.compiled.source, one.name)
        for number, one in enumerate(judged)
        if one.compiled is not None
    }


def with_inspection(
    task: "Task", device: "Device", judged: "Judged", found: "Inspection"
) -> "Judged":
    """Return a verdict as inspection leaves it: a fault replaces it, counters explain its time."""
    from cuda_llm.outcomes import Passed
    from cuda_llm.tools.profiler.explain_measured import explain_with_counters

    if found.fault is not None:
        return replace(judged, verdict=found.fault)
    verdict = judged.verdict
    if not isinstance(verdict, Passed) or verdict.profile is None:
        return judged
    profile = explain_with_counters(task, device.hardware, verdict.profile, found.counters)
    return replace(judged, verdict=replace(verdict, profile=profile))
