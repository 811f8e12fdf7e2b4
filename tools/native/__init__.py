"""Our native programs and libraries, built by g++ or given, and the cache of slow results."""

from cuda_llm.tools.native.build import (
    add_files,
    build,
    content_key,
    cpu_model,
    find_gxx,
    gxx_version,
)
from cuda_llm.tools.native.cache import (
    cache_dir,
    cache_folder,
    exclusive_turn,
    pin_entry,
    unwritable,
    write_cached,
)
from cuda_llm.tools.native.given import built_or_given, give
from cuda_llm.tools.native.in_thread import build_in_thread
from cuda_llm.tools.native.store import build_once, entry_folder, load, store

__all__ = [
    "add_files",
    "build",
    "build_in_thread",
    "build_once",
    "built_or_given",
    "cache_dir",
    "cache_folder",
    "content_key",
    "cpu_model",
    "entry_folder",
    "exclusive_turn",
    "find_gxx",
    "give",
    "gxx_version",
    "load",
    "pin_entry",
    "store",
    "unwritable",
    "write_cached",
]
