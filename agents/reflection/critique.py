"""A model's critique of the kernel that matters most, once a round, on top of the diagnosis."""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.agents.prompting.templates import Templates
from cuda_llm.agents.quote import one_line
from cuda_llm.agents.reflection.critique_prompt import critique_prompt
from cuda_llm.agents.reflection.critique_reply import Critique, Unreadable, read_critique
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.failures import distinct_failures
from cuda_llm.conversation import Ask, Call, CallFailed
from cuda_llm.search import Attempt, Hint


@dataclass(frozen=True)
class Critiqued:
    """At most one hint, and what is to be told of it."""

    decision: str
    error_hints: tuple[Hint, ...] = ()
    performance_hints: tuple[Hint, ...] = ()


async def criticise(
    ask: Ask,
    situation: Situation,
    judged: Sequence[Attempt],
    known: Sequence[Hint],
    templates: Templates,
) -> Critiqued | None:
    """Ask once about the `subject`; None where there is none, or no prompt will hold the answer."""
    about = subject(situation, judged)
    is_last = situation.round >= situation.plan.rounds
    if about is None or is_last or not situation.plan.components.hints:
        return None
    call = Call(
        id=f"rounds/{situation.round}/critique",
        agent="reflection",
        messages=critique_prompt(situation, about, known, templates),
        as_json=True,
    )
    reply = await ask(call)
    if isinstance(reply, CallFailed):
        return Critiqued(f"no critique of {about.id}: {reply.kind}: {one_line(reply.detail, 120)}")
    read = read_critique(reply)
    if isinstance(read, Unreadable):
        return Critiqued(f"no critique of {about.id}: {read.why}")
    said = f"critique of {about.id}: {read.bottleneck or about.code}: {read.change}"
    hint = _hint(situation, about, read)
    if about.passed:
        return Critiqued(said, performance_hints=(hint,))
    return Critiqued(said, error_hints=(hint,))


def subject(situation: Situation, judged: Sequence[Attempt]) -> Attempt | None:
    """The incumbent; while there is none, the failure of this round that came nearest."""
    if situation.incumbent is not None:
        return situation.incumbent
    return next(iter(distinct_failures(judged)), None)


def _hint(situation: Situation, about: Attempt, read: Critique) -> Hint:
    return Hint(
        round=situation.round,
        about=about.id,
        code=(about.limited_by or "critique") if about.passed else about.code,
        text=f"{read.change} ({read.reason})" if read.reason else read.change,
        avoid=read.avoid,
        by="critique",
    )
