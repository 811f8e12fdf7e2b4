"""A collector on loopback: takes OTLP over HTTP as protobuf and decodes what arrives."""

import gzip
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class Arrived:
    """One span as it came over the wire."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    error: str | None
    links: tuple[str, ...]
    events: tuple[tuple[str, dict[str, Any]], ...]
    resource: dict[str, Any]

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.end_ns - self.start_ns) / 1e9


@dataclass
class Collector:
    """Receives while its `with` block lasts. `status` other than 200 refuses what comes."""

    status: int = 200
    spans: list[Arrived] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)
    """Headers of each in small letters, with its path."""

    def __enter__(self) -> Self:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                headers = {name.lower(): value for name, value in self.headers.items()}
                owner.requests.append({**headers, "path": self.path})
                if owner.status == 200:
                    owner.spans += decode(body)
                self.send_response(owner.status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(ExportTraceServiceResponse().SerializeToString())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def address(self) -> str:
        """For OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def named(self, beginning: str) -> list[Arrived]:
        """The spans whose name begins so, in order of their starts."""
        found = [one for one in self.spans if one.name.startswith(beginning)]
        return sorted(found, key=lambda one: one.start_ns)

    def below(self, span: Arrived) -> list[Arrived]:
        """Its children, in order of their starts."""
        found = [one for one in self.spans if one.parent == span.id]
        return sorted(found, key=lambda one: one.start_ns)


def decode(body: bytes) -> list[Arrived]:
    """The spans of one request."""
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    return [
        _arrived(span, values(group.resource.attributes))
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def _arrived(span: Any, resource: dict[str, Any]) -> Arrived:
    return Arrived(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        kind=span.kind,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=values(span.attributes),
        error=span.status.message if span.status.code == 2 else None,
        links=tuple(link.span_id.hex() for link in span.links),
        events=tuple((one.name, values(one.attributes)) for one in span.events),
        resource=resource,
    )


def values(attributes: Any) -> dict[str, Any]:
    """Attributes as plain values."""
    return {one.key: _plain(one.value) for one in attributes}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(one) for one in value.array_value.values]
    return getattr(value, kind)
