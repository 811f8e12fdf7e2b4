"""Spans of a run sent to an OpenTelemetry collector: afterwards, and while the run goes on.

Where to, with which headers and how long it may take say the `OTEL_*` variables, which the
exporter of the OpenTelemetry project reads. Spans are sent as OTLP over HTTP, as protobuf.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from cuda_llm.errors import MissingError, UsageError
from cuda_llm.log import Log
from cuda_llm.traces.event_log import Recorded, read_line
from cuda_llm.traces.event_table import Events
from cuda_llm.traces.events import RunForked
from cuda_llm.traces.find import spell_run
from cuda_llm.traces.otlp.span import RUN, Span, span_id, trace_id
from cuda_llm.traces.otlp.spans import SpanTree
from cuda_llm.traces.run_folder import RunFolder

_log = Log(__name__)
EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable by which GenAI instrumentations are set to send prompts and replies."""
WITH_CONTENT = ("true", "span_only", "span_and_event")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
BATCH = 64
"""Spans a request; with prompts and replies about 2 MB."""
EVERY_S = 1.0
"""Between two looks at a run that goes on."""
LINGER_S = 2.0
"""What a run that is over waits at most for a collector that has not answered yet."""
LONGEST_S = 10.0
"""The same for one that has."""
LONGEST_REASON = 200
"""Characters shown of the reason why spans do not arrive."""


def wants_content() -> bool:
    """Return whether prompts and replies are asked for by their variable."""
    return os.environ.get(CONTENT, "").strip().lower() in WITH_CONTENT


def check_exporter() -> None:
    """Raise MissingError without the exporter, UsageError for a protocol that it does not speak."""
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401
    except ImportError:
        remedy = "install them: pip install 'cuda-llm[otlp]'"
        raise MissingError("sending spans needs the OpenTelemetry packages", remedy) from None
    for name in PROTOCOLS:
        if os.environ.get(name, "http/protobuf") not in ("", "http/protobuf"):
            here = f"{name}={os.environ[name]}"
            raise UsageError(f"{here}: spans are sent as http/protobuf alone, often on port 4318")


def find_live_sender() -> Callable[[RunFolder], Callable[[], None]] | None:
    """Return what starts to send a run and returns what ends the sending; None where
    OTEL_SDK_DISABLED is true. Raises as `check_exporter` does.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    check_exporter()
    return lambda folder: LiveSender(folder, content=wants_content()).close


def find_endpoint() -> str:
    """Return where spans go, without what may be secret in it."""
    base = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "http://localhost:4318"
    whole = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or f"{base.rstrip('/')}/v1/traces"
    parts = urlsplit(whole)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def unreachable() -> str:
    """Return why nobody can be reached there; empty where somebody listens."""
    parts = urlsplit(find_endpoint())
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=1).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


class Sender:
    """Sends the spans of one run. Raises MissingError and UsageError as `check_exporter` does."""

    def __init__(self, folder: RunFolder) -> None:
        check_exporter()
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._folder = folder
        self._exporter = OTLPSpanExporter()
        own = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "cuda-llm"}
        self._resource = Resource.create(own)
        self._scope = InstrumentationScope("cuda_llm")
        self._heard = _Heard()
        self.sent = 0
        """Spans that have arrived."""

    def send(self, spans: Sequence[Span], began_at: str) -> str:
        """Send them; return why they did not arrive, or nothing."""
        trace = trace_id(self._folder, began_at)
        ready = [self._ready_span(one, trace) for one in spans]
        with self._heard:
            result = self._exporter.export(ready)
        if result.name == "SUCCESS":
            self.sent += len(spans)
            return ""
        return unreachable() or self._heard.last or "it gave no reason"

    @property
    def is_failing(self) -> bool:
        """Whether a try of what is being sent has failed."""
        return bool(self._heard.last)

    def abandon(self) -> None:
        """End what is being sent, from another thread."""
        self._exporter.shutdown()

    def _ready_span(self, span: Span, trace: int) -> Any:
        """Return a span of the OpenTelemetry SDK."""
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

        def context(key: str) -> Any:
            return SpanContext(trace, span_id(trace, key), False, TraceFlags(TraceFlags.SAMPLED))

        failed = Status(StatusCode.ERROR, span.error)
        return ReadableSpan(
            name=span.name,
            context=context(span.key),
            parent=None if span.parent is None else context(span.parent),
            resource=self._resource,
            attributes=span.attributes,
            events=[Event(one.name, one.attributes, one.at_ns) for one in span.moments],
            links=[Link(context(key)) for key in span.links],
            kind=SpanKind.CLIENT if span.is_client else SpanKind.INTERNAL,
            status=Status(StatusCode.UNSET) if span.error is None else failed,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


class _Heard(logging.Filter):
    """Keeps what the exporter logs in this thread out of the log: we report it once."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""
        self._thread = 0

    def __enter__(self) -> None:
        self.last, self._thread = "", threading.get_ident()
        logging.getLogger(EXPORTER).addFilter(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger(EXPORTER).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Let pass what other threads log."""
        if record.thread != self._thread:
            return True
        # The first says what went wrong, the last only that no further try is made.
        self.last = self.last or " ".join(record.getMessage().split())[:LONGEST_REASON]
        return False


def send_run(folder: RunFolder, *, content: bool) -> tuple[int, int, str]:
    """Send a whole run; return how many spans, its trace id, and what of it could not be read.

    Raises MissingError where the spans do not arrive.
    """
    sender, tree, events = (
        Sender(folder),
        SpanTree(folder, content=content),
        Events(folder.events, tell=False),
    )
    waiting: list[Span] = []

    def must_arrive(reason: str) -> None:
        if reason:
            here = "start a collector there, or name another by OTEL_EXPORTER_OTLP_ENDPOINT"
            slow = "where it is slow, give it more seconds by OTEL_EXPORTER_OTLP_TIMEOUT"
            raise MissingError(f"{find_endpoint()} takes no spans ({reason})", f"{here}; {slow}")

    def flush(least: int) -> None:
        while waiting and len(waiting) >= least:
            must_arrive(sender.send(waiting[:BATCH], tree.began_at))
            del waiting[:BATCH]

    must_arrive(unreachable())

    for one in events:
        waiting += tree.add(one)
        flush(BATCH)
    waiting += tree.close()
    flush(1)
    return sender.sent, trace_id(folder, tree.began_at), events.missing


class LiveSender:
    """Sends the spans of a run as they end, from a thread that reads its events as they are
    written. A collector that takes none costs the run one warning and, at its end, `LINGER_S`.
    """

    def __init__(self, folder: RunFolder, *, content: bool) -> None:
        """Start. What earlier processes of the run recorded, they have sent."""
        self._folder = folder
        self._sender = Sender(folder)
        self._tree = SpanTree(folder, content=content)
        last = next(reversed([*Events(folder.events, tell=False)]), None)
        # What a fork has copied was sent as another run's.
        self._known = 0 if last is None or isinstance(last.event, RunForked) else last.seq
        self._ended = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="cuda-llm-otlp", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send what is left, the run itself too, as long as the collector deserves to be waited
        for. Call it when the last event is written."""
        self._ended.set()
        began_s = time.monotonic()
        while self._thread.is_alive() and time.monotonic() - began_s < self._patience_s:
            self._thread.join(0.05)
        if self._thread.is_alive():
            self._warn(unreachable() or "it does not answer")
            self._sender.abandon()

    @property
    def _patience_s(self) -> float:
        """How long to wait for the collector."""
        if self._sender.sent:
            return LONGEST_S
        return 0.0 if self._sender.is_failing else LINGER_S

    def _work(self) -> None:
        offset, waiting = 0, list[Span]()
        while not self._stopped:
            # Asked before reading: what was written before it was set is read.
            last = self._ended.is_set()
            offset = self._read(offset, waiting.append)
            if last:
                waiting += self._tree.close()
            while waiting and not self._stopped:
                reason = self._sender.send(waiting[:BATCH], self._tree.began_at)
                del waiting[:BATCH]
                if reason:
                    self._warn(reason)
            if last:
                return
            self._ended.wait(EVERY_S)

    def _read(self, offset: int, keep: Callable[[Span], None]) -> int:
        """Pass on the spans that ended with events written since; return how far it has read."""
        data = b""
        with suppress(OSError), self._folder.events.open("rb") as file:
            file.seek(offset)
            data = file.read()
        *lines, rest = data.split(b"\n")
        for line in lines:
            read = read_line(line, self._folder)
            if isinstance(read, Recorded):
                self._keep(self._tree.add(read), keep, is_new=read.seq > self._known)
        return offset + len(data) - len(rest)

    def _keep(self, spans: Iterable[Span], keep: Callable[[Span], None], *, is_new: bool) -> None:
        for span in spans:
            if is_new or span.key == RUN:
                keep(span)

    def _warn(self, reason: str) -> None:
        """Report once that spans do not arrive, and send no more."""
        if not self._stopped:
            self._stopped = True
            _log.warning(
                "spans do not reach the collector; the run goes on without it",
                endpoint=find_endpoint(),
                error=reason,
                later=f"cuda-llm trace otlp {spell_run(self._folder)}",
            )
