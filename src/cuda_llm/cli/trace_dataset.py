"""`cuda-llm trace dataset`: what models were sent and answered, and what the judge found."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cuda_llm.traces.run_folder import RunFolder


class DatasetFormat(StrEnum):
    """Choices of --to."""

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
    from cuda_llm.errors import UsageError
    from cuda_llm.redaction import printable
    from cuda_llm.traces.dataset import write_dataset
    from cuda_llm.traces.find import RUNS, list_runs
    from cuda_llm.traces.text import plural

    found = [run for one in runs or () for run in runs_of(one, folder)]
    if not runs:
        found = [*list_runs(folder)]
    if not found:
        raise UsageError(f"{folder or RUNS}: no run there; expected the name of a run, or --runs")
    many = write_dataset(found, out, to.value)
    typer.echo(printable(f"{out}: {plural(many, 'candidate')} of {plural(len(found), 'run')}"))


def runs_of(name: str, folder: Path | None) -> "list[RunFolder]":
    """Return the runs of a benchmark's folder, or the one run of that name. Raises UsageError."""
    from cuda_llm.graph.benchmark.folder import BenchmarkFolder
    from cuda_llm.traces.find import find_run

    path = Path(name).expanduser()
    if not (path / "bench.json").is_file():
        return [find_run(name, folder)]
    benchmark = BenchmarkFolder(path.absolute())
    runs = [benchmark.run(one) for one in benchmark.read_plan().tasks]
    return [one for one in runs if one.events.exists()]
