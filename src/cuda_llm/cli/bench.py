"""`cuda-llm bench`: a set of tasks with given settings, one table. Options are those of a run."""

import asyncio
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
from cuda_llm.run_config import RunConfig

if TYPE_CHECKING:
    from cuda_llm.graph.benchmark.folder import BenchmarkFolder, BenchmarkPlan
    from cuda_llm.graph.benchmark.row import TaskRow
    from cuda_llm.tools.device import Device

NOT_ALL = 1
QUICK: Mapping[str, int] = {"candidates": 2, "rounds": 1, "tune": 0}
"""What `--quick` asks of a run where the command line does not."""
EXAMPLES: Mapping[str, str] = {"seed": "0,1,2", "strategy": "fsr,best-of-n", "model": "A,B"}
LISTS: Mapping[str, str] = {"seed": "seeds", "strategy": "strategies", "model": "models"}
"""Option of a run to the list of its values that makes a sweep."""


def bench(context: typer.Context, as_json: bool, **given: Any) -> int:
    """Run a set of tasks with the same settings, and write one table of them.

    With --seeds, --strategies or --models each task runs with every combination of their values.
    Limits of money, tokens and minutes are those of each task. A task that fails does not stop the
    others; what was stopped or failed is taken up again by --resume.
    """
    from cuda_llm.graph.benchmark.folder import find_benchmark
    from cuda_llm.tools.open_device import open_device, prepare_device

    out = Path(given["out"]).expanduser() if given["out"] else None
    if given["resume"]:
        refuse_more(context)
        folder = find_benchmark(given["resume"], out)
        plan = folder.read_plan()
        device = open_device(plan.config.device)
        check_device(plan, device)
    else:
        folder, plan, device = begin(context, given, out)
    prepare_device(device)
    rows = work_on(folder, plan, device)
    show(folder, plan, rows, as_json=as_json)
    return 0 if all(one.state == "done" and one.best for one in rows) else NOT_ALL


def begin(
    context: typer.Context, given: Mapping[str, Any], out: Path | None
) -> "tuple[BenchmarkFolder, BenchmarkPlan, Device]":
    """Check everything, open the device, and write the plan. Raises UsageError before any work."""
    from cuda_llm.graph.benchmark.folder import BENCHMARKS, BenchmarkFolder, plan_benchmark
    from cuda_llm.graph.benchmark.sweep import combine, read_swept, settle
    from cuda_llm.graph.runs.resolve import resolve_config
    from cuda_llm.tools.compiler.nvcc import find_toolkit
    from cuda_llm.tools.open_device import open_device

    tasks = name_tasks(given["tasks"] or ())
    swept = read_swept(*(given[name] or "" for name in LISTS.values()))
    refuse_both(typed_options(context).keys())
    # Where the benchmark's tables lie is not where the folder of each run lies.
    config, left_out = settle(config_from(context, out=str(BENCHMARKS)), swept), ""
    if given["quick"]:
        config, left_out = make_quick(config)
    config = resolve_config(config.changed(task=next(iter(tasks.values()))))
    config, settings = combine(config, swept)
    find_toolkit()
    device = open_device(config.device)
    plan = plan_benchmark(config, tasks, device, left_out=left_out, settings=settings)
    folder = BenchmarkFolder((out or BENCHMARKS).absolute() / plan.name)
    folder.write_plan(plan)
    return folder, plan, device


def refuse_both(typed: Collection[str]) -> None:
    """Raise UsageError where an option stands beside the list of its values."""
    for one, several in LISTS.items():
        if one in typed and several in typed:
            raise UsageError(f"--{one} and --{several} exclude each other")


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


def make_quick(config: RunConfig) -> tuple[RunConfig, str]:
    """Return the configuration of `--quick`, and what that leaves out."""
    fewer = {name: value for name, value in QUICK.items() if name not in config.model_fields_set}
    usual = ", ".join(f"{name} {getattr(config, name)}" for name in fewer)
    now = ", ".join(f"{name} {value}" for name, value in fewer.items())
    return config.changed(
        **fewer
    ), f"{now}, where {usual} is usual; no size and no check is left out"


def refuse_more(context: typer.Context) -> None:
    """Raise UsageError where --resume stands beside what bench.json decides."""
    more = typed_options(context).keys() - {"resume", "out", "as_json"}
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


def work_on(
    folder: "BenchmarkFolder", plan: "BenchmarkPlan", device: "Device"
) -> "tuple[TaskRow, ...]":
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
            asyncio.run(work(folder, plan, device, keep, on_progress=tell))
    except KeyboardInterrupt:
        write_tables(folder, plan, folder.rows(plan))
        raise Interrupted(f"interrupted; go on with: {folder.resume_command}") from None
    rows = folder.rows(plan)
    write_tables(folder, plan, rows)
    return rows


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
    from cuda_llm.cli.json_text import json_text
    from cuda_llm.graph.benchmark.render import document

    typer.echo(
        json_text(document(folder, plan, rows)) if as_json else "\n".join(lines(folder, plan, rows))
    )


def lines(
    folder: "BenchmarkFolder", plan: "BenchmarkPlan", rows: "Sequence[TaskRow]"
) -> Iterator[str]:
    """Yield the result as text: facts, a line a task, the means, and where the tables lie."""
    from cuda_llm.graph.benchmark.tables import make_page

    page = make_page(plan, rows)
    yield page.title
    yield from (f"  {one}" for one in page.facts)
    yield from ("", *(f"  {task_line(one)}" for one in rows), "")
    means = page.tables[0].rows
    widths = [max(map(len, column)) for column in zip(*means, strict=True)]
    for cells in means:
        padded = (f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        yield f"  {'  '.join(padded)}".rstrip()
    yield from ("", *(f"  {one}" for one in page.notes))
    yield f"  tables: {folder.path / 'table.md'}, .html, .csv, .json"


def _parameters() -> Iterator[Parameter]:
    """Yield the parameters that Typer builds the command line from."""
    tasks = typer.Argument(
        metavar="[TASK]...",
        help="Names of tasks, or their folders; without one all that ship.",
        autocompletion=task_names,
    )
    quick = typer.Option("--quick", help="Few candidates and one round: minutes on two cores.")
    resume = typer.Option(help="Go on with a benchmark: its folder, or latest.", metavar="DIR")
    out = typer.Option(
        help="Folder that holds benchmarks.  [default: traces/benchmarks]", metavar="DIR"
    )
    yield parameter("context", typer.Context)
    yield parameter("tasks", Annotated[list[str] | None, tasks], None)
    yield parameter("quick", Annotated[bool, quick], False)
    yield parameter("resume", Annotated[str, resume], "")
    yield parameter("out", Annotated[str, out], "")
    for one, several in LISTS.items():
        info = typer.Option(
            help=f"Several of --{one}, as in {EXAMPLES[one]}.", metavar="LIST", show_default=False
        )
        yield parameter(several, Annotated[str, info], "")
    yield from options(in_benchmark=True)
    yield parameter("as_json", JsonOption, False)


bench.__signature__ = Signature(list(_parameters()))  # type: ignore[attr-defined]
