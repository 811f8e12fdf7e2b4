"""Our own native parts, built at first use into the user's cache."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from cuda_llm.errors import InfrastructureError, MissingError


def cache_dir() -> Path:
    """Folder for everything that can be made again; `CUDA_LLM_CACHE` overrides it."""
    override = os.environ.get("CUDA_LLM_CACHE")
    return Path(override) if override else Path(platformdirs.user_cache_dir("cuda-llm"))


def find_gxx() -> str:
    """Path of g++. Raises MissingError with the mend."""
    path = shutil.which("g++")
    if path is None:
        raise MissingError("g++ is missing", "install it: apt-get install g++")
    return path


def build(name: str, sources: Sequence[Path], flags: Sequence[str], watch: Path) -> Path:
    """Compile `sources` with g++ into `name` in the cache, once for each content.

    `watch` is the folder whose files (headers included) decide whether to build again.
    """
    compiler = find_gxx()
    digest = hashlib.blake2b(digest_size=12)
    digest.update(repr((name, [str(s.name) for s in sources], list(flags), compiler)).encode())
    for file in sorted(watch.rglob("*")):
        if file.suffix in {".c", ".cpp", ".h", ".map"}:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    target = cache_dir() / "native" / f"{digest.hexdigest()}" / name
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        output = Path(scratch) / name
        done = subprocess.run(
            [compiler, *flags, *map(str, sources), "-o", str(output)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise InfrastructureError("native", f"{name} does not build: {done.stderr[-2000:]}")
        output.replace(target)
    return target
