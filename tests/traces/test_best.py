"""`best/` holds a kernel that stands, or nothing."""

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from graph_runs import WRONG, TableBench, Writer
from recorded_run import beginning, passed, write_run
from run_starts import asked, events, parts, the_run

from cuda_llm.agents.situation import Situation
from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.start import start
from cuda_llm.outcomes import Verdict
from cuda_llm.profile import SizeTime
from cuda_llm.search import Brief, Draft
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.traces.best import write_best
from cuda_llm.traces.events import KernelInspected, WinnerRemeasured


@dataclass(frozen=True)
class TwoFaced(TableBench):
    """Finds these sources wrong, but only when the winner is judged again."""

    wrong_afresh: tuple[str, ...] = ()
    fresh: bool = field(default=False)

    async def validate(self, compiled: Compiled) -> Validated | Verdict:
        if self.fresh and any(one in compiled.source for one in self.wrong_afresh):
            return WRONG
        return await super().validate(compiled)

    def with_fresh_inputs(self) -> "TwoFaced":
        return replace(self, fresh=True)


def test_a_winner_that_fails_when_judged_again_gives_way_to_the_next(tmp_path: Path) -> None:
    bench = TwoFaced(wrong_afresh=("ok_60",))
    result = asyncio.run(start(asked(tmp_path), brought=parts(bench=bench)))
    assert [(one.attempt, one.code) for one in again(tmp_path)] == [
        ("r2-c4", "WRONG_RESULT"),
        ("r1-c3", "PASSED"),
    ]
    assert result.best is not None
    assert result.best.id == "r1-c3"
    assert (result.run_dir / "best/solve.cu").read_text() == result.source
    assert "ok_70" in result.source
    assert "WRONG_RESULT" not in (result.run_dir / "best/report.md").read_text()


def test_without_a_standing_winner_there_is_no_best_folder(tmp_path: Path) -> None:
    bench = TwoFaced(wrong_afresh=("ok_",))
    result = asyncio.run(start(asked(tmp_path), brought=parts(bench=bench)))
    assert result.finished
    assert result.best is None
    assert {one.code for one in again(tmp_path)} == {"WRONG_RESULT"}
    assert list((result.run_dir / "best").iterdir()) == []


def again(out: Path) -> list[Any]:
    return events(the_run(out), WinnerRemeasured)


@pytest.mark.parametrize("odd", ["nan", "inf", "-5", "1e-320"])
def test_an_impossible_time_makes_no_winner(odd: str, tmp_path: Path) -> None:
    def write(brief: Brief, _: Situation) -> Draft:
        time_us = odd if brief.index == 1 else "80"
        return Draft(source=f"// {brief.id}\nint ok_{time_us}_{brief.index};\n")

    brought = parts(generator=Writer(write))
    result = asyncio.run(start(asked(tmp_path, rounds=1, candidates=2), brought=brought))
    assert [one.code for one in result.attempts] == ["INFRA_PROFILER", "PASSED"]
    assert result.best is not None
    assert result.best.id == "r1-c2"


def test_best_that_cannot_be_written_stops_the_run(tmp_path: Path) -> None:
    """A run that went on would end without a result."""

    def in_the_way(_: object) -> None:
        for run in tmp_path.glob("*/run.json"):
            if not (run.parent / "best").exists():
                (run.parent / "best").write_text("a file")

    with pytest.raises(UsageError, match=r"best/report\.md: cannot be written"):
        asyncio.run(start(asked(tmp_path), brought=parts(), observers=[in_the_way]))


CLOCKS = {
    **{"sm_mhz_low": 1935.0, "sm_mhz_high": 1980.0, "celsius": 45.0, "watts": 312.0},
    "throttled_blocks": 3.0,
}


def test_measured_times_are_reported_with_their_spread(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", *beginning())
    run.write_run({**run.read_run(), "task": "matrix_transpose", "device": "cuda:0 NVIDIA H200"})
    size = SizeTime(
        dims={"rows": 2048, "cols": 2048},
        time_us=31.2,
        baseline_us=88.0,
        source="measured",
        spread=0.004,
        paired_speedup=2.82,
        speedup_low=2.80,
        speedup_high=2.84,
        l2="cold",
        note="the baseline was measured earlier",
        clocks=CLOCKS,
        peak_bytes=6_400_000_000,
    )
    verdict = passed(2.82)
    assert verdict.profile is not None
    profile = replace(verdict.profile, source="measured", sizes=(size,), isolation="seccomp")
    run.write_verdict("r1-c1", replace(verdict, profile=profile))

    write_best(run, "r1-c1")
    report = (run.best / "report.md").read_text()
    assert "On: cuda:0 NVIDIA H200, times measured, L2 cold" in report
    assert "- Isolated by seccomp" in report
    assert "- The GPU meanwhile: 1,935 to 1,980 MHz, at most 45 °C and 312 W" in report
    assert "held down in 3 blocks; 6.4 GB of its memory planned at most" in report
    assert (
        "| 31.2 us ±0.4% (the baseline was measured earlier) | 88.0 us | 2.82x (2.80 to 2.84) |"
        in report
    )


@pytest.mark.parametrize("why", ["gpu_host: out of memory", ""])
def test_the_report_says_whether_the_kernel_was_inspected(tmp_path: Path, why: str) -> None:
    seen = KernelInspected(
        round=1, attempt="r1-c1", code="", notes=("small sizes are clean",), not_inspected=why
    )
    run = write_run(tmp_path / "run", *beginning(), seen)
    run.write_run({**run.read_run(), "task": "matrix_transpose", "device": "cuda:0 NVIDIA H100"})
    run.write_verdict("r1-c1", passed(2.82))
    write_best(run, "r1-c1")
    report = (run.best / "report.md").read_text()
    missing = "- **Not inspected: gpu_host: out of memory.**"
    assert (missing in report) == bool(why)
    assert "- Inspected: small sizes are clean" in report
