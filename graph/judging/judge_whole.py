"""One source through all steps of a bench, outside any round."""

from cuda_llm.graph.judging.bench import SOURCE, Bench
from cuda_llm.outcomes import Verdict
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.judge.timing import Timing
from cuda_llm.tools.validator.validate import Validated


async def judge_whole(bench: Bench, source: str, baseline: Timing) -> Verdict:
    """Its verdict; a kernel that passed carries its profile."""
    outcome = await check(bench, source)
    if not isinstance(outcome, tuple):
        return outcome
    return await bench.profile(*outcome, baseline)


async def check(bench: Bench, source: str) -> tuple[Compiled, Validated] | Verdict:
    """Compile and validate."""
    compiled = await bench.compile(source, SOURCE)
    if not isinstance(compiled, Compiled):
        return compiled
    validated = await bench.validate(compiled)
    return (compiled, validated) if isinstance(validated, Validated) else validated
