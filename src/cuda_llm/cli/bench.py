"""`cuda-llm bench`: a set of tasks with given settings, one table. Options are those of a run."""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuda_llm.cli.completion import task_names
from cuda_llm.cli.run import (
    JsonOption,
    config_from,
    options,
    parameter,
    typed_options,
)
from cuda_llm.errors import Interrupted, UsageError
from cuda_llm.own_thread import await_here
from cuda_llm.run_config import RunConfig

if TYPE_CHECKING:
    from cuda_llm.graph.benchmark.folder import BenchmarkFolder, BenchmarkPlan
    from cuda_llm.graph.benchmark.row import TaskRow
    from cuda_llm.tools.device import Device

NOT_ALL = 1
QUICK: Mapping[str, int] = {"candidates": 2, "rounds": 1, "tune": 0}
"""What `--quick` asks of a run where the command line does not."""
OF_SWEEP, OF_TASKS = ("Settings", "Pairs"), ("Over all tasks",)
"""Tables that are printed of a sweep, and of a benchmark without one; the others are too wide."""


def bench(context: typer.Context, as_json: bool, **given: Any) -> int:
    """Run a set of tasks with the same settings, and write one table of them.

    With --sweep each task runs with every combination of the options' values, and values of one
    option are compared in pairs. Limits of money, tokens and minutes are those of each task. A task
    that fails does not stop the others; what was stopped or failed is taken up again by --resume,
    which of a finished benchmark makes the tables anew from the folders of its runs.
    """
    from cuda_llm.graph.benchmark.folder import find_benchmark, with_beside
    from cuda_llm.graph.benchmark.presets import LIST
    from cuda_llm.tools.open_device import open_device, prepare_device

    out = Path(given["out"]).expanduser() if given["out"] else None
    if given["preset"] == LIST:
        show_presets(as_json=as_json)
        return 0
    if given["resume"]:
        refuse_more(context)
        folder = find_benchmark(given["resume"], out)
        plan = folder.read_plan()
        if given["beside"]:
            plan = with_beside(plan, find_benchmark(given["beside"], out))
            folder.write_plan(plan)
        if not folder.is_done(plan):
            device = open_device(plan.config.device)
            check_device(plan, device)
            prepare_device(device)
            work_on(folder, plan, device)
    else:
        folder, plan, device = begin(context, given, out)
        prepare_device(device)
        work_on(folder, plan, device)
    rows = remake_tables(folder, plan)
    show(folder, plan, rows, as_json=as_json)
    return 0 if all(one.state == "done" and one.best for one in rows) else NOT_ALL


def begin(
    context: typer.Context, given: Mapping[str, Any], out: Path | None
) -> "tuple[BenchmarkFolder, BenchmarkPlan, Device]":
    """Check everything, open the device, and write the plan. Raises UsageError before any work."""
    from cuda_llm.graph.benchmark.folder import (
        BENCHMARKS,
        BenchmarkFolder,
        find_benchmark,
        plan_benchmark,
        with_beside,
    )
    from cuda_llm.graph.benchmark.presets import find_preset
    from cuda_llm.graph.benchmark.sweep import combine, read_swept, settle
    from cuda_llm.graph.runs.resolve import resolve_config
    from cuda_llm.tools.compiler.nvcc import find_toolkit
    from cuda_llm.tools.open_device import open_device

    preset = find_preset(given["preset"]) if given["preset"] else None
    typed, swept = typed_options(context), read_swept(given["sweep"] or ())
    refuse_both(typed, swept)
    if preset is not None:
        over = {*typed, *swept, *(QUICK if given["quick"] else ())}
        named = read_swept(preset.sweep).items()
        swept = {**{name: values for name, values in named if name not in over}, **swept}
    tasks = name_tasks(given["tasks"] or (() if preset is None else preset.tasks))
    # Where the benchmark's tables lie is not where the folder of each run lies.
    config, left_out = settle(config_from(context, out=str(BENCHMARKS)), swept), ""
    if given["quick"]:
        config, left_out = make_quick(config, swept)
    config = resolve_config(config.changed(task=next(iter(tasks.values()))))
    config, settings = combine(config, swept)
    find_toolkit()
    device = open_device(config.device)
    plan = plan_benchmark(
        config, tasks, device, left_out=left_out, settings=settings, preset=given["preset"]
    )
    if given["beside"]:
        plan = with_beside(plan, find_benchmark(given["beside"], out))
    folder = BenchmarkFolder((out or BENCHMARKS).absolute() / plan.name)
    folder.write_plan(plan)
    return folder, plan, device


def refuse_both(typed: Collection[str], swept: Collection[str]) -> None:
    """Raise UsageError where an option has a value and is swept."""
    from cuda_llm.run_config import flag_of

    for name in swept:
        if name in typed:
            raise UsageError(f"{flag_of(name)} and --sweep {name}=... exclude each other")


def show_presets(*, as_json: bool) -> None:
    """Print each preset with its question, and the command that it stands for."""
    from cuda_llm.cli.json_text import json_text, print_document
    from cuda_llm.codec import encode
    from cuda_llm.graph.benchmark.presets import read_presets

    presets = read_presets()
    if as_json:
        print_document(json_text({name: encode(one) for name, one in presets.items()}))
        return
    for name, one in presets.items():
        typer.echo(f"{name}: {one.question}\n  {one.command}")


def name_tasks(given: Sequence[str]) -> dict[str, str]:
    """Return the name of each run and its task; all that ship where none is given.

    Raises UsageError for a task that is not there, and for two of one name.
    """
    from cuda_llm.graph.runs.resolve import resolve_task
    from cuda_llm.tasks.loader import list_tasks, load_task

    found: dict[str, str] = {}
    for task in given or list_tasks():
        resolved = resolve_task(task)
        if not Path(resolved).is_dir():
            load_task(resolved)
        name = Path(resolved).name
        if name in found:
            raise UsageError(f"two tasks are called {name}; a table needs one name each")
        found[name] = resolved
    return found


def make_quick(config: RunConfig, swept: Collection[str] = ()) -> tuple[RunConfig, str]:
    """Return the configuration of `--quick`, and what that leaves out."""
    given = {*config.model_fields_set, *swept}
    fewer = {name: value for name, value in QUICK.items() if name not in given}
    usual = ", ".join(f"{name} {getattr(config, name)}" for name in fewer)
    now = ", ".join(f"{name} {value}" for name, value in fewer.items())
    return config.changed(
        **fewer
    ), f"{now}, where {usual} is usual; no size and no check is left out"


def refuse_more(context: typer.Context) -> None:
    """Raise UsageError where --resume stands beside what bench.json decides."""
    more = typed_options(context).keys() - {"resume", "beside", "out", "as_json"}
    if more:
        names = ", ".join(sorted(more))
        raise UsageError(f"--resume goes on as the benchmark began; leave out: {names}")


def check_device(plan: "BenchmarkPlan", device: "Device") -> None:
    """Raise UsageError where times could not stand beside those of the benchmark."""
    now = (device.hardware.name, device.capabilities.time_source)
    if now != (plan.hardware, plan.time_source):
        here = f"{device.name}, times {device.capabilities.time_source}"
        before = f"{plan.device}, times {plan.time_source}"
        raise UsageError(f"the benchmark began on {before}; here is {here}: start a new one")


def remake_tables(folder: "BenchmarkFolder", plan: "BenchmarkPlan") -> "tuple[TaskRow, ...]":
    """Return the rows as the folders of the runs have them, and write the tables of them."""
    from cuda_llm.graph.benchmark.recompute import recompute_rows
    from cuda_llm.graph.benchmark.render import write_tables

    rows = recompute_rows(folder, plan)
    write_tables(folder, plan, rows)
    return rows


def work_on(folder: "BenchmarkFolder", plan: "BenchmarkPlan", device: "Device") -> None:
    """Work until every task has its row; the tables are written after each.

    Raises Interrupted after a Ctrl-C, with the command that goes on.
    """
    from cuda_llm.graph.benchmark.render import write_tables
    from cuda_llm.graph.benchmark.work import BenchmarkProgress, work

    def tell(now: BenchmarkProgress) -> None:
        running = f"; running now: {', '.join(now.running)}" if now.running else ""
        line = f"runs: {now.ended} of {now.runs} ended, {now.failed} failed{running}"
        print(line, file=sys.stderr, flush=True)

    def keep(name: str, row: "TaskRow") -> None:
        folder.write_row(name, row)
        rows = folder.rows(plan)
        write_tables(folder, plan, rows)
        ended = sum(one.state != "waiting" for one in rows)
        print(f"{ended}/{len(rows)} {task_line(row)}", file=sys.stderr, flush=True)

    try:
        print(f"benchmark {folder.path}", file=sys.stderr, flush=True)
        # Stdout is for the result, whatever a user's own parts print.
        with redirect_stdout(sys.stderr):
            await_here(work(folder, plan, device, keep, on_progress=tell))
    except KeyboardInterrupt:
        write_tables(folder, plan, folder.rows(plan))
        raise Interrupted(f"interrupted; go on with: {folder.resume_command}") from None


def task_line(row: "TaskRow") -> str:
    """Return what became of one task, in a line."""
    from cuda_llm.graph.benchmark.tables import author, factor
    from cuda_llm.redaction import printable

    if row.state != "done":
        return printable(f"{row.name}: {row.state}: {row.error}")
    took = f"{row.seconds.get('total', 0.0):.0f} s"
    passed = f"{row.passed} of {row.evaluations} passed"
    return printable(f"{row.name}: {factor(row.speedup)} by {author(row)}, {passed}, {took}")


def show(
    folder: "BenchmarkFolder",
    plan: "BenchmarkPlan",
    rows: "Sequence[TaskRow]",
    *,
    as_json: bool,
) -> None:
    """Print the result for a program or for a person."""
    from cuda_llm.cli.json_text import json_text, print_document
    from cuda_llm.graph.benchmark.render import document

    if as_json:
        print_document(json_text(document(folder, plan, rows)))
    else:
        typer.echo("\n".join(lines(folder, plan, rows)))


def lines(
    folder: "BenchmarkFolder", plan: "BenchmarkPlan", rows: "Sequence[TaskRow]"
) -> Iterator[str]:
    """Yield the result as text: facts, a line a task, the means, and where the tables lie."""
    from cuda_llm.cli.printing import aligned
    from cuda_llm.graph.benchmark.tables import make_page

    page = make_page(plan, rows)
    yield page.title
    yield from (f"  {one}" for one in page.facts)
    yield from ("", *(f"  {task_line(one)}" for one in rows), "")
    for table in page.tables:
        if table.title in (OF_SWEEP if plan.sweep else OF_TASKS):
            yield from (*aligned(table.rows), "")
    yield from (f"  {one}" for one in page.notes)
    yield f"  tables: {folder.path / 'table.md'}, .html, .csv, .json"


def _parameters() -> Iterator[Parameter]:
    """Yield the parameters that Typer builds the command line from."""
    tasks = typer.Argument(
        metavar="[TASK]...",
        help="Names of tasks, or their folders; without one all that ship.",
        autocompletion=task_names,
    )
    quick = typer.Option("--quick", help="Few candidates and one round: minutes on two cores.")
    resume = typer.Option(
        help="Go on with a benchmark, or make its tables anew: its folder, or latest.",
        metavar="DIR",
    )
    preset = typer.Option(
        help="An experiment: its tasks and options; `list` shows all.", metavar="NAME"
    )
    sweep = typer.Option(
        help="Values of an option of a run, as in hardware_context=full,name,none. Repeatable.",
        metavar="OPTION=A,B",
    )
    beside = typer.Option(
        help="A benchmark of the playbook on the same tasks and GPU, to stand beside.",
        metavar="DIR",
    )
    out = typer.Option(
        help="Folder that holds benchmarks.  [default: traces/benchmarks]", metavar="DIR"
    )
    yield parameter("context", typer.Context)
    yield parameter("tasks", Annotated[list[str] | None, tasks], None)
    yield parameter("preset", Annotated[str, preset], "")
    yield parameter("sweep", Annotated[list[str] | None, sweep], None)
    yield parameter("quick", Annotated[bool, quick], False)
    yield parameter("resume", Annotated[str, resume], "")
    yield parameter("beside", Annotated[str, beside], "")
    yield parameter("out", Annotated[str, out], "")
    yield from options(in_benchmark=True)
    yield parameter("as_json", JsonOption, False)


bench.__signature__ = Signature(list(_parameters()))  # type: ignore[attr-defined]
