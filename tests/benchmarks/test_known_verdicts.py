"""The scripts that judge kernels of known verdict see what they are there to see."""

import json
import math
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from corpus import honest_styles, mutants

from cuda_llm.failures import DataRace
from cuda_llm.outcomes import Passed
from cuda_llm.tools.cuda.inspect import Inspection
from cuda_llm.tools.cuda.sanitizer import SanitizerResult

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


def test_a_kernel_that_passed_is_what_the_closer_look_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A race that a GPU's results do not show; and an honest kernel that is looked at if asked."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    inspection = import_module("corpus_rows")
    known = {one.name: one for one in mutants()}
    racing = known["mutants/histogram/missing_barrier"]
    passed, race = Passed(), DataRace(kind="write-write", detail="")
    assert inspection.is_due(racing, passed.code, honest_too=False)
    assert not inspection.is_due(racing, race.code, honest_too=False)

    clean = SanitizerResult(tool="memcheck", state="clean")
    found = SanitizerResult(tool="racecheck", state="found", verdicts=(race,))
    after = inspection.believed(racing, passed, Inspection(sanitized=(clean, found)))
    assert (after.verdict, after.fault, after.state) == (race, "", "found")
    after = inspection.believed(racing, passed, Inspection(sanitized=(clean,), emulated=race))
    assert (after.verdict, after.fault, after.state) == (race, "", "found")
    late = SanitizerResult(tool="racecheck", state="not finished", note="late")
    for sanitized, state in (((clean,), "clean"), ((clean, late), "no result"), ((), "no result")):
        after = inspection.believed(racing, passed, Inspection(sanitized=sanitized))
        assert (after.verdict, after.state) == (passed, state)
        assert after.fault.startswith("PASSED instead of")

    honest = next(iter(honest_styles()))
    assert not inspection.is_due(honest, passed.code, honest_too=False)
    assert inspection.is_due(honest, passed.code, honest_too=True)
    for seen in (Inspection(sanitized=(found,)), Inspection(sanitized=(clean,), emulated=race)):
        refused = inspection.believed(honest, passed, seen)
        assert refused.fault == "DATA_RACE instead of PASSED"


def test_a_planted_loop_is_unrolled_as_the_incumbents(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the largest power of two, up to 64, that divides its turns."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    timing, kernels = map(import_module, ("timing_on_gpu", "timing_kernels"))
    for turns in kernels.TURNS.values():
        for share in (0.028, 0.03, 0.0417, 0.06):
            planted = timing.like_unrolled(turns, turns * share)
            assert math.gcd(planted, 64) == math.gcd(turns, 64) == math.gcd(3 * turns, 64)
            assert planted / turns - 1 == pytest.approx(share, abs=0.0025)


def test_contests_are_counted_by_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    timing = import_module("timing_on_gpu")

    def row(part: str, trial: str, outcome: str) -> dict[str, Any]:
        ended = {"outcome": outcome, "seconds": 1.0, "first_us": 5.0, "process": 0}
        return {"part": part, "trial": trial, "gpu": "GPU-1", **ended}

    rows = [
        row("repeat", "spinning 5 us", "tie"),
        row("repeat", "conv2d", "slower"),
        row("aa", "5 us #0", "tie"),
        row("aa", "1 ms #1", "faster"),
        {"part": "aa", "trial": "1 ms #2", "fault": {"first": "TIMED_OUT"}},
    ]
    figures = timing.summarise(rows)
    assert figures["repeat_outcomes"]["tie"] == figures["repeat_outcomes"]["slower"] == 1
    assert (figures["aa"]["trials"], figures["aa"]["faults"]) == (2, 1)
    by_kernel = figures["aa"]["by_kernel"]
    assert (
        by_kernel["5 us"]["tie"] == by_kernel["1 ms"]["faster"] == by_kernel["1 ms"]["faults"] == 1
    )


def test_times_of_processes_are_compared_on_one_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    timing = import_module("timing_on_gpu")
    times = {("GPU-1", 0): 100.0, ("GPU-1", 1): 101.0, ("GPU-2", 2): 150.0}
    rows = [
        {"trial": "spinning", "gpu": gpu, "process": process, "first_us": time_us}
        for (gpu, process), time_us in times.items()
    ]
    (agreed,) = timing.agreement(rows)
    assert agreed["times_us"] == [100.0, 101.0]
    assert agreed["apart_percent"] == pytest.approx(1.0, abs=0.01)


def test_orphans_and_files_left_behind_are_seen(tmp_path: Path) -> None:
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
    assert json.loads(run("-c", script)) == [1, ["kept"], False]


def test_a_wrong_verdict_counts_against_the_run(tmp_path: Path) -> None:
    script = """
import json
from dataclasses import asdict
from corpus_rows import Row, count
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
