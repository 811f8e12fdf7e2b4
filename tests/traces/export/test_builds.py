"""What is exported really compiles, on its own, with the compiler a user has."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from corpus_sample import is_whole
from exported_package import import_package, winner_of
from tiny_tasks import VECTORS, with_sizes

from cuda_llm.cli.app import run
from cuda_llm.errors import UsageError
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.new_task import skeleton, write_task
from cuda_llm.tools.validator.example_case import draw_example
from cuda_llm.traces.export.carried.build import build, find_nvcc
from cuda_llm.traces.export.export import ExampleData, export

QUICK = "histogram"
"""The task whose export is compiled in every test run."""

NEEDS_PRELUDE = """
__global__ void copy(const float* A, const float* B, float* C, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) C[i] = A[i] + B[i] * SCALE;
}

void solve(const float* A, const float* B, float* C, int n)
{
    copy<<<(n + 255) / 256, 256>>>(A, B, C, n);
}
"""
"""Its `solve` has C linkage only where solve.h is read before it."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the exported packages."""
    monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/exported"


def exported(library: Path) -> set[str]:
    """Names a library defines for others."""
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    )
    return {line.split()[-1] for line in shown.stdout.splitlines()}


def make(folder: Path, *arguments: str) -> str:
    command = ["make", "-C", str(folder), f"NVCC={find_nvcc()}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def printed_there(folder: Path, line: str) -> "subprocess.CompletedProcess[str]":
    """Run a line that the export prints in its folder, where the command and nvcc are installed."""
    places = (Path(sys.executable).parent, Path(find_nvcc()).parent, os.environ["PATH"])
    env = {**os.environ, "PATH": ":".join(map(str, places))}
    command = ["/bin/sh", "-c", line]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def kinds_of_arguments(name: str) -> set[tuple[str, str]]:
    return {(one.role, one.dtype) for one in load_task(name).arguments}


def unlike_tasks() -> list[str]:
    """Few tasks that have every kind of argument between them; others put the same together."""
    chosen, shown = [QUICK], kinds_of_arguments(QUICK)
    kinds = {name: kinds_of_arguments(name) for name in list_tasks()}
    while True:
        most = max(kinds, key=lambda name: len(kinds[name] - shown))
        if kinds[most] <= shown:
            return chosen
        chosen.append(most)
        shown |= kinds[most]


BUILT = unlike_tasks() if is_whole() else [QUICK]


@pytest.mark.parametrize("name", BUILT)
def test_the_plain_export_of_every_kind_of_task_compiles_with_its_own_makefile(
    tmp_path: Path, name: str
) -> None:
    folder = export(winner_of(name), "cu", tmp_path / name, example=example_of(name))
    (line,) = re.findall(r"^# (make ARCH=\S+)", (folder / "Makefile").read_text(), re.MULTILINE)
    built = printed_there(folder, line)
    assert built.returncode == 0, built.stderr
    assert "solve" in exported(folder / "libsolve.so")
    assert os.access(folder / "example", os.X_OK)
    make(folder, "clean")
    assert not (folder / "example").exists()


def test_a_stream_a_workspace_and_stated_content_are_exported(tmp_path: Path) -> None:
    roles = Path(__file__).parents[2] / "fixtures/tasks/argument_roles"
    folder = export(winner_of(roles), "cu", tmp_path / "plain", example=example_of(roles))
    make(folder, "ARCH=sm_90")
    assert "cudaStream_t stream" in (folder / "solve.h").read_text()
    package = export(winner_of(roles), "cupy", tmp_path / "package")
    texts = [file.read_text() for file in package.rglob("*.py")]
    assert any('Argument("total", "inout", "int32"' in text for text in texts)


HOST = """
#pragma once
#include <cstdlib>
#include <cstring>
// The part of the CUDA runtime that an example calls, in memory of the host.
typedef int cudaError_t;
typedef int cudaEvent_t;
enum { cudaSuccess, cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost };
inline const char* cudaGetErrorString(cudaError_t) { return "an error"; }
inline cudaError_t cudaMalloc(void** place, size_t size) { *place = malloc(size); return 0; }
inline cudaError_t cudaFree(void* place) { free(place); return 0; }
inline cudaError_t cudaMemset(void* to, int c, size_t size) { memset(to, c, size); return 0; }
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t size, int)
{ memcpy(to, from, size); return 0; }
inline cudaError_t cudaGetLastError() { return 0; }
inline cudaError_t cudaDeviceSynchronize() { return getenv("BREAKS") ? 700 : 0; }
inline cudaError_t cudaEventCreate(cudaEvent_t*) { return 0; }
inline cudaError_t cudaEventRecord(cudaEvent_t) { return 0; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return 0; }
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t)
{ *ms = 2; return 0; }
"""
ADDS = """
extern "C" void solve(const float* A, const float* B, float* C, int n)
{ for (int i = 0; i < n - LEFT; i++) C[i] = (A[i] + B[i]) * FACTOR; }
"""
COUNTS = """
#include <cstring>
extern "C" void solve(const int* keys, int* histogram, int n, int bins)
{ memset(histogram, 0, bins * 4); for (int i = LEFT; i < n; i++) histogram[keys[i]]++; }
"""


@pytest.mark.parametrize(
    ("name", "source", "flags", "said", "code"),
    [
        ("vector_add", ADDS, "", "C: all 65536 elements are right\n100.0 us a call at n = ", 0),
        ("vector_add", ADDS, "-DFACTOR=1.0000002f", "PASS", 0),
        ("vector_add", ADDS, "-DFACTOR=1.00001f", "elements are wrong, the first is [", 1),
        (QUICK, COUNTS, "-DLEFT=1", "1 of 256 elements are wrong", 1),
    ],
)
def test_the_example_tells_right_from_wrong(
    tmp_path: Path, name: str, source: str, flags: str, said: str, code: int
) -> None:
    """Its own source, built for the host: all but the GPU is as it will be."""
    folder = export(winner_of(name, source), "cu", tmp_path / name, example=example_of(name))
    (folder / "cuda_runtime.h").write_text(HOST)
    given = [
        *flags.split(),
        *(f"-D{one}" for one in ("FACTOR=1.0f", "LEFT=0") if one[:4] not in flags),
    ]
    sources = ("-xc++", "solve.cu", "example.cu")
    subprocess.run(["g++", "-I.", *given, *sources, "-o", "example"], cwd=folder, check=True)
    ran = run_example(folder)
    assert said in ran.stdout, ran.stdout
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (code, ("PASS", "FAIL")[code])
    broken = run_example(folder, BREAKS="1")
    assert (broken.returncode, broken.stdout) == (1, "solve: an error\nFAIL\n")
    next((folder / "example_data").glob("*.in")).write_bytes(b"")
    short = run_example(folder)
    assert (short.returncode, "elements of 4 bytes" in short.stderr) == (2, True)


def run_example(folder: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["./example"], cwd=folder, env={**os.environ, **env}, capture_output=True, text=True
    )


def test_an_example_without_a_reference_says_that_nothing_is_checked(tmp_path: Path) -> None:
    files = {one: text for one, text in skeleton("mine").items() if one != "reference.py"}
    files["task.toml"] = with_sizes(files["task.toml"], VECTORS)
    task = write_task("mine", tmp_path, files)
    folder = export(winner_of(task), "cu", tmp_path / "out", example=example_of(task))
    example = (folder / "example.cu").read_text()
    assert "NOT CHECKED: the task has no reference.py" in example
    assert "PASS" not in example
    assert [one.name for one in (folder / "example_data").iterdir()] == ["x.in"]


@pytest.mark.gpu
@pytest.mark.parametrize("name", list_tasks())
def test_the_example_passes_on_a_gpu(tmp_path: Path, name: str) -> None:
    if not Path("/proc/driver/nvidia/version").exists():
        pytest.skip("no GPU is here")
    folder = export(winner_of(name), "cu", tmp_path / name, example=example_of(name))
    make(folder)
    ran = run_example(folder)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "PASS"), ran.stdout + ran.stderr


def example_of(task: str | Path) -> ExampleData:
    return ExampleData(**vars(draw_example(load_task(task))))


def test_a_package_builds_its_kernel_once_and_needs_and_exports_nothing_else(
    tmp_path: Path, cache: Path
) -> None:
    folder = export(winner_of("matrix_transpose"), "cupy", tmp_path / "mine")
    library = build(folder, "sm_86")
    assert exported(library) == {"solve", "last_error"}
    made_at = library.stat().st_mtime_ns
    assert build(folder, "sm_86") == library
    assert library.stat().st_mtime_ns == made_at
    assert [one.name for one in library.parent.iterdir()] == ["solve.so"]
    shown = subprocess.run(["ldd", str(library)], capture_output=True, text=True, check=True)
    assert "cudart" not in shown.stdout, "it brings its own CUDA runtime"
    (folder / "solve.cu").write_text((folder / "solve.cu").read_text() + "// changed\n")
    assert build(folder, "sm_86") != library


@pytest.mark.parametrize("to", ["cu", "cupy"])
def test_flags_headers_and_the_prelude_of_a_task_come_along(
    tmp_path: Path, cache: Path, to: Any
) -> None:
    winner = winner_of(task_with_a_header(tmp_path / "task"), NEEDS_PRELUDE)
    if to == "cu":
        folder = export(winner, to, tmp_path / "mine")
        make(folder, "ARCH=sm_86")
        assert "solve" in exported(folder / "libsolve.so")
    else:
        module = import_package(winner, to, tmp_path)
        assert callable(module._load("sm_86"))


REFERENCE = """
from pathlib import Path

FACTOR = int((Path(__file__).parent / "data/factor.txt").read_text())


def reference(xp, *, x):
    return {"y": FACTOR * x}
"""


def test_a_task_of_ones_own_travels_and_is_judged_where_it_was_never_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a home of its own, from another place, with the task gone; its reference reads a file."""
    files = {**skeleton("mine"), "reference.py": REFERENCE}
    files["task.toml"] = with_sizes(files["task.toml"], VECTORS)
    task = write_task("mine", tmp_path / "here", files)
    (task / "data").mkdir()
    (task / "data/factor.txt").write_text("2")
    (task / ".git").mkdir()
    (task / ".git/config").touch()
    (task / "traces/runs/a-run").mkdir(parents=True)
    (task / "traces/runs/a-run/run.json").touch()
    export(winner_of(task), "cupy", tmp_path / "here/exported")
    folder = (tmp_path / "here/exported").rename(tmp_path / "there")
    shutil.rmtree(tmp_path / "here")
    travelled = {str(one.relative_to(folder / "task")) for one in (folder / "task").rglob("*.*")}
    assert travelled == {
        *("mine/task.toml", "mine/description.md", "mine/baseline.cu", "mine/reference.py"),
        "mine/data/factor.txt",
    }
    command = json.loads((folder / "proof.json").read_text())["verify"]
    assert command == "cuda-llm evaluate task/mine solve.cu --device emulated:rtx_3090_ti"
    assert command in (folder / "README.md").read_text()
    _, *arguments = shlex.split(command)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(folder)
    assert run(arguments) == 0
    assert "solve.cu · mine" in capsys.readouterr().out


def test_a_shipped_task_need_not_travel_and_a_huge_folder_does_not(tmp_path: Path) -> None:
    assert not (export(winner_of(QUICK), "cu", tmp_path / "out") / "task").exists()
    task = write_task("mine", tmp_path, skeleton("mine"))
    with (task / "data.bin").open("wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(UsageError, match="holds more than 64 MB, and all of a task travels"):
        export(winner_of(task), "cu", tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


def task_with_a_header(folder: Path) -> Path:
    """A task whose kernels need a flag, a macro and a header of its own."""
    (folder / "headers").mkdir(parents=True)
    (folder / "headers/scale.cuh").write_text("#pragma once\n#define SCALE WEIGHT\n")
    original = load_task("vector_add").folder
    for name in ("task.toml", "description.md", "baseline.cu", "reference.py"):
        (folder / name).write_text((original / name).read_text())
    toml = (folder / "task.toml").read_text().replace("[capabilities]\n", CAPABILITIES, 1)
    assert CAPABILITIES in toml
    (folder / "task.toml").write_text(toml)
    return folder


CAPABILITIES = """[capabilities]
include_dirs = ["headers"]
flags = ["-include=scale.cuh"]
defines = { WEIGHT = "1.0f" }
"""


def test_a_source_that_nvcc_refuses_raises_with_its_message(tmp_path: Path, cache: Path) -> None:
    folder = export(winner_of("vector_add", "int solve = 3;\n"), "cupy", tmp_path / "mine")
    with pytest.raises(RuntimeError, match=r"nvcc refused .*solve\.cu for sm_86:\n.*error"):
        build(folder, "sm_86")
    assert not list(cache.rglob("*.so"))


def test_a_missing_compiler_raises_with_the_mend(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LLM_NVCC", str(tmp_path / "no-nvcc"))
    folder = export(winner_of("vector_add"), "cupy", tmp_path / "mine")
    with pytest.raises(RuntimeError, match="names no nvcc that runs"):
        build(folder, "sm_86")


CALL = """
import ctypes
import sys
sys.path.insert(0, {folder!r})
from mine import _load
solve = _load("sm_86")
print(solve([ctypes.c_void_p(256), ctypes.c_void_p(256), ctypes.c_void_p(512), ctypes.c_int(1)]))
"""


def test_a_launch_that_cuda_refuses_raises(tmp_path: Path, cache: Path) -> None:
    """No GPU is visible, so the real runtime refuses the real launch."""
    export(winner_of("vector_add"), "cupy", tmp_path / "mine")
    done = subprocess.run(
        [sys.executable, "-I", "-c", CALL.format(folder=str(tmp_path))],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "CUDA" in done.stdout
    assert done.stdout.strip() != ""
