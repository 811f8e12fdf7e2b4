"""A run as OpenTelemetry spans, as a real receiver decodes them."""

import itertools
import json
import logging
import re
import shlex
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from graph_runs import NoTuner, TableBench
from model_server import Answer, Busy, ModelServer, Request, Say
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from otlp_receiver import Arrived, Collector
from recorded_run import ATTEMPTS, OTHERS, beginning, ending, write_run
from run_starts import ReadyDevice

from cuda_llm import Result, optimize, read_run
from cuda_llm.agents.llm.preflight import PROBE
from cuda_llm.cli.app import run as main
from cuda_llm.errors import MissingError, UsageError
from cuda_llm.tools.open_device import open_device
from cuda_llm.traces.event_log import Recorder
from cuda_llm.traces.event_table import Events
from cuda_llm.traces.events import (
    AttemptRepeated,
    Event,
    RunFinished,
    RunForked,
    RunResumed,
    StageLeft,
)
from cuda_llm.traces.otlp.send import LiveSender, send_run
from cuda_llm.traces.otlp.spans import SpanTree
from cuda_llm.traces.run_folder import RunFolder

EXAMPLE = Path(__file__).parents[3] / "traces/examples/reduction-playbook"
SECRET = "sk-which-nobody-may-see"
KERNEL = """An idea in words.

```cuda
int {what}_{number};
extern "C" void solve(const float* A, const float* B, float* C, int n) {{}}
```"""
STAMP_NS = 2_000_000
"""Stamps of events are cut to milliseconds."""
CLIENT = 3
"""SpanKind in protobuf."""


class Script:
    """Kernels by turns; one try in three is answered by an error first."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.refused = itertools.count()

    def __call__(self, request: Request) -> Answer:
        if PROBE in request.prompt:
            return Say("ready")
        if request.number % 3 == 1 and next(self.refused) < 2:
            return Busy(429, retry_after="0")
        number = next(self.numbers)
        what = ("ok_80", "wrong", "ok_70", "broken")[number % 4]
        usage = {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 60},
            "completion_tokens_details": {"reasoning_tokens": 5},
        }
        return Say(KERNEL.format(what=what, number=number), usage=usage, wait_s=0.4)


def search(out: Path, server: ModelServer, **more: Any) -> Result:
    """Two rounds of two: a model writes, a table judges."""
    return optimize(
        "vector_add",
        model="scripted",
        base_url=server.base_url,
        bench=TableBench(),
        tuner=NoTuner(),
        device=ReadyDevice(open_device("emulated").hardware),
        candidates=2,
        rounds=2,
        out=str(out),
        **more,
    )


@dataclass(frozen=True)
class Sent:
    """A run that was sent as it went on."""

    result: Result
    collector: Collector
    before_the_end: int
    """Spans that had arrived when its last event was told."""

    @property
    def folder(self) -> RunFolder:
        """Where it lies."""
        return RunFolder(self.result.run_dir)


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sent]:
    """A run with a loopback model, sent live to a loopback collector."""
    arrived: list[int] = []

    def watch(event: Event) -> None:
        if isinstance(event, RunFinished):
            arrived.append(len(collector.spans))

    with pytest.MonkeyPatch.context() as patch, Collector() as collector:
        patch.setenv("OPENAI_API_KEY", SECRET)
        patch.setenv("CUDA_LLM_OTLP", "1")
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        patch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20cGs6c2s=,x-project=mine")
        patch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        patch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=kernels")
        with ModelServer(Script()) as server:
            result = search(tmp_path_factory.mktemp("runs"), server, observers=[watch])
        yield Sent(result, collector, arrived[0])


def again(run: RunFolder, monkeypatch: pytest.MonkeyPatch, *, content: bool = False) -> Collector:
    """What arrives of a run that is sent afterwards."""
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        send_run(run, content=content)
    return collector


def test_a_run_is_one_tree_whose_spans_are_told_while_it_goes_on(sent: Sent) -> None:
    collector = sent.collector
    assert 0 < sent.before_the_end < len(collector.spans)
    (root,) = [one for one in collector.spans if not one.parent]
    assert {one.trace for one in collector.spans} == {root.trace}
    ids = {one.id for one in collector.spans}
    assert len(ids) == len(collector.spans)
    assert {one.parent for one in collector.spans} - {""} <= ids
    assert root.name == "invoke_workflow fsr"
    rounds = [one for one in collector.below(root) if one.name.startswith("round")]
    assert [one.name for one in rounds] == ["round 1", "round 2"]
    below = [one.name for one in collector.below(rounds[0])]
    assert {"candidate r1-c1", "candidate r1-c2", "invoke_agent reflection"} == {*below}
    best = sent.result.best
    assert best is not None
    (winner,) = collector.named(f"candidate {best.id}")
    assert [one.name for one in collector.below(winner)] == [
        "invoke_agent llm",
        "execute_tool compile",
        "execute_tool validate",
        "execute_tool profile",
    ]
    (chat,) = collector.below(collector.below(winner)[0])
    assert chat.name == "chat scripted"
    assert {"execute_tool baseline", "execute_tool recheck"} <= {
        one.name for one in collector.below(root)
    }


def test_durations_are_those_of_the_events(sent: Sent) -> None:
    for chat in sent.collector.named("chat"):
        least = 0.4 if "candidates" in chat.attributes["cuda_llm.call"] else 0.0
        assert least <= chat.seconds
    for one in sent.collector.spans:
        assert one.start_ns <= one.end_ns
        (parent,) = [two for two in sent.collector.spans if two.id == one.parent] or [one]
        assert parent.start_ns - STAMP_NS <= one.start_ns
        assert one.end_ns <= parent.end_ns + STAMP_NS
    (root,) = [one for one in sent.collector.spans if not one.parent]
    assert root.seconds == pytest.approx(sent.result.seconds["total"], abs=0.01)


def test_model_calls_tell_tokens_cost_and_retries(sent: Sent) -> None:
    chats = [
        one
        for one in sent.collector.named("chat")
        if one.attributes["cuda_llm.call"] != "preflight"
    ]
    assert {one.kind for one in chats} == {CLIENT}
    first = chats[0].attributes
    assert first["gen_ai.operation.name"] == "chat"
    assert first["gen_ai.provider.name"] == "openai"
    assert first["gen_ai.request.model"] == "scripted"
    assert first["gen_ai.conversation.id"] == sent.result.run_id
    used = ("input_tokens", "output_tokens", "cache_read.input_tokens", "reasoning.output_tokens")
    assert [first[f"gen_ai.usage.{name}"] for name in used] == [100, 20, 60, 5]
    spent = sent.result.usage
    told = Counter[str]()
    for chat in sent.collector.named("chat"):
        told.update(
            {key: chat.attributes[f"gen_ai.usage.{key}_tokens"] for key in ("input", "output")}
        )
    assert (told["input"], told["output"]) == (spent.input_tokens, spent.output_tokens)
    retries = [event for one in chats for event in one.events if event[0] == "retry"]
    assert len(retries) == 2
    assert retries[0][1]["cuda_llm.reason"].startswith("rate_limited")


def test_failures_are_errors_and_candidates_name_their_parents(sent: Sent) -> None:
    spans = {one.name: one for one in sent.collector.spans if one.name.startswith("candidate")}
    for attempt in sent.result.attempts:
        span = spans[f"candidate {attempt.id}"]
        assert span.attributes["cuda_llm.code"] == attempt.code
        assert span.attributes.get("cuda_llm.speedup") == attempt.speedup
        if attempt.passed:
            assert span.error is None
        else:
            assert span.error is not None
            assert span.error.startswith(attempt.code)
            assert span.attributes["error.type"] == attempt.code
        links = [spans[f"candidate {name}"].id for name in (attempt.parent, attempt.second) if name]
        assert list(span.links) == links
    assert any(one.parent for one in sent.result.attempts)
    assert Counter(one.code for one in sent.result.attempts)["PASSED"] == 2
    (root,) = [one for one in sent.collector.spans if not one.parent]
    assert root.error is None
    assert root.attributes["cuda_llm.speedup"] == read_run(sent.result.run_dir).speedup


def test_the_usual_variables_say_where_and_how(sent: Sent) -> None:
    for request in sent.collector.requests:
        assert request["path"] == "/v1/traces"
        assert request["x-project"] == "mine"
        assert request["authorization"] == "Basic cGs6c2s="
        assert request["content-encoding"] == "gzip"
    resource = sent.collector.spans[0].resource
    assert (resource["service.name"], resource["team"]) == ("cuda-llm", "kernels")


def test_prompts_and_replies_are_told_only_when_asked_for(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = str([(one.attributes, one.events) for one in sent.collector.spans])
    assert "messages" not in plain
    assert "An idea in words" not in plain
    told = again(sent.folder, monkeypatch, content=True)
    (chat, *_) = [one for one in told.named("chat") if "r1-c1" in one.attributes["cuda_llm.call"]]
    (asked,) = json.loads(chat.attributes["gen_ai.input.messages"])
    assert asked["role"] == "user"
    assert "vector" in asked["parts"][0]["content"]
    (said,) = json.loads(chat.attributes["gen_ai.output.messages"])
    assert (said["role"], said["finish_reason"]) == ("assistant", "stop")
    assert said["parts"][-1]["content"].startswith("An idea in words")
    assert chat.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    (agent, *_) = told.named("invoke_agent reflection")
    assert "gen_ai.output.messages" in agent.attributes
    assert SECRET not in str(told.spans)


def test_content_is_asked_for_by_the_variable_of_the_conventions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("CUDA_LLM_OTLP", "1")
    with ModelServer(Script()) as server, Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        search(tmp_path, server)
    written = [one for one in collector.named("chat") if "r1-" in one.attributes["cuda_llm.call"]]
    assert all("gen_ai.input.messages" in one.attributes for one in written)


def test_a_run_sent_afterwards_gives_the_same_spans(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plain(collector: Collector) -> list[Any]:
        return sorted(
            (vars(one) | {"resource": 0} for one in collector.spans), key=lambda one: one["id"]
        )

    assert plain(again(sent.folder, monkeypatch)) == plain(sent.collector)


def test_the_names_are_those_of_the_conventions(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {value for name, value in vars(gen_ai_attributes).items() if name.isupper()}
    spans = again(sent.folder, monkeypatch, content=True).spans
    told = {name for one in spans for name in one.attributes}
    assert {name for name in told if name.startswith("gen_ai.")} - known == {
        "gen_ai.usage.cost"
    } & told
    others = {name for name in told if not name.startswith(("gen_ai.", "cuda_llm."))}
    assert others <= {
        *("error.type", "openinference.span.kind", "llm.model_name"),
        *("llm.token_count.prompt", "llm.token_count.completion"),
    }


def test_every_kind_of_event_has_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "a-run", *beginning(), *OTHERS, *ending())
    collector = again(run, monkeypatch)
    (contest,) = collector.named("execute_tool contest")
    names = {one.id: one.name for one in collector.spans}
    assert [names[one] for one in contest.links] == ["candidate r2-c1", "candidate r1-c1"]
    assert contest.attributes["cuda_llm.speedup_low"] == 2.79
    (failed,) = [one for one in collector.named("chat") if one.error]
    assert failed.error == "server_error 500 four times"
    assert failed.attributes["error.type"] == "server_error"
    (mine,) = collector.named("invoke_agent mine")
    assert mine.error == "ValueError: no luck"
    (priced, _) = collector.named("chat")
    assert priced.attributes["gen_ai.usage.cost"] == 0.01
    (late,) = [one for one in collector.named("execute_tool compile") if "r1-c3" in str(one)]
    assert late.attributes["cuda_llm.unfinished"] is True
    events = Counter(name for one in collector.spans for name, _ in one.events)
    assert events["incumbent_chosen"] == 2
    assert events["hint_given"] == 2
    assert {"retry", "run_resumed", "run_forked", "candidate_late", "tuner_searched"} <= {*events}
    assert "Let neighbouring threads" not in str(collector.spans)


def test_a_killed_or_damaged_run_is_sent_as_far_as_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "a-run", *beginning())
    lines = run.events.read_bytes().splitlines(keepends=True)
    run.events.write_bytes(b"".join([*lines[1:8], b"\x00{\n", *lines[8:]])[:-9])
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        sent, _, missing = send_run(run, content=False)
    assert sent == len(collector.spans) > 5
    assert missing == "events.jsonl: 2 lines cut off, damaged or about a lost file"
    ids = {one.id for one in collector.spans}
    assert {one.parent for one in collector.spans} - {""} <= ids


def test_a_resumed_run_sends_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "a-run", *beginning())
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        record = Recorder(run.events)
        live = LiveSender(run, content=False)
        record(RunResumed(round=2))
        record(StageLeft(candidate="r2-c1", stage="compile", outcome="ok", seconds=0.0))
        record.close()
        live.close()
    names = [one.name for one in collector.spans]
    assert "execute_tool compile" in names
    assert not {"execute_tool baseline", "chat a-model"} & {*names}
    (root,) = [one for one in collector.spans if not one.parent]
    whole = again(run, monkeypatch)
    assert {one.id: one.trace for one in collector.spans}.items() <= {
        one.id: one.trace for one in whole.spans
    }.items()
    assert root.name in {one.name for one in whole.spans}


def test_a_later_verdict_changes_a_candidate_but_not_its_times(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run", *beginning(), AttemptRepeated(attempt=ATTEMPTS[0]))
    tree = SpanTree(run)
    spans = [span for one in Events(run.events) for span in tree.add(one)]
    first, second = [one for one in spans if one.key == "candidate/r1-c1"]
    assert (second.start_ns, second.end_ns) == (first.start_ns, first.end_ns)
    assert "candidate/r1-c1" not in {one.key for one in tree.close()}


def test_a_fork_is_a_run_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forked = RunForked(of="another-run", round=1, edited_hints=True)
    run = write_run(tmp_path / "a-fork", *beginning(), forked)
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        live = LiveSender(run, content=False)
        live.close()
    assert {"execute_tool baseline", "chat a-model"} <= {one.name for one in collector.spans}


@pytest.mark.parametrize("answers", ["refused", "silent", "forbidden"])
def test_a_collector_that_takes_nothing_costs_one_warning(
    answers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = write_run(tmp_path / "a-run", *beginning())
    with socket.create_server(("127.0.0.1", 0)) as silent, Collector(status=403) as forbidding:
        address = f"http://user:secret@127.0.0.1:{silent.getsockname()[1]}"
        if answers == "forbidden":
            address = forbidding.address
        if answers == "refused":
            silent.close()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        with caplog.at_level(logging.WARNING):
            record = Recorder(run.events)
            live = LiveSender(run, content=False)
            record(RunResumed(round=2))
            record.close()
            live.close()
    (told,) = caplog.records
    text = told.getMessage()
    assert "spans do not reach the collector; the run goes on without it" in text
    reason = {"refused": "Connection refused", "silent": "does not answer", "forbidden": "403"}
    assert reason[answers] in text
    assert "secret" not in text


def test_an_unreachable_collector_leaves_the_run_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("CUDA_LLM_OTLP", "1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    with ModelServer(Script()) as server:
        result = search(tmp_path, server)
    assert result.finished
    assert result.best is not None
    (told,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert told.name == "cuda_llm.traces.otlp.send"
    later = re.search(r"later='cuda-llm ([^']+)'", told.getMessage())
    assert later is not None
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        assert main(shlex.split(later.group(1))) == 0
    assert len(collector.named("candidate")) == 4


def test_what_is_missing_is_said_before_the_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("CUDA_LLM_OTLP", "1")
    with ModelServer(Script()) as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        with pytest.raises(UsageError, match="OTEL_EXPORTER_OTLP_PROTOCOL=grpc: spans are sent as"):
            search(tmp_path / "runs", server)
        monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
        with pytest.raises(MissingError, match=r"pip install 'cuda-llm\[otlp\]'"):
            search(tmp_path / "runs", server)
        assert not (tmp_path / "runs").exists()
        assert server.requests == []
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
        assert search(tmp_path / "runs", server).finished


def test_names_repeat_but_for_candidates_and_rounds(sent: Sent) -> None:
    """A backend that groups by name has few groups."""

    def kind(one: Arrived) -> str:
        return one.name.split()[0] if one.name.startswith(("candidate", "round")) else one.name

    assert len({kind(one) for one in sent.collector.spans}) <= 12


def test_the_example_that_ships_is_sent_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = again(RunFolder(EXAMPLE), monkeypatch)
    assert len(collector.named("candidate")) == 12
    assert {one.attributes["gen_ai.agent.name"] for one in collector.named("invoke_agent")} == {
        *("playbook", "reflection", "hardware_research")
    }
    assert all(one.error is None for one in collector.spans)
