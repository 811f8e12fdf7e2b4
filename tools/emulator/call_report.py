"""Makes the report of a call on the emulated device, or the verdict on a call that failed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import (
    DeviceFault,
    FailedCall,
    HostCrashed,
    InfraFailed,
    Quarantined,
    TimedOut,
    UninitialisedRead,
    Verdict,
)
from cuda_llm.tools.device import CallReport
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.protocol import ReplyFrame, RunnerReply
from cuda_llm.tools.device.runner import RunnerEnded, UnexpectedReply
from cuda_llm.tools.device.session import ATOMIC, TENSOR
from cuda_llm.tools.device.verdicts import FORGED, call_notes, denied_call, signal_name
from cuda_llm.tools.emulator.report import CallRecord
from cuda_llm.tools.profiler.counters import LaunchCounters
from cuda_llm.tools.profiler.counts import count_tensor_operations
from cuda_llm.tools.profiler.explain_modelled import copies_profile, explain_call
from cuda_llm.tools.profiler.tables import InstructionClass, KernelTable, Translated


@dataclass(frozen=True, kw_only=True)
class LoadedCandidate:
    """A candidate, its kernels as the emulated device runs them, and the GPU it stands for."""

    candidate: Compiled
    translated: Translated
    hardware: Hardware

    def named_tables(self) -> tuple[KernelTable, ...]:
        """Return the kernels' tables under the names of their source."""
        names = self.candidate.kernel_names
        return tuple(
            replace(table, symbol=names.get(table.symbol, table.symbol))
            for table in self.translated.kernels
        )


@dataclass(frozen=True, kw_only=True)
class EmulatedCallReport(CallReport):
    """Report of a call that returned, with the counters of its launches."""

    accounts: tuple[LaunchCounters, ...] = ()
    """Counters of each launch, from which `launches` is computed; empty where launches were not
    counted."""


def call_report(record: CallRecord, loaded: LoadedCandidate, wall_s: float) -> CallReport | Verdict:
    """Return the report of a call, or the verdict on a fault that the candidate did not end for."""
    if record.fault is not None:
        return with_call_facts(record.fault, record, loaded)
    if record.refused is not None and record.launches == 0:
        return record.refused
    if record.out_of_memory is not None and record.launches == 0:
        return record.out_of_memory
    notes = call_notes(record.launches)
    if not record.accounts:
        return CallReport(
            wall_s=wall_s,
            kernels=record.launches,
            refused=record.refused,
            out_of_memory=record.out_of_memory,
            failed_calls=failed_calls(record, loaded.candidate),
            unlaunched=unlaunched(record, loaded),
            held_bytes=record.held_bytes,
            held_allocations=record.held_allocations,
            guarded_races=record.guarded_races,
            output=record.output,
            notes=notes,
        )
    if not record.complete:
        return Quarantined(kind="uncounted-launches", launches=record.launches)
    copies = copies_profile(
        record.copies,
        record.copied_bytes,
        record.host_bytes,
        loaded.hardware,
        pieces=record.pieces,
    )
    explained = explain_call(
        record.accounts,
        loaded.translated.kernels,
        loaded.candidate.kernels,
        loaded.hardware,
        copies,
    )
    return EmulatedCallReport(
        wall_s=wall_s,
        time_us=explained.time_us,
        kernels=record.launches,
        launches=explained.launches,
        bottlenecks=explained.bottlenecks,
        counters=explained.counters,
        accounts=record.accounts,
        operations=_operations(record, loaded.translated.kernels),
        stored_bytes=_stored_bytes(record, loaded.translated.kernels),
        refused=record.refused,
        out_of_memory=record.out_of_memory,
        failed_calls=failed_calls(record, loaded.candidate),
        unlaunched=unlaunched(record, loaded),
        held_bytes=record.held_bytes,
        held_allocations=record.held_allocations,
        guarded_races=record.guarded_races,
        output=record.output,
        notes=notes,
    )


def failed_calls(record: CallRecord, candidate: Compiled) -> tuple[FailedCall, ...]:
    """Return the calls of the runtime API that failed, each with its line where the source spells
    one such call."""
    return tuple(
        replace(one, spot=candidate.line_of_call(one.call, one.kernel))
        for one in record.failed_calls
    )


def unlaunched(record: CallRecord, loaded: LoadedCandidate) -> tuple[str, ...]:
    """Return the kernels of the source, not of a library, that the call did not launch."""
    if record.launched is None:
        return ()
    tables = enumerate(loaded.named_tables())
    others = [table for number, table in tables if number not in record.launched]
    return tuple(
        table.symbol
        for table in others
        if any(one.spot and one.spot.file == loaded.candidate.name for one in table.blocks)
    )


def with_call_facts(fault: Verdict, record: CallRecord, loaded: LoadedCandidate) -> Verdict:
    """Return a fault with what else the call shows that may explain it."""
    if not isinstance(fault, DeviceFault):
        return fault
    found = replace(fault, failed_calls=failed_calls(record, loaded.candidate))
    if isinstance(found, UninitialisedRead) and found.access and found.access.space == "global":
        return replace(found, unlaunched=unlaunched(record, loaded))
    return found


def _stored_bytes(record: CallRecord, tables: Sequence[KernelTable]) -> int:
    stored = sum(
        count.lanes * site.bytes
        for account in record.accounts
        for site, count in zip(tables[account.kernel].sites, account.sites, strict=True)
        if site.kind in ("store", "atomic", "bulk_store") and site.space in ("global", "generic")
    )
    return round(stored) + record.copied_bytes


def _operations(record: CallRecord, tables: Sequence[KernelTable]) -> Mapping[str, float]:
    """Return the operations of all threads by kind: floating-point ones on CUDA cores and tensor
    cores by type, a multiply-add as two; integer and special ones by instruction."""
    found: defaultdict[str, float] = defaultdict(float)
    for account in record.accounts:
        table = tables[account.kernel]
        for block, lanes in zip(table.blocks, account.block_lanes, strict=True):
            for kind, count in block.operations.items():
                found[kind] += lanes * count
            for kind in (InstructionClass.INT, InstructionClass.SFU):
                found[kind] += lanes * block.mix.get(kind, 0)
        for peak, done in count_tensor_operations(account, table).items():
            found[f"{TENSOR}{peak}"] += done
        # An atomic addition executes in the unit that holds the memory.
        found[ATOMIC] += sum(
            count.lanes
            for site, count in zip(table.sites, account.sites, strict=True)
            if site.kind == "atomic"
        )
    return {str(kind): count for kind, count in found.items() if count}


def verdict_on_end(
    outcome: RunnerEnded | UnexpectedReply,
    record: CallRecord | InfraFailed,
    loaded: LoadedCandidate,
    limit_s: float,
) -> Verdict:
    """Return the verdict on a runner that has ended, and on the report it left."""
    if isinstance(outcome, UnexpectedReply):
        return FORGED
    if isinstance(record, CallRecord):
        if record.fault is not None:
            return with_call_facts(_fault(record, record.fault, limit_s), record, loaded)
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
    return HostCrashed(signal=signal_name(-outcome.status), killed=True)


def _fault(record: CallRecord, fault: Verdict, limit_s: float) -> Verdict:
    if isinstance(fault, TimedOut):
        return replace(fault, limit_s=limit_s, only_slow=record.only_slow)
    # The cause is the refused allocation, not the access through its pointer.
    if record.out_of_memory is not None and not isinstance(fault, InfraFailed):
        return record.out_of_memory
    return fault


def _in_kernel(outcome: RunnerEnded, record: CallRecord, limit_s: float) -> Verdict:
    if outcome.expired:
        return TimedOut(
            stage="kernel", limit_s=limit_s, kernel=record.running, spot=record.running_at
        )
    reply = outcome.final_reply
    how = f"signal {reply.number}" if reply is not None else f"status {outcome.status}"
    return InfraFailed(
        component="device", detail=f"the emulated device died in {record.running}: {how}"
    )


def _on_final_reply(reply: ReplyFrame) -> Verdict:
    if reply.reply == RunnerReply.BROKEN:
        return InfraFailed(component="runner", detail=reply.text)
    if reply.reply == RunnerReply.DENIED:
        return denied_call(reply)
    name = signal_name(reply.number)
    touched = reply.address if name in {"SIGSEGV", "SIGBUS"} else None
    return HostCrashed(signal=name, address=touched)
