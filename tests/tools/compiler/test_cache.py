"""Outcomes are remembered, kept apart by what decides them, and fixed when broken."""

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from cuda_llm.errors import MissingError
from cuda_llm.outcomes import CompileFailed, Diagnostic, LoadFailed, PolicyViolation, Verdict
from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.compiler.known_outcomes import (
    SourceFailure,
    read_outcome,
    request_key,
    write_outcome,
)
from cuda_llm.tools.compiler.nvcc import Toolkit, find_toolkit
from cuda_llm.tools.compiler.workspace import private_folder
from cuda_llm.tools.device.candidate import Compiled, CompileLimits, CompileRequest
from cuda_llm.tools.native.store import entry_folder, load, store

SOLVE = 'extern "C" void solve(const float* a, float* b, int n)'
SOURCE = f"__global__ void k(float* b) {{ b[0] = 1; }}\n{SOLVE} {{ k<<<1, 1>>>(b); }}\n"
Compile = Callable[..., Compiled | Verdict]


def test_the_second_time_nothing_is_compiled(compile_source: Compile) -> None:
    first, second = compile_source(SOURCE), compile_source(SOURCE)

    assert isinstance(first, Compiled) and isinstance(second, Compiled)
    assert second == replace(first, cached=True)


def test_a_source_under_another_name_is_not_compiled_again_and_its_lines_have_that_name(
    compile_source: Compile,
) -> None:
    first, second = compile_source(SOURCE), compile_source(SOURCE, name="other.cu")

    assert isinstance(first, Compiled) and isinstance(second, Compiled)
    assert second.cached and second.name == "other.cu"
    assert (second.kernels, second.compile_s) == (first.kernels, first.compile_s)
    assert second.library.read_bytes() == first.library.read_bytes()
    named = first.ptx.read_text()
    assert '"mine.cu"' in named
    assert second.ptx.read_text() == named.replace('"mine.cu"', '"other.cu"')


def test_warnings_name_the_source_that_was_compiled(compile_source: Compile) -> None:
    unused = SOURCE.replace("{ k<<<", "{ int unused; k<<<")
    for name in ("one.cu", "two.cu"):
        made = compile_source(unused, name=name)
        assert isinstance(made, Compiled) and made.warnings
        assert {one.spot.file for one in made.warnings if one.spot is not None} == {name}


def test_failures_are_cached_too(compile_source: Compile, own_cache: Path) -> None:
    first = compile_source("int x = y;")
    records = list(own_cache.glob("compiled/*/*/manifest.json"))

    assert isinstance(first, CompileFailed)
    assert len(records) == 1
    assert compile_source("int x = y;") == first


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda entry: os.truncate(entry / "file", 1),
    "garbled": lambda entry: (entry / "file").write_text("other"),
    "lost": lambda entry: (entry / "file").unlink(),
    "cut record": lambda entry: os.truncate(entry / "manifest.json", 9),
    "garbled record": lambda entry: (entry / "manifest.json").write_text(
        (entry / "manifest.json").read_text().replace('"a": 1', '"a": 2')
    ),
    "lost record": lambda entry: (entry / "manifest.json").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_a_miss_and_is_replaced(
    own_cache: Path, tmp_path: Path, damage: str
) -> None:
    file = tmp_path / "file"
    file.write_text("words")
    entry = store("kind", "abcdef", {"a": 1}, {"file": file})
    assert load("kind", "abcdef") == {"a": 1}

    DAMAGES[damage](entry)
    assert load("kind", "abcdef") is None

    store("kind", "abcdef", {"a": 1}, {"file": file})
    assert load("kind", "abcdef") == {"a": 1}
    assert [path.name for path in entry.parent.iterdir()] == ["abcdef"]


def test_a_damaged_library_is_compiled_again(compile_source: Compile, own_cache: Path) -> None:
    first = compile_source(SOURCE)
    assert isinstance(first, Compiled)
    for library in own_cache.glob("compiled/*/*/*.so"):
        os.truncate(library, 100)

    again = compile_source(SOURCE)

    assert isinstance(again, Compiled)
    assert not again.cached
    assert again.library.stat().st_size > 100
    assert stat.S_IMODE(again.library.parent.stat().st_mode) == 0o755


def key_of(request: CompileRequest) -> str:
    return request_key(request, find_toolkit())


def test_everything_that_decides_the_outcome_is_in_the_key(tmp_path: Path) -> None:
    request = CompileRequest(source=SOURCE)
    (tmp_path / "a.h").write_text("1")
    variants = [
        request,
        replace(request, source=SOURCE + " "),
        replace(request, name="other.cu"),
        replace(request, target="sm_90"),
        replace(request, prelude="int x;"),
        replace(request, flags=("-g",)),
        replace(request, defines={"A": "1"}),
        replace(request, include_dirs=(tmp_path,)),
        replace(request, limits=CompileLimits(memory_bytes=1 << 30)),
    ]
    keys = [key_of(variant) for variant in variants]
    (tmp_path / "a.h").write_text("22")
    keys.append(key_of(variants[7]))
    other = Toolkit(nvcc=find_toolkit().nvcc, root=find_toolkit().root, version="99.9")
    keys.append(request_key(request, other))

    assert len(set(keys)) == len(keys)
    assert key_of(replace(request, defines={})) == keys[0]


def test_many_writers_of_one_entry_leave_it_intact(own_cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 100_000)

    def write(_: int) -> bool:
        store("kind", "abcdef", {"a": 1}, {"file": file})
        return load("kind", "abcdef") == {"a": 1}

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write, range(40)))
    assert [entry.name for entry in (own_cache / "kind" / "ab").iterdir()] == ["abcdef"]
    assert entry_folder("kind", "abcdef").is_relative_to(own_cache)


FAILURES: list[SourceFailure] = [
    LoadFailed(detail="x"),
    PolicyViolation(rule="import", spot=SourceSpot(file="a.cu", line=1, text="t")),
    CompileFailed(
        compiler_output="z",
        diagnostics=(
            Diagnostic(severity="error", message="m", spot=SourceSpot(file="a.cu", line=2)),
            Diagnostic(severity="warning", message="n", tool="ld"),
        ),
        omitted=3,
    ),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: str(failure.code))
def test_failures_are_the_same_after_they_were_cached(failure: SourceFailure) -> None:
    assert read_outcome(write_outcome(failure)) == failure


def test_folders_of_ended_processes_are_removed_and_others_stay(own_cache: Path) -> None:
    with private_folder() as mine:
        stem = mine.name.rsplit("-", 2)[0]
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        dead, foreign = (
            own_cache / "work" / f"{host}-{gone.pid}-x" for host in (stem, "elsewhere")
        )
        dead.mkdir()
        foreign.mkdir()
        with private_folder():
            assert not dead.exists()
            assert mine.exists() and foreign.exists()
    assert not mine.exists()


def test_a_cache_that_cannot_be_written_is_reported_with_the_setting(
    compile_source: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LLM_CACHE", "/proc/none")

    with pytest.raises(
        MissingError, match=r"/proc/none \(named by CUDA_LLM_CACHE\) cannot be written"
    ):
        compile_source(SOURCE)


def test_a_killed_compilation_is_repeated_cleanly(compile_source: Compile, own_cache: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from cuda_llm.tools.device.candidate import CompileRequest\n"
        "from cuda_llm.tools.compiler.compile import compile_candidate\n"
        "asyncio.run(compile_candidate(CompileRequest(source=sys.argv[1])))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, SOURCE])

    async def wait_for_nvcc() -> None:
        while not list(own_cache.glob("work/*/kept/*")):
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(wait_for_nvcc(), 60))
    process.kill()
    process.wait()
    assert list((own_cache / "work").iterdir()) != []

    assert isinstance(compile_source(SOURCE), Compiled)
    assert list((own_cache / "work").iterdir()) == []
