"""Reading a report of an untrusted process never raises, whatever bytes it has."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_driver import REPORT_BYTES, RUNTIME, TABLE

from cuda_llm.outcomes import InfraFailed
from cuda_llm.tools.emulator import report_layout as layout
from cuda_llm.tools.emulator.report import CallRecord, read_report
from cuda_llm.tools.native import find_gxx

STRUCTURES = {
    "Report": layout.REPORT,
    "FaultRecord": layout.FAULT_RECORD,
    "LaunchError": layout.LAUNCH_ERROR,
    "FailedCall": layout.FAILED_CALL,
    "Progress": layout.PROGRESS,
    "LaunchEntry": layout.LAUNCH_ENTRY,
    "SiteCounters": layout.SITE_COUNTERS,
}
CONSTANTS = {
    "kReportMagic": layout.MAGIC,
    "kNone": layout.NONE,
    "kGuardedRaces": layout.GUARDED_RACES,
    "kRaces": layout.RACES,
    "kFailedCalls": layout.FAILED_CALLS,
    "kTextOffset": layout.TEXT_OFFSET,
    "kTextBytes": layout.TEXT_BYTES,
    "kLogOffset": layout.LOG_OFFSET,
    "kLogEntries": layout.LOG_ENTRIES,
    "kCountersOffset": layout.COUNTERS_OFFSET,
}


def test_c_and_python_agree_on_every_field(tmp_path: Path) -> None:
    lines = []
    expected = []
    for name, dtype in STRUCTURES.items():
        lines.append(f'say("{name}", sizeof(emu::{name}));')
        expected.append(f"{name} {dtype.itemsize}")
        assert dtype.fields is not None
        for field, (kind, offset) in ((f, dtype.fields[f][:2]) for f in dtype.names or ()):
            place = f"offsetof(emu::{name}, {field})"
            size = f"sizeof(emu::{name}::{field})"
            lines.append(f'say("{name}.{field}", {place}); say("{field}", {size});')
            expected += [f"{name}.{field} {offset}", f"{field} {kind.itemsize}"]
    for name, value in CONSTANTS.items():
        lines.append(f'say("{name}", emu::{name});')
        expected.append(f"{name} {value}")
    source = tmp_path / "layout.cpp"
    source.write_text(
        "#include <cstddef>\n#include <cstdio>\n#include <cstdint>\n"
        '#include "emu/report.h"\n'
        'void say(const char* n, uint64_t v) { std::printf("%s %lu\\n", n, v); }\n'
        f"int main() {{ {' '.join(lines)} }}\n"
    )
    program = tmp_path / "layout"
    flags = ["-std=c++20", "-Wno-invalid-offsetof", f"-I{RUNTIME}"]
    subprocess.run([find_gxx(), *flags, source, "-o", program], check=True)
    output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == expected


def heading() -> np.ndarray:
    head = np.zeros(1, layout.REPORT)
    head["magic"] = layout.MAGIC
    return head


def report_of(head: np.ndarray, log: np.ndarray | None = None) -> bytes:
    memory = bytearray(REPORT_BYTES)
    memory[: head.nbytes] = head.tobytes()
    if log is not None:
        memory[layout.LOG_OFFSET : layout.LOG_OFFSET + log.nbytes] = log.tobytes()
    return bytes(memory)


def test_an_empty_call_reads_as_nothing() -> None:
    assert read_report(report_of(heading()), [TABLE], []) == CallRecord()


@given(
    fault=st.binary(min_size=layout.FAULT_RECORD.itemsize, max_size=layout.FAULT_RECORD.itemsize)
)
@settings(max_examples=examples(200))
def test_any_fault_record_is_read_without_an_exception(fault: bytes) -> None:
    head = heading()
    head["fault"] = np.frombuffer(fault, layout.FAULT_RECORD)
    assert isinstance(read_report(report_of(head), [TABLE], ["A"]), CallRecord | InfraFailed)


small = st.sampled_from([0, 1, 7, 8, 17, 0xFFFFFFFF])


@given(numbers=st.lists(small, min_size=16, max_size=16), detail=st.binary(max_size=256))
@settings(max_examples=examples(300))
def test_nearly_sensible_fault_records_are_read_without_an_exception(
    numbers: list[int], detail: bytes
) -> None:
    head = heading()
    names = [n for n in layout.FAULT_RECORD.names or () if n not in {"block", "thread", "detail"}]
    for name, number in zip(names, numbers, strict=False):
        head["fault"][name] = number
    head["fault"]["detail"] = detail
    assert isinstance(read_report(report_of(head), [TABLE], ["A"]), CallRecord | InfraFailed)


@given(
    head=st.binary(min_size=layout.REPORT.itemsize, max_size=layout.REPORT.itemsize),
    log=st.binary(min_size=0, max_size=4 * layout.LAUNCH_ENTRY.itemsize),
)
@settings(max_examples=examples(200))
def test_any_heading_and_log_are_read_without_an_exception(head: bytes, log: bytes) -> None:
    fields = np.frombuffer(head, layout.REPORT).copy()
    fields["magic"] = layout.MAGIC
    memory = report_of(fields, np.frombuffer(log, np.uint8))
    assert isinstance(read_report(memory, [TABLE], ["A"]), CallRecord | InfraFailed)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kernel", 1),
        ("blocks_total", 0),
        ("counted_blocks", 0),
        ("counted_blocks", 5),
        ("block_count", 9),
        ("site_count", 7),
        ("counters_offset", 8),
        ("counters_offset", 1 << 63),
        ("counters_offset", layout.COUNTERS_OFFSET + 4),
        ("counters_offset", REPORT_BYTES - 8),
    ],
)
def test_a_log_entry_out_of_range_is_refused(field: str, value: int) -> None:
    head = heading()
    head["logged"] = head["launches"] = 1
    entry = np.zeros(1, layout.LAUNCH_ENTRY)
    entry["blocks_total"] = entry["counted_blocks"] = 4
    entry["block_count"] = entry["site_count"] = 8
    entry["counters_offset"] = layout.COUNTERS_OFFSET
    good = read_report(report_of(head, entry), [TABLE], [])
    assert isinstance(good, CallRecord)
    assert len(good.accounts) == 1
    entry[field] = value
    assert isinstance(read_report(report_of(head, entry), [TABLE], []), InfraFailed)


def test_a_short_report_is_refused() -> None:
    assert isinstance(read_report(b"", [TABLE], []), InfraFailed)


def test_printed_text_is_bounded_and_never_raw() -> None:
    head = heading()
    head["text_bytes"] = 0xFFFFFFFF
    head["text_truncated"] = 1
    record = read_report(report_of(head), [TABLE], [])
    assert isinstance(record, CallRecord)
    assert len(record.output) <= layout.TEXT_BYTES + 100
    assert record.output.endswith("[more was printed]\n")
