"""`cuda-llm tune`: the tunables of one kernel searched; neither playbook nor model."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cuda_llm.cli.completion import TaskName
from cuda_llm.cli.evaluate import (
    ClusterOption,
    MaxGpusOption,
    ObjectiveOption,
    SizeOption,
    WeightOption,
    WorkersOption,
)

if TYPE_CHECKING:
    from cuda_llm.graph.runs.result import Result

STRATEGY = "fsr+no-composition"
"""Keeps the fastest; puts no two kernels together."""


def tune(
    task: TaskName,
    kernel: Annotated[Path, typer.Argument(help="CUDA source file that declares tunables.")],
    device: Annotated[
        str,
        typer.Option(
            help="auto, cuda:0, cuda:all, emulated, emulated:GPU, ray:auto, module:attribute.",
        ),
    ] = "auto",
    cluster: ClusterOption = "",
    workers: WorkersOption = "",
    max_gpus: MaxGpusOption = None,
    l2: Annotated[
        Literal["cold", "warm"] | None,
        typer.Option("--l2", help="L2 of a GPU when a timed call begins.", show_default="cold"),
    ] = None,
    objective: ObjectiveOption = None,
    size: SizeOption = None,
    weight: WeightOption = None,
    trials: Annotated[int, typer.Option(min=1, max=256, help="Trials a round, all at once.")] = 8,
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="Rounds at most.")] = 5,
    max_minutes: Annotated[
        float | None, typer.Option(help="End after this much time.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same trials.")] = 0,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the best kernel there too.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite that file.")] = False,
    out: Annotated[
        str, typer.Option(help="Folder that holds runs.", show_default="traces/runs", metavar="DIR")
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")
    ] = False,
) -> int:
    """Try other values of the tunables that a kernel declares; asks no model.

    It is a run like any other: what shows, resumes and exports runs knows it.
    """
    from cuda_llm.cli.run import run_in_foreground
    from cuda_llm.errors import UsageError
    from cuda_llm.graph.request import RunRequest
    from cuda_llm.graph.runs.resolve import resolve_request
    from cuda_llm.graph.runs.result import read_result
    from cuda_llm.graph.runs.start import start
    from cuda_llm.redaction import printable
    from cuda_llm.traces.files import write_file
    from cuda_llm.traces.run_folder import RunFolder

    if write is not None and write.exists() and not force:
        raise UsageError(f"{write}: exists already; overwrite it with --force")
    request = resolve_request(
        RunRequest(
            task=task,
            start=str(kernel),
            generator="tuner",
            strategy=STRATEGY,
            device=device,
            cluster=cluster,
            workers=workers,
            max_gpus=max_gpus,
            l2=l2 or "",
            objective=objective or "",
            sizes=tuple(size or ()),
            weights=tuple(weight or ()),
            candidates=trials,
            tune=trials,
            rounds=rounds,
            max_minutes=max_minutes,
            seed=seed,
            out=out,
        )
    )
    folder = RunFolder(Path(request.out) / request.run_id)
    code = run_in_foreground(
        folder,
        lambda watch: start(request, observers=[watch], report=watch.report),
        as_json=as_json,
    )
    result = read_result(folder)
    if not as_json:
        for line in gain_lines(result):
            typer.echo(printable(line))
    if write is not None and result.source:
        write_file(write, result.source)
        typer.echo(printable(f"  written to   {write}"), err=as_json)
    return code


def gain_lines(result: "Result") -> Iterator[str]:
    """Yield what tuning was worth, beside the kernel as it was given, with its uncertainty."""
    given = next((one for one in result.attempts if one.id == "r0-c1"), None)
    best = result.best
    if best is None or given is None or not (best.speedup and given.speedup):
        return
    values = ", ".join(f"{name} {value}" for name, value in best.tunables.items())
    if best.id == given.id:
        yield "  tuned        the values given are the best of those tried"
        return
    doubt = best.spread + given.spread
    sure = f" ±{doubt:.1%}" if doubt else ""
    kind = "modelled" if result.time_source == "modelled" else "measured"
    yield f"  tuned        {best.speedup / given.speedup:.2f}x{sure} the kernel as given ({kind})"
    yield f"  values       {values}"
