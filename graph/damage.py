"""What to say of a run whose files were damaged or taken away."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from cuda_llm.errors import UsageError
from cuda_llm.traces.run_folder import RunFolder


def unusable(folder: RunFolder, why: object) -> UsageError:
    """The checkpoint cannot be read. Everything but a fork's beginning is in the folder as well."""
    return UsageError(
        f"{folder.checkpoint}: broken ({why}); "
        "remove it: resume works the run out again from what its folder holds"
    )


@contextmanager
def checkpoints_of(folder: RunFolder) -> Iterator[None]:
    """Turns what goes wrong with the database into a UsageError with its mend."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise unusable(folder, error) from None
        mend = "free space there, make it writable, and resume the run"
        raise UsageError(f"{folder.checkpoint}: {error}; {mend}") from None
