"""The scripts that judge kernels of known verdict see what they are there to see."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"


def run(*command: str) -> str:
    places = (BENCHMARKS, ROOT / "tests/support")
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_corpus_run_counts_and_goes_on_where_it_was(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    command = (str(BENCHMARKS / "corpus_on_gpu.py"), "--device", "emulated", "--out", str(rows))
    some = ("--only", "old_warp_reduction,only_fills", "--results", str(tmp_path), "--resume")
    said = run(*command, *some, "--shard", "1/2")
    assert "2 kernels, 1 of this shard to judge" in said
    assert len(rows.read_text().splitlines()) == 1
    said = run(*command, *some)
    assert "2 kernels, 1 of this shard to judge" in said
    assert "0 cheats accepted of 1" in said
    assert "0 honest kernels refused of 1" in said
    figures = json.loads((tmp_path / "corpus_emulated.json").read_text())
    assert [one["code"] for one in figures["kernels"]] == ["WRONG_RESULT", "PASSED"]


def test_orphans_and_files_left_behind_are_seen(tmp_path: Path) -> None:
    script = f"""
import json, subprocess, sys
from pathlib import Path
from left_behind import adopt_orphans, compare, snapshot
adopt_orphans()
folders = (Path({str(tmp_path)!r}),)
before = snapshot(folders)
assert compare(before, folders).nothing
daemon = "import os, time\\nif os.fork() == 0:\\n    time.sleep(30)"
subprocess.run([sys.executable, "-c", daemon], check=True)
(folders[0] / "kept").write_text("")
left = compare(before, folders, settle_s=0.0)
print(json.dumps([len(left.processes), [Path(file).name for file in left.files], left.nothing]))
for pid, _ in left.processes:
    import os
    os.kill(pid, 9)
"""
    assert json.loads(run("-c", script)) == [1, ["kept"], False]


def test_a_wrong_verdict_counts_against_the_run(tmp_path: Path) -> None:
    script = """
import json
from dataclasses import asdict
from corpus_on_gpu import Row, count
def row(honest, code, fault):
    return Row(name="", source="", honest=honest, code=code, fault=fault, speedup=None, told="")
rows = [
    row(False, "PASSED", "PASSED instead of WRONG_RESULT"),
    row(False, "HOST_CRASHED", "HOST_CRASHED instead of WRONG_RESULT"),
    row(False, "PASSED", ""),
    row(True, "WRONG_RESULT", "WRONG_RESULT instead of PASSED"),
    row(True, "PASSED", ""),
]
print(json.dumps(asdict(count(rows))))
"""
    assert json.loads(run("-c", script)) == {
        "accepted_cheats": 1,
        "refused_honest": 1,
        "other_codes": 1,
        "adversarial": 3,
        "honest": 2,
    }
