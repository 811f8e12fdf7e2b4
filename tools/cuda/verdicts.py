"""What it means when the runner of a GPU does not come back from an order, or with bad news."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cuda_llm.facts import Location
from cuda_llm.failures import PolicyViolation, TimedOut
from cuda_llm.outcomes import HostCrashed, InfraFailed, OutOfMemory, Verdict
from cuda_llm.tools.cuda.call_log import CallLog, verdict_on_error
from cuda_llm.tools.cuda.protocol import Forbidden
from cuda_llm.tools.runner.protocol import Reply, ReplyFrame
from cuda_llm.tools.runner.runner import Ended, UnexpectedReply, load_failed

FORGED = PolicyViolation(
    rule="runner-protocol", detail="the host part wrote to a descriptor that is not its own"
)
_NO_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
_TAKEN_FOR_CALLS = frozenset({"capture", "graph", "graph launch", "scratch"})
"""What the runner takes memory for beside a loaded candidate. All else it has before."""


@dataclass(frozen=True, kw_only=True)
class CallContext:
    """What was going on."""

    log: CallLog
    limit_s: float
    arena: range
    """Addresses of the shared device memory in the runner."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Of kernels by their symbols."""
    in_graph: bool = False
    """Nothing of the host part runs: the GPU works through a batch."""


def verdict_on_end(outcome: Ended | UnexpectedReply, scene: CallContext) -> Verdict:
    """The verdict on a runner that has ended."""
    if isinstance(outcome, UnexpectedReply):
        return FORGED
    if outcome.final_reply is not None and outcome.final_reply.is_last:
        return _on_final_reply(outcome.final_reply, scene)
    if outcome.expired:
        return _expired(scene)
    if outcome.status == -signal.SIGSYS:
        return PolicyViolation(
            rule="syscall", detail="the host part makes a system call that it may not"
        )
    if outcome.status >= 0 and scene.log.out_of_memory is not None:
        return replace(scene.log.out_of_memory, then="exit")
    if outcome.status >= 0:
        return HostCrashed(signal="exit", status=outcome.status)
    return HostCrashed(signal=_signal_name(-outcome.status), killed=True)


def load_failure(reply: ReplyFrame) -> Verdict:
    """The verdict on a candidate that dynamic linker or driver refuse."""
    if _NO_MEMORY in reply.text:
        return OutOfMemory(request="to-load", bound="device", detail=reply.text)
    return load_failed(reply)


def _on_final_reply(words: ReplyFrame, scene: CallContext) -> Verdict:
    match words.reply:
        case Reply.FAULTED:
            # Using the pointer of an allocation that was refused is not where things went wrong.
            if scene.log.out_of_memory is not None:
                return scene.log.out_of_memory
            return verdict_on_error(words.number, _last_kernel(scene), scene.limit_s)
        case Reply.FORBIDDEN:
            rule = "host-copy" if words.number == Forbidden.HOST_COPY else "api-call"
            return PolicyViolation(rule=rule, detail=words.text)
        case Reply.DENIED:
            name = words.text or f"number {words.number}"
            return PolicyViolation(rule="syscall", detail=f"the host part calls {name}")
        case Reply.DIED:
            return _died(words, scene)
    what, _, error = words.text.partition(": ")
    if error.startswith(_NO_MEMORY) and what in _TAKEN_FOR_CALLS:
        return OutOfMemory(request="to-run", bound="device", detail=words.text)
    return InfraFailed(component="runner", detail=words.text)


def _died(words: ReplyFrame, scene: CallContext) -> Verdict:
    name = _signal_name(words.number)
    if scene.log.out_of_memory is not None and words.number in {signal.SIGSEGV, signal.SIGABRT}:
        return replace(scene.log.out_of_memory, then=name)
    if words.number == signal.SIGSEGV and words.address in scene.arena:
        return PolicyViolation(
            rule="host-touches-device-memory",
            detail="host code dereferences a device pointer",
            location=Location(owner="buffer", address=words.address),
        )
    touched = words.address if name in {"SIGSEGV", "SIGBUS"} else None
    return HostCrashed(signal=name, address=touched)


def _expired(scene: CallContext) -> Verdict:
    kernel = _last_kernel(scene)
    if not scene.in_graph and not scene.log.waiting:
        return TimedOut(stage="host", limit_s=scene.limit_s)
    crowded = bool(scene.log.crowded)
    return TimedOut(stage="kernel", limit_s=scene.limit_s, kernel=kernel or None, crowded=crowded)


def _last_kernel(scene: CallContext) -> str:
    symbol = next((one.symbol for one in reversed(scene.log.entries) if one.symbol), "")
    return scene.names.get(symbol, symbol)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
