"""Every mistake is one clear line with the right exit code; nothing is left (see conftest)."""

import shutil
from pathlib import Path

import pytest
from commands import Command

ROOT = Path(__file__).parents[3]
GOOD = ROOT / "tasks/vector_add/baseline.cu"


def test_a_missing_file(command: Command) -> None:
    ran = command("evaluate", "vector_add", "nowhere.cu")
    assert ran.code == 2
    assert "nowhere.cu" in ran.complaint
    assert "No such file" in ran.complaint


def test_a_folder_instead_of_a_file(command: Command, tmp_path: Path) -> None:
    ran = command("evaluate", "vector_add", tmp_path)
    assert ran.code == 2
    assert "Is a directory" in ran.complaint


def test_an_empty_file(command: Command, tmp_path: Path) -> None:
    (tmp_path / "empty.cu").write_text(" \n")
    ran = command("evaluate", "vector_add", "empty.cu")
    assert ran.code == 2
    assert "empty.cu: empty" in ran.complaint


def test_a_binary_file(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_bytes(b"\x7fELF\xff\xfe\x00")
    ran = command("evaluate", "vector_add", "a.cu")
    assert ran.code == 2
    assert "not UTF-8" in ran.complaint


@pytest.mark.parametrize("arguments", [("evaluate", "vector_add"), ("tasks", "new", "x", "--from")])
def test_a_file_without_end(command: Command, arguments: tuple[str, ...]) -> None:
    entry = ("--entry", "k") if "--from" in arguments else ()
    ran = command(*arguments, "/dev/zero", *entry)
    assert ran.code == 2
    assert "/dev/zero: larger than" in ran.complaint


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "vector_add"),
        ("check",),
        ("tasks", "new", "x", "--from"),
        ("run", "vector_add", "--device", "emulated", "--generator", "tuner", "--start"),
        ("tune", "vector_add", "--device", "emulated"),
    ],
)
def test_ptx_is_named_by_every_command_that_takes_a_source(
    command: Command, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "k.ptx").write_text(".version 8.5\n.target sm_90\n.visible .entry k() { ret; }\n")
    ran = command(*arguments, "k.ptx")
    assert ran.code == 2
    assert "k.ptx: PTX, not CUDA C++" in ran.complaint


def test_text_that_is_not_cuda(command: Command, tmp_path: Path) -> None:
    (tmp_path / "poem.cu").write_text("Shall I compare thee to a summer's day?\n")
    ran = command("evaluate", "vector_add", "poem.cu")
    assert ran.code == 1
    assert "COMPILE_FAILED" in ran.stdout
    assert "poem.cu:1" in ran.stdout
    assert "Traceback" not in ran.stderr


def test_no_solve(command: Command, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k() {}\n")
    ran = command("evaluate", "vector_add", "k.cu")
    assert ran.code == 1
    assert "solve" in ran.stdout


def test_a_wrong_signature_names_the_right_one(command: Command, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('extern "C" void solve(float* A, int n) {}\n')
    ran = command("evaluate", "vector_add", "k.cu")
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
    command: Command, arguments: tuple[object, ...], named: str
) -> None:
    ran = command(*arguments)
    assert ran.code == 2
    assert named in ran.complaint


def test_a_gpu_that_is_not_there_names_the_mend(command: Command) -> None:
    ran = command("evaluate", "vector_add", GOOD, "--device", "cuda:0")
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
    command: Command, tmp_path: Path, file: str, old: str, new: str, named: str
) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(ROOT / "tasks/vector_add", folder)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    ran = command("evaluate", folder, GOOD)
    assert ran.code == 2
    assert file in ran.complaint
    assert named in ran.complaint


def test_a_task_that_would_overwrite_a_folder(command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes").write_text("dear to me")
    ran = command("tasks", "new", "mine")
    assert ran.code == 2
    assert "mine" in ran.complaint
    assert (tmp_path / "mine/notes").read_text() == "dear to me"


def test_an_output_folder_that_cannot_be_written(command: Command) -> None:
    """/proc refuses new folders even to root, as a read-only disk would."""
    ran = command("tasks", "new", "mine", "--out", "/proc")
    assert ran.code == 2
    assert "/proc" in ran.complaint


def test_a_cache_that_cannot_be_written(command: Command) -> None:
    ran = command("evaluate", "vector_add", GOOD, CUDA_LLM_CACHE="/proc/cache")
    assert ran.code in {2, 3}
    assert "/proc/cache" in ran.complaint


def test_a_full_disk(command: Command) -> None:
    ran = command("tasks", "new", "mine", "--out", "/dev/full")
    assert ran.code == 2
    assert "/dev/full" in ran.complaint
