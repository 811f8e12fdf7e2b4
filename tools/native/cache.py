"""The user's cache: everything that can be made again."""

import os
from pathlib import Path

from cuda_llm.errors import MissingError


def cache_dir() -> Path:
    """Folder for everything that can be made again: the setting `cache`."""
    from cuda_llm.settings import settings

    return settings().cache


def cache_folder(*parts: str) -> Path:
    """A folder of the cache, made if need be. Raises MissingError when it cannot be written."""
    folder = cache_dir().joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(error) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise unwritable(PermissionError(f"Permission denied: '{folder}'"))
    return folder


def unwritable(error: OSError) -> MissingError:
    """What to raise when something cannot be stored in the cache."""
    return MissingError(
        f"the cache folder {cache_dir()} cannot be written ({error.strerror or error})",
        "free space there, or set CUDA_LLM_CACHE to a folder that can be written",
    )
