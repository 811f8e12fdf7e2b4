"""One block: everything once, in random order, and what the clocks did meanwhile."""

from dataclasses import dataclass

from cuda_llm.outcomes import OutOfMemory, Verdict
from cuda_llm.tools.device import ClockReading
from cuda_llm.tools.judge.measured.batches import Rules, run_pair
from cuda_llm.tools.judge.measured.clocks import held_down
from cuda_llm.tools.judge.measured.entrants import Fault, Lanes, squeezed_out
from cuda_llm.tools.judge.refusal import refusal
from cuda_llm.tools.timing.block import Block
from cuda_llm.tools.timing.lengths import Apiece
from cuda_llm.tools.timing.slope import Pair


@dataclass(frozen=True, kw_only=True)
class Watched:
    """A block and the looks at the clocks before and after it."""

    block: Block
    readings: tuple[ClockReading | None, ...]


async def run_block(
    kernels: Lanes,
    lengths: Apiece,
    rules: Rules,
    *,
    compares_same: bool = False,
) -> Watched | Fault:
    """Each entrant's pair of batches; `compares_same` has the second's run twice."""
    before = rules.read_clocks()
    pairs: dict[str, Pair] = {}
    names = ["first", "empty"]
    if kernels.second is not None:
        names += ["second", "again"] if compares_same else ["second"]
    for name in rules.rng.permutation(names):
        pair = await run_entrant(kernels, str(name), lengths, rules)
        if not isinstance(pair, Pair):
            return blame(kernels, str(name), pair)
        pairs[str(name)] = pair
    after = rules.read_clocks()
    block = Block(
        first=pairs["first"],
        second=pairs.get("second", pairs["first"]),
        again=pairs.get("again"),
        empty=pairs["empty"],
        throttled=held_down(before, after),
    )
    return Watched(block=block, readings=(before, after))


async def run_entrant(kernels: Lanes, name: str, lengths: Apiece, rules: Rules) -> Pair | Verdict:
    """The pair of batches that `name` stands for in a block."""
    if name == "empty":
        return await run_pair(kernels.baseline, lengths.longest, rules, solve=False)
    if name == "first" or kernels.second is None:
        return await run_pair(kernels.first, lengths.first, rules)
    return await run_pair(kernels.second, lengths.second, rules)


def blame(kernels: Lanes, name: str, verdict: Verdict) -> Fault:
    """Whose verdict it is. Raises TaskError or InfrastructureError where it is the baseline's.

    Where it finds no memory beside one candidate, that one has it.
    """
    if name == "first":
        return Fault(which="first", verdict=verdict)
    single = kernels.second is None or kernels.second.trusted
    if not single and name != "empty":
        return Fault(which="second", verdict=verdict)
    if single and isinstance(verdict, OutOfMemory):
        return squeezed_out(verdict)
    raise refusal(kernels.baseline.recipe.task, verdict)
