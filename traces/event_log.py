"""The event log of a run: written as events happen, read while it grows and afterwards.

A line is on disk before observers get the event. Readers skip lines that a kill left torn or that
a later version wrote.
"""

import fcntl
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

from cuda_llm.codec import decode, encode
from cuda_llm.errors import CudaLLMError, UnusableFile, UsageError
from cuda_llm.log import OURS, Log
from cuda_llm.traces.event_line import FIELDS_BY_ID, identity_of, now, to_line
from cuda_llm.traces.events import VERSION, AttemptRepeated, Event
from cuda_llm.traces.files import cannot_write
from cuda_llm.traces.run_folder import RunFolder

_log = Log(__name__)
_events = Log(f"{OURS}.events")

Observer = Callable[[Event], object]
"""Receives every event: a terminal, a progress bar, a test."""
KINDS: dict[str, Callable[..., Event]] = {one.kind: one for one in get_args(Event)}
"""Every event by its kind."""
POLL_S = 0.2
UNREADABLE = (UsageError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What a line that is no event, or names a file that is gone, raises."""


class Recorder:
    """Appends events to one file; call it with each. Safe to share between tasks and threads.

    While it is open no second one can be, in this process or another: two would tear the run. A
    process that dies gives the file back, whatever killed it.
    """

    def __init__(self, path: Path, observers: Iterable[Observer] = ()) -> None:
        """Open the file. Raises UsageError where it cannot be written or another process does."""
        self.at_close: Callable[[], object] = lambda: None
        """Called once, after the last event."""
        self._path = path
        self._observers = list(observers)
        # Reentrant: an observer may record something itself.
        self._turn = threading.RLock()
        self._file: int | None = _open_alone(path)
        self._seq, self._end = _cut_torn_line(self._file)
        self._told = {identity_of(one.event) for one in read_events(path)} - {None}
        """Identities of the events in the file."""
        self._told_here: set[str] = set()
        """Those that the observers of this process know."""

    def __call__(self, event: Event) -> None:
        """Record `event`, then call the observers. After `close` nothing is recorded any more.

        An event that an earlier process recorded is not written again, one that this process
        recorded is passed over.
        """
        with self._turn:
            if self._file is None:
                return
            key = identity_of(event)
            if key is None or key not in self._told:
                self._write(event)
            if key is not None:
                if key in self._told_here:
                    return
                self._told_here.add(key)
                self._told.add(key)
            for observer in tuple(self._observers):
                self._notify(observer, event)

    def _write(self, event: Event) -> None:
        assert self._file is not None
        line = to_line(event, self._seq, now())
        try:
            _append(self._file, line)
        except OSError as error:
            os.ftruncate(self._file, self._end)
            raise cannot_write(self._path, error, len(line)) from None
        self._log(event)
        self._seq += 1
        self._end += len(line)

    def _log(self, event: Event) -> None:
        """Log the event too, so that one processor can send all records elsewhere."""
        if _events.is_enabled(logging.INFO):
            fields = {"run_id": self._path.parent.name, **encode(event), "seq": self._seq}
            _events.info(event.kind, **fields)

    def close(self) -> None:
        """Close the file and unlock it."""
        with self._turn:
            file, self._file = self._file, None
        if file is not None:
            os.close(file)
            self.at_close()

    def _notify(self, observer: Observer, event: Event) -> None:
        try:
            observer(event)
        except CudaLLMError:
            # It names the remedy: what belongs to the run cannot be stored.
            raise
        except Exception as error:
            if observer in self._observers:
                self._observers.remove(observer)
            _log.warning(
                "an observer raised; it is called no more",
                observer=getattr(observer, "__qualname__", type(observer).__qualname__),
                error=f"{type(error).__name__}: {error}",
                exc_info=error,
            )


def is_being_written(path: Path) -> bool:
    """Return whether a living process has a Recorder open on this file."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        # A shared lock, so that two who ask never take each other for a writer.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _open_alone(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise cannot_write(path, error) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise UsageError(
            f"{path.parent}: another process is at work on this run; wait for it or stop it"
        ) from None
    return file


def _cut_torn_line(file: int) -> tuple[int, int]:
    """Cut off a torn last line; return the next sequence number and the length of the file."""
    with os.fdopen(os.dup(file), "rb") as reader:
        data = reader.read()
    whole = data.rfind(b"\n") + 1
    if _number(data[whole:]) is not None:
        # Only its line end is missing.
        _append(file, b"\n")
        data += b"\n"
        whole = len(data)
    os.ftruncate(file, whole)
    numbers = map(_number, reversed(data[:whole].split(b"\n")))
    last = next((number for number in numbers if number is not None), 0)
    return last + 1, whole


def _number(line: bytes) -> int | None:
    try:
        seq = json.loads(line)["seq"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return seq if isinstance(seq, int) else None


def _append(file: int, line: bytes) -> None:
    while line:
        line = line[os.write(file, line) :]


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
    """Return the events of a run's file, in order. Raises UsageError where it cannot be read."""
    return read_trace(path).events


def read_trace(path: Path) -> Trace:
    """Return the events of a file, and how many lines were skipped. Raises UsageError."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        what = error.strerror or str(error)
        raise UnusableFile(path, what, "expected the events of a run") from None
    folder = RunFolder(path.parent)
    read = [read_line(line, folder) for line in lines if line.strip()]
    return Trace(
        events=tuple(one for one in read if isinstance(one, Recorded)),
        unknown=read.count("unknown"),
        torn=read.count("torn"),
    )


def follow_events(path: Path, *, until: Callable[[], bool]) -> Iterator[Recorded]:
    """Yield the events of a file, then each that is added, until `until` says that none will be."""
    folder = RunFolder(path.parent)
    with path.open("rb") as file:
        while True:
            last = until()
            # A resumed run cuts a torn line off: only whole lines are passed over.
            *lines, rest = file.read().split(b"\n")
            file.seek(-len(rest), os.SEEK_CUR)
            for line in lines:
                read = read_line(line, folder)
                if isinstance(read, Recorded):
                    yield read
            if last:
                return
            time.sleep(POLL_S)


def read_line(line: bytes, folder: RunFolder) -> Recorded | Literal["unknown", "torn"]:
    """Return the event of a line, or why it is passed over, as `Trace` counts them."""
    try:
        found = _split_line(line)
        if found is None:
            return "unknown"
        kind, seq, at, fields = found
        if kind == AttemptRepeated.kind:
            # Its attempt was written anew since the first line about it.
            folder = RunFolder(folder.path)
        for name in fields:
            if value_kind := FIELDS_BY_ID.get(f"{kind}.{name}"):
                fields[name] = _look_up(folder, value_kind, fields[name])
        event = decode(KINDS[kind], fields)
        return Recorded(seq=seq, at=at, event=event)
    except UNREADABLE:
        return "torn"


def _split_line(line: bytes) -> tuple[str, int, str, dict[str, Any]] | None:
    """Return kind, number, time and fields of a line; None where this program knows no such kind.

    Raises one of UNREADABLE for a line that is no event.
    """
    fields = json.loads(line)
    version, kind = fields.pop("v"), fields.pop("kind")
    if int(version) != VERSION or kind not in KINDS:
        return None
    seq, at = fields.pop("seq"), fields.pop("at")
    datetime.fromisoformat(at)
    return kind, int(seq), at, fields


@dataclass(frozen=True, kw_only=True)
class SkimmedLine:
    """A line of the events without the files that it names."""

    kind: str
    at: str
    fields: dict[str, Any]
    """As they lie on disk: attempts, briefs and hints are ids."""

    def event(self) -> Event:
        """Return the event of a kind that names no file. Raises ValueError for damaged fields."""
        return decode(KINDS[self.kind], self.fields)


def skim_events(path: Path) -> Iterator[SkimmedLine]:
    """Yield the lines that can be read, without opening any other file. Raises UsageError."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        what = error.strerror or str(error)
        raise UnusableFile(path, what, "expected the events of a run") from None
    for line in lines:
        try:
            found = _split_line(line) if line.strip() else None
        except UNREADABLE:
            continue
        if found is not None:
            kind, _, at, fields = found
            yield SkimmedLine(kind=kind, at=at, fields=fields)


def _look_up(folder: RunFolder, kind: type[Any], named: str | list[str]) -> Any:
    if isinstance(named, list):
        return tuple(folder.look_up(kind, one) for one in named)
    return folder.look_up(kind, named)
