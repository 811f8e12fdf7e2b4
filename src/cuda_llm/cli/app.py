"""The `cuda-llm` command: every sub-command in one place, every failure in one line."""

from typing import Annotated

import typer

from cuda_llm.cli.doctor import doctor
from cuda_llm.cli.evaluate import evaluate
from cuda_llm.cli.export import export
from cuda_llm.cli.hardware import hardware_app
from cuda_llm.cli.resume import resume
from cuda_llm.cli.run import run as run_task
from cuda_llm.cli.tasks import tasks_app
from cuda_llm.cli.tempdir import find_tempdir
from cuda_llm.cli.trace import trace_app
from cuda_llm.errors import CudaLLMError, InfrastructureError
from cuda_llm.wording import printable

INTERRUPTED = 130
USAGE = 2

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


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"cuda-llm {version('cuda-llm')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=show_version, is_eager=True),
    ] = False,
) -> None:
    """Write, prove and speed up CUDA kernels."""
    find_tempdir()


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; failures are one line on stderr."""
    try:
        code = app(arguments, prog_name="cuda-llm", standalone_mode=False)
    except typer.TyperException as error:
        message = error.format_message()
        if "\n" in message:
            # No arguments: the message is the help.
            typer.echo(message, err=True)
        elif message:
            complain(message)
        return USAGE
    except InfrastructureError as error:
        complain(f"{error} (our fault, not the kernel's; try again, then report it)")
        return error.exit_code
    except CudaLLMError as error:
        complain(str(error))
        return error.exit_code
    except OSError as error:
        complain(f"{error.filename or 'operating system'}: {error.strerror or error}")
        return USAGE
    if code == INTERRUPTED:
        complain("interrupted")
    return code if isinstance(code, int) else 0


def complain(message: str) -> None:
    """One line on stderr, whatever the message holds."""
    typer.echo(f"error: {printable(' '.join(message.split()))}", err=True)
