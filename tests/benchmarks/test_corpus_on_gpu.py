"""The corpus benchmark judges kernels of known verdict, and its recorded figures still hold."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from corpus import KINDS, Known, fault_in, honest_styles, mutants
from corpus_rows import Counts, Row, count, inspected_verdict, is_due
from record import RESULTS, ROOT
from recorded_tasks import RECORDED_TASKS

from cuda_llm.outcomes import DataRace, Passed
from cuda_llm.tools.cuda.inspect import Inspection
from cuda_llm.tools.cuda.sanitizer import SanitizerResult

BENCHMARKS = ROOT / "benchmarks"
KNOWN = {
    one.name: one
    for kind in KINDS
    for one in kind()
    if kind not in (mutants, honest_styles) or one.task in RECORDED_TASKS
}


def run_python(*command: str) -> str:
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


def test_a_corpus_run_counts_and_goes_on_where_it_was(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    command = (str(BENCHMARKS / "corpus_on_gpu.py"), "--device", "emulated", "--out", str(rows))
    some = ("--only", "old_warp_reduction,only_fills", "--results", str(tmp_path), "--resume")
    printed = run_python(*command, *some, "--shard", "1/2")
    assert "2 kernels, 1 of this shard to judge" in printed
    assert len(rows.read_text().splitlines()) == 1
    printed = run_python(*command, *some)
    assert "2 kernels, 1 of this shard to judge" in printed
    assert "0 cheats accepted of 1" in printed
    assert "0 honest kernels refused of 1" in printed
    figures = json.loads((tmp_path / "corpus_emulated.json").read_text())
    assert [one["code"] for one in figures["kernels"]] == ["WRONG_RESULT", "PASSED"]


def test_a_kernel_that_passed_gets_the_verdict_of_its_inspection() -> None:
    """A race that a GPU's results do not show; and an honest kernel, inspected on request."""
    known = {one.name: one for one in mutants()}
    racing = known["mutants/histogram/missing_barrier"]
    passed, race = Passed(), DataRace(kind="write-write", detail="")
    assert is_due(racing, passed.code, honest_too=False)
    assert not is_due(racing, race.code, honest_too=False)

    clean = SanitizerResult(tool="memcheck", state="clean")
    found = SanitizerResult(tool="racecheck", state="found", verdicts=(race,))
    after = inspected_verdict(racing, passed, Inspection(sanitized=(clean, found)))
    assert (after.verdict, after.fault, after.state) == (race, "", "found")
    after = inspected_verdict(racing, passed, Inspection(sanitized=(clean,), emulated=race))
    assert (after.verdict, after.fault, after.state) == (race, "", "found")
    late = SanitizerResult(tool="racecheck", state="not finished", note="late")
    for sanitized, state in (((clean,), "clean"), ((clean, late), "no result"), ((), "no result")):
        after = inspected_verdict(racing, passed, Inspection(sanitized=sanitized))
        assert (after.verdict, after.state) == (passed, state)
        assert after.fault.startswith("PASSED instead of")

    honest = next(iter(honest_styles()))
    assert not is_due(honest, passed.code, honest_too=False)
    assert is_due(honest, passed.code, honest_too=True)
    for seen in (Inspection(sanitized=(found,)), Inspection(sanitized=(clean,), emulated=race)):
        refused = inspected_verdict(honest, passed, seen)
        assert refused.fault == "DATA_RACE instead of PASSED"


def test_a_wrong_verdict_counts_against_the_run() -> None:
    def row(honest: bool, code: str, fault: str) -> Row:
        return Row(
            name="", source="", honest=honest, code=code, fault=fault, speedup=None, summary=""
        )

    counts = count(
        [
            row(False, "PASSED", "PASSED instead of WRONG_RESULT"),
            row(False, "HOST_CRASHED", "HOST_CRASHED instead of WRONG_RESULT"),
            row(False, "PASSED", ""),
            row(True, "WRONG_RESULT", "WRONG_RESULT instead of PASSED"),
            row(True, "PASSED", ""),
        ]
    )
    assert counts == Counts(
        accepted_cheats=1, refused_honest=1, other_codes=1, adversarial=3, honest=2
    )


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "h200_corpus.json").read_text())
    return found


def fault_of_row(known: Known, row: dict[str, Any]) -> str:
    known = known.as_inspected() if row["inspected"] == "found" else known
    return fault_in(known, row["code"], row["speedup"], gpu=True)


def test_every_known_kernel_has_a_recorded_verdict_that_is_right(recorded: dict[str, Any]) -> None:
    rows = {row["name"]: row for row in recorded["rows"]}
    assert rows.keys() == KNOWN.keys()
    faults = {name: fault_of_row(KNOWN[name], row) for name, row in rows.items()}
    assert {name: fault for name, fault in faults.items() if fault} == {}
    assert recorded["accepted_cheats"] == recorded["refused_honest"] == 0


def test_recorded_counts_are_those_of_the_rows(recorded: dict[str, Any]) -> None:
    honest = [row for row in recorded["rows"] if row["honest"]]
    assert len(honest) == recorded["honest"] >= 25
    assert len(recorded["rows"]) - len(honest) == recorded["cheats"] >= 40
    assert all(row["code"] == Passed.code for row in honest)
