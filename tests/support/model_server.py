"""A loopback server that speaks OpenAI's chat completions and answers what a script says.

    with ModelServer([Busy(retry_after="1"), Say("hello")]) as server:
        ... open_chat_model("scripted", base_url=server.base_url) ...
    assert len(server.requests) == 2

Real sockets, standard library only. A script is a sequence of answers in the order of calls, or a
function of the request. Plain or streamed is what the client asks for.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias


@dataclass(frozen=True)
class Say:
    """A chat completion."""

    text: str | None = ""
    reasoning: str = ""
    reasoning_field: str = "reasoning_content"
    finish: str | None = "stop"
    """`finish_reason`; None leaves it out."""
    refusal: str = ""
    usage: Mapping[str, Any] | None = None
    """None counts a token for four characters; an empty mapping sends no usage."""
    wait_s: float = 0.0
    """Before the first byte."""
    pause_s: float = 0.0
    """Between the pieces of a stream."""
    cut: Literal["", "broken", "silent"] = ""
    """Ends half-way: `broken` drops the connection; `silent` closes a stream in good order."""
    choices: int = 1


@dataclass(frozen=True)
class Busy:
    """An error of the server, in the shape that OpenAI gives errors."""

    status: int = 429
    retry_after: str = ""
    code: str = ""
    message: str = "scripted error"
    wait_s: float = 0.0
    location: str = ""
    """Where a redirect leads."""


@dataclass(frozen=True)
class Raw:
    """Bytes as they are."""

    body: bytes
    status: int = 200
    content_type: str = "text/html"


@dataclass(frozen=True)
class Drop:
    """The connection closes without a byte."""

    wait_s: float = 0.0


@dataclass(frozen=True)
class Request:
    """What a client sent, and when."""

    number: int
    """From 1, in order of arrival."""
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    at_s: float
    """On the monotonic clock."""
    port: int = 0
    """The client's end of the connection."""

    @property
    def prompt(self) -> str:
        """All messages, one below the other."""
        return "\n".join(str(message["content"]) for message in self.body["messages"])


Answer: TypeAlias = Say | Busy | Raw | Drop
Script: TypeAlias = "Sequence[Answer] | Callable[[Request], Answer]"

OUT_OF_LINES = Busy(status=599, message="the script has no answer left")


@dataclass
class ModelServer:
    """Serves while its `with` block lasts."""

    script: Script
    model: str = "scripted"
    """The model it knows; any other, `more_models` apart, is a 404."""
    more_models: tuple[str, ...] = ()
    key: str = ""
    """The key it wants; empty takes any."""
    context_tokens: int = 0
    """A longer prompt (at four characters a token) is refused; 0 takes all."""
    json_mode: bool = True
    """Whether `response_format` is taken."""
    lists_models: bool = True
    """Whether `/models` is there."""
    refuses: tuple[str, ...] = ()
    """Fields of a body that are answered with 400."""

    requests: list[Request] = field(default_factory=list)
    """Chat completions asked for, in order of arrival."""
    paths: list[str] = field(default_factory=list)
    """Of every request, chat or not."""
    most_at_once: int = 0
    """Most chat completions under way at one moment."""
    done_s: dict[int, float] = field(default_factory=dict)
    """When each request was answered, by number."""

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        self._at_once = 0
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def base_url(self) -> str:
        """What a client is told."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def prompts_about(self, words: str) -> list[Request]:
        """Requests whose prompt holds `words`."""
        return [request for request in self.requests if words in request.prompt]

    def answer(
        self, body: Mapping[str, Any], headers: Mapping[str, str], port: int
    ) -> tuple[int, Answer]:
        """Number and answer of a request."""
        with self._lock:
            number = len(self.requests) + 1
            request = Request(number, body, headers, time.monotonic(), port)
            self.requests.append(request)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        return number, self._refusal(request) or self._scripted(request)

    def done(self, number: int) -> None:
        """The request was answered."""
        with self._lock:
            self._at_once -= 1
            self.done_s[number] = time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait, but no longer than the server serves."""
        self._closing.wait(seconds)

    def _refusal(self, request: Request) -> Busy | None:
        body = request.body
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return Busy(401, code="invalid_api_key", message="Incorrect API key provided")
        if body.get("model") not in (self.model, *self.more_models):
            missing = f"The model `{body.get('model')}` does not exist"
            return Busy(404, code="model_not_found", message=missing)
        for name in (*self.refuses, *(() if self.json_mode else ("response_format",))):
            if name in body:
                return Busy(400, code="invalid_request", message=f"unknown field {name}")
        if self.context_tokens and len(request.prompt) // 4 > self.context_tokens:
            said = f"This model's maximum context length is {self.context_tokens} tokens"
            return Busy(400, code="context_length_exceeded", message=said)
        return None

    def _scripted(self, request: Request) -> Answer:
        if callable(self.script):
            return self.script(request)
        lines = self.script
        return lines[request.number - 1] if request.number <= len(lines) else OUT_OF_LINES


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    owner: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of ours."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        owner = self.server.owner
        owner.paths.append(self.path)
        if self.path == "/v1/models" and owner.lists_models:
            listed = {
                "object": "list",
                "data": [
                    {"id": one, "object": "model"} for one in (owner.model, *owner.more_models)
                ],
            }
            self._send(200, json.dumps(listed).encode())
        else:
            self._send(404, b"not found", content_type="text/plain")

    def do_POST(self) -> None:
        owner = self.server.owner
        owner.paths.append(self.path)
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/v1/chat/completions":
            self._send(404, b"not found", content_type="text/plain")
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        number, answer = owner.answer(body, headers, self.client_address[1])
        try:
            self._answer(body, number, answer)
        except OSError:
            self.close_connection = True
        finally:
            owner.done(number)

    def _answer(self, body: Mapping[str, Any], number: int, answer: Answer) -> None:
        match answer:
            case Drop(wait_s=wait_s):
                self.server.owner.sleep(wait_s)
                self.close_connection = True
            case Raw(body=raw, status=status, content_type=content_type):
                self._send(status, raw, content_type=content_type)
            case Busy():
                self.server.owner.sleep(answer.wait_s)
                said = {"message": answer.message, "code": answer.code, "type": "scripted"}
                sent = {"Retry-After": answer.retry_after, "Location": answer.location}
                extra = {name: value for name, value in sent.items() if value}
                self._send(answer.status, json.dumps({"error": said}).encode(), extra=extra)
            case Say() if body.get("stream"):
                self.server.owner.sleep(answer.wait_s)
                self._stream(list(chunks(answer, body, number)), answer)
            case Say():
                self.server.owner.sleep(answer.wait_s)
                whole = json.dumps(completion(answer, body, number)).encode()
                self._send(200, whole, cut=bool(answer.cut))

    def _send(
        self,
        status: int,
        body: bytes,
        *,
        content_type: str = "application/json",
        extra: Mapping[str, str] | None = None,
        cut: bool = False,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (extra or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut

    def _stream(self, pieces: Sequence[Mapping[str, Any]], answer: Say) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces[: len(pieces) // 2] if answer.cut else pieces:
            self._write_chunk(f"data: {json.dumps(piece)}\n\n".encode())
            self.server.owner.sleep(answer.pause_s)
        if answer.cut == "broken":
            self.close_connection = True
            return
        if not answer.cut:
            self._write_chunk(b"data: [DONE]\n\n")
        self._write_chunk(b"")

    def _write_chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def completion(answer: Say, body: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The body of a plain answer."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.reasoning:
        message[answer.reasoning_field] = answer.reasoning
    if answer.refusal:
        message["refusal"] = answer.refusal
    choice: dict[str, Any] = {"index": 0, "message": message}
    if answer.finish is not None:
        choice["finish_reason"] = answer.finish
    whole = {**_frame(body, number), "object": "chat.completion"}
    whole["choices"] = [{**choice, "index": index} for index in range(answer.choices)]
    usage = count_tokens(answer, body)
    return {**whole, "usage": usage} if usage else whole


def chunks(answer: Say, body: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The pieces of a streamed answer; usage only where the client asks for it."""
    frame = {**_frame(body, number), "object": "chat.completion.chunk"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{answer.reasoning_field: piece} for piece in _split(answer.reasoning)]
    deltas += [{"content": piece} for piece in _split(answer.text or "")]
    if answer.refusal:
        deltas.append({"refusal": answer.refusal})
    if answer.choices:
        for delta in deltas:
            yield {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        if answer.finish is not None:
            last = {"index": 0, "delta": {}, "finish_reason": answer.finish}
            yield {**frame, "choices": [last]}
    usage = count_tokens(answer, body)
    if usage and (body.get("stream_options") or {}).get("include_usage"):
        yield {**frame, "choices": [], "usage": usage}


def count_tokens(answer: Say, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The usage that the server reports."""
    if answer.usage is not None:
        return answer.usage
    asked = sum(len(str(message["content"])) for message in body["messages"]) // 4 + 1
    said = (len(answer.text or "") + len(answer.reasoning)) // 4 + 1
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}


def _frame(body: Mapping[str, Any], number: int) -> dict[str, Any]:
    return {"id": f"chat-{number}", "created": 0, "model": body["model"]}


def _split(text: str, size: int = 16) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
