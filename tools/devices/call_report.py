"""What a call that came back tells."""

from collections.abc import Mapping
from dataclasses import dataclass

from cuda_llm.outcomes import Quarantined, Verdict
from cuda_llm.tools.device import CallReport
from cuda_llm.tools.devices.loaded import Loaded
from cuda_llm.tools.emulator.account import LaunchAccount
from cuda_llm.tools.emulator.report import CallRecord
from cuda_llm.tools.profiler.copies import copies_profile
from cuda_llm.tools.profiler.explain import explain_call
from cuda_llm.wording import describe


@dataclass(frozen=True, kw_only=True)
class EmulatedCallReport(CallReport):
    """A call, and what was counted of it."""

    accounts: tuple[LaunchAccount, ...] = ()
    """One a launch: the evidence for `launches`. Empty at level `check`."""


def call_report(record: CallRecord, loaded: Loaded, wall_s: float) -> CallReport | Verdict:
    """The report of a call, or the verdict on what went wrong without the candidate minding."""
    if record.fault is not None:
        return record.fault
    if record.refused is not None and record.launches == 0:
        return record.refused
    if record.out_of_memory is not None and record.launches == 0:
        return record.out_of_memory
    if not record.accounts:
        return CallReport(
            wall_s=wall_s, refused=record.refused, output=record.output, notes=_notes(record)
        )
    if not record.complete:
        return Quarantined(
            reason=f"{record.launches:,} launches are more than can be counted: "
            "how long they take is not known"
        )
    copies = copies_profile(record.copies, record.copied_bytes, record.host_bytes, loaded.hardware)
    explained = explain_call(
        record.accounts, loaded.translated.kernels, loaded.candidate.kernels, loaded.hardware
    )
    return EmulatedCallReport(
        wall_s=wall_s,
        time_us=explained.time_us + sum(one.time_us for one in copies),
        launches=(*explained.launches, *copies),
        bottlenecks=explained.bottlenecks,
        accounts=record.accounts,
        refused=record.refused,
        output=record.output,
        notes=_notes(record),
    )


def _notes(record: CallRecord) -> Mapping[str, str]:
    notes = {"launches": str(record.launches)}
    if record.launches == 0:
        notes["no-launch"] = "`solve` returned without launching a kernel"
    if record.out_of_memory is not None:
        notes["out-of-memory"] = describe(record.out_of_memory)[0]
    return notes
