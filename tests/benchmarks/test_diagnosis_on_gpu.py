"""What is counted of a kernel, and whether its diagnoses agree with it, without a GPU."""

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from diagnosed_kernels import SIZES, held_back, kernels
from diagnosis_on_gpu import KEPT, MORE, Counter
from diagnosis_rows import compare_rows, summarise
from nsight_rule import L2_COUNTERS, READ, UNITS
from record import RESULTS, read_rows

from cuda_llm.tools.cuda.ncu import METRICS, parse_table
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.steps import compile_source
from cuda_llm.tools.open_device import open_device

OTHER_MEMORY = (*UNITS["dram"], *UNITS["l1"])
PAGES = Path(__file__).parents[1] / "fixtures/counters/ncu"


def test_the_kernels_are_of_all_tasks_and_a_third_is_held_back() -> None:
    names = [one.name for one in kernels()]
    assert len(names) == len(set(names)) >= 44
    assert {one.task for one in kernels()} == set(SIZES)
    assert len(held_back()) == len(names) // 3
    assert {one.name for one in kernels() if one.held_back} == held_back()


def fake_ncu(folder: Path, refused: str) -> Path:
    """Return a program that writes a recorded page, unless it is asked for what it refuses."""
    path = folder / "ncu"
    page = shlex.quote(str(PAGES / "transpose.csv"))
    told = f'echo "==ERROR== Failed to find metric {refused}"; exit 1'
    path.write_text(
        f"#!/bin/sh\necho call >> {shlex.quote(str(folder / 'calls'))}\n"
        f'case "$*" in *{refused}*) {told};; esac\n'
        f"cat {page}\n"
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("refused", "calls"), [("nothing_refused", 2), (READ[5], 7)])
def test_a_metric_that_is_refused_is_asked_for_no_more(
    tmp_path: Path, refused: str, calls: int
) -> None:
    kernel = next(one for one in kernels() if one.task == "matrix_transpose")
    device = open_device("emulated:H200")

    async def count_twice() -> list[dict[str, Any]]:
        made = await compile_source(kernel.load_task(), device, kernel.source, "kernel.cu")
        assert isinstance(made, Compiled), made
        counter = Counter(fake_ncu(tmp_path, refused))
        return [await counter.count(kernel, made) for _ in range(2)]

    for found in asyncio.run(count_twice()):
        assert [one["kernel"] for one in found["counted"]] == ["matrix_transpose"]
        assert "ncu" not in found
    assert len((tmp_path / "calls").read_text().split()) == calls


def test_what_the_rule_reads_are_other_metrics_than_those_of_the_diagnosis_too() -> None:
    assert set(READ) - set(METRICS)
    assert len({*METRICS, *READ, *MORE}) < 120


def row(name: str, *, held_back: bool, time_us: float = 253.0) -> dict[str, Any]:
    counted = parse_table((PAGES / "transpose.csv").read_text())
    return {
        "name": name,
        "task": "matrix_transpose",
        "dims": {"rows": 4096, "cols": 4096},
        "held_back": held_back,
        "code": "PASSED",
        "time_us": time_us,
        "launches": [
            {
                "kernel": "matrix_transpose",
                "grid": [128, 512, 1],
                "block": [32, 8, 1],
                "shared_bytes": 0,
                "occupancy": 1.0,
                "time_us": 0.0,
                "terms_us": {},
                "figures": {"blocks": 65536.0},
            }
        ],
        "timed": [],
        "counted": [{"kernel": one.kernel, "metrics": dict(one.metrics)} for one in counted],
    }


def test_diagnoses_are_made_again_of_what_was_recorded_and_compared() -> None:
    rows = [row("a", held_back=True), row("b", held_back=False), {"name": "c", "code": "TIMED_OUT"}]
    for one, code in zip(rows, ("uncoalesced_global", "issue"), strict=False):
        one["modelled"] = [{"code": code}]
    found = compare_rows(rows)
    assert [one["name"] for one in found] == ["a", "b"]
    assert found[0]["named"]["inspected"][0] == "uncoalesced_global"
    assert "uncoalesced_global" in found[0]["causes"]
    assert [one["agree"]["modelled"] for one in found] == [True, False]
    figures = summarise(found)
    assert figures["all"]["kernels"] == 2
    assert figures["held back"]["modelled"] == {
        "compared": 1,
        "agree": 1.0,
        "agree_strictly": 1.0,
        "agree_as_written": 1.0,
    }
    assert figures["others"]["modelled"]["agree"] == 0.0


def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "h200_diagnosis.json").read_text())
    return found


def test_the_diagnosis_with_counters_names_what_they_show_in_four_of_five_kernels() -> None:
    figures = recorded()["figures"]
    assert figures["all"]["kernels"] >= 40
    for part in ("all", "held back", "others"):
        assert figures[part]["inspected"]["agree"] >= 0.8


def test_today_s_diagnoses_of_the_recorded_counters_are_those_published() -> None:
    found = compare_rows(read_rows(KEPT))
    assert summarise(found) == recorded()["figures"]
    assert found == recorded()["kernels"]


def test_memory_throughput_is_what_we_take_l2_from() -> None:
    for kernel in read_rows(KEPT):
        for metrics in (one["metrics"] for one in kernel["counted"]):
            parts = [metrics.get(name, 0.0) for name in (*L2_COUNTERS, *OTHER_MEMORY)]
            assert max(parts) == pytest.approx(metrics[MORE[1]], abs=0.005), kernel["name"]


def test_an_h200_counts_every_metric_that_is_asked_for() -> None:
    for kernel in read_rows(KEPT):
        for one in kernel["counted"]:
            assert [name for name in METRICS if name not in one["metrics"]] == []
