"""The events of a run one by one, and as a table: JSON lines, CSV, Parquet.

A row has the columns that most kinds share, and `fields`: all of the event as JSON, with attempts,
briefs and hints whole. docs/traces.md names the columns.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

from cuda_llm.codec import encode
from cuda_llm.errors import MissingError, UsageError
from cuda_llm.log import Log
from cuda_llm.traces.event_log import Recorded, read_line
from cuda_llm.traces.files import cannot_write
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.text import describe_skipped

_log = Log(__name__)
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "round": ("round",),
    "candidate": ("candidate", "attempt", "contender", "parent", "best"),
    "agent": ("agent",),
    "model": ("model",),
    "stage": ("stage",),
    "outcome": ("outcome", "code"),
    "seconds": ("seconds",),
    "speedup": ("speedup",),
    "input_tokens": ("input_tokens",),
    "output_tokens": ("output_tokens",),
    "usd": ("usd",),
}
"""Columns behind `seq`, `at` and `kind`, and the fields of events that they are read from: the
first that an event has."""
ATTEMPT_COLUMNS = {"round": "round", "candidate": "id", "outcome": "code", "speedup": "speedup"}
"""Columns of an event that holds an attempt, and its fields."""
NUMBERS: Mapping[str, type[int] | type[float]] = {
    **dict.fromkeys(("round", "input_tokens", "output_tokens"), int),
    **dict.fromkeys(("seconds", "speedup", "usd"), float),
}
"""Columns that are no text."""
CHUNK = 1024
"""Rows that lie in memory while a Parquet file is written."""


class Events(Iterable[Recorded]):
    """The events of a file, read line by line each time it is iterated.

    Lines that cannot be read are passed over; `missing` says of them in one line, which is logged
    as a warning at the end. Iterating raises UsageError where there is no such file.
    """

    def __init__(self, path: Path, *, tell: bool = True) -> None:
        """`tell` False leaves the report of what is missing to the caller."""
        self._path, self._tell = path, tell
        self._skipped = {"torn": 0, "unknown": 0}

    def __iter__(self) -> Iterator[Recorded]:
        """Yield the events in order."""
        self._skipped = dict.fromkeys(self._skipped, 0)
        folder = RunFolder(self._path.parent)
        try:
            with self._path.open("rb") as file:
                for line in filter(bytes.strip, file):
                    read = read_line(line, folder)
                    if isinstance(read, Recorded):
                        yield read
                    else:
                        self._skipped[read] += 1
        except OSError as error:
            expected = "expected the events of a run"
            raise UsageError(f"{self._path}: {error.strerror}; {expected}") from None
        if self.missing and self._tell:
            _log.warning("not all events of the run can be read", missing=self.missing)

    @property
    def missing(self) -> str:
        """What the last pass could not read, in one line; empty where nothing is missing."""
        return "; ".join(describe_skipped(**self._skipped))


def event_fields(one: Recorded) -> dict[str, Any]:
    """Return an event in JSON's own types, attempts, briefs and hints whole."""
    return {"seq": one.seq, "at": one.at, "kind": one.event.kind, **encode(one.event)}


def event_row(one: Recorded) -> dict[str, Any]:
    """Return an event as a row; a cell is None where its kind has no such field."""
    fields = encode(one.event)
    row: dict[str, Any] = {"seq": one.seq, "at": one.at, "kind": one.event.kind}
    attempt = fields.get("attempt")
    for column, names in COLUMNS.items():
        if isinstance(attempt, Mapping):
            found = attempt.get(ATTEMPT_COLUMNS.get(column, ""))
        else:
            found = next((fields[name] for name in names if fields.get(name) is not None), None)
        row[column] = None if found in (None, "") else NUMBERS.get(column, str)(found)
    return row | {"fields": json.dumps(fields, ensure_ascii=False, separators=(",", ":"))}


def jsonl_lines(events: Iterable[Recorded]) -> Iterator[str]:
    """Yield one JSON object a line."""
    return (json.dumps(event_fields(one)) for one in events)


def csv_lines(events: Iterable[Recorded]) -> Iterator[str]:
    """Yield the names of the columns, then a line an event."""
    line = StringIO()
    writer = csv.DictWriter(line, ["seq", "at", "kind", *COLUMNS, "fields"], lineterminator="")
    writer.writeheader()
    yield line.getvalue()
    for row in map(event_row, events):
        line.seek(0)
        line.truncate()
        writer.writerow(row)
        yield line.getvalue()


def write_parquet(events: Iterable[Recorded], path: Path) -> None:
    """Write a Parquet file; `at` is a timestamp there.

    Raises MissingError without pyarrow, UsageError where the file cannot be written.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        remedy = "use --format csv, or install it: pip install 'cuda-llm[parquet]'"
        raise MissingError("Parquet needs pyarrow", remedy) from None
    text, types = pyarrow.string(), {int: pyarrow.int64(), float: pyarrow.float64()}
    columns = {
        **{"seq": pyarrow.int64(), "at": pyarrow.timestamp("ms", tz="UTC"), "kind": text},
        **{name: types[NUMBERS[name]] if name in NUMBERS else text for name in COLUMNS},
        "fields": text,
    }
    schema = pyarrow.schema([*columns.items()])
    try:
        with pyarrow.parquet.ParquetWriter(path, schema) as writer:
            for rows in _chunks(events):
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
    except OSError as error:
        raise cannot_write(path, error) from None


def _chunks(events: Iterable[Recorded]) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    for one in events:
        at = datetime.fromisoformat(one.at)
        rows.append(event_row(one) | {"at": at if at.tzinfo else at.replace(tzinfo=UTC)})
        if len(rows) == CHUNK:
            yield rows
            rows = []
    yield rows
