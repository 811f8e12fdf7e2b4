"""g++ and the CPU it builds for."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from cuda_llm.errors import MissingError


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
