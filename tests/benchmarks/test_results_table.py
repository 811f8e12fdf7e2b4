"""The README shows the recorded results, and the records say of what they are."""

import json
import re

import pytest
import results_table
from record import ROOT

from cuda_llm.tasks.loader import list_tasks

FOUND = json.loads(results_table.RESULTS.read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_has_the_table_of_the_record() -> None:
    (shown,) = re.findall(r"<!-- results: .* -->\n(.*?)\n<!-- end -->", README, re.DOTALL)
    assert shown.splitlines() == [*results_table.table(FOUND), "", results_table.means(FOUND)]
    assert FOUND["commit"] in README
    assert FOUND["driver"] in README


def test_every_shipped_task_has_a_row_and_says_whether_it_was_judged_to_the_end() -> None:
    lines = results_table.table(FOUND)[2:]
    names = [line.split("`")[1] for line in lines]
    assert names == sorted(list_tasks())
    screened = [name for name, line in zip(names, lines, strict=True) if "†" in line]
    assert set(screened) == set(FOUND["screens"])
    failed = [name for name, line in zip(names, lines, strict=True) if "‡" in line]
    assert set(failed) == set(FOUND["failed"])


def test_nothing_that_was_judged_is_slower_than_its_baseline_beyond_its_doubt() -> None:
    for row in results_table.judged(FOUND):
        for size in row.sizes:
            assert size.speedup is not None
            assert size.speedup > 0.98, (row.task, dict(size.dims))


def test_a_mean_of_nothing_is_no_figure() -> None:
    assert results_table.mean([]) == 0.0
    assert results_table.mean([2.0, 8.0]) == pytest.approx(4.0)
