"""The skill for coding agents has the front matter of a skill, and commands that work."""

import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

from commands import Command
from tiny_tasks import tiny_task

from cuda_llm.cli.agent_kit import FOLDER, SKILL


def test_it_is_written_once_and_keeps_what_a_person_has_changed(
    command: Command, tmp_path: Path
) -> None:
    assert command("agent-kit", "--to", "skills").code == 0
    path = tmp_path / "skills" / FOLDER / "SKILL.md"
    assert path.read_text() == SKILL.read_text()
    assert command("agent-kit", "--to", "skills").code == 0
    path.write_text("my own")
    assert "--force" in command("agent-kit", "--to", "skills").complaint
    assert path.read_text() == "my own"
    assert command("agent-kit", "--to", "skills", "--force").code == 0


def test_its_front_matter_names_the_folder_and_says_when_to_use_it() -> None:
    yaml: Any = import_module("yaml")
    _, head, _ = SKILL.read_text().split("---\n", 2)
    fields = yaml.safe_load(head)
    assert {*fields} == {"name", "description"}
    assert fields["name"] == FOLDER and "Use when" in fields["description"]


def test_it_holds_no_kernel() -> None:
    assert "__global__" not in SKILL.read_text()


def test_every_command_of_it_works(command: Command, tmp_path: Path) -> None:
    task = tiny_task(tmp_path, "tiny")
    kernel = (task / "baseline.cu").read_text()
    for name in ("OLD.cu", "KERNEL.cu"):
        (tmp_path / name).write_text(kernel)
    blocks = re.findall(r"^```sh\n(.*?)^```$", SKILL.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) == 6
    for line in lines:
        name, *arguments = shlex.split(line.replace("TASK", "tiny"), comments=True)
        assert name == "cuda-llm"
        ran = command(*arguments)
        if arguments[:2] == ["tasks", "check"]:
            assert "CONFIRM" in ran.stdout + ran.stderr
        else:
            assert ran.code == 0, ran.stderr
