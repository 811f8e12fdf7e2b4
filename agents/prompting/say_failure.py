"""A kernel that failed, in words, as data to be quoted."""

from cuda_llm.agents.prompting.hide import hide
from cuda_llm.agents.quote import log_lines
from cuda_llm.agents.situation import Situation
from cuda_llm.outcomes import LaunchFailed, Verdict
from cuda_llm.search import Attempt
from cuda_llm.wording import describe


def say_failure(situation: Situation, attempt: Attempt, verdict: Verdict) -> tuple[str, ...]:
    """The verdict's code, then its description a line at a time.

    Of a playbook kernel only the code: a description may quote its source.
    """
    if attempt.written_by == "playbook":
        return (verdict.code,)
    lines = describe(verdict)
    hidden = (
        hide(line, situation.hardware, situation.plan.hardware_context)
        for line in (lines[:1] if _tells_limits(situation, verdict) else lines)
    )
    return (verdict.code, *(line for text in hidden for line in log_lines(text).split("\n")))


def _tells_limits(situation: Situation, verdict: Verdict) -> bool:
    """Whether all but the first line is about what the hardware can hold."""
    return situation.plan.hardware_context != "full" and isinstance(verdict, LaunchFailed)
