"""Cases of single calls: a cheap one between timed sizes, and that of a timed call that failed."""

from dataclasses import replace

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.device import Session
from cuda_llm.tools.timing.batches import secret_rng, secret_seed
from cuda_llm.tools.timing.failures import FailedCase, find_failed_case
from cuda_llm.tools.timing.measurement import Measurement
from cuda_llm.tools.timing.slots import InputPlan
from cuda_llm.tools.validator.call_plans import CallPlan, draw_cheap
from cuda_llm.tools.validator.cases import plan as plan_cases
from cuda_llm.tools.validator.check_case import CheckedCase, check_case


async def check_small_case(
    measurement: Measurement, session: Session
) -> Verdict | FailedCase | None:
    """Call a cheap case of the validation, not timed; None where its results are right."""
    site, task = measurement.site, measurement.task
    choices, seed = secret_rng(), secret_seed()
    cases = plan_cases(task, choices)
    case = replace(cases[draw_cheap(cases, choices)], repeat_seed=0)
    rng = site.arrays.generator(seed)
    calls = CallPlan(seed=int(choices.integers(1 << 31)))
    found = await check_case(task, session, case, measurement.oracle, rng, site.arrays, calls)
    if isinstance(found, CheckedCase):
        return None
    return find_failed_case(site, task, found, case, site.arrays.generator(seed))


def find_timed_case(
    measurement: Measurement, verdict: Verdict, input_plan: InputPlan
) -> FailedCase | Verdict:
    """Return the failed case as `find_failed_case` does, on inputs of the same distributions.

    Which call of the batch failed is not known.
    """
    rng = measurement.site.arrays.generator(secret_seed())
    return find_failed_case(measurement.site, measurement.task, verdict, input_plan.case, rng)
