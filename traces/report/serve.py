"""Reports of all runs of a folder over HTTP, for a browser on this machine.

It listens on loopback alone and answers only requests that name this machine, so that no page of
another site reads runs through a name that it points here. Every page is written when it is asked
for, from the files as they are then; nothing can be changed through it.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from cuda_llm.errors import UsageError
from cuda_llm.log import Log
from cuda_llm.redaction import printable
from cuda_llm.traces.find import list_runs, spell_out
from cuda_llm.traces.report.gather import gather
from cuda_llm.traces.report.page import render_page
from cuda_llm.traces.report.run_lines import RunLines
from cuda_llm.traces.report.runs_page import kernels_page, list_page, runs_file
from cuda_llm.traces.report.selection import read_selection
from cuda_llm.traces.run_folder import RunFolder

LOOPBACK = "127.0.0.1"
HTML = "text/html"
FILES = {"/runs.csv": "text/csv", "/runs.latex": "text/plain", "/runs.svg": "image/svg+xml"}
"""Exports of the list, with their types."""
_log = Log(__name__)


class ReportServer(ThreadingHTTPServer):
    """Serves the runs of one folder."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        """Listen on a port of loopback, 0 for any. Raises UsageError where that is taken."""
        self.folder = folder
        self._lines = RunLines()
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

    def answer(self, target: str) -> tuple[str, str] | None:
        """Return type and text for a path with its query; None where there is none."""
        parts = urlsplit(target)
        asked = parse_qs(parts.query)
        if parts.path in ("/", "/kernels", *FILES):
            return self._answer_many(parts.path, asked)
        if parts.path == "/compare":
            names = asked.get("run") or [asked.get(key, [""])[0] for key in ("a", "b")]
            if len(names) != 2:
                raise UsageError(f"choose two runs to compare; {len(names)} are chosen")
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
        return HTML, render_page(first, others[0] if others else None)

    def _answer_many(self, path: str, asked: Mapping[str, Sequence[str]]) -> tuple[str, str]:
        runs = self.runs()
        lines = [self._lines.of(run) for run in runs.values()]
        wanted = read_selection(asked)
        folder = printable(str(self.folder))
        if path in FILES:
            to = path.rpartition(".")[2]
            return FILES[path], runs_file(lines, wanted, to)
        if path == "/kernels":
            a, b = (asked.get(key, [""])[0] for key in ("a", "b"))
            return HTML, kernels_page(lines, runs, wanted, (a, b), folder)
        start = printable(f"cuda-llm run TASK{spell_out(self.folder)}")
        return HTML, list_page(lines, runs, wanted, folder, start)


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer

    def do_GET(self) -> None:
        """Answer with a page, or say that there is none."""
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host not in (LOOPBACK, "localhost"):
            self.send_error(HTTPStatus.FORBIDDEN, "ask 127.0.0.1")
            return
        try:
            answer = self.server.answer(self.path)
        except UsageError as error:
            _log.warning("a page could not be made", path=self.path, error=str(error))
            chosen_badly = urlsplit(self.path).path == "/compare"
            status = HTTPStatus.BAD_REQUEST if chosen_badly else HTTPStatus.INTERNAL_SERVER_ERROR
            self.send_error(
                status, "choose two runs" if chosen_badly else "the folder is unreadable"
            )
            return
        if answer is None:
            self.send_error(HTTPStatus.NOT_FOUND, "no such run")
            return
        kind, text = answer
        body = text.encode(errors="replace")
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        # An SVG that is opened as a document runs nothing and loads nothing either.
        policy = "frame-ancestors 'none'" + ("" if kind == HTML else "; default-src 'none'")
        self.send_header("Content-Security-Policy", policy)
        if kind != HTML:
            name = urlsplit(self.path).path.removeprefix("/").replace(".latex", ".tex")
            self.send_header("Content-Disposition", f'attachment; filename="{name}"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log a request as the program logs."""
        _log.debug("request", line=printable(format % args))
