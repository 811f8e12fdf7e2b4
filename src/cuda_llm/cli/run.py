"""`cuda-llm run` and `cuda-llm resume`: work on a run in the foreground.

Options are those of `RunRequest`.
"""

import shlex
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import Field, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from cuda_llm.cli.completion import RunName, task_names
from cuda_llm.components import Components
from cuda_llm.errors import Interrupted, UsageError
from cuda_llm.graph.request import RunRequest
from cuda_llm.graph.run_options import RunOption, run_options, task_help

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
    import asyncio

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
            asyncio.run(work(progress))
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
    from cuda_llm.cli.run_output import run_document, show_run
    from cuda_llm.graph.runs.replay import replay_account
    from cuda_llm.traces.run_folder import RunFolder

    account = replay_account(RunFolder(result.run_dir))
    if as_json:
        typer.echo(run_document(result, account))
    else:
        show_run(result, account)


def run(context: typer.Context, as_json: bool, **given: Any) -> int:
    """Write kernels for a task, keep those that are right, and make the best one faster."""
    from cuda_llm.cli.review import open_reviewer
    from cuda_llm.graph.runs.replay import as_asked
    from cuda_llm.graph.runs.resolve import resolve_request
    from cuda_llm.graph.runs.start import start as start_run
    from cuda_llm.traces.run_folder import RunFolder

    request = resolve_request(as_asked(request_from(given), said(context)))
    return run_in_foreground(
        RunFolder(Path(request.out) / request.run_id),
        lambda watch: start_run(
            request, observers=[watch], report=watch.report, reviewer=open_reviewer(watch)
        ),
        as_json=as_json,
    )


def said(context: typer.Context) -> set[str]:
    """Return the fields of the request that stand on the command line."""
    typed = typed_options(context)
    switches = {_switch(one, part.name): one.name for one in run_options() for part in _parts(one)}
    return {switches.get(name, name) for name in typed} - {"as_json"}


def typed_options(context: typer.Context) -> set[str]:
    """Return the parameters that stand on the command line."""
    return {
        name
        for name in context.params
        if (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    }


def _parts(option: RunOption) -> tuple["Field[Any]", ...]:
    """Return the fields that have a switch each."""
    return fields(option.kind) if option.kind is Components else ()


def request_from(given: Mapping[str, Any], *, in_benchmark: bool = False) -> RunRequest:
    """Build the request from the options' values; None where an option was not given."""
    values = {one.name: _read_value(one, given) for one in options_of(in_benchmark=in_benchmark)}
    chosen = {name: value for name, value in values.items() if value is not None}
    return RunRequest(task="" if in_benchmark else given["task"] or "", **chosen)


def options_of(*, in_benchmark: bool) -> tuple[RunOption, ...]:
    """Return the options that `run`, or `bench`, takes."""
    return tuple(
        one
        for one in run_options()
        if one.text.on_command_line and (one.text.in_benchmark or not in_benchmark)
    )


def _read_value(option: RunOption, given: Mapping[str, Any]) -> Any:
    if option.kind is Components:
        switches = [one.name for one in _parts(option)]
        return Components(**{name: given[_switch(option, name)] for name in switches})
    value = given[option.name]
    if option.is_list:
        return tuple(value or ())
    return dict(_pairs(option, value or ())) if option.is_mapping else value


def _pairs(option: RunOption, entries: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Split NAME=MODEL entries into pairs. Raises UsageError."""
    seen = set()
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals:
            raise UsageError(f"{option.flag} {entry}: expected {option.text.metavar}")
        if name in seen:
            raise UsageError(f"{option.flag} {entry}: {name} has one already")
        seen.add(name)
        yield name, value


def _parameters() -> Iterator[Parameter]:
    """Yield the parameters that Typer builds the command line from."""
    task = typer.Argument(help=task_help(), autocompletion=task_names)
    yield parameter("context", typer.Context)
    yield parameter("task", Annotated[str | None, task], None)
    yield from option_parameters(options_of(in_benchmark=False))
    yield parameter("as_json", JsonOption, False)


JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")
]


def option_parameters(options: Iterable[RunOption]) -> Iterator[Parameter]:
    """Yield the parameters of some options of a run."""
    for option in options:
        if option.kind is Components:
            yield from _switches(option)
            continue
        kind, default = _spelled(option)
        info = typer.Option(
            option.flag,
            help=option.text.help,
            metavar=option.text.metavar or None,
            show_default=option.text.shown or True,
        )
        yield parameter(option.name, Annotated[kind, info], default)


def _spelled(option: RunOption) -> tuple[Any, Any]:
    """Return type and default as Typer takes them."""
    if option.is_list or option.is_mapping:
        return list[option.item_kind if option.is_list else str] | None, None  # type: ignore[misc]
    words = get_args(option.kind)
    if option.is_choice and "" in words:
        return Literal[tuple(word for word in words if word)] | None, None
    return option.kind, option.default


def _switches(option: RunOption) -> Iterator[Parameter]:
    """Yield a `--name/--no-name` for each field."""
    for one in fields(option.kind):
        name = one.name.replace("_", "-")
        info = typer.Option(f"--{name}/--no-{name}", help=one.metadata["help"])
        yield parameter(_switch(option, one.name), Annotated[bool, info], one.default)


def _switch(option: RunOption, name: str) -> str:
    return f"{option.name}_{name}"


def parameter(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
    """Return a parameter as Typer reads it."""
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


run.__signature__ = Signature(list(_parameters()))  # type: ignore[attr-defined]

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
        str, Option(help="Folder that holds runs.", show_default="traces/runs", metavar="DIR")
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
    import asyncio

    from cuda_llm.cli.editing import ask_editor, read_hints
    from cuda_llm.graph.runs.fork import fork, hints_at

    if edit and file is not None:
        raise UsageError("--edit-hints and --hints exclude each other")
    hints = asyncio.run(hints_at(folder, round_))
    if file is not None:
        hints = read_hints(file, round_)
    elif edit:
        hints = ask_editor(hints, folder.path)
    return asyncio.run(fork(folder, round_, hints))
