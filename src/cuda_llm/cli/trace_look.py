"""`cuda-llm trace diff`, `tree`, `grep` and `compare`: what a person looks for in runs.

Each prints with `--json` one document of docs/schemas/trace.schema.json.
"""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuda_llm.cli.completion import RunName

if TYPE_CHECKING:
    from cuda_llm.traces.report.view import RunView

SCHEMA = 1
NOTHING_FOUND = 1
"""Exit code of `grep` without a match, as grep's."""

Run = RunName
Out = Annotated[Path | None, typer.Option(help="Folder of runs.  [default: traces/runs]")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")]

BRANCH_FIELDS = ("id", "parent", "round", "kind", "code", "state", "speedup", "idea", "summary")


class NamedPart(StrEnum):
    """Choices of `diff --only`."""

    resources = "resources"
    profile = "profile"
    source = "source"
    prompts = "prompts"


class TextKind(StrEnum):
    """Choices of `grep --in`."""

    source = "source"
    prompt = "prompt"
    reply = "reply"
    log = "log"
    idea = "idea"
    hint = "hint"
    event = "event"


def diff(
    run: Run,
    a: Annotated[str, typer.Argument(help="Id of a candidate, e.g. r1-c2.", metavar="A")],
    b: Annotated[str, typer.Argument(help="Id of another.", metavar="B")],
    out: Out = None,
    only: Annotated[NamedPart | None, typer.Option(help="Show this part alone, whole.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what differs between two candidates. Times, resources, profile, source and prompts."""
    from cuda_llm.agents.prompting.templates import CHANNELS
    from cuda_llm.cli.printing import print_lines
    from cuda_llm.traces.find import find_run
    from cuda_llm.traces.terminal.difference import find_difference
    from cuda_llm.traces.terminal.difference_text import describe_difference

    folder = find_run(run, out)
    folder.read_run()
    found = find_difference(folder, a, b, CHANNELS)
    if as_json:
        print_document({"run_id": folder.name, **encoded(found)})
    else:
        print_lines(describe_difference(found, folder.name, only.value if only else None))


def tree(run: Run, out: Out = None, as_json: AsJson = False) -> None:
    """Show who came from whom. Failures stand where they were made; `*` marks the best."""
    from cuda_llm.cli.printing import print_lines
    from cuda_llm.traces.terminal.lineage import describe_tree, grow_tree

    view = view_of(run, out)
    if as_json:
        branches = [
            {
                **{name: getattr(one.row, name) for name in BRANCH_FIELDS},
                "depth": one.depth,
                "best": one.row.id == view.best,
            }
            for one in grow_tree(view.rows)
        ]
        print_document({"run_id": view.run_id, "best": view.best, "candidates": branches})
    elif view.rows:
        print_lines(describe_tree(view.rows, view.best))
    else:
        typer.echo(f"run {view.run_id} has no candidate yet")


def grep(
    pattern: Annotated[str, typer.Argument(help="A regular expression, as Python's.")],
    run: Annotated[str | None, typer.Argument(help="A run; all of the folder without one.")] = None,
    out: Out = None,
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", "-i", help="Capitals count as small letters.")
    ] = False,
    kinds: Annotated[
        list[TextKind] | None,
        typer.Option("--in", help="What to search; again for more.  [default: all but event]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find text in runs. Sources, prompts, replies, logs, ideas and hints are searched.

    Exits with 1 where nothing is found.
    """
    from cuda_llm.cli.printing import print_lines
    from cuda_llm.traces.find import find_run, list_runs
    from cuda_llm.traces.terminal.matches import (
        DEFAULT,
        compile_pattern,
        describe_matches,
        find_matches,
    )

    wanted = compile_pattern(pattern, ignore_case=ignore_case)
    if run is None:
        check_folder(out)
    runs = list_runs(out) if run is None else (find_run(run, out),)
    matches = list(find_matches(runs, wanted, [one.value for one in kinds] if kinds else DEFAULT))
    if as_json:
        print_document({"pattern": pattern, "runs": len(runs), "matches": encoded(matches)})
    else:
        print_lines(describe_matches(matches, name_runs=run is None))
    if not matches:
        raise typer.Exit(NOTHING_FOUND)


class TableFormat(StrEnum):
    """Choices of `compare --to`."""

    csv = "csv"
    latex = "latex"
    svg = "svg"


class CourseAxis(StrEnum):
    """Choices of `compare --over`."""

    candidates = "candidates"
    calls = "calls"
    tokens = "tokens"
    minutes = "minutes"
    usd = "usd"


class RunGroup(StrEnum):
    """Choices of `compare --group`."""

    setup = "setup"
    task = "task"
    device = "device"
    author = "author"
    strategy = "strategy"
    seed = "seed"
    search = "search"
    switches = "switches"


def compare(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Two runs; any number with --to, none for all.", metavar="RUN"),
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
    to: Annotated[
        TableFormat | None,
        typer.Option(help="Write a table of runs, or a chart of the best so far, to stdout."),
    ] = None,
    over: Annotated[
        CourseAxis, typer.Option(help="Horizontal axis of the chart.")
    ] = CourseAxis.candidates,
    group: Annotated[
        RunGroup, typer.Option(help="Runs that make a line of the chart; setup: all but the seed.")
    ] = RunGroup.setup,
) -> None:
    """Put two runs side by side; with --to, any number in a table or a chart."""
    from cuda_llm.cli.printing import print_lines
    from cuda_llm.errors import UsageError
    from cuda_llm.traces.find import find_run, list_runs
    from cuda_llm.traces.report.run_lines import read_line
    from cuda_llm.traces.report.runs_page import runs_file
    from cuda_llm.traces.report.selection import Selection
    from cuda_llm.traces.terminal.comparison import compare_runs, describe_comparison
    from cuda_llm.traces.text import plural

    named = runs or []
    if to is not None:
        if as_json:
            raise UsageError("--json and --to: give one of the two")
        check_folder(out)
        found = [find_run(one, out) for one in named] if named else list_runs(out)
        lines = [read_line(one) for one in found]
        wanted = Selection(group=group.value, x=over.value)
        typer.echo(runs_file(lines, wanted, to.value), nl=False)
        return
    if len(named) != 2:
        raise UsageError(
            f"{plural(len(named), 'run')} given; expected two, or --to csv, latex or svg "
            "for any number"
        )
    a, b = named
    pair = compare_runs(view_of(a, out), view_of(b, out))
    if as_json:
        print_document(encoded(pair))
    else:
        print_lines(describe_comparison(pair))


def view_of(run: str, out: Path | None) -> "RunView":
    """Return a run by the name a person gives it. Raises UsageError."""
    from cuda_llm.traces.find import find_run
    from cuda_llm.traces.report.candidates import CandidateReader
    from cuda_llm.traces.report.gather import view_run

    folder = find_run(run, out)
    folder.read_run()
    return view_run(CandidateReader(folder))[0]


def check_folder(out: Path | None) -> None:
    """Raise UsageError where the folder that was named is not there."""
    from cuda_llm.errors import UsageError

    if out is not None and not out.is_dir():
        raise UsageError(f"{out}: no such folder; expected a folder of runs")


def encoded(value: Any) -> Any:
    """Return a value in JSON's own types."""
    from cuda_llm.codec import encode

    return encode(value)


def print_document(fields: dict[str, Any]) -> None:
    """Print the fields as the one JSON document of a command on traces."""
    from cuda_llm.cli import json_text

    json_text.print_document(json_text.json_text({"schema": SCHEMA, **fields}))
