"""The `cuda-llm` command: every command in one table, every failure in one line on stderr."""

import os
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from cuda_llm.atomic_file import FULL, describe_full_disk
from cuda_llm.errors import (
    CRASHED,
    ERROR_CODES,
    INTERRUPTED,
    TERMINATED,
    USAGE,
    CudaLLMError,
    InfrastructureError,
    InternalError,
    describe_error,
)
from cuda_llm.log import CommandLine, Log

HELP = ("-h", "--help")
LOG_OPTIONS = ("--log-format", "--log-level", "--log-file")

_log = Log(__name__)

TYPER_WORDS: Mapping[str, str] = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": (
        "expected a whole number"
    ),
    "Input should be a valid number, unable to parse string as a number": "expected a number",
}
"""Words of Typer's about a value that does not fit, to ours."""


@dataclass(frozen=True)
class Subcommand:
    """A command, or a group of commands, of `cuda-llm`: its home, and its line in the list."""

    attribute: str
    """`module:name` in `cuda_llm.cli`: a function, or a `typer.Typer`."""
    help: str

    def load(self, name: str) -> Any:
        """Import the command and return it as Typer executes it."""
        module, _, attribute = self.attribute.partition(":")
        loaded = getattr(import_module(f"cuda_llm.cli.{module}"), attribute)
        if not isinstance(loaded, typer.Typer):
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command(name)(loaded)
            loaded = alone
        return typer.main.get_command(loaded)


SUBCOMMANDS: Mapping[str, Subcommand] = {
    "run": Subcommand(
        "run:run",
        "Write kernels for a task, keep those that are right, and make the best one faster.",
    ),
    "resume": Subcommand(
        "run:resume",
        "Go on with a run that was interrupted or killed, or fork one with other hints.",
    ),
    "evaluate": Subcommand(
        "evaluate:evaluate",
        "Compile kernels, check them against the task's reference, and time them.",
    ),
    "gate": Subcommand(
        "gate:gate",
        "Judge a repository's kernels, and fail where any is wrong, or slower than recorded.",
    ),
    "mcp": Subcommand(
        "mcp:mcp",
        "Serve the judge to coding agents over the Model Context Protocol, until the client ends.",
    ),
    "agent-kit": Subcommand(
        "agent_kit:agent_kit",
        "Write a skill that teaches a coding agent the loop: judge, read, change one thing, "
        "compare.",
    ),
    "check": Subcommand(
        "check:check",
        "Report races, bounds, unset values and barriers of any kernel; no reference, no GPU.",
    ),
    "tune": Subcommand(
        "tune:tune",
        "Try other values of a kernel's tunables, or rewrites of a kernel without tunables; "
        "asks no model.",
    ),
    "bench": Subcommand(
        "bench:bench",
        "Run a set of tasks with the same settings, and write one table of them.",
    ),
    "judge-files": Subcommand(
        "judge_files:judge_files",
        "Judge what searches elsewhere have put into a folder, and put the answers beside it.",
    ),
    "export": Subcommand(
        "trace:export",
        "Write the best kernel of a run with its proof, ready to be imported.",
    ),
    "doctor": Subcommand(
        "doctor:doctor",
        "Report what this machine has, what it lacks, and the command that installs it.",
    ),
    "tasks": Subcommand("tasks:tasks_app", "What to optimise."),
    "hardware": Subcommand("hardware:hardware_app", "What is known of each GPU."),
    "trace": Subcommand("trace:trace_app", "What happened in a run."),
    "cache": Subcommand(
        "cache:cache_app", "What is built and kept: compiled kernels, native parts."
    ),
}


class LazyGroup(typer.core.TyperGroup):
    """The commands of `cuda-llm`, each imported when the command line names it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the named command, imported, with the arguments behind it."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, SUBCOMMANDS[name].load(name) if name else found, rest


def build_app() -> typer.Typer:
    """Return the command line; its list of commands needs no command's module."""
    app = typer.Typer(
        name="cuda-llm",
        cls=LazyGroup,
        help="Write, prove and speed up CUDA kernels.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": list(HELP)},
    )
    app.callback()(options)
    for name, one in SUBCOMMANDS.items():
        app.command(name, help=one.help)(_not_imported)
    return app


def _not_imported() -> None:
    """Stand in the list of commands for a command that is imported when it is named."""


def find_tempdir() -> None:
    """Make Python choose its folder for temporary files now; having none is no error yet.

    It tries each by writing a file, which a Ctrl-C in just that moment would leave behind: so the
    signal waits.
    """
    import contextlib
    import signal
    import tempfile

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with contextlib.suppress(FileNotFoundError):
            tempfile.gettempdir()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class LogFormat(StrEnum):
    """The formats of log records that --log-format offers."""

    console = "console"
    json = "json"


class LogLevel(StrEnum):
    """The lowest levels of log records that --log-level offers."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"cuda-llm {version('cuda-llm')}")
        raise typer.Exit


def options(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=show_version, is_eager=True),
    ] = False,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(help="Format of log records: lines for people, or JSON."),
    ] = None,
    log_level: Annotated[
        LogLevel | None, typer.Option(help="Lowest level of log records that are written.")
    ] = None,
    log_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Append log records to a file, not to stderr."),
    ] = None,
) -> None:
    """Write, prove and speed up CUDA kernels.

    The --log options may also stand behind the command.
    """
    if ctx.obj is not None:
        find_tempdir()
        open_log(ctx.obj, log_format, log_level, log_file)


def asks_for_help(arguments: list[str]) -> bool:
    """Return whether a command only shows its help: no log is opened, no setting is read."""
    return bool({*HELP} & {*before_end_of_options(arguments)})


def open_log(
    closing: ExitStack, format: LogFormat | None, level: LogLevel | None, file: Path | None
) -> None:
    """Begin to log as options and settings say. Raises UsageError on a bad setting or file."""
    from cuda_llm.log_setup import command_line_logging

    if _has_log_settings():
        from cuda_llm.settings import settings

        now = settings()
        format = format or LogFormat(now.log_format)
        level = level or LogLevel(now.log_level)
        file = file or now.log_file
    chosen = command_line_logging(
        (format or LogFormat.console).value, (level or LogLevel.warning).value, file
    )
    closing.enter_context(chosen)


def _has_log_settings() -> bool:
    """Return whether a variable or the user's file may say how to log.

    Settings are read by pydantic, which is slow to load: a command that needs none of them does
    not wait for it.
    """
    from cuda_llm.data_file import config_file

    if any(name.startswith("CUDA_LLM_LOG_") for name in os.environ):
        return True
    try:
        return b"log_" in config_file().read_bytes()
    except OSError:
        return False


def split_log_options(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the --log options, which may stand anywhere, and the other arguments."""
    log: list[str] = []
    others: list[str] = []
    left = list(arguments)
    while left:
        one = left.pop(0)
        if one == "--":
            return log, [*others, one, *left]
        if one.partition("=")[0] not in LOG_OPTIONS:
            others.append(one)
        else:
            log += [one] if "=" in one or not left else [one, left.pop(0)]
    return log, others


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a command has ended without its answer."""

    exit_code: int
    message: str
    """One line; the help, where a command was called without anything."""
    error: Exception | None = None
    """What the log shows the traceback of."""


def run(arguments: list[str], terminated: Sequence[int] = ()) -> int:
    """Run one command and return its exit code.

    A failure is one line on stderr and, with --json, the document on stdout, unless that is printed
    already. `terminated` is not empty where SIGTERM has interrupted the command.
    """
    from cuda_llm.cli.json_text import Printed

    Printed.document = False
    with ExitStack() as closing:
        answered = answer(arguments, closing)
        if isinstance(answered, Failure):
            if terminated and answered.exit_code == INTERRUPTED:
                answered = replace(answered, exit_code=TERMINATED)
            report(answered, as_json="--json" in before_end_of_options(arguments))
            code = answered.exit_code
        else:
            code = answered
        _log.debug("command has ended", exit_code=code)
        return code


def answer(arguments: list[str], closing: ExitStack) -> int | Failure:
    """Return the exit code of a command; its log is open until `closing` is closed."""
    log_options, others = split_log_options(arguments)
    try:
        code = build_app()(
            # The --log options belong to all commands, so they stand before the command.
            [*log_options, *others],
            prog_name="cuda-llm",
            standalone_mode=False,
            obj=None if asks_for_help(others) else closing,
        )
    except typer.TyperException as error:
        message = error.format_message()
        for theirs, ours in TYPER_WORDS.items():
            message = message.replace(theirs, ours)
        return Failure(exit_code=USAGE, message=message)
    except (InternalError, InfrastructureError) as error:
        whose = "of our parts or of the device, not of the kernel"
        message = f"{error} (a fault {whose}; try again, then report it)"
        return Failure(exit_code=error.exit_code, message=message, error=error)
    except CudaLLMError as error:
        return Failure(exit_code=error.exit_code, message=str(error))
    except OSError as error:
        why = str(error.strerror or error)
        if error.errno in FULL:
            place = error.filename
            why = describe_full_disk(Path(place)) if place else "disk full: free space there"
        message = f"{error.filename or 'operating system'}: {why}"
        return Failure(exit_code=USAGE, message=message)
    except Exception as error:
        traceback.print_exc()
        whose = "a fault of cuda-llm, not of the kernel; report it with the lines above"
        return Failure(exit_code=CRASHED, message=f"{describe_error(error)} ({whose})")
    if code == INTERRUPTED:
        return Failure(exit_code=INTERRUPTED, message="interrupted")
    return code if isinstance(code, int) else 0


def report(failure: Failure, *, as_json: bool) -> None:
    """Print a failure on stderr, and as a document on stdout where that is asked for."""
    from cuda_llm.cli.json_text import Printed, error_text, print_document

    if "\n" in failure.message:
        # No arguments: the message is the help.
        typer.echo(failure.message, err=True)
        return
    if failure.message:
        print_error(failure.message, failure.error)
    if as_json and failure.exit_code in ERROR_CODES and not Printed.document:
        print_document(error_text(failure.message, failure.exit_code))


def before_end_of_options(arguments: list[str]) -> list[str]:
    """Return the arguments that may be options: those before `--`."""
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def print_error(message: str, error: Exception | None = None) -> None:
    """Print one line on stderr, whatever the message holds; log the traceback of `error`."""
    from cuda_llm.redaction import printable

    if CommandLine.is_in_charge:
        _log.error("command failed", error=message, exc_info=error, shown=True)
    typer.echo(f"error: {printable(' '.join(message.split()))}", err=True)
