"""The outcome of a gate as Markdown and JUnit XML holds whatever a kernel is called or says."""

from dataclasses import replace
from xml.etree import ElementTree

from cuda_llm.tools.gate.comparison import compare
from cuda_llm.tools.gate.plan import Accepted
from cuda_llm.tools.gate.recording import RecordedKernel, RecordedSize
from cuda_llm.tools.gate.report import GateReport, junit, lines, markdown

SIZE = RecordedSize(dims={"n": 4096}, speedup=2.0, error=0.02)
PASSED = RecordedKernel(source_sha256="0", verdict="PASSED", sizes=(SIZE,))
WRONG = RecordedKernel(source_sha256="0", verdict="WRONG_RESULT")
REPORT = GateReport(
    device="emulated H200",
    time_source="modelled",
    beside="compared with commit main",
    kernels=(
        compare("add", PASSED, PASSED, Accepted()),
        compare("a|b<c>", PASSED, WRONG, Accepted(), ("wrong: | < \x00 &", "second line")),
    ),
)


def test_junit_has_a_case_for_each_kernel_and_says_why_it_fails() -> None:
    suite = ElementTree.fromstring(junit(REPORT)).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    passed, failed = suite.findall("testcase")
    assert (passed.get("name"), passed.find("failure")) == ("add", None)
    failure = failed.find("failure")
    assert failed.get("name") == "a|b<c>" and failure is not None
    assert failure.get("message") == "WRONG_RESULT, expected PASSED: wrong: | < ? &"
    assert failure.get("type") == "wrong-verdict"
    assert failure.text == f"{failure.get('message')}\nsecond line"


def test_a_cell_of_the_table_stays_a_cell() -> None:
    rows = [row for row in markdown(REPORT).splitlines() if row.startswith("|")]
    assert len({row.replace("\\|", "").count("|") for row in rows}) == 1
    assert "1 of 2 kernels pass on emulated H200 (modelled), compared with commit main" in markdown(
        REPORT
    )


def test_lines_name_the_kernels_that_fail() -> None:
    assert lines(REPORT)[1].startswith("FAILED a|b<c>: WRONG_RESULT, – over the baseline")


def test_a_kernel_that_is_no_longer_named_is_said() -> None:
    assert lines(replace(REPORT, gone=("old",)))[-1].endswith("recorded, but no longer named: old")
