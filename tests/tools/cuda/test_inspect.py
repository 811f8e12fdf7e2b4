"""A closer look, with tools that replay what the real ones once said."""

import asyncio
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest

from cuda_llm.capabilities import Capabilities
from cuda_llm.outcomes import DataRace
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tools.compiler.compile import baseline_request, compile_candidate
from cuda_llm.tools.compiler.nvcc import Toolkit
from cuda_llm.tools.cuda.inspect import inspect, small_sizes
from cuda_llm.tools.cuda.ncu import ncu_duration_us
from cuda_llm.tools.cuda.site import GPU_CAPABILITIES
from cuda_llm.tools.cuda.vendor_tools import find_tool, missing_note
from cuda_llm.tools.device import Site
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.inspection import Inspection, InspectionOptions
from cuda_llm.tools.judge.inspection import inspect_there

RECORDED = Path(__file__).parents[2] / "fixtures/counters"
TASK = load_task("matrix_transpose")
DIMS = {"rows": 64, "cols": 64}

NCU = """
for word in "$@"; do case $word in
  --import) cat {ncu}/transpose.csv; exit;;
  -o) wrote=1;;
  *) [ "$wrote" = 1 ] && {{ echo report > $word.ncu-rep; exit; }};;
esac; done
cat {ncu}/two_passes.csv
"""
SANITIZER = """
[ $2 = racecheck ] && {racecheck}
cat {sanitizer}/clean.memcheck.txt
"""
RACE = "{{ cat {sanitizer}/race.racecheck.txt; exit 86; }}"
CLEAN_ALL = SANITIZER.replace("{racecheck}", "{{ cat {sanitizer}/clean.racecheck.txt; exit; }}")
CLEAN = "{{ cat {sanitizer}/clean.racecheck.txt; exit; }}"


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    outcome = asyncio.run(compile_candidate(baseline_request(TASK, "sm_90")))
    assert isinstance(outcome, Compiled)
    return outcome


class Tools:
    """Programs that come first on PATH, and beside them what they replay."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        (folder / "bin").mkdir()
        for variable in ("CUDA_HOME", "CUDA_PATH"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("PATH", os.pathsep.join([str(folder / "bin"), os.environ["PATH"]]))

    def add(self, name: str, script: str) -> None:
        folders = {kind: self._folder / kind for kind in ("ncu", "sanitizer")}
        for kind, copy in folders.items():
            shutil.copytree(RECORDED / kind, copy, dirs_exist_ok=True)
        path = self._folder / "bin" / name
        path.write_text("#!/bin/sh\n" + script.format(**folders))
        path.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    return Tools(tmp_path, monkeypatch)


def look(compiled: Compiled, **options: object) -> Inspection:
    return asyncio.run(inspect(TASK, compiled, DIMS, InspectionOptions(**options)))  # type: ignore[arg-type]


def test_what_is_missing_is_a_note_with_its_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = Toolkit(nvcc=tmp_path / "nvcc", root=tmp_path, version="13.0")
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("compute-sanitizer", "cuobjdump"):
        assert find_tool(name, bare) is None
        assert f"{name} is not installed; install it" in missing_note(name, "check")
        (tmp_path / name).touch(mode=0o755)
        assert find_tool(name, bare) == tmp_path / name


@dataclass(frozen=True)
class Gpu:
    """As much of a GPU's site as an inspection asks for before it begins."""

    name: str = "cuda:0"
    capabilities: Capabilities = GPU_CAPABILITIES

    async def release_unused(self) -> None:
        """See `Site.release_unused`."""

    inspect = staticmethod(inspect)
    """See `InspectingSite.inspect`."""


def test_a_machine_without_a_toolkit_inspects_nothing_and_says_why(
    compiled: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LLM_NVCC", "/nowhere/nvcc")
    found = asyncio.run(inspect_there(cast(Site, Gpu()), TASK, compiled, DIMS, InspectionOptions()))
    assert found.not_inspected.startswith("the setting nvcc")
    assert found.fault is None and found.is_finished


def test_a_wish_for_nothing_needs_no_tool(compiled: Compiled) -> None:
    assert look(compiled, counters=False, sanitizers=(), sass=False) == Inspection()


def test_counters_and_their_report_are_kept(tools: Tools, compiled: Compiled) -> None:
    tools.add("ncu", NCU)
    found = look(compiled, sanitizers=(), sass=False)
    assert [one.kernel for one in found.counters] == ["matrix_transpose"]
    assert found.counters[0].figures["sectors_per_request"] == 18
    assert found.artefacts["counters.ncu-rep"].read_text() == "report\n"
    assert "counted 1 kernel: 252 us" in found.notes[0]


@pytest.mark.parametrize(
    ("script", "note"),
    [
        ("cat {ncu}/no_kernels.txt", "ncu saw no kernel"),
        ("echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'; exit 1",
         "NVreg_RestrictProfilingToAdminUsers=0"),
        ("echo '==ERROR== Unknown option'; exit 3", "ended with code 3: Unknown option"),
        ("echo 'driver: cudaMalloc: cudaErrorNoDevice'; exit 3", "cudaErrorNoDevice"),
        ("sleep 30", "did not finish within 1 s"),
    ],
)  # fmt: skip
def test_counters_that_cannot_be_had_are_a_note(
    tools: Tools, compiled: Compiled, script: str, note: str
) -> None:
    tools.add("ncu", script)
    found = look(compiled, sanitizers=(), sass=False, wall_s=1.0)
    assert found.counters == ()
    assert note in found.notes[0]
    assert "counters.ncu-rep" not in found.artefacts


CHOOSY = "case $* in *--ro*) echo driver: no; exit 3;; esac\n"


def test_a_tool_that_does_not_work_confined_is_told(tools: Tools, compiled: Compiled) -> None:
    tools.add("ncu", CHOOSY + NCU)
    found = look(compiled, sanitizers=(), sass=False)
    assert len(found.counters) == 1
    assert [note for note in found.notes if "without Landlock, with which ncu does not" in note]


def test_a_tool_that_works_confined_never_meets_a_loose_candidate(
    tools: Tools, compiled: Compiled
) -> None:
    tools.add("compute-sanitizer", "case $* in *--ro*) ;; *) exit 9;; esac\n" + CLEAN_ALL)
    found = look(compiled, counters=False, sass=False)
    assert {one.state for one in found.sanitized} == {"clean"}
    assert not [note for note in found.notes if "Landlock, with which" in note]


def test_a_candidate_that_fails_confined_is_not_let_loose(tools: Tools, compiled: Compiled) -> None:
    ours = "case $* in *out:128*) cat {sanitizer}/clean.memcheck.txt; exit;; esac\n"
    tools.add("compute-sanitizer", ours + CHOOSY + CLEAN_ALL)
    found = look(compiled, counters=False, sass=False)
    assert {one.state for one in found.sanitized} == {"not run"}


def test_sanitizers_that_do_not_work_confined_run_once_more_without(
    tools: Tools, compiled: Compiled
) -> None:
    tools.add("compute-sanitizer", CHOOSY + CLEAN_ALL)
    found = look(compiled, counters=False, sass=False)
    assert {one.state for one in found.sanitized} == {"clean"}
    assert [note for note in found.notes if "without Landlock, with which compute-san" in note]


def test_no_kernel_of_ours_is_tried_where_sanitizers_work_confined(
    tools: Tools, compiled: Compiled
) -> None:
    tools.add("compute-sanitizer", "case $* in *out:128*) exit 9;; esac\n" + CLEAN_ALL)
    found = look(compiled, counters=False, sass=False)
    assert {one.state for one in found.sanitized} == {"clean"}


def test_a_race_is_a_fault(tools: Tools, compiled: Compiled) -> None:
    tools.add("compute-sanitizer", SANITIZER.replace("{racecheck}", RACE))
    found = look(compiled, counters=False, sass=False)
    assert isinstance(found.fault, DataRace)
    assert [note for note in found.notes if "found nothing: memcheck, initcheck" in note]


ARRIVES = """
__global__ void add(const float* A, const float* B, float* C, int n) {
    __shared__ float sums[32];
    int i = blockIdx.x * 32 + threadIdx.x % 32;
    if (threadIdx.x < 32) {
        sums[threadIdx.x] = i < n ? A[i] + B[i] : 0;
        asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        if (i < n) C[i] = sums[threadIdx.x % 32];
    }
}
extern "C" void solve(const float* A, const float* B, float* C, int n) {
    add<<<(n + 31) / 32, 64>>>(A, B, C, n);
}
"""


def test_a_race_at_barriers_that_racecheck_does_not_follow_waits_for_the_emulated_device(
    tools: Tools,
) -> None:
    task = load_task("vector_add")
    request = replace(baseline_request(task, "sm_90"), source=ARRIVES)
    tools.add("compute-sanitizer", SANITIZER.replace("{racecheck}", RACE))
    built = asyncio.run(compile_candidate(request))
    assert isinstance(built, Compiled)
    options = InspectionOptions(counters=False, sass=False)
    found = asyncio.run(inspect(task, built, {"n": 64}, options))
    assert {one.state for one in found.sanitized if one.tool == "racecheck"} == {"doubted"}
    assert [note for note in found.notes if "racecheck reports a race, but" in note]
    assert isinstance(found.fault, DataRace)
    assert replace(found, emulated_clean=True).fault is None


def test_every_sanitizer_runs_at_every_small_size(tools: Tools, compiled: Compiled) -> None:
    tools.add("compute-sanitizer", SANITIZER.replace("{racecheck}", CLEAN))
    found = look(compiled, counters=False, sass=False)
    assert found.fault is None
    assert len(found.sanitized) == 3 * len(small_sizes(TASK))
    assert {one.state for one in found.sanitized} == {"clean"}


def test_a_sanitizer_that_did_not_finish_is_not_clean(tools: Tools, compiled: Compiled) -> None:
    tools.add("compute-sanitizer", SANITIZER.replace("{racecheck}", "sleep 30"))
    found = look(compiled, counters=False, sass=False, wall_s=1.0)
    assert found.fault is None
    assert "racecheck did not finish within 1 s" in found.notes
    assert not [note for note in found.notes if "racecheck at small sizes" in note]


def test_the_duration_is_that_of_all_kernels_together(tools: Tools) -> None:
    tools.add("ncu", NCU)
    assert asyncio.run(ncu_duration_us(["/bin/true"], True)) == pytest.approx(5.92 + 2.016)
    tools.add("ncu", "cat {ncu}/no_kernels.txt")
    assert asyncio.run(ncu_duration_us(["/bin/true"], True)) == "no counters: ncu saw no kernel"


@pytest.mark.parametrize("name", list_tasks())
def test_small_sizes_are_edge_sizes(name: str) -> None:
    task = load_task(name)
    sizes = small_sizes(task)
    assert 1 <= len(sizes) <= 2
    assert all(dims in task.sizes.edge for dims in sizes)
