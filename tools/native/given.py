"""Native parts that another machine built for this machine, which lacks the compilers.

A supplied part is stored under its name, the project's code and the kind of processor; the compiler
is not part of the key. A machine that can build a part itself does so, whatever was supplied.
"""

import hashlib
import platform
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from cuda_llm.errors import MissingError
from cuda_llm.tools.native.build import SOURCES, add_files
from cuda_llm.tools.native.cache import NATIVE
from cuda_llm.tools.native.store import entry_folder, load, store

FOR_THE_GPU = ".cubin"
"""Suffix of a part that the driver loads, and no loader of the system."""
LOADER_LIMIT_S = 30.0


def built_or_given(part: str, make: Callable[[], Path]) -> Path:
    """Return what `make` builds; where something lacks for that, the part of this name that was
    given. Raises what `make` raises where none was.
    """
    try:
        return make()
    except MissingError:
        given = find_given(part)
        if given is None:
            raise
        return given


def give(part: str, file: Path) -> Path:
    """Keep a part of this name, and return where it lies. Raises MissingError where it does not
    start on this machine.
    """
    if file.suffix != FOR_THE_GPU:
        require_loadable(part, file)
        file.chmod(0o755)  # A file that has travelled has lost its mode.
    folder = store(NATIVE, _key(part), {"file": file.name}, {file.name: file})
    return folder / file.name


def find_given(part: str) -> Path | None:
    """Return the part that was given for today's code, unchanged; None where none was."""
    key = _key(part)
    record = load(NATIVE, key)
    return None if record is None else entry_folder(NATIVE, key) / str(record["file"])


def require_loadable(part: str, file: Path) -> None:
    """Raise MissingError where this machine's libraries lack versions that a program needs.

    A program linked against a newer glibc or libstdc++ needs versions of functions by name.
    """
    command = [_loader(), "--list", str(file)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=LOADER_LIMIT_S
    )
    lines = [line.strip() for line in (*done.stderr.splitlines(), *done.stdout.splitlines())]
    lacking = [line for line in lines if "not found" in line]
    if done.returncode or lacking:
        why = (lacking or lines or ["no reason"])[0].removeprefix(f"{file}: ")
        raise MissingError(
            f"{part}, which was built where the run is started, does not start on "
            f"{platform.node()}: {why}; here is {' '.join(platform.libc_ver())}",
            "install g++ and nvcc there, or start the run on a machine with a glibc as old",
        )


def _loader() -> str:
    """Return the loader of this system: that of the Python that runs."""
    from elftools.elf.elffile import ELFFile

    with Path(sys.executable).open("rb") as program:
        named: Any = next(ELFFile(program).iter_segments("PT_INTERP"))
        return str(named.get_interp_name())


def _key(part: str) -> str:
    words = f"given {part} {platform.machine()} {_code()}"
    return hashlib.blake2b(words.encode(), digest_size=20).hexdigest()


@lru_cache
def _code() -> str:
    """Return a hash of the sources of all parts, and of the flags and names in our Python."""
    digest = hashlib.blake2b(digest_size=16)
    add_files(digest, [Path(__file__).parent.parent], SOURCES | {".cu", ".py"})
    return digest.hexdigest()
