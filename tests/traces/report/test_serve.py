"""Runs of a folder over HTTP: on loopback, read-only, and each page as the files are then."""

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from recorded_run import beginning, ending, write_run
from report_runs import EVIL

from cuda_llm.errors import UsageError
from cuda_llm.traces.report.serve import ReportServer


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A finished run, a killed one and one that is broken."""
    folder = tmp_path / "runs"
    write_run(folder / "first-run", *beginning(), *ending())
    write_run(folder / "second-run", *beginning())
    (folder / "broken-run").mkdir()
    (folder / "broken-run/run.json").write_text("{}")
    (folder / "broken-run/events.jsonl").write_bytes(b"\x00\xff{")
    return folder


@pytest.fixture
def server(runs: Path) -> Iterator[ReportServer]:
    """A server while the test lasts."""
    with ReportServer(runs) as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.02,))
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def ask(
    server: ReportServer, path: str, *, method: str = "GET", host: str | None = None
) -> tuple[int, str]:
    """Status and page."""
    there = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=240)
    named = host if host is not None else f"127.0.0.1:{server.server_port}"
    there.request(method, path, headers={"Host": named})
    answer = there.getresponse()
    text = answer.read().decode()
    there.close()
    return answer.status, text


def test_it_listens_on_loopback_alone(server: ReportServer) -> None:
    assert server.server_address[0] == "127.0.0.1"


def test_all_runs_are_listed_and_linked(server: ReportServer) -> None:
    status, page = ask(server, "/")
    assert status == 200
    assert page.index("second-run") < page.index("/run/first-run")
    assert "3.40x" in page and "matrix_transpose" in page and "broken-run" in page


def test_a_run_is_shown_as_it_is_when_it_is_asked_for(server: ReportServer, runs: Path) -> None:
    assert '"state":"killed"' in ask(server, "/run/second-run")[1]
    write_run(runs / "second-run", *ending())
    assert '"state":"finished"' in ask(server, "/run/second-run")[1]


def test_two_runs_are_compared(server: ReportServer) -> None:
    status, page = ask(server, "/compare?a=first-run&b=second-run")
    assert status == 200 and '"other":' in page


@pytest.mark.parametrize(
    "path",
    [
        "/run/nobody",
        "/run/",
        "/run/..%2f..%2fetc",
        "/run/../second-run",
        "/compare?a=first-run",
        "/compare?a=..&b=first-run",
        "/first-run/run.json",
        "/favicon.ico",
    ],
)
def test_nothing_else_is_there(server: ReportServer, path: str) -> None:
    status, page = ask(server, path)
    assert status == 404
    assert "second-run" not in page


@pytest.mark.parametrize("host", ["example.org", "example.org:80", "", "127.0.0.1.example.org:1"])
def test_a_name_that_points_here_is_not_answered(server: ReportServer, host: str) -> None:
    assert ask(server, "/", host=host)[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed(server: ReportServer, method: str) -> None:
    assert ask(server, "/run/first-run", method=method)[0] == 501


def test_a_name_of_a_run_is_text(server: ReportServer, runs: Path) -> None:
    name = "<img src=x onerror=alert(1)>"
    write_run(runs / name, *beginning())
    assert "<img" not in ask(server, "/")[1]
    assert EVIL not in ask(server, "/")[1]


def test_a_taken_port_is_one_clear_line(server: ReportServer, runs: Path) -> None:
    with pytest.raises(UsageError, match=rf"port {server.server_port}: .*; choose another"):
        ReportServer(runs, server.server_port)


def test_a_person_goes_from_the_list_to_a_run_and_back(
    server: ReportServer, tmp_path: Path
) -> None:
    with Browser(tmp_path) as browser:
        browser.call("Page.navigate", url=server.address)
        browser.wait("document.querySelector('a[href=\"/run/first-run\"]')")
        browser.evaluate("document.querySelector('a[href=\"/run/first-run\"]').click()")
        browser.wait_ready()
        assert browser.evaluate("document.querySelector('#top a').innerText") == "all runs"
        browser.evaluate("document.querySelector('#top a').click()")
        browser.wait("document.querySelector('form button')")
        for name in ("first-run", "second-run"):
            browser.evaluate(f"document.querySelector('input[value={name}]').click()")
        browser.evaluate("document.querySelector('button[formaction=\"/compare\"]').click()")
        browser.wait_ready()
        assert "/compare?run=" in browser.evaluate("location.href")
        assert "Two runs" in browser.evaluate("document.getElementById('view').innerText")
        assert [one for one in browser.errors if "favicon" not in one and "404" not in one] == []
