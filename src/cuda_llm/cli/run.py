"""`cuda-llm run` and `cuda-llm resume`: work on a run in the foreground.

The options of `run` are the fields of `RunConfig`.
"""

import shlex
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import redirect_stdout
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

from cuda_llm.cli.completion import RunName, task_names
from cuda_llm.errors import Interrupted, UsageError
from cuda_llm.own_thread import await_here
from cuda_llm.run_config import (
    RunConfig,
    as_option,
    flag_of,
    option_of,
    read_config,
    read_pairs,
)

if TYPE_CHECKING:
    from cuda_llm.cli.run_progress import RunProgress
    from cuda_llm.graph.runs.result import Result
    from cuda_llm.traces.run_folder import RunFolder

NONE_PASSED = 1

RunWork = Callable[["RunProgress"], Coroutine[Any, Any, object]]


def run_in_foreground(folder: "RunFolder", work: RunWork, *, as_json: bool) -> int:
    """Run the work, show progress and result. Returns 0: a kernel passed; 1: none did.

    0 also where the reviewer ends it, or there is no terminal to ask at. Raises Interrupted where
    the run can go on after the first Ctrl-C, which lets everything end; a second one does not wait.
    """

    from cuda_llm.cli.run_progress import open_run_progress
    from cuda_llm.graph.runs.result import read_result, time_by_stage
    from cuda_llm.traces.event_log import read_events
    from cuda_llm.traces.events import StopCause

    recorded = read_events(folder.events) if folder.events.exists() else ()
    earlier, spent_s = [one.event for one in recorded], time_by_stage(recorded)["total"]
    interrupted = False
    try:
        # Stdout is for the result, whatever a user's own parts print.
        with redirect_stdout(sys.stderr), open_run_progress(earlier, spent_s) as progress:
            await_here(work(progress))
    except KeyboardInterrupt:
        if not folder.events.exists():
            raise Interrupted("interrupted before the run began") from None
        interrupted = True
    result = read_result(folder)
    print_result(result, as_json=as_json)
    if not result.finished:
        go_on = f"go on with: cuda-llm resume {shlex.quote(str(folder.path))}"
        reason = result.reason or "interrupted"
        if result.stopped is StopCause.REVIEW and not interrupted:
            print(f"{reason} before round {result.rounds + 1}; {go_on}", file=sys.stderr)
            return 0
        raise Interrupted(f"{reason} in round {result.rounds}; {go_on}")
    return 0 if result.best is not None else NONE_PASSED


def print_result(result: "Result", *, as_json: bool) -> None:
    """Print the result for a program or for a person."""
    from cuda_llm.cli.json_text import print_document
    from cuda_llm.cli.run_output import run_document, show_run
    from cuda_llm.graph.runs.replay import replay_account
    from cuda_llm.traces.run_folder import RunFolder

    account = replay_account(RunFolder(result.run_dir))
    if as_json:
        print_document(run_document(result, account))
    else:
        show_run(result, account)


def run(context: typer.Context, as_json: bool, **_: Any) -> int:
    """Write kernels for a task, keep those that are right, and make the best one faster."""
    from cuda_llm.cli.review import open_reviewer
    from cuda_llm.graph.runs.replay import as_asked
    from cuda_llm.graph.runs.resolve import resolve_config
    from cuda_llm.graph.runs.start import start as start_run
    from cuda_llm.traces.run_folder import RunFolder

    config = resolve_config(as_asked(config_from(context)))
    return run_in_foreground(
        RunFolder(Path(config.out) / config.run_id),
        lambda watch: start_run(
            config, observers=[watch], report=watch.report, reviewer=open_reviewer(watch)
        ),
        as_json=as_json,
    )


def config_from(context: typer.Context, **more: Any) -> RunConfig:
    """Return the configuration that stands on the command line, and `more`. Raises UsageError."""
    typed = typed_options(context)
    given = {
        name: read_typed(name, typed[name]) for name in RunConfig.model_fields if name in typed
    }
    return read_config({**given, **more}, RunConfig, spell=as_option)


def typed_options(context: typer.Context) -> dict[str, Any]:
    """Return the parameters that stand on the command line."""
    return {
        name: value
        for name, value in context.params.items()
        if (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    }


def read_typed(name: str, value: Any) -> Any:
    """Return the value of a field from what Typer read. Raises UsageError."""
    is_mapping = get_origin(RunConfig.model_fields[name].annotation) is Mapping
    return dict(read_pairs(name, value)) if is_mapping else value


def options(*, in_benchmark: bool = False) -> Iterator[Parameter]:
    """Yield the options that `run`, or `bench`, takes."""
    for name in RunConfig.model_fields:
        option = option_of(name)
        makes_sense = option.in_benchmark or not in_benchmark
        if name != "task" and option.on_command_line and makes_sense:
            yield option_parameter(name)


def option_parameter(name: str, flag: str = "", help: str = "") -> Parameter:
    """Return a field of the configuration as Typer reads an option."""
    field, option = RunConfig.model_fields[name], option_of(name)
    several = get_origin(field.annotation) in (tuple, Mapping)
    # Typer would put a text of ours in parentheses.
    shown = f"  [default: {option.shown}]" if option.shown else ""
    info = typer.Option(
        flag or flag_of(name),
        help=f"{help or field.description}{shown}",
        metavar=option.metavar or None,
    )
    return parameter(
        name, Annotated[_typed(field.annotation), info], None if several else field.default
    )


def _typed(kind: Any) -> Any:
    """Return a field's type as Typer takes it: without bounds, and a list for several values."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _typed(inner[0])
    if origin is Mapping:
        return list[str] | None
    if origin is tuple:
        # Of words Typer takes no list: which fit, the configuration says.
        item = _typed(inner[0])
        return list[str if get_origin(item) is Literal else item] | None  # type: ignore[misc]
    return _typed(inner[0]) | None if type(None) in inner else kind


JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")
]


def parameter(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
    """Return a parameter as Typer reads it."""
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


_task = typer.Argument(help=RunConfig.model_fields["task"].description, autocompletion=task_names)
run.__signature__ = Signature(  # type: ignore[attr-defined]
    [
        parameter("context", typer.Context),
        parameter("task", Annotated[str | None, _task], None),
        *options(),
        parameter("as_json", JsonOption, False),
    ]
)

Option = typer.Option


def resume(
    run: RunName,
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
        list[str] | None,
        Option(help="Accept what a --review shows, and add this hint. Repeatable."),
    ] = None,
    decisions: Annotated[
        Path | None,
        Option(help="Answer to a --review as JSON, by ids.", metavar="FILE"),
    ] = None,
    out: Annotated[
        str, Option(help="Folder that holds runs.  [default: traces/runs]", metavar="DIR")
    ] = "",
    as_json: JsonOption = False,
) -> int:
    """Go on with a run that was interrupted or killed, or fork one with other hints."""
    from cuda_llm.cli.review import has_terminal, open_reviewer, read_decisions
    from cuda_llm.graph.review_decisions import ACCEPT
    from cuda_llm.graph.runs.start import resume as resume_run
    from cuda_llm.traces.find import find_run

    folder = find_run(run, Path(out).expanduser() if out else None)
    if from_round is not None:
        folder = fork_run(folder, from_round, edit=edit_hints, file=hints)
    elif edit_hints or hints:
        raise UsageError("--edit-hints and --hints fork a run; say from where with --from-round K")
    if hint and decisions:
        raise UsageError("--hint and --decisions exclude each other; put hints under add_hints")
    answer = read_decisions(decisions) if decisions else tuple(hint or ())
    if not answer and not has_terminal():
        answer = ACCEPT
    return run_in_foreground(
        folder,
        lambda watch: resume_run(
            folder,
            answer=answer,
            observers=[watch],
            report=watch.report,
            reviewer=open_reviewer(watch),
        ),
        as_json=as_json,
    )


def fork_run(folder: "RunFolder", round_: int, *, edit: bool, file: Path | None) -> "RunFolder":
    """Fork a run behind a round, with its hints as the user wants them."""

    from cuda_llm.cli.editing import ask_editor, read_hints
    from cuda_llm.graph.runs.fork import fork, hints_at

    if edit and file is not None:
        raise UsageError("--edit-hints and --hints exclude each other")
    hints = await_here(hints_at(folder, round_))
    if file is not None:
        hints = read_hints(file, round_)
    elif edit:
        hints = ask_editor(hints, folder.path)
    return await_here(fork(folder, round_, hints))
