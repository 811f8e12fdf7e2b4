import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Command

from cuda_llm.cli.app import SUBCOMMANDS


def test_help_names_every_command(command: Command) -> None:
    shown = command("--help")
    assert shown.code == 0
    for name in ("evaluate", "tasks", "hardware", "doctor"):
        assert name in shown.stdout


def test_the_list_of_commands_shows_the_first_sentence_of_each_ones_own_help() -> None:
    """Help lines stand in a table, so that the list imports no command."""
    for name, one in SUBCOMMANDS.items():
        assert one.help == one.load(name).get_short_help_str(300), name


def test_the_help_of_a_command_reads_no_settings(command: Command) -> None:
    """Whatever is wrong with them."""
    ran = command("run", "--help", CUDA_LLM_COMPILE_WORKERS="many")
    assert (ran.code, ran.stderr) == (0, "")


def test_the_installed_command_writes_its_document_to_stdout_and_nothing_else(
    tmp_path: Path,
) -> None:
    """In a pipe to a program that reads JSON, with a log at full length on stderr."""
    program = Path(sys.executable).parent / "cuda-llm"
    line = f"{program} trace list --json --log-level debug | {sys.executable} -m json.tool"
    ran = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, "command has ended" in ran.stderr) == (0, True)
    assert json.loads(ran.stdout)


@pytest.mark.parametrize("arguments", [(), ("tasks",), ("hardware",)])
def test_without_a_command_the_help_is_shown_as_it_is(
    command: Command, arguments: tuple[str, ...]
) -> None:
    ran = command(*arguments)
    assert ran.code == 2
    assert ran.stderr == command(*arguments, "--help").stdout


def test_version(command: Command) -> None:
    assert command("--version").stdout.startswith("cuda-llm 0.")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("evalute", "x"), "evalute"),
        (("evaluate", "vector_add"), "files"),
        (("evaluate", "vector_add", "a.cu", "--devise", "x"), "--devise"),
        (("run", "vector_add", "--candidates", "x"), "'--candidates': expected a whole number"),
        (("run", "vector_add", "--max-minutes", "x"), "'--max-minutes': expected a number"),
    ],
)
def test_a_mistyped_command_is_one_line_and_exit_2(
    command: Command, arguments: tuple[str, ...], named: str
) -> None:
    ran = command(*arguments)
    assert ran.code == 2
    assert named in ran.complaint


INTERRUPTED_AT_THE_START = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class Interrupt(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "typer":
            exec("os.kill(os.getpid(), signal.SIGINT)")

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupt())
"""


def test_ctrl_c_before_the_command_has_started_is_one_line_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED_AT_THE_START)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cuda_llm", "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


INTERRUPTED_IN_FIND_TEMPDIR = """
import os, signal, sys
from cuda_llm.cli.app import find_tempdir

def watch(event, arguments):
    if event == "open" and str(arguments[0]).startswith(os.environ["TMPDIR"]):
        os.kill(os.getpid(), signal.SIGINT)
        print("tried")

sys.addaudithook(watch)
try:
    find_tempdir()
except KeyboardInterrupt:
    print("interrupted", os.listdir(os.environ["TMPDIR"]))
"""


def test_an_interrupt_waits_until_the_folder_was_tried(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", INTERRUPTED_IN_FIND_TEMPDIR],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["tried", "interrupted []"]
    assert list(tmp_path.iterdir()) == []


def test_every_command_shows_its_help_for_h_too(command: Command) -> None:
    """Groups and what is in them."""
    loaded = {name: one.load(name) for name, one in SUBCOMMANDS.items()}
    paths: list[tuple[str, ...]] = [(), *((name,) for name in loaded)]
    paths += [
        (name, inner) for name, one in loaded.items() for inner in getattr(one, "commands", ())
    ]
    assert len(paths) > 20
    for path in paths:
        short = command(*path, "-h")
        assert (short.code, short.stdout) == (0, command(*path, "--help").stdout)
        assert "-h, --help" in short.stdout


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (("eva",), "evaluate"),
        (("tasks", "check", "mi"), "mine"),
    ],
)
def test_a_shell_completes_commands_tasks_options_and_runs(
    tmp_path: Path, line: tuple[str, ...], found: str
) -> None:
    """The real bash asks, by the script that the command gives it."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/task.toml").touch()
    program = tmp_path / "cuda-llm"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m cuda_llm "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(_CUDA_LLM_COMPLETE=source_bash ./cuda-llm)"; COMP_WORDS=(cuda-llm "$@"); '
        'COMP_CWORD=$#; _cuda_llm_completion ./cuda-llm; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    asked = ["bash", "--norc", "-c", script, "bash", *line]
    ran = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split() == [found]
