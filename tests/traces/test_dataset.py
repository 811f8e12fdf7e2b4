"""Runs as a dataset: a row a judged candidate, that fits its schema and names nothing of the
machine."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pyarrow.parquet
import pytest

from cuda_llm.traces.dataset import (
    Trajectory,
    read_trajectories,
    without_traces_of_the_machine,
    write_dataset,
)
from cuda_llm.traces.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
RUN = RunFolder(ROOT / "benchmarks/experiments/paper-without-a-gpu/runs/reduction")


@pytest.fixture(scope="module")
def rows() -> list[Trajectory]:
    return [*read_trajectories(RUN)]


def test_a_row_holds_what_the_model_was_sent_and_what_it_answered(rows: list[Trajectory]) -> None:
    assert {row.candidate for row in rows} == {*RUN.candidates()}
    asked = [row for row in rows if (RUN.candidate(row.candidate) / "prompt.md").exists()]
    assert {row.candidate for row in rows if row not in asked} == {"r1-t1"}, "put together of two"
    for row in asked:
        assert [one.role for one in row.messages] == ["system", "user"]
        prompt = (RUN.candidate(row.candidate) / "prompt.md").read_text()
        assert all(one.text in prompt for one in row.messages)
        assert row.reply and row.source in row.reply.replace("\r", "")
        assert row.passed == (row.speedup is not None) == bool(row.times_us)
    by_name = {row.candidate: row for row in rows}
    assert any(row.parent in by_name for row in rows)


@pytest.mark.parametrize("to", ["jsonl", "parquet"])
def test_the_rows_are_written_with_their_schema_and_a_card(
    tmp_path: Path, rows: list[Trajectory], to: str
) -> None:
    assert write_dataset([RUN], tmp_path, to) == len(rows)  # type: ignore[arg-type]
    assert {one.name for one in tmp_path.iterdir()} == {
        f"trajectories.{to}",
        "schema.json",
        "README.md",
    }
    file = tmp_path / f"trajectories.{to}"
    if to == "parquet":
        written = pyarrow.parquet.read_table(file).to_pylist()
    else:
        written = [json.loads(line) for line in file.read_text().splitlines()]
    schema = json.loads((tmp_path / "schema.json").read_text())
    for one in written:
        jsonschema.validate(one, schema)
    assert [one["candidate"] for one in written] == [row.candidate for row in rows]
    assert f"{len(rows)} judged candidates of 1 runs" in (tmp_path / "README.md").read_text()


def test_keys_and_absolute_paths_are_replaced(
    rows: list[Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_API_KEY", "abcdefghijkl")
    text = "at /home/ada/mine.cu:3, a / b / c, 1/tmp, //tmp/x, https://a.org/usr/b; abcdefghijkl"
    clean = without_traces_of_the_machine(replace(rows[0], reply=text)).reply
    assert clean == ("at (path):3, a / b / c, 1/tmp, //tmp/x, https://a.org/usr/b; (key)")
