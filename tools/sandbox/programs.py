"""The sandbox's native programs, built at first use."""

from functools import lru_cache
from pathlib import Path

from cuda_llm.tools.native import build, cache_dir

NATIVE = Path(__file__).parent / "native"
FLAGS = ("-O2", "-std=c++17", "-Wall", "-Wextra", "-Werror")
CONFINE = ("limits.c", "landlock.c", "namespaces.c", "seccomp.c", "filter.c", "calls.c")


def sandbox_sources() -> list[Path]:
    """What implements `sandbox.h`: a native program that confines itself is built with these."""
    return [NATIVE / file for file in (*CONFINE, "violation.c")]


def jail_program() -> Path:
    """Path of the `jail` program."""
    return _program("jail", cache_dir())


def probe_program() -> Path:
    """Path of the program that tries what a jail forbids."""
    return _program("probe", cache_dir())


def enclosing_program() -> Path:
    """Path of the program that runs another in namespaces of its own."""
    return _program("enclose", cache_dir())


@lru_cache
def _program(name: str, cache: Path) -> Path:
    own = {
        "jail": ("jail.c", "options.c", "tree.c", *CONFINE),
        "probe": ("probe.c",),
        "enclose": ("enclose.c", "limits.c", "namespaces.c"),
    }[name]
    return build(name, [NATIVE / file for file in own], FLAGS, NATIVE)
