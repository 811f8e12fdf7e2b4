"""Files of a run: read and written whole, with one clear line where that is not possible."""

import json
from pathlib import Path
from typing import Any

from cuda_llm.atomic_file import FULL, describe_full_disk, write_atomically
from cuda_llm.errors import UnusableFile, UsageError

REMEDY = "restore it"


def write_file(path: Path, text: str | bytes) -> None:
    """Replace `path`, folders above it included. Raises UsageError where that is not allowed."""
    _replace(path, text.encode(errors="replace") if isinstance(text, str) else text)


def write_json(path: Path, data: Any) -> None:
    """Replace `path` by plain JSON, as `write_file` does."""
    write_file(path, json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path, remedy: str = REMEDY) -> Any:
    """Return what the file holds; None where there is none. Raises UnusableFile with `remedy`."""
    text = read_text(path)
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        raise broken(path, remedy) from None


def broken(path: Path, remedy: str = REMEDY) -> UnusableFile:
    """Return the error of a file that is not as a run wrote it."""
    return UnusableFile(path, "broken", f"expected what a run writes: {remedy}")


def copy_file(path: Path, made: Path) -> None:
    """Replace `path` by what `made` holds. Raises UsageError where either is not allowed."""
    try:
        content = made.read_bytes()
    except OSError as error:
        raise UsageError(f"{made}: cannot be read ({error.strerror or error})") from None
    _replace(path, content)


def _replace(path: Path, content: bytes) -> None:
    try:
        write_atomically(path, content)
    except OSError as error:
        raise cannot_write(path, error, len(content)) from None


def cannot_write(path: Path, error: OSError, needed_bytes: int | None = None) -> UsageError:
    """Return the error of a part of a run that cannot be stored."""
    full = error.errno in FULL
    why = describe_full_disk(path, needed_bytes) if full else error.strerror or error
    return UsageError(
        f"{path}: cannot be written ({why}); free space there, or choose another folder with --out"
    )


def read_text(path: Path) -> str | None:
    """Return the text as it was written, line ends included; None where there is no such file.

    Raises UnusableFile.
    """
    try:
        return path.read_bytes().decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        what = f"cannot be read ({error.strerror or error})"
        raise UnusableFile(path, what, "make it readable") from None
