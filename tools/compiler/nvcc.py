"""Finds nvcc, and makes the command that compiles a candidate."""

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cuda_llm.errors import MissingError, UsageError
from cuda_llm.settings import setting_source, settings
from cuda_llm.tools.device.candidate import CompileRequest

SOURCE = "kernel.cu"
PRELUDE = "prelude.h"
EXPORTS = "exports.map"
KEEP_DIR = "kept"
LIBRARY = "candidate.so"
SPECIAL_FUNCTIONS = "_GLIBCXX_BITS_SPECFUN_H"
"""Include guard of the header by which libstdc++ gives C++17 `std::cyl_bessel_j` and its like. They
run on the host alone, and all passes of nvcc read their templates: a third of the processor time of
a small kernel. A task's flag `-U_GLIBCXX_BITS_SPECFUN_H` brings them back."""
PTX = f"{KEEP_DIR}/kernel.ptx"
DEVICE_READ = f"{KEEP_DIR}/kernel.cudafe1.gpu"
CUBIN = f"{KEEP_DIR}/kernel.cubin"
OBJECT = f"{KEEP_DIR}/kernel.o"
PREPROCESSED = f"{KEEP_DIR}/kernel.cpp4.ii"
DEVICE_TEXT = f"{KEEP_DIR}/kernel.cpp1.ii"

CHOSEN = "the setting nvcc"
REMEDY = "point CUDA_LLM_NVCC at an nvcc, or install one: pip install 'cuda-llm[toolkit]'"


@dataclass(frozen=True, kw_only=True)
class Toolkit:
    """A CUDA toolkit: nvcc, its folder and its version."""

    nvcc: Path
    """The program itself, not a wrapper script."""
    root: Path
    """Folder that holds all that nvcc runs and reads."""
    version: str
    """Version of nvcc, e.g. `13.0.88`."""


def find_toolkit() -> Toolkit:
    """Return the toolkit of the setting, CUDA_HOME, PATH, site-packages or /usr/local/cuda.

    Raises MissingError with a remedy where there is no toolkit.
    """
    return _first_working(tuple(_candidates()))


@lru_cache
def _first_working(candidates: tuple[tuple[str, Path], ...]) -> Toolkit:
    for origin, path in candidates:
        toolkit = _probe(path)
        if toolkit is not None:
            return toolkit
        if origin == CHOSEN:
            raise MissingError(
                f"{CHOSEN} ({setting_source('nvcc')}) names no nvcc that runs: {path}", REMEDY
            )
    raise MissingError("nvcc is missing", REMEDY)


def _candidates() -> Iterator[tuple[str, Path]]:
    """Yield where nvcc may be and what names the place, best first; the setting excludes others."""
    chosen = settings().nvcc
    if chosen is not None:
        yield CHOSEN, chosen
        return
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield variable, Path(os.environ[variable], "bin", "nvcc")
    on_path = shutil.which("nvcc")
    if on_path:
        yield "PATH", Path(on_path)
    yield from (("site-packages", path) for path in _in_packages())
    yield "system", Path("/usr/local/cuda/bin/nvcc")


@lru_cache
def _in_packages() -> tuple[Path, ...]:
    """Return where the packages of this Python would have nvcc; working that out takes long."""
    folders = (sysconfig.get_path(scheme) for scheme in ("purelib", "platlib"))
    return tuple(Path(folder, "nvidia", "cu13", "bin", "nvcc") for folder in folders)


def _probe(nvcc: Path) -> Toolkit | None:
    """Ask `nvcc` for its toolkit, through any wrapper script; None where it does not run."""
    if not os.access(nvcc, os.X_OK) or nvcc.is_dir():
        return None
    try:
        plan = _output([str(nvcc), "--dryrun", "-E", "-x", "cu", os.devnull])
        version = re.search(r"\bV(\d+(?:\.\d+)+)", _output([str(nvcc), "--version"]))
    except (OSError, subprocess.TimeoutExpired):
        return None
    top = re.search(r"^#\$ TOP=(.+)$", plan, re.MULTILINE)
    if top is None or version is None:
        return None
    root = Path(top[1].strip()).resolve()
    return Toolkit(nvcc=root / "bin" / "nvcc", root=root, version=version[1])


def _output(command: list[str]) -> str:
    # nvcc refuses even a dry run where the temporary folder is missing or full.
    environment = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=30, env=environment
    )
    return done.stdout + done.stderr


def nvcc_command(toolkit: Toolkit, request: CompileRequest) -> list[str]:
    """Return the argument vector of nvcc, to run in the private folder. Raises UsageError on a bad
    target.

    `--cudart=none` leaves the CUDA calls undefined: they bind to the project's runtime. The long
    form of -gencode compiles for a single target. NVTX would open libraries at run time. Functions
    of the host that no kernel can call stay out (`SPECIAL_FUNCTIONS`).
    """
    target = re.fullmatch(r"sm_(\d{2,3}[af]?)", request.target)
    if target is None:
        raise UsageError(f"{request.target!r} is not a GPU target: expected one like sm_86")
    return [
        str(toolkit.nvcc),
        "-shared",
        "-O3",
        "-lineinfo",
        "--cudart=none",
        f"-gencode=arch=compute_{target[1]},code=sm_{target[1]}",
        "-Xptxas=-v",
        "-Xcompiler=-fPIC,-fmax-errors=20",
        f"-Xlinker=--version-script={EXPORTS},-z,now,-z,relro",
        "-DNVTX_DISABLE",
        f"-D{SPECIAL_FUNCTIONS}",
        *(f"-D{name}={value}" for name, value in request.defines.items()),
        *(f"-I{folder}" for folder in request.include_dirs),
        f"-include={PRELUDE}",
        "--keep",
        f"--keep-dir={KEEP_DIR}",
        *request.flags,
        "-o",
        LIBRARY,
        SOURCE,
    ]
