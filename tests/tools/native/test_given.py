"""A machine without compilers uses the parts that it was given, and no others."""

import subprocess
from pathlib import Path

import pytest

from cuda_llm.errors import MissingError
from cuda_llm.tools.native import build, built_or_given, find_gxx, give

PATIENT = "int main() { return 7; }\n"
HASTY = "int main() { return 8; }\n"
MISSING = r"^g\+\+ is missing; install it: apt-get install g\+\+$"


@pytest.fixture
def travelled(tmp_path: Path) -> Path:
    """A program that was built elsewhere; its mode was lost on the way."""
    return compiled(HASTY, tmp_path)


@pytest.fixture
def no_compilers(travelled: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A PATH without g++."""
    monkeypatch.setenv("PATH", str(tmp_path))


def compiled(source: str, folder: Path) -> Path:
    (folder / "elsewhere.cpp").write_text(source)
    program = folder / "part"
    subprocess.run([find_gxx(), folder / "elsewhere.cpp", "-o", program], check=True)
    program.chmod(0o644)
    return program


def part(folder: Path) -> Path:
    """Return the part, as those who need it ask for it."""
    folder.mkdir(exist_ok=True)
    (folder / "main.cpp").write_text(PATIENT)
    return built_or_given("part", lambda: build("part", [folder / "main.cpp"], [], folder))


def answer(program: Path) -> int:
    return subprocess.run([program], check=False).returncode


def test_a_given_part_is_used_where_a_compiler_is_missing(
    travelled: Path, no_compilers: None, tmp_path: Path
) -> None:
    with pytest.raises(MissingError, match=MISSING):
        part(tmp_path / "sources")
    kept = give("part", travelled)
    travelled.unlink()
    assert part(tmp_path / "sources") == kept
    assert answer(kept) == 8


def test_a_machine_with_a_compiler_builds_its_own(travelled: Path, tmp_path: Path) -> None:
    give("part", travelled)
    assert answer(part(tmp_path / "sources")) == 7


def test_a_part_that_was_changed_is_not_used(
    travelled: Path, no_compilers: None, tmp_path: Path
) -> None:
    kept = give("part", travelled)
    kept.write_bytes(kept.read_bytes() + b"\0")
    with pytest.raises(MissingError, match=MISSING):
        part(tmp_path / "sources")


def test_a_part_of_another_name_is_not_used(
    travelled: Path, no_compilers: None, tmp_path: Path
) -> None:
    give("another part", travelled)
    with pytest.raises(MissingError, match=MISSING):
        part(tmp_path / "sources")


def test_a_part_that_needs_a_newer_glibc_is_refused_in_one_line(travelled: Path) -> None:
    contents = travelled.read_bytes()
    assert b"GLIBC_2.34\0" in contents
    travelled.write_bytes(contents.replace(b"GLIBC_2.34\0", b"GLIBC_9.99\0"))
    with pytest.raises(MissingError) as raised:
        give("part", travelled)
    told = str(raised.value)
    assert "part, which was built where the run is started, does not start on" in told
    assert "version `GLIBC_9.99' not found" in told
    assert "here is glibc 2." in told and "install g++ and nvcc there" in told
    assert "\n" not in told and "/part: " not in told


def test_what_is_no_program_is_refused(travelled: Path) -> None:
    travelled.write_bytes(travelled.read_bytes()[:100])
    with pytest.raises(MissingError, match=r"does not start on .*; here is"):
        give("part", travelled)


def test_kernels_of_ours_are_given_as_they_are(tmp_path: Path) -> None:
    cubin = tmp_path / "seal.cubin"
    cubin.write_bytes(b"\x7fELF of a GPU")
    assert give("seal sm_90a", cubin).read_bytes() == b"\x7fELF of a GPU"
