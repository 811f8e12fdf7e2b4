"""A new run that begins as another up to a round, with other hints, which a person may edit as
TOML.

    [[performance_hints]]
    code = "bank_conflicts"
    about = "r1-c2"
    text = "Pad the tile by one column."
"""

import json
import shutil
import tomllib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cuda_llm.codec import encode
from cuda_llm.data_file import UnfitError, read_as
from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.record import recorded_config
from cuda_llm.graph.runs.resolve import name_run
from cuda_llm.graph.view import standing_hints
from cuda_llm.search import Brief, Hint
from cuda_llm.traces.event_line import now, to_line
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import RoundBegan, RunForked, RunStarted
from cuda_llm.traces.files import write_file
from cuda_llm.traces.run_folder import RunFolder

if TYPE_CHECKING:
    from langgraph.types import StateSnapshot

CHANNELS = ("error_hints", "performance_hints")
BEFORE_A_ROUND = "strategy"
"""The node that a round begins with."""
BETWEEN_ROUNDS = "route"
"""Node that leads to the next round."""
ALWAYS = ("code", "about", "text", "by")
KEYS = tuple(field for field in fields(Hint) if field.name != "id")
"""Fields of a hint that an entry of a hints file may have. The id follows from the other fields: a
changed hint is a new hint."""


@dataclass(frozen=True, kw_only=True)
class Hints:
    """The hints of a run, by channel."""

    round: int
    """Round after which the run had these hints."""
    error_hints: tuple[Hint, ...] = ()
    performance_hints: tuple[Hint, ...] = ()


def to_toml(hints: Hints) -> str:
    """Return the text of the hints file, with a comment on how to edit the file."""
    return "\n".join(_lines(hints)) + "\n"


def from_toml(text: str, round_: int, name: str) -> Hints:
    """Read the hints of an edited file. What an entry leaves out is as in a user's hint.

    Raises UsageError naming the file `name`, the entry and what was expected.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name}: is not TOML: {error}") from None
    own = {"round": round_, "about": "", "code": "USER", "by": "user"}
    whole = {key: _with_defaults(value, own) for key, value in data.items()}
    try:
        hints = read_as(Hints, whole, {"round": round_})
        _check_entries(hints, data)
    except UnfitError as error:
        raise UsageError(f"{name}: {error}") from None
    return hints


def _with_defaults(entries: Any, own: Mapping[str, Any]) -> Any:
    """Add fields to the tables of a list; other values are refused where they are read."""
    if not isinstance(entries, list):
        return entries
    return [{**own, **one} if isinstance(one, dict) else one for one in entries]


def _check_entries(hints: Hints, data: Mapping[str, Any]) -> None:
    """Check an entry beyond its types: an entry has a text, and its id follows from the entry."""
    for channel in CHANNELS:
        for index, hint in enumerate(getattr(hints, channel)):
            if "id" in data[channel][index]:
                known = ", ".join(field.name for field in KEYS)
                raise UnfitError("an unknown key", f"one of {known}", channel, index, "id")
            if not hint.text.strip():
                raise UnfitError(hint.text, "some text", channel, index, "text")


def _lines(hints: Hints) -> Iterator[str]:
    yield f"# What the run has learned up to round {hints.round}. Change, add or delete entries;"
    yield "# the new run goes on with what is left. An entry of your own needs only a text."
    for channel in CHANNELS:
        for hint in getattr(hints, channel):
            yield from ("", f"[[{channel}]]")
            for field in KEYS:
                value = encode(getattr(hint, field.name))
                if field.name in ALWAYS or value not in ("", [], field.default):
                    yield f"{field.name} = {_spell(value)}"
    yield from ("", "# [[performance_hints]]", '# text = "..."')


def _spell(value: Any) -> str:
    """Return a TOML value. JSON spells strings, numbers and lists alike, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


async def hints_at(folder: RunFolder, round_: int) -> Hints:
    """Return the hints given up to that round. Raises UsageError where the run never got there."""
    return hints_of(folder, (await snapshot_at(folder, round_)).values, round_)


def hints_of(folder: RunFolder, values: Mapping[str, Any], round_: int) -> Hints:
    """Return the hints that a state names."""
    read = {name: standing_hints(folder, values, name) for name in CHANNELS}
    return Hints(round=round_, **read)


async def fork(folder: RunFolder, round_: int, hints: Hints) -> RunFolder:
    """Write the folder of a new run, which `resume` takes on behind `round_`; the old one stays.

    Raises UsageError: the run never came behind that round, or the folder cannot be written.
    """
    values = (await snapshot_at(folder, round_)).values
    run = folder.read_run()
    name = name_run(run["task"], datetime.now(UTC))
    new = RunFolder(folder.path.with_name(name))
    copy_candidates(folder, new, values.get("attempts", ()))
    copy_rounds(folder, new, round_)
    copy_hints(folder, new, values, new.candidates())
    if lessons := folder.lessons():
        new.write_lessons(lessons)
    edited = {
        channel: [one.id for one in new.keep_hints(getattr(hints, channel))] for channel in CHANNELS
    }
    again = {one for names in edited.values() for one in names}
    withdrawn = {key: to for key, to in values.get("withdrawn", {}).items() if key not in again}
    stated = {**values, **edited, "withdrawn": withdrawn}
    await put_state(new, {**stated, "run_id": name})
    changed = hints != hints_of(folder, values, round_)
    copy_events(folder, new, RunForked(of=folder.name, round=round_, edited_hints=changed))
    request = recorded_config(folder, run).changed(run_id=name)
    lineage = {"run": folder.name, "round": round_}
    # Last: a folder with a run.json is a run.
    new.write_run({**run, "run_id": name, "forked_from": lineage, "request": encode(request)})
    return new


async def snapshot_at(folder: RunFolder, round_: int) -> "StateSnapshot":
    """Return the state between that round and the next. Raises UsageError where there is none."""
    found: dict[int, StateSnapshot] = {}
    if folder.checkpoint.exists():
        async with open_graph(folder) as graph:
            async for snapshot in graph.aget_state_history(thread_config(folder)):
                if BEFORE_A_ROUND in snapshot.next:
                    found.setdefault(max(0, snapshot.values["round"]), snapshot)
    if round_ in found:
        return found[round_]
    there = f"there is {min(found)} to {max(found)}" if found else "there is none yet"
    raise UsageError(f"run {folder.name} was never between round {round_} and the next; {there}")


async def put_state(folder: RunFolder, values: Mapping[str, Any]) -> None:
    """Begin the checkpoints of a new run with a state between two rounds."""
    async with open_graph(folder) as graph:
        await graph.aupdate_state(thread_config(folder), dict(values), as_node=BETWEEN_ROUNDS)


@asynccontextmanager
async def open_graph(folder: RunFolder) -> AsyncIterator[Any]:
    """Open the graph over the run's checkpoints, to read and to write, not to run."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    from cuda_llm.graph.runs.build_graph import build_graph

    async with AsyncSqliteSaver.from_conn_string(str(folder.checkpoint)) as saver:
        yield build_graph().compile(checkpointer=saver)


def thread_config(folder: RunFolder) -> Any:
    """Return the configuration that names the run's checkpoints."""
    return {"configurable": {"thread_id": folder.name}}


def copy_candidates(old: RunFolder, new: RunFolder, names: Iterable[str]) -> None:
    """Copy judged candidates. Raises UsageError where they cannot be written."""
    try:
        new.path.mkdir(parents=True)
        for name in names:
            shutil.copytree(old.candidate(name), new.candidate(name))
    except OSError as error:
        raise UsageError(f"{new.path}: {error.strerror or error}; a fork writes there") from None


def copy_rounds(old: RunFolder, new: RunFolder, round_: int) -> None:
    """Copy the folders of whole rounds."""
    for number in range(round_ + 1):
        if (old.path / f"rounds/{number}").is_dir():
            shutil.copytree(old.path / f"rounds/{number}", new.path / f"rounds/{number}")


def copy_hints(
    old: RunFolder, new: RunFolder, values: Mapping[str, Any], candidates: Iterable[str]
) -> None:
    """Copy the hints that the state and the briefs name, under the same ids."""
    briefs = [old.look_up(Brief, name) for name in candidates]
    given = {name for channel in CHANNELS for name in values.get(channel, ())}
    named = {one.id for brief in briefs for one in (*brief.error_hints, *brief.performance_hints)}
    for name in named | given:
        (new.path / "hints").mkdir(exist_ok=True)
        shutil.copy(old.path / f"hints/{name}.json", new.path / "hints")


def copy_events(old: RunFolder, new: RunFolder, forked: RunForked) -> None:
    """Copy the events up to the round, with their times, and add the fork."""
    lines: list[bytes] = []
    for one in read_events(old.events):
        event = one.event
        if isinstance(event, RoundBegan) and event.round > forked.round:
            break
        if isinstance(event, RunStarted):
            event = replace(event, run_id=new.name)
        lines.append(to_line(event, len(lines) + 1, one.at))
    lines.append(to_line(forked, len(lines) + 1, now()))
    write_file(new.events, b"".join(lines).decode())
