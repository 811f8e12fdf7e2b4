"""Reports of all runs of a folder over HTTP, for a browser on this machine.

It listens on loopback alone and answers only requests that name this machine, so that no page of
another site reads runs through a name that it points here. Every page is written when it is asked
for, from the files as they are then; nothing can be changed through it.
"""

from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from cuda_llm.errors import UsageError
from cuda_llm.figure_wording import describe_speedup
from cuda_llm.log import Log
from cuda_llm.redaction import printable
from cuda_llm.traces.find import list_runs, spell_out
from cuda_llm.traces.report.gather import gather
from cuda_llm.traces.report.page import render_list, render_page
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.summary import Summary, summarise
from cuda_llm.traces.text import tokens

LOOPBACK = "127.0.0.1"
_log = Log(__name__)


class ReportServer(ThreadingHTTPServer):
    """Serves the runs of one folder."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        """Listen on a port of loopback, 0 for any. Raises UsageError where that is taken."""
        self.folder = folder
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise UsageError(f"port {port}: {error.strerror}; choose another with --port") from None

    @property
    def address(self) -> str:
        """Where a browser finds the list of runs."""
        return f"http://{LOOPBACK}:{self.server_port}/"

    def runs(self) -> Mapping[str, RunFolder]:
        """Return the runs of the folder by name, newest first."""
        return {run.name: run for run in reversed(list_runs(self.folder))}

    def page(self, target: str) -> str | None:
        """Return the page of a path with its query; None where there is none."""
        parts = urlsplit(target)
        if parts.path == "/":
            rows = [_row(run) for run in self.runs().values()]
            start = f"cuda-llm run TASK{spell_out(self.folder)}"
            return render_list(rows, printable(str(self.folder)), printable(start))
        if parts.path == "/compare":
            asked = parse_qs(parts.query)
            names = [asked.get(key, [""])[0] for key in ("a", "b")]
        elif parts.path.startswith("/run/"):
            names = [unquote(parts.path.removeprefix("/run/"))]
        else:
            return None
        runs = self.runs()
        # A name is looked up among the runs, never made into a path.
        found = [runs[name] for name in names if name in runs]
        if len(found) != len(names):
            return None
        first, *others = [gather(run, live=True, home="/") for run in found]
        return render_page(first, others[0] if others else None)


def _row(run: RunFolder) -> dict[str, Any]:
    """Return one line of the list, texts alone."""
    try:
        summary = summarise(run)
    except UsageError as error:
        return dict.fromkeys(_cells(None), "") | {"name": run.name, "state": printable(str(error))}
    return _cells(summary) | {"name": run.name}


def _cells(one: Summary | None) -> dict[str, str]:
    spend = one.spend if one and one.spend.calls else None
    money = "" if spend is None or spend.usd is None else f", ${spend.usd:,.2f}"
    return {
        "task": printable(one.task) if one else "",
        "device": printable(one.device) if one else "",
        "time_source": one.time_source if one else "",
        "state": one.state if one else "",
        "rounds": f"{one.rounds}/{one.planned_rounds}" if one else "",
        "candidates": str(one.candidates) if one else "",
        "best": (one.best or "") if one else "",
        "speedup": describe_speedup(one.speedup, one.objective) if one and one.speedup else "",
        "spend": f"{tokens(spend.input_tokens + spend.output_tokens)} tokens{money}"
        if spend
        else "",
    }


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer

    def do_GET(self) -> None:
        """Answer with a page, or say that there is none."""
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host not in (LOOPBACK, "localhost"):
            self.send_error(HTTPStatus.FORBIDDEN, "ask 127.0.0.1")
            return
        try:
            page = self.server.page(self.path)
        except UsageError as error:
            _log.warning("a page could not be made", path=self.path, error=str(error))
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, "the folder cannot be read")
            return
        if page is None:
            self.send_error(HTTPStatus.NOT_FOUND, "no such run")
            return
        body = page.encode(errors="replace")
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log a request as the program logs."""
        _log.debug("request", line=printable(format % args))
