"""Text that a person changes: in their editor, or in a file that they name."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cuda_llm.atomic_file import write_atomically
from cuda_llm.errors import MissingError, UsageError

if TYPE_CHECKING:
    from cuda_llm.graph.runs.fork import Hints

UNREADABLE_COPY = "hints-edited.toml"


def read_hints(path: Path, round_: int) -> "Hints":
    """Read the hints of a file. Raises UsageError."""
    from cuda_llm.graph.runs.fork import from_toml

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; expected hints as TOML") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text; expected hints as TOML") from None
    return from_toml(text, round_, str(path))


def editor() -> str:
    """Return the command of the user's editor; empty where none is named."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""


def edit_text(text: str, name: str, failed: str = "nothing was changed") -> str:
    """Return the text as the user leaves it in the editor, in a file of that name.

    Raises MissingError where the editor cannot be started, UsageError where it fails.
    """
    command = editor()
    with tempfile.TemporaryDirectory(prefix="cuda-llm-") as scratch:
        file = Path(scratch) / name
        file.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run([*shlex.split(command), str(file)], check=False)
        except OSError as error:
            raise MissingError(f"editor {command}: {error.strerror}", "set EDITOR") from None
        if done.returncode != 0:
            raise UsageError(f"editor {command} failed ({done.returncode}); {failed}")
        return file.read_text(encoding="utf-8", errors="replace")


def ask_editor(hints: "Hints", run: Path) -> "Hints":
    """Return the hints as the user leaves them in the editor.

    What cannot be read is kept in the folder of the run, not lost. Raises MissingError without an
    editor, UsageError where it fails or its text cannot be read.
    """
    from cuda_llm.graph.runs.fork import from_toml, to_toml

    if not editor():
        raise MissingError("no editor is named", "set EDITOR, or give the hints with --hints FILE")
    text = edit_text(to_toml(hints), "hints.toml", "nothing was forked")
    try:
        return from_toml(text, hints.round, "your hints")
    except UsageError as error:
        kept = run / UNREADABLE_COPY
        write_atomically(kept, text)
        raise UsageError(f"{error}; they are kept: fix them and use --hints {kept}") from None
