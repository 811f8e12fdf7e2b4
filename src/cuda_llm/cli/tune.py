"""`cuda-llm tune`: the tunables of one kernel searched, or rewrites of it; neither playbook nor
model."""

from collections.abc import Iterator
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuda_llm.cli.completion import TaskName
from cuda_llm.cli.run import (
    JsonOption,
    config_from,
    option_parameter,
    parameter,
    run_in_foreground,
)
from cuda_llm.errors import UsageError

if TYPE_CHECKING:
    from cuda_llm.graph.runs.result import Result

STRATEGY = "fsr+no-composition"
"""Keeps the fastest; puts no two kernels together."""
TRIALS = 8


def tune(
    context: typer.Context,
    kernel: Path,
    write: Path | None,
    force: bool,
    as_json: bool,
    **_: Any,
) -> int:
    """Try other values of a kernel's tunables, or rewrites of a kernel without tunables; asks no
    model.

    It is a run like any other: what shows, resumes and exports runs knows it.
    """
    from cuda_llm.graph.runs.resolve import resolve_config
    from cuda_llm.graph.runs.result import read_result
    from cuda_llm.graph.runs.start import start
    from cuda_llm.redaction import printable
    from cuda_llm.traces.files import write_file
    from cuda_llm.traces.run_folder import RunFolder

    if write is not None and write.exists() and not force:
        raise UsageError(f"{write}: exists already; overwrite it with --force")
    asked = config_from(context, start=str(kernel), generator="tuner", strategy=STRATEGY)
    trials = asked.candidates if "candidates" in asked.model_fields_set else TRIALS
    config = resolve_config(asked.changed(candidates=trials))
    folder = RunFolder(Path(config.out) / config.run_id)
    code = run_in_foreground(
        folder,
        lambda watch: start(config, observers=[watch], report=watch.report),
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


def _parameters() -> Iterator[Parameter]:
    """Yield the parameters that Typer builds the command line from."""
    kernel = typer.Argument(help="CUDA source file; one without tunables is rewritten.")
    write = typer.Option(metavar="FILE", help="Write the best kernel there too.")
    force = typer.Option("--force", help="Overwrite that file.")
    yield parameter("context", typer.Context)
    yield parameter("task", TaskName)
    yield parameter("kernel", Annotated[Path, kernel])
    yield from map(option_parameter, ("device", "l2", "objective", "sizes", "weights"))
    trials = option_parameter("candidates", "--trials", "Trials a round, all at once.")
    yield trials.replace(default=TRIALS)
    yield from map(option_parameter, ("rounds", "max_minutes", "seed"))
    yield parameter("write", Annotated[Path | None, write], None)
    yield parameter("force", Annotated[bool, force], False)
    yield option_parameter("out")
    yield parameter("as_json", JsonOption, False)


tune.__signature__ = Signature(list(_parameters()))  # type: ignore[attr-defined]


def gain_lines(result: "Result") -> Iterator[str]:
    """Yield what tuning was worth, beside the kernel as it was given, with its uncertainty."""
    given = next((one for one in result.attempts if one.id == "r0-c1"), None)
    best = result.best
    if best is None or given is None or not (best.speedup and given.speedup):
        return
    if best.id == given.id:
        yield "  tuned        the kernel as given is the best of those tried"
        return
    doubt = best.spread + given.spread
    sure = f" ±{doubt:.1%}" if doubt else ""
    kind = "modelled" if result.time_source == "modelled" else "measured"
    yield f"  tuned        {best.speedup / given.speedup:.2f}x{sure} the kernel as given ({kind})"
    yield f"  changed      {best.idea}"
