"""Native fixtures built against the sandbox."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_llm.tools.native import find_gxx
from cuda_llm.tools.sandbox.jail import NATIVE, sandbox_sources

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sandbox"

Build = Callable[..., Path]


@pytest.fixture(scope="session")
def build_fixture(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Makes a program of a fixture and of the sandbox's sources."""
    folder = tmp_path_factory.mktemp("programs")

    def build(name: str, sources: list[Path] | None = None, *flags: str) -> Path:
        target = folder / name
        parts = sandbox_sources() if sources is None else sources
        command = [find_gxx(), "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}", *flags]
        subprocess.run(
            [*command, FIXTURES / f"{name}.cpp", *parts, "-o", target, "-pthread"], check=True
        )
        return target

    return build
