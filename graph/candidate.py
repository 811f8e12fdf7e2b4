"""The candidate subgraph: generator -> compiler -> validator -> profiler, each may end it.

Its checkpoints say which stages are done. A stage that a kill cut off is repeated; what it had
written of a draft, a validation or a verdict is taken from the folder.
"""

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cuda_llm.codec import decode, encode
from cuda_llm.errors import UsageError
from cuda_llm.graph.attempts import find_first_equal, keep_attempt, kernel_sha, told_hints
from cuda_llm.graph.context import FindContext, RunContext, bind_node, open_ask
from cuda_llm.graph.guards import MOST_SOURCE, run_untrusted
from cuda_llm.graph.node_report import decisions_of, listening
from cuda_llm.graph.state import CandidateState, Json, SearchUpdate
from cuda_llm.graph.toolbox import describe_diagnostic
from cuda_llm.graph.view import baseline_of, situation_of
from cuda_llm.outcomes import Duplicate, InfraFailed, NoCode, Passed, PublishedCheck, Verdict
from cuda_llm.search import Brief, Draft
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.bench import SOURCE_NAME, PublishedBench
from cuda_llm.tools.judge.judge import require_positive_figures
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
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.runtime import Runtime

LATE = "LATE"
STAGE_NODES = {
    "generator": "generate",
    "compiler": "compile",
    "validator": "validate",
    "profiler": "profile",
}
"""Stage that each node takes candidates through, by the name of the node."""


async def generate(context: RunContext, brief: Brief, seen: Json) -> Verdict | None:
    """Ask the generator once: the generator repeats by itself a request that may succeed later."""
    folder, situation = context.folder, situation_of(seen, context)
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


async def compile_(context: RunContext, brief: Brief, seen: Json) -> Verdict | None:
    """Compile with nvcc and audit the result. Raises UsageError where the kernel is lost."""
    if context.folder.draft(brief.id) is None:
        raise context.folder.gone(context.folder.candidate(brief.id) / "draft.json")
    outcome = await compiled(context, context.folder.source(brief.id))
    if isinstance(outcome, Compiled):
        lines = [describe_diagnostic(one) for one in outcome.warnings]
        context.folder.write_build_log(brief.id, lines)
        return None
    context.folder.write_build_log(brief.id, [*describe(outcome)])
    return outcome


async def validate(context: RunContext, brief: Brief, seen: Json) -> Verdict | None:
    """Compare every element with the reference."""
    built = await compiled(context, context.folder.source(brief.id))
    if not isinstance(built, Compiled):
        return built
    outcome = await validated(context, brief, built)
    return None if isinstance(outcome, Validated) else outcome


async def validated(context: RunContext, brief: Brief, built: Compiled) -> Validated | Verdict:
    """Return the validation of a kernel: the one that the run's folder holds of this kernel, else a
    new one, which is stored."""
    kept = context.folder.candidate(brief.id) / "validated.json"
    kernel = kernel_sha(built.source)
    outcome = read_validated(kept, kernel) or await context.bench.validate(built)
    if isinstance(outcome, Validated):
        # Without its nonce, which never leaves the host process.
        fields = {key: value for key, value in encode(outcome).items() if key != "nonce"}
        write_file(kept, json.dumps({**fields, "kernel": kernel}))
    return outcome


def read_validated(path: Path, kernel: str = "") -> Validated | None:
    """Return the validation stored at `path`; None without a validation that can be read, and where
    it is of another kernel than that with the `kernel_sha` `kernel`."""
    try:
        stored = read_json(path)
        of = stored.pop("kernel", "")
        return decode(Validated, stored) if kernel in ("", of) else None
    except (UsageError, ValueError, AttributeError, TypeError):
        return None


async def profile(context: RunContext, brief: Brief, seen: Json) -> Verdict | None:
    """Measure times and explain bottlenecks of the kernel that was validated: where the stored
    validation is lost, or the source was changed since, the kernel is validated anew."""
    built = await compiled(context, context.folder.source(brief.id))
    if not isinstance(built, Compiled):
        return built
    outcome = await validated(context, brief, built)
    if not isinstance(outcome, Validated):
        return outcome
    found = await context.bench.profile(built, outcome, baseline_of(seen))
    return require_positive_figures(found)


StageFunction = Callable[[RunContext, Brief, Json], Awaitable[Verdict | None]]
"""Takes a candidate through one stage; returns the verdict that ends the candidate, or None."""

STAGES: Mapping[str, StageFunction] = {
    "generate": generate,
    "compile": compile_,
    "validate": validate,
    "profile": profile,
}


async def compiled(context: RunContext, source: str) -> Compiled | Verdict:
    """Compile the source once a process; compile again where our own machinery failed."""
    known = context.built.get(source)
    if known is None or isinstance(known, InfraFailed):
        known = context.built[source] = await context.bench.compile(source, SOURCE_NAME)
    return known


def candidate_node(find: FindContext) -> Any:
    """Return the node that runs one candidate; LangGraph finds its subgraph in the closure, and
    writes a checkpoint behind each of its stages.
    """
    subgraph = build_candidate(find)

    async def candidate(state: CandidateState, runtime: "Runtime[RunContext]") -> SearchUpdate:
        with listening(runtime) as here:
            await subgraph.ainvoke(state)
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
        """Take the candidate through the stage, unless the minutes of the run end first."""
        left_s = context.seconds_left()
        try:
            async with asyncio.timeout(None if math.isinf(left_s) else max(0.0, left_s)) as limit:
                return await run_stage(state, context, stage)
        except TimeoutError:
            if not limit.expired():
                raise
        context.record(CandidateLate(candidate=state["candidate_id"], stage=stage))
        return {"candidate_end": LATE}

    return node


async def run_stage(state: CandidateState, context: RunContext, stage: str) -> CandidateState:
    """Take the candidate through one stage, and record it.

    The attempt is on the disk already where a kill came between it and the checkpoint.
    """
    name, folder = state["candidate_id"], context.folder
    attempt = folder.usable(folder.attempt, name)
    seconds = {**state["candidate_seconds"]}
    if attempt is None:
        brief = folder.brief(name)
        if brief is None:
            raise folder.gone(folder.candidate(name) / "brief.json")
        hints = told_hints(brief) if stage == "generate" else ()
        context.record(StageEntered(candidate=name, stage=stage, hints=hints))
        started = time.monotonic()
        verdict = await STAGES[stage](context, brief, state["candidate_seen"])
        seconds[stage] = time.monotonic() - started
        if verdict is not None:
            published = await check_as_published(context, brief, verdict)
            attempt = keep_attempt(context, brief, verdict, seconds, published)
    code = "" if attempt is None else attempt.code
    took_s = (seconds if attempt is None else attempt.seconds).get(stage, 0.0)
    outcome = "ok" if code in ("", Passed.code) else code
    context.record(StageLeft(candidate=name, stage=stage, outcome=outcome, seconds=took_s))
    if attempt is not None:
        context.record(AttemptJudged(attempt=attempt))
    # Only a generator looks around: later checkpoints need not hold the whole state once more.
    seen = {"baseline": state["candidate_seen"]["baseline"]}
    return {"candidate_end": code, "candidate_seconds": seconds, "candidate_seen": seen}


async def check_as_published(
    context: RunContext, brief: Brief, verdict: Verdict
) -> PublishedCheck | None:
    """Return the result of the check that is published with the task; None without such a check."""
    bench, source = context.bench, context.folder.source(brief.id)
    if context.task.published is None or not source or not isinstance(bench, PublishedBench):
        return None
    built = await compiled(context, source)
    return await bench.check_as_published(built, verdict) if isinstance(built, Compiled) else None
