"""What spans of a run say, under the names of the OpenTelemetry GenAI conventions.

Names that those do not have are ours (`cuda_llm.*`), and four of OpenInference's, which Phoenix
reads: docs/otlp.md says which, and of which version.
"""

import json
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from cuda_llm.codec import encode
from cuda_llm.search import Attempt, Hint
from cuda_llm.traces.events import Event, ModelCalled, RunStarted
from cuda_llm.traces.files import read_text
from cuda_llm.traces.run_folder import RunFolder

Value: TypeAlias = str | bool | int | float | list[str] | list[float]
Attributes: TypeAlias = Mapping[str, Value]

OPERATION = "gen_ai.operation.name"
PROVIDER = "openai"
"""The API that models are asked by, whoever serves it."""
KIND = "openinference.span.kind"
OURS = "cuda_llm"
UNFINISHED: Attributes = {"cuda_llm.unfinished": True}


def present(fields: Mapping[str, object]) -> Attributes:
    """Return the fields that say something, in types that a span can have."""
    found: dict[str, Value] = {}
    for name, value in fields.items():
        plain = encode(value)
        if plain is None or plain == "" or plain == []:
            continue
        if isinstance(plain, (str, bool, int, float)):
            found[name] = plain
        elif isinstance(plain, list) and all(isinstance(one, (int, float)) for one in plain):
            found[name] = [float(one) for one in plain]
        elif isinstance(plain, list) and all(isinstance(one, str) for one in plain):
            found[name] = plain
        else:
            found[name] = json.dumps(plain)
    return found


def of(event: Event, *without: str) -> Attributes:
    """Return the fields of an event under names of ours."""
    fields = {name: value for name, value in vars(event).items() if name not in without}
    return present({f"{OURS}.{name}": value for name, value in fields.items()})


def failure(error: str | None) -> Attributes:
    """Return the kind of error, a word that repeats; nothing without one."""
    return {"error.type": error} if error else {}


def run_attributes(run: str, started: RunStarted | None) -> Attributes:
    """Return what the outermost span says."""
    about = {OPERATION: "invoke_workflow", KIND: "CHAIN", "gen_ai.conversation.id": run}
    if started is None:
        return about
    return {**about, "gen_ai.workflow.name": started.strategy, **of(started)}


def round_attributes(number: int) -> Attributes:
    """Return what the span of a round says."""
    return {KIND: "CHAIN", "cuda_llm.round": number}


def candidate_attributes(name: str, attempt: Attempt | None) -> Attributes:
    """Return what the span of a candidate says: its verdict, and what it was to be."""
    about: dict[str, object] = {KIND: "CHAIN", "cuda_llm.candidate": name}
    if attempt is not None:
        left_out = ("id", "summary", "seconds", "predicted", "normal_sha", "index")
        fields = {key: value for key, value in vars(attempt).items() if key not in left_out}
        about |= {f"{OURS}.{key}": value for key, value in fields.items() if value != {}}
        about |= failure(None if attempt.passed else attempt.code)
    return present(about)


def agent_attributes(name: str, run: str) -> Attributes:
    """Return what the span of an agent says; a generator is one."""
    return {
        OPERATION: "invoke_agent",
        KIND: "AGENT",
        "gen_ai.agent.name": name,
        "gen_ai.conversation.id": run,
    }


def tool_attributes(name: str) -> Attributes:
    """Return what the span of a tool says."""
    return {
        OPERATION: "execute_tool",
        KIND: "TOOL",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
    }


def call_attributes(call: ModelCalled, run: str, asked: str) -> Attributes:
    """Return what the span of a model call says. `asked` is the model's name as it was asked for;
    empty where only the name that the server gave is known."""
    answered = call.outcome == "ok"
    return present(
        {
            OPERATION: "chat",
            KIND: "LLM",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.request.model": asked or call.model,
            "gen_ai.response.model": call.model if answered else None,
            "gen_ai.conversation.id": run,
            "gen_ai.agent.name": call.agent,
            "gen_ai.usage.input_tokens": call.input_tokens,
            "gen_ai.usage.output_tokens": call.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": call.cached_tokens or None,
            "gen_ai.usage.reasoning.output_tokens": call.reasoning_tokens or None,
            "gen_ai.usage.cost": call.usd,
            "llm.model_name": call.model,
            "llm.token_count.prompt": call.input_tokens,
            "llm.token_count.completion": call.output_tokens,
            "cuda_llm.call": call.call,
            "cuda_llm.tries": call.tries,
            "cuda_llm.estimated": call.estimated or None,
            "cuda_llm.lost_tokens": call.lost_tokens or None,
            "cuda_llm.lost_usd": call.lost_usd,
            "error.type": None if answered else call.outcome,
        }
    )


def content_attributes(folder: RunFolder, call: str) -> Attributes:
    """Return prompt and reply of a call, as far as they are on disk.

    The prompt is one message: it is kept as it is shown to a person, its parts under headings.
    """
    prompt = read_text(folder.path / call / "prompt.md")
    reply = folder.load_reply(call)
    found: dict[str, Value] = {}
    if prompt:
        found["gen_ai.input.messages"] = _messages("user", [("text", prompt)])
    if reply is not None:
        parts = [("reasoning", reply.reasoning), ("text", reply.text or reply.refusal)]
        found["gen_ai.output.messages"] = _messages("assistant", parts, reply.finish)
        found["gen_ai.response.finish_reasons"] = [reply.finish]
    return found


def decision_attributes(decisions: Iterable[str]) -> Attributes:
    """Return what an agent decided, as its output."""
    parts = [("text", one) for one in decisions]
    return {"gen_ai.output.messages": _messages("assistant", parts, "stop")} if parts else {}


def hint_attributes(channel: str, hint: Hint, *, content: bool) -> Attributes:
    """Return what was learned, its words only with `content`."""
    known = {"id": hint.id, "channel": channel, "code": hint.code, "about": hint.about}
    words = {"text": hint.text, "evidence": hint.evidence} if content else {}
    return present({f"{OURS}.{name}": value for name, value in {**known, **words}.items()})


def _messages(role: str, parts: Iterable[tuple[str, str]], finish: str = "") -> str:
    said = [{"type": kind, "content": text} for kind, text in parts if text]
    ended = {"finish_reason": finish} if finish else {}
    return json.dumps([{"role": role, "parts": said, **ended}], ensure_ascii=False)
