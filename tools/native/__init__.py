"""Our own native parts: found, built and kept."""

from cuda_llm.tools.native.build import build
from cuda_llm.tools.native.cache import cache_dir, cache_folder, unwritable
from cuda_llm.tools.native.gxx import content_key, cpu_model, find_gxx, gxx_version

__all__ = [
    "build",
    "cache_dir",
    "cache_folder",
    "content_key",
    "cpu_model",
    "find_gxx",
    "gxx_version",
    "unwritable",
]
