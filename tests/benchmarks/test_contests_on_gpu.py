"""The script that measures contests, searches and evaluations, without a GPU."""

import asyncio
from pathlib import Path
from typing import Any

from contests_on_gpu import summarise
from graph_runs import Writer
from measured_runs import DuelTableBench, measuring_device
from playbook_search import distinct_kernels
from searches import situation
from watched_search import (
    NeighbourGenerator,
    WatchedDevice,
    open_context,
    profiled_functions_there,
    search,
)

from cuda_llm.agents.situation import Plan, Situation
from cuda_llm.search import Brief, Draft, Kind
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.judge.device_bench import open_bench
from cuda_llm.tools.judge.steps import compile_baseline, validate_there
from cuda_llm.tools.open_device import open_device


def searched(folder: Path, *rounds: tuple[int, ...]) -> dict[str, Any]:
    """What a search came to whose kernels take so many microseconds, by round and index."""

    def write(brief: Brief, _: Situation) -> Draft:
        us = rounds[brief.round - 1][brief.index - 1]
        return Draft(source=f"int ok_{us}_{brief.round}{brief.index};\n")

    plan = Plan(candidates=len(rounds[0]), rounds=len(rounds))
    task, device = load_task("vector_add"), measuring_device()
    context = open_context(task, device, DuelTableBench(), folder, Writer(write), plan)
    return asyncio.run(search(context))


def test_a_search_goes_through_the_nodes_of_a_run(tmp_path: Path) -> None:
    found = searched(tmp_path, (900, 800), (700, 850), (600, 603))
    assert found["stop"] == "rounds"
    assert found["speedup"] is not None
    assert found["outcomes"] == ["faster", "faster", "faster"], "two of them in one contest"
    assert len(found["contests_s"]) == 2
    assert len(found["inspections_s"]) == 3
    assert found["stages_s"].keys() == {"generate", "compile", "validate", "profile"}
    assert {"strategy", "candidates", "choose", "reflection", "finish"} <= found["by_node_s"].keys()


def test_neighbours_are_tried_each_once_until_none_is_left() -> None:
    task = load_task("vector_add")
    writer, known = NeighbourGenerator(task, seed=1), dict(distinct_kernels(task))
    brief = Brief(id="r1-c1", round=1, index=1, kind=Kind.FIRST)
    drafts = [asyncio.run(writer.generate(brief, situation())) for _ in range(len(known) + 1)]
    sources = {one.source for one in drafts if isinstance(one, Draft)}
    assert sources == {source for _, source in known.values()}


def test_the_summary_holds_figures_beside_their_bars() -> None:
    run = {"part": "run", "trial": "reduction", "seconds": 30.0, "contests_s": [2.0, 4.0]}
    trial = {"part": "errors", "trial": "5 us #0", "seconds": 1.5}
    rows = [
        run,
        {"part": "evaluate", "trial": "reduction", "seconds": 5.0},
        {**trial, "outcomes": ["tie", "tie", "slower"]},
        {**trial, "outcomes": ["faster", "slower", "slower"]},
        {**trial, "fault": "noise"},
    ]
    found = summarise(rows)
    assert (found["run_s"], found["median_contest_s"]) == ({"reduction": 30.0}, 3.0)
    assert found["evaluate_s"] == {"reduction": 5.0}
    assert (found["trials"], found["faults"]) == (2, 1)
    assert found["by_planted"]["0%"] == {"faster": 1, "tie": 1, "slower": 0}
    assert found["by_planted"]["3%"]["slower"] == 2


def test_what_a_search_spends_on_the_gpu_is_told_by_kind_of_work(tmp_path: Path) -> None:
    task = load_task("vector_add")
    device: Any = WatchedDevice(open_device("emulated"))
    plan = Plan(candidates=1, rounds=1)
    source = task.baseline.read_text()

    async def run() -> dict[str, Any]:
        writer = Writer(lambda _brief, _situation: Draft(source=source))
        bench = open_bench(task, device, seed=0)
        return await search(open_context(task, device, bench, tmp_path, writer, plan))

    found = asyncio.run(run())
    assert found["stop"] == "rounds"
    assert {"validate_there", "time_calls_there"} <= found["works_s"].keys()
    count, seconds = found["works_s"]["validate_there"]
    assert (count, seconds > 0) == (2, True), "validated in its round, and once more in the end"
    (round_s,), (idle_s,) = found["rounds_s"], found["idle_s"]
    assert round_s > idle_s >= 0
    assert found["waited_s"].keys() == {"validate", "profile"}


def test_time_at_work_counts_once_where_works_overlap() -> None:
    device: Any = WatchedDevice(open_device("emulated"))
    device.works += [("a", 0.0, 2.0), ("b", 1.0, 3.0), ("c", 5.0, 9.0)]
    assert device.busy_s(0.5, 6.0) == 3.5
    assert device.summarise()["a"] == (1, 2.0)


def test_a_profile_names_our_functions_and_what_they_took() -> None:
    task = load_task("vector_add")
    device = open_device("emulated")

    async def run() -> dict[str, tuple[int, float]]:
        built = await compile_baseline(task, device.target)
        work = (validate_there, task, built, built, None)
        return await device.carry_out(profiled_functions_there, *work)

    found = asyncio.run(run())
    assert found["validate.validate"][1] >= found["check_case.check_case"][1] > 0
