"""A run of the graph with small parts of its own: real strategy, real folder, chosen bench."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.protocols import Contribution, Generator, PlacedAgent, Trial
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.builtin import find_strategy
from cuda_llm.graph.context import RunContext
from cuda_llm.graph.parts import GeneratorChoice
from cuda_llm.outcomes import CompileFailed, NoCode, Passed, Verdict, WrongResult
from cuda_llm.profile import Profile, SizeTime
from cuda_llm.run_config import RunConfig
from cuda_llm.search import Attempt, Author, Brief, Draft, Hint
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.bench import Bench
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.traces.event_log import Recorder
from cuda_llm.traces.events import Event
from cuda_llm.traces.run_folder import RunFolder

Delay = Callable[[str], float]
"""Seconds something named takes."""


def at_once(_name: str) -> float:
    """No delay."""
    return 0.0


@dataclass(frozen=True)
class Writer:
    """A generator that writes what `write` says, after a delay."""

    write: Callable[[Brief, Situation], Draft | NoCode]
    delay: Delay = at_once
    name: str = "writer"
    written_by: Author = "model"

    async def generate(self, brief: Brief, situation: Situation) -> Draft | NoCode:
        await asyncio.sleep(self.delay(f"generate {brief.id}"))
        return self.write(brief, situation)


def numbered(brief: Brief, _situation: Situation) -> Draft | NoCode:
    """A kernel of its own for each brief; what the table bench makes of it is in its text."""
    kinds = ("ok 90", "wrong", "ok 80", "broken", "ok 70", "none", "ok 60", "ok 80")
    kind = kinds[(brief.index + brief.round) % len(kinds)]
    if kind == "none":
        return NoCode(message="the reply held no kernel", kind="empty")
    return Draft(source=f"// {brief.id}\nint {kind.replace(' ', '_')}_{brief.round};\n", idea=kind)


@dataclass(frozen=True)
class TableBench:
    """Judges by the first declaration of a source: `int ok_80_2;` passes in 80 us."""

    delay: Delay = at_once
    log: list[str] = field(default_factory=list)

    async def time_baseline(self) -> KernelTimes:
        return KernelTimes(times=(({"n": 1024}, 100.0),), launches=(), bottlenecks=())

    async def compile(self, source: str, name: str) -> Compiled | Verdict:
        await self.take("compile", source)
        if not source or "broken" in source:
            return CompileFailed(compiler_output="expected a ';'")
        here = Path("/nowhere")
        return Compiled(
            key="", name=name, source=source, target="sm_86", library=here, ptx=here, kernels=()
        )

    async def validate(self, compiled: Compiled) -> Validated | Verdict:
        await self.take("validate", compiled.source)
        if "wrong" in compiled.source:
            return WRONG
        return Validated(checked={"sizes": 1})

    async def profile(
        self, compiled: Compiled, validated: Validated, baseline: KernelTimes
    ) -> Verdict:
        await self.take("profile", compiled.source)
        time = re.search(r"ok_([^_;]+)", compiled.source)
        return in_time(float(time[1]), baseline) if time else WRONG

    def with_fresh_inputs(self) -> Bench:
        return self

    async def take(self, stage: str, source: str) -> None:
        """Note it, and take the time."""
        first_line, _, _ = source.partition("\n")
        self.log.append(f"{stage} {first_line}")
        await asyncio.sleep(self.delay(f"{stage} {source}"))


WRONG = WrongResult(
    size_class="emulated",
    dims={"n": 7},
    distribution="normal",
    buffer="C",
    index=(3,),
    got=1.0,
    expected=2.0,
    error=9.0,
    limit=1.0,
    wrong=1,
    elements=7,
)


def in_time(time_us: float, baseline: KernelTimes) -> Passed:
    """A pass that took so long at the first size."""
    return in_times((time_us,), baseline)


def in_times(times_us: Sequence[float], baseline: KernelTimes) -> Passed:
    """A pass that took so long at each of the first sizes."""
    sizes = tuple(
        SizeTime(dims=dims, time_us=time_us, baseline_us=baseline_us, source="modelled")
        for (dims, baseline_us), time_us in zip(baseline.times, times_us, strict=False)
    )
    gains = [size.baseline_us / size.time_us for size in sizes if size.baseline_us]
    return Passed(
        profile=Profile(
            device="table",
            hardware="table",
            source="modelled",
            sizes=sizes,
            speedup=gains[0] if len(gains) == 1 else geometric_mean(gains),
        )
    )


@dataclass(frozen=True)
class Learner:
    """A reflector with one hint for each attempt."""

    name: str = "learner"

    async def reflect(self, situation: Situation, judged: Sequence[Attempt]) -> Contribution:
        hints = [hint(situation.round, one) for one in judged]
        return Contribution(
            error_hints=tuple(one for one in hints if one.code != "PASSED"),
            performance_hints=tuple(one for one in hints if one.code == "PASSED"),
            decisions=(f"looked at {len(judged)}",),
        )


def hint(round_: int, attempt: Attempt) -> Hint:
    return Hint(round=round_, about=attempt.id, code=attempt.code, text=f"of {attempt.summary}")


@dataclass(frozen=True)
class NoTuner:
    """Proposes nothing."""

    def propose(
        self, situation: Situation, judged: Sequence[Attempt], count: int
    ) -> tuple[Trial, ...]:
        return ()


def context_in(
    folder: Path,
    *,
    generator: Generator | None = None,
    bench: Bench | None = None,
    agents: tuple[PlacedAgent, ...] = (),
    observers: Sequence[Callable[[Event], object]] = (),
    candidates: int = 4,
    rounds: int = 2,
    strategy: str = "fsr",
    options: Mapping[str, Any] = {},
    **parts: Any,
) -> RunContext:
    """A context whose run lies in `folder`."""
    run = RunFolder(folder / "run")
    asked = RunConfig(task="vector_add", candidates=candidates, rounds=rounds, **options)
    task, device = load_task("vector_add"), open_device("emulated")
    whole = RunContext(
        config=asked,
        task=task,
        device=device,
        folder=run,
        record=Recorder(run.events, observers),
        generator_choice=GeneratorChoice("writer"),
        generator=generator or Writer(numbered),
        strategy=find_strategy(strategy),
        reflector=Learner(),
        tuner=NoTuner(),
        agents=agents,
        templates=open_templates(),
        bench=bench or TableBench(),
    )
    return replace(whole, **parts)


async def run_graph(context: RunContext) -> dict[str, Any]:
    """The whole state at the end of a run without a checkpointer."""
    from cuda_llm.graph.runs.build_graph import build_graph

    graph = build_graph(agents=context.agents).compile()
    last: dict[str, Any] = {}
    try:
        async for state in graph.astream(
            {"task": "vector_add"},
            {"recursion_limit": 200},
            context=context,
            stream_mode="values",
        ):
            last = dict(state)
    finally:
        close = getattr(context.record, "close", None)
        if close:
            close()
    return last
