"""What compute-sanitizer finds becomes a verdict with kernel, line and thread."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from cuda_llm.outcomes import (
    DataRace,
    IllegalAccess,
    Location,
    MemoryAccess,
    Misaligned,
    ThreadSpot,
    UninitialisedRead,
)
from cuda_llm.profile import KernelResources
from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.cuda.sanitizer import (
    read_findings,
    read_result,
    summary_errors,
)
from cuda_llm.tools.cuda.vendor_tools import ToolRun
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.inspection import SanitizerResult

FIXTURES = Path(__file__).parents[2] / "fixtures/counters"


def candidate(bug: str) -> Compiled:
    return Compiled(
        key="0",
        name="mine.cu",
        source=(FIXTURES / f"bugs/{bug}.cu").read_text(),
        target="sm_90a",
        library=Path("candidate.so"),
        ptx=Path(os.devnull),
        kernels=(),
    )


def recorded(bug: str, tool: str) -> str:
    return (FIXTURES / f"sanitizer/{bug}.{tool}.txt").read_text()


def line(bug: str, number: int) -> SourceSpot:
    text = (FIXTURES / f"bugs/{bug}.cu").read_text().splitlines()[number - 1].strip()
    return SourceSpot(file="mine.cu", line=number, text=text)


def test_a_read_past_the_end() -> None:
    assert read_findings(recorded("oob_read", "memcheck"), candidate("oob_read")) == (
        IllegalAccess(
            access=MemoryAccess(
                space="global",
                kind="read",
                bytes=4,
                location=Location(
                    relation="past-end", owner="allocation", offset_bytes=4000, size_bytes=4000
                ),
            ),
            thread=ThreadSpot(kernel="add", block=(3, 0, 0), thread=(200, 0, 0)),
            spot=line("oob_read", 7),
        ),
    )


def test_a_write_past_the_end_in_a_template() -> None:
    (found,) = read_findings(recorded("oob_write", "memcheck"), candidate("oob_write"))
    assert isinstance(found, IllegalAccess)
    assert found.access is not None
    assert (found.access.kind, found.spot) == ("write", line("oob_write", 7))
    assert found.thread == ThreadSpot(kernel="add<256>", block=(3, 0, 0), thread=(232, 0, 0))


def test_shared_memory_past_its_end() -> None:
    (found,) = read_findings(recorded("oob_shared", "memcheck"), candidate("oob_shared"))
    assert isinstance(found, IllegalAccess)
    assert found.access == MemoryAccess(space="shared", kind="write", bytes=4)


def test_a_race_names_both_lines() -> None:
    assert read_findings(recorded("race", "racecheck"), candidate("race")) == (
        DataRace(
            kind="write-read",
            hazards=4000,
            spot=line("race", 7),
            other=line("race", 9),
        ),
    )


def test_a_race_of_two_writes() -> None:
    (found,) = read_findings(recorded("race_ww", "racecheck"), candidate("race_ww"))
    assert isinstance(found, DataRace)
    assert (found.kind, found.spot, found.other) == (
        "write-write",
        line("race_ww", 7),
        line("race_ww", 7),
    )


def test_a_read_of_what_nobody_wrote() -> None:
    (found,) = read_findings(recorded("uninit", "initcheck"), candidate("uninit"))
    assert isinstance(found, UninitialisedRead)
    assert found.access == MemoryAccess(space="global", kind="read", bytes=4)
    assert found.spot == line("uninit", 7)
    assert found.thread is not None


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_a_clean_run_finds_nothing(tool: str) -> None:
    assert read_findings(recorded("clean", tool), candidate("clean")) == ()
    assert summary_errors(recorded("clean", tool)) == 0


def run(output: str, exit_code: int | None = 0) -> ToolRun:
    return ToolRun(exit_code=exit_code, output=output)


def test_clean_is_said_only_of_a_run_that_came_to_its_summary() -> None:
    clean = recorded("clean", "racecheck")
    assert read_result("racecheck", run(clean), candidate("clean"), 30).state == "clean"
    begun = clean.splitlines()[0] + "\n"
    assert read_result("racecheck", run(begun), candidate("clean"), 30).state == "not run"
    late = read_result("racecheck", run(begun, None), candidate("clean"), 30)
    assert (late.state, late.note) == ("not finished", "racecheck did not finish within 30 s")


def test_what_was_found_before_the_clock_struck_counts() -> None:
    found = read_result(
        "racecheck", run(recorded("race", "racecheck"), None), candidate("race"), 30
    )
    assert found.state == "found"


def test_an_error_that_is_no_finding_is_told_and_is_not_clean() -> None:
    asserted = read_result(
        "memcheck", run(recorded("asserts", "memcheck"), 86), candidate("asserts"), 30
    )
    assert asserted.state == "not run"
    assert asserted.verdicts == ()
    assert asserted.note


def test_a_driver_that_could_not_start_says_why() -> None:
    text = "========= COMPUTE-SANITIZER\ndriver: cudaMalloc: cudaErrorMemoryAllocation\n"
    text += "========= Target application returned an error\n========= ERROR SUMMARY: 0 errors\n"
    said_so = read_result("memcheck", run(text, 3), candidate("clean"), 30)
    assert said_so.state == "not run"
    assert "cudaErrorMemoryAllocation" in said_so.note


def test_a_place_in_a_header_keeps_the_headers_name() -> None:
    text = recorded("oob_read", "memcheck").replace("kernel.cu:7", "/usr/include/block_load.cuh:7")
    (found,) = read_findings(text, candidate("oob_read"))
    assert getattr(found, "spot", None) == SourceSpot(file="block_load.cuh", line=7)


def test_a_misaligned_access_is_told_apart() -> None:
    assert read_findings(recorded("misaligned", "memcheck"), candidate("misaligned")) == (
        Misaligned(
            access=MemoryAccess(
                space="global",
                kind="read",
                bytes=16,
                location=Location(
                    relation="inside", owner="allocation", offset_bytes=4, size_bytes=4000
                ),
            ),
            thread=ThreadSpot(kernel="add", block=(0, 0, 0), thread=(0, 0, 0)),
            spot=line("misaligned", 7),
        ),
    )


def test_an_atomic_past_the_end_is_one() -> None:
    (found,) = read_findings(recorded("oob_atomic", "memcheck"), candidate("oob_atomic"))
    assert isinstance(found, IllegalAccess)
    assert found.access is not None
    assert found.access.kind == "atomic"


@pytest.mark.parametrize(("bug", "tool"), [("race_same", "racecheck"), ("refused", "memcheck")])
def test_what_is_no_fault_of_a_kernel_is_clean(bug: str, tool: str) -> None:
    """The same value from every thread; a launch that CUDA refused and the candidate made good."""
    assert read_result(tool, run(recorded(bug, tool)), candidate(bug), 30).state == "clean"


def test_a_kernel_that_hangs_is_not_finished() -> None:
    hung = read_result("memcheck", run(recorded("hangs", "memcheck"), None), candidate("hangs"), 8)
    assert hung.state == "not finished"


ADD = KernelResources(
    kernel="add",
    symbol="_Z3addPKfS0_Pfi",
    registers=8,
    shared_bytes=0,
)
OTHER = replace(ADD, kernel="scale", symbol="_Z5scalePf")


def racing(folder: Path, add: str, other: str = "", function: str = "") -> SanitizerResult:
    """What becomes of the recorded race in `add` where the program has these instructions."""
    ptx = folder / "kernel.ptx"
    ptx.write_text(
        f".version 9.0\n.func helper()\n{{\n{function}\n}}\n"
        f".visible .entry {ADD.symbol}(\n.param .u64 a\n)\n{{\n{add}\n}}\n"
        f".visible .entry {OTHER.symbol}(\n.param .u64 a\n)\n{{\n{other}\n}}\n"
    )
    compiled = replace(candidate("race"), ptx=ptx, kernels=(ADD, OTHER))
    return read_result("racecheck", run(recorded("race", "racecheck"), 86), compiled, 30)


@pytest.mark.parametrize(
    "instruction",
    [
        "bar.arrive 1, 64;",
        "barrier.arrive 1, 64;",
        "@%p1 barrier.cta.arrive.aligned %r1, 64;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, "
        "[%r2];",
        "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, "
        "{%r3, %r4}], [%r2];",
    ],
)
def test_a_race_beside_what_racecheck_does_not_follow_is_doubted(
    tmp_path: Path, instruction: str
) -> None:
    found = racing(tmp_path, instruction)
    assert (found.state, found.verdicts) == ("doubted", ())
    assert [one.code for one in found.doubted] == ["DATA_RACE"]
    assert "racecheck reports a race, but does not follow barriers" in found.note
    assert racing(tmp_path, "", function=instruction).state == "doubted"


@pytest.mark.parametrize(
    "instruction",
    [
        "bar.sync 1, 64;",
        "mbarrier.arrive.shared.b64 _, [%r1];",
        "barrier.cluster.arrive;",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;",
        "// bar.arrive 1, 64;",
        "/* bar.arrive\n1, 64; */",
    ],
)
def test_a_race_among_instructions_that_racecheck_follows_counts(
    tmp_path: Path, instruction: str
) -> None:
    found = racing(tmp_path, instruction)
    assert (found.state, found.doubted, found.note) == ("found", (), "")


def test_a_kernel_is_not_excused_by_the_barriers_of_another(tmp_path: Path) -> None:
    assert racing(tmp_path, "bar.sync 0;", other="bar.arrive 1, 64;").state == "found"
