"""`cuda-llm agent-kit`: a skill that teaches a coding agent to judge and speed up kernels."""

from pathlib import Path
from typing import Annotated

import typer

from cuda_llm.errors import UsageError

SKILL = Path(__file__).with_name("kit") / "SKILL.md"
FOLDER = "cuda-kernel-judge"
"""Folder of the skill; the name in its front matter, as the convention asks."""


def agent_kit(
    to: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder in which the agent looks for skills.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
) -> None:
    """Write a skill that teaches a coding agent the loop: judge, read, change one thing, compare.

    The skill is one SKILL.md with commands of cuda-llm; it holds no kernel.
    """
    from cuda_llm.atomic_file import write_atomically
    from cuda_llm.redaction import printable

    text = SKILL.read_text(encoding="utf-8")
    path = to / FOLDER / "SKILL.md"
    if path.exists() and not force and path.read_text(encoding="utf-8") != text:
        raise UsageError(f"{path}: is there and differs; overwrite it with --force")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)
    typer.echo(printable(str(path)))
