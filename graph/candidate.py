"""The candidate subgraph: generator -> compiler -> validator -> profiler, each may end it.

A stage whose result is on disk already is not done again.
"""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cuda_llm.codec import decode, encode
from cuda_llm.errors import UsageError
from cuda_llm.graph.attempts import (
    find_first_equal,
    keep_verdict,
    kernel_sha,
    seconds_file,
    seconds_so_far,
    told_hints,
)
from cuda_llm.graph.context import FindContext, RunContext, bind_node, open_ask
from cuda_llm.graph.guards import MOST_SOURCE, run_untrusted
from cuda_llm.graph.node_report import decisions_of, listening
from cuda_llm.graph.state import CandidateState, SearchUpdate
from cuda_llm.graph.toolbox import describe_diagnostic
from cuda_llm.graph.view import baseline_of, read_situation
from cuda_llm.outcomes import Duplicate, InfraFailed, NoCode, Passed, PublishedCheck, Verdict
from cuda_llm.search import Brief, Draft
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.bench import SOURCE_NAME, Bench, PublishedBench
from cuda_llm.tools.judge.judge import check, judge
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.traces.events import (
    AttemptJudged,
    CandidateLate,
    GeneratorFailed,
    StageEntered,
    StageLeft,
)
from cuda_llm.traces.files import read_json, write_file
from cuda_llm.verdict_wording import describe

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.runtime import Runtime

LATE = "LATE"
STAGE_NODES = {
    "generator": "generate",
    "compiler": "compile",
    "validator": "validate",
    "profiler": "profile",
}
"""Node to the stage it takes candidates through."""


async def generate(context: RunContext, brief: Brief) -> Verdict | None:
    """Ask the generator, once: it retries by itself what can be retried."""
    situation = read_situation(context, brief.round)
    folder = context.folder
    answer: Draft | NoCode | InfraFailed | None = folder.usable(folder.draft, brief.id)
    if answer is None:
        generator = context.generator
        with open_ask(context, generator.name, f"candidates/{brief.id}") as ask:
            write = partial(generator.generate, brief, replace(situation, ask=ask))
            answer = await run_untrusted("generator", write, Draft, NoCode, most=MOST_SOURCE)
    if isinstance(answer, InfraFailed):
        context.record(
            GeneratorFailed(candidate=brief.id, error=answer.detail, traceback=answer.traceback)
        )
        return answer
    context.folder.write_draft(brief.id, answer)
    if isinstance(answer, NoCode):
        return answer
    known = find_first_equal(kernel_sha(answer.source), situation.attempts)
    return Duplicate(of=known) if known and context.strategy.deduplicate else None


async def compile_(context: RunContext, brief: Brief) -> Verdict | None:
    """Compile with nvcc and audit the result. Raises UsageError where the kernel is lost."""
    if context.folder.draft(brief.id) is None:
        raise context.folder.gone(context.folder.candidate(brief.id) / "draft.json")
    outcome = await compiled(context, context.bench, context.folder.source(brief.id))
    if isinstance(outcome, Compiled):
        lines = [describe_diagnostic(one) for one in outcome.warnings]
        context.folder.write_build_log(brief.id, lines)
        return None
    context.folder.write_build_log(brief.id, [*describe(outcome)])
    return outcome


async def validate(context: RunContext, brief: Brief) -> Verdict | None:
    """Compare every element with the reference."""
    _, outcome = await check(KeptBench(context, brief), context.folder.source(brief.id))
    return None if isinstance(outcome, Validated) else outcome


async def profile(context: RunContext, brief: Brief) -> Verdict | None:
    """Measure times and explain bottlenecks."""
    bench, source = KeptBench(context, brief), context.folder.source(brief.id)
    return (await judge(bench, source, baseline=await bench.time_baseline())).verdict


StageFunction = Callable[[RunContext, Brief], Awaitable[Verdict | None]]
"""Takes a candidate one step further; answers the verdict that ends it, or None."""

STAGES: Mapping[str, StageFunction] = {
    "generate": generate,
    "compile": compile_,
    "validate": validate,
    "profile": profile,
}


async def compiled(context: RunContext, bench: Bench, source: str) -> Compiled | Verdict:
    """Compile the source, once for all candidates that have the same."""
    return await context.tasks.share(
        ("compile", source), lambda: bench.compile(source, SOURCE_NAME)
    )


@dataclass(frozen=True)
class KeptBench:
    """The run's bench for one candidate: what was done for its source before is not done again."""

    context: RunContext
    brief: Brief

    async def time_baseline(self) -> KernelTimes:
        """Return the times measured when the run began."""
        return baseline_of(read_situation(self.context, self.brief.round))

    async def compile(self, source: str, name: str) -> Compiled | Verdict:
        """Compile as `compiled` does."""
        return await compiled(self.context, self.context.bench, source)

    async def validate(self, compiled: Compiled) -> Validated | Verdict:
        """Validate once for each source; a result from before this process began is read again."""
        kept = self.context.folder.candidate(self.brief.id) / "validated.json"
        known = read_validated(kept)
        if known is not None:
            return known
        outcome = await self.context.tasks.share(
            ("validate", compiled.source), lambda: self.context.bench.validate(compiled)
        )
        if isinstance(outcome, Validated):
            keep_validated(kept, outcome)
        return outcome

    async def profile(
        self, compiled: Compiled, validated: Validated, baseline: KernelTimes
    ) -> Verdict:
        """Profile once for all candidates that have the same source."""
        return await self.context.tasks.share(
            ("profile", compiled.source),
            lambda: self.context.bench.profile(compiled, validated, baseline),
        )

    def with_fresh_inputs(self) -> Bench:
        """Return the run's own bench: nothing of what was done before counts there."""
        return self.context.bench.with_fresh_inputs()


def keep_validated(path: Path, outcome: Validated) -> None:
    """Write the outcome without its nonce, which never leaves the host process."""
    fields = {key: value for key, value in encode(outcome).items() if key != "nonce"}
    write_file(path, json.dumps(fields))


def read_validated(path: Path) -> Validated | None:
    """Return the outcome kept there; None where there is none that can be read."""
    try:
        return decode(Validated, read_json(path))
    except (UsageError, ValueError):
        return None


def candidate_node(find: FindContext) -> Any:
    """Return the node that runs one candidate; LangGraph finds its subgraph in the closure.

    The subgraph writes no checkpoints: the folder holds which stages are done. They would be five
    of six of a run's.
    """
    subgraph = build_candidate(find)

    async def candidate(
        state: CandidateState, config: "RunnableConfig", runtime: "Runtime[RunContext]"
    ) -> SearchUpdate:
        is_kept = "thread_id" in config["configurable"]
        with listening(runtime) as here:
            await subgraph.ainvoke(state, durability="exit" if is_kept else None)
        return {"decided": decisions_of(here.events)}

    return candidate


def build_candidate(find: FindContext) -> "CompiledStateGraph[CandidateState]":
    """Build and compile the subgraph."""
    from langgraph.graph import END, START, StateGraph

    graph = StateGraph(CandidateState)
    names = list(STAGE_NODES)
    for name, stage in STAGE_NODES.items():
        graph.add_node(name, bind_node(stage_node(stage), find, name))
    graph.add_conditional_edges(START, first_stage)
    for name, following in pairwise(names):
        graph.add_conditional_edges(name, next_stage_or_end, {"on": following, "end": END})
    graph.add_edge(names[-1], END)
    return graph.compile(name="candidate")


def first_stage(state: CandidateState) -> Literal["generator", "compiler"]:
    """Skip the generator where the user or the tuner brought the kernel."""
    return "compiler" if state["candidate_drafted"] else "generator"


def next_stage_or_end(state: CandidateState) -> Literal["on", "end"]:
    """Go on unless a verdict has ended the candidate."""
    return "end" if state.get("candidate_end") else "on"


def stage_node(stage: str) -> Any:
    """Return the node of one stage."""

    async def node(state: CandidateState, context: RunContext) -> CandidateState:
        """Wait until the stage is over or the round goes on without this candidate."""
        name, round_ = state["candidate_id"], state["candidate_round"]
        judged = context.folder.attempt(name)
        code = judged.code if judged else await pass_stage(context, name, stage, round_)
        if code is None:
            context.record(CandidateLate(candidate=name, stage=stage))
        elif code:
            quorum_of(context, round_).count(name)
        return {"candidate_end": LATE if code is None else code}

    return node


async def pass_stage(context: RunContext, name: str, stage: str, round_: int) -> str | None:
    """Return the code of the verdict that ends it, empty to go on; None if it is late."""
    return await context.tasks.join(
        (name, stage),
        lambda: run_stage(context, name, stage),
        quorum_of(context, round_),
        context.seconds_left(),
    )


def quorum_of(context: RunContext, round_: int) -> Any:
    """Return the round's quorum; the last round waits for all."""
    waits_for_all = round_ in (0, context.config.rounds)
    return context.tasks.quorum(round_, 0 if waits_for_all else context.config.round_quorum)


async def run_stage(context: RunContext, name: str, stage: str) -> str:
    """Take the candidate through one stage; return the code of the verdict that ends it, or "".

    A stage done already, in this process or an earlier one, is skipped.
    """
    if is_draft_lost(context, name):
        # A run that goes on may enter behind the stages that are to be done again.
        for earlier in takewhile(lambda one: one != stage, STAGES):
            if code := await run_stage(context, name, earlier):
                return code
    done = seconds_so_far(context, name)
    if stage in done:
        return ""
    brief = context.folder.brief(name)
    if brief is None:
        raise context.folder.gone(context.folder.candidate(name) / "brief.json")
    hints = told_hints(brief) if stage == "generate" else ()
    context.record(StageEntered(candidate=name, stage=stage, hints=hints))
    started = time.monotonic()
    verdict = await STAGES[stage](context, brief)
    took_s = time.monotonic() - started
    seconds = {**done, stage: took_s}
    outcome = "ok" if verdict is None or isinstance(verdict, Passed) else verdict.code
    left = StageLeft(candidate=name, stage=stage, outcome=outcome, seconds=took_s)
    if verdict is None:
        write_file(seconds_file(context, name), json.dumps(seconds))
        context.record(left)
        return ""
    published = await check_as_published(context, brief, verdict)
    attempt = keep_verdict(context, brief, verdict, seconds, published)
    context.record(left)
    context.record(AttemptJudged(attempt=attempt))
    return verdict.code


async def check_as_published(
    context: RunContext, brief: Brief, verdict: Verdict
) -> PublishedCheck | None:
    """Return what the check published with the task says of the kernel; None without one."""
    bench, source = context.bench, context.folder.source(brief.id)
    if context.task.published is None or not source or not isinstance(bench, PublishedBench):
        return None
    built = await compiled(context, bench, source)
    return await bench.check_as_published(built, verdict) if isinstance(built, Compiled) else None


def is_draft_lost(context: RunContext, name: str) -> bool:
    """Return whether what a generator wrote is there no more; then no stage counts as done."""
    if "generate" not in seconds_so_far(context, name):
        return False
    folder = context.folder
    draft: Draft | NoCode | None = folder.usable(folder.draft, name)
    if draft is not None:
        return False
    for file in ("seconds.json", "validated.json"):
        (folder.candidate(name) / file).unlink(missing_ok=True)
    return True
