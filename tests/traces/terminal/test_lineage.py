"""The tree of a run: each candidate once, below its parent, failures too."""

from dataclasses import replace
from pathlib import Path

from recorded_run import beginning, ending, write_run
from report_runs import write_large_run

from cuda_llm.cli.printing import join
from cuda_llm.traces.report.candidates import CandidateReader
from cuda_llm.traces.report.gather import view_run
from cuda_llm.traces.terminal.lineage import describe_tree, grow_tree


def test_each_candidate_stands_once_below_its_parent(tmp_path: Path) -> None:
    rows = view_run(CandidateReader(write_large_run(tmp_path / "a-run", rounds=5, candidates=8)))[
        0
    ].rows
    path: list[str] = []
    for branch in grow_tree(rows):
        del path[branch.depth :]
        assert branch.row.parent == (path[-1] if path else None)
        path.append(branch.row.id)
    assert sorted(one.row.id for one in grow_tree(rows)) == sorted(row.id for row in rows)


def test_a_tree_is_drawn_with_its_failures(tmp_path: Path) -> None:
    view = view_run(CandidateReader(write_run(tmp_path / "a-run", *beginning(), *ending())))[0]
    lines = [join(one, None, colours=False) for one in describe_tree(view.rows, view.best)]
    assert [line[:14].rstrip() for line in lines] == [
        "  r1-c1     1.",
        "  r1-c2     CO",
        "* └─ r2-c1  3.",
        "  r1-c3     NO",
    ]
    assert lines[1].endswith('identifier "tile" is undefined')


def test_parents_in_a_circle_and_lost_ones_hide_nobody(tmp_path: Path) -> None:
    rows = view_run(CandidateReader(write_run(tmp_path / "a-run", *beginning(), *ending())))[0].rows
    first, second, third, fourth = rows
    damaged = (
        replace(first, parent="r1-c2"),
        replace(second, parent="r1-c1"),
        replace(third, parent="r0-c9"),
        fourth,
    )
    assert sorted(one.row.id for one in grow_tree(damaged)) == sorted(row.id for row in rows)


def test_a_chain_of_five_hundred_is_drawn(tmp_path: Path) -> None:
    (row, *_) = view_run(CandidateReader(write_run(tmp_path / "a-run", *beginning())))[0].rows
    chain = [replace(row, id=f"r{i}-c1", parent=f"r{i - 1}-c1" if i else None) for i in range(500)]
    assert [one.depth for one in grow_tree(chain)] == list(range(500))
