"""`cuda-llm trace serve`: the reports of all runs of a folder, in a browser on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from cuda_llm.errors import UsageError

PORT = 8321


def serve(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of runs.  [default: traces/runs]")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = PORT,
) -> None:
    """Compare all runs of a folder in a browser. Kept current, for this machine alone.

    Sort, filter, group; best so far over candidates, calls, tokens, minutes or dollars; the best
    kernels beside each other; CSV, LaTeX and SVG of what is shown.
    """
    from cuda_llm.redaction import printable
    from cuda_llm.traces.find import RUNS
    from cuda_llm.traces.report.serve import ReportServer

    runs = folder or RUNS
    if not runs.is_dir():
        raise UsageError(f"{runs}: no such folder; expected a folder of runs")
    with ReportServer(runs, port) as server:
        typer.echo(f"{server.address} shows the runs of {printable(str(runs))}; Ctrl-C ends it")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            # The one way to end it.
            return
