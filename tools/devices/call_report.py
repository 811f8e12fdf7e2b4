"""What a call that came back tells."""

from collections.abc import Mapping

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.device import CallReport
from cuda_llm.tools.devices.loaded import Loaded
from cuda_llm.tools.emulator.report import CallRecord
from cuda_llm.tools.profiler.explain import explain_call


def call_report(record: CallRecord, loaded: Loaded, wall_s: float) -> CallReport | Verdict:
    """The report of a call, or the verdict on what went wrong without the candidate minding."""
    if record.fault is not None:
        return record.fault
    if record.refused is not None:
        return record.refused
    if record.out_of_memory is not None and record.launches == 0:
        return record.out_of_memory
    if not record.accounts:
        return CallReport(wall_s=wall_s, output=record.output, notes=_notes(record))
    explained = explain_call(
        record.accounts, loaded.translated.kernels, loaded.candidate.kernels, loaded.hardware
    )
    return CallReport(
        wall_s=wall_s,
        # Launches beyond those the report has room for are taken to be like the others.
        time_us=explained.time_us * record.launches / len(record.accounts),
        launches=explained.launches,
        bottlenecks=explained.bottlenecks,
        accounts=record.accounts,
        output=record.output,
        notes=_notes(record),
    )


def _notes(record: CallRecord) -> Mapping[str, str]:
    notes = {"launches": str(record.launches)}
    if record.launches == 0:
        notes["no-launch"] = "`solve` returned without launching a kernel"
    if record.out_of_memory is not None:
        notes["out-of-memory"] = record.out_of_memory.detail
    if not record.complete:
        notes["incomplete"] = (
            f"{len(record.accounts)} of {record.launches} launches were counted; "
            "the time of the others is extrapolated"
        )
    return notes
