import multiprocessing
from pathlib import Path

import pytest

from cuda_llm.tools.timing.baseline_time import read_times, write_times


def write_often(path: Path, time_us: float) -> None:
    for _ in range(200):
        write_times(path, [time_us])


def test_writers_in_several_processes_leave_one_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forked alike, so that whatever is only unique within a process is the same in all."""
    monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path))
    path = tmp_path / "baselines" / "key.json"
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=write_often, args=(path, float(n))) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert [writer.exitcode for writer in writers] == [0] * 4
    assert read_times(path, 1) in [[0.0], [1.0], [2.0], [3.0]]
    assert [file.name for file in path.parent.iterdir()] == ["key.json"]
