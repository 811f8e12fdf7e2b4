"""Verdicts and notes on runners of every device: refused, forged, ended."""

import re
import signal
from functools import lru_cache
from pathlib import Path

from cuda_llm.outcomes import LoadFailed, PolicyBreach, PolicyViolation
from cuda_llm.tools.device.protocol import Refusal, ReplyFrame

_UNDEFINED = re.compile(r"undefined symbol: (\w+)")
"""The dynamic linker's message on a function that is not defined."""

_LINKER_PHRASES = (
    "cannot allocate memory in static TLS block",
    "cannot enable executable stack",
    "cannot open shared object file",
    "failed to map segment from shared object",
    "file too short",
    "invalid ELF header",
)
"""Phrases of the dynamic linker that a verdict quotes. No other text of the linker is read."""
_SYSTEM_CALLS = Path(__file__).parent.parent / "sandbox" / "native" / "calls.c"

FORGED = PolicyViolation(rule="runner-protocol")
"""The verdict where a runner sends a packet that answers no order."""


def load_failed(reply: ReplyFrame) -> LoadFailed:
    """Return the verdict on a candidate that the dynamic linker refuses, or that has no `solve`."""
    if reply.number == Refusal.NO_SOLVE:
        return LoadFailed(fault="no-solve")
    if missing := _UNDEFINED.search(reply.text):
        return LoadFailed(fault="undefined-function", symbol=missing[1])
    detail = next((phrase for phrase in _LINKER_PHRASES if phrase in reply.text), "")
    return LoadFailed(fault="linker", detail=detail)


def denied_call(reply: ReplyFrame) -> PolicyViolation:
    """Return the verdict on host code that made a system call which the sandbox denies.

    A candidate may have written the reply: the call's name is kept where the sandbox knows the
    name, else its number alone.
    """
    names = (reply.text,) if reply.text in _system_calls() else ()
    breach = PolicyBreach(kind="system-call", names=names, number=reply.number)
    return PolicyViolation(rule="syscall", breach=breach)


@lru_cache
def _system_calls() -> frozenset[str]:
    return frozenset(re.findall(r"call\((\w+)\)", _SYSTEM_CALLS.read_text(encoding="utf-8")))


def signal_name(number: int) -> str:
    """Return the name of a signal, or `signal N` where it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def call_notes(launches: int) -> dict[str, str]:
    """Return the notes of a report of a call with this number of launches."""
    notes = {"launches": str(launches)}
    if launches == 0:
        notes["no-launch"] = "`solve` returned without launching a kernel"
    return notes
