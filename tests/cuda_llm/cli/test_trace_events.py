"""The events of a run one by one, and as JSON lines, CSV and Parquet."""

import csv
import json
import logging
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet
import pytest
from commands import Command
from otlp_receiver import Collector
from recorded_run import ATTEMPTS, OTHERS, beginning, ending, write_run

from cuda_llm.errors import MissingError, UsageError
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.event_table import COLUMNS, Events, write_parquet
from cuda_llm.traces.events import BaselineJudged, StageLeft
from cuda_llm.traces.run_folder import RunFolder

ROOT = Path(__file__).parents[3]
HEAD = ["seq", "at", "kind", *COLUMNS, "fields"]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run with an event of every kind."""
    return write_run(tmp_path / "a-run", *beginning(), *OTHERS, *ending())


def damage(run: RunFolder) -> None:
    """Tear the last line, damage one, add one of a later version, lose a candidate's file."""
    lines = run.events.read_bytes().splitlines(keepends=True)
    later = b'{"v":9,"seq":99,"at":"2026-01-31T10:00:00Z","kind":"dreamt"}\n'
    run.events.write_bytes(b"".join([*lines[:5], b"\x00\xff{]\n", later, *lines[5:]])[:-20])
    (run.path / "candidates/r1-c1/attempt.json").unlink()


def test_events_come_as_they_are_read(run: RunFolder) -> None:
    events = iter(Events(run.events))
    assert next(events).seq == 1
    lines = run.events.read_bytes().splitlines(keepends=True)
    assert tuple(Events(run.events)) == read_events(run.events)
    assert 1 + sum(1 for _ in events) == len(lines)


def test_damaged_events_are_read_as_far_as_they_go(
    run: RunFolder, caplog: pytest.LogCaptureFixture
) -> None:
    whole = len(read_events(run.events))
    damage(run)
    events = Events(run.events)
    with caplog.at_level(logging.WARNING, logger="cuda_llm"):
        assert len(list(events)) == whole - 2
    assert events.missing == (
        "events.jsonl: 3 lines cut off, damaged or about a lost file; "
        "events.jsonl: 1 line written by a newer cuda-llm"
    )
    (told,) = caplog.records
    assert events.missing in str(told.getMessage())


def test_a_run_without_events_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"events\.jsonl: No such file.*expected the events"):
        list(Events(tmp_path / "events.jsonl"))


def test_json_lines_hold_events_whole(command: Command, run: RunFolder) -> None:
    ran = command("trace", "events", run.path)
    assert (ran.code, ran.stderr) == (0, "")
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    shown = json.loads(command("trace", "show", run.path, "--json").stdout)["events"]
    assert lines == shown
    schema = json.loads((ROOT / "docs/schemas/trace.schema.json").read_text())
    for line in lines:
        jsonschema.validate(line, {"$ref": "#/$defs/event", "$defs": schema["$defs"]})
    assert {line["kind"] for line in lines} == {
        one.kind for one in (*beginning(), *OTHERS, *ending())
    }


def test_csv_has_the_columns_that_events_share(command: Command, run: RunFolder) -> None:
    ran = command("trace", "events", run.path, "--format", "csv")
    rows = list(csv.DictReader(ran.stdout.splitlines()))
    assert [*rows[0]] == HEAD
    (called,) = [row for row in rows if row["kind"] == "model_called" and row["outcome"] == "ok"]
    assert (called["agent"], called["model"]) == ("generator", "a-model")
    assert (called["input_tokens"], called["usd"], called["seconds"]) == ("1200", "0.01", "3.25")
    judged = [row for row in rows if row["kind"] == "attempt_judged"]
    assert [(row["candidate"], row["outcome"]) for row in judged] == [
        (one.id, one.code) for one in ATTEMPTS
    ]
    assert [row["speedup"] for row in judged] == ["1.25", "", "", "3.5"]
    assert json.loads(judged[1]["fields"])["attempt"]["summary"] == ATTEMPTS[1].summary
    left = [row for row in rows if row["kind"] == StageLeft.kind]
    assert [(row["candidate"], row["stage"]) for row in left] == [("r1-c1", "generate")]


def test_parquet_has_typed_columns(command: Command, run: RunFolder) -> None:
    ran = command("trace", "events", run.path, "--format", "parquet")
    file = run.path / "events.parquet"
    assert ran.stdout == f"{file}\n"
    table: Any = pyarrow.parquet.read_table(file)
    assert table.column_names == HEAD
    types = {name: str(table.schema.field(name).type) for name in HEAD}
    assert types["at"] == "timestamp[ms, tz=UTC]"
    assert (types["seq"], types["round"], types["usd"]) == ("int64", "int64", "double")
    events = read_events(run.events)
    assert table.column("seq").to_pylist() == [one.seq for one in events]
    (baseline,) = [one.event for one in events if isinstance(one.event, BaselineJudged)]
    (row,) = [one for one in table.to_pylist() if one["kind"] == BaselineJudged.kind]
    assert row["seconds"] == baseline.seconds
    assert row["at"].tzinfo is not None


def test_a_damaged_trace_is_written_as_far_as_it_goes(command: Command, run: RunFolder) -> None:
    damage(run)
    for format in ("jsonl", "csv", "parquet"):
        file = run.path / f"out.{format}"
        ran = command("trace", "events", run.path, "--format", format, "--out", file)
        assert ran.code == 0
        assert ran.stdout == f"{file}\n"
        assert ran.stderr.startswith("not there: events.jsonl: 3 lines cut off")
        assert file.stat().st_size > 1000


def test_a_file_that_cannot_be_written_is_named(command: Command, run: RunFolder) -> None:
    for format in ("csv", "parquet"):
        out = run.events / "x"
        ran = command("trace", "events", run.path, "--format", format, "--out", out)
        assert ran.code == 2
        assert f"{out}: cannot be written" in ran.complaint


def test_parquet_without_pyarrow_names_the_mend(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        MissingError, match=r"use --format csv, or install it: pip install 'cuda-llm\[parquet\]'"
    ):
        write_parquet(Events(run.events), run.path / "x.parquet")


def test_a_run_is_sent_to_a_collector(
    command: Command, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        ran = command("trace", "otlp", run.path)
    told, trace = ran.stdout.splitlines()
    assert told == f"{len(collector.spans)} spans of a-run sent to {collector.address}/v1/traces"
    assert trace == f"  trace {collector.spans[0].trace}"
    refused = command("trace", "otlp", run.path, "--content")
    assert refused.code == 3
    assert f"{collector.address}/v1/traces takes no spans (Connection refused)" in refused.complaint
