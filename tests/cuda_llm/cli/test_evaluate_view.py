"""The report for a person, in whatever terminal they have."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from cuda_llm.cli.evaluate_output import (
    finding_rows,
    isolation_rows,
    precision_rows,
    print_table,
    profile_rows,
    time_text,
    without_common_folder,
)
from cuda_llm.cli.progress import LiveProgress
from cuda_llm.outcomes import DataRace, IllegalAccess, LoadFailed, Passed
from cuda_llm.profile import Compared, Profile, SizeTime
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.judge.judged import Judged


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["a/b/x.cu", "a/b/y.cu"], ["x.cu", "y.cu"]),
        (["a/b/x.cu", "a/c/x.cu"], ["b/x.cu", "c/x.cu"]),
        (["x.cu", "a/x.cu"], ["x.cu", "a/x.cu"]),
        (["/k/x.cu", "/k/x.cu"], ["x.cu", "x.cu"]),
        (["abc/x.cu", "abd/x.cu"], ["abc/x.cu", "abd/x.cu"]),
    ],
)
def test_the_table_names_files_without_the_folder_they_share(
    names: list[str], short: list[str]
) -> None:
    assert without_common_folder(names) == short


def test_a_file_name_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    judged = [
        Judged(name=name, verdict=LoadFailed(detail="")) for name in ("[red]a.cu", "[/b]b.cu")
    ]
    print_table(load_task("vector_add"), judged)
    shown = capsys.readouterr().out
    assert "[red]a.cu" in shown
    assert "[/b]b.cu" in shown


def test_without_all_the_number_of_further_faults_is_said() -> None:
    race = DataRace(kind="write-read", further=(IllegalAccess(),))
    rows = list(finding_rows(Judged(name="mine.cu", verdict=race), None))
    assert rows == [("", "1 further fault in the same call: --all shows them")]
    alone = Judged(name="mine.cu", verdict=DataRace(kind="write-read"))
    assert list(finding_rows(alone, None)) == []


def test_progress_has_one_line_a_file_whatever_its_name() -> None:
    progress = LiveProgress(["[/b]a.cu", "b.cu", "b.cu"])
    progress.enter("[/b]a.cu", "compile")
    console = Console(width=80, file=StringIO())
    with console.capture() as shown:
        console.print(progress.bars.get_renderable())
    lines = [line.strip() for line in shown.get().splitlines()]
    assert [line.split("  ")[0].split(" ", 1)[1] for line in lines] == ["[/b]a.cu", "b.cu"]


MEASURED = SizeTime(
    dims={"n": 1024},
    time_us=31.2,
    baseline_us=88.0,
    source="measured",
    spread=0.004,
    baseline_spread=0.003,
    paired_speedup=2.82,
    speedup_low=2.80,
    speedup_high=2.84,
    outcome="faster",
    floor=0.01,
    time_class="device",
    l2="cold",
)


def test_a_measured_time_stands_with_its_doubt_and_the_interval_of_its_factor() -> None:
    assert time_text(MEASURED) == (
        "31.2 us ±0.4%   baseline 88.0 us ±0.3%   2.82x faster (2.80 to 2.84)"
    )


def test_what_the_measurement_calls_a_tie_is_one_whatever_the_quotient() -> None:
    tie = replace(MEASURED, outcome="tie", paired_speedup=1.2, speedup_low=0.98, speedup_high=1.41)
    assert time_text(tie).endswith("a tie (0.98 to 1.41)")


def test_a_small_measured_difference_outside_the_interval_is_shown() -> None:
    slower = replace(
        MEASURED, outcome="slower", paired_speedup=0.98, speedup_low=0.975, speedup_high=0.985
    )
    assert time_text(slower).endswith("1.02x slower (1.02 to 1.03)")


def test_isolation_is_shown_for_every_kernel_that_ran_on_a_gpu() -> None:
    refused = Judged(name="a.cu", verdict=LoadFailed(detail="no solve"))
    assert list(isolation_rows(refused)) == []
    ran = replace(refused, isolation="no namespaces; seccomp")
    assert list(isolation_rows(ran)) == [("isolation", "no namespaces; seccomp")]


def test_clocks_and_heat_of_the_gpu_are_shown_where_they_were_read() -> None:
    profile = Profile(device="cuda:0", hardware="H200", source="measured", sizes=(MEASURED,))
    assert "gpu" not in dict(profile_rows(profile))
    planned = replace(profile, sizes=(MEASURED, replace(MEASURED, peak_bytes=1_200_000_000)))
    assert dict(profile_rows(planned))["gpu"] == "cuda:0: 1.2 GB of its memory planned at most"


def test_the_hosts_part_and_notes_on_a_time_are_shown() -> None:
    host = replace(MEASURED, time_class="host-inclusive", note="the baseline was measured earlier")
    assert "±0.4% (host-inclusive)" in time_text(host)
    assert time_text(host).endswith("; the baseline was measured earlier")


@pytest.mark.parametrize(
    ("speedup", "expected"), [(1.05, "a tie"), (1.5, "1.50x faster"), (0.5, "2.00x slower")]
)
def test_modelled_times_within_a_tenth_are_a_tie(speedup: float, expected: str) -> None:
    size = SizeTime(dims={}, time_us=100.0, baseline_us=100.0 * speedup, source="modelled")
    assert time_text(size) == f"100.0 us   baseline {100 * speedup:.1f} us   {expected}"


def test_what_precision_was_given_is_said_where_times_were_measured() -> None:
    size = SizeTime(dims={"n": 1}, time_us=1.0, baseline_us=2.0, source="measured")
    sure = replace(size, speedup_low=1.99, speedup_high=2.01)
    vague = replace(size, speedup_low=1.9, speedup_high=2.1)
    for sizes, told in (((sure, vague), "5.1%"), ((sure,), "0.5%")):
        verdict = Passed(profile=Profile(device="", hardware="", source="measured", sizes=sizes))
        ((label, text),) = precision_rows(Judged(name="a.cu", verdict=verdict), "quick")
        assert (label, text) == (
            "precision",
            f"quick: each speed-up is known within {told} or less",
        )
    modelled = Passed(profile=Profile(device="", hardware="", source="modelled", sizes=(size,)))
    assert not list(precision_rows(Judged(name="a.cu", verdict=modelled), "quick"))


def test_a_timed_size_whose_outputs_were_not_all_compared_is_named_with_the_reason() -> None:
    sizes = tuple(
        SizeTime(dims={"n": n}, time_us=1.0, baseline_us=2.0, source="modelled", compared=compared)
        for n, compared in (
            (4, Compared(elements=4, compared=4)),
            (8, Compared(elements=8, compared=2, why_not="costly")),
            (16, Compared(elements=16, compared=0, why_not="reference")),
        )
    )
    profile = Profile(device="", hardware="", source="modelled", sizes=sizes)
    assert dict(profile_rows(profile))["timed sizes"] == (
        "every element at 1 of 3; 2 of 8 at n = 8 (a call takes too long to be executed whole); "
        "none at n = 16 (the reference takes too long there)"
    )
    measured = replace(profile, sizes=(MEASURED,))
    assert "timed sizes" not in dict(profile_rows(measured))
