"""Every figure of a recorded experiment follows from the folders of its runs."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean

import pytest

from cuda_llm.graph.benchmark.folder import BenchmarkFolder
from cuda_llm.graph.benchmark.paired import compare_pairs
from cuda_llm.graph.benchmark.recompute import recompute_rows
from cuda_llm.graph.benchmark.row import TaskRow
from cuda_llm.graph.benchmark.tables import make_page
from cuda_llm.graph.runs.result import read_result

ROOT = Path(__file__).parents[3]
EXPERIMENTS = sorted(path.parent for path in ROOT.glob("benchmarks/experiments/*/bench.json"))


def figures(row: TaskRow) -> TaskRow:
    """A row without its place, and without what follows from its task as it is today."""
    sizes = tuple(replace(one, least_us=1.0) for one in row.sizes)
    return replace(row, run="", sizes=sizes, published=())


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.name)
def test_rows_are_what_the_runs_say(path: Path) -> None:
    folder = BenchmarkFolder(path)
    plan = folder.read_plan()
    stored, again = folder.rows(plan), recompute_rows(folder, plan)
    assert {one.state for one in stored} == {"done"}
    assert [figures(one) for one in again] == [figures(one) for one in stored]


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.name)
def test_the_published_table_has_the_comparisons_of_the_rows(path: Path) -> None:
    folder = BenchmarkFolder(path)
    plan = folder.read_plan()
    page = make_page(plan, recompute_rows(folder, plan))
    text = (path / "table.md").read_text()
    compared = [one for one in page.tables if one.title in ("Settings", "Pairs")]
    assert compared or not plan.sweep
    for table in compared:
        for cells in table.rows:
            assert f"| {' | '.join(cells)} |" in text


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.name)
def test_a_record_names_no_place_of_the_machine_it_was_made_on(path: Path) -> None:
    for file in path.rglob("*"):
        if file.is_file():
            assert not re.search(r'["\s](/[a-z]+){2,}', file.read_text()), file


def test_arms_that_no_prompt_distinguishes_tie_at_exactly_one() -> None:
    """The A/A check: the playbook reads nothing of the GPU, so every arm is the same search."""
    folder = BenchmarkFolder(ROOT / "benchmarks/experiments/hardware-context-playbook")
    pairs = compare_pairs(folder.rows(folder.read_plan()))
    assert [(one.value, one.pairs) for one in pairs] == [("name", 2), ("none", 2)]
    assert {(one.ratio, one.low, one.high, one.finding) for one in pairs} == {(1, 1, 1, "tie")}


def best_of_rounds(folder: BenchmarkFolder, name: str) -> dict[int, float]:
    """Return the largest speed-up of each round of a run."""
    tops: dict[int, float] = {}
    for one in read_result(folder.run(name)).attempts:
        tops[one.round] = max(tops.get(one.round, 0.0), one.speedup or 0.0)
    return tops


def test_the_first_transposes_of_prompts_with_and_without_the_gpu_tie() -> None:
    folder = BenchmarkFolder(ROOT / "benchmarks/experiments/hardware-context-model")
    rows = folder.rows(folder.read_plan())
    assert {round(row.speedup or 0.0, 2) for row in rows} == {5.75}
    pairs = compare_pairs(rows)
    assert [(one.value, one.pairs) for one in pairs] == [("name", 5), ("none", 5)]
    assert {one.finding for one in pairs} == {"tie"}


def test_what_a_model_made_of_ten_tasks_without_a_gpu() -> None:
    """The figures of docs/experiments.md."""
    folder = BenchmarkFolder(ROOT / "benchmarks/experiments/paper-without-a-gpu")
    plan = folder.read_plan()
    rows = folder.rows(plan)
    assert round(geometric_mean([row.speedup or 1.0 for row in rows]), 1) == 30.3
    gains = [(tops := best_of_rounds(folder, name))[3] / tops[1] for name in plan.tasks]
    assert round(geometric_mean(gains), 2) == 1.08
    codes = Counter(code for row in rows for code, n in row.verdicts.items() for _ in range(n))
    assert codes == {"PASSED": 114, "TIMED_OUT": 7, "DATA_RACE": 3}


def test_what_rounds_of_feedback_added_on_tasks_without_a_prompt_of_their_own() -> None:
    """The figures of docs/experiments.md: the best of the last round, and of all, over the best of
    the first; and no kernel of the model's that was judged was wrong but one that trapped."""
    folder = BenchmarkFolder(ROOT / "benchmarks/experiments/held-back-tasks")
    plan = folder.read_plan()
    last, best = [], []
    for name in (one for one in plan.tasks if one.endswith("-fsr")):
        tops = best_of_rounds(folder, name)
        last.append(tops[3] / tops[1])
        best.append(max(tops.values()) / tops[1])
    assert round(geometric_mean(last), 2) == 1.02
    assert round(geometric_mean(best), 2) == 1.06
    rows = folder.rows(plan)
    codes = Counter(code for row in rows for code, n in row.verdicts.items() for _ in range(n))
    assert codes == {"PASSED": 68, "NO_CODE": 3, "DEVICE_ASSERT": 1}
    (pair,) = compare_pairs(rows)
    assert (pair.value, round(pair.ratio, 2), pair.finding) == ("fsr", 0.97, "tie")
