"""Records of a process of ours in the log of the process that started it, over a pipe."""

import json
import logging
import os
import threading
from datetime import datetime
from typing import Any

from cuda_llm.log import LEVELS, OURS, CommandLine, Log

JOIN_S = 1.0
"""How long the last records of a process that has ended may take."""


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
    from cuda_llm.log_setup import RecordFormatter

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
