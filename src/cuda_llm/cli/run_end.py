"""Works on a run in the foreground: progress meanwhile, then the result and the exit code."""

import shlex
import sys
from collections.abc import Callable, Coroutine
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import typer

from cuda_llm.errors import Interrupted

if TYPE_CHECKING:
    from cuda_llm.graph.runs.result import Result
    from cuda_llm.traces.recorder import Observer
    from cuda_llm.traces.run_folder import RunFolder

NONE_PASSED = 1

Work = Callable[["Observer"], Coroutine[Any, Any, object]]


def watch_to_the_end(folder: "RunFolder", work: Work, *, as_json: bool) -> int:
    """Run the work, show progress and result. Returns 0: a kernel passed; 1: none did.

    Raises Interrupted where the run can go on: after the first Ctrl-C, which lets everything end
    (a second one does not wait), and before a review.
    """
    import asyncio

    from cuda_llm.cli.run_progress import open_run_progress
    from cuda_llm.graph.runs.result import read_result
    from cuda_llm.traces.read import read_events

    told = read_events(folder.events) if folder.events.exists() else ()
    earlier = [one.event for one in told]
    try:
        # Stdout is for the result, whatever a user's own parts print.
        with redirect_stdout(sys.stderr), open_run_progress(earlier) as observer:
            asyncio.run(work(observer))
    except KeyboardInterrupt:
        if not folder.events.exists():
            raise Interrupted("interrupted before the run began") from None
    result = read_result(folder)
    show(result, as_json=as_json)
    if not result.finished:
        go_on = f"go on with: cuda-llm resume {shlex.quote(str(folder.path))}"
        raise Interrupted(f"{result.reason or 'interrupted'} in round {result.rounds}; {go_on}")
    return 0 if result.best is not None else NONE_PASSED


def show(result: "Result", *, as_json: bool) -> None:
    """Print the result for a program or for a person."""
    if as_json:
        from cuda_llm.cli.run_json import run_document

        typer.echo(run_document(result))
    else:
        from cuda_llm.cli.run_view import show_run

        show_run(result)
