"""Our own native parts, built at first use into the user's cache."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import platformdirs

from cuda_llm.errors import InfrastructureError, MissingError

SOURCES = {".c", ".cpp", ".h", ".map"}


def cache_dir() -> Path:
    """Folder for everything that can be made again; `CUDA_LLM_CACHE` overrides it."""
    override = os.environ.get("CUDA_LLM_CACHE")
    return Path(override).absolute() if override else Path(platformdirs.user_cache_dir("cuda-llm"))


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


def find_gxx() -> str:
    """Path of g++. Raises MissingError with the mend."""
    path = shutil.which("g++")
    if path is None:
        raise MissingError("g++ is missing", "install it: apt-get install g++")
    return path


@lru_cache
def cpu_model() -> str:
    """Name and features of this machine's CPU: what `-march=native` depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return os.uname().machine
    kept = {
        line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))
    }
    return "\n".join(sorted(kept)) or os.uname().machine


@lru_cache
def gxx_version(compiler: str) -> str:
    """First line of `g++ --version`."""
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0]


def content_key(compiler: str, flags: Sequence[str]) -> "hashlib.blake2b":
    """Hash of the compiler, its flags and, where they depend on it, the CPU: to be continued."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((compiler, gxx_version(compiler), list(flags))).encode())
    if any(flag.endswith("=native") for flag in flags):
        digest.update(cpu_model().encode())
    return digest


def build(
    name: str, sources: Sequence[Path], flags: Sequence[str], watch: Path | Sequence[Path]
) -> Path:
    """Compile `sources` with g++ into `name` in the cache, once for each content.

    `watch` holds the folders whose files (headers included) decide whether to build again. Any
    number of processes may ask at once: each builds apart, and the last rename wins. Sources are
    our own, so no jail. Raises InfrastructureError with the first error, MissingError.
    """
    compiler = find_gxx()
    digest = content_key(compiler, flags)
    digest.update(repr((name, [source.name for source in sources])).encode())
    for folder in [watch] if isinstance(watch, Path) else watch:
        for file in sorted(folder.rglob("*")):
            if file.suffix in SOURCES:
                digest.update(file.name.encode() + b"\0" + file.read_bytes())
    target = cache_dir() / "native" / digest.hexdigest() / name
    if target.exists():
        return target
    folder = cache_folder("native", digest.hexdigest())
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        output = Path(scratch) / name
        done = subprocess.run(
            [compiler, *flags, *map(str, sources), "-o", str(output)],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"LC_ALL": "C", "TMPDIR": scratch},
        )
        if done.returncode != 0:
            raise InfrastructureError("native", f"{name} does not build: {_first(done.stderr)}")
        try:
            output.replace(target)
        except OSError as error:
            raise unwritable(error) from error
    return target


def _first(stderr: str) -> str:
    """The first error of a compiler's output."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "no message")
