"""`cuda-llm cache` and what `doctor` says of it."""

from pathlib import Path

import pytest
from commands import Command


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache with three entries of an earlier process, and with times that were measured."""
    folder = tmp_path / "cache"
    for number in range(3):
        entry = folder / "compiled" / f"a{number}" / f"a{number}000"
        entry.mkdir(parents=True)
        (entry / "candidate.so").write_bytes(b"x" * 1_500_000)
    (folder / "baselines").mkdir()
    (folder / "baselines" / "times.json").write_text("[1.0]")
    return folder


def test_trim_keeps_what_fits(command: Command, cache: Path) -> None:
    ran = command("cache", "trim", "--to", 3, CUDA_LLM_CACHE=str(cache))
    assert ran.code == 0
    assert ran.stdout == "1 entries removed (1.5 MB), 2 left (3.0 MB)\n"
    again = command("cache", "trim", CUDA_LLM_CACHE=str(cache), CUDA_LLM_CACHE_LIMIT_MB="1")
    assert again.stdout == "2 entries removed (3.0 MB), 0 left (0.0 MB)\n"


def test_clear_removes_all_but_what_was_measured(command: Command, cache: Path) -> None:
    ran = command("cache", "clear", CUDA_LLM_CACHE=str(cache))
    assert ran.stdout == "3 entries removed (4.5 MB), 0 left (0.0 MB)\n"
    assert (cache / "baselines" / "times.json").exists()


def test_without_a_limit_nothing_is_trimmed(command: Command, cache: Path) -> None:
    ran = command("cache", "trim", CUDA_LLM_CACHE=str(cache), CUDA_LLM_CACHE_LIMIT_MB="0")
    assert "no limit is set" in ran.stdout
    assert "4.5 MB stay" in ran.stdout


def test_a_size_that_is_none_is_one_line(command: Command) -> None:
    ran = command("cache", "trim", "--to", "-3")
    assert ran.code == 2
    assert "--to" in ran.complaint
