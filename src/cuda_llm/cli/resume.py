"""`cuda-llm resume`: go on with a run, or fork it from an earlier round."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cuda_llm.cli.run_end import watch_to_the_end
from cuda_llm.errors import UsageError

if TYPE_CHECKING:
    from cuda_llm.traces.run_folder import RunFolder

Option = typer.Option


def resume(
    run: Annotated[str, typer.Argument(help="Name of a run, its beginning, its folder, latest.")],
    from_round: Annotated[
        int | None,
        Option(help="Fork: a new run that keeps the rounds up to this one.", metavar="K"),
    ] = None,
    edit_hints: Annotated[
        bool, Option("--edit-hints", help="Fork with other hints: edit them in $EDITOR.")
    ] = False,
    hints: Annotated[
        Path | None,
        Option(help="Fork with the hints of this file instead of editing.", metavar="FILE"),
    ] = None,
    hint: Annotated[
        list[str] | None, Option(help="Answer to --review: a hint to add. Repeatable.")
    ] = None,
    out: Annotated[
        str, Option(help="Folder that holds runs.", show_default="traces/runs", metavar="DIR")
    ] = "",
    as_json: Annotated[
        bool, Option("--json", help="One JSON document on stdout, nothing else.")
    ] = False,
) -> int:
    """Go on with a run that was interrupted or killed, or fork one with other hints."""
    from cuda_llm.graph.runs.resume import resume as resume_run
    from cuda_llm.traces.find import find_run

    folder = find_run(run, Path(out).expanduser() if out else None)
    if from_round is not None:
        folder = fork_run(folder, from_round, edit=edit_hints, file=hints)
    elif edit_hints or hints:
        raise UsageError("--edit-hints and --hints fork a run; say from where with --from-round K")
    answers = tuple(hint or ())
    return watch_to_the_end(
        folder,
        lambda watch: resume_run(folder, hints=answers, observers=[watch]),
        as_json=as_json,
    )


def fork_run(folder: "RunFolder", round_: int, *, edit: bool, file: Path | None) -> "RunFolder":
    """A new run that begins as this one up to a round, with its hints as the user wants them."""
    import asyncio

    from cuda_llm.cli.edit_hints import edit_hints, read_hints
    from cuda_llm.graph.runs.fork import fork, hints_at

    if edit and file is not None:
        raise UsageError("--edit-hints and --hints exclude each other")
    hints = asyncio.run(hints_at(folder, round_))
    if file is not None:
        hints = read_hints(file, round_)
    elif edit:
        hints = edit_hints(hints, folder.path)
    return asyncio.run(fork(folder, round_, hints))
