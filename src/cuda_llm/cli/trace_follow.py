"""`cuda-llm trace show RUN --follow`: a run as it goes on, whichever process is at work on it."""

import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cuda_llm.cli.printing import print_lines

if TYPE_CHECKING:
    from cuda_llm.traces.event_log import Recorded
    from cuda_llm.traces.run_folder import RunFolder


def follow_run(run: "RunFolder", *, as_json: bool) -> None:
    """Show what happens until no process works on the run any more, or until Ctrl-C.

    On a terminal a board is redrawn in place, elsewhere each event that matters is a line. With
    `as_json` every event is one line, as `trace show --json` lists them.
    """
    from cuda_llm.traces.event_table import event_fields

    try:
        if as_json:
            print_lines(json.dumps(event_fields(one)) for one in _events(run))
        elif sys.stdout.isatty():
            _draw(run)
        else:
            print_lines(_lines(run))
    except KeyboardInterrupt:
        # The one way to end it before the run does.
        return


def _events(run: "RunFolder") -> "Iterator[Recorded]":
    from cuda_llm.traces.event_log import follow_events, is_being_written

    if run.events.exists():
        yield from follow_events(run.events, until=lambda: not is_being_written(run.events))


def _lines(run: "RunFolder") -> Iterator[str]:
    from cuda_llm.cli.run_progress import RunStatus, event_lines
    from cuda_llm.redaction import printable

    status = RunStatus()
    for one in _events(run):
        status(one.event)
        yield from map(printable, event_lines(one.event, status))


def _draw(run: "RunFolder") -> None:
    from rich.console import Console

    from cuda_llm.cli.run_progress import LiveRunProgress

    live = LiveRunProgress(console=Console())
    began_s: float | None = None
    with live.screen:
        for one in _events(run):
            if began_s is None:
                began_s = _age_s(one.at)
                live.status.started_s = time.monotonic() - began_s
            live(one.event)


def _age_s(at: str) -> float:
    """Return how long ago that was; nothing where the clock was set back since."""
    then = datetime.fromisoformat(at)
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (datetime.now(UTC) - then).total_seconds())
