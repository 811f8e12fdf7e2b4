"""Builds `solve` with nvcc when it is first needed, once for each kind of GPU, and loads it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

SOURCES = ("solve.cu", "last_error.cu")
EXPORTS = "{ global: solve; last_error; local: *; };\n"
"""Nothing of the kernel's own CUDA runtime may meet another one in the same process."""
LIMIT_S = 600

_building = threading.Lock()
_loaded: dict[tuple[Path, str], Callable[[Sequence[Any]], str]] = {}


def load(folder: Path, target: str, flags: Sequence[str] = ()) -> Callable[[Sequence[Any]], str]:
    """`solve` for `target`, e.g. `sm_90`: from its arguments to an error, empty where all is well.

    Raises RuntimeError where nvcc is missing or refuses the source.
    """
    with _building:
        if (folder, target) not in _loaded:
            library = ctypes.CDLL(str(build(folder, target, flags)))
            _loaded[folder, target] = _caller(library)
        return _loaded[folder, target]


def build(folder: Path, target: str, flags: Sequence[str] = ()) -> Path:
    """The library for `target`, from the cache where the same was built before."""
    nvcc = find_nvcc()
    key = hashlib.sha256(repr((target, tuple(flags), nvcc, _version(nvcc))).encode())
    for path in sorted(one for one in folder.rglob("*") if one.suffix in (".cu", ".h", ".cuh")):
        key.update(path.read_bytes())
    place = cache_folder() / key.hexdigest()[:32]
    library = place / "solve.so"
    if not library.exists():
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=place) as scratch:
            made = _compile(nvcc, folder, target, flags, Path(scratch))
            os.replace(made, library)
    return library


def cache_folder() -> Path:
    """Where libraries are kept: $CUDA_LLM_CACHE, or the user's own cache."""
    named = os.environ.get("CUDA_LLM_CACHE")
    if named:
        return Path(named, "exported")
    home = os.environ.get("XDG_CACHE_HOME")
    return Path(home or Path.home() / ".cache", "cuda-llm", "exported")


def find_nvcc() -> str:
    """The compiler: $CUDA_LLM_NVCC, CUDA_HOME, PATH, site-packages, /usr/local/cuda."""
    chosen = os.environ.get("CUDA_LLM_NVCC")
    for path in [Path(chosen)] if chosen else _places():
        if os.access(path, os.X_OK) and path.is_file():
            return str(path)
    if chosen:
        raise RuntimeError(f"CUDA_LLM_NVCC names no nvcc that runs: {chosen}")
    raise RuntimeError(
        "nvcc is missing, and the kernel is built for this GPU at first use; "
        "install the CUDA toolkit, or point CUDA_LLM_NVCC at an nvcc"
    )


def _places() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable], "bin", "nvcc")
    on_path = shutil.which("nvcc")
    if on_path:
        yield Path(on_path)
    for scheme in ("purelib", "platlib"):
        yield Path(sysconfig.get_path(scheme), "nvidia", "cu13", "bin", "nvcc")
    yield Path("/usr/local/cuda/bin/nvcc")


def _version(nvcc: str) -> str:
    return subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout


def _compile(nvcc: str, folder: Path, target: str, flags: Sequence[str], scratch: Path) -> Path:
    exports, made = scratch / "exports.map", scratch / "solve.so"
    exports.write_text(EXPORTS)
    capability = target.removeprefix("sm_")
    command = [
        nvcc,
        "-shared",
        "-O3",
        "-lineinfo",
        "--cudart=static",
        f"-gencode=arch=compute_{capability},code={target}",
        "-Xcompiler=-fPIC",
        f"-Xlinker=--version-script={exports},-z,now,-z,relro",
        "-include=solve.h",
        "-I.",
        *_libraries(nvcc),
        *flags,
        "-o",
        str(made),
        *SOURCES,
    ]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    if done.returncode:
        output = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise RuntimeError(f"nvcc refused {folder / SOURCES[0]} for {target}:\n{output}")
    return made


def _libraries(nvcc: str) -> list[str]:
    """Where its libraries lie: an nvcc from site-packages does not look beside itself."""
    folder = Path(nvcc).resolve().parents[1] / "lib"
    return [f"-L{folder}"] if folder.is_dir() else []


def _caller(library: ctypes.CDLL) -> Callable[[Sequence[Any]], str]:
    solve, last_error = library.solve, library.last_error
    solve.restype, last_error.restype = None, ctypes.c_char_p

    def run(arguments: Sequence[Any]) -> str:
        solve(*arguments)
        error = last_error()
        return error.decode() if error else ""

    return run
