"""`cuda-llm export`: the best kernel of a run as something to import."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from cuda_llm.cli.trace import Run


def export(
    run: Run,
    to: Annotated[
        Literal["cu", "cupy", "torch"],
        typer.Option(help="CUDA source with a Makefile, or a Python package."),
    ] = "cu",
    out: Annotated[
        Path | None, typer.Option(help="Folder to write.", show_default="TASK_FORMAT")
    ] = None,
    runs: Annotated[
        Path | None, typer.Option(help="Folder of runs.", show_default="traces/runs")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
) -> None:
    """Write the best kernel of a run with its proof, ready to be imported."""
    from cuda_llm.traces.export.export import export as write
    from cuda_llm.traces.export.proof import say_proof
    from cuda_llm.traces.export.winner import find_winner
    from cuda_llm.traces.find import find_run
    from cuda_llm.traces.verify import verify_command
    from cuda_llm.wording import printable

    winner = find_winner(find_run(run, runs))
    folder = write(winner, to, out, force=force)
    typer.echo(f"{folder}: {winner.task.name} for {USES[to]}")
    for line in say_proof(winner):
        typer.echo(f"  {printable(line)}")
    typer.echo(f"  judge it again: cd {folder} && {printable(verify_command(winner.run))}")


USES = {
    "cu": "make, as libsolve.so and an example",
    "cupy": "CuPy: import it as a package",
    "torch": "PyTorch: import it as a package",
}
