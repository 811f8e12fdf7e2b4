"""Writes events as they happen: one line each, on disk before anybody else hears of it."""

import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from cuda_llm.codec import encode
from cuda_llm.errors import CudaLLMError, UsageError
from cuda_llm.log import OURS, Log
from cuda_llm.search import Attempt, Brief, Hint
from cuda_llm.traces.events import VERSION, Event
from cuda_llm.traces.whole_file import unwritable

_log = Log(__name__)
_events = Log(f"{OURS}.events")

NAMED: Mapping[str, type[Attempt | Brief | Hint]] = {
    "attempt_judged.attempt": Attempt,
    "hint_given.hint": Hint,
    "round_began.briefs": Brief,
}
"""By `kind.field`: what a line holds by its id. `briefs` is a list of them."""

Observer = Callable[[Event], object]
"""Whoever wants to hear of events: a terminal, a progress bar, a test."""


class Recorder:
    """Appends events to one file; call it with each. Safe to share between tasks and threads.

    While it is open no second one can be, in this process or another: two would tear the run. A
    process that dies gives the file back, whatever killed it.
    """

    def __init__(self, path: Path, observers: Iterable[Observer] = ()) -> None:
        """Raises UsageError where the file cannot be written or another process writes it."""
        self._path = path
        self._observers = list(observers)
        # Reentrant: an observer may record something itself.
        self._turn = threading.RLock()
        self._file: int | None = _open_alone(path)
        self._seq, self._end = _mend(self._file)

    def __call__(self, event: Event) -> None:
        """Record `event`, then tell the observers. After `close` nothing is recorded any more."""
        with self._turn:
            if self._file is None:
                return
            line = to_line(event, self._seq, now())
            try:
                _append(self._file, line)
            except OSError as error:
                os.ftruncate(self._file, self._end)
                raise unwritable(self._path, error) from None
            self._log(event)
            self._seq += 1
            self._end += len(line)
            for observer in tuple(self._observers):
                self._notify(observer, event)

    def _log(self, event: Event) -> None:
        """Events are log records too, so that one processor can send them elsewhere."""
        if _events.is_enabled(logging.INFO):
            fields = {"run_id": self._path.parent.name, **encode(event), "seq": self._seq}
            _events.info(event.kind, **fields)

    def close(self) -> None:
        """Give the file back."""
        with self._turn:
            if self._file is not None:
                os.close(self._file)
            self._file = None

    def _notify(self, observer: Observer, event: Event) -> None:
        try:
            observer(event)
        except CudaLLMError:
            # Said for the user: what belongs to the run cannot be stored.
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


def to_line(event: Event, seq: int, at: str) -> bytes:
    """One line of the file. What it names by id must lie in the run's folder already."""
    fields = {"v": VERSION, "seq": seq, "at": at, "kind": event.kind}
    for name, value in vars(event).items():
        if f"{event.kind}.{name}" not in NAMED:
            fields[name] = encode(value)
        else:
            fields[name] = [one.id for one in value] if isinstance(value, tuple) else value.id
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # Half of a surrogate pair, as a model may send, is no text that anybody could read back.
    return text.encode(errors="replace") + b"\n"


def now() -> str:
    """UTC time to the millisecond, `2026-01-31T10:00:00.123Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def is_being_written(path: Path) -> bool:
    """Whether a living process has a Recorder open on this file."""
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
        raise unwritable(path, error) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise UsageError(
            f"{path.parent}: another process is at work on this run; wait for it or stop it"
        ) from None
    return file


def _mend(file: int) -> tuple[int, int]:
    """Cut off a line that a kill left torn; the next number and where the file ends now."""
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
