"""A report is a claim: whatever it holds, it is read, and what cannot be is left out."""

import ctypes

from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cuda_llm.outcomes import ExceededLimit, LaunchFailed, LaunchShape, OutOfMemory
from cuda_llm.tools.cuda.call_log import REPORT_BYTES, CallLog, read_report
from cuda_llm.tools.cuda.protocol import LOG_ENTRIES, NO_TEXT, REPORT_MAGIC, EntryKind, Report
from cuda_llm.tools.profiler.launch_log import LaunchKind, LoggedLaunch

SMS = 10


def report(entries: int = 1, name: bytes = b"add_one") -> Report:
    made = Report(magic=REPORT_MAGIC, launches=entries, entries=entries, logged=entries)
    made.text = name
    for one in made.log[:entries]:
        one.grid[:], one.block[:], one.cluster[:] = (4, 2, 1), (64, 2, 1), (0, 0, 0)
        one.blocks_per_sm = 2
    return made


def test_launches_are_told_in_order() -> None:
    made = report(2)
    made.log[1].kind, made.log[1].bytes = EntryKind.SET, 512

    assert read_report(bytes(made), SMS) == CallLog(
        launches=2,
        entries=(
            LoggedLaunch(
                kind=LaunchKind.KERNEL, symbol="add_one", grid=(4, 2, 1), block=(64, 2, 1)
            ),
            LoggedLaunch(kind=LaunchKind.SET, bytes=512),
        ),
    )


def test_a_kernel_with_more_blocks_than_fit_at_once_is_noticed() -> None:
    made = report()
    made.log[0].grid[0] = SMS * 2

    assert read_report(bytes(made), SMS).crowded == "add_one"
    assert read_report(bytes(made), SMS * 2).crowded == ""


def test_what_was_refused_is_told() -> None:
    made = report(0)
    made.refused.error, made.refused.kernel, made.refused.limit = 720, b"add_one", 7
    made.refused.asked, made.refused.allowed = 528, 264
    made.refused.grid[:], made.refused.block[:] = (528, 1, 1), (256, 1, 1)
    made.allocation_failed, made.refused_bytes, made.allowed_bytes = 1, 4096, 1024
    log = read_report(bytes(made), SMS)

    assert log.refused == LaunchFailed(
        kernel="add_one",
        error="cudaErrorCooperativeLaunchTooLarge",
        limit=ExceededLimit(name="resident-blocks", asked=528, allowed=264),
        launch=LaunchShape(grid=(528, 1, 1), block=(256, 1, 1)),
    )
    assert log.out_of_memory == OutOfMemory(
        request="cudaMalloc", bytes=4096, allowed_bytes=1024, bound="quota"
    )


def test_what_cannot_be_is_left_out_and_told_of() -> None:
    for spoil in ("kind", "block", "grid"):
        made = report(2)
        if spoil == "kind":
            made.log[0].kind = 77
        else:
            getattr(made.log[0], spoil)[0] = 0xFFFFFFFF
        log = read_report(bytes(made), SMS)
        assert (len(log.entries), log.complete) == (1, False)


def test_more_launches_than_there_is_room_for_are_told_of() -> None:
    made = report(LOG_ENTRIES)
    made.entries = LOG_ENTRIES + 1
    assert not read_report(bytes(made), SMS).complete
    made.logged = 0xFFFFFFFF
    assert len(read_report(bytes(made), SMS).entries) == LOG_ENTRIES


def test_names_are_bounded_and_printable() -> None:
    made = report(1, b"\x1b[31mred" + b"x" * 4000)
    name = read_report(bytes(made), SMS).entries[0].symbol
    assert len(name) <= 512
    assert name.isprintable()
    made.log[0].name = NO_TEXT
    assert read_report(bytes(made), SMS).entries[0].symbol == ""
    made.log[0].name = 1 << 30
    assert read_report(bytes(made), SMS).entries[0].symbol == ""


@settings(max_examples=examples(40))
@given(st.binary(max_size=400), st.integers(0, REPORT_BYTES - 400), st.booleans())
def test_no_report_is_an_exception(noise: bytes, where: int, keeps_magic: bool) -> None:
    raw = bytearray(bytes(report(3)))
    raw[where : where + len(noise)] = noise
    if keeps_magic:
        raw[:8] = REPORT_MAGIC.to_bytes(8, "little")
    log = read_report(bytes(raw), SMS)

    assert len(log.entries) <= LOG_ENTRIES


def test_one_that_is_cut_or_was_never_written_says_nothing() -> None:
    assert read_report(b"", SMS) == CallLog(complete=False)
    assert read_report(bytes(ctypes.sizeof(Report)), SMS) == CallLog(complete=False)
