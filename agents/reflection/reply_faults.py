"""Replies without a kernel, and kernels that were there before."""

from cuda_llm.agents.llm.read_reply import NO_CODE
from cuda_llm.agents.quote import one_line
from cuda_llm.agents.reflection.diagnosis import Diagnosis
from cuda_llm.outcomes import Duplicate, NoCode


def no_code(verdict: NoCode) -> Diagnosis | None:
    """What was wrong with a reply; None for a generator's other reasons, which no reply mends."""
    said = NO_CODE.get(verdict.kind)
    if said is None:
        return None
    return Diagnosis(
        code=verdict.code,
        cause=verdict.kind,
        text=f"{said[0].upper()}{said[1:]}.",
        evidence=one_line(verdict.said),
    )


def duplicate(verdict: Duplicate) -> Diagnosis:
    """A repeat is a wasted candidate."""
    return Diagnosis(
        code=verdict.code,
        cause="repeat",
        text=(
            "The same kernel came again, apart from layout and comments: change the structure, "
            "not names or formatting."
        ),
        evidence=f"the same as {one_line(verdict.of, 40)}",
    )
