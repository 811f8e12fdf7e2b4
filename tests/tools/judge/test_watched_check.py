"""What the emulated device says of kernels that a GPU accepted."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from corpus import TASKS
from corpus_sample import sample
from measured_site import named
from small_tasks import small_task

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import (
    DataRace,
    DeviceAssert,
    GuardOverwritten,
    IllegalAccess,
    InvalidSync,
    LateWrite,
    MemoryAccess,
    Misaligned,
    Nondeterministic,
    TimedOut,
    UninitialisedRead,
    Verdict,
)
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.device import Level
from cuda_llm.tools.device.inspection import Inspection, SanitizerResult
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.judge.inspection import join_inspections
from cuda_llm.tools.judge.watched_check import (
    CHECK_LIMIT_S,
    MOST_WATCHED_WORK,
    WatchedCases,
    WatchedCheck,
    check_watched,
    conclude_check,
    watched_cases,
)
from cuda_llm.tools.validator.cases import generator

FIXTURES = Path(__file__).parents[2] / "fixtures"
H200 = EmulatedDevice(find_hardware("H200"))
CLEAN = ("the emulated device found nothing: races, accesses, barriers, results at small sizes",)
PASSED = WatchedCheck(clean=True, notes=CLEAN)
RACE = DataRace(kind="write-write")


def check_kernel(
    task: str, kernel: Path, device: EmulatedDevice = H200, limit_s: float = CHECK_LIMIT_S
) -> WatchedCheck:
    source = kernel.read_text()
    compiled = replace(named(kernel.name), source=source)
    checking = check_watched(load_task(task), device, compiled, limit_s=limit_s)
    return asyncio.run(checking)


@pytest.mark.evidence
def test_a_race_between_stores_and_atomics_is_found_with_its_line() -> None:
    check = check_kernel("histogram", FIXTURES / "mutants/histogram/missing_barrier.cu")
    assert isinstance(check.fault, DataRace)
    lines = {spot.text for spot in (check.fault.spot, check.fault.other) if spot is not None}
    assert "counts[bin] = 0;" in lines
    assert check.notes == ("the emulated device found DATA_RACE at a small size",)


@pytest.mark.parametrize(
    "kernel",
    sample(
        [
            "histogram/01_shared_private.cu",
            "matrix_transpose/01_tiled_padded.cu",
            "reduction/02_warp_shuffle.cu",
        ],
        every=3,
    ),
)
def test_an_honest_kernel_has_no_fault(kernel: str) -> None:
    task = kernel.partition("/")[0]
    assert check_kernel(task, FIXTURES / "honest" / kernel) == PASSED


@pytest.mark.evidence
def test_products_of_warpgroups_are_checked() -> None:
    halves = FIXTURES / "honest_extra/wgmma_and_tma.cu"
    assert check_kernel(str(TASKS / "half_gemm"), halves) == PASSED


def test_what_only_a_gpu_executes_is_a_note(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.cu"
    baseline = Path(load_task("vector_add").baseline).read_text()
    product = "mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%0, %1}, {%2}, {%2}, {%2, %2};"
    narrow = f'int d, e; asm volatile("{product}" : "=r"(d), "=r"(e) : "r"(i));'
    kernel.write_text(baseline.replace("if (i < n)", f"{narrow} if (i < n)"))
    check = check_kernel("vector_add", kernel)
    assert check.fault is None
    (note,) = check.notes
    assert note.startswith("not run on the emulated device: ")
    assert note.endswith(", which only a real GPU executes")


def test_a_kernel_that_does_not_compile_for_the_chip_is_a_note(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.cu"
    kernel.write_text("#if __CUDA_ARCH__ == 900\n#error not here\n#endif\n")
    check = check_kernel("vector_add", kernel)
    assert check.fault is None
    assert check.notes[0].startswith("not run on the emulated device: kernel.cu:2")


def test_a_chip_that_nvcc_does_not_know_is_a_note() -> None:
    ancient = EmulatedDevice(replace(H200.hardware, target="sm_10"))
    check = check_kernel("vector_add", load_task("vector_add").baseline, ancient)
    assert check.fault is None
    assert check.notes[0].startswith("not run on the emulated device: nvcc")


def test_a_machine_without_a_host_compiler_is_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LLM_NVCC", str(find_toolkit().nvcc))
    assert find_toolkit()
    monkeypatch.setenv("PATH", str(tmp_path))
    check = check_kernel("vector_add", load_task("vector_add").baseline)
    assert check.fault is None
    assert check.notes[0].startswith("not run on the emulated device: g++ is missing")


def test_a_check_that_takes_too_long_is_a_note() -> None:
    check = check_kernel("vector_add", load_task("vector_add").baseline, limit_s=0.0)
    assert check == WatchedCheck(notes=("the emulated device did not finish within 0 s",))


@pytest.mark.parametrize(
    ("verdict", "is_fault"),
    [
        (RACE, True),
        (IllegalAccess(access=MemoryAccess(space="global", kind="read", bytes=4)), True),
        (Misaligned(access=MemoryAccess(space="global", bytes=16)), True),
        (UninitialisedRead(access=MemoryAccess(space="shared", kind="read")), True),
        (InvalidSync(kind="divergent-barrier"), True),
        (DeviceAssert(reason="trap"), False),
        (TimedOut(stage="kernel", limit_s=10), False),
        (Nondeterministic(buffer="C"), True),
        (GuardOverwritten(buffer="C", side="after", offset_bytes=0), True),
        (LateWrite(buffer="C"), False),
    ],
)
def test_a_fault_is_what_no_limit_of_this_device_explains(verdict: Verdict, is_fault: bool) -> None:
    check = conclude_check(WatchedCases(verdict=verdict))
    assert check.fault == (verdict if is_fault else None)
    assert verdict.code in check.notes[0]
    assert ("the GPU's verdict stands" in check.notes[0]) is not is_fault


def joined(inspection: Inspection, check: WatchedCheck) -> Inspection:
    async def inspecting() -> Inspection:
        return inspection

    async def checking() -> WatchedCheck:
        return check

    return asyncio.run(join_inspections(inspecting(), checking()))


def test_a_fault_of_either_is_one_of_the_kernel_and_the_gpus_own_comes_first() -> None:
    here = WatchedCheck(fault=RACE, notes=("here",))
    clean = Inspection(notes=("there",))
    own = IllegalAccess(access=MemoryAccess(space="global", kind="read", bytes=4))
    there = SanitizerResult(tool="memcheck", state="found", verdicts=(own,))
    assert joined(clean, here).fault == RACE
    assert joined(replace(clean, sanitized=(there,)), here).fault == own
    assert joined(clean, here).notes == ("there", "here")
    assert joined(clean, WatchedCheck()) == clean


def test_a_doubted_race_counts_unless_the_emulated_device_ran_the_kernel_and_found_nothing() -> (
    None
):
    said = SanitizerResult(tool="racecheck", state="doubted", doubted=(RACE,), note="doubted")
    there = Inspection(sanitized=(said,), notes=("doubted",))
    assert joined(there, conclude_check(WatchedCases())).fault is None
    assert joined(there, conclude_check(WatchedCases())).notes == ("doubted", *CLEAN)
    unsupported = conclude_check(WatchedCases(verdict=TimedOut(stage="kernel", limit_s=10)))
    for unable in (WatchedCheck(notes=("not finished",)), unsupported):
        assert joined(there, unable).fault == RACE
    own = InvalidSync(kind="divergent-barrier")
    assert joined(there, conclude_check(WatchedCases(verdict=own))).fault == own
    certain = replace(said, state="found", verdicts=(RACE,))
    assert (
        joined(replace(there, sanitized=(certain,)), conclude_check(WatchedCases())).fault == RACE
    )


HANDS_OVER = """
__device__ void arrive(int at) { asm volatile("bar.arrive %0, 96;" :: "r"(at) : "memory"); }
__device__ void wait(int at) { asm volatile("bar.sync %0, 96;" :: "r"(at) : "memory"); }
enum { FREE = 2, READY = 4 };

__global__ void add(const float* A, const float* B, float* C, int n) {
    __shared__ float sums[2][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int turn = 0; turn < 8; ++turn) {
        int i = (blockIdx.x * 8 + turn) * 32 + lane, half = turn % 2;
        if (warp == 0) {
            if (turn >= 2) wait(FREE + half);
            sums[half][lane] = i < n ? A[i] + B[i] : 0;
            arrive(READY + half);
        } else {
            wait(READY + half);
            if (i < n && lane % 2 == warp - 1) C[i] = sums[half][lane];
            if (turn < 6) arrive(FREE + half);
        }
    }
}
extern "C" void solve(const float* A, const float* B, float* C, int n) {
    add<<<(n + 255) / 256, 96>>>(A, B, C, n);
}
"""
"""One warp adds and two store: they meet at named barriers, where one side does not wait."""


def check_text(source: str) -> WatchedCheck:
    compiled = replace(named("kernel.cu"), source=source)
    return asyncio.run(check_watched(small_task("vector_add"), H200, compiled))


def test_the_emulated_device_follows_barriers_at_which_warps_only_arrive() -> None:
    assert check_text(HANDS_OVER) == PASSED
    step = "wait(READY + half);"
    assert HANDS_OVER.count(step) == 1
    assert check_text(HANDS_OVER.replace(step, "")).fault is not None


def test_a_size_that_is_too_slow_there_is_left_out_and_the_others_are_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_LLM_CALL_LIMIT_S", "1")
    source = load_task("vector_add").baseline.read_text()
    grid = "(n + threads - 1) / threads"
    assert source.count(grid) == 1
    slow = source.replace(grid, f"n == 1 ? 1 << 30 : {grid}")
    check = check_text(slow)
    assert check.fault is None and check.clean
    assert check.notes == (f"{CLEAN[0]}, without n = 1: too slow there",)
    assert check_text(slow.replace("A[i] + B[i]", "A[i] - B[i]")).fault is not None


def test_a_gpu_that_breaks_ends_the_check_on_the_emulated_device() -> None:
    ended: list[bool] = []

    async def breaking() -> Inspection:
        await asyncio.sleep(0)
        raise ConnectionError

    async def checking() -> WatchedCheck:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)
        return WatchedCheck()

    with pytest.raises(ConnectionError):
        asyncio.run(join_inspections(breaking(), checking()))
    assert ended == [True]


@pytest.mark.parametrize("name", list_tasks())
def test_every_edge_size_and_one_like_those_timed_is_watched_for_races(name: str) -> None:
    task = load_task(name)
    cases = watched_cases(task, generator(b"1" * 16, name, "plan", 0))
    assert {case.level for case in cases} == {Level.FULL}
    assert max(case.work for case in cases) <= MOST_WATCHED_WORK
    listed = [*task.sizes.edge, task.sizes.emulated[0]]
    assert all(any(case.dims == dims for case in cases) for dims in listed)
    assert all(case.dims in listed for case in cases)
