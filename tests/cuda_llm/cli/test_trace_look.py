"""`cuda-llm trace show`, `diff`, `tree`, `grep`, `compare`: for people and for programs."""

import csv
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from commands import Command, Ran
from recorded_run import beginning, ending, write_run
from report_runs import write_hostile_run, write_large_run

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs/schemas/trace.schema.json").read_text())


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of real length, a small one and a killed one; who reads them changes none."""
    folder = tmp_path_factory.mktemp("runs")
    write_large_run(folder / "large-run", rounds=3, candidates=6)
    write_run(folder / "first-run", *beginning(), *ending())
    write_run(folder / "second-run", *beginning())
    return folder


@pytest.fixture
def runs(written: Path, tmp_path: Path) -> Path:
    """The same where runs lie unless told otherwise."""
    folder = tmp_path / "traces/runs"
    folder.parent.mkdir()
    folder.symlink_to(written)
    return folder


def document(ran: Ran, name: str) -> dict[str, Any]:
    """The JSON that was printed; fails the test where it is not what the schema says."""
    found: dict[str, Any] = json.loads(ran.stdout, parse_constant=pytest.fail)
    jsonschema.validate(found, {**SCHEMA, "oneOf": [{"$ref": f"#/$defs/{name}"}]})
    return found


JSON_COMMANDS = {
    "list": ("list",),
    "show": ("show", "large"),
    "candidate": ("candidate", "large", "r2-c1"),
    "predictions": ("predictions",),
    "diff": ("diff", "large", "r1-c1", "r2-c2"),
    "tree": ("tree", "large"),
    "grep": ("grep", "atomicAdd", "large"),
    "compare": ("compare", "large", "first"),
}


@pytest.mark.parametrize("name", JSON_COMMANDS)
def test_each_document_is_what_the_schema_says(command: Command, runs: Path, name: str) -> None:
    ran = command("trace", *JSON_COMMANDS[name], "--json")
    assert (ran.code, ran.stderr) == (0, "")
    assert document(ran, name)["schema"] == 1


@pytest.mark.parametrize("name", JSON_COMMANDS)
def test_documents_of_a_hostile_or_hardly_begun_run_too(
    command: Command, tmp_path: Path, name: str
) -> None:
    write_hostile_run(tmp_path / "traces/runs/large-run")
    write_run(tmp_path / "traces/runs/first-run", *beginning()[:1])
    ran = command("trace", *JSON_COMMANDS[name], "--json")
    document(ran, name)
    shown = command("trace", *JSON_COMMANDS[name])
    assert all(line.isprintable() for line in shown.stdout.splitlines())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("diff", "first", "r1-c1", "r9-c9"), "has no candidate 'r9-c9'; it has r1-c1"),
        (("diff", "first", "../x", "r1-c1"), "has no candidate '../x'"),
        (("diff", "third", "a", "b"), "no run 'third'"),
        (("tree", "third"), "no run 'third'"),
        (("grep", "("), "'(': missing ), unterminated subpattern"),
        (("grep", "x", "third"), "no run 'third'"),
        (("grep", "x", "--out", "nowhere"), "nowhere: no such folder"),
        (("grep", "x", "--in", "sauce"), "'sauce'"),
        (("compare", "first", "third"), "no run 'third'"),
        (("compare", "first"), "1 run given; expected two, or --to csv, latex or svg"),
        (("compare", "first", "large", "--to", "csv", "--json"), "--json and --to: give one"),
        (("compare", "--to", "csv", "--out", "nowhere"), "nowhere: no such folder"),
        (("diff", "first", "r1-c1", "r1-c2", "--only", "nothing"), "'nothing'"),
    ],
)
def test_bad_input_is_one_line(
    command: Command, runs: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    ran = command("trace", *arguments)
    assert (ran.code, bool(ran.stdout)) == (2, "--json" in arguments)
    assert complaint in ran.complaint
    assert ran.stderr.count("\n") == 1


def test_a_difference_shows_source_resources_profile_and_prompts(
    command: Command, runs: Path
) -> None:
    def best(run: str) -> str:
        return str(json.loads(command("trace", "tree", run, "--json").stdout)["best"])

    shown = command("trace", "diff", "large", best("large"), "r1-c1").stdout
    assert f"{best('large')} -> r1-c1 of run large-run" in shown
    for title in ("times", "resources", "profile", "source", "prompts"):
        assert f"\n{title}" in shown
    assert "\n  --- " in shown
    alone = command("trace", "diff", "large", best("large"), "r1-c1", "--only", "source").stdout
    assert "prompts" not in alone
    assert "\n  +" in alone


def test_grep_prints_place_and_line_and_exits_1_without_a_match(
    command: Command, runs: Path
) -> None:
    ran = command("trace", "grep", "BLOCKIDX.x . 32", "-i", "--in", "source")
    assert ran.code == 0
    assert [line.partition(": ")[0] for line in ran.stdout.splitlines()] == [
        f"{run}/candidates/{name}/source.cu:3"
        for run in ("first-run", "second-run")
        for name in ("r1-c1", "r2-c1")
    ]
    assert command("trace", "grep", "undefined", "first").stdout.startswith(
        'candidates/r1-c2/attempt.json:1: identifier "tile" is undefined'
    )
    nothing = command("trace", "grep", "no such text", "first")
    assert (nothing.code, nothing.stdout, nothing.stderr) == (1, "", "")


def test_any_number_of_runs_is_a_table_or_a_chart(command: Command, runs: Path) -> None:
    rows = list(csv.DictReader(command("trace", "compare", "--to", "csv").stdout.splitlines()))
    assert {row["run"] for row in rows} == {"large-run", "first-run", "second-run"}
    assert {row["time_source"] for row in rows} == {"measured", "modelled"}
    table = command("trace", "compare", "first", "large", "second", "--to", "latex").stdout
    assert table.count("matrix\\_transpose") == 2 and "\\toprule" not in table
    chart = command("trace", "compare", "large", "--to", "svg", "--over", "tokens").stdout
    words = "".join(ElementTree.fromstring(chart).itertext())
    assert "tokens in and out" in words and "speed-up (x, measured)" in words


def test_runs_of_other_tasks_are_compared_with_a_warning(command: Command, runs: Path) -> None:
    other = command("trace", "compare", "large", "first").stdout
    assert "different scales" in other
    same = command("trace", "compare", "first", "second").stdout
    assert "different scales" not in same
    lines = {" ".join(line.split()) for line in same.splitlines()}
    assert {"speed-up 3.40x 1.25x", "round 1 1.25x 1.25x", "round 2 3.50x -"} <= lines


def printed_commands(text: str) -> Iterator[str]:
    """The command lines among lines of output, as they stand there."""
    for line in text.splitlines():
        _, found, rest = line.partition("cuda-llm ")
        if found and not rest.startswith("0."):
            yield found + rest


@pytest.mark.parametrize("place", ["traces/runs", "runs of mine"])
@pytest.mark.parametrize("events", [(*beginning(), *ending()), beginning()], ids=["won", "killed"])
def test_every_command_that_is_printed_works_as_printed(
    command: Command, tmp_path: Path, place: str, events: tuple[Any, ...]
) -> None:
    write_run(tmp_path / place / "a-run", *events)
    shown = ("trace", "show", "a-run", "--out", place)
    text = command(*shown).stdout + command(*shown, "--long").stdout
    lines = list(dict.fromkeys(printed_commands(text)))
    assert lines
    for line in lines:
        name, *arguments = shlex.split(line)
        assert name == "cuda-llm"
        if arguments[0] == "trace":
            assert command(*arguments).code == 0, line
        else:
            # What it names is found; the recorded run is not complete enough to go on.
            ran = command(*arguments)
            assert "no run" not in ran.stderr and "No such" not in ran.stderr, ran.stderr


def test_the_mend_of_a_wrong_name_works_as_printed(command: Command, tmp_path: Path) -> None:
    write_run(tmp_path / "my runs/a-run", *beginning())
    ran = command("trace", "show", "other", "--out", "my runs")
    (line,) = printed_commands(ran.stderr)
    assert "a-run" in command(*shlex.split(line)[1:]).stdout


def on_a_terminal(columns: int, *arguments: object) -> str:
    """What a command prints on a terminal that wide."""
    mine, its = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    done = subprocess.Popen(
        [sys.executable, "-m", "cuda_llm", *map(str, arguments)], stdout=its, env=environment
    )
    os.close(its)
    text = b""
    while True:
        try:
            more = os.read(mine, 65536)
        except OSError:
            break
        text += more
    os.close(mine)
    assert done.wait(240) == 0
    return text.decode()


def test_a_terminal_gets_colours_and_whole_ids_in_a_hundred_columns(tmp_path: Path) -> None:
    name = "20260131-100000-matrix_multiplication-with-a-name-ab12"
    run = write_run(tmp_path / name, *beginning(), *ending())
    shown = on_a_terminal(100, "trace", "show", run.path)
    assert re.search(r"\x1b\[31m +COMPILE_FAILED", shown)
    assert name in shown


def test_a_table_in_a_pipe_is_not_cut(command: Command, tmp_path: Path) -> None:
    name = "a-run-of-a-long-name-" * 12
    write_run(tmp_path / "traces/runs" / name, *beginning(), *ending())
    (row,) = [line for line in command("trace", "list").stdout.splitlines() if "a-run-of" in line]
    assert {name, "matrix_transpose", "2/2", "r2-c1"} <= {*row.split()}


def test_a_folder_of_runs_that_is_not_there_is_named(command: Command) -> None:
    ran = command("trace", "show", "latest", "--out", "nowhere")
    assert ran.complaint == "error: nowhere: no such folder; expected a folder of runs"
