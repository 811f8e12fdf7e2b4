"""One process at a time in a folder of the cache."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cuda_llm.tools.native.cache import unwritable


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the system frees it when its holder dies, however that happens."""
    try:
        file = (folder / ".lock").open("wb")
    except OSError as error:
        raise unwritable(error) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
