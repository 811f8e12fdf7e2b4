"""A program in namespaces of its own ends on SIGTERM, and with the process that started it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from ended import ends_within

from cuda_llm.tools.sandbox.jail import enclosing_program

ALL = 7
PROC = 8
IDS = "readlink /proc/self/ns/net /proc/self/ns/ipc; echo $$; "


def enclose(
    spaces: int, script: str, *words: str, hidden: str = ""
) -> tuple[subprocess.Popen[str], int]:
    """The running program and what namespaces it says it reached."""
    reading, writing = os.pipe()
    command = ["/bin/sh", "-c", script, *words]
    process = subprocess.Popen(
        [enclosing_program(), str(os.getpid()), str(spaces), str(writing), hidden, *command],
        pass_fds=(writing,),
        stdout=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    with open(reading, "rb") as pipe:
        return process, pipe.read()[0]


def ours(name: str) -> str:
    return str(Path(f"/proc/self/ns/{name}").readlink())


def test_the_namespaces_it_reports_are_real() -> None:
    process, reached = enclose(ALL, IDS)
    lines = process.communicate()[0].split()

    assert reached in {0, ALL}
    assert (lines[0] != ours("net"), lines[1] != ours("ipc")) == (reached == ALL,) * 2
    assert (lines[2] == "1") == (reached == ALL)


def test_its_proc_shows_its_own_processes() -> None:
    process, reached = enclose(ALL | PROC, "readlink /proc/self; ls -d /proc/[0-9]* | wc -l")
    pid, count = map(int, process.communicate()[0].split())

    if reached:
        assert pid <= 3
        assert count <= 4


def test_hidden_paths_are_empty_to_its_command_alone(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "other", "seen")]
    for file in files:
        file.write_text("text")
    hidden = f"{files[0]}:{tmp_path / 'absent'}:{files[1]}"
    process, reached = enclose(
        ALL | PROC, "cat $0 $1; echo $(cat $2)", *map(str, files), hidden=hidden
    )

    assert process.communicate()[0] == ("text\n" if reached & PROC else "texttexttext\n")
    assert [file.read_text() for file in files] == ["text"] * 3


def test_nothing_is_hidden_that_others_would_lose_too(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    process, _ = enclose(0, "cat $0", str(file), hidden=str(file))

    assert process.communicate()[0] == "text"
    assert file.read_text() == "text"


@pytest.mark.parametrize("spaces", [0, ALL])
def test_its_command_has_no_privileges(spaces: int) -> None:
    process, _ = enclose(spaces, "cat /proc/self/status")
    status = process.communicate()[0]

    assert "NoNewPrivs:\t1" in status
    assert "CapEff:\t0000000000000000" in status


def test_its_command_gets_the_parent_pid() -> None:
    process, reached = enclose(ALL, "echo $0 $PPID", "@")
    passed, seen = process.communicate()[0].split()

    assert passed == seen
    assert (passed == "0") == (reached == ALL)


def test_no_namespaces_are_made_where_none_are_wanted() -> None:
    process, reached = enclose(0, IDS)

    assert reached == 0
    assert process.communicate()[0].split()[:2] == [ours("net"), ours("ipc")]


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 7", 7), ("kill -TERM $$; sleep 5", -signal.SIGTERM)],
    ids=["exits", "is-killed"],
)
def test_it_ends_as_its_command_does(script: str, status: int) -> None:
    process, _ = enclose(0, script)
    process.communicate()

    assert process.returncode == status


@pytest.mark.parametrize("spaces", [0, ALL])
def test_on_sigterm_it_ends_after_its_processes(spaces: int) -> None:
    process, _ = enclose(spaces, "echo up; trap '' TERM; while :; do sleep 0.1; done")
    assert process.stdout is not None
    process.stdout.readline()
    below = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    process.communicate(timeout=240)

    assert below
    assert process.returncode == -signal.SIGKILL
    assert ends_within(below[0], limit_s=60)


STARTER = """
import os, subprocess, sys
reading, writing = os.pipe()
words = [str(os.getpid()), "7", str(writing), "", "/bin/sleep", "60"]
child = subprocess.Popen([sys.argv[1], *words], pass_fds=(writing,))
os.read(reading, 1)
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize("killed", ["starter", "itself"])
def test_the_command_outlives_neither_it_nor_its_parent(killed: str) -> None:
    command = [sys.executable, "-c", STARTER, str(enclosing_program())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        enclosing = psutil.Process(int(starter.stdout.readline()))
        below = enclosing.children(recursive=True)
        (starter if killed == "starter" else enclosing).kill()
        gone, _ = psutil.wait_procs(below, timeout=60)

    assert below
    assert gone == below
