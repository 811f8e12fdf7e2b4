"""Sweeps: every combination is a run with a name of its own, and no mean holds two settings."""

import asyncio
import csv
import json
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import jsonschema
import pytest
from graph_runs import Learner, NoTuner, TableBench, Writer, numbered
from hypothesis import given
from hypothesis import strategies as st
from run_starts import ReadyDevice
from tiny_tasks import tiny_task

from cuda_llm.errors import UsageError
from cuda_llm.graph.benchmark.aggregates import aggregate, compare
from cuda_llm.graph.benchmark.folder import BenchmarkFolder, BenchmarkPlan, plan_benchmark
from cuda_llm.graph.benchmark.render import write_tables
from cuda_llm.graph.benchmark.row import SizeRow, TaskRow
from cuda_llm.graph.benchmark.sweep import Setting, combine, name_runs, read_swept, settle
from cuda_llm.graph.benchmark.work import work
from cuda_llm.graph.parts import Parts
from cuda_llm.graph.runs.resolve import RUN_NAME
from cuda_llm.graph.runs.result import read_result
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.run_config import RunConfig

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/schemas/bench.schema.json").read_text())
WORDS = st.text(st.characters(codec="ascii", exclude_characters=","), min_size=1, max_size=120)
SETTINGS = st.builds(
    Setting, seed=st.integers(0, 2**32 - 1), strategy=WORDS, model=st.just("") | WORDS
)
SIZE = SizeRow(dims={"n": 7}, baseline_us=2.0, best_us=1.0, least_us=0.5)


@given(st.lists(SETTINGS, min_size=2, max_size=6, unique=True))
def test_every_run_has_a_name_of_its_own_that_is_safe_as_a_folder(settings: list[Setting]) -> None:
    tasks = {"reduction": "reduction", "t" * 120: "/far/away"}
    of_task, of_setting = name_runs(tasks, settings)
    assert len({name.casefold() for name in of_task}) == len(tasks) * len(settings)
    assert all(RUN_NAME.fullmatch(name) for name in of_task)
    assert list(of_setting.values()) == settings * len(tasks)
    assert list(of_task) == list(of_setting)


def test_a_name_says_the_task_and_what_differs() -> None:
    swept = read_swept("0,1", "fsr,fsr+no-critique", "org/small")
    _, settings = combine(settle(RunConfig(task=""), swept), swept)
    assert list(name_runs({"reduction": "reduction"}, settings)[0]) == [
        "reduction-seed0-fsr",
        "reduction-seed0-fsr-no-critique",
        "reduction-seed1-fsr",
        "reduction-seed1-fsr-no-critique",
    ]
    assert {one.model for one in settings} == {"org/small"}


def test_one_value_is_the_option_itself_and_no_sweep() -> None:
    swept = read_swept("3", "best-of-n", "small")
    common, settings = combine(settle(RunConfig(task=""), swept), swept)
    assert common == RunConfig(task="", seed=3, strategy="best-of-n", model="small")
    assert settings == ()


@pytest.mark.parametrize(
    ("lists", "complaint"),
    [
        (("0,x", "", ""), "--seeds 0,x: expected whole numbers"),
        (("0,-1", "", ""), "--seeds 0,-1: expected whole numbers"),
        (("0,0", "", ""), "--seeds 0,0: one value stands twice"),
        (("0,", "", ""), "--seeds 0,: expected values with commas between them"),
        (("0,5000000000", "", ""), "--seed 5000000000: expected a whole number from 0"),
        (("", "fsr,greedy", ""), "unknown strategy 'greedy'"),
        (("", "", "A,,B"), "--models A,,B: expected values"),
    ],
)
def test_what_is_no_list_of_values_is_told_before_any_work(
    lists: tuple[str, str, str], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        combine(RunConfig(task=""), read_swept(*lists))


def row(task: str, setting: Setting, speedup: float | None, **more: Any) -> TaskRow:
    """A finished run, unless `more` says otherwise."""
    known: dict[str, Any] = {"state": "done", "time_source": "modelled", "best": "r1-c1", **more}
    return TaskRow(task=task, setting=setting, sizes=(SIZE,), speedup=speedup, **known)


TWO = tuple(Setting(seed=seed, strategy="fsr", model="") for seed in (0, 1))
FACTORS = st.floats(min_value=0.1, max_value=1000)


@given(st.lists(st.tuples(FACTORS, FACTORS), min_size=1, max_size=5))
def test_means_of_two_settings_are_never_mixed(pairs: list[tuple[float, float]]) -> None:
    rows = [
        row(f"task{number}", setting, factor)
        for number, pair in enumerate(pairs)
        for setting, factor in zip(TWO, pair, strict=True)
    ]
    found = {one.setting: one for one in aggregate(rows)}
    compared = {one.setting: one for one in compare(rows)}
    assert set(found) == set(compared) == set(TWO)
    for place, setting in enumerate(TWO):
        mean = pytest.approx(geometric_mean(pair[place] for pair in pairs))
        assert found[setting].speedup.geometric_mean == mean
        assert compared[setting].speedup.geometric_mean == mean
        assert compared[setting].fastest == sum(pair[place] == max(pair) for pair in pairs)


def test_settings_are_compared_over_tasks_that_are_done_under_all_of_them() -> None:
    first, second = TWO
    rows = [
        row("both", first, 2.0),
        row("both", second, None, best=""),
        row("one", first, 50.0),
        row("one", second, None, state="failed"),
    ]
    ours, theirs = compare(rows)
    assert (ours.speedup.count, ours.speedup.geometric_mean, ours.fastest) == (1, 2.0, 1)
    assert (theirs.speedup.geometric_mean, theirs.with_a_kernel, theirs.fastest) == (1.0, 0, 0)
    assert aggregate(rows)[0].speedup.count == 2
    assert compare(rows[2:]) == ()


PARTS = {"generator": Writer(numbered), "reflector": Learner(), "tuner": NoTuner()}


def work_on(folder: BenchmarkFolder, plan: BenchmarkPlan) -> list[str]:
    """Work on what is left; the names of the runs that were told."""
    told = []

    def keep(name: str, row: TaskRow) -> None:
        told.append(name)
        folder.write_row(name, row)
        write_tables(folder, plan, folder.rows(plan))

    device = ReadyDevice(find_hardware("RTX 3090 Ti"))
    brought = Parts(bench=TableBench(), **PARTS)  # type: ignore[arg-type]
    asyncio.run(work(folder, plan, device, keep, brought=brought))
    return told


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[BenchmarkFolder, BenchmarkPlan]:
    """Two tasks with two seeds and two strategies; the second task cannot be read."""
    parent = tmp_path_factory.mktemp("sweep")
    tasks = {name: str(tiny_task(parent, name)) for name in ("small", "broken")}
    (parent / "broken/task.toml").write_text('title = "nothing else"')
    swept = read_swept("0,1", "fsr,best-of-n")
    common = RunConfig(task="", device="emulated", l2="cold", candidates=2, rounds=1, tune=0)
    common, settings = combine(settle(common, swept), swept)
    device = ReadyDevice(find_hardware("RTX 3090 Ti"))
    plan = plan_benchmark(common, tasks, device, settings=settings)
    folder = BenchmarkFolder(parent / plan.name)
    folder.write_plan(plan)
    assert folder.read_plan() == plan
    write_tables(folder, plan, folder.rows(plan))
    assert work_on(folder, plan) == list(plan.tasks)
    return folder, plan


Sweep = tuple[BenchmarkFolder, BenchmarkPlan]


def test_every_combination_is_a_run_with_what_its_name_says(sweep: Sweep) -> None:
    folder, plan = sweep
    for name, setting in list(plan.sweep.items())[:4]:
        asked = folder.run(name).read_run()["request"]
        assert (asked["seed"], asked["strategy"]) == (setting.seed, setting.strategy)
        assert name == f"small-seed{setting.seed}-{setting.strategy}"
        assert read_result(folder.run(name)).finished


def test_rows_say_their_setting_whether_done_or_failed(sweep: Sweep) -> None:
    folder, plan = sweep
    rows = folder.rows(plan)
    assert [one.task for one in rows] == ["small"] * 4 + ["broken"] * 4
    assert [one.state for one in rows] == ["done"] * 4 + ["failed"] * 4
    assert [one.setting for one in rows] == list(plan.sweep.values())


def test_the_document_of_a_sweep_follows_its_schema(sweep: Sweep) -> None:
    document = json.loads((sweep[0].path / "table.json").read_text())
    jsonschema.validate(document, SCHEMA)
    assert [one["setting"]["seed"] for one in document["rows"][:4]] == [0, 0, 1, 1]
    assert len(document["comparison"]) == 4 and len(document["aggregates"]) == 4
    assert document["settings"].keys().isdisjoint({"seed", "strategy", "model"})


def test_tables_of_a_sweep_name_seed_strategy_and_model(sweep: Sweep) -> None:
    folder, _ = sweep
    text = (folder.path / "table.md").read_text()
    assert "# Sweep of 8 runs, 4 done: emulated RTX 3090 Ti" in text
    assert "- swept: seed = 0, 1; strategy = fsr, best-of-n; model = none" in text
    assert "| task | seed | strategy | model | speed-up |" in text
    assert "| seed | strategy | model | figure |" in text
    head, *settings = text.partition("## Settings\n\n")[2].partition("\n\n")[0].splitlines()
    assert head.startswith("| seed | strategy | model | times | tasks | geometric mean |")
    assert len(settings) == 5
    assert "- broken (seed 1, best-of-n): failed: " in text
    assert "<th>strategy</th>" in (folder.path / "table.html").read_text()
    with (folder.path / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:4] == ["task", "setting_seed", "setting_strategy", "setting_model"]
    assert (rows[-1]["setting_seed"], rows[-1]["setting_strategy"]) == ("1", "best-of-n")


def test_a_sweep_goes_on_with_what_is_not_done(sweep: Sweep) -> None:
    folder, plan = sweep
    (folder.path / "results/small-seed1-fsr.json").unlink()
    before = folder.run("small-seed1-fsr").events.read_bytes()
    assert folder.rows(plan)[2].state == "waiting" and folder.rows(plan)[2].task == "small"
    assert work_on(folder, folder.read_plan())[0] == "small-seed1-fsr"
    assert folder.run("small-seed1-fsr").events.read_bytes() == before
    assert [one.state for one in folder.rows(plan)][:4] == ["done"] * 4
