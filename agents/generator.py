"""What writes kernels: one brief in, one candidate out."""

from typing import Protocol

from cuda_llm.agents.situation import Situation
from cuda_llm.outcomes import NoCode
from cuda_llm.search import Author, Brief, Draft


class Generator(Protocol):
    """Turns briefs into candidates."""

    @property
    def name(self) -> str:
        """`llm`, `playbook` or the user's own."""
        ...

    @property
    def written_by(self) -> Author:
        """Whose kernels these are."""
        ...

    async def generate(self, brief: Brief, situation: Situation) -> Draft | NoCode:
        """Write one kernel.

        Briefs of a round come at once and in any order; the answer to one must not depend on that.
        `situation` is the same for all of them. A reply without a kernel is a NoCode. Raises only
        where the machine or our own code is broken.
        """
        ...
