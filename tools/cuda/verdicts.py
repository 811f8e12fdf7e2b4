"""Verdicts on a GPU runner that ends during an order, or cannot load its candidate."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cuda_llm.errors import InfrastructureError, machinery_error
from cuda_llm.outcomes import (
    BreachKind,
    CudaError,
    HostCrashed,
    InfraFailed,
    LoadFailed,
    Location,
    OutOfMemory,
    PolicyBreach,
    PolicyViolation,
    TimedOut,
    Verdict,
)
from cuda_llm.tools.cuda.call_log import CallLog, error_name, verdict_on_error
from cuda_llm.tools.cuda.protocol import Forbidden, Order
from cuda_llm.tools.device.protocol import Refusal, ReplyFrame, RunnerReply
from cuda_llm.tools.device.runner import RunnerEnded, UnexpectedReply
from cuda_llm.tools.device.verdicts import FORGED, denied_call, load_failed, signal_name

_OUT_OF_MEMORY = 2
_TAKEN_FOR_CALLS = frozenset({"capture", "graph", "graph launch", "scratch"})
"""Purposes for which the runner allocates memory beside a loaded candidate. All its other memory is
allocated earlier."""
_MEMORY = frozenset({"CUDA IPC", "host-shared memory", "arena", "flush"})
_CONFINEMENT = frozenset(
    {"limits", "/proc/self/statm", "privileges", "landlock", "violation handler", "seccomp"}
)
_IN_CALLS = frozenset({"scratch"})
_PARTS: Mapping[Order, frozenset[str]] = {
    Order.START: _MEMORY | _CONFINEMENT | {"frame"},
    Order.CALL: _IN_CALLS,
    Order.CAPTURE: _IN_CALLS | {"capture"},
    Order.ARM: frozenset(
        {"batch", "frame", "copying in", "context"}
        | {"graph", "kernel node", "memset node", "child graph"}
    ),
    Order.GO: frozenset({"graph launch"}),
}
"""Parts of the runner that can fail in an order: no other word of the runner is repeated in a
verdict."""
_CALLS_SOLVE = frozenset({Order.CALL, Order.CAPTURE, Order.GO})
"""Orders in which host code of the candidate runs, in the process that replies.

A failure of the runner's own part in these orders has a context error, which is `FAULTED`, or lacks
memory. Any other failure is claimed by the candidate, or follows from its writes to the driver.
"""
_BREACHES: dict[int, BreachKind] = {
    Forbidden.LARGE_COPY: "large-copy",
    Forbidden.LARGE_COPIES: "large-copies",
    Forbidden.UNJOINED: "unjoined-stream",
}


@dataclass(frozen=True, kw_only=True)
class CallContext:
    """State of a runner when it ended: launch log, order, time limit, arena."""

    log: CallLog
    limit_s: float
    order: Order
    arena: range
    """Addresses of the shared device memory in the runner."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of kernels in the source, by symbol."""
    in_graph: bool = False
    """The GPU runs a batch; no host code of the candidate does."""


def verdict_on_end(outcome: RunnerEnded | UnexpectedReply, context: CallContext) -> Verdict:
    """Return the verdict on a runner that has ended."""
    if isinstance(outcome, UnexpectedReply):
        return FORGED
    if outcome.final_reply is not None and outcome.final_reply.is_last:
        return _on_final_reply(outcome.final_reply, context)
    if outcome.expired:
        return _expired(context)
    if outcome.status == -signal.SIGSYS:
        return PolicyViolation(rule="syscall")
    if outcome.status >= 0 and context.log.out_of_memory is not None:
        return replace(context.log.out_of_memory, then="exit")
    if outcome.status >= 0:
        return HostCrashed(signal="exit", status=outcome.status)
    return HostCrashed(signal=signal_name(-outcome.status), killed=True)


def load_failure(reply: ReplyFrame) -> Verdict:
    """Return the verdict on a candidate that dynamic linker or driver refuse."""
    if reply.number != Refusal.DRIVER:
        return load_failed(reply)
    error = CudaError(number=reply.address, name=error_name(reply.address))
    if reply.address == _OUT_OF_MEMORY:
        return OutOfMemory(request="to-load", bound="device", error=error)
    return LoadFailed(fault="driver", detail=error.name)


def _on_final_reply(reply: ReplyFrame, context: CallContext) -> Verdict:
    match reply.reply:
        case RunnerReply.FAULTED:
            # The cause is the refused allocation, not the access through its pointer.
            if context.log.out_of_memory is not None:
                return context.log.out_of_memory
            return verdict_on_error(reply.number, _last_kernel(context), context.limit_s)
        case RunnerReply.FORBIDDEN:
            return _forbidden(reply)
        case RunnerReply.DENIED:
            return denied_call(reply)
        case RunnerReply.DIED:
            return _crashed(reply, context)
    return _broken(reply, context.order)


def _broken(reply: ReplyFrame, order: Order) -> Verdict:
    """Return the verdict on a runner whose own part failed; none but words of ours are in it."""
    part = reply.text.partition(": ")[0]
    if part not in _PARTS[order]:
        return FORGED
    if reply.number == _OUT_OF_MEMORY and part in _TAKEN_FOR_CALLS:
        error = CudaError(number=reply.number, name=error_name(reply.number))
        return OutOfMemory(request="to-run", bound="device", error=error)
    if order in _CALLS_SOLVE:
        return FORGED
    error_text = f": {error_name(reply.number)}" if reply.number else ""
    return InfraFailed(
        component="runner",
        detail=part + error_text,
        lacked_memory=reply.number == _OUT_OF_MEMORY,
    )


def failed_to_start(outcome: object) -> InfrastructureError:
    """Return the error of a runner that ended with this before it was given a candidate."""
    reply = outcome.final_reply if isinstance(outcome, RunnerEnded) else None
    if reply is None:
        return InfrastructureError("runner", f"no context: {outcome}")
    lacked = reply.reply == RunnerReply.BROKEN and reply.number == _OUT_OF_MEMORY
    return machinery_error("runner", reply.text, lacked_memory=lacked)


def _forbidden(reply: ReplyFrame) -> Verdict:
    if reply.number == Forbidden.HOST_COPY:
        return PolicyViolation(rule="host-copy")
    kind = _BREACHES.get(reply.number)
    if kind is None:
        return FORGED
    breach = PolicyBreach(kind=kind, limit_bytes=reply.address or None)
    return PolicyViolation(rule="api-call", breach=breach)


def _crashed(reply: ReplyFrame, context: CallContext) -> Verdict:
    name = signal_name(reply.number)
    if context.log.out_of_memory is not None and reply.number in {signal.SIGSEGV, signal.SIGABRT}:
        return replace(context.log.out_of_memory, then=name)
    if reply.number == signal.SIGSEGV and reply.address in context.arena:
        return PolicyViolation(
            rule="host-touches-device-memory",
            location=Location(owner="buffer", address=reply.address),
        )
    touched = reply.address if name in {"SIGSEGV", "SIGBUS"} else None
    return HostCrashed(signal=name, address=touched)


def _expired(context: CallContext) -> Verdict:
    kernel = _last_kernel(context)
    if not context.in_graph and not context.log.waiting:
        return TimedOut(stage="host", limit_s=context.limit_s)
    crowded = bool(context.log.crowded)
    return TimedOut(stage="kernel", limit_s=context.limit_s, kernel=kernel or None, crowded=crowded)


def _last_kernel(context: CallContext) -> str:
    symbol = next((one.symbol for one in reversed(context.log.entries) if one.symbol), "")
    return context.names.get(symbol, "")
