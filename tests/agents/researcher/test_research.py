"""What the researcher finds out about hardware and task, and what it says it does not know."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from searches import attempt, situation

from cuda_llm.agents.limits import share_of_limit
from cuda_llm.agents.protocols import Contribution
from cuda_llm.agents.researcher.facts import (
    describe_hardware,
    occupancy_facts,
    roofline_facts,
    timed_sizes,
)
from cuda_llm.agents.researcher.research import (
    grid_facts,
    hardware_research,
    instruction_facts,
    provenance_facts,
)
from cuda_llm.agents.situation import Situation
from cuda_llm.capabilities import Capabilities
from cuda_llm.codec import decode, encode
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.lookup import find_hardware, list_hardware
from cuda_llm.hardware_profiles.occupancy import occupancy
from cuda_llm.tasks.element_types import element_type
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.sizes import item_bytes, least_time, usable_precision
from cuda_llm.tasks.task import CTYPES

GPU = Capabilities(measures_time=True, bench_sizes=True)

TASKS = (
    "vector_add",
    "matrix_multiplication",
    "matrix_transpose",
    "conv2d",
    "reduction",
    "histogram",
)
H200 = find_hardware("h200_sxm5_141gb")


def before_anything(task: str = "matrix_transpose", **fields: Any) -> Situation:
    """A run that has just begun: nothing was timed yet."""
    given = {"task": load_task(task), "round": 0, "sizes": (), "baseline_us": (), **fields}
    return replace(situation(), **given)


def research(found: Situation) -> Contribution:
    return asyncio.run(hardware_research(found))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("hardware", list_hardware(), ids=lambda one: one.slug)
def test_every_task_on_every_gpu_is_researched(task: str, hardware: Any) -> None:
    made = research(before_anything(task, hardware=hardware))
    assert made.note is not None
    assert made.note.about_hardware
    assert set(made.note.data) == {
        *("sizes", "occupancy", "copies", "grid"),
        *("instructions", "provenance"),
    }
    assert len(made.note.text) < 4000
    json.dumps(made.note.data, allow_nan=False)
    assert decode(Contribution, encode(made)) == made


def test_the_roofline_of_each_timed_size_is_reported() -> None:
    found = roofline_facts(before_anything())
    rows = found.data
    assert [row["dims"]["rows"] for row in rows] == [512, 1024, 2048]
    # 2 x 4 bytes x 2048^2 over 1,008 GB/s
    assert rows[-1]["least_us"] == pytest.approx(33_554_432 / 1_008e3, rel=1e-6)
    assert [row["bound"] for row in rows] == ["memory"] * 3
    assert [row["fits_l2"] for row in rows] == [True, False, False]


def test_a_compute_bound_task_is_reported_as_one() -> None:
    (*_, largest) = roofline_facts(
        before_anything("matrix_multiplication", hardware=H200, capabilities=GPU)
    ).data
    assert (largest["bound"], largest["precision"]) == ("compute", "fp32")


def test_the_share_that_the_baseline_reaches_is_reported_once_it_was_timed() -> None:
    timed = replace(situation(), baseline_us=(100.0, 200.0))
    rows = roofline_facts(timed).data
    assert rows[0]["baseline_share"] == pytest.approx(rows[0]["attainable_us"] / 100.0)
    assert "the baseline reaches" in roofline_facts(timed).decision
    assert "baseline" not in roofline_facts(before_anything()).decision


def test_the_cost_of_a_second_launch_is_reported_at_the_first_size_and_the_last() -> None:
    def said(found: Situation) -> str:
        return " ".join(roofline_facts(found).lines)

    assert "28% to the attainable time of the first size" in said(before_anything())
    task = load_task("matrix_transpose")
    large = replace(task.sizes, bench=({"rows": 8192, "cols": 8192},))
    at_large = before_anything(capabilities=GPU)
    assert "less than 2%" in said(replace(at_large, task=replace(task, sizes=large)))


def test_the_operands_of_a_tile_are_those_of_its_blocks() -> None:
    rows = grid_facts(before_anything("matrix_multiplication")).data
    (row,) = (one for one in rows if one["tile"] == [64, 64])
    # 64 x 64 outputs over 64 terms: a block reads 64 rows and 64 columns.
    dims = timed_sizes(before_anything("matrix_multiplication"))[0]
    assert row["blocks"] == dims["M"] * dims["N"] / 64**2
    assert row["operand_bytes"] == row["blocks"] * dims["K"] * (64 + 64) * 4


def test_what_waiting_costs_is_said_where_it_is_known_and_estimates_are_called_so() -> None:
    def said(hardware: Hardware) -> str:
        return "\n".join(describe_hardware(before_anything(hardware=hardware)))

    assert "__syncthreads 31 and 2 for each warp after the first" in said(H200)
    assert "grid.sync() 2,000, the result of an atomic in L2 525," in said(H200)
    guessed = replace(H200, origins={"estimated": ("waits.cluster_barrier_clk",)})
    assert "a cluster's barrier 400 (estimate)" in said(guessed)
    assert "waiting for others" not in said(before_anything().hardware)


def test_a_stream_is_told_the_grid_that_fills_the_chip() -> None:
    (line,) = grid_facts(before_anything("vector_add")).lines
    assert "504 blocks of 256 threads" in line


@pytest.mark.parametrize("hardware", list_hardware(), ids=lambda one: one.slug)
def test_occupancy_corners_are_corners(hardware: Any) -> None:
    for row in occupancy_facts(before_anything(hardware=hardware)).data:

        def of(registers: int, shared: int, threads: int = row["threads"]) -> float:
            return occupancy(
                hardware,
                threads_per_block=threads,
                registers_per_thread=registers,
                shared_bytes=shared,
            ).fraction

        assert of(row["registers_full"], 0) == row["most"]
        assert of(row["registers_full"] + 1, 0) < row["most"]
        assert of(row["registers_half"], 0) >= row["most"] / 2
        assert of(16, row["shared_full"]) == row["most"]
        assert of(16, row["shared_half"]) >= row["most"] / 2


def test_instructions_that_the_emulated_device_cannot_execute_are_named() -> None:
    emulated = instruction_facts(before_anything(hardware=H200))
    newest = before_anything(hardware=find_hardware("B200"))
    measured = instruction_facts(before_anything(hardware=find_hardware("B200"), capabilities=GPU))
    assert any("tensor cores" in name for name in emulated.data["usable"])
    assert any("wgmma" in name for name in emulated.data["usable"])
    assert emulated.data["refused"] == []
    assert any("tcgen05" in name for name in instruction_facts(newest).data["refused"])
    assert any("TMA" in name for name in emulated.data["usable"])
    assert measured.data["refused"] == []
    assert any("tensor cores" in name for name in measured.data["usable"])


def test_instructions_follow_the_compute_capability() -> None:
    turing = instruction_facts(before_anything(hardware=find_hardware("GTX 1660 SUPER"))).data
    assert any("cp.async" in name for name in turing["missing"])
    ampere = instruction_facts(before_anything()).data
    assert any("cp.async" in name for name in ampere["usable"])
    assert any("wgmma" in name for name in ampere["missing"])


def test_a_figure_that_was_not_measured_here_is_marked() -> None:
    found = provenance_facts(before_anything())
    assert found.data["DRAM bandwidth"] == "published"
    assert found.data["cost of a launch"] == "estimated"
    assert "cost of a launch" in found.lines[0]
    assert "DRAM bandwidth" not in found.lines[0]
    assert "published: DRAM bandwidth" in found.decision


def test_figures_of_a_probe_count_as_measured() -> None:
    ampere = before_anything().hardware
    keys = ("peaks.dram_gb_s", "boost_clock_mhz", "model", "l2_bytes")
    probed = replace(ampere, origins={"measured": keys})
    found = provenance_facts(before_anything(hardware=probed, capabilities=GPU))
    assert set(found.data.values()) == {"measured"}
    assert (found.lines, found.decision) == ((), "")


def test_a_figure_without_a_source_is_of_unknown_origin() -> None:
    bare = replace(before_anything().hardware, sources={}, origins={})
    found = provenance_facts(before_anything(hardware=bare))
    assert set(found.data.values()) == {None}
    assert found.decision.startswith("no probe on this device; of unknown origin: DRAM bandwidth")


@pytest.mark.parametrize("dtype", CTYPES)
def test_sizes_of_elements_are_those_of_numpy(dtype: str) -> None:
    import numpy as np

    assert item_bytes(dtype) == np.dtype(element_type(dtype).stored_as).itemsize


def test_precision_is_what_task_and_chip_allow() -> None:
    task = load_task("matrix_multiplication")
    turing = find_hardware("GTX 1660 SUPER")
    tf32 = replace(task, tolerance=replace(task.tolerance, precision="tf32"))
    assert usable_precision(task, H200) == "fp32"
    assert usable_precision(tf32, H200) == "tensor:tf32"
    assert usable_precision(tf32, turing) == "fp32"


@given(st.floats(1.0, 1e4), st.floats(1.0, 1e4))
def test_the_share_of_the_limit_is_a_mean_of_the_sizes(first: float, second: float) -> None:
    found = situation(attempt("r1-c1", 1.0, times_us=(first, second)))
    shares = [
        least_time(found.task, found.hardware, dims).reachable_us / time_us
        for dims, time_us in zip(found.sizes, (first, second), strict=True)
    ]
    share = share_of_limit(found, found.attempts[0])
    assert share is not None
    assert share**2 == pytest.approx(shares[0] * shares[1])


def test_without_times_there_is_no_share() -> None:
    found = situation(attempt("r1-c1"))
    assert share_of_limit(found, found.attempts[0]) is None
