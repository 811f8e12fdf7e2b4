"""`cuda-llm tasks`: what there is to optimise, and how to bring your own."""

import shlex
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cuda_llm.cli.completion import TaskName
from cuda_llm.errors import UsageError
from cuda_llm.own_thread import await_here

if TYPE_CHECKING:
    from cuda_llm.tasks.task import Task

NOT_ADMISSIBLE = 1

tasks_app = typer.Typer(
    help="What to optimise.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@tasks_app.command("list")
def list_all() -> None:
    """List the tasks that ship."""
    from cuda_llm.tasks.loader import list_tasks, load_task

    names = list_tasks()
    width = max(map(len, names))
    for name in names:
        task = load_task(name)
        typer.echo(f"{name:{width}}  {task.title}" + (f" ({task.origin})" if task.origin else ""))


@tasks_app.command()
def show(
    name: TaskName,
) -> None:
    """Show what a task asks for, its sizes and how results are judged."""
    from cuda_llm.tasks.loader import load_task

    typer.echo("\n".join(describe_task(load_task(name))))


@tasks_app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the new task, or its folder's path.")],
    source: Annotated[
        Path | None, typer.Option("--from", help="CUDA file with a kernel to draft it around.")
    ] = None,
    entry: Annotated[
        str | None,
        typer.Option(
            help="Kernel or host function of that file, if it has several: 'ops::k<float, 256>'."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to make the folder.")] = Path(),
) -> None:
    """Write the folder of a new task: a skeleton, or a draft around a kernel you have."""
    from cuda_llm.cli.draft_task import draft_task
    from cuda_llm.source_file import read_source
    from cuda_llm.tasks.loader import load_task
    from cuda_llm.tasks.new_task import skeleton, write_task

    out, name = out / Path(name).parent, Path(name).name
    if source is None and entry is not None:
        raise UsageError(f"--entry {entry}: expected --from FILE too, the file that defines it")
    if source is None:
        folder = write_task(name, out, skeleton(name))
        load_task(folder)
        typer.echo(f"{folder}: edit task.toml, description.md, reference.py and baseline.cu")
    else:

        def say(line: str) -> None:
            typer.echo(line, err=True)

        made = await_here(draft_task(name, read_source(source), source.name, entry, out, say))
        folder = made.folder
        typer.echo(
            f"{folder}: {made.entry} is the baseline and, without a reference.py, the oracle; "
            f"look at the {len(made.guesses)} guesses marked CONFIRM"
        )
    typer.echo(f"then: cuda-llm tasks check {shlex.quote(str(folder))}")


class Collection(StrEnum):
    """What tasks are made of."""

    KERNELBENCH = "kernelbench"
    TORCH = "torch"


@tasks_app.command("import")
def import_from(
    collection: Annotated[
        Collection, typer.Argument(help="Problems of KernelBench, or a function of PyTorch.")
    ],
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A problem's file or a folder of them; of torch FILE.py:function, or "
            "'FILE.py:Module(4096)'.",
        ),
    ],
    example: Annotated[
        str | None,
        typer.Option(
            help="Of torch: arguments of the function at the size to make fast, as "
            "'randn(2048, 4096, dtype=bfloat16), 1e-6' or 'my_inputs()' of the file."
        ),
    ] = None,
    to: Annotated[Path, typer.Option(help="Where to make the tasks' folders.")] = Path(),
) -> int:
    """Make tasks of PyTorch code: the code itself is oracle and baseline.

    It is executed, here and whenever its task is judged. Needs PyTorch.
    """
    if collection is Collection.TORCH:
        return _import_function(path, example, to)
    if example is not None:
        raise UsageError("--example: problems of KernelBench have get_inputs(); leave it out")
    return _import_problems(Path(path), to)


def _import_function(named: str, example: str | None, to: Path) -> int:
    from cuda_llm.tools.pytorch.import_tasks import import_function

    if example is None:
        raise UsageError(
            f"{named}: --example is missing: arguments of the function, as in "
            "--example 'randn(2048, 4096, dtype=bfloat16), randn(4096, dtype=bfloat16)'"
        )
    folder = import_function(named, example, to)
    typer.echo(str(folder))
    typer.echo(f"then: cuda-llm tasks check {shlex.quote(str(folder))}")
    return 0


def _import_problems(path: Path, to: Path) -> int:
    from cuda_llm.tools.pytorch.import_tasks import import_problems

    if not path.exists():
        raise UsageError(f"{path}: not found; expected a .py file or a folder of them")
    folders: list[Path | None] = []
    for one in import_problems(path, to):
        folders.append(one.folder)
        told = str(one.folder) if one.folder else f"not taken: {one.reason}"
        typer.echo(f"{one.problem.name}: {told}")
    taken = [one for one in folders if one is not None]
    typer.echo(f"{len(taken)} of {len(folders)} taken")
    if taken:
        typer.echo(f"then: cuda-llm tasks check {shlex.quote(str(taken[0]))}")
    return 0 if taken else NOT_ADMISSIBLE


@tasks_app.command()
def check(
    folder: TaskName,
    device: Annotated[str, typer.Option(help="Where to run the baseline.")] = "auto",
) -> int:
    """Prove a task admissible: baseline and reference agree, trivial kernels are rejected."""

    from cuda_llm.cli.progress import open_progress
    from cuda_llm.tasks.loader import TASK_NAME, find_task, load_task
    from cuda_llm.tasks.new_task import find_guesses
    from cuda_llm.tools.judge.admission import check_task
    from cuda_llm.tools.judge.judge import StepRetry
    from cuda_llm.tools.open_device import open_device

    if find_task(folder) is None and TASK_NAME.fullmatch(folder):
        msg = f"{folder}: no such task or folder; make it first: cuda-llm tasks new {folder}"
        raise UsageError(msg)
    task, chosen = load_task(folder), open_device(device)
    with open_progress([]) as progress:
        progress.prepare(chosen.prepare)
    admission = await_here(StepRetry().run(lambda _trial: check_task(task, chosen)))
    guesses = [f"{spot}: still a guess: {spot.text}" for spot in find_guesses(task)]
    warnings = [f"warning: {line}" for line in (*admission.warnings, *guesses)]
    if not admission.ok:
        typer.echo("\n".join((f"{task.name}: not admissible", *admission.problems, *warnings)))
        return NOT_ADMISSIBLE
    counts = ", ".join(f"{count:,} {what}" for what, count in admission.checked.items())
    oracle = "the reference" if task.reference else "itself (no reference.py: differential)"
    passed = f"{task.name}: admissible; the baseline agrees with {oracle} on {counts}"
    typer.echo("\n".join((passed, *warnings)))
    return 0


def describe_task(task: "Task") -> Iterable[str]:
    """Yield what a task asks for: signature, arguments, sizes, tolerance, description."""
    from cuda_llm.tasks.signature import signature

    yield f"{task.name}: {task.title}"
    if task.origin:
        yield f"  from        {task.origin}"
    yield f"  folder      {task.folder}"
    yield f"  signature   {signature(task)}"
    for name, meaning in task.dims.items():
        yield f"  dim         {name}: {meaning}"
    for argument in task.arguments:
        if argument.shape:
            drawn = f"  drawn from {', '.join(argument.distributions)}" * bool(
                argument.distributions
            )
            extents = ", ".join(argument.shape)
            yield f"  {argument.role:<11} {argument.name}: {argument.dtype} [{extents}]{drawn}"
    if task.requires:
        yield f"  requires    {task.requires}"
    for group in ("bench", "edge", "emulated"):
        yield f"  {group:<11} {'; '.join(map(_size, getattr(task.sizes, group)))}"
    yield f"  hidden      {task.sizes.hidden.count} fresh sizes a verdict"
    yield f"  tolerance   {task.tolerance.kind}, {task.tolerance.precision}"
    yield f"  may use     {'; '.join(_capabilities(task)) or 'its arguments alone'}"
    yield f"  oracle      {'reference.py' if task.reference else 'baseline.cu (differential)'}"
    yield ""
    yield task.description.rstrip()


def _capabilities(task: "Task") -> Iterable[str]:
    capabilities = task.capabilities
    if capabilities.scratch_bytes != "0":
        yield f"{capabilities.scratch_bytes} bytes of scratch memory"
    if capabilities.device_to_host:
        yield "copies to the host"
    yield from capabilities.header_libraries


def _size(dims: Mapping[str, int]) -> str:
    return " ".join(f"{name}={extent:,}" for name, extent in dims.items())
