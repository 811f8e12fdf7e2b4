"""`cuda-llm trace events` and `cuda-llm trace otlp`: the events of a run for other programs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cuda_llm.cli.trace_look import Out, Run

PARQUET = "events.parquet"
"""Name of the file in the run's folder, unless the user says otherwise."""


class EventFormat(StrEnum):
    """Choices of --format."""

    jsonl = "jsonl"
    csv = "csv"
    parquet = "parquet"


def events(
    run: Run,
    format: Annotated[
        EventFormat, typer.Option(help="JSON lines, or a table with the columns that most share.")
    ] = EventFormat.jsonl,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write.  [default: stdout, RUN/events.parquet]"),
    ] = None,
    runs: Annotated[
        Path | None, typer.Option(help="Folder of runs.  [default: traces/runs]")
    ] = None,
) -> None:
    """Write the events of a run as a table. What cannot be read is said in one line."""
    from cuda_llm.cli.printing import print_lines
    from cuda_llm.redaction import printable
    from cuda_llm.traces.event_table import Events, csv_lines, jsonl_lines, write_parquet
    from cuda_llm.traces.files import write_file
    from cuda_llm.traces.find import find_run

    folder = find_run(run, runs)
    found = Events(folder.events, tell=False)
    lines = csv_lines(found) if format is EventFormat.csv else jsonl_lines(found)
    if format is EventFormat.parquet:
        path = out or folder.path / PARQUET
        write_parquet(found, path)
        typer.echo(printable(str(path)))
    elif out is None:
        print_lines(lines)
    else:
        write_file(out, "".join(f"{line}\n" for line in lines))
        typer.echo(printable(str(out)))
    if found.missing:
        typer.echo(printable(f"not there: {found.missing}"), err=True)


def otlp(
    run: Run,
    content: Annotated[
        bool, typer.Option("--content", help="Send prompts, replies and decisions too.")
    ] = False,
    out: Out = None,
) -> None:
    """Send a run as OpenTelemetry spans. OTEL_EXPORTER_OTLP_ENDPOINT and its like say where to."""
    from cuda_llm.redaction import printable
    from cuda_llm.traces.find import find_run
    from cuda_llm.traces.otlp.send import find_endpoint, send_run, wants_content

    folder = find_run(run, out)
    sent, trace, missing = send_run(folder, content=content or wants_content())
    typer.echo(printable(f"{sent} spans of {folder.name} sent to {find_endpoint()}"))
    typer.echo(f"  trace {trace:032x}")
    if missing:
        typer.echo(printable(f"not there: {missing}"), err=True)
