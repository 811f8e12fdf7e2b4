"""`cuda-llm trace report`: a run, or two, as one HTML file."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cuda_llm.cli.completion import RunName

if TYPE_CHECKING:
    from cuda_llm.traces.run_folder import RunFolder

REPORT = "report.html"
"""Name of the file in the run's folder, unless the user says otherwise."""
SHOWN = 3
"""Parts that cannot be read and are named; the report's first line names more."""
LOOK_S = 1.0
"""Between two looks at a run that goes on."""


def report(
    run: RunName,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write.  [default: RUN/report.html]"),
    ] = None,
    compare: Annotated[
        str | None, typer.Option(metavar="RUN", help="Put this run beside it.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep the file current while the run goes on.")
    ] = False,
    runs: Annotated[
        Path | None, typer.Option(help="Folder of runs.  [default: traces/runs]")
    ] = None,
) -> None:
    """Write a run as one HTML file. No network and no other file is needed."""
    from cuda_llm.redaction import printable
    from cuda_llm.traces.event_log import is_being_written
    from cuda_llm.traces.find import find_run

    folder = find_run(run, runs)
    other = None if compare is None else find_run(compare, runs)
    path = out or folder.path / REPORT
    alive = follow and is_being_written(folder.events)
    missing = write(folder, other, path, live=alive)
    size = path.stat().st_size
    typer.echo(f"{printable(shlex.quote(str(path)))}: {size / 1e6:.2f} MB; open it in a browser")
    if missing:
        more = f"; and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        typer.echo(printable(f"  not there: {'; '.join(missing[:SHOWN])}{more}"), err=True)
    if alive:
        typer.echo("  kept current until the run ends; Ctrl-C stops that")
    seen = None
    while alive:
        time.sleep(LOOK_S)
        alive = is_being_written(folder.events)
        now = folder.events.stat().st_mtime_ns
        if now != seen or not alive:
            seen = now
            write(folder, other, path, live=alive)


def write(
    folder: "RunFolder", other: "RunFolder | None", path: Path, *, live: bool
) -> tuple[str, ...]:
    """Write the report; return what of the run could not be read."""
    from cuda_llm.traces.files import write_file
    from cuda_llm.traces.report.gather import gather
    from cuda_llm.traces.report.page import render_page

    gathered = gather(folder, live=live)
    beside = None if other is None else gather(other)
    write_file(path, render_page(gathered, beside))
    return gathered.run.missing
