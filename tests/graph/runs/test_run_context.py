"""Agents, generators and reflectors of one's own ask a model at a real endpoint, inside a run."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import pytest
from graph_runs import Writer, numbered
from model_server import Answer, Busy, ModelServer, Request, Say
from run_starts import asked, events, parts, the_run

from cuda_llm.agents.llm.chat_model import open_chat_model
from cuda_llm.agents.llm.preflight import PROBE
from cuda_llm.agents.protocols import AgentContext, Contribution, PlacedAgent, Stage
from cuda_llm.agents.situation import Situation
from cuda_llm.codec import encode
from cuda_llm.conversation import CallFailed, Reply
from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.result import Result
from cuda_llm.graph.runs.start import aoptimize, resume, start
from cuda_llm.outcomes import NoCode
from cuda_llm.search import Attempt, Author, Brief, Draft
from cuda_llm.traces.events import AgentDecided, AgentFailed, ModelCalled, ModelRetried
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.run_text import describe_run
from cuda_llm.traces.summary import summarise

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def advise(request: Request) -> Answer:
    """The same answer to everybody, at a known price."""
    return Say("use wider loads", usage=USAGE)


def placed(agent: Callable[[Situation], Awaitable[Contribution]], name: str = "asker") -> Any:
    return PlacedAgent(name=name, after=Stage.BASELINE, agent=agent)


async def asks(situation: Situation) -> Contribution:
    """One question; its answer, or why there is none, is the decision."""
    reply = await situation.ask("what next?")
    text = reply.text if isinstance(reply, Reply) else reply.kind
    return Contribution(decisions=(text,))


def run_in(out: Path, server: ModelServer, *agents: PlacedAgent, **request: Any) -> Result:
    """A run of one round, whose endpoint is `server`."""
    order = asked(out, **{"rounds": 1, "candidates": 1, "base_url": server.base_url, **request})
    return asyncio.run(start(order, brought=parts(agents=agents)))


def decided(run: RunFolder, agent: str = "asker") -> list[tuple[str, ...]]:
    decided = events(run, AgentDecided)
    return [
        one.decisions for one in decided if isinstance(one, AgentDecided) and one.agent == agent
    ]


def calls(run: RunFolder) -> list[ModelCalled]:
    """Calls, the probes of the models apart."""
    made = [one for one in events(run, ModelCalled) if isinstance(one, ModelCalled)]
    return [one for one in made if one.agent != "preflight"]


def questions(server: ModelServer) -> list[Request]:
    return [one for one in server.requests if PROBE not in one.prompt]


def test_an_agent_asks_its_own_model_and_the_run_counts_what_it_spends(tmp_path: Path) -> None:
    with ModelServer(advise, model="reviewer") as server:
        result = run_in(tmp_path, server, placed(asks), agent_models={"asker": "reviewer"})
    assert decided(the_run(tmp_path)) == [("use wider loads",)]
    (question,) = questions(server)
    assert question.body["model"] == "reviewer"
    (call,) = calls(the_run(tmp_path))
    assert (call.agent, call.model, call.outcome) == ("asker", "reviewer", "ok")
    assert (call.input_tokens, call.output_tokens) == (100, 10)
    probes = len(server.requests) - 1
    assert result.usage.input_tokens == 100 * (1 + probes)
    assert list((the_run(tmp_path).path / "rounds/0/asker").glob("ask-*/reply.md"))


def test_what_a_server_had_in_its_cache_is_recorded_summed_shown_and_cheaper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(
        '[[price]]\nmodels = ["reviewer"]\ninput_usd = 10.0\ncached_usd = 1.0\noutput_usd = 0.0\n'
    )
    monkeypatch.setenv("CUDA_LLM_PRICES", str(prices))
    usage = USAGE | {"prompt_tokens_details": {"cached_tokens": 80}}
    with ModelServer(lambda one: Say("use wider loads", usage=usage), model="reviewer") as server:
        result = run_in(tmp_path / "runs", server, placed(asks), model="reviewer")
    run = the_run(tmp_path / "runs")
    (call,) = calls(run)
    assert (call.input_tokens, call.cached_tokens) == (100, 80)
    assert call.usd == pytest.approx((20 * 10.0 + 80 * 1.0) / 1e6)
    count = len(server.requests)
    assert (result.usage.input_tokens, result.usage.cached_tokens) == (100 * count, 80 * count)
    assert f"tokens in ({80 * count} cached)" in "\n".join(describe_run(run))
    assert summarise(run).spend.cached_tokens == 80 * count


def test_an_agent_without_a_model_of_its_own_asks_the_runs(tmp_path: Path) -> None:
    with ModelServer(advise, model="writer") as server:
        run_in(tmp_path, server, placed(asks), model="writer")
    assert [one.body["model"] for one in questions(server)] == ["writer"]


def test_agents_of_one_run_ask_models_of_their_own(tmp_path: Path) -> None:
    agents = (placed(asks), placed(asks, "other"))
    with ModelServer(advise, model="writer", more_models=("reviewer",)) as server:
        run_in(tmp_path, server, *agents, model="writer", agent_models={"other": "reviewer"})
    assert {one.agent: one.model for one in calls(the_run(tmp_path))} == {
        "asker": "writer",
        "other": "reviewer",
    }


def test_a_model_may_be_an_object(tmp_path: Path) -> None:
    async def search(server: ModelServer) -> Result:
        mine = open_chat_model("mine", base_url=server.base_url)
        own = {name: part for name, part in vars(parts()).items() if part and name != "agents"}
        return await aoptimize(
            "vector_add",
            agents=[placed(asks), placed(asks, "other")],
            agent_models={"asker": mine, "other": "reviewer"},
            base_url=server.base_url,
            out=str(tmp_path),
            candidates=1,
            rounds=1,
            **own,
        )

    with ModelServer(advise, model="mine", more_models=("reviewer",)) as server:
        asyncio.run(search(server))
    run = the_run(tmp_path)
    assert {one.agent: one.model for one in calls(run)} == {"asker": "mine", "other": "reviewer"}
    assert run.read_run()["request"]["agent_models"] == {"other": "reviewer"}
    assert "agent_models" in run.read_run()["brought"]


def test_an_agent_without_a_model_gets_an_error_that_names_the_option(tmp_path: Path) -> None:
    with ModelServer(advise) as server:
        run_in(tmp_path, server, placed(asks))
    assert decided(the_run(tmp_path)) == [("no_model",)]
    assert not server.requests


def test_a_model_for_an_unknown_agent_is_refused_before_any_work(tmp_path: Path) -> None:
    with (
        ModelServer(advise) as server,
        pytest.raises(UsageError, match=r"--agent-model ghost=\.\.\.:"),
    ):
        run_in(tmp_path, server, placed(asks), agent_models={"ghost": "scripted"})
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_not_there_is_refused_before_any_work(tmp_path: Path) -> None:
    with ModelServer(advise) as server, pytest.raises(UsageError, match="has no model 'typo'"):
        run_in(tmp_path, server, placed(asks), agent_models={"asker": "typo"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fault", [Busy(429, retry_after="0"), Busy(500)])
def test_an_agents_question_is_asked_again_after_a_fault(tmp_path: Path, fault: Answer) -> None:
    script = [Say("ready"), fault, Say("use wider loads")]
    with ModelServer(script) as server:
        run_in(tmp_path, server, placed(asks), agent_models={"asker": "scripted"})
    assert decided(the_run(tmp_path)) == [("use wider loads",)]
    assert len(events(the_run(tmp_path), ModelRetried)) == 1
    assert [one.tries for one in calls(the_run(tmp_path))] == [2]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Busy(400, message="no such field"), "refused_request"),
        (Busy(401, code="invalid_api_key"), "no_access"),
    ],
)
def test_a_failure_of_the_endpoint_is_data_and_the_run_goes_on(
    tmp_path: Path, fault: Answer, kind: str
) -> None:
    with ModelServer(lambda request: Say("ready") if PROBE in request.prompt else fault) as server:
        result = run_in(tmp_path, server, placed(asks), agent_models={"asker": "scripted"})
    assert decided(the_run(tmp_path)) == [(kind,)]
    assert not events(the_run(tmp_path), AgentFailed)
    assert result.finished
    assert len(result.attempts) == 1


def test_an_agent_that_raises_behind_its_question_ends_its_part_alone(tmp_path: Path) -> None:
    async def clumsy(situation: Situation) -> Contribution:
        await situation.ask("what next?")
        raise RuntimeError("lost the answer")

    with ModelServer(advise) as server:
        result = run_in(tmp_path, server, placed(clumsy), agent_models={"asker": "scripted"})
    assert result.finished
    (failed,) = events(the_run(tmp_path), AgentFailed)
    assert isinstance(failed, AgentFailed)
    assert "lost the answer" in failed.error
    assert len(calls(the_run(tmp_path))) == 1


def test_a_question_does_not_outlast_the_agents_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LLM_AGENT_DEADLINE_S", "2")

    def slow(request: Request) -> Answer:
        return Say("ready") if PROBE in request.prompt else Say("late", wait_s=60.0)

    with ModelServer(slow) as server:
        result = run_in(tmp_path, server, placed(asks), agent_models={"asker": "scripted"})
    assert decided(the_run(tmp_path)) == [("timed_out",)]
    assert [one.outcome for one in calls(the_run(tmp_path))] == ["cancelled"]
    assert result.usage.lost_tries == 1
    assert result.finished


def test_a_question_beyond_the_budget_is_refused(tmp_path: Path) -> None:
    async def asks_much(situation: Situation) -> Contribution:
        reply = await situation.ask("word " * 40_000)
        assert isinstance(reply, CallFailed)
        return Contribution(decisions=(reply.kind,))

    with ModelServer(advise) as server:
        result = run_in(
            tmp_path,
            server,
            placed(asks_much),
            agent_models={"asker": "scripted"},
            max_tokens=40_000,
        )
    assert decided(the_run(tmp_path)) == [("over_budget",)]
    assert not questions(server)
    assert len(result.attempts) == 1, "one agent's question does not end the run"


@dataclass
class TwoQuestions:
    """Asks twice, and hangs behind the first answer until it may go on."""

    reached: asyncio.Event
    may_end: bool = False

    async def __call__(self, situation: Situation) -> Contribution:
        first = await situation.ask("first?")
        self.reached.set()
        if not self.may_end:
            await asyncio.sleep(60.0)
        second = await situation.ask("second?")
        texts = [one.text for one in (first, second) if isinstance(one, Reply)]
        return Contribution(decisions=tuple(texts))


def cut_and_resume(
    out: Path, server: ModelServer, between: Callable[[RunFolder], object] = lambda run: None
) -> Result:
    """A run that is cancelled behind the agent's first answer, and goes on after `between`."""

    async def work() -> Result:
        agent = TwoQuestions(asyncio.Event())
        order = asked(out, rounds=1, base_url=server.base_url, agent_models={"asker": "scripted"})
        run = asyncio.create_task(start(order, brought=parts(agents=(placed(agent),))))
        await agent.reached.wait()
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        between(the_run(out))
        going_on = replace(agent, may_end=True)
        return await resume(the_run(out), brought=parts(agents=(placed(going_on),)))

    return asyncio.run(work())


def lose_the_call(run: RunFolder) -> None:
    """Leave the trace as a kill does between an answer's arrival and its event."""
    lines = run.events.read_bytes().splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if b'"asker"' in line)
    run.events.write_bytes(b"".join(lines[:first]))


@pytest.mark.parametrize("between", [lambda run: None, lose_the_call])
def test_a_resumed_run_asks_nothing_again_and_counts_it_once(
    tmp_path: Path, between: Callable[[RunFolder], object]
) -> None:
    with ModelServer(lambda one: Say(f"answer to {one.prompt}", usage=USAGE)) as server:
        result = cut_and_resume(tmp_path, server, between)
    assert [one.prompt for one in questions(server)] == ["first?", "second?"]
    assert decided(the_run(tmp_path)) == [("answer to first?", "answer to second?")]
    assert [one.outcome for one in calls(the_run(tmp_path))] == ["ok", "ok"]
    # A resumed run tries its models once more, before it goes on.
    assert result.usage.input_tokens == 100 * len(server.requests)


@dataclass(frozen=True)
class AskingWriter:
    """A generator of one's own that asks a model."""

    name: str = "asking_writer"
    written_by: Author = "model"

    async def generate(self, brief: Brief, situation: Situation) -> Draft | NoCode:
        reply = await situation.ask(f"write {brief.id}")
        if isinstance(reply, CallFailed):
            return NoCode(kind="call_failed", message=reply.detail)
        return Draft(source=f"// {brief.id}\nint {reply.text};\n")


@dataclass(frozen=True)
class AskingReflector:
    """A reflector of one's own that asks a model."""

    name: str = "asking reflector"

    async def reflect(self, situation: Situation, judged: Sequence[Attempt]) -> Contribution:
        reply = await situation.ask(f"what did {len(judged)} teach?")
        return Contribution(decisions=(reply.text if isinstance(reply, Reply) else reply.kind,))


def test_a_generator_and_a_reflector_of_ones_own_ask_too(tmp_path: Path) -> None:
    own = parts(generator=AskingWriter(), reflector=AskingReflector())
    with ModelServer(lambda _: Say("ok_80_1"), more_models=("reviewer",)) as server:
        models = {"asking_writer": "scripted", "asking reflector": "reviewer"}
        order = asked(
            tmp_path, rounds=1, candidates=2, base_url=server.base_url, agent_models=models
        )
        result = asyncio.run(start(order, brought=own))
    assert result.attempts[0].code == "PASSED"
    run = the_run(tmp_path)
    assert sorted((one.agent, one.model) for one in calls(run)) == [
        ("asking reflector", "reviewer"),
        *[("asking_writer", "scripted")] * 2,
    ]
    assert decided(run, "asking reflector") == [("ok_80_1",)]
    assert list(run.candidate("r1-c1").glob("ask-*/reply.json"))
    assert list((run.path / "rounds/1/asking_reflector").glob("ask-*/reply.json"))


class Asked(TypedDict, total=False):
    situation: dict[str, Any]
    contribution: dict[str, Any]


def asking_graph() -> Any:
    """An agent that is a compiled graph and asks through its runtime context."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.runtime import Runtime

    async def ask(state: Asked, runtime: Runtime[AgentContext]) -> Asked:
        reply = await runtime.context.ask("what next?")
        text = reply.text if isinstance(reply, Reply) else reply.kind
        return {"contribution": encode(Contribution(decisions=(text,)))}

    graph = StateGraph(Asked, context_schema=AgentContext)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    return graph.compile()


def test_an_agent_that_is_a_graph_asks_through_its_runtime_context(tmp_path: Path) -> None:
    with ModelServer(advise) as server:
        run_in(tmp_path, server, placed(asking_graph()), agent_models={"asker": "scripted"})
    assert decided(the_run(tmp_path)) == [("use wider loads",)]


def test_an_agent_that_asks_nothing_needs_no_model(tmp_path: Path) -> None:
    """A generator written for yesterday's protocol, and a model that nobody could open."""

    async def silent(situation: Situation) -> Contribution:
        return Contribution(decisions=("fine",))

    own = parts(agents=(placed(silent),), generator=Writer(numbered))
    result = asyncio.run(start(asked(tmp_path, rounds=1, model="unpaid"), brought=own))
    assert result.finished
    assert decided(the_run(tmp_path)) == [("fine",)]
    assert not calls(the_run(tmp_path))
