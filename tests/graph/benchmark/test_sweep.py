"""Sweeps: every combination is a run with a name of its own, and no mean holds two settings."""

import asyncio
import csv
import json
import re
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

from cuda_llm.errors import MissingError, UsageError
from cuda_llm.graph.benchmark.aggregates import aggregate, compare
from cuda_llm.graph.benchmark.beside import beside_playbook
from cuda_llm.graph.benchmark.folder import BenchmarkFolder, BenchmarkPlan, plan_benchmark
from cuda_llm.graph.benchmark.render import write_tables
from cuda_llm.graph.benchmark.row import SizeRow, TaskRow
from cuda_llm.graph.benchmark.sweep import (
    Setting,
    combine,
    name_runs,
    read_swept,
    settle,
    spell_setting,
    spell_value,
    sweepable,
)
from cuda_llm.graph.benchmark.work import work
from cuda_llm.graph.parts import Parts
from cuda_llm.graph.runs.resolve import RUN_NAME
from cuda_llm.graph.runs.result import read_result
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.run_config import RunConfig, read_text

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/schemas/bench.schema.json").read_text())
WORDS = st.text(st.characters(codec="ascii", exclude_characters=","), min_size=1, max_size=120)
SETTINGS: st.SearchStrategy[Setting] = st.fixed_dictionaries(
    {"seed": st.integers(0, 2**32 - 1), "strategy": WORDS, "model": st.just("") | WORDS}
)
COMMON = RunConfig(task="reduction", device="emulated", l2="cold", model="", reflection_model="")
SIZE = SizeRow(dims={"n": 7}, baseline_us=2.0, best_us=1.0, least_us=0.5)


@given(st.lists(SETTINGS, min_size=2, max_size=6, unique_by=spell_setting))
def test_every_run_has_a_name_of_its_own_that_is_safe_as_a_folder(settings: list[Setting]) -> None:
    tasks = {"reduction": "reduction", "t" * 120: "/far/away"}
    of_task, of_setting = name_runs(tasks, settings)
    assert len({name.casefold() for name in of_task}) == len(tasks) * len(settings)
    assert all(RUN_NAME.fullmatch(name) for name in of_task)
    assert list(of_setting.values()) == settings * len(tasks)
    assert list(of_task) == list(of_setting)


def swept_settings(*sweeps: str) -> tuple[RunConfig, tuple[Setting, ...]]:
    """What `--sweep` of each makes of a run of the common options."""
    swept = read_swept(sweeps)
    return combine(settle(COMMON, swept), swept)


def test_a_name_says_the_task_and_what_differs() -> None:
    _, settings = swept_settings("seed=0,1", "strategy=fsr,fsr+no-critique", "model=org/small")
    assert list(name_runs({"reduction": "reduction"}, settings)[0]) == [
        "reduction-seed-0-strategy-fsr",
        "reduction-seed-0-strategy-fsr-no-critique",
        "reduction-seed-1-strategy-fsr",
        "reduction-seed-1-strategy-fsr-no-critique",
    ]


def test_one_value_is_the_option_itself_and_no_sweep() -> None:
    common, settings = swept_settings("seed=3", "strategy=best-of-n", "without=history+hints")
    assert (common.seed, common.strategy) == (3, "best-of-n")
    assert common.without == ("history", "hints")
    assert settings == ()


def test_any_option_of_a_run_is_swept_in_a_full_factorial() -> None:
    _, settings = swept_settings("hardware-context=full,none", "without=none,history+hints")
    assert settings == (
        {"hardware_context": "full", "without": ()},
        {"hardware_context": "full", "without": ("history", "hints")},
        {"hardware_context": "none", "without": ()},
        {"hardware_context": "none", "without": ("history", "hints")},
    )
    _, settings = swept_settings("candidates=2,4", "budget_usd=none,1.5", "hint=a b,none")
    assert {spell_setting(one) for one in settings} >= {
        "candidates 2, budget_usd none, hints a b",
        "candidates 4, budget_usd 1.5, hints none",
    }
    assert len(settings) == 8


WRITTEN = {
    "candidates": ("7",),
    "budget_usd": ("0.25", "none"),
    "without": ("hints+profile", "none"),
    "weights": ("2+0.5", "none"),
    "agent_models": ("lessons=small+critic=large", "none"),
}


@pytest.mark.parametrize("name", sweepable())
def test_a_spelled_value_is_read_as_the_same_value(name: str) -> None:
    for text in WRITTEN.get(name, ("none", "cold")):
        value = read_text(name, text)
        assert read_text(name, spell_value(value)) == value


@pytest.mark.parametrize(
    ("sweeps", "complaint"),
    [
        (["seed=0,x"], "--seed x: expected a whole number from 0"),
        (["seed=0,-1"], "--seed -1: expected a whole number from 0"),
        (["seed=0,0"], "--sweep seed=0,0: one value stands twice"),
        (["seed=0,"], "--sweep seed=0,: expected OPTION=A,B with commas"),
        (["seed"], "--sweep seed: expected OPTION=A,B with commas"),
        (["seed=0,1", "seed=2"], "--sweep seed=2: seed is swept twice"),
        (["candidates=2,0"], "--candidates 0: expected a whole number from 1 to 256"),
        (["hardware_context=full,some"], "--hardware-context some: expected 'full', 'name' or"),
        (["without=none,hopes"], "--without hopes: expected 'history', 'hints',"),
        (["candidate=1,2"], "no option 'candidate'; did you mean candidates"),
        (["device=emulated,cuda:0"], "no option 'device'"),
        (["strategy=fsr,greedy"], "unknown strategy 'greedy'"),
        (["generator=playbook,poet"], "unknown generator 'poet'"),
        (["agent=none,nobody"], "nobody"),
    ],
)
def test_what_is_no_sweep_is_told_before_any_work(sweeps: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)):
        swept_settings(*sweeps)


def test_a_models_generator_without_a_model_is_told_before_any_work() -> None:
    with pytest.raises(MissingError, match="generator llm: no model is named"):
        swept_settings("generator=playbook,llm")


def row(task: str, setting: Setting, speedup: float | None, **more: Any) -> TaskRow:
    """A finished run, unless `more` says otherwise."""
    known: dict[str, Any] = {"state": "done", "time_source": "modelled", "best": "r1-c1", **more}
    return TaskRow(task=task, setting=setting, sizes=(SIZE,), speedup=speedup, **known)


TWO: tuple[Setting, ...] = tuple({"rounds": rounds} for rounds in (1, 3))
FACTORS = st.floats(min_value=0.1, max_value=1000)


@given(st.lists(st.tuples(FACTORS, FACTORS), min_size=1, max_size=5))
def test_means_of_two_settings_are_never_mixed(pairs: list[tuple[float, float]]) -> None:
    rows = [
        row(f"task{number}", setting, factor)
        for number, pair in enumerate(pairs)
        for setting, factor in zip(TWO, pair, strict=True)
    ]
    found = {spell_setting(one.setting): one for one in aggregate(rows)}
    compared = {spell_setting(one.setting): one for one in compare(rows)}
    assert set(found) == set(compared) == set(map(spell_setting, TWO))
    for place, setting in enumerate(map(spell_setting, TWO)):
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


def test_seeds_repeat_a_setting_unless_they_alone_are_swept() -> None:
    rows = [
        row("task", {"rounds": rounds, "seed": seed}, float(rounds + seed))
        for rounds in (1, 3)
        for seed in (0, 1)
    ]
    few, many = compare(rows)
    assert (few.setting, few.speedup.count) == ({"rounds": 1}, 2)
    assert few.speedup.geometric_mean == pytest.approx(geometric_mean([1, 2]))
    assert (many.fastest, many.totals.tasks) == (2, 2)
    seeds = compare([row("task", {"seed": seed}, 1.0 + seed) for seed in (0, 1)])
    assert [one.setting for one in seeds] == [{"seed": 0}, {"seed": 1}]


def test_a_model_stands_beside_the_playbook_of_the_same_seed() -> None:
    rows = [
        row("task", {"generator": who, "seed": seed}, factor)
        for who, seed, factor in [
            ("playbook", 0, 2.0),
            ("playbook", 1, 4.0),
            ("llm", 0, 3.0),
            ("llm", 1, 2.0),
            ("llm", 2, 9.0),
        ]
    ]
    assert [one.over_playbook for one in beside_playbook(rows)] == [None, None, 1.5, 0.5, None]
    other = [row("task", {"seed": seed}, factor) for seed, factor in ((0, 2.0), (1, 8.0))]
    alone = [row("task", {}, 12.0), row("another", {}, 3.0), row("task", {}, None, state="failed")]
    found = [one.over_playbook for one in beside_playbook(alone, other)]
    assert found == [pytest.approx(3.0), None, None]
    measured = beside_playbook([row("task", {}, 12.0, time_source="measured")], other)
    assert measured[0].over_playbook is None, "modelled times stand beside no measured ones"


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
    common, settings = swept_settings(
        *("seed=0,1", "strategy=fsr,best-of-n", "candidates=2", "rounds=1", "tune=0")
    )
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
        assert (asked["seed"], asked["strategy"]) == (setting["seed"], setting["strategy"])
        assert name == "small-seed-{seed}-strategy-{strategy}".format(**setting)
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
    assert len(document["comparison"]) == 2 and len(document["aggregates"]) == 2
    (pair,) = document["pairs"]
    assert (pair["option"], pair["reference"], pair["value"]) == ("strategy", "fsr", "best-of-n")
    assert (pair["pairs"], pair["tasks"], pair["finding"]) == (2, 1, "tie")
    assert document["settings"].keys().isdisjoint({"seed", "strategy"})


def test_tables_of_a_sweep_name_each_swept_option(sweep: Sweep) -> None:
    folder, _ = sweep
    text = (folder.path / "table.md").read_text()
    assert "# Sweep of 8 runs, 4 done: emulated RTX 3090 Ti" in text
    assert "- swept: seed = 0, 1; strategy = fsr, best-of-n\n" in text
    assert "| task | seed | strategy | speed-up |" in text
    assert "| strategy | figure |" in text
    head, *settings = text.partition("## Settings\n\n")[2].partition("\n\n")[0].splitlines()
    assert head.startswith("| strategy | times | runs | geometric mean |")
    assert len(settings) == 3
    assert (
        "| strategy | best-of-n | fsr | modelled | 1.00x | 1.00x to 1.00x | tie | 2 | 1 |" in text
    )
    assert "- broken (seed 1, strategy best-of-n): failed: " in text
    assert "<th>strategy</th>" in (folder.path / "table.html").read_text()
    with (folder.path / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:3] == ["task", "setting_seed", "setting_strategy"]
    assert (rows[-1]["setting_seed"], rows[-1]["setting_strategy"]) == ("1", "best-of-n")


def test_a_sweep_goes_on_with_what_is_not_done(sweep: Sweep) -> None:
    folder, plan = sweep
    (folder.path / "results/small-seed-1-strategy-fsr.json").unlink()
    before = folder.run("small-seed-1-strategy-fsr").events.read_bytes()
    assert folder.rows(plan)[2].state == "waiting" and folder.rows(plan)[2].task == "small"
    assert work_on(folder, folder.read_plan())[0] == "small-seed-1-strategy-fsr"
    assert folder.run("small-seed-1-strategy-fsr").events.read_bytes() == before
    assert [one.state for one in folder.rows(plan)][:4] == ["done"] * 4
