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

from cuda_llm.codec import decode, encode
from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.record import recorded_request
from cuda_llm.graph.runs.resolve import name_run
from cuda_llm.search import Attempt, Brief, Hint
from cuda_llm.traces.event_log import now, read_events, to_line
from cuda_llm.traces.events import HintGiven, RoundBegan, RunForked, RunStarted
from cuda_llm.traces.files import write_file
from cuda_llm.traces.run_folder import RunFolder

if TYPE_CHECKING:
    from langgraph.types import StateSnapshot

CHANNELS = ("error_hints", "performance_hints")
ALWAYS = ("code", "about", "text", "by")
KEYS = tuple(field for field in fields(Hint) if field.name != "id")
"""What an entry may say. Its id follows from that: a hint that was changed is another one."""


@dataclass(frozen=True, kw_only=True)
class Hints:
    """What a run has learned, by channel."""

    round: int
    """After which round."""
    error_hints: tuple[Hint, ...] = ()
    performance_hints: tuple[Hint, ...] = ()


def to_toml(hints: Hints) -> str:
    """The file, with a word on how to edit it."""
    return "\n".join(_lines(hints)) + "\n"


def from_toml(text: str, round_: int, name: str) -> Hints:
    """The hints of an edited file. What an entry leaves out is a person's own.

    Raises UsageError naming the file `name`, the entry and what was expected.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name}: no TOML: {error}") from None
    unknown = sorted(set(data) - set(CHANNELS))
    if unknown:
        expected = " and ".join(f"[[{channel}]]" for channel in CHANNELS)
        raise UsageError(f"{name}: unknown key {unknown[0]!r}; expected {expected}")
    read = {channel: tuple(_read(data, channel, round_, name)) for channel in CHANNELS}
    return Hints(round=round_, **read)


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
    """A TOML value. JSON spells strings, numbers and lists alike, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _read(data: dict[str, Any], channel: str, round_: int, name: str) -> Iterator[Hint]:
    entries = data.get(channel, [])
    if not isinstance(entries, list):
        raise UsageError(f"{name}: {channel} is no list; expected [[{channel}]]")
    known = [field.name for field in KEYS]
    for number, entry in enumerate(entries, 1):
        where = f"{name}: {channel} {number}"
        if not isinstance(entry, dict) or not str(entry.get("text", "")).strip():
            raise UsageError(f'{where}: expected text = "..."')
        unknown = sorted(set(entry) - set(known))
        if unknown:
            raise UsageError(f"{where}: unknown key {unknown[0]!r}; there are {', '.join(known)}")
        own = {"round": round_, "about": "", "code": "USER", "by": "user"}
        try:
            yield decode(Hint, {**own, **entry})
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from None


BEFORE_A_ROUND = "strategy"
"""The node that a round begins with."""
BETWEEN_ROUNDS = "route"
"""The node that leads to it."""


async def hints_at(folder: RunFolder, round_: int) -> Hints:
    """What the run had learned up to that round. Raises UsageError where it was never there."""
    return hints_of(folder, (await snapshot_at(folder, round_)).values, round_)


def hints_of(folder: RunFolder, values: Mapping[str, Any], round_: int) -> Hints:
    """The hints that a state names."""
    read = {
        name: tuple(folder.look_up(Hint, one) for one in values.get(name, ())) for name in CHANNELS
    }
    return Hints(round=round_, **read)


async def fork(folder: RunFolder, round_: int, hints: Hints) -> RunFolder:
    """The new run's folder: `resume` goes on with it behind `round_`. The old one stays as it is.

    Raises UsageError: the run never came behind that round, or the folder cannot be written.
    """
    values = (await snapshot_at(folder, round_)).values
    run = folder.read_run()
    name = name_run(run["task"], datetime.now(UTC))
    new = RunFolder(folder.path.with_name(name))
    attempts = [folder.look_up(Attempt, one).id for one in values.get("attempts", ())]
    copy_candidates(folder, new, [*attempts, *values.get("late", ())])
    copy_rounds(folder, new, round_)
    copy_hints(folder, new, values, new.candidates())
    edited = {
        channel: [one.id for one in new.keep_hints(getattr(hints, channel))] for channel in CHANNELS
    }
    await put_state(new, {**values, **edited, "attempts": attempts, "run_id": name})
    changed = hints != hints_of(folder, values, round_)
    copy_events(folder, new, RunForked(of=folder.name, round=round_, edited_hints=changed))
    request = replace(recorded_request(folder, run), run_id=name)
    lineage = {"run": folder.name, "round": round_}
    # Last: a folder with a run.json is a run.
    new.write_run({**run, "run_id": name, "forked_from": lineage, "request": encode(request)})
    return new


async def snapshot_at(folder: RunFolder, round_: int) -> "StateSnapshot":
    """The state between that round and the next."""
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
    """The graph over the run's checkpoints, to look and to write, not to run."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    from cuda_llm.graph.runs.build_graph import build_graph

    async with AsyncSqliteSaver.from_conn_string(str(folder.checkpoint)) as saver:
        yield build_graph().compile(checkpointer=saver)


def thread_config(folder: RunFolder) -> Any:
    """What names the run's checkpoints."""
    return {"configurable": {"thread_id": folder.name}}


def copy_candidates(old: RunFolder, new: RunFolder, names: Iterable[str]) -> None:
    """What was judged, and what is late. Raises UsageError where it cannot be written."""
    try:
        new.path.mkdir(parents=True)
        for name in names:
            shutil.copytree(old.candidate(name), new.candidate(name))
    except OSError as error:
        raise UsageError(f"{new.path}: {error.strerror or error}; a fork writes there") from None


def copy_rounds(old: RunFolder, new: RunFolder, round_: int) -> None:
    """What concerns whole rounds."""
    for number in range(round_ + 1):
        if (old.path / f"rounds/{number}").is_dir():
            shutil.copytree(old.path / f"rounds/{number}", new.path / f"rounds/{number}")


def copy_hints(
    old: RunFolder, new: RunFolder, values: Mapping[str, Any], candidates: Iterable[str]
) -> None:
    """What the state and the briefs name, under the ids that they know it by."""
    told = [old.look_up(Brief, name) for name in candidates]
    given = [old.look_up(Hint, one) for channel in CHANNELS for one in values.get(channel, ())]
    named = {one.id for brief in told for one in (*brief.error_hints, *brief.performance_hints)}
    for name in {*named, *(one.id for one in given)} - {""}:
        (new.path / "hints").mkdir(exist_ok=True)
        shutil.copy(old.path / f"hints/{name}.json", new.path / "hints")


def copy_events(old: RunFolder, new: RunFolder, forked: RunForked) -> None:
    """What happened up to the round, at the time it did, and then the fork."""
    lines: list[bytes] = []
    for one in read_events(old.events):
        event = one.event
        if isinstance(event, RoundBegan) and event.round > forked.round:
            break
        if isinstance(event, RunStarted):
            event = replace(event, run_id=new.name)
        if isinstance(event, HintGiven):
            # Schema 1 told of hints without ids.
            event = replace(event, hint=new.keep_hints([event.hint])[0])
        lines.append(to_line(event, len(lines) + 1, one.at))
    lines.append(to_line(forked, len(lines) + 1, now()))
    write_file(new.events, b"".join(lines).decode())
