"""The agent `hardware_research`, which runs before the first kernel is written."""

from cuda_llm.agents.plug import placed
from cuda_llm.agents.researcher.instructions import find_instructions
from cuda_llm.agents.researcher.occupancy_corners import find_corners
from cuda_llm.agents.researcher.provenance import find_unknowns
from cuda_llm.agents.researcher.tiles import find_tiles
from cuda_llm.agents.researcher.timed_sizes import find_roofs
from cuda_llm.agents.seam import Contribution, Stage
from cuda_llm.agents.situation import Note, Situation


@placed(after=Stage.START)
async def hardware_research(situation: Situation) -> Contribution:
    """Notes the facts and limits of the GPU that decide how to write this task's kernels."""
    findings = (
        find_roofs(situation),
        find_corners(situation),
        find_tiles(situation),
        find_instructions(situation),
        find_unknowns(situation),
    )
    return Contribution(
        note=Note(
            text="\n".join(line for one in findings for line in one.lines),
            about_hardware=True,
            data={one.name: one.data for one in findings},
        ),
        decisions=tuple(one.decision for one in findings if one.decision),
    )
