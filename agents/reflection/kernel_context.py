"""A judged kernel as a hint sees it: source, task and GPU, and how a hint may quote the source."""

import re
from dataclasses import dataclass

from cuda_llm.agents.kernel_facts import SourceFacts, facts_of
from cuda_llm.agents.prompting.quote import join_parts, one_line, quote_line
from cuda_llm.agents.situation import Situation
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import CudaError, Replay
from cuda_llm.search import Attempt
from cuda_llm.source_file import SourceSpot
from cuda_llm.tasks.task import Task
from cuda_llm.verdict_wording import UNPLACED, phrase


@dataclass(frozen=True, kw_only=True)
class KernelContext:
    """The kernel that a hint is about, its task, its GPU and the round of the hint."""

    round: int
    about: str
    """Id of the attempt."""
    source: SourceFacts
    task: Task
    hardware: Hardware
    may_quote: bool = True
    """False for kernels of a playbook: no prompt ever contains their lines."""

    def quote_line(self, spot: SourceSpot | None) -> str:
        """Return ``line 14: `source` ``, the number alone, or the place in another file."""
        if spot is not None and not spot.text:
            return one_line(str(spot), 80)
        if spot is None or self.may_quote:
            return quote_line(spot)
        return f"line {spot.line}"

    def quote(self, code: str, most: int = 100) -> str:
        """Return ``: `code` ``; empty where no line may be quoted."""
        return f": `{one_line(code, most)}`" if self.may_quote else ""

    def launch_of(self, kernel: str | None) -> str:
        """Return the line that launches a kernel, given by name or symbol; empty if none does."""
        for launch in self.source.launches:
            names = {launch.kernel, f"_Z{len(launch.kernel)}{launch.kernel}"}
            if kernel and any(kernel == one or kernel.startswith(one) for one in names):
                how = ", ".join(one for one in (launch.grid, launch.block, launch.shared) if one)
                return f"line {launch.line}{self.quote(f'{launch.kernel}<<<{how}>>>', 120)}"
        return ""

    def shared_array(self, spot: SourceSpot | None) -> str:
        """Return the declaration of the shared array that a line names; empty if it names none."""
        for array in self.source.shared_arrays:
            if spot is not None and re.search(rf"\b{re.escape(array.name)}\b", spot.text):
                name = f"`{one_line(array.name + array.extents, 60)}`" if self.may_quote else "it"
                return f"{name} is declared in line {array.line}"
        return ""

    def vector_access(self) -> str:
        """Return the first line that accesses memory by vectors; empty if none does."""
        lines = self.source.vector_accesses
        return f"vector access in line {lines[0]}" if lines else ""

    def gpu_report(self, error: CudaError | None, replay: Replay | None, *, placed: bool) -> str:
        """Return what a GPU reported; where no place is known also which kernel ran, and why."""
        reported = one_line(phrase(error), 240)
        if placed:
            return reported
        launch = self.launch_of(error.kernel) if error is not None else ""
        how = one_line(phrase(replay), 240)
        return join_parts(reported, launch, how or (UNPLACED if error is not None else ""))


def context_of(situation: Situation, attempt: Attempt) -> KernelContext:
    """Return the context of an attempt for a hint of this round."""
    return KernelContext(
        round=situation.round,
        about=attempt.id,
        source=facts_of(situation.archive.source(attempt.id)),
        task=situation.task,
        hardware=situation.hardware,
        may_quote=attempt.written_by != "playbook",
    )
