"""The `cuda-llm` command: every sub-command in one place, every failure in one line.

A sub-command's module is imported when its name is among the arguments: `--help` loads none.
"""

import os
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from cuda_llm.atomic_file import FULL, describe_full_disk
from cuda_llm.cli.completion import asked_words
from cuda_llm.errors import CudaLLMError, InfrastructureError
from cuda_llm.log import CommandLine, Log

INTERRUPTED = 130
USAGE = 2
HELP = ("-h", "--help")
LOG_OPTIONS = ("--log-format", "--log-level", "--log-file")

_log = Log(__name__)


@dataclass(frozen=True)
class Subcommand:
    """One sub-command, or a group of them, and the line that the list of all shows of it."""

    name: str
    module: str
    attribute: str
    help: str

    def load(self) -> Any:
        """Return the function, or the group as a `typer.Typer`."""
        return getattr(import_module(f"cuda_llm.cli.{self.module}"), self.attribute)


SUBCOMMANDS = (
    Subcommand(
        "run",
        "run",
        "run",
        "Write kernels for a task, keep those that are right, and make the best one faster.",
    ),
    Subcommand(
        "resume",
        "run",
        "resume",
        "Go on with a run that was interrupted or killed, or fork one with other hints.",
    ),
    Subcommand(
        "evaluate",
        "evaluate",
        "evaluate",
        "Compile kernels, check them against the task's reference, and time them.",
    ),
    Subcommand(
        "tune",
        "tune",
        "tune",
        "Try other values of the tunables that a kernel declares; asks no model.",
    ),
    Subcommand(
        "bench",
        "bench",
        "bench",
        "Run a set of tasks with the same settings, and write one table of them.",
    ),
    Subcommand(
        "export",
        "trace",
        "export",
        "Write the best kernel of a run with its proof, ready to be imported.",
    ),
    Subcommand(
        "doctor",
        "doctor",
        "doctor",
        "Say what is here, what is missing, and the command that mends it.",
    ),
    Subcommand("tasks", "tasks", "tasks_app", "What to optimise."),
    Subcommand("hardware", "hardware", "hardware_app", "What is known of each GPU."),
    Subcommand("trace", "trace", "trace_app", "What happened in a run."),
    Subcommand(
        "cache", "cache", "cache_app", "What is built and kept: compiled kernels, native parts."
    ),
)


def build_app(names: Collection[str], *, with_options: bool = True) -> typer.Typer:
    """Return the command line; sub-commands that are not in `names` are listed, but do nothing.

    `with_options` False leaves out the options of all commands, whose values Typer has checked by
    pydantic even where none is given.
    """
    app = typer.Typer(
        name="cuda-llm",
        help="Write, prove and speed up CUDA kernels.",
        no_args_is_help=True,
        add_completion=with_options,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": list(HELP)},
    )
    app.callback(add_help_option=with_options)(options if with_options else _no_options)
    for one in SUBCOMMANDS:
        loaded = one.load() if one.name in names else _not_loaded
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=one.name)
        else:
            app.command(one.name, help=None if one.name in names else one.help)(loaded)
    return app


def _not_loaded() -> None:
    """Stand for a sub-command whose name is not among the arguments."""


def _no_options() -> None:
    """Stand for `options` where only help is shown."""


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
    """Choices of --log-format."""

    console = "console"
    json = "json"


class LogLevel(StrEnum):
    """Choices of --log-level."""

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
        typer.Option(help="What log records look like: lines for people, or JSON."),
    ] = None,
    log_level: Annotated[
        LogLevel | None, typer.Option(help="Least grave log records that are written.")
    ] = None,
    log_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Append log records to a file, not to stderr."),
    ] = None,
) -> None:
    """Write, prove and speed up CUDA kernels.

    The --log options may also stand behind the command.
    """
    find_tempdir()
    open_log(ctx.obj, log_format, log_level, log_file)


def asks_for_help(arguments: list[str]) -> bool:
    """Return whether a sub-command only shows its help: no log is opened, no setting read."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return bool({*HELP} & {*arguments[:end]}) and not arguments[0].startswith("-")


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


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; failures are one line on stderr."""
    with ExitStack() as closing:
        code = answer(arguments, closing)
        _log.debug("command has ended", exit_code=code)
        return code


def answer(arguments: list[str], closing: ExitStack) -> int:
    """Return the exit code of a command; its log is open until `closing` is closed."""
    log_options, others = split_log_options(arguments)
    try:
        if asks_for_help(others):
            app, arguments = build_app(others, with_options=False), others
        else:
            # They belong to all commands, so they stand before the command.
            app, arguments = build_app([*others, *asked_words()]), [*log_options, *others]
        code = app(arguments, prog_name="cuda-llm", standalone_mode=False, obj=closing)
    except typer.TyperException as error:
        message = error.format_message().replace("Value error, ", "")
        if "\n" in message:
            # No arguments: the message is the help.
            typer.echo(message, err=True)
        elif message:
            print_error(message)
        return USAGE
    except InfrastructureError as error:
        whose = "of our parts or of the device, not of the kernel"
        print_error(f"{error} (a fault {whose}; try again, then report it)", error)
        return error.exit_code
    except CudaLLMError as error:
        print_error(str(error))
        return error.exit_code
    except OSError as error:
        why = str(error.strerror or error)
        if error.errno in FULL:
            place = error.filename
            why = describe_full_disk(Path(place)) if place else "disk full: free space there"
        print_error(f"{error.filename or 'operating system'}: {why}")
        return USAGE
    if code == INTERRUPTED:
        print_error("interrupted")
    return code if isinstance(code, int) else 0


def print_error(message: str, error: Exception | None = None) -> None:
    """Print one line on stderr, whatever the message holds; log the traceback of `error`."""
    from cuda_llm.redaction import printable

    if CommandLine.is_in_charge:
        _log.error("command failed", error=message, exc_info=error, shown=True)
    typer.echo(f"error: {printable(' '.join(message.split()))}", err=True)
