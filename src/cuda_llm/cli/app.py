"""The `cuda-llm` command: every sub-command in one place, every failure in one line."""

from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cuda_llm.cli.cache import cache_app
from cuda_llm.cli.doctor import doctor
from cuda_llm.cli.evaluate import evaluate
from cuda_llm.cli.hardware import hardware_app
from cuda_llm.cli.run import resume
from cuda_llm.cli.run import run as run_task
from cuda_llm.cli.tasks import tasks_app
from cuda_llm.cli.trace import export, trace_app
from cuda_llm.errors import CudaLLMError, InfrastructureError
from cuda_llm.log import CommandLine, Log
from cuda_llm.wording import printable


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


INTERRUPTED = 130
USAGE = 2
LOG_OPTIONS = ("--log-format", "--log-level", "--log-file")

_log = Log(__name__)

app = typer.Typer(
    name="cuda-llm",
    help="Write, prove and speed up CUDA kernels.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("run")(run_task)
app.command()(resume)
app.command()(evaluate)
app.command()(export)
app.command()(doctor)
app.add_typer(tasks_app, name="tasks")
app.add_typer(hardware_app, name="hardware")
app.add_typer(trace_app, name="trace")
app.add_typer(cache_app, name="cache")


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


@app.callback()
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
    if ctx.obj is not None:
        open_log(ctx.obj, log_format, log_level, log_file)


def asks_for_help(arguments: list[str]) -> bool:
    """Whether a command will only show its help: then no log is opened and no setting read."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return "--help" in arguments[:end]


def open_log(
    closing: ExitStack, format: LogFormat | None, level: LogLevel | None, file: Path | None
) -> None:
    """Begin to log as options and settings say. Raises UsageError on a bad setting or file."""
    from cuda_llm.log_setup import command_line_logging
    from cuda_llm.settings import settings

    now = settings()
    chosen = command_line_logging(
        format.value if format else now.log_format,
        level.value if level else now.log_level,
        file or now.log_file,
    )
    closing.enter_context(chosen)


def with_log_options_first(arguments: list[str]) -> list[str]:
    """The arguments with the --log options before the command: they belong to all of them."""
    first: list[str] = []
    rest: list[str] = []
    left = list(arguments)
    while left:
        one = left.pop(0)
        if one == "--":
            return [*first, *rest, one, *left]
        if one.partition("=")[0] not in LOG_OPTIONS:
            rest.append(one)
        else:
            first += [one] if "=" in one or not left else [one, left.pop(0)]
    return [*first, *rest]


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; failures are one line on stderr."""
    with ExitStack() as closing:
        code = answer(with_log_options_first(arguments), closing)
        _log.debug("command has ended", exit_code=code)
        return code


def answer(arguments: list[str], closing: ExitStack) -> int:
    """Exit code of a command; its log is open until `closing` is closed."""
    log = None if asks_for_help(arguments) else closing
    try:
        code = app(arguments, prog_name="cuda-llm", standalone_mode=False, obj=log)
    except typer.TyperException as error:
        message = error.format_message()
        if "\n" in message:
            # No arguments: the message is the help.
            typer.echo(message, err=True)
        elif message:
            print_error(message)
        return USAGE
    except InfrastructureError as error:
        print_error(f"{error} (our fault, not the kernel's; try again, then report it)", error)
        return error.exit_code
    except CudaLLMError as error:
        print_error(str(error))
        return error.exit_code
    except OSError as error:
        print_error(f"{error.filename or 'operating system'}: {error.strerror or error}")
        return USAGE
    if code == INTERRUPTED:
        print_error("interrupted")
    return code if isinstance(code, int) else 0


def print_error(message: str, error: Exception | None = None) -> None:
    """One line on stderr, whatever the message holds; the log gets the traceback of `error`."""
    if CommandLine.is_in_charge:
        _log.error("command failed", error=message, exc_info=error, shown=True)
    typer.echo(f"error: {printable(' '.join(message.split()))}", err=True)
