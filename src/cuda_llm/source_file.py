"""CUDA source files that a user names."""

from pathlib import Path

from cuda_llm.errors import UsageError

MOST_CHARACTERS = 1 << 20
"""A source larger than this is not a kernel."""


def read_source(path: Path) -> str:
    """Read one source file. Raises UsageError: missing, a folder, empty, too large, not text."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MOST_CHARACTERS + 1)
        if len(text) > MOST_CHARACTERS:
            msg = f"{path}: larger than {MOST_CHARACTERS:,} characters; expected one CUDA source"
            raise UsageError(msg)
    except OSError as error:
        msg = f"{path}: {error.strerror}; expected a CUDA source file"
        raise UsageError(msg) from None
    except UnicodeDecodeError:
        msg = f"{path}: not UTF-8 text; expected CUDA source, not a compiled file"
        raise UsageError(msg) from None
    if not text.strip():
        msg = f"{path}: empty; expected CUDA source with a solve()"
        raise UsageError(msg)
    return text
