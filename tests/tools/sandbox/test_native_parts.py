"""The native sources under sanitizers and as both languages."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_llm.tools.native import find_gxx
from cuda_llm.tools.sandbox.jail import NATIVE


def test_pure_parts_are_clean_under_sanitizers(build_fixture: Callable[..., Path]) -> None:
    sources = [NATIVE / "options.c", NATIVE / "tree.c"]
    program = build_fixture("pure_parts", sources, "-g", "-fsanitize=address,undefined")

    done = subprocess.run([program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++17"])
def test_sources_are_both_c_and_cpp(compiler: str, tmp_path: Path) -> None:
    name, standard = compiler.split()
    program = Path(find_gxx()).with_name(name)
    flags = [standard, "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]

    command: list[str | Path] = [program, *flags, *sorted(NATIVE.glob("*.c"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
