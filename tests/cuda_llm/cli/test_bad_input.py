"""Every mistake is one clear line with the right exit code; nothing is left (see conftest)."""

import os
import shutil
from pathlib import Path

import pytest
from commands import Command

ROOT = Path(__file__).parents[3]
GOOD = ROOT / "tasks/vector_add/baseline.cu"


def test_a_missing_file(cuda_llm: Command) -> None:
    ran = cuda_llm("evaluate", "vector_add", "nowhere.cu")
    assert ran.code == 2
    assert "nowhere.cu" in ran.complaint
    assert "No such file" in ran.complaint


def test_a_folder_instead_of_a_file(tidy_command: Command, tmp_path: Path) -> None:
    ran = tidy_command("evaluate", "vector_add", tmp_path)
    assert ran.code == 2
    assert "Is a directory" in ran.complaint


def test_an_empty_file(tidy_command: Command, tmp_path: Path) -> None:
    (tmp_path / "empty.cu").write_text(" \n")
    ran = tidy_command("evaluate", "vector_add", "empty.cu")
    assert ran.code == 2
    assert "empty.cu: empty" in ran.complaint


def test_a_binary_file(tidy_command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_bytes(b"\x7fELF\xff\xfe\x00")
    ran = tidy_command("evaluate", "vector_add", "a.cu")
    assert ran.code == 2
    assert "not UTF-8" in ran.complaint


@pytest.mark.parametrize("arguments", [("evaluate", "vector_add"), ("tasks", "new", "x", "--from")])
def test_a_file_without_end(tidy_command: Command, arguments: tuple[str, ...]) -> None:
    entry = ("--entry", "k") if "--from" in arguments else ()
    ran = tidy_command(*arguments, "/dev/zero", *entry)
    assert ran.code == 2
    assert "/dev/zero: larger than" in ran.complaint


def test_text_that_is_not_cuda(cuda_llm: Command, tmp_path: Path) -> None:
    (tmp_path / "poem.cu").write_text("Shall I compare thee to a summer's day?\n")
    ran = cuda_llm("evaluate", "vector_add", "poem.cu")
    assert ran.code == 1
    assert "COMPILE_FAILED" in ran.stdout
    assert "poem.cu:1" in ran.stdout
    assert "Traceback" not in ran.stderr


def test_no_solve(tidy_command: Command, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k() {}\n")
    ran = tidy_command("evaluate", "vector_add", "k.cu")
    assert ran.code == 1
    assert "solve" in ran.stdout


def test_a_wrong_signature_names_the_right_one(tidy_command: Command, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('extern "C" void solve(float* A, int n) {}\n')
    ran = tidy_command("evaluate", "vector_add", "k.cu")
    assert ran.code == 1
    assert "COMPILE_FAILED" in ran.stdout
    assert "solve(const float* A, const float* B, float* C, int n)" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("evaluate", "vector_ad", GOOD), "vector_add"),
        (("evaluate", "vector_add", GOOD, "--device", "emulated:RTX 3090"), "RTX 3090 Ti"),
        (("evaluate", "vector_add", GOOD, "--device", "abacus"), "emulated"),
        (("hardware", "show", "RTX 9090"), "RTX 9090"),
        (("tasks", "show", "nothing"), "nothing"),
    ],
)
def test_an_unknown_name_is_answered_with_what_exists(
    tidy_command: Command, arguments: tuple[object, ...], named: str
) -> None:
    ran = tidy_command(*arguments)
    assert ran.code == 2
    assert named in ran.complaint


def test_a_gpu_that_is_not_there_names_the_mend(tidy_command: Command) -> None:
    ran = tidy_command("evaluate", "vector_add", GOOD, "--device", "cuda:0")
    assert ran.code in {2, 3}
    assert "emulated" in ran.complaint


@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("task.toml", 'dtype = "float32"', 'dtype = "float31"', "float31"),
        ("task.toml", "[tolerance]", "[tolerence]", "tolerance"),
        ("reference.py", "def reference", "def referense", "reference"),
    ],
)
def test_a_broken_task_folder_names_file_and_key(
    tidy_command: Command, tmp_path: Path, file: str, old: str, new: str, named: str
) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(ROOT / "tasks/vector_add", folder)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    ran = tidy_command("evaluate", folder, GOOD)
    assert ran.code == 2
    assert file in ran.complaint
    assert named in ran.complaint


def test_a_task_that_would_overwrite_a_folder(tidy_command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes").write_text("dear to me")
    ran = tidy_command("tasks", "new", "mine")
    assert ran.code == 2
    assert "mine" in ran.complaint
    assert (tmp_path / "mine/notes").read_text() == "dear to me"


def test_an_output_folder_that_cannot_be_written(tidy_command: Command) -> None:
    """/proc refuses new folders even to root, as a read-only disk would."""
    ran = tidy_command("tasks", "new", "mine", "--out", "/proc")
    assert ran.code == 2
    assert "/proc" in ran.complaint


def test_a_cache_that_cannot_be_written(cuda_llm: Command) -> None:
    ran = cuda_llm("evaluate", "vector_add", GOOD, CUDA_LLM_CACHE="/proc/cache")
    assert ran.code in {2, 3}
    assert "/proc/cache" in ran.complaint


def test_a_full_disk(cuda_llm: Command, tmp_path: Path) -> None:
    """A tiny file system of its own, where the machine lets us mount one; else /dev/full."""
    ran = cuda_llm("tasks", "new", "mine", "--out", "/dev/full")
    assert ran.code == 2
    assert "/dev/full" in ran.complaint


def test_a_missing_compiler_names_the_command_that_mends_it(
    cuda_llm: Command, tmp_path: Path
) -> None:
    """A PATH that has everything but g++, and a cache that holds nothing."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(":"):
        for program in Path(folder).glob("*") if os.access(folder, os.R_OK | os.X_OK) else ():
            link = tools / program.name
            if not link.is_symlink() and "++" not in program.name:
                link.symlink_to(program)
    ran = cuda_llm(
        "evaluate",
        "vector_add",
        GOOD,
        PATH=str(tools),
        CUDA_LLM_CACHE=str(tmp_path / "cache"),
    )
    assert ran.code == 3
    assert "g++" in ran.complaint
    assert "apt-get install g++" in ran.complaint


@pytest.mark.parametrize("after_s", [0.4, 0.9, 1.6, 2.5])
def test_ctrl_c_ends_everything(cuda_llm: Command, tmp_path: Path, after_s: float) -> None:
    """Cold cache, so that the interrupt falls into nvcc, g++ or a runner."""
    ran = cuda_llm(
        "evaluate",
        "vector_add",
        GOOD,
        interrupt_after_s=after_s,
        CUDA_LLM_CACHE=str(tmp_path / "cache"),
    )
    assert ran.code == 130
    assert ran.complaint == "error: interrupted"
