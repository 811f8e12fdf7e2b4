"""Where log records of our own processes go: stderr or a file of a command, or a pipe to the
process that started them.
"""

import json
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from cuda_llm.errors import UsageError
from cuda_llm.log import LEVELS, OURS, CommandLine, Entry, Log
from cuda_llm.redaction import redact

Format = Literal["console", "json"]
Level = Literal["debug", "info", "warning", "error"]

JOIN_S = 1.0
"""How long the last records of a process that has ended may take."""


@contextmanager
def command_line_logging(format: Format, level: Level, file: Path | None) -> Iterator[None]:
    """Send every record of this process to stderr, or append it to `file`, while it is open.

    Ours from `level` on; those of libraries, and Python's warnings, from `level` and at least
    info on: below that they tell of every byte. Raises UsageError where the file cannot be written.
    """
    handler = open_handler(format, file)
    root, ours = logging.getLogger(), logging.getLogger(OURS)
    before = root.level, ours.level
    number = LEVELS[level]
    root.setLevel(max(number, logging.INFO))
    ours.setLevel(number)
    root.addHandler(handler)
    logging.captureWarnings(True)
    CommandLine.is_in_charge = True
    try:
        yield
    finally:
        CommandLine.is_in_charge = False
        _release_structlog()
        logging.captureWarnings(False)
        root.removeHandler(handler)
        root.setLevel(before[0])
        ours.setLevel(before[1])
        handler.close()


def _release_structlog() -> None:
    if CommandLine.configured_structlog:
        import structlog

        structlog.reset_defaults()
        CommandLine.configured_structlog = False


def open_handler(format: Format, file: Path | None) -> logging.Handler:
    """Open the handler of a command. Raises UsageError where `file` cannot be written."""
    handler: logging.Handler
    if file is None:
        handler = StderrHandler()
        if format == "console":
            handler.addFilter(lambda record: not is_shown(record))
    else:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handler = logging.FileHandler(file, encoding="utf-8")
        except OSError as error:
            msg = f"{file}: no log can be written there ({error.strerror or error}); see --log-file"
            raise UsageError(msg) from None
    handler.setFormatter(RecordFormatter(format, colours=file is None and sys.stderr.isatty()))
    return handler


class StderrHandler(logging.Handler):
    """Writes to what `sys.stderr` is at the moment: a progress display stands in for it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one log record on stderr, as `logging.Handler` asks."""
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except Exception:
            self.handleError(record)


def is_shown(record: logging.LogRecord) -> bool:
    """Return whether a person has read the same on stderr already."""
    return isinstance(record.msg, Mapping) and bool(record.msg.get("shown"))


class RecordFormatter(logging.Formatter):
    """One line of JSON, or a line for a person; structlog is loaded with the first record."""

    def __init__(self, format: Format, *, colours: bool = False) -> None:
        super().__init__()
        self._format = format
        self._colours = colours
        self._structlogs: logging.Formatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        """Return one log record as a line, as `logging.Formatter` asks."""
        if self._structlogs is None:
            self._structlogs = _formatter(self._format, colours=self._colours)
        if isinstance(record.msg, Entry) and record.exc_info:
            # structlog takes it from the fields; the standard library carries it beside them.
            record = logging.makeLogRecord(
                {**vars(record), "msg": Entry(record.msg, exc_info=record.exc_info)}
            )
        return self._structlogs.format(record)


def _formatter(format: Format, *, colours: bool) -> logging.Formatter:
    # The whole before its parts: two threads that import them in other orders get half of them.
    import structlog
    from structlog.contextvars import merge_contextvars
    from structlog.processors import (
        ExceptionRenderer,
        JSONRenderer,
        StackInfoRenderer,
        format_exc_info,
    )
    from structlog.tracebacks import ExceptionDictTransformer

    ExtraAdder, ProcessorFormatter = (
        structlog.stdlib.ExtraAdder,
        structlog.stdlib.ProcessorFormatter,
    )
    structured = ExceptionRenderer(ExceptionDictTransformer(show_locals=False, use_rich=False))
    chain: list[Any] = [_add_about, ProcessorFormatter.remove_processors_meta, StackInfoRenderer()]
    if format == "json":
        chain += [structured, _redact, JSONRenderer()]
    else:
        chain += [format_exc_info, _redact, _make_printable, _console_renderer(colours=colours)]
    return ProcessorFormatter(processors=chain, foreign_pre_chain=[merge_contextvars, ExtraAdder()])


def _console_renderer(*, colours: bool) -> Any:
    from structlog.dev import ConsoleRenderer

    return ConsoleRenderer(colors=colours, repr_native_str=False, sort_keys=False, pad_event_to=0)


def _add_about(_logger: Any, _level: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Put when, how grave and from where it is before all else."""
    record: logging.LogRecord = fields["_record"]
    fields.pop("shown", None)
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    about = {
        "timestamp": at.removesuffix("+00:00") + "Z",
        "level": record.levelname.lower(),
        "event": fields.pop("event", ""),
        "logger": record.name,
    }
    return {**about, **fields}


def _redact(_logger: Any, _level: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: redact(value, key) for key, value in fields.items()}


def _make_printable(_logger: Any, _level: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Keep text of others from steering a terminal; a traceback keeps its lines."""
    from cuda_llm.redaction import printable

    exception = fields.get("exception")
    if isinstance(exception, list):
        fields["exception"] = "\n".join(_traceback_lines(exception))
    lines = {"exception", "stack"}
    return {
        key: "\n".join(map(printable, value.split("\n")))
        if key in lines
        else printable(value)
        if isinstance(value, str)
        else value
        for key, value in fields.items()
    }


def _traceback_lines(exceptions: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a structured traceback, as another process of ours sends it, for a person."""
    for one in exceptions:
        yield "Traceback (most recent call last):"
        for frame in one["frames"]:
            yield f'  File "{frame["filename"]}", line {frame["lineno"]}, in {frame["name"]}'
        yield f"{one['exc_type']}: {one['exc_value']}"


class RecordPipe:
    """The starting process's side. Its records are written here until the pipe is closed."""

    def __init__(self) -> None:
        self._source, self.sink = os.pipe()
        """`sink` goes to the process, which is told its number."""
        self._reader = threading.Thread(target=self._relay_all, name="records", daemon=True)

    def begin(self) -> None:
        """The process has been started, or will not be: from now on the sink is its alone."""
        os.close(self.sink)
        self._reader.start()

    def join(self) -> None:
        """Wait for the last records of a process that has ended."""
        self._reader.join(JOIN_S)

    def _relay_all(self) -> None:
        with os.fdopen(self._source, "rb") as lines:
            for line in lines:
                relay(line)


def relay(line: bytes) -> None:
    """Write one record as the process sent it; a line torn by its death is left out."""
    try:
        fields = json.loads(line)
        name, level = fields.pop("logger"), fields.pop("level")
        created = datetime.fromisoformat(fields.pop("timestamp")).timestamp()
    except (ValueError, KeyError, AttributeError):
        return
    if level in LEVELS:
        Log(name).relay(level, created, fields)


def send_records(sink: int, level: int, **fields: Any) -> None:
    """In the process: send all records from now on, each with these fields."""
    os.set_inheritable(sink, False)
    handler = PipeHandler(sink, fields)
    handler.setFormatter(RecordFormatter("json"))
    root = logging.getLogger()
    root.setLevel(max(level, logging.INFO))
    logging.getLogger(OURS).setLevel(level)
    root.addHandler(handler)
    logging.captureWarnings(True)
    CommandLine.is_in_charge = True


class PipeHandler(logging.Handler):
    """Writes each record as one line of JSON. Where nobody reads any more, it is lost."""

    def __init__(self, sink: int, fields: dict[str, Any]) -> None:
        super().__init__()
        self._sink = sink
        self._fields = fields

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler; the handler's lock is held."""
        try:
            fields = {**json.loads(self.format(record)), **self._fields}
            left = memoryview(json.dumps(fields).encode() + b"\n")
            while left:
                left = left[os.write(self._sink, left) :]
        except OSError:
            return
        except Exception:
            self.handleError(record)
