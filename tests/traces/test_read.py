"""Every event reads back as it was recorded, and a reader survives what it does not know."""

import dataclasses
import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_run import OTHERS, beginning, ending, kept

from cuda_llm.errors import UsageError
from cuda_llm.search import Brief, Hint
from cuda_llm.traces.event_line import to_line
from cuda_llm.traces.event_log import (
    KINDS,
    Recorder,
    follow_events,
    read_events,
    read_trace,
)
from cuda_llm.traces.events import (
    Event,
    RunResumed,
    StageEntered,
)
from cuda_llm.traces.run_folder import RunFolder

HEADER = {"v", "seq", "at", "kind"}
AT = "2026-01-31T10:00:00.123Z"

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
IDS = st.from_regex(r"r[0-9]-c[1-9]", fullmatch=True)
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    Any: st.none() | st.booleans() | st.integers() | TEXT,
    str: TEXT,
    float: st.floats(allow_nan=False),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of the type of an event or of a field."""
    if kind in SIMPLE:
        return SIMPLE[kind]
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return st.builds(
            kind,
            **{
                one.name: IDS if one.name == "id" else values(hints[one.name])
                for one in dataclasses.fields(kind)
            },
        )
    if get_origin(kind) is tuple:
        one = get_args(kind)[0]
        by_id = (lambda value: value.id) if one in (Brief, Hint) else None
        return st.lists(values(one), max_size=2, unique_by=by_id).map(tuple)
    if get_origin(kind) is Mapping:
        key, value = map(values, get_args(kind))
        return st.dictionaries(key, value, max_size=2)
    if type(None) in get_args(kind):
        return st.one_of(*map(values, get_args(kind)))
    return st.from_type(kind)


@settings(max_examples=examples(12))
@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: str(kind.kind))
@given(data=st.data())
def test_every_event_reads_back_as_it_was_recorded(
    tmp_path_factory: pytest.TempPathFactory, kind: type[Event], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("run") / "events.jsonl"
    event = kept(RunFolder(path.parent), data.draw(values(kind)))
    path.write_bytes(to_line(event, 7, AT))
    (read,) = read_events(path)
    assert (read.seq, read.at, read.event) == (7, AT, event)


def test_every_kind_of_event_has_a_hand_made_example() -> None:
    found = {event.kind for event in (*beginning(), *ending(), *OTHERS)}
    assert found == set(KINDS)


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: str(kind.kind))
def test_no_field_hides_the_header_of_a_line(kind: type[Event]) -> None:
    assert not HEADER & {one.name for one in dataclasses.fields(kind)}


def line(**fields: object) -> str:
    whole = {"v": 2, "seq": 1, "at": AT, "kind": "run_resumed", "round": 2} | fields
    return json.dumps(whole) + "\n"


def test_what_a_later_version_adds_is_skipped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(
        line()
        + line(seq=2, kind="something_new", text="hm")
        + line(seq=3, new_field={"a": 1})
        + line(seq=4, v=3)
    )
    trace = read_trace(path)
    assert [(one.seq, one.event) for one in trace.events] == [
        (1, RunResumed(round=2)),
        (3, RunResumed(round=2)),
    ]
    assert (trace.unknown, trace.torn) == (2, 0)


@pytest.mark.parametrize(
    "broken",
    [
        '{"v": 2, "se',
        "nonsense",
        "[]",
        "null",
        "{}",
        '{"v": "x"}',
        line(round="many").strip(),
        '{"v": 2, "seq": 1, "at": 1}',
        '{"v":2,"seq":2,"at":"x","kind":["run_resumed"],"round":1}',
        "[" * 5000,
        "\x00\xff",
    ],
)
def test_a_damaged_line_is_skipped_and_counted(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes((line() + broken + "\n" + line(seq=3)).encode("latin-1"))
    trace = read_trace(path)
    assert ([one.seq for one in trace.events], trace.torn) == ([1, 3], 1)


def test_a_file_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected the events of a run"):
        read_events(tmp_path / "events.jsonl")


def test_following_a_file_yields_each_event_once_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record = Recorder(path)
    done = threading.Event()

    def work() -> None:
        for turn in range(20):
            record(StageEntered(candidate="r1-c1", stage=str(turn)))
            time.sleep(0.01)
        record.close()
        done.set()

    writer = threading.Thread(target=work)
    writer.start()
    found = [one.seq for one in follow_events(path, until=done.is_set)]
    writer.join()
    assert found == list(range(1, 21))


def test_following_waits_for_the_rest_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    whole = line()
    path.write_text(whole[:20])
    turns = iter([False, True])

    def until() -> bool:
        last = next(turns)
        if last:
            with path.open("a") as file:
                file.write(whole[20:])
        return last

    assert [one.event for one in follow_events(path, until=until)] == [RunResumed(round=2)]
