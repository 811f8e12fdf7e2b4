"""One verified call by itself, for what it launches."""

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.device import CallReport, Level, TimedSession
from cuda_llm.tools.judge.measured.batches import secret_seed
from cuda_llm.tools.judge.measured.contents import Group, Recipe, draw_group
from cuda_llm.tools.validator.buffers import fill, find_damage, take_outputs
from cuda_llm.tools.validator.cases import POISONS
from cuda_llm.tools.validator.check_case import NO_KERNEL, ran_a_kernel
from cuda_llm.tools.validator.check_outputs import check_outputs
from cuda_llm.tools.validator.layout import call_arguments, call_options
from cuda_llm.tools.validator.oracle import Oracle
from cuda_llm.tools.validator.referee import run_case


async def explain(session: TimedSession, recipe: Recipe, oracle: Oracle) -> CallReport | Verdict:
    """Call `solve` on fresh inputs, uncaptured; a report comes back only of a call that is right.

    Without a reference, the oracle judges. What was launched is what the runner says: it explains
    a time, and nothing is ranked by it.
    """
    task, dims, arrays = recipe.task, recipe.dims, recipe.arrays
    if recipe.reference is None:
        return await run_case(
            task, session, dims, level=Level.ACCOUNT, group="bench", oracle=oracle, arrays=arrays
        )
    drawn = draw_group(recipe, Group(slots=(0,), seed=secret_seed()))
    inputs = {name: values[0] for name, values in drawn.items()}
    rng = arrays.generator(secret_seed())
    filled = fill(session.place(recipe.specs), inputs, POISONS[0], rng)
    options = call_options(task, dims, level=Level.ACCOUNT)
    report = await session.call(call_arguments(task, dims), options)
    if not isinstance(report, CallReport):
        return report
    fault = find_damage(filled, arrays) or check_outputs(
        task,
        recipe.case,
        inputs,
        take_outputs(filled),
        arrays,
        method=recipe.method,
        reference=recipe.reference,
    )
    if fault is not None:
        return fault
    if not ran_a_kernel(report):
        return NO_KERNEL
    return report
