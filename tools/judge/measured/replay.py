"""A slot called once more, alone: what needs its neighbours is found out."""

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.judge.measured.batches import Rules, run_batch
from cuda_llm.tools.judge.measured.lane import Lane


async def replay_alone(kernel: Lane, rules: Rules) -> Verdict | None:
    """Fresh contents in a random slot, one call of it: None where it is right."""
    took = await run_batch(kernel, 1, rules)
    return None if isinstance(took, float) else took
