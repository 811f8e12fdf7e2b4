"""Operational logging: records of what our processes do, with the context they are done in.

As a library we configure nothing. A record goes to the user's structlog where that is configured,
else to the standard library's logger of the module that wrote it. The command line alone
configures (`cuda_llm.log_setup`). Nothing here loads structlog before there is a record to write.
"""

import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

OURS = "cuda_llm"
"""Name above all our loggers."""

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


class Log:
    """Writes records of one module: an event in a few words, and fields."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stdlib = logging.getLogger(name)
        self._wrapped: Any = None

    def debug(self, event: str, /, **fields: object) -> None:
        """Record what only somebody who looks for a fault needs."""
        self._write("debug", event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """Record what happens when all is well."""
        self._write("info", event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Record what somebody should look at, although the work goes on."""
        self._write("warning", event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        """Record what ends the work. Give `exc_info=error` for its traceback."""
        self._write("error", event, fields)

    @contextmanager
    def timed(self, event: str, /, **fields: object) -> Iterator[None]:
        """Write at the end how many seconds what is in the context has taken."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.info(event, **fields, seconds=round(time.monotonic() - started, 6))

    def is_enabled(self, level: int) -> bool:
        """Return whether records of this level may be wanted, before costly fields are made."""
        return _users_structlog() is not None or self._stdlib.isEnabledFor(level)

    def relay(self, level: str, created: float, fields: Mapping[str, Any]) -> None:
        """Write what another process of ours has recorded, at the time it did so."""
        users = _users_structlog()
        if users is not None:
            getattr(users.get_logger(self._name), level)(**fields)
            return
        number = LEVELS[level]
        if self._stdlib.isEnabledFor(number):
            about = {"_logger": self._stdlib, "_name": level}
            entry = Entry(fields)
            record = self._stdlib.makeRecord(
                self._name, number, "", 0, entry, (), None, extra=about
            )
            record.created = created
            self._stdlib.handle(record)

    def _write(self, level: str, event: str, fields: Mapping[str, object]) -> None:
        users = _users_structlog()
        if users is not None:
            from cuda_llm.redaction import redact

            shown = {key: redact(value, key) for key, value in fields.items()}
            getattr(users.get_logger(self._name), level)(redact(event), **shown)
        elif self._stdlib.isEnabledFor(LEVELS[level]):
            if self._wrapped is None:
                self._wrapped = _wrap(self._stdlib)
            getattr(self._wrapped, level)(event, **fields)


class Entry(dict[str, Any]):
    """A record's fields; as text, what a plain handler of the standard library shows."""

    def __str__(self) -> str:
        rest = (f"{key}={value!r}" for key, value in self.items() if key != "event")
        return " ".join((str(self.get("event", "")), *rest))


@contextmanager
def bound(**fields: object) -> Iterator[None]:
    """Add fields to every record of the current task while the context is open; None is no field.

    Tasks that are begun meanwhile keep the fields.
    """
    given = {key: value for key, value in fields.items() if value is not None}
    if not given:
        yield
        return
    _load_structlog()
    from structlog.contextvars import bound_contextvars

    with bound_contextvars(**given):
        yield


def bound_fields() -> dict[str, Any]:
    """Return what is bound now, sorted by name, for a process that goes on with the work."""
    if "structlog" not in sys.modules:
        return {}
    import structlog

    return dict(sorted(structlog.contextvars.get_contextvars().items()))


def level_for_children() -> int:
    """Level of records that other processes of ours should send; the user's structlog may want
    any of them.
    """
    if _users_structlog() is not None:
        return logging.DEBUG
    return logging.getLogger(OURS).getEffectiveLevel()


class CommandLine:
    """Whether this process is our own command, whose logging is ours to configure."""

    is_in_charge = False
    configured_structlog = False


def share_structlog() -> None:
    """Before a user's code is loaded in a command: what it logs with structlog joins our records,
    instead of being printed to stdout.
    """
    if CommandLine.is_in_charge:
        _load_structlog()


def _users_structlog() -> Any:
    """Return structlog, where somebody other than us has configured it."""
    if CommandLine.is_in_charge or "structlog" not in sys.modules:
        return None
    import structlog

    return structlog if structlog.is_configured() else None


def _load_structlog() -> Any:
    """structlog; in a command, what users' own parts log with it goes where our records go."""
    import structlog

    if CommandLine.is_in_charge and not structlog.is_configured():
        structlog.configure(
            processors=_processors(),
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
        )
        CommandLine.configured_structlog = True
    return structlog


def _wrap(logger: logging.Logger) -> Any:
    structlog = _load_structlog()
    return structlog.wrap_logger(
        logger, processors=_processors(), wrapper_class=structlog.stdlib.BoundLogger
    )


def _processors() -> list[Any]:
    import structlog

    return [
        structlog.stdlib.filter_by_level,
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.PositionalArgumentsFormatter(),
        _redact_fields,
        _to_record,
    ]


def _redact_fields(_logger: Any, _level: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    from cuda_llm.redaction import redact

    return {key: redact(value, key) for key, value in fields.items()}


def _to_record(
    logger: logging.Logger, level: str, fields: dict[str, Any]
) -> tuple[tuple[Entry], dict[str, Any]]:
    """Return the arguments of a standard library's logger, with what `log_setup` looks for."""
    exc_info = fields.pop("exc_info", None)
    about = {"_logger": logger, "_name": level}
    return (Entry(fields),), {"exc_info": exc_info, "extra": about}
