"""What a call that did not come back means."""

import signal

from cuda_llm.outcomes import (
    HostCrashed,
    InfraFailed,
    LoadFailed,
    PolicyViolation,
    TimedOut,
    Verdict,
)
from cuda_llm.tools.runner.process import Babbled, Ended
from cuda_llm.tools.runner.protocol import Reply, ReplyFrame

FORGED = PolicyViolation(
    rule="runner-protocol", detail="the host part wrote to a descriptor that is not its own"
)


def ending(outcome: Ended | Babbled | ReplyFrame, limit_s: float) -> Verdict:
    """The verdict on a runner that stopped outside any kernel, without a fault in its report."""
    if isinstance(outcome, Babbled):
        return FORGED
    if isinstance(outcome, ReplyFrame):
        return LoadFailed(detail=outcome.text)
    words = outcome.last_words
    if words is not None and words.is_last:
        return _last_words(words)
    if outcome.expired:
        return TimedOut(stage="host", limit_s=limit_s, detail="`solve` did not return")
    if outcome.status >= 0:
        return HostCrashed(signal="exit", detail=f"`solve` ended the process: {outcome.status}")
    detail = "killed from outside, or out of memory" if outcome.status == -signal.SIGKILL else ""
    return HostCrashed(signal=_signal_name(-outcome.status), detail=detail)


def _last_words(words: ReplyFrame) -> Verdict:
    if words.reply == Reply.BROKEN:
        return InfraFailed(component="runner", detail=words.text)
    if words.reply == Reply.DENIED:
        name = words.text or f"number {words.number}"
        return PolicyViolation(rule="syscall", detail=f"the host part calls {name}")
    name = _signal_name(words.number)
    where = f" at address {words.address:#x}" if name in {"SIGSEGV", "SIGBUS"} else ""
    return HostCrashed(signal=name, detail=f"the host part of `solve` crashed{where}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
