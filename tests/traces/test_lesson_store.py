"""The store of orders of earlier runs: torn lines, writers at once, a bounded size."""

import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

from cuda_llm.lessons import TriedOrder
from cuda_llm.search import Kind
from cuda_llm.traces.lesson_store import MOST_BYTES, add_orders, read_orders

ORDER = TriedOrder(
    run="a-run",
    candidate="r2-c1",
    gpu="NVIDIA H200",
    time_source="measured",
    task="relu",
    task_kind="elementwise",
    kind=Kind.IMPROVE,
    technique="several independent loads a thread",
    against="latency",
    promised=0.2,
    had=0.12,
    gained=True,
)
WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_lesson_store import ORDER
from cuda_llm.traces.lesson_store import add_orders
for number in range(50):
    add_orders(Path({store!r}), [replace(ORDER, run={run!r}, candidate=f"r{{number}}-c{{index}}")
               for index in range(4)])
"""


def test_what_was_added_is_read_in_its_order(tmp_path: Path) -> None:
    store = tmp_path / "deep" / "lessons.jsonl"
    assert read_orders(store) == ()
    add_orders(store, [ORDER])
    failed = replace(ORDER, candidate="r2-c2", had=None, gained=False)
    add_orders(store, [failed])
    assert read_orders(store) == (ORDER, failed)


def test_a_line_that_a_killed_writer_left_torn_is_skipped_and_costs_no_other(
    tmp_path: Path,
) -> None:
    store = tmp_path / "lessons.jsonl"
    add_orders(store, [ORDER])
    whole = store.read_bytes()
    for cut in (1, len(whole) // 2, len(whole) - 1):
        store.write_bytes(whole + whole[:cut])
        assert read_orders(store)[0] == ORDER
        later = replace(ORDER, candidate="r3-c1")
        add_orders(store, [later])
        assert read_orders(store)[-1] == later


def test_lines_of_other_versions_and_other_files_are_skipped(tmp_path: Path) -> None:
    store = tmp_path / "lessons.jsonl"
    store.write_bytes(b'\xff\xfe\n[1]\nnull\n{"run": "x"}\n' + b"[" * 100_000 + b"\n")
    add_orders(store, [ORDER])
    assert read_orders(store) == (ORDER,)


def test_two_processes_that_write_at_once_lose_nothing_also_where_the_store_is_full(
    tmp_path: Path,
) -> None:
    store = tmp_path / "lessons.jsonl"
    add_orders(store, [ORDER])
    store.write_bytes(store.read_bytes() * ((MOST_BYTES - 50_000) // store.stat().st_size))
    at = {"tests": str(Path(__file__).parent), "store": str(store)}
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER.format(run=run, **at)])
        for run in ("one", "two")
    ]
    assert [one.wait() for one in writers] == [0, 0]
    found = [one for one in read_orders(store) if one.run != ORDER.run]
    assert len(found) == len(set(found)) == 400
    assert store.stat().st_size < MOST_BYTES - 50_000
    own = [one.candidate for one in found if one.run == "two"]
    assert own == [f"r{number}-c{index}" for number in range(50) for index in range(4)]


def test_a_full_store_forgets_its_oldest_orders(tmp_path: Path) -> None:
    store = tmp_path / "lessons.jsonl"
    batch = [replace(ORDER, candidate=f"r1-c{index}") for index in range(200)]
    for number in range(40):
        add_orders(store, [replace(one, run=f"run-{number}") for one in batch])
        assert store.stat().st_size <= MOST_BYTES
    found = read_orders(store)
    assert found[-1].run == "run-39"
    assert "run-0" not in {one.run for one in found}
    assert len(found) > len(batch)


def test_a_line_holds_names_and_figures_alone(tmp_path: Path) -> None:
    store = tmp_path / "lessons.jsonl"
    add_orders(store, [ORDER])
    line = json.loads(store.read_text())
    assert line.keys() == {one.name for one in fields(TriedOrder)}
    assert not any("/" in str(value) or "\n" in str(value) for value in line.values())
