"""Tunables that a kernel declares in a way that no tuner can use."""

from cuda_llm.agents.quote import one_line
from cuda_llm.agents.reflection.diagnosis import Diagnosis
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.tunable import Misdeclared

CODE = "TUNABLES"
"""Of what costs a kernel nothing but its tuning."""


def misdeclared(source: str) -> Diagnosis | None:
    """What is wrong with the declarations; None where they are right, or there are none."""
    space = read_space(source)
    if not isinstance(space, Misdeclared):
        return None
    return Diagnosis(
        code=CODE,
        cause="misdeclared",
        text=(
            "Its tunables could not be read, so nothing was tuned: put `// tunable: 8 16 32` "
            "behind `#define NAME 8` on one line, outside of #if blocks, the default among the "
            "values, each name defined once; or declare none."
        ),
        evidence=one_line(str(space)),
    )
