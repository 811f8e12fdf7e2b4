"""A run answered by the record of another: the same decisions, a line for what is not there."""

import asyncio
import hashlib
import shutil
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from graph_runs import NoTuner, TableBench, Writer, in_times
from measured_runs import DuelTableBench, MeasuringDevice
from model_server import Answer, Busy, ModelServer, Request, Say
from replays import decisions
from run_starts import asked, events, parts

from cuda_llm.agents.llm.preflight import PROBE
from cuda_llm.agents.protocols import Contribution, PlacedAgent, Stage
from cuda_llm.agents.situation import Situation
from cuda_llm.conversation import Reply
from cuda_llm.errors import UsageError
from cuda_llm.graph.parts import Parts
from cuda_llm.graph.runs.replay import as_asked, replay_account
from cuda_llm.graph.runs.resolve import resolve_config
from cuda_llm.graph.runs.start import aoptimize, optimize, resume, start
from cuda_llm.outcomes import DataRace, LateWrite, Verdict
from cuda_llm.run_config import RunConfig
from cuda_llm.search import Brief, Draft
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.traces.events import (
    AgentDecided,
    Event,
    KernelInspected,
    ModelCalled,
    RoundBegan,
    RunFinished,
    RunInterrupted,
)
from cuda_llm.traces.run_folder import RunFolder


def record(out: Path, brought: Parts, **request: Any) -> RunFolder:
    """A run to replay."""
    result = asyncio.run(start(asked(out, **request), brought=brought))
    return RunFolder(result.run_dir)


def test_a_device_that_is_named_measures_a_replay_in_place_of_the_recorded_one(
    tmp_path: Path,
) -> None:
    run = record(tmp_path, parts(), device="cuda:0", rounds=1)
    on_cluster = RunConfig(replay=str(run.path), device="ray:auto")
    config = resolve_config(as_asked(on_cluster))
    assert (config.device, config.rounds) == ("ray:auto", 1)


def replayed(run: RunFolder, out: Path, **keywords: Any) -> RunFolder:
    """The run once more, by its record alone unless the keywords say otherwise."""
    return RunFolder(optimize(replay=str(run.path), out=str(out), **keywords).run_dir)


def kernel(name: str) -> str:
    """A reply that the table bench judges by its name, as `ok_80` or `wrong`."""
    solve = 'extern "C" void solve(const float* A, const float* B, float* C, int N) {}'
    return f"```cuda\n// a kernel\nint {name}_1;\n{solve}\n```"


@dataclass
class Script:
    """Answers kernels by the order of arrival, a critique to reflection, and fails at times."""

    kernels: tuple[str, ...] = ("ok_90", "wrong", "broken", "ok_80", "ok_70", "ok_85", "ok_60")
    asked: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Answer:
        with self._lock:
            if request.prompt == PROBE:
                return Say("ready")
            if "response_format" in request.body:
                return Say('{"bottleneck": "memory", "change": "wider loads", "reason": "bytes"}')
            self.asked += 1
            if self.asked == 3:
                return Busy(503)
            if self.asked == 5:
                return Say("I have no kernel for you.")
            return Say(kernel(self.kernels[self.asked % len(self.kernels)]))


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay has none, and a retry need not wait."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("CUDA_LLM_MODEL_TRIES", "2")


@pytest.fixture(scope="module")
def of_a_model(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with a model: kernels that pass, that are wrong, that do not compile, and a retry."""
    own = replace(parts(), generator=None, reflector=None)
    with ModelServer(Script()) as server:
        request = {"model": "scripted", "base_url": server.base_url, "rounds": 3}
        return record(tmp_path_factory.mktemp("model"), own, **request)


def test_decisions_of_a_run_with_a_model_are_the_same(
    of_a_model: RunFolder, tmp_path: Path
) -> None:
    codes = {
        one.code for one in (of_a_model.attempt(name) for name in of_a_model.candidates()) if one
    }
    assert {"PASSED", "WRONG_RESULT", "COMPILE_FAILED", "NO_CODE"} <= codes
    again = replayed(of_a_model, tmp_path, tuner=NoTuner())
    assert decisions(again) == decisions(of_a_model)
    account = replay_account(again)
    assert account is not None
    assert account.answered > 10
    assert (account.unanswered, account.prompts_differ, account.unjudged) == ((), (), ())
    assert replay_account(of_a_model) is None


def test_replies_are_fed_to_todays_code_which_judges_anew(
    of_a_model: RunFolder, tmp_path: Path
) -> None:
    bench = TableBench()
    own = {"device": parts().device, "bench": bench, "tuner": NoTuner()}
    again = replayed(of_a_model, tmp_path, **own)
    assert decisions(again) == decisions(of_a_model)
    assert any(line.startswith("profile") for line in bench.log)


@dataclass(frozen=True)
class AnyBench(TableBench):
    """Judges whatever compiles by its hash: some are wrong, the others take some time."""

    async def validate(self, compiled: Compiled) -> Validated | Verdict:
        odd = hashlib.sha256(compiled.source.encode()).digest()[0] % 4 == 0
        return LateWrite(buffer="C") if odd else Validated()

    async def profile(
        self, compiled: Compiled, validated: Validated, baseline: KernelTimes
    ) -> Verdict:
        number = hashlib.sha256(compiled.source.encode()).digest()[1]
        return in_times((50.0 + number / 10,), baseline)


def test_decisions_of_a_run_with_the_playbook_are_the_same(tmp_path: Path) -> None:
    own = replace(parts(bench=AnyBench()), generator=None, reflector=None, tuner=None)
    run = record(tmp_path, own, rounds=3)
    again = replayed(run, tmp_path)
    assert {one.kind for one in attempts_of(run)} >= {"first", "improve"}
    assert decisions(again) == decisions(run)


def attempts_of(run: RunFolder) -> list[Any]:
    """All that were judged."""
    return [one for one in map(run.attempt, run.candidates()) if one is not None]


class ReadyGpu(MeasuringDevice):
    """Claims to measure; nothing has to be built for it."""

    def prepare(self) -> None:
        pass


def on_gpu(**tables: Any) -> Parts:
    """Parts of a run whose times are measured, of contests decided by tables."""
    device = ReadyGpu(open_device("emulated").hardware)
    return parts(device=device, bench=DuelTableBench(**tables), generator=Writer(by_time))


TIMES = ((90, 80), (70, 60), (50, 40), (30, 35))


def by_time(brief: Brief, _: Situation) -> Draft:
    time_us = TIMES[brief.round - 1][brief.index - 1]
    return Draft(source=f"int ok_{time_us}_{brief.round}{brief.index};\n", idea=f"{time_us} us")


RACE = DataRace(kind="read-write", space="shared")
FAULTS = {
    "faults": {"ok_60_22": LateWrite(buffer="C")},
    "findings": {"ok_50_31": RACE},
    "ratios": {"ok_30_41": 1.0},
}


@pytest.fixture(scope="module")
def on_a_gpu(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with contests that end in every way, and an inspection that finds a fault."""
    sizes = {"rounds": len(TIMES), "candidates": len(TIMES[0])}
    return record(tmp_path_factory.mktemp("gpu"), on_gpu(**FAULTS), **sizes)


def test_decisions_of_a_run_on_a_gpu_are_the_same_without_one(
    on_a_gpu: RunFolder, tmp_path: Path
) -> None:
    kinds = {one.kind for one in events(on_a_gpu)}
    assert {"contest_held", "kernel_inspected", "winner_remeasured"} <= kinds
    again = replayed(on_a_gpu, tmp_path, tuner=NoTuner(), reflector=parts().reflector)
    assert decisions(again) == decisions(on_a_gpu)
    assert again.read_run()["time_source"] == "measured"


def test_a_replay_of_a_replay_is_the_same_too(on_a_gpu: RunFolder, tmp_path: Path) -> None:
    own = {"tuner": NoTuner(), "reflector": parts().reflector}
    once = replayed(on_a_gpu, tmp_path, **own)
    assert decisions(replayed(once, tmp_path / "more", **own)) == decisions(on_a_gpu)


def test_a_kernel_that_was_not_inspected_is_not_in_a_replay_either(tmp_path: Path) -> None:
    tables = {"not_inspected": {"ok_80_12": "gpu_host: out of memory"}}
    run = record(tmp_path, on_gpu(**tables), rounds=2, candidates=2)
    again = replayed(run, tmp_path, tuner=NoTuner(), reflector=parts().reflector)
    assert decisions(again) == decisions(run)
    seen = [one for one in events(again) if isinstance(one, KernelInspected)]
    assert [one.not_inspected for one in seen] == ["gpu_host: out of memory", ""]


def copy(run: RunFolder, folder: Path) -> RunFolder:
    """The run elsewhere, to be changed."""
    return RunFolder(Path(shutil.copytree(run.path, folder / "record")))


def rewrite(run: RunFolder, **changed: Any) -> None:
    """Change keys of run.json; None takes one out."""
    kept = {key: value for key, value in run.read_run().items() if key not in changed}
    run.write_run({**kept, **{key: value for key, value in changed.items() if value is not None}})


def test_what_a_call_was_asked_is_compared_with_the_record(
    of_a_model: RunFolder, tmp_path: Path
) -> None:
    run = copy(of_a_model, tmp_path)
    prompt = run.candidate("r1-c2") / "prompt.md"
    prompt.write_text(prompt.read_text() + "one more word\n")
    again = replayed(run, tmp_path, tuner=NoTuner())
    account = replay_account(again)
    assert account is not None
    assert account.prompts_differ == ("candidates/r1-c2",)
    assert account.differs_at == "candidates/r1-c2/prompt.md"
    assert decisions(again) == decisions(run)


def test_what_was_never_asked_is_a_line_of_its_own(of_a_model: RunFolder, tmp_path: Path) -> None:
    again = replayed(of_a_model, tmp_path, tuner=NoTuner(), rounds=1, candidates=5)
    line = f"the record of {of_a_model.name} holds no answer to candidates/r1-c5"
    calls = [one for one in events(again, ModelCalled) if isinstance(one, ModelCalled)]
    assert [one.detail for one in calls if one.outcome == "not_recorded"] == [line]
    attempt = again.attempt("r1-c5")
    assert attempt is not None
    assert (attempt.code, attempt.summary) == ("NO_CODE", f"not_recorded: {line}")
    account = replay_account(again)
    assert account is not None
    assert account.unanswered == ("candidates/r1-c5",)


def test_a_replay_ends_with_its_record(of_a_model: RunFolder, tmp_path: Path) -> None:
    again = optimize(
        replay=str(of_a_model.path),
        out=str(tmp_path),
        rounds=9,
        patience=9,
        tuner=NoTuner(),
    )
    assert again.finished
    assert (again.rounds, again.reason) == (3, f"the record of {of_a_model.name} ends with round 3")


def test_a_kernel_that_was_never_judged_is_no_fault_of_its_own(tmp_path: Path) -> None:
    run = record(tmp_path, parts(), rounds=1)
    other = Writer(lambda brief, _: Draft(source=f"int ok_{brief.index}_9;\n"))
    own = {"generator": other, "tuner": NoTuner(), "reflector": parts().reflector}
    again = replayed(run, tmp_path, **own)
    judged = attempts_of(again)
    assert {one.code for one in judged} == {"INFRA_RECORD"}
    assert f"the record of {run.name} holds no verdict on this kernel" in judged[0].summary
    account = replay_account(again)
    assert account is not None
    assert account.unjudged == ("r1-c1", "r1-c2", "r1-c3", "r1-c4")


async def asks(situation: Situation) -> Contribution:
    """Two questions at once; the answers are the decisions."""
    words = (f"round {situation.round}", f"{len(situation.attempts)} attempts")
    replies = await asyncio.gather(*map(situation.ask, words))
    texts = (one.text if isinstance(one, Reply) else one.kind for one in replies)
    return Contribution(decisions=tuple(texts))


def test_an_agent_of_ones_own_is_answered_too(tmp_path: Path) -> None:
    agent = PlacedAgent(name="asker", after=Stage.CANDIDATES, agent=asks)
    numbers = iter(range(99))
    with ModelServer(lambda _: Say(f"answer {next(numbers)}")) as server:
        request = {"model": "scripted", "base_url": server.base_url, "generator": "playbook"}
        run = record(tmp_path, parts(agents=(agent,)), **request)
    own = {"tuner": NoTuner(), "reflector": parts().reflector}
    with pytest.raises(UsageError, match="with its own agents; bring it again"):
        replayed(run, tmp_path, **own)
    again = replayed(run, tmp_path, agents=[agent], **own)
    assert decisions(again) == decisions(run)
    said = [one for one in events(again, AgentDecided) if isinstance(one, AgentDecided)]
    assert all("answer" in one.decisions[0] for one in said if one.agent == "asker")


def test_an_agent_that_words_its_questions_otherwise_gets_those_of_its_turn(tmp_path: Path) -> None:
    async def asks_otherwise(situation: Situation) -> Contribution:
        reply = await situation.ask("in other words: what next?")
        return Contribution(decisions=(reply.text if isinstance(reply, Reply) else reply.kind,))

    agent = PlacedAgent(name="asker", after=Stage.CANDIDATES, agent=asks)
    with ModelServer(lambda _: Say("use wider loads")) as server:
        request = {"model": "scripted", "base_url": server.base_url, "rounds": 1}
        run = record(tmp_path, parts(agents=(agent,)), **request)
    own = {"tuner": NoTuner(), "reflector": parts().reflector}
    again = replayed(run, tmp_path, agents=[replace(agent, agent=asks_otherwise)], **own)
    said = [one for one in events(again, AgentDecided) if isinstance(one, AgentDecided)]
    assert ("use wider loads",) in [one.decisions for one in said]
    account = replay_account(again)
    assert account is not None
    assert len(account.prompts_differ) == 1
    assert account.differs_at == "rounds/1/asker"


def test_a_run_that_ended_with_its_tokens_ends_there_again(tmp_path: Path) -> None:
    script, usage = Script(), {"prompt_tokens": 5000, "completion_tokens": 5000}

    def answer(request: Request) -> Answer:
        said = script(request)
        return replace(said, usage=usage) if isinstance(said, Say) else said

    with ModelServer(answer) as server:
        own = replace(parts(), generator=None, reflector=None)
        request = {"model": "scripted", "base_url": server.base_url, "max_tokens": 90_000}
        run = record(tmp_path, own, rounds=6, **request)
    outcomes = {one.outcome for one in events(run, ModelCalled) if isinstance(one, ModelCalled)}
    assert "over_budget" in outcomes
    assert decisions(replayed(run, tmp_path, tuner=NoTuner())) == decisions(run)


def complaint(run: RunFolder, out: Path, **keywords: Any) -> str:
    """What a replay that cannot be is told, before anything is written."""
    with pytest.raises(UsageError) as caught:
        replayed(run, out / "new", **keywords)
    assert not (out / "new").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_damaged_record_is_told_by_its_file(of_a_model: RunFolder, tmp_path: Path) -> None:
    run = copy(of_a_model, tmp_path)
    reply = run.candidate("r1-c1") / "reply.json"
    whole = reply.read_text()
    reply.write_text("{")
    assert f"{reply}: gone or damaged" in complaint(run, tmp_path, tuner=NoTuner())
    reply.write_text(whole)
    lines = run.events.read_bytes().splitlines(keepends=True)
    run.events.write_bytes(b"".join([*lines[:9], lines[9][:20] + b"\n", *lines[10:]]))
    damaged = f"{run.events}: damaged, 1 of its lines cannot be read"
    assert damaged in complaint(run, tmp_path, tuner=NoTuner())
    run.events.write_bytes(b"".join(lines))
    passed = next(one.id for one in attempts_of(run) if one.passed)
    (run.candidate(passed) / "profile.json").unlink()
    assert "profile.json: gone" in complaint(run, tmp_path, tuner=NoTuner())


def test_a_record_of_another_task_is_refused(on_a_gpu: RunFolder, tmp_path: Path) -> None:
    run = copy(on_a_gpu, tmp_path)
    own = {"tuner": NoTuner(), "reflector": parts().reflector}
    other = complaint(run, tmp_path, task="reduction", **own)
    assert other.endswith("a run of vector_add, not of reduction")
    assert "--l2: nothing is timed" in complaint(run, tmp_path, l2="warm", **own)


def test_a_task_that_has_changed_since_is_a_note(on_a_gpu: RunFolder, tmp_path: Path) -> None:
    run = copy(on_a_gpu, tmp_path)
    rewrite(run, task_files={**run.read_run()["task_files"], "task.toml": "0" * 64})
    own = {"tuner": NoTuner(), "reflector": parts().reflector}
    note = replayed(run, tmp_path, **own).read_run()["note"]
    assert note == "task vector_add has changed since: task.toml"


def test_what_the_record_lacks_is_told(on_a_gpu: RunFolder, tmp_path: Path) -> None:
    run = copy(on_a_gpu, tmp_path)
    assert "with its own reflector; bring it again" in complaint(run, tmp_path)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"replay": "nowhere"}, "no run 'nowhere' in traces/runs"),
        ({}, "no task is named"),
    ],
)
def test_a_replay_of_nothing_is_refused(
    keywords: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        optimize(**keywords)
    assert message in str(caught.value)


def test_a_replay_asks_no_model(of_a_model: RunFolder, tmp_path: Path) -> None:
    assert complaint(of_a_model, tmp_path, model="another") == (
        "--model: a replay asks no model; leave it out"
    )


def test_what_is_said_takes_the_place_of_what_was_recorded(of_a_model: RunFolder) -> None:
    as_it_was = as_asked(RunConfig(replay=str(of_a_model.path)))
    assert (as_it_was.rounds, as_it_was.candidates, as_it_was.model) == (3, 4, "scripted")
    other = as_asked(RunConfig(replay=str(of_a_model.path), rounds=5))
    assert (other.rounds, other.candidates) == (5, 4)


def test_it_may_be_awaited(of_a_model: RunFolder, tmp_path: Path) -> None:
    own: dict[str, Any] = {"out": str(tmp_path), "tuner": NoTuner()}
    result = asyncio.run(aoptimize(replay=str(of_a_model.path), **own))
    assert decisions(RunFolder(result.run_dir)) == decisions(of_a_model)


def test_a_replay_that_was_stopped_goes_on_as_one(of_a_model: RunFolder, tmp_path: Path) -> None:
    own: dict[str, Any] = {"out": str(tmp_path), "tuner": NoTuner()}

    async def until_round_two() -> None:
        def stop(event: Event) -> None:
            if isinstance(event, RoundBegan) and event.round == 2:
                work.cancel()

        replay = aoptimize(replay=str(of_a_model.path), observers=[stop], **own)
        work = asyncio.ensure_future(replay)
        await asyncio.gather(work, return_exceptions=True)

    asyncio.run(until_round_two())
    (run,) = (RunFolder(one) for one in tmp_path.iterdir())
    assert events(run, RunInterrupted)
    asyncio.run(resume(run, brought=Parts(tuner=NoTuner())))
    told = decisions(run)
    assert told["the run"] == decisions(of_a_model)["the run"]
    account = replay_account(run)
    assert account is not None
    assert (account.unanswered, account.prompts_differ) == ((), ())


def test_what_a_person_said_at_a_review_is_said_again(tmp_path: Path) -> None:
    run = record(tmp_path, parts(), review=True, hints=("from the start",))
    for hints in (("first",), ()):
        asyncio.run(resume(run, hints=hints, brought=parts()))
    assert events(run, RunFinished)
    own = {"tuner": NoTuner(), "reflector": parts().reflector}
    assert decisions(replayed(run, tmp_path, **own)) == decisions(run)
