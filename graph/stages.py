"""What happens to a candidate in each stage. What is on disk already is not done again."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cuda_llm.agents.llm.agent_ask import AgentAsk
from cuda_llm.codec import decode, encode
from cuda_llm.graph.contained import MOST_SOURCE, contained
from cuda_llm.graph.duplicates import first_of, kernel_sha
from cuda_llm.graph.judging.bench import SOURCE, Bench
from cuda_llm.graph.view import baseline_of, kept_view
from cuda_llm.graph.wiring import Wiring
from cuda_llm.outcomes import Diagnostic, Duplicate, InfraFailed, NoCode, Verdict
from cuda_llm.search import Brief, Draft
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.judge.judge import check, judge
from cuda_llm.tools.judge.timing import Timing
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.traces.whole_file import read_text, write_whole
from cuda_llm.wording import describe


async def generate(wiring: Wiring, brief: Brief) -> Verdict | None:
    """Ask the generator, once: it retries by itself what can be retried."""
    situation = kept_view(wiring, brief.round)
    answer: Draft | NoCode | InfraFailed | None = wiring.folder.draft(brief.id)
    if answer is None:
        generator = wiring.generator
        folder = f"candidates/{brief.id}"
        with AgentAsk(wiring.client_of(generator.name), generator.name, folder) as ask:
            write = partial(generator.generate, brief, replace(situation, ask=ask))
            answer = await contained("generator", write, Draft, NoCode, most=MOST_SOURCE)
    if isinstance(answer, InfraFailed):
        return answer
    wiring.folder.write_draft(brief.id, answer)
    if isinstance(answer, NoCode):
        return answer
    known = first_of(kernel_sha(answer.source), situation.attempts)
    return Duplicate(of=known) if known and wiring.strategy.deduplicate else None


async def compile_(wiring: Wiring, brief: Brief) -> Verdict | None:
    """nvcc and the audit."""
    outcome = await compiled(wiring, wiring.bench, wiring.folder.source(brief.id))
    if isinstance(outcome, Compiled):
        keep_log(wiring, brief, [tell(one) for one in outcome.warnings])
        return None
    keep_log(wiring, brief, describe(outcome))
    return outcome


async def validate(wiring: Wiring, brief: Brief) -> Verdict | None:
    """Every element against the reference."""
    _, outcome = await check(KeptBench(wiring, brief), wiring.folder.source(brief.id))
    return None if isinstance(outcome, Validated) else outcome


async def profile(wiring: Wiring, brief: Brief) -> Verdict | None:
    """Times and bottlenecks."""
    bench, source = KeptBench(wiring, brief), wiring.folder.source(brief.id)
    return (await judge(bench, source, baseline=await bench.time_baseline())).verdict


Stage = Callable[[Wiring, Brief], Awaitable[Verdict | None]]
"""Takes a candidate one step further; answers the verdict that ends it, or None."""

STAGES: Mapping[str, Stage] = {
    "generate": generate,
    "compile": compile_,
    "validate": validate,
    "profile": profile,
}


async def compiled(wiring: Wiring, bench: Bench, source: str) -> Compiled | Verdict:
    """The source, compiled; one compilation for all who bring the same."""
    return await wiring.workbench.share(("compile", source), lambda: bench.compile(source, SOURCE))


@dataclass(frozen=True)
class KeptBench:
    """The run's bench for one candidate: what was done for its source before is not done again."""

    wiring: Wiring
    brief: Brief

    async def time_baseline(self) -> Timing:
        """As it was timed when the run began."""
        return baseline_of(kept_view(self.wiring, self.brief.round))

    async def compile(self, source: str, name: str) -> Compiled | Verdict:
        """See `compiled`."""
        return await compiled(self.wiring, self.wiring.bench, source)

    async def validate(self, compiled: Compiled) -> Validated | Verdict:
        """What validation said, also where that was before the process began."""
        kept = self.wiring.folder.candidate(self.brief.id) / "validated.json"
        text = read_text(kept)
        if text is not None:
            return decode(Validated, json.loads(text))
        outcome = await self.wiring.workbench.share(
            ("validate", compiled.source), lambda: self.wiring.bench.validate(compiled)
        )
        if isinstance(outcome, Validated):
            keep(kept, outcome)
        return outcome

    async def profile(self, compiled: Compiled, validated: Validated, baseline: Timing) -> Verdict:
        """Once for all who bring the same source."""
        return await self.wiring.workbench.share(
            ("profile", compiled.source),
            lambda: self.wiring.bench.profile(compiled, validated, baseline),
        )

    def afresh(self) -> Bench:
        """The run's own: nothing of what was done before counts there."""
        return self.wiring.bench.afresh()


def keep(path: Path, outcome: Validated) -> None:
    """The nonce stays with the referee."""
    fields = {key: value for key, value in encode(outcome).items() if key != "nonce"}
    write_whole(path, json.dumps(fields))


def keep_log(wiring: Wiring, brief: Brief, lines: Sequence[str]) -> None:
    """What the compiler said, where it said anything."""
    if lines:
        wiring.folder.write_build_log(brief.id, "\n".join(lines) + "\n")


def tell(diagnostic: Diagnostic) -> str:
    """A compiler's message with its place."""
    place = f"{diagnostic.spot}: " if diagnostic.spot else ""
    return f"{place}{diagnostic.severity}: {diagnostic.message}"
