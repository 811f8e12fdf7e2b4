"""What it means when a runner does not come back from a call, or comes back with bad news."""

import signal
from dataclasses import replace

from cuda_llm.outcomes import (
    HostCrashed,
    InfraFailed,
    PolicyViolation,
    TimedOut,
    Verdict,
)
from cuda_llm.tools.emulator.report import CallRecord
from cuda_llm.tools.runner.process import Babbled, Ended
from cuda_llm.tools.runner.protocol import Reply, ReplyFrame

_FORGED = PolicyViolation(
    rule="runner-protocol", detail="the host part wrote to a descriptor that is not its own"
)


def ending(outcome: Ended | Babbled, record: CallRecord | InfraFailed, limit_s: float) -> Verdict:
    """The verdict on a runner that has ended, and on the report it left."""
    if isinstance(outcome, Babbled):
        return _FORGED
    if isinstance(record, CallRecord):
        if record.fault is not None:
            return _fault(record, record.fault, limit_s)
        if record.running:
            return _in_kernel(outcome, record, limit_s)
        if record.out_of_memory is not None and not outcome.expired:
            return record.out_of_memory
    if outcome.final_reply is not None and outcome.final_reply.is_last:
        return _on_final_reply(outcome.final_reply)
    if outcome.expired:
        return TimedOut(stage="host", limit_s=limit_s)
    if outcome.status >= 0:
        return HostCrashed(signal="exit", status=outcome.status)
    return HostCrashed(signal=_signal_name(-outcome.status), killed=True)


def _fault(record: CallRecord, fault: Verdict, limit_s: float) -> Verdict:
    if isinstance(fault, TimedOut):
        return replace(fault, limit_s=limit_s)
    # Using the pointer of an allocation that was refused is not where things went wrong.
    if record.out_of_memory is not None and not isinstance(fault, InfraFailed):
        return record.out_of_memory
    return fault


def _in_kernel(outcome: Ended, record: CallRecord, limit_s: float) -> Verdict:
    if outcome.expired:
        return TimedOut(
            stage="kernel", limit_s=limit_s, kernel=record.running, spot=record.running_at
        )
    words = outcome.final_reply
    how = f"signal {words.number}" if words is not None else f"status {outcome.status}"
    return InfraFailed(
        component="device", detail=f"the emulated device died in {record.running}: {how}"
    )


def _on_final_reply(words: ReplyFrame) -> Verdict:
    if words.reply == Reply.BROKEN:
        return InfraFailed(component="runner", detail=words.text)
    if words.reply == Reply.DENIED:
        name = words.text or f"number {words.number}"
        return PolicyViolation(rule="syscall", detail=f"the host part calls {name}")
    name = _signal_name(words.number)
    touched = words.address if name in {"SIGSEGV", "SIGBUS"} else None
    return HostCrashed(signal=name, address=touched)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
