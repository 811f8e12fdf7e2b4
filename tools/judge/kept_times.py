"""Times that are measured once and kept in the cache."""

import hashlib
import json
from pathlib import Path

from cuda_llm.atomic_file import write_atomically
from cuda_llm.tools.native import cache_dir, cache_folder, unwritable

FOLDER = "baselines"


def kept_file(*parts: object) -> Path:
    """Where the times that depend on `parts` alone are kept."""
    key = hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
    return cache_dir() / FOLDER / f"{key}.json"


def read_times(path: Path, count: int) -> list[float] | None:
    """Times kept earlier, or None where there are none or they do not fit."""
    try:
        times = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    fits = isinstance(times, list) and len(times) == count
    return times if fits and all(isinstance(t, float) for t in times) else None


def write_times(path: Path, times_us: list[float]) -> None:
    """Keep the times; two writers at once leave one whole file. Raises MissingError."""
    cache_folder(FOLDER)
    try:
        write_atomically(path, json.dumps(times_us))
    except OSError as error:
        raise unwritable(error) from error
