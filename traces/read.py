"""Reads the events of a run: finished, under way or killed, of this version or a later one."""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

from cuda_llm.codec import decode
from cuda_llm.errors import UsageError
from cuda_llm.traces.events import VERSION, Event
from cuda_llm.traces.recorder import NAMED
from cuda_llm.traces.run_folder import RunFolder

KINDS: dict[str, Callable[..., Event]] = {one.kind: one for one in get_args(Event)}
"""Every event by its kind."""

POLL_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One event as it lies on disk."""

    seq: int
    at: str
    """UTC, `2026-01-31T10:00:00.123Z`."""
    event: Event


@dataclass(frozen=True, kw_only=True)
class Trace:
    """All events of a run that could be read."""

    events: tuple[Recorded, ...] = ()
    unknown: int = 0
    """Lines of kinds or of a version that this program does not know."""
    torn: int = 0
    """Lines that are no event: cut off by a kill, damaged, or about a file that is gone."""


def read_events(path: Path) -> tuple[Recorded, ...]:
    """The events of a run's file, in order. Raises UsageError where it cannot be read."""
    return read_trace(path).events


def read_trace(path: Path) -> Trace:
    """The events of a file, and how many lines were skipped. Raises UsageError."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; expected the events of a run") from None
    folder = RunFolder(path.parent)
    read = [_read_line(line, folder) for line in lines if line.strip()]
    return Trace(
        events=tuple(one for one in read if isinstance(one, Recorded)),
        unknown=read.count("unknown"),
        torn=read.count("torn"),
    )


def follow_events(path: Path, *, until: Callable[[], bool]) -> Iterator[Recorded]:
    """The events of a file, then each that is added, until `until` says that none will be."""
    folder = RunFolder(path.parent)
    with path.open("rb") as file:
        while True:
            last = until()
            # A resumed run cuts a torn line off: only whole lines are passed over.
            *lines, rest = file.read().split(b"\n")
            file.seek(-len(rest), os.SEEK_CUR)
            for line in lines:
                read = _read_line(line, folder)
                if isinstance(read, Recorded):
                    yield read
            if last:
                return
            time.sleep(POLL_S)


def _read_line(line: bytes, folder: RunFolder) -> Recorded | str:
    try:
        fields = json.loads(line)
        version, kind = fields.pop("v"), fields.pop("kind")
        if version > VERSION or kind not in KINDS:
            return "unknown"
        seq, at = fields.pop("seq"), fields.pop("at")
        datetime.fromisoformat(at)
        for name in fields:
            if value_kind := NAMED.get(f"{kind}.{name}"):
                fields[name] = _look_up(folder, value_kind, fields[name])
        return Recorded(seq=int(seq), at=at, event=decode(KINDS[kind], fields))
    except (UsageError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "torn"


def _look_up(folder: RunFolder, kind: type[Any], named: Any) -> Any:
    if isinstance(named, list):
        return tuple(folder.look_up(kind, one) for one in named)
    return folder.look_up(kind, named)
