"""`cuda-llm trace` and `cuda-llm export`: what happened in a run, and its best kernel as
something to import.
"""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cuda_llm.cli.printing import open_console, print_lines
from cuda_llm.cli.trace_dataset import dataset
from cuda_llm.cli.trace_events import events, otlp
from cuda_llm.cli.trace_follow import follow_run
from cuda_llm.cli.trace_look import (
    AsJson,
    Out,
    Run,
    check_folder,
    compare,
    diff,
    encoded,
    grep,
    print_document,
    tree,
)
from cuda_llm.cli.trace_report import report
from cuda_llm.cli.trace_serve import serve

if TYPE_CHECKING:
    from cuda_llm.traces.summary import Summary

SCHEMA = 1

trace_app = typer.Typer(
    help="What happened in a run.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

USES = {
    "cu": "make, as libsolve.so and an example",
    "cupy": "CuPy: import it as a package",
    "torch": "PyTorch: import it as a package",
}


@trace_app.command("list")
def list_all(out: Out = None, as_json: AsJson = False) -> None:
    """List runs: task, device, state, best so far, spend."""
    from cuda_llm.codec import encode
    from cuda_llm.traces.find import RUNS, list_runs, spell_out
    from cuda_llm.traces.summary import summarise

    check_folder(out)
    found = [summarise(run) for run in list_runs(out)]
    if as_json:
        print_document({"runs": encode(found)})
    elif found:
        show_table(found)
    else:
        start = f"cuda-llm run vector_add{spell_out(out)}"
        typer.echo(f"no runs in {out or RUNS}; start one: {start}")


@trace_app.command()
def show(
    run: Run,
    out: Out = None,
    long: Annotated[
        bool, typer.Option("--long", help="Tell all: each decision, and what was learned.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on while the run does; then show it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a run at a glance. --long tells each decision, round by round."""
    from cuda_llm.traces.find import find_run
    from cuda_llm.traces.run_text import describe_run
    from cuda_llm.traces.terminal.short import describe_in_short

    found = find_run(run, out)
    found.read_run()
    if follow:
        follow_run(found, as_json=as_json)
    if follow and as_json:
        return
    if as_json:
        from cuda_llm.codec import encode
        from cuda_llm.traces.event_table import event_fields
        from cuda_llm.traces.history import read_history
        from cuda_llm.traces.summary import summarise

        _, trace = read_history(found)
        events = [event_fields(one) for one in trace.events]
        skipped = {"unknown": trace.unknown, "torn": trace.torn}
        whole = {
            "run_dir": str(found.path),
            "summary": encode(summarise(found)),
            "skipped": skipped,
            "events": events,
        }
        print_document(whole)
    else:
        print_lines(describe_run(found) if long else describe_in_short(found))


@trace_app.command()
def candidate(
    run: Run,
    name: Annotated[str, typer.Argument(help="Id of a candidate, e.g. r2-c3.", metavar="ID")],
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Show one candidate whole. Its brief, reply, verdict, profile and source."""
    from cuda_llm.traces.candidate_text import check_candidate, describe_candidate
    from cuda_llm.traces.find import find_run

    found = find_run(run, out)
    about = found.read_run()
    if not as_json:
        print_lines(describe_candidate(found, name))
        return
    from cuda_llm.traces.report.candidates import CandidateReader, view_candidate

    check_candidate(found, name)
    reader, writer = CandidateReader(found), str(about.get("generator", ""))
    brief = reader.read(lambda: found.brief(name))
    attempt = reader.read(lambda: found.attempt(name))
    whole = encoded(view_candidate(reader, name, brief, attempt, writer))
    texts = {pane: reader.texts[key] for pane, key in whole["texts"].items()}
    missing = list(reader.missing)
    code, speedup = (attempt.code, attempt.speedup) if attempt else ("", None)
    outcome = {"run_id": found.name, "code": code, "speedup": speedup}
    print_document({**outcome, "candidate": whole, "texts": texts, "missing": missing})


@trace_app.command()
def predictions(out: Out = None, as_json: AsJson = False) -> None:
    """Compare what was predicted with what was had. Over all runs of a folder."""
    from cuda_llm.codec import encode
    from cuda_llm.predictions import tally
    from cuda_llm.search import predictions_of
    from cuda_llm.traces.find import RUNS, list_runs
    from cuda_llm.traces.history import read_history
    from cuda_llm.traces.text import describe_records, plural

    runs = list_runs(out)
    histories = [read_history(run)[0] for run in runs]
    attempts = [one for history in histories for one in history.attempts.values()]
    found = tally(predictions_of(attempts))
    if as_json:
        print_document({"runs": len(runs), "kinds": encode(found)})
    elif found:
        print_lines(describe_records(found))
    else:
        typer.echo(f"no predictions in {plural(len(runs), 'run')} of {out or RUNS}")


def show_table(runs: "Iterable[Summary]") -> None:
    """Print one line a run, newest last."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from cuda_llm.redaction import printable

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("run", "task", "device", "state", "rounds", "best", "spend"):
        table.add_column(title, overflow="fold", no_wrap=title in {"run", "state", "rounds"})
    for one in runs:
        cells = (
            *(one.run_id, one.task, one.device, one.state),
            f"{one.rounds}/{one.planned_rounds}",
            best_cell(one),
            spend_cell(one),
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    open_console().print(table)


def best_cell(run: "Summary") -> str:
    """Spell the best kernel: `r2-c3 4.10x`, with `modelled` where it is."""
    from cuda_llm.figure_wording import describe_speedup

    if run.best is None:
        return "none yet" if run.state in ("running", "interrupted", "killed") else "none"
    modelled = " modelled" if run.time_source == "modelled" else ""
    if not run.speedup:
        return run.best
    return f"{run.best} {describe_speedup(run.speedup, run.objective)}{modelled}"


def spend_cell(run: "Summary") -> str:
    """Spell tokens and money spent; empty where no model was asked."""
    from cuda_llm.traces.text import tokens

    if not run.spend.calls:
        return ""
    money = "" if run.spend.usd is None else f" ${run.spend.usd:,.2f}"
    return f"{tokens(run.spend.input_tokens + run.spend.output_tokens)} tokens{money}"


def export(
    run: Run,
    to: Annotated[
        Literal["cu", "cupy", "torch"],
        typer.Option(help="CUDA source with a Makefile, or a Python package."),
    ] = "cu",
    out: Annotated[
        Path | None, typer.Option(help="Folder to write.  [default: TASK_FORMAT]")
    ] = None,
    runs: Annotated[
        Path | None, typer.Option(help="Folder of runs.  [default: traces/runs]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
) -> None:
    """Write the best kernel of a run with its proof, ready to be imported."""
    from cuda_llm.redaction import printable
    from cuda_llm.tools.validator.example_case import draw_example
    from cuda_llm.traces.export.export import ExampleData
    from cuda_llm.traces.export.export import export as write
    from cuda_llm.traces.export.winner import find_winner, proof_text, verify_here
    from cuda_llm.traces.find import find_run

    winner = find_winner(find_run(run, runs))
    example = ExampleData(**vars(draw_example(winner.task))) if to == "cu" else None
    folder = write(winner, to, out, example=example, force=force)
    typer.echo(f"{folder}: {winner.task.name} for {USES[to]}")
    again = f"cd {shlex.quote(str(folder))} && {verify_here(winner)}"
    for line in proof_text(winner):
        typer.echo(f"  {printable(line)}")
    typer.echo(f"  judge it again: {printable(again)}")


trace_app.command()(diff)
trace_app.command()(tree)
trace_app.command()(grep)
trace_app.command()(compare)
trace_app.command()(report)
trace_app.command()(serve)
trace_app.command()(events)
trace_app.command()(dataset)
trace_app.command()(otlp)
