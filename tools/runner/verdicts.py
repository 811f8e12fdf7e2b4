"""Verdicts and notes on runners of every device: refused, forged, ended."""

import re
import signal

from cuda_llm.facts import LoadFault, PolicyBreach
from cuda_llm.failures import LoadFailed, PolicyViolation
from cuda_llm.outcomes import OutOfMemory
from cuda_llm.tools.runner.protocol import Refusal, ReplyFrame
from cuda_llm.wording import describe

_UNDEFINED = re.compile(r"undefined symbol: (\w+)")
"""As the dynamic linker writes it."""

_FAULTS: dict[int, LoadFault] = {Refusal.NO_SOLVE: "no-solve", Refusal.DRIVER: "driver"}


def load_failed(reply: ReplyFrame) -> LoadFailed:
    """Return the verdict on a candidate that the dynamic linker or the driver refuses."""
    if reply.number in _FAULTS:
        return LoadFailed(fault=_FAULTS[reply.number], detail=reply.text)
    missing = _UNDEFINED.search(reply.text)
    return LoadFailed(
        fault="undefined-function" if missing else "linker",
        symbol=missing[1] if missing else None,
        detail=reply.text,
    )


FORGED = PolicyViolation(rule="runner-protocol")
"""The verdict where a runner sends a packet that answers no order."""


def denied_call(reply: ReplyFrame) -> PolicyViolation:
    """Return the verdict on host code that made a system call which the sandbox denies."""
    names = (reply.text,) if reply.text else ()
    breach = PolicyBreach(kind="system-call", names=names, number=reply.number)
    return PolicyViolation(rule="syscall", breach=breach)


def signal_name(number: int) -> str:
    """Return the name of a signal, or its number where it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def call_notes(launches: int, out_of_memory: OutOfMemory | None) -> dict[str, str]:
    """Return what a report of a call says of its launches and of an allocation that was refused."""
    notes = {"launches": str(launches)}
    if launches == 0:
        notes["no-launch"] = "`solve` returned without launching a kernel"
    if out_of_memory is not None:
        notes["out-of-memory"] = describe(out_of_memory)[0]
    return notes
