"""The raw page of Nsight Compute, read from recorded pages of a real one."""

from pathlib import Path

import pytest

from cuda_llm.tools.cuda.ncu import DURATION, parse_table, read_counters

RECORDED = Path(__file__).parents[2] / "fixtures/counters/ncu"


def page(name: str) -> str:
    return (RECORDED / name).read_text()


def test_every_kernel_of_a_call_has_a_row_in_order() -> None:
    rows = parse_table(page("two_passes.csv"))
    assert [one.kernel for one in rows] == ["sum_range<256>", "sum_range<128>"]
    assert [one.metrics[DURATION] for one in rows] == pytest.approx([5.92e-6, 2.016e-6])


def test_bytes_shares_and_counts_come_in_plain_units() -> None:
    (row,) = parse_table(page("transpose.csv"))
    assert row.metrics[DURATION] == pytest.approx(251.968e-6)
    assert row.metrics["dram__bytes_read.sum"] + row.metrics["dram__bytes_write.sum"] > 1e8
    assert 0 < row.metrics["dram__throughput.avg.pct_of_peak_sustained_elapsed"] < 1
    assert row.metrics["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 4096 * 4096 / 32


@pytest.mark.parametrize(
    ("printed", "seconds"),
    [
        ('"ns"|"1,234.5"', 1234.5e-9),
        ('"us"|"1.5"', 1.5e-6),
        ('"msecond"|"2"', 2e-3),
        ('"usecond"|"1,000"', 1e-3),
    ],
)
def test_units_of_other_versions_are_understood(printed: str, seconds: float) -> None:
    unit, value = printed.split("|")
    text = (
        f'"ID","Process ID","Kernel Name","{DURATION}"\n"","","",{unit}\n"0","1","k(int)",{value}\n'
    )
    (row,) = parse_table(text)
    assert row.kernel == "k"
    assert row.metrics[DURATION] == pytest.approx(seconds)


def test_what_could_not_be_counted_is_left_out() -> None:
    text = f'"ID","Process ID","Kernel Name","{DURATION}","a__b"\n"","","","ns","%"\n'
    text += '"0","1","k(int)","n/a","(!) nan"\n'
    (row,) = parse_table(text)
    assert DURATION not in row.metrics


def test_a_row_that_was_cut_short_is_no_row() -> None:
    text = page("two_passes.csv")
    assert len(parse_table(text[: len(text) - 200])) == 1


def test_without_kernels_there_are_no_rows() -> None:
    assert parse_table(page("no_kernels.txt")) == ()
    assert parse_table("") == ()


def test_a_scattered_transpose_shows_in_its_figures() -> None:
    (row,) = parse_table(page("transpose.csv"))
    one = read_counters(row, flushed=True)
    assert one.duration_us == pytest.approx(251.968)
    assert one.figures["sectors_per_request"] == 18  # 4 a load, 32 a store
    assert one.figures["useful_byte_share"] == pytest.approx((4 + 32 / 8) / 36)
    assert one.figures["simd_efficiency"] == 1.0
    assert one.stalls[0].reason == "drain"


def test_a_tiled_product_lives_in_shared_memory() -> None:
    (row,) = parse_table(page("matmul.csv"))
    one = read_counters(row, flushed=True)
    assert one.figures["shared_passes_share"] > 0.8
    assert one.figures["bank_ways"] == pytest.approx(1.0, abs=0.05)
    assert one.figures["l1_share"] > 0.9
    assert "selected" not in {stall.reason for stall in one.stalls}
    assert 0.5 < sum(stall.share for stall in one.stalls) < 1


def test_a_chip_that_counts_less_leaves_figures_out() -> None:
    row, _ = parse_table(page("two_passes.csv"))
    one = read_counters(row, flushed=False)
    assert (one.figures, one.stalls) == ({}, ())
