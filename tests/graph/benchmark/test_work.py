"""Whole benchmarks on the emulated device: rows, tables, failures, and going on after a stop."""

import asyncio
import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from graph_runs import TableBench, Writer, numbered
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from measured_runs import measuring_device
from run_starts import ReadyDevice
from tiny_tasks import tiny_task

from cuda_llm.agents.situation import Situation
from cuda_llm.capabilities import Capabilities
from cuda_llm.errors import DeviceLost
from cuda_llm.graph.benchmark.folder import BenchmarkFolder, BenchmarkPlan, plan_benchmark
from cuda_llm.graph.benchmark.recompute import recompute_rows
from cuda_llm.graph.benchmark.render import COLUMNS, csv_text, markdown, write_tables
from cuda_llm.graph.benchmark.row import (
    LibraryTime,
    SizeRow,
    TaskRow,
    TimedLibraries,
    read_row,
    why_not_inspected,
)
from cuda_llm.graph.benchmark.tables import limited_rounds, make_page
from cuda_llm.graph.benchmark.work import (
    MOST_AT_ONCE,
    BenchmarkProgress,
    assemble,
    devices_of,
    places,
    share_out,
    work,
)
from cuda_llm.graph.parts import Parts
from cuda_llm.graph.runs.result import read_result, seconds_of
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import NoCode
from cuda_llm.profile import LibraryTimes
from cuda_llm.run_config import RunConfig
from cuda_llm.search import Author, Brief, Draft
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device import Device, T, Work
from cuda_llm.tools.device.group import DeviceGroup
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.open_device import open_device
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import KernelInspected, RunStarted

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/schemas/bench.schema.json").read_text())
KERNEL = """\
__global__ void add(const float* A, const float* B, float* C, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) C[i] = {what};
}}
extern "C" void solve(const float* A, const float* B, float* C, int n) {{
    add<<<(n + 255) / 256, 256>>>(A, B, C, n);
    cudaDeviceSynchronize();
}}
"""
WHAT = {1: "A[i] + B[i]", 2: 'nanf("")', 3: "A[i] - B[i]", 4: "no such name"}
"""By index of the candidate: right, accepted by theirs alone, wrong for both, not compiled."""


def write(brief: Brief, _situation: Situation) -> Draft | NoCode:
    return Draft(source=KERNEL.format(what=WHAT[brief.index]), idea=WHAT[brief.index])


WRITTEN = Parts(generator=Writer(write))


@dataclass(frozen=True)
class Benchmark:
    """One benchmark, with what its rows were when each was told."""

    folder: BenchmarkFolder
    plan: BenchmarkPlan

    @property
    def rows(self) -> dict[str, TaskRow]:
        return {one.task: one for one in self.folder.rows(self.plan)}

    def run(self, brought: Parts = WRITTEN) -> list[str]:
        """Work on what is left; the names of the tasks that were told, in order."""
        told = []

        def keep(name: str, row: TaskRow) -> None:
            told.append(name)
            self.folder.write_row(name, row)
            write_tables(self.folder, self.plan, self.folder.rows(self.plan))

        device = open_device("emulated")
        asyncio.run(work(self.folder, self.plan, device, keep, brought=brought))
        return told


def planned(out: Path, tasks: Mapping[str, Path], **request: Any) -> Benchmark:
    asked: dict[str, Any] = {"candidates": 4, "rounds": 1, "tune": 0, "l2": "cold", **request}
    common = RunConfig(task="", device="emulated", **asked)
    names = {name: str(path) for name, path in tasks.items()}
    plan = plan_benchmark(common, names, open_device("emulated"))
    folder = BenchmarkFolder(out / plan.name)
    folder.write_plan(plan)
    return Benchmark(folder, folder.read_plan())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """Two tasks, the first of which cannot be read."""
    parent = tmp_path_factory.mktemp("tasks")
    tasks = {name: tiny_task(parent, name) for name in ("broken", "small")}
    (tasks["broken"] / "task.toml").write_text('title = "nothing else"')
    made = planned(tmp_path_factory.mktemp("out"), tasks)
    assert made.run() == ["broken", "small"]
    return made


def test_a_task_that_fails_is_a_row_with_its_error_and_the_others_go_on(whole: Benchmark) -> None:
    broken, small = whole.rows["broken"], whole.rows["small"]
    assert (broken.state, broken.sizes, small.state) == ("failed", (), "done")
    assert "task.toml" in broken.error


def test_a_row_says_what_the_run_says(whole: Benchmark) -> None:
    row, result = whole.rows["small"], read_result(whole.folder.run("small"))
    assert row.verdicts == {"COMPILE_FAILED": 1, "PASSED": 1, "WRONG_RESULT": 2}
    assert (row.best, row.written_by, row.evaluations, row.passed) == ("r1-c1", "model", 4, 1)
    assert (row.rounds, row.model_calls, row.usd) == (1, 0, 0.0)
    assert row.seconds["total"] == result.seconds["total"] > 0 < row.seconds["compile"]
    assert row.first_appeared is not None
    assert 0 < row.first_appeared.seconds <= row.seconds["total"]
    assert [one.dims for one in row.sizes] == [{"n": 4096}, {"n": 16384}]
    for size in row.sizes:
        assert size.best_us is not None and size.roofline_share is not None
        assert 0 < size.roofline_share <= 1 and 0 < size.baseline_roofline_share <= 1
        assert size.speedup == pytest.approx(size.baseline_us / size.best_us)
    assert row.time_source == "modelled" and row.libraries_note


def test_a_row_says_what_limited_each_round_and_what_was_right_at_first(whole: Benchmark) -> None:
    row, result = whole.rows["small"], read_result(whole.folder.run("small"))
    assert result.best is not None
    assert row.limiters == (result.best.limited_by,) and row.limiters[0]
    assert (row.best_round, row.first_round_passed, row.first_round_evaluations) == (1, 1, 4)


def test_rounds_with_one_limiter_stand_together() -> None:
    limiters = ("", "atomic_contention", "atomic_contention", "dram_bandwidth")
    assert [*limited_rounds(limiters)] == [
        "1: –",
        "2-3: atomic_contention",
        "4: dram_bandwidth",
    ]
    assert [*limited_rounds(())] == []


def test_a_search_has_paid_when_launches_have_saved_its_wall_time(whole: Benchmark) -> None:
    sizes = tuple(
        SizeRow(dims={"n": n}, baseline_us=4.0 * n, best_us=1.0 * n, least_us=0.5) for n in (1, 4)
    )
    row = replace(whole.rows["small"], sizes=sizes, seconds={"total": 0.6}, time_source="measured")
    assert [row.launches_to_pay((one,)) for one in sizes] == [200_000, 50_000]
    assert row.launches_to_pay(row.sizes) == 100_000
    lines = markdown(make_page(whole.plan, [row]))
    assert "| 100,000 | 200,000; 50,000 |" in lines
    modelled = markdown(make_page(whole.plan, [replace(row, time_source="modelled")]))
    assert "| 100,000 (modelled) | 200,000; 50,000 (modelled) |" in modelled
    slower = replace(row, sizes=tuple(replace(one, best_us=9.0 * one.baseline_us) for one in sizes))
    assert slower.launches_to_pay(slower.sizes) is None
    assert "| never | never; never |" in markdown(make_page(whole.plan, [slower]))


def test_rows_are_computed_again_from_the_folders_of_their_runs(whole: Benchmark) -> None:
    rows = whole.folder.rows(whole.plan)
    assert recompute_rows(whole.folder, whole.plan) == rows
    named = LibraryTime(name="torch.add", time_us=2.0)
    (broken, small), wrong = rows, replace(rows[1], speedup=99.0, libraries_note="")
    timed = replace(wrong, sizes=(replace(small.sizes[0], library=named), *small.sizes[1:]))
    whole.folder.write_row("small", timed)
    try:
        again = recompute_rows(whole.folder, whole.plan)
    finally:
        whole.folder.write_row("small", small)
    assert again[0] == broken
    assert again[1] == replace(timed, speedup=small.speedup)


def test_the_published_check_is_kept_with_each_kernel_that_compiled(whole: Benchmark) -> None:
    kept = {one.id: one.published_check for one in read_result(whole.folder.run("small")).attempts}
    right, nan, wrong, none = (kept[f"r1-c{index}"] for index in (1, 2, 3, 4))
    assert right is not None and (right.accepts, right.basis) == (True, "passed ours")
    assert nan is not None and (nan.accepts, nan.basis, nan.sizes) == (True, "executed", "emulated")
    assert wrong is not None and not wrong.accepts and "n = 4,096" in wrong.detail
    assert none is None, "it did not compile"
    row = whole.rows["small"]
    assert (row.asked_as_published, row.passes_theirs_fails_ours) == (3, ("r1-c2",))


def test_the_csv_has_a_row_a_task_and_size(whole: Benchmark) -> None:
    with (whole.folder.path / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(one["task"], one["size"]) for one in rows] == [
        ("broken", ""),
        ("small", "n=4096"),
        ("small", "n=16384"),
    ]
    assert tuple(rows[0]) == COLUMNS
    last, size = rows[2], whole.rows["small"].sizes[1]
    assert float(last["size_best_us"]) == size.best_us
    assert last["passes_theirs_fails_ours"] == "1"


def test_the_json_names_device_version_and_settings_and_holds_every_figure(
    whole: Benchmark,
) -> None:
    document = json.loads((whole.folder.path / "table.json").read_text())
    jsonschema.validate(document, SCHEMA)
    assert not {"sweep", "comparison"} & set(document)
    assert document["device"] == "emulated RTX 3090 Ti"
    assert document["versions"]["cuda-llm"] and document["began_at"]
    assert document["settings"]["candidates"] == 4
    (means,) = document["aggregates"]
    assert means["time_source"] == "modelled" and means["tasks"] == 1
    assert [one["gpu"] for one in means["beside_published"]] == ["GTX 1660 SUPER", "RTX 3090 Ti"]
    assert document["totals"]["passes_theirs_fails_ours"] == 1
    small = document["rows"][1]
    assert small["sizes"][0]["roofline_share"] == whole.rows["small"].sizes[0].roofline_share


class Cells(HTMLParser):
    """The text of each row of a page's tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1] and self.lasttag in ("td", "th"):
            self.rows[-1][-1] += data


def test_markdown_and_html_tell_the_same(whole: Benchmark) -> None:
    lines = (whole.folder.path / "table.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("| ") and not line.startswith("| ---")]
    text = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]
    page = (whole.folder.path / "table.html").read_text()
    found = [[cell.strip() for cell in row] for row in Cells(page).rows]
    assert found == text and len(found) > 6
    assert "1 of 3" in page and "<script" not in page


def test_what_is_done_is_not_done_again_and_what_failed_is_tried_again(whole: Benchmark) -> None:
    before = whole.folder.run("small").events.read_bytes()
    assert whole.run() == ["broken"]
    assert whole.folder.run("small").events.read_bytes() == before


@dataclass(frozen=True)
class LosingDevice(EmulatedDevice):
    """A device that is lost after some works."""

    works: list[None]
    """One entry for each that it still does."""

    async def carry_out(self, work: Work[T]) -> T:
        if not self.works:
            raise DeviceLost("device", "its machine is gone")
        self.works.pop()
        return await super().carry_out(work)


GPU = find_hardware("RTX 3090 Ti")


def work_with(
    made: Benchmark, *devices: Device
) -> tuple[list[tuple[str, str]], list[BenchmarkProgress], list[str]]:
    """Work on what is left; names and states in the order they were told, progress and notes."""
    told, progress, notes = list[tuple[str, str]](), list[BenchmarkProgress](), list[str]()

    def keep(name: str, row: TaskRow) -> None:
        told.append((name, row.state))
        made.folder.write_row(name, row)

    asyncio.run(
        work(
            made.folder,
            made.plan,
            DeviceGroup(devices),
            keep,
            brought=WRITTEN,
            report=notes.append,
            on_progress=progress.append,
        )
    )
    return told, progress, notes


def test_a_run_goes_on_on_another_device_when_its_own_is_lost(tmp_path: Path) -> None:
    tasks = {name: tiny_task(tmp_path, name) for name in ("one", "two")}
    made = planned(tmp_path / "out", tasks, candidates=1)
    losing = LosingDevice(GPU, [None])
    told, progress, notes = work_with(made, losing, EmulatedDevice(GPU))
    assert told == [("two", "done"), ("one", "done")]
    assert [line for line in notes if "is lost, another device takes one" in line]
    assert made.rows["one"].best == "r1-c1"
    began = [one.event for one in read_events(made.folder.run("one").events)]
    assert sum(isinstance(one, RunStarted) for one in began) == 1, "it went on and began no second"
    assert [(one.ended, one.failed, one.running) for one in progress] == [
        (0, 0, ("one",)),
        (0, 0, ("one", "two")),
        (1, 0, ("one",)),
        (2, 0, ()),
    ]


def test_a_run_with_a_share_of_the_devices_goes_on_without_the_lost_one(tmp_path: Path) -> None:
    made = planned(tmp_path / "out", {"one": tiny_task(tmp_path, "one")}, candidates=1)
    told, _, notes = work_with(made, LosingDevice(GPU, [None]), EmulatedDevice(GPU))
    assert (told, notes) == ([("one", "done")], [])
    assert made.rows["one"].best == "r1-c1"


def test_where_no_device_is_left_all_that_is_left_fails_and_can_go_on(tmp_path: Path) -> None:
    tasks = {name: tiny_task(tmp_path, name) for name in ("one", "two", "three")}
    made = planned(tmp_path / "out", tasks, candidates=1)
    told, progress, _ = work_with(made, LosingDevice(GPU, []), LosingDevice(GPU, [None]))
    assert sorted(told) == [(name, "failed") for name in sorted(tasks)]
    assert (progress[-1].ended, progress[-1].failed) == (3, 3)
    for row in made.rows.values():
        assert "its machine is gone; no device is left" in row.error
        assert f"go on with: {made.folder.resume_command}" in row.error
    again, _, _ = work_with(made, EmulatedDevice(GPU))
    assert again == [(name, "done") for name in tasks]


def test_devices_of_another_model_take_no_run() -> None:
    @dataclass(frozen=True)
    class Mixed:
        devices: tuple[Device, ...]
        hardware: Hardware

    first, helper = EmulatedDevice(GPU), EmulatedDevice(find_hardware("RTX 4090"))
    mixed: Any = Mixed((first, helper), GPU)
    assert devices_of(mixed) == (first,)


def test_devices_of_a_group_share_the_tasks(tmp_path: Path) -> None:
    tasks = {name: tiny_task(tmp_path, name) for name in ("one", "two", "three")}
    made, told = planned(tmp_path / "out", tasks), dict[str, TaskRow]()
    pair = DeviceGroup([ReadyDevice(find_hardware("RTX 3090 Ti")) for _ in range(2)])
    table = Parts(generator=Writer(numbered), bench=TableBench(delay=lambda _: 0.05))
    asyncio.run(work(made.folder, made.plan, pair, told.__setitem__, brought=table))
    assert {name: row.state for name, row in told.items()} == dict.fromkeys(tasks, "done")
    began, ended = (
        {name: seconds_of(read_events(made.folder.run(name).events)[at].at) for name in tasks}
        for at in (0, -1)
    )
    assert began["two"] < ended["one"] and began["one"] < ended["two"]
    assert began["three"] >= min(ended["one"], ended["two"])


def test_the_fastest_library_of_each_size_counts_and_a_copy_is_none() -> None:
    found = assemble(
        [
            LibraryTimes(name="torch.sum", times=(4.0, None)),
            LibraryTimes(name="CUB", times=(3.0, 9.0)),
            LibraryTimes(name="plain copy", times=(1.0, 2.0)),
        ],
        2,
    )
    cub = [LibraryTime(name="CUB", time_us=time) for time in (3.0, 9.0)]
    assert found == TimedLibraries(fastest=tuple(cub), copies_us=(1.0, 2.0))
    failed = assemble([LibraryTimes(name="CUB", fault="wrong"), LibraryTimes(name="copy")], 1)
    assert (failed.fastest, failed.copies_us) == ((None,), (None,))
    assert failed.note == "not timed: CUB: wrong"


@dataclass
class Patient:
    """A generator that answers nobody before `runs` runs have asked."""

    runs: int
    asked: set[str] = field(default_factory=set)
    everybody: asyncio.Event = field(default_factory=asyncio.Event)
    name: str = "patient"
    written_by: Author = "model"

    async def generate(self, brief: Brief, situation: Situation) -> Draft:
        self.asked.add(situation.task.name)
        if len(self.asked) == self.runs:
            self.everybody.set()
        await asyncio.wait_for(self.everybody.wait(), 300)
        return Draft(source=KERNEL.format(what=WHAT[1]), idea="plain")


@dataclass(frozen=True)
class InBatches(EmulatedDevice):
    """An emulated device that asks for its verdicts in batches."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, batched=True, measures_time=True)


def test_runs_work_side_by_side_where_batches_or_a_model_answer_many_and_times_are_modelled() -> (
    None
):
    hardware = find_hardware("RTX 4090")
    emulated, batched = EmulatedDevice(hardware), InBatches(hardware)
    assert places(emulated, 6, has_model=False) == (emulated,)
    assert places(emulated, 6, has_model=True) == (emulated,) * 6
    assert places(batched, 6, has_model=False) == (batched,) * 6
    assert places(batched, 1000, has_model=False) == (batched,) * MOST_AT_ONCE
    measuring = measuring_device()
    assert places(measuring, 6, has_model=True) == (measuring,)
    pair = DeviceGroup((measuring, measuring))
    assert places(pair, 6, has_model=True) == (measuring, measuring)


def test_searches_wait_for_one_model_together(tmp_path: Path) -> None:
    """Each run's answer comes after all runs have asked: one after the other, none would end."""
    tasks = {name: tiny_task(tmp_path / "tasks", name) for name in ("one", "two", "three")}
    made = planned(tmp_path / "out", tasks, candidates=1)
    model = FakeListChatModel(responses=["nothing"])
    own = Parts(generator=Patient(len(tasks)), model=model, reflection_model=model)
    ended = made.run(own)
    assert sorted(ended) == sorted(tasks)
    assert [(one.best, one.error) for one in made.rows.values()] == [("r1-c1", "")] * len(tasks)


def test_library_and_copy_stand_beside_the_size_they_were_timed_at(whole: Benchmark) -> None:
    run, task = whole.folder.run("small"), load_task(whole.plan.tasks["small"])
    named = LibraryTime(name="torch.add", time_us=2.0)
    timed = TimedLibraries(fastest=(named, None), copies_us=(1.0, 2.0))
    first, second = read_row(run, task, open_device("emulated").hardware, libraries=timed).sizes
    assert first.best_us is not None
    assert first.over_library == 2.0 / first.best_us
    assert (second.library, second.over_library, second.copy_us) == (None, None, 2.0)


@given(devices=st.integers(1, 12), runs=st.integers(0, 14))
def test_devices_are_shared_out_evenly_among_fewer_runs(devices: int, runs: int) -> None:
    every = [EmulatedDevice(find_hardware("RTX 4090")) for _ in range(devices)]
    shares = share_out(every, runs)

    held = [list(getattr(one, "devices", (one,))) for one in shares]
    assert {id(one) for part in held for one in part} == {id(one) for one in every}
    assert sum(map(len, held)) == devices, "no device is in two shares"
    assert len(shares) == (runs if 0 < runs < devices else devices)
    assert max(map(len, held)) - min(map(len, held)) <= 1


def test_a_winner_that_was_not_inspected_is_marked_and_the_reason_stands_below(
    whole: Benchmark,
) -> None:
    run, task = whole.folder.run("small"), load_task(whole.plan.tasks["small"])
    row = read_row(run, task, open_device("emulated").hardware)
    assert row.not_inspected == ""
    seen = KernelInspected(
        round=1, attempt=row.best, code="", not_inspected="gpu_host: out of memory"
    )
    assert why_not_inspected([seen], "another") == ""
    missed = replace(row, not_inspected=why_not_inspected([seen], row.best))
    page = markdown(make_page(whole.plan, [missed]))
    assert f"| {row.best} ‡ |" in page
    assert f"- ‡ {row.task}: {row.best} was not inspected: gpu_host: out of memory" in page
    assert "‡" not in markdown(make_page(whole.plan, [row]))
    assert "gpu_host: out of memory" in csv_text([missed])
