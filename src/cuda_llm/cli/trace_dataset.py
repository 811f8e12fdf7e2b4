"""`cuda-llm trace dataset`: what models were sent and answered, and what the judge found."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class DatasetFormat(StrEnum):
    """Formats of the rows that `trace dataset --to` writes."""

    jsonl = "jsonl"
    parquet = "parquet"


def dataset(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Runs, or folders of benchmarks; none for all.", metavar="RUN"),
    ] = None,
    to: Annotated[DatasetFormat, typer.Option(help="Format of the rows.")] = DatasetFormat.jsonl,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")] = Path("dataset"),
    folder: Annotated[
        Path | None, typer.Option("--runs", help="Folder of runs.  [default: traces/runs]")
    ] = None,
) -> None:
    """Write runs as a dataset: prompts, answers, sources, verdicts, times and parents.

    A row is a judged candidate; a card and a JSON schema stand beside the rows. Keys and absolute
    paths are left out.
    """
    from cuda_llm.cli.evaluate_winners import find_runs
    from cuda_llm.errors import UsageError
    from cuda_llm.redaction import printable
    from cuda_llm.traces.dataset import write_dataset
    from cuda_llm.traces.find import RUNS, list_runs
    from cuda_llm.traces.text import plural

    found = [run for one in runs or () for run in find_runs(one, folder)]
    if not runs:
        found = [*list_runs(folder)]
    if not found:
        raise UsageError(f"{folder or RUNS}: no run there; expected the name of a run, or --runs")
    many = write_dataset(found, out, to.value)
    typer.echo(printable(f"{out}: {plural(many, 'candidate')} of {plural(len(found), 'run')}"))
