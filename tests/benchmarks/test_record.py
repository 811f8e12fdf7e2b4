"""Shards, what work leaves behind, and profiled seconds, as the benchmarks share them."""

import cProfile
import json
import os
import pstats
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from record import FILES, OTHER, ROOT, SERVING, WAITING, by_kind, sharded

SLEEPER = "import time\n\ndef library(seconds):\n    time.sleep(seconds)\n"
CALLER = "def {name}(library, seconds):\n    library(seconds)\n"


@pytest.mark.parametrize("count", [1, 3, 8])
def test_shards_are_everything_once(count: int) -> None:
    parts = [sharded(list(range(7)), f"{number}/{count}") for number in range(1, count + 1)]
    assert sorted(one for part in parts for one in part) == list(range(7))


@pytest.mark.parametrize("wrong", ["0/2", "3/2", "1", "1/", "a/b", "-1/2"])
def test_a_shard_out_of_range_is_named(wrong: str) -> None:
    with pytest.raises(SystemExit, match=f"--shard {wrong}: .*as in 2/4"):
        sharded([1, 2], wrong)


def test_orphans_and_files_left_behind_are_found(tmp_path: Path) -> None:
    script = f"""
import json, subprocess, sys
from pathlib import Path
from record import adopt_orphans, find_left_behind, snapshot
adopt_orphans()
folders = (Path({str(tmp_path)!r}),)
before = snapshot(folders)
assert find_left_behind(before, folders).nothing
daemon = "import os, time\\nif os.fork() == 0:\\n    time.sleep(30)"
subprocess.run([sys.executable, "-c", daemon], check=True)
(folders[0] / "kept").write_text("")
left = find_left_behind(before, folders, settle_s=0.0)
print(json.dumps([len(left.processes), [Path(file).name for file in left.files], left.nothing]))
for pid, _ in left.processes:
    import os
    os.kill(pid, 9)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")},
    )
    assert json.loads(done.stdout) == [1, ["kept"], False]


def load(path: Path, text: str) -> ModuleType:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    module = ModuleType(path.stem)
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module


@pytest.fixture
def profile_all_kinds(tmp_path: Path) -> Callable[[], dict[str, float]]:
    library = load(tmp_path / "site/wait.py", SLEEPER).library
    drawing = load(tmp_path / "tools/timing/slots.py", CALLER.format(name="stage")).stage
    comparing = load(tmp_path / "tools/validator/compare.py", CALLER.format(name="compare")).compare
    launch = CALLER.format(name="launch_on_gpu")
    launching = load(tmp_path / "tools/cuda/arrays.py", launch).launch_on_gpu
    other = load(tmp_path / "tools/other.py", CALLER.format(name="other")).other

    def run() -> dict[str, float]:
        profile = cProfile.Profile()
        started = time.perf_counter()
        profile.enable()
        drawing(library, 0.1)
        comparing(lambda seconds: launching(library, seconds), 0.3)
        other(library, 0.05)
        profile.disable()
        took_s = time.perf_counter() - started
        found = by_kind(pstats.Stats(profile))
        assert sum(found.values()) == pytest.approx(took_s, abs=0.05)
        return found

    return run


def test_time_in_a_library_belongs_to_its_callers(
    profile_all_kinds: Callable[[], dict[str, float]],
) -> None:
    found = profile_all_kinds()
    # A busy machine only adds to each.
    assert found["drawing and sealing inputs"] >= 0.09
    assert found["expected values and comparison"] >= 0.28
    assert found[OTHER] >= 0.045


@pytest.mark.parametrize("path", sorted(path for paths in FILES.values() for path in paths))
def test_a_file_that_seconds_are_sorted_by_exists(path: str) -> None:
    assert (ROOT / path).is_file()


@pytest.mark.parametrize(("path", "function"), sorted({*WAITING, *SERVING}))
def test_a_function_that_seconds_are_sorted_by_exists(path: str, function: str) -> None:
    assert re.search(rf"^\s*(?:async )?def {function}\(", (ROOT / path).read_text(), re.MULTILINE)


def test_no_file_is_sorted_twice() -> None:
    paths = [path for files in FILES.values() for path in files]
    assert len(paths) == len(set(paths))
