"""An agent that asks a model of its own what to change in the fastest kernel so far.

    cuda-llm run histogram --agent examples/agents/second_opinion.py:second_opinion \
        --model WRITER --agent-model second_opinion=REVIEWER
"""

from cuda_llm.extend import CallFailed, Contribution, Hint, Note, Situation, Stage, placed

SYSTEM = "You review CUDA kernels. Name the one change that would help most, in one sentence."
MOST_CHARACTERS = 400


@placed(after=Stage.REFLECTION)
async def second_opinion(situation: Situation) -> Contribution:
    """A performance hint about each kernel that becomes the fastest."""
    best = situation.incumbent
    asked = situation.notes.get("second_opinion", Note()).data.get("about")
    if best is None or best.id == asked:
        return Contribution(decisions=("nothing new to review",))
    question = (
        f"Task: {situation.task.title}. GPU: {situation.hardware.name}. This kernel takes "
        f"1/{best.speedup or 1:.2f} of the baseline's time; limited by: {best.limited_by or '?'}.\n"
        f"\n{situation.archive.source(best.id)}"
    )
    reply = await situation.ask(question, system=SYSTEM)
    if isinstance(reply, CallFailed):
        return Contribution(decisions=(f"no review: {reply.kind}: {reply.detail}",))
    advice = " ".join(reply.text.split())[:MOST_CHARACTERS]
    hint = Hint(round=situation.round, about=best.id, code="REVIEW", text=advice, by="review")
    return Contribution(
        note=Note(data={"about": best.id}),
        performance_hints=(hint,),
        decisions=(f"reviewed {best.id}: {advice}",),
    )
